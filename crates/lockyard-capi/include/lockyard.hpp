/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/**
 * Lockyard for C++17: classes with the faces of std::mutex, std::timed_mutex, std::shared_timed_mutex and std::counting_semaphore, which work with
 * std::lock_guard, std::unique_lock, std::shared_lock, std::scoped_lock and std::condition_variable_any.
 *
 *   lockyard::mutex            ly_mutex_t        TimedLockable
 *   lockyard::rtmutex          ly_rtmutex_t      TimedLockable, and checked
 *   lockyard::shared_mutex     ly_rwsem_t        SharedTimedLockable, and downgrade()
 *   lockyard::spinlock         ly_spinlock_t     Lockable
 *   lockyard::hq_spinlock      ly_hq_spinlock_t  Lockable
 *   lockyard::shared_spinlock  ly_qrwlock_t      SharedLockable, and downgrade()
 *   lockyard::semaphore        ly_sem_t
 *   lockyard::lockref          ly_lockref_t      Lockable, with references
 *
 * Constructors are constexpr, destructors trivial: a static one is ready before any code runs, and until the last has run. Nothing throws
 * but rtmutex::lock(), where it could only hang.
 * Guarantees are those of lockyard.h. All of it is inline over the C functions.
 */
#ifndef LOCKYARD_HPP
#define LOCKYARD_HPP

#include "lockyard.h"

#include <chrono>
#include <cstddef>
#include <ctime>
#include <exception>
#include <system_error>

namespace lockyard {

namespace detail {

/** A hundred years: a longer wait is for ever, and would not fit the clock. */
using long_wait = std::chrono::duration<double, std::ratio<std::int64_t{100} * 365 * 24 * 3600>>;

inline struct timespec since_epoch(std::chrono::nanoseconds time) noexcept
{
    struct timespec spec = {};
    if (time.count() > 0) {
        spec.tv_sec = static_cast<std::time_t>(time.count() / 1000000000);
        spec.tv_nsec = static_cast<long>(time.count() % 1000000000);
    }
    return spec;
}

/** Calls `take(clock, abstime)`, a timed acquisition of the C interface, until `timeout` has passed. */
template <class Rep, class Period, class Take>
bool take_for(const std::chrono::duration<Rep, Period>& timeout, Take take) noexcept
{
    using clock = std::chrono::steady_clock;
    const auto now = clock::now().time_since_epoch();
    const auto wait = timeout > long_wait(1) ? std::chrono::ceil<std::chrono::nanoseconds>(long_wait(1))
                                             : std::chrono::ceil<std::chrono::nanoseconds>(timeout);
    const struct timespec end = since_epoch(now + wait);
    return take(CLOCK_MONOTONIC, &end) == 0;
}

template <class Duration, class Take>
bool take_until(const std::chrono::time_point<std::chrono::steady_clock, Duration>& end, Take take) noexcept
{
    const struct timespec spec = since_epoch(std::chrono::ceil<std::chrono::nanoseconds>(end.time_since_epoch()));
    return take(CLOCK_MONOTONIC, &spec) == 0;
}

template <class Duration, class Take>
bool take_until(const std::chrono::time_point<std::chrono::system_clock, Duration>& end, Take take) noexcept
{
    const struct timespec spec = since_epoch(std::chrono::ceil<std::chrono::nanoseconds>(end.time_since_epoch()));
    return take(CLOCK_REALTIME, &spec) == 0;
}

/** Another clock: it may run at another speed, so it has the last word. */
template <class Clock, class Duration, class Take>
bool take_until(const std::chrono::time_point<Clock, Duration>& end, Take take) noexcept
{
    do {
        if (take_for(end - Clock::now(), take)) {
            return true;
        }
    } while (Clock::now() < end);
    return false;
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

} // namespace detail

/** A queued spinlock that sleeps when spinning does not pay. 4 bytes. */
using spinlock = detail::exclusive<ly_spinlock_t, ly_spin_lock, ly_spin_trylock, ly_spin_unlock>;

/** The same, queueing by NUMA node while it is contended from several. 4 bytes. */
using hq_spinlock = detail::exclusive<ly_hq_spinlock_t, ly_hq_spin_lock, ly_hq_spin_trylock, ly_hq_spin_unlock>;

/** A queued reader-writer spinlock for short sections. 8 bytes. */
using shared_spinlock =
    detail::shared<ly_qrwlock_t, ly_qrwlock_write_lock, ly_qrwlock_write_trylock, ly_qrwlock_write_unlock,
                   ly_qrwlock_downgrade_write, ly_qrwlock_read_lock, ly_qrwlock_read_trylock, ly_qrwlock_read_unlock>;

/** A mutex that spins while its owner runs and sleeps otherwise, with bounded unfairness. 32 bytes. */
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
 * A mutex with priority inheritance: its owner runs at the priority of the most urgent thread that waits for it. 24 bytes.
 *
 * lock() throws std::system_error where it could only hang: std::errc::resource_deadlock_would_occur, std::errc::state_not_recoverable (an owner that has
 * ended). Without exceptions it ends the program. lock_checked() and unlock_checked() return what ly_rtmutex_lock and ly_rtmutex_unlock do.
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

/** A reader-writer lock that spins and sleeps as the mutex does; readers and writers have a bound. 32 bytes. */
class shared_mutex : public detail::shared<ly_rwsem_t, ly_rwsem_down_write, ly_rwsem_down_write_trylock, ly_rwsem_up_write,
                                           ly_rwsem_downgrade_write, ly_rwsem_down_read, ly_rwsem_down_read_trylock,
                                           ly_rwsem_up_read> {
    auto take() noexcept
    {
        return [this](int clock, const struct timespec* end) { return ly_rwsem_down_write_clocklock(&raw_, clock, end); };
    }

    auto take_shared() noexcept
    {
        return [this](int clock, const struct timespec* end) { return ly_rwsem_down_read_clocklock(&raw_, clock, end); };
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

    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& timeout) noexcept
    {
        return detail::take_for(timeout, take_shared());
    }

    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration>& end) noexcept
    {
        return detail::take_until(end, take_shared());
    }
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

/** A reference count and a spinlock in 8 bytes. Functions named locked_... are for whoever has locked it. */
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
