// The C++ classes with the standard library's locks: every face, and sums under contention.
#include <lockyard.hpp>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace {

using namespace std::chrono_literals;

void check(bool holds, const char* what, int line)
{
    if (!holds) {
        std::fprintf(stderr, "line %d: %s\n", line, what);
        std::exit(1);
    }
}

#define CHECK(condition) check((condition), #condition, __LINE__)

// Ready before any code runs.
lockyard::mutex guard;
lockyard::semaphore slots{2};

static_assert(sizeof(lockyard::mutex) == 32 && sizeof(lockyard::shared_mutex) == 32 && sizeof(lockyard::semaphore) == 24);
static_assert(sizeof(lockyard::condition_variable) == 8 && std::is_trivially_destructible_v<lockyard::condition_variable>);
static_assert(sizeof(lockyard::rtmutex) == 24 && std::is_trivially_destructible_v<lockyard::rtmutex>);
static_assert(sizeof(lockyard::spinlock) == 4 && sizeof(lockyard::hq_spinlock) == 4);
static_assert(sizeof(lockyard::read_mostly_mutex) == 192 && !std::is_trivially_destructible_v<lockyard::read_mostly_mutex>);
static_assert(sizeof(lockyard::shared_spinlock) == 16 && sizeof(lockyard::lockref) == 8);
static_assert(std::is_trivially_destructible_v<lockyard::mutex> && !std::is_copy_constructible_v<lockyard::mutex>);

// A clock of the user's own: half as fast as the steady one.
struct slow_clock {
    using rep = std::int64_t;
    using period = std::nano;
    using duration = std::chrono::nanoseconds;
    using time_point = std::chrono::time_point<slow_clock>;
    [[maybe_unused]] static constexpr bool is_steady = true;

    static time_point now() noexcept { return time_point(std::chrono::steady_clock::now().time_since_epoch() / 2); }
};

template <class Timed>
void timed(Timed& lock)
{
    std::unique_lock<Timed> held(lock);
    std::thread([&lock] {
        CHECK(!lock.try_lock());
        CHECK(!lock.try_lock_for(1ms));
        CHECK(!lock.try_lock_for(-1h));
        CHECK(!lock.try_lock_until(std::chrono::steady_clock::now()));
        CHECK(!lock.try_lock_until(std::chrono::system_clock::now() + 1ms));
        CHECK(!lock.try_lock_until(slow_clock::now() + 1ms));
    }).join();
    held.unlock();
    CHECK(held.try_lock_for(std::chrono::hours::max()));
    held.unlock();
    CHECK(held.try_lock_until(slow_clock::now() + 1h));
}

template <class Shared>
void shared_timed(Shared& lock)
{
    std::shared_lock<Shared> reading(lock);
    std::thread([&lock] {
        std::shared_lock<Shared> also(lock, 1ms);
        CHECK(also.owns_lock() && !lock.try_lock_for(1ms));
    }).join();
    reading.unlock();
    lock.lock();
    std::thread([&lock] { CHECK(!lock.try_lock_shared_for(1ms) && !lock.try_lock_shared_until(slow_clock::now())); }).join();
    lock.downgrade();
    CHECK(lock.try_lock_shared_until(std::chrono::steady_clock::now()));
    lock.unlock_shared();
    lock.unlock_shared();
}

// What could only hang is an exception, and a number for those who ask for it.
void checked()
{
    lockyard::rtmutex lock;
    CHECK(lock.lock_checked() == 0 && lock.lock_checked() == EDEADLK && !lock.try_lock_for(1ms));
    bool thrown = false;
    try {
        lock.lock();
    } catch (const std::system_error& error) {
        thrown = error.code() == std::errc::resource_deadlock_would_occur;
    }
    CHECK(thrown);
    std::thread([&lock] { CHECK(lock.unlock_checked() == EPERM && !lock.try_lock()); }).join();
    lock.unlock();
    CHECK(lock.unlock_checked() == EPERM);
}

void semaphores()
{
    slots.acquire();
    CHECK(slots.try_acquire() && !slots.try_acquire() && !slots.try_acquire_for(1ms));
    CHECK(!slots.try_acquire_until(std::chrono::system_clock::now()));
    slots.release(2);
    CHECK(ly_sem_getvalue(slots.native_handle()) == 2);
}

