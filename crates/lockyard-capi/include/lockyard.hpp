/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * Lockyard for C++17: classes with the faces of std::mutex, std::timed_mutex,
 * std::shared_timed_mutex and std::counting_semaphore, which work with std::lock_guard,
 * std::unique_lock, std::shared_lock, std::scoped_lock and std::condition_variable_any.
 *
 *   lockyard::mutex            ly_mutex_t        TimedLockable
 *   lockyard::condition_variable  ly_cond_t      with std::unique_lock<lockyard::mutex>
 *   lockyard::rtmutex          ly_rtmutex_t      TimedLockable, and checked
 *   lockyard::shared_mutex     ly_rwsem_t        SharedTimedLockable, and downgrade()
 *   lockyard::read_mostly_mutex  ly_read_mostly_t  the same, for locks that hardly anybody writes
 *   lockyard::spinlock         ly_spinlock_t     Lockable
 *   lockyard::hq_spinlock      ly_hq_spinlock_t  Lockable
 *   lockyard::shared_spinlock  ly_qrwlock_t      SharedLockable, and downgrade()
 *   lockyard::semaphore        ly_sem_t
 *   lockyard::lockref          ly_lockref_t      Lockable, with references
 *
 * Constructors are constexpr, destructors trivial (but for read_mostly_mutex, which may be used
 * after it was destroyed at exit): a static one is ready before any code runs, and until the last
 * has run. Nothing throws but rtmutex::lock(), where it could only hang. Timed calls
 * take durations and times of any number type and period. What lies beyond the clock is long past
 * or never: a wait that is negative or not a number does not wait, one of more than a hundred years
 * has no end. Guarantees are those of lockyard.h. All of it is inline over the C functions.
 */
#ifndef LOCKYARD_HPP
#define LOCKYARD_HPP

#include "lockyard.h"

#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <type_traits>

namespace lockyard {

namespace detail {

/**
 * Whole seconds, rounded down, and nanoseconds: what any time of any clock fits into, or is cut off
 * to.
 */
struct span {
    std::int64_t seconds;
    std::int32_t nanos;

