// Deadlines of the C++ classes: every kind of number, period and clock, at the ends of their ranges
// and in between.
#include <lockyard.hpp>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <thread>

namespace {

using namespace std::chrono;
using namespace std::chrono_literals;

void check(bool holds, const char* what, int line)
{
    if (!holds) {
        std::fprintf(stderr, "line %d: %s\n", line, what);
        std::exit(1);
    }
}

#define CHECK(condition) check((condition), #condition, __LINE__)

using century = std::ratio<3155760000>;
using age = std::ratio<std::numeric_limits<std::intmax_t>::max()>;
using blink = std::ratio<1, std::numeric_limits<std::intmax_t>::max()>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
constexpr auto far = std::int64_t{1} << 60;

// A clock of the user's own that stands still, at any time of any duration.
template <class Duration, int Now>
struct still_clock {
    using duration = Duration;
    using rep = typename duration::rep;
    using period = typename duration::period;
    using time_point = std::chrono::time_point<still_clock>;
    [[maybe_unused]] static constexpr bool is_steady = true;

    static time_point now() noexcept
    {
        return Now < 0 ? time_point::min() : Now > 0 ? time_point::max() : time_point(duration(static_cast<rep>(7)));
    }
};

using ns_clock = still_clock<nanoseconds, 0>;

// An acquisition that tells what it is asked for, and ends as it is told.
struct asked {
    int result = ETIMEDOUT;
    int calls = 0;
    int clock = -1;
    struct timespec end = {};