void references()
{
    lockyard::lockref object(1);
    CHECK(object.get_not_zero() && object.get_not_dead() && object.count() == 3);
    CHECK(object.put_or_lock() && object.put_or_lock() && !object.put_or_lock());
    CHECK(!object.try_lock() && object.locked_put() == 0);
    object.locked_mark_dead();
    object.unlock();
    std::lock_guard<lockyard::lockref> held(object);
    CHECK(object.count() < 0);
}

// A queue with a condition variable: the standard library's lets the mutex go and takes it, ours
// moves the waiter.
template <class Condition>
long passed_on()
{
    Condition ready;
    std::vector<int> queue;
    long sum = 0;
    std::thread consumer([&] {
        std::unique_lock<lockyard::mutex> held(guard);
        for (int taken = 0; taken < 1000; taken++) {
            ready.wait(held, [&] { return !queue.empty(); });
            sum += queue.back();
            queue.pop_back();
        }
    });
    for (int item = 0; item < 1000; item++) {
        { std::lock_guard<lockyard::mutex> held(guard); queue.push_back(item); }
        ready.notify_one();
    }
    consumer.join();
    return sum;
}

void conditions()
{
    lockyard::condition_variable changed;
    bool ready = false;
    const auto is_ready = [&] { return ready; };
    std::unique_lock<lockyard::mutex> held(guard);
    CHECK(changed.wait_for(held, 1ms) == std::cv_status::timeout && held.owns_lock());
    CHECK(changed.wait_for(held, -1h) == std::cv_status::timeout);
    CHECK(changed.wait_until(held, std::chrono::steady_clock::now()) == std::cv_status::timeout);
    CHECK(changed.wait_until(held, std::chrono::system_clock::now() + 1ms) == std::cv_status::timeout);
    CHECK(!changed.wait_until(held, slow_clock::now() + 1ms, is_ready) && !changed.wait_for(held, 1ms, is_ready));
    for (int way = 0; way < 4; way++) {
        ready = false;
        std::thread other([&] {
            std::lock_guard<lockyard::mutex> now(guard);
            ready = true;
            changed.notify_all();
        });
        switch (way) {
        case 0: changed.wait(held, is_ready); break;
        case 1: CHECK(changed.wait_for(held, std::chrono::hours::max(), is_ready)); break;
        case 2: CHECK(changed.wait_for(held, 1h, is_ready)); break;
        default: CHECK(changed.wait_until(held, slow_clock::now() + 1h, is_ready)); break;
        }
        CHECK(held.owns_lock() && ready);
        held.unlock();
        other.join();
        held.lock();
    }
}

template <class Exclusive, class Shared>
void contended()
{
    Exclusive first, second;
    Shared table_lock;
    std::map<int, std::string> table;
    long both = 0;
    std::vector<std::thread> threads;
    for (int id = 0; id < 4; id++) {
        threads.emplace_back([&, id] {
            for (int round = 0; round < 2000; round++) {
                if (round % 2 == 0) {
                    std::scoped_lock held(first, second);
                    both++;
                } else {
                    std::scoped_lock held(second, first);
                    both++;
                }
                if (round % 10 == 0) {
                    std::unique_lock<Shared> held(table_lock);
                    table[id * 2000 + round] = std::to_string(round);
                } else {
                    std::shared_lock<Shared> held(table_lock);
                    auto found = table.find(id * 2000 + round / 10 * 10);
                    check(found != table.end() && found->second == std::to_string(round / 10 * 10), "an entry", __LINE__);
                }
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    CHECK(both == 8000 && table.size() == 800);
}

} // namespace

int main()
{
    lockyard::shared_mutex shared;
    timed(guard);
    timed(shared);
    lockyard::rtmutex inheriting;
    timed(inheriting);
    checked();
    shared_timed(shared);
    lockyard::read_mostly_mutex mostly;
    timed(mostly);
    shared_timed(mostly);
    semaphores();
    references();
    CHECK(passed_on<std::condition_variable_any>() == 499500 && passed_on<lockyard::condition_variable>() == 499500);
    conditions();
    contended<lockyard::mutex, lockyard::shared_mutex>();
    contended<lockyard::spinlock, lockyard::shared_spinlock>();
    contended<lockyard::rtmutex, lockyard::shared_mutex>();
    contended<lockyard::hq_spinlock, lockyard::read_mostly_mutex>();
    std::puts("as the standard says");
    return 0;
}