    constexpr bool is_over() const noexcept { return seconds < 0 || (seconds == 0 && nanos == 0); }
};

/** Longer than all that is told apart. Two of them can be subtracted. */
constexpr std::int64_t endless = std::int64_t{1} << 61;
/** A hundred years: a longer wait is for ever, and might not fit the clock. */
constexpr std::int64_t long_wait = std::int64_t{100} * 365 * 24 * 3600;
constexpr std::int32_t second_nanos = 1000000000;

/** `whole` and `nanos`, which may be a whole second more. */
constexpr span carried(std::int64_t whole, std::int32_t nanos) noexcept
{
    return nanos < second_nanos ? span{whole, nanos} : span{whole + 1, nanos - second_nanos};
}

/** What is no integer of at most 64 bits. Infinities are cut off; not a number is long past. */
template <class Rep, class Period>
span span_of_real(const std::chrono::duration<Rep, Period>& time, bool up) noexcept
{
    const long double seconds = std::chrono::duration_cast<std::chrono::duration<long double>>(time).count();
    if (!(seconds > -static_cast<long double>(endless))) {
        return {-endless, 0};
    }
    if (seconds >= static_cast<long double>(endless)) {
        return {endless, 0};
    }
    const long double whole = std::floor(seconds);
    const long double nanos = (seconds - whole) * second_nanos;
    return carried(static_cast<std::int64_t>(whole), static_cast<std::int32_t>(up ? std::ceil(nanos) : std::floor(nanos)));
}

/**
 * `time` in nanoseconds, rounded `up` or down, without an overflow on the way: an integer exactly,
 * whatever its period.
 */
template <class Rep, class Period>
span span_of(const std::chrono::duration<Rep, Period>& time, bool up) noexcept
{
#ifdef __SIZEOF_INT128__
    if constexpr (std::is_integral_v<Rep> && sizeof(Rep) <= sizeof(std::uint64_t)) {
        __extension__ using wide = unsigned __int128;
        constexpr wide units = static_cast<wide>(Period::den);
        bool negative = false;
        if constexpr (std::is_signed_v<Rep>) {
            negative = time.count() < 0;
        }
        const auto bits = static_cast<std::uint64_t>(time.count());
        const wide product = static_cast<wide>(negative ? 0 - bits : bits) * static_cast<wide>(Period::num);
        const wide parts = product % units * static_cast<wide>(second_nanos);
        // Of what is negative the size is rounded the other way.
        const bool more = parts % units != 0 && up != negative;
        const wide whole = product / units;
        if (whole >= static_cast<wide>(endless)) {
            return {negative ? -endless : endless, 0};
        }
        const span size = carried(static_cast<std::int64_t>(whole), static_cast<std::int32_t>(parts / units) + (more ? 1 : 0));
        if (!negative) {
            return size;
        }
        return size.nanos == 0 ? span{-size.seconds, 0} : span{-size.seconds - 1, second_nanos - size.nanos};
    }
#endif
    return span_of_real(time, up);
}

/** Before the epoch is over already; what does not fit is never. */
inline struct timespec since_epoch(span time) noexcept
{
    struct timespec spec = {};
    if (time.seconds >= 0) {
        constexpr std::int64_t most = (std::numeric_limits<std::time_t>::max)();
        spec.tv_sec = static_cast<std::time_t>(time.seconds < most ? time.seconds : most);
        spec.tv_nsec = time.nanos;
    }
    return spec;
}

/**
 * Calls `take(clock, abstime)`, a timed acquisition of the C interface, until `wait` has passed:
 * what it returns.
 */
template <class Take>
int take_within(span wait, Take take) noexcept
{
    if (wait.seconds >= long_wait) {
        wait = {long_wait, 0};
    } else if (wait.seconds < 0) {
        wait = {0, 0};
    }
    const span now = span_of(std::chrono::steady_clock::now().time_since_epoch(), false);
    const struct timespec end = since_epoch(carried(now.seconds + wait.seconds, now.nanos + wait.nanos));
    return take(CLOCK_MONOTONIC, &end);
}

template <class Rep, class Period, class Take>
bool take_for(const std::chrono::duration<Rep, Period>& timeout, Take take) noexcept
{
    return take_within(span_of(timeout, true), take) == 0;
}

template <class Duration, class Take>
bool take_until(const std::chrono::time_point<std::chrono::steady_clock, Duration>& end, Take take) noexcept
{
    const struct timespec spec = since_epoch(span_of(end.time_since_epoch(), true));
    return take(CLOCK_MONOTONIC, &spec) == 0;
}

template <class Duration, class Take>
bool take_until(const std::chrono::time_point<std::chrono::system_clock, Duration>& end, Take take) noexcept
{
    const struct timespec spec = since_epoch(span_of(end.time_since_epoch(), true));
    return take(CLOCK_REALTIME, &spec) == 0;
}

/** How long it is until `end`, by its own clock. */
template <class Clock, class Duration>
span left_until(const std::chrono::time_point<Clock, Duration>& end) noexcept
{
    const span then = span_of(end.time_since_epoch(), true);
    const span now = span_of(Clock::now().time_since_epoch(), false);
    const bool borrow = then.nanos < now.nanos;
    return {then.seconds - now.seconds - (borrow ? 1 : 0), then.nanos - now.nanos + (borrow ? second_nanos : 0)};
}

/** Another clock: it may run at another speed, so it has the last word. */
template <class Clock, class Duration, class Take>
bool take_until(const std::chrono::time_point<Clock, Duration>& end, Take take) noexcept
{
    for (span left = left_until(end);;) {
        const int refused = take_within(left, take);
        if (refused == 0) {
            return true;
        }
        left = left_until(end);
        if (refused != ETIMEDOUT || left.is_over()) {
            return false;
        }
    }
}

/** What all have: they stay where they are, and know their C lock. */
template <class Raw>
class holder {
public:
    using native_handle_type = Raw*;

    constexpr holder() noexcept = default;
    holder(const holder&) = delete;
    holder& operator=(const holder&) = delete;

    native_handle_type native_handle() noexcept { return &raw_; }

protected:
    constexpr explicit holder(const Raw& raw) noexcept : raw_(raw) {}