    auto take()
    {
        return [this](int on, const struct timespec* at) {
            calls++;
            clock = on;
            end = *at;
            return result;
        };
    }
};

template <class Duration>
bool until(Duration time, std::int64_t seconds, long nanos)
{
    asked wall, steady;
    CHECK(!lockyard::detail::take_until(time_point<system_clock, Duration>(time), wall.take()));
    CHECK(!lockyard::detail::take_until(time_point<steady_clock, Duration>(time), steady.take()));
    CHECK(wall.calls == 1 && wall.clock == CLOCK_REALTIME && steady.calls == 1 && steady.clock == CLOCK_MONOTONIC);
    CHECK(wall.end.tv_sec == steady.end.tv_sec && wall.end.tv_nsec == steady.end.tv_nsec);
    const bool ends = seconds == far ? wall.end.tv_sec >= far : wall.end.tv_sec == seconds;
    return ends && wall.end.tv_nsec == nanos;
}

// What is written into the C interface, to the nanosecond.
void moments()
{
    CHECK(until(seconds(-1), 0, 0) && until(nanoseconds(-1), 0, 0) && until(nanoseconds(0), 0, 0));
    CHECK(until(nanoseconds(1000000001), 1, 1) && until(seconds(13569465600), 13569465600, 0));
    CHECK(until(nanoseconds::max(), 9223372036, 854775807) && until(nanoseconds::min(), 0, 0));
    CHECK(until(seconds::max(), far, 0) && until(hours::max(), far, 0) && until(hours(400 * 365 * 24), 12614400000, 0));
    CHECK(until(seconds::min(), 0, 0) && until(hours::min(), 0, 0) && until(seconds(-10000000000), 0, 0));
    CHECK(until(duration<unsigned>(~0U), 4294967295, 0) && until(duration<std::uint64_t>::max(), far, 0));
    CHECK(until(duration<std::uint64_t, std::nano>::max(), 18446744073, 709551615));
    CHECK(until(duration<std::uint64_t, std::femto>::max(), 18446, 744073710));
    CHECK(until(duration<std::int64_t, std::femto>(1), 0, 1) && until(duration<std::int64_t, std::femto>(-1), 0, 0));
    CHECK(until(duration<std::int64_t, std::atto>(1000000001), 0, 2) && until(duration<std::int64_t, blink>::max(), 1, 0));
    CHECK(until(duration<std::uint8_t, std::ratio<3600>>(255), 918000, 0));
    CHECK(until(duration<std::int8_t, std::milli>(127), 0, 127000000) && until(duration<std::int8_t>(-128), 0, 0));
    CHECK(until(duration<bool>(true), 1, 0) && until(duration<char, century>(2), 6311520000, 0));
    CHECK(until(duration<short, century>::max(), 103404787920000, 0));
    CHECK(until(duration<std::int64_t, century>::max(), far, 0) && until(duration<std::int64_t, century>::min(), 0, 0));
    CHECK(until(duration<std::int64_t, age>(1), far, 0) && until(duration<std::uint64_t, age>::max(), far, 0));
    CHECK(until(duration<int, std::ratio<1, 3>>(1), 0, 333333334) && until(duration<int, std::ratio<2, 3>>(3), 2, 0));
    CHECK(until(duration<double>(1.5), 1, 500000000) && until(duration<float, std::milli>(1500), 1, 500000000));
    CHECK(until(duration<double>(1e-300), 0, 1) && until(duration<double>(1e300), far, 0));
    CHECK(until(duration<double>(-1e300), 0, 0) && until(duration<float>(-1), 0, 0));
    CHECK(until(duration<double>(infinity), far, 0) && until(duration<double, century>(-infinity), 0, 0));
    CHECK(until(duration<double>(no_number), 0, 0) && until(duration<long double, std::nano>::max(), far, 0));
    CHECK(until(duration<double>(0.9999999999), 1, 0) && until(duration<double, age>(1.0), far, 0));
}

template <class Duration>
bool within(Duration time, std::int64_t seconds)
{
    asked by;
    const auto clock = [] { return duration_cast<std::chrono::seconds>(steady_clock::now().time_since_epoch()).count(); };
    const std::int64_t before = clock();
    CHECK(!lockyard::detail::take_for(time, by.take()) && by.calls == 1 && by.clock == CLOCK_MONOTONIC);
    return by.end.tv_sec >= before + seconds && by.end.tv_sec <= clock() + seconds + 1;
}

void lengths()
{
    const auto years = std::int64_t{100} * 365 * 24 * 3600;
    CHECK(within(0s, 0) && within(1h, 3600) && within(-1h, 0) && within(1500ms, 1) && within(24h * 365, 31536000));
    CHECK(within(hours::min(), 0) && within(seconds::min(), 0) && within(seconds(-10000000000), 0));
    CHECK(within(hours::max(), years) && within(seconds::max(), years) && within(nanoseconds::max(), years));
    CHECK(within(duration<std::uint64_t>::max(), years) && within(duration<std::uint8_t>(200), 200));
    CHECK(within(duration<std::uint8_t, century>(200), years) && within(duration<std::int8_t, century>(-1), 0));
    CHECK(within(duration<std::int64_t, std::femto>::max(), 9223) && within(duration<std::int64_t, std::femto>::min(), 0));
    CHECK(within(duration<double>(infinity), years) && within(duration<double>(-infinity), 0));
    CHECK(within(duration<double>(no_number), 0) && within(duration<float, std::ratio<60>>(2), 120));
    CHECK(within(duration<double>(-1e300), 0) && within(duration<long double>(1e300L), years));
}

// A clock that stands still: a deadline ahead of it never comes, so the acquisition has to end the
// wait.
template <class Clock, class Duration>
bool other(Duration end, bool ahead)
{
    asked late, taken{0}, refused{EDEADLK};
    const std::chrono::time_point<Clock, Duration> point(end);
    CHECK(lockyard::detail::take_until(point, taken.take()) && taken.calls == 1 && taken.clock == CLOCK_MONOTONIC);
    CHECK(!lockyard::detail::take_until(point, refused.take()) && refused.calls == 1);
    if (ahead) {
        return taken.end.tv_sec > duration_cast<seconds>(steady_clock::now().time_since_epoch()).count() + 1000;
    }
    CHECK(!lockyard::detail::take_until(point, late.take()) && late.calls == 1);
    return taken.end.tv_sec <= duration_cast<seconds>(steady_clock::now().time_since_epoch()).count();
}

void clocks()
{
    CHECK(other<ns_clock>(nanoseconds::max(), true) && other<ns_clock>(nanoseconds::min(), false));
    CHECK(other<ns_clock>(nanoseconds(7), false) && other<ns_clock>(hours(1), true));
    CHECK(other<ns_clock>(hours::max(), true) && other<ns_clock>(hours::min(), false));
    CHECK(other<ns_clock>(duration<double>(infinity), true) && other<ns_clock>(duration<double>(no_number), false));
    CHECK(other<ns_clock>(duration<std::uint64_t, century>::max(), true) && other<ns_clock>(duration<std::uint8_t>(0), false));
    using first = still_clock<nanoseconds, -1>;
    using last = still_clock<nanoseconds, 1>;
    CHECK(other<first>(nanoseconds::max(), true) && other<first>(nanoseconds(0), true) && other<first>(hours::min(), false));
    CHECK(other<last>(nanoseconds::max(), false) && other<last>(nanoseconds::min(), false) && other<last>(hours::max(), true));
    using ages = still_clock<duration<std::int64_t, age>, -1>;
    CHECK(other<ages>(duration<std::int64_t, age>::max(), true) && other<ages>(duration<std::int64_t, age>::min(), false));
    using unsigned_clock = still_clock<duration<std::uint64_t, std::milli>, 0>;
    CHECK(other<unsigned_clock>(0s, false) && other<unsigned_clock>(hours::max(), true));
    using real_clock = still_clock<duration<double>, 0>;
    CHECK(other<real_clock>(duration<double>(6), false) && other<real_clock>(duration<double>(infinity), true));
}

// A timed call of a class, with deadlines at both ends: what is free is taken, even when it is
// late; what is not is given up at once when it is.
template <class Try, class Give>
void far_and_past(Try try_it, Give give, bool free)
{
    const auto one = [&](bool taken) {
        CHECK(taken == free);
        if (taken) {
            give();
        }
    };
    one(try_it(hours::min()));
    one(try_it(seconds(-10000000000)));
    one(try_it(duration<double>(no_number)));
    one(try_it(duration<std::int8_t, century>(-128)));
    one(try_it(duration<double>(-1e300)));
    if (free) {
        one(try_it(hours::max()));
        one(try_it(duration<double>(infinity)));
        one(try_it(duration<std::uint8_t, century>(255)));
        one(try_it(duration<std::uint64_t, std::femto>::max()));
    }
}

// By every timed call, with a wait of `time` or a deadline that lies where it does.
#define EVERY(check, lock, until_call, for_call, give, free)                                                                 \
    check([&](auto time) { return (lock).for_call(time); }, give, free);                                                     \
    check([&](auto time) { return (lock).until_call(std::chrono::time_point<steady_clock, decltype(time)>(time)); }, give, free); \
    check([&](auto time) { return (lock).until_call(std::chrono::time_point<system_clock, decltype(time)>(time)); }, give, free); \
    check([&](auto time) { return (lock).until_call(std::chrono::time_point<ns_clock, decltype(time)>(time)); }, give, free)

// Somebody waits without an end for what this thread has, and gets it.
template <class Try, class Give, class Release>
void waits_for_ever(Try try_it, Give give, Release release)
{
    std::atomic<bool> comes{false};
    std::thread waiter([&] {
        comes = true;
        CHECK(try_it());
        give();
    });
    while (!comes) {
        std::this_thread::yield();
    }
    release();
    waiter.join();
}

template <class Timed>
void exclusive()
{
    Timed lock;
    const auto give = [&] { lock.unlock(); };
    EVERY(far_and_past, lock, try_lock_until, try_lock_for, give, true);
    lock.lock();
    std::thread([&] { EVERY(far_and_past, lock, try_lock_until, try_lock_for, give, false); }).join();
    waits_for_ever([&] { return lock.try_lock_for(hours::max()); }, give, give);
    lock.lock();
    waits_for_ever([&] { return lock.try_lock_until(time_point<steady_clock, hours>::max()); }, give, give);
    lock.lock();
    waits_for_ever([&] { return lock.try_lock_until(time_point<system_clock, seconds>::max()); }, give, give);
    lock.lock();
    waits_for_ever([&] { return lock.try_lock_until(ns_clock::time_point::max()); }, give, give);
}

template <class Shared>
void shared()
{
    Shared lock;
    const auto give = [&] { lock.unlock_shared(); };
    EVERY(far_and_past, lock, try_lock_shared_until, try_lock_shared_for, give, true);
    lock.lock();
    std::thread([&] { EVERY(far_and_past, lock, try_lock_shared_until, try_lock_shared_for, give, false); }).join();
    waits_for_ever([&] { return lock.try_lock_shared_until(time_point<steady_clock, hours>::max()); }, give,
                   [&] { lock.unlock(); });
}

void semaphore()
{
    lockyard::semaphore units(1);
    const auto give = [&] { units.release(); };
    EVERY(far_and_past, units, try_acquire_until, try_acquire_for, give, true);
    units.acquire();
    EVERY(far_and_past, units, try_acquire_until, try_acquire_for, give, false);
    waits_for_ever([&] { return units.try_acquire_until(time_point<steady_clock, hours>::max()); }, give, give);
}

// Who has locked it already is told so, and not at the deadline of a clock that stands still.
void own_lock()
{
    lockyard::rtmutex lock;
    lock.lock();
    CHECK(!lock.try_lock_until(ns_clock::time_point::max()) && !lock.try_lock_for(hours::max()));
    lock.unlock();
}

} // namespace

int main()
{
    moments();
    lengths();
    clocks();
    exclusive<lockyard::mutex>();
    exclusive<lockyard::rtmutex>();
    exclusive<lockyard::shared_mutex>();
    shared<lockyard::shared_mutex>();
    shared<lockyard::read_mostly_mutex>();
    semaphore();
    own_lock();
    std::puts("each in its time");
    return 0;
}