    Raw raw_ = {};
};

template <class Raw, int (*Lock)(Raw*), int (*Try)(Raw*), int (*Unlock)(Raw*)>
class exclusive : public holder<Raw> {
public:
    void lock() noexcept { Lock(&this->raw_); }
    bool try_lock() noexcept { return Try(&this->raw_) == 0; }
    void unlock() noexcept { Unlock(&this->raw_); }
};

template <class Raw, int (*Lock)(Raw*), int (*Try)(Raw*), int (*Unlock)(Raw*), int (*Downgrade)(Raw*),
          int (*LockShared)(Raw*), int (*TryShared)(Raw*), int (*UnlockShared)(Raw*)>
class shared : public exclusive<Raw, Lock, Try, Unlock> {
public:
    void lock_shared() noexcept { LockShared(&this->raw_); }
    bool try_lock_shared() noexcept { return TryShared(&this->raw_) == 0; }
    void unlock_shared() noexcept { UnlockShared(&this->raw_); }

    /** Makes the caller's lock a shared one, in one step: it owes unlock_shared() from then on. */
    void downgrade() noexcept { Downgrade(&this->raw_); }
};

template <class Raw, int (*Lock)(Raw*), int (*Try)(Raw*), int (*Unlock)(Raw*), int (*Downgrade)(Raw*),
          int (*LockShared)(Raw*), int (*TryShared)(Raw*), int (*UnlockShared)(Raw*),
          int (*LockUntil)(Raw*, int, const struct timespec*), int (*LockSharedUntil)(Raw*, int, const struct timespec*)>
class shared_timed : public shared<Raw, Lock, Try, Unlock, Downgrade, LockShared, TryShared, UnlockShared> {
    auto take() noexcept
    {
        return [this](int clock, const struct timespec* end) { return LockUntil(&this->raw_, clock, end); };
    }

    auto take_shared() noexcept
    {
        return [this](int clock, const struct timespec* end) { return LockSharedUntil(&this->raw_, clock, end); };
    }

public:
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period>& timeout) noexcept
    {
        return take_for(timeout, take());
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration>& end) noexcept
    {
        return take_until(end, take());
    }

    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& timeout) noexcept
    {
        return take_for(timeout, take_shared());
    }

    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& end) noexcept
    {
        return take_until(end, take_shared());
    }
};

} // namespace detail

/** A queued spinlock that sleeps when spinning does not pay. 4 bytes. */
using spinlock = detail::exclusive<ly_spinlock_t, ly_spin_lock, ly_spin_trylock, ly_spin_unlock>;

/** The same, queueing by NUMA node while it is contended from several. 4 bytes. */
using hq_spinlock = detail::exclusive<ly_hq_spinlock_t, ly_hq_spin_lock, ly_hq_spin_trylock, ly_hq_spin_unlock>;

/** A queued reader-writer spinlock for short sections. 16 bytes. */
using shared_spinlock =
    detail::shared<ly_qrwlock_t, ly_qrwlock_write_lock, ly_qrwlock_write_trylock, ly_qrwlock_write_unlock,
                   ly_qrwlock_downgrade_write, ly_qrwlock_read_lock, ly_qrwlock_read_trylock, ly_qrwlock_read_unlock>;

/**
 * A mutex that spins while its owner runs and sleeps otherwise, with bounded unfairness. 32 bytes.
 */
class mutex : public detail::exclusive<ly_mutex_t, ly_mutex_lock, ly_mutex_trylock, ly_mutex_unlock> {
    auto take() noexcept
    {
        return [this](int clock, const struct timespec* end) { return ly_mutex_clocklock(&raw_, clock, end); };
    }

public:
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period>& timeout) noexcept
    {
        return detail::take_for(timeout, take());
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration>& end) noexcept
    {
        return detail::take_until(end, take());
    }
};

/**
 * The condition variable of mutex, with the face of std::condition_variable. 8 bytes.
 *
 * Every wait may return without a notification: the forms with a predicate look for themselves. All
 * that wait at the same time must do so with the same mutex. A waiter sleeps until it is notified
 * and the mutex is free: one wake-up.
 */
class condition_variable : public detail::holder<ly_cond_t> {
    using held = std::unique_lock<mutex>;

    auto take(held& lock) noexcept
    {
        return [this, &lock](int clock, const struct timespec* end) {
            return ly_cond_clockwait(&raw_, lock.mutex()->native_handle(), clock, end);
        };
    }

    static std::cv_status status(bool notified) noexcept
    {
        return notified ? std::cv_status::no_timeout : std::cv_status::timeout;
    }

public:
    void notify_one() noexcept { ly_cond_signal(&raw_); }
    void notify_all() noexcept { ly_cond_broadcast(&raw_); }

    void wait(held& lock) noexcept { ly_cond_wait(&raw_, lock.mutex()->native_handle()); }

    template <class Predicate>
    void wait(held& lock, Predicate holds)
    {
        while (!holds()) {
            wait(lock);
        }
    }

    template <class Rep, class Period>
    std::cv_status wait_for(held& lock, const std::chrono::duration<Rep, Period>& timeout) noexcept
    {
        return status(detail::take_for(timeout, take(lock)));
    }

    template <class Duration>
    std::cv_status wait_until(held& lock, const std::chrono::time_point<std::chrono::steady_clock, Duration>& end) noexcept
    {
        return status(detail::take_until(end, take(lock)));
    }

    template <class Duration>
    std::cv_status wait_until(held& lock, const std::chrono::time_point<std::chrono::system_clock, Duration>& end) noexcept
    {
        return status(detail::take_until(end, take(lock)));
    }

    /**
     * Another clock, which may run at another speed: it has the last word. A wait is not begun
     * again here, since what it waits for may have come.
     */
    template <class Clock, class Duration>
    std::cv_status wait_until(held& lock, const std::chrono::time_point<Clock, Duration>& end) noexcept
    {
        return status(detail::take_within(detail::left_until(end), take(lock)) == 0 || !detail::left_until(end).is_over());
    }

    /** Whether the predicate holds: false only after `end`. */
    template <class Clock, class Duration, class Predicate>
    bool wait_until(held& lock, const std::chrono::time_point<Clock, Duration>& end, Predicate holds)
    {
        while (!holds()) {
            if (wait_until(lock, end) == std::cv_status::timeout) {
                return holds();
            }
        }
        return true;
    }

    template <class Rep, class Period, class Predicate>
    bool wait_for(held& lock, const std::chrono::duration<Rep, Period>& timeout, Predicate holds)
    {
        detail::span left = detail::span_of(timeout, true);
        if (left.seconds >= detail::long_wait) {
            wait(lock, holds);
            return true;
        }
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(left.seconds < 0 ? 0 : left.seconds) +
                         std::chrono::nanoseconds(left.seconds < 0 ? 0 : left.nanos);
        return wait_until(lock, end, holds);
    }
};

/**
 * A mutex with priority inheritance: its owner runs at the priority of the most urgent thread that
 * waits for it. 24 bytes.
 *
 * lock() throws std::system_error where it could only hang:
 * std::errc::resource_deadlock_would_occur, std::errc::state_not_recoverable (an owner that has
 * ended). Without exceptions it ends the program. lock_checked() and unlock_checked() return what
 * ly_rtmutex_lock and ly_rtmutex_unlock do.
 */
class rtmutex : public detail::holder<ly_rtmutex_t> {
    auto take() noexcept
    {
        return [this](int clock, const struct timespec* end) { return ly_rtmutex_clocklock(&raw_, clock, end); };
    }

public:
    [[nodiscard]] int lock_checked() noexcept { return ly_rtmutex_lock(&raw_); }
    int unlock_checked() noexcept { return ly_rtmutex_unlock(&raw_); }

    void lock()
    {
        if (const int refused = lock_checked()) {
#ifdef __cpp_exceptions
            throw std::system_error(refused, std::generic_category(), "lockyard::rtmutex");
#else
            std::terminate();
#endif
        }
    }

    bool try_lock() noexcept { return ly_rtmutex_trylock(&raw_) == 0; }
    void unlock() noexcept { unlock_checked(); }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period>& timeout) noexcept
    {
        return detail::take_for(timeout, take());
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration>& end) noexcept
    {
        return detail::take_until(end, take());
    }
};

/**
 * A reader-writer lock that spins and sleeps as the mutex does; readers and writers have a bound.
 * 32 bytes.
 */
class shared_mutex
    : public detail::shared_timed<ly_rwsem_t, ly_rwsem_down_write, ly_rwsem_down_write_trylock, ly_rwsem_up_write,
                                  ly_rwsem_downgrade_write, ly_rwsem_down_read, ly_rwsem_down_read_trylock,
                                  ly_rwsem_up_read, ly_rwsem_down_write_clocklock, ly_rwsem_down_read_clocklock> {
};

/**
 * The same, whose readers write no shared cache line while writers are rare. 192 bytes.
 */
class read_mostly_mutex
    : public detail::shared_timed<ly_read_mostly_t, ly_read_mostly_write_lock, ly_read_mostly_write_trylock,
                                  ly_read_mostly_write_unlock, ly_read_mostly_downgrade_write, ly_read_mostly_read_lock,
                                  ly_read_mostly_read_trylock, ly_read_mostly_read_unlock,
                                  ly_read_mostly_write_clocklock, ly_read_mostly_read_clocklock> {
public:
    constexpr read_mostly_mutex() noexcept = default;
    ~read_mostly_mutex() { ly_read_mostly_destroy(&raw_); }
};

/** A counting semaphore. 24 bytes. Units beyond max() are cut off. */
class semaphore : public detail::holder<ly_sem_t> {
    auto take() noexcept
    {
        return [this](int clock, const struct timespec* end) { return ly_sem_clockwait(&raw_, clock, end); };
    }

public:
    static constexpr std::ptrdiff_t max() noexcept { return LY_SEM_MAX; }

    constexpr explicit semaphore(std::ptrdiff_t units) noexcept
        : holder(ly_sem_t LY_SEM_INIT(units < 0 ? 0 : units > max() ? max() : units))
    {
    }

    void release(std::ptrdiff_t units = 1) noexcept
    {
        while (units-- > 0 && ly_sem_post(&raw_) == 0) {
        }
    }

    void acquire() noexcept { ly_sem_wait(&raw_); }
    bool try_acquire() noexcept { return ly_sem_trywait(&raw_) == 0; }

    template <class Rep, class Period>
    bool try_acquire_for(const std::chrono::duration<Rep, Period>& timeout) noexcept
    {
        return detail::take_for(timeout, take());
    }

    template <class Clock, class Duration>
    bool try_acquire_until(const std::chrono::time_point<Clock, Duration>& end) noexcept
    {
        return detail::take_until(end, take());
    }
};

/** A reference count and a spinlock in 8 bytes. Functions named locked_... are for its owner. */
class lockref : public detail::holder<ly_lockref_t> {
public:
    constexpr explicit lockref(std::uint16_t count = 0) noexcept : holder(ly_lockref_t LY_LOCKREF_INIT(count)) {}

    void get() noexcept { ly_lockref_get(&raw_); }
    bool get_not_zero() noexcept { return ly_lockref_get_not_zero(&raw_); }
    bool get_not_dead() noexcept { return ly_lockref_get_not_dead(&raw_); }
    std::int32_t put_return() noexcept { return ly_lockref_put_return(&raw_); }

    /** false: it was the last reference, is kept, and the caller has the lock. */
    bool put_or_lock() noexcept { return ly_lockref_put_or_lock(&raw_); }

    std::int32_t count() const noexcept { return ly_lockref_count(&raw_); }

    void lock() noexcept { ly_lockref_lock(&raw_); }
    bool try_lock() noexcept { return ly_lockref_trylock(&raw_) == 0; }
    void unlock() noexcept { ly_lockref_unlock(&raw_); }

    void locked_get() noexcept { ly_lockref_get_locked(&raw_); }
    std::uint32_t locked_put() noexcept { return ly_lockref_put_locked(&raw_); }
    void locked_mark_dead() noexcept { ly_lockref_mark_dead(&raw_); }
};

} // namespace lockyard

#endif /* LOCKYARD_HPP */
