//! The C interface, called in any order by one thread: every result is the one that the header
//! promises.
//!
//! Only what would wait for ever is left out: a lock that is held is asked for by a try, or with a
//! deadline that has passed. What breaks the header's rules (unlocking what one has not locked) is
//! left out as well: there is no promise.

#![no_main]

use arbitrary::Arbitrary;
use libc::{EAGAIN, EBUSY, EINVAL, EOVERFLOW, ETIMEDOUT, c_int, timespec};
use libfuzzer_sys::fuzz_target;
use lockyard_capi::layout::{
    ly_hq_spinlock_t, ly_lockref_t, ly_mutex_t, ly_qrwlock_t, ly_rwsem_t, ly_sem_t, ly_spinlock_t,
};
use lockyard_capi::{lockref::*, mutex::*, qrwlock::*, rwsem::*, semaphore::*, spin::*};

/// How a lock is asked for.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Ask {
    /// As long as it takes, if it is free; else a try.
    Wait,
    Try,
    Until(Time),
    By(Clock, Time),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
struct Time {
    sec: i64,
    nsec: i64,
    /// The nanoseconds are as they are, not brought into their range.
    wild: bool,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Clock {
    Realtime,
    Monotonic,
    Other(i32),
}

impl Clock {
    fn number(self) -> c_int {
        match self {
            Self::Realtime => libc::CLOCK_REALTIME,
            Self::Monotonic => libc::CLOCK_MONOTONIC,
            Self::Other(number) => number,
        }
    }

    fn is_known(self) -> bool {
        [libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC].contains(&self.number())
    }
}

impl Time {
    /// A time; in the past if the lock is `held`.
    fn spec(self, held: bool) -> timespec {
        let nsec = if self.wild { self.nsec } else { self.nsec.rem_euclid(1_000_000_000) };
        timespec { tv_sec: if held { self.sec.min(0) } else { self.sec }, tv_nsec: nsec }
    }
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Way {
    Read,
    Write,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Call {
    Mutex(Ask),
    MutexUnlock,
    MutexInit,
    Rwsem(Way, Ask),
    RwsemUnlock,
    RwsemDowngrade,
    RwsemInit,
    Sem(Ask),
    SemPost,
    SemInit(u32),
    Spin { waits: bool },
    SpinUnlock,
    Hq { waits: bool },
    HqUnlock,
    Qrw { way: Way, waits: bool },
    QrwUnlock,
    QrwDowngrade,
    RefInit(u16),
    RefGet,
    RefGetNotZero,
    RefGetNotDead,
    RefPutReturn,
    RefPutOrLock,
    RefLock { waits: bool },
    RefUnlock,
    RefGetLocked,
    RefPutLocked,
    RefMarkDead,
}

/// A lock as it should be: readers, or a writer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum Held {
    #[default]
    No,
    By(u32),
    Write,
}

impl Held {
    fn bars(self, way: Way) -> bool {
        match way {
            Way::Read => self == Self::Write,
            Way::Write => self != Self::No,
        }
    }

    fn take(&mut self, way: Way) {
        *self = match (*self, way) {
            (Self::By(readers), Way::Read) => Self::By(readers + 1),
            (_, Way::Read) => Self::By(1),
            (_, Way::Write) => Self::Write,
        };
    }

    /// Somebody leaves: which way it was held, if it was.
    fn leave(&mut self) -> Option<Way> {
        let (now, way) = match *self {
            Self::No => return None,
            Self::By(1) => (Self::No, Way::Read),
            Self::By(readers) => (Self::By(readers - 1), Way::Read),
            Self::Write => (Self::No, Way::Write),
        };
        *self = now;
        Some(way)
    }
}

/// What asking must return: `barred`, it is held; `busy`, what a try returns then.
fn expected(ask: Ask, barred: bool, busy: c_int) -> c_int {
    let timely = |time: Time| (0..1_000_000_000).contains(&time.spec(barred).tv_nsec);
    match ask {
        _ if !barred => 0,
        Ask::Wait | Ask::Try => busy,
        Ask::By(clock, _) if !clock.is_known() => EINVAL,
        Ask::Until(time) | Ask::By(_, time) if !timely(time) => EINVAL,
        Ask::Until(_) | Ask::By(..) => ETIMEDOUT,
    }
}

/// Asks, by one of four functions of the interface.
macro_rules! ask {
    ($ask:expr, $barred:expr, $lock:expr, $wait:ident, $try:ident, $until:ident, $by:ident) => {
        match $ask {
            Ask::Wait if !$barred => $wait($lock),
            Ask::Wait | Ask::Try => $try($lock),
            Ask::Until(time) => $until($lock, &time.spec($barred)),
            Ask::By(clock, time) => $by($lock, clock.number(), &time.spec($barred)),
        }
    };
}

/// A reference count as it should be.
#[derive(Debug, Default)]
struct Object {
    count: i64,
    dead: bool,
    locked: bool,
}

#[derive(Default)]
struct Should {
    mutex: Held,
    rwsem: Held,
    units: u32,
    spin: Held,
    hq: Held,
    qrw: Held,
    object: Object,
}

fuzz_target!(|calls: Vec<Call>| {
    // SAFETY: all of them are plain integers, and zeros are unlocked locks.
    let mut mutex: ly_mutex_t = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut rwsem: ly_rwsem_t = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut sem: ly_sem_t = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut spin: ly_spinlock_t = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut hq: ly_hq_spinlock_t = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut qrw: ly_qrwlock_t = unsafe { core::mem::zeroed() };
    // SAFETY: as above.
    let mut object: ly_lockref_t = unsafe { core::mem::zeroed() };
    let mut should = Should::default();
    for &call in calls.iter().take(200) {
        // SAFETY: the locks above, and nothing is released that is not held.
        unsafe {
            match call {
                Call::Mutex(ask) => {
                    let barred = should.mutex.bars(Way::Write);
                    let found = ask!(
                        ask,
                        barred,
                        &mut mutex,
                        ly_mutex_lock,
                        ly_mutex_trylock,
                        ly_mutex_timedlock,
                        ly_mutex_clocklock
                    );
                    assert_eq!(found, expected(ask, barred, EBUSY), "{call:?}");
                    if found == 0 {
                        should.mutex.take(Way::Write);
                    }
                }
                Call::MutexUnlock => {
                    if should.mutex.leave().is_some() {
                        assert_eq!(ly_mutex_unlock(&mut mutex), 0);
                    }
                }
                Call::MutexInit => {
                    ly_mutex_init(&mut mutex);
                    should.mutex = Held::No;
                }
                Call::Rwsem(way, ask) => {
                    let barred = should.rwsem.bars(way);
                    let found = match way {
                        Way::Read => ask!(
                            ask,
                            barred,
                            &mut rwsem,
                            ly_rwsem_down_read,
                            ly_rwsem_down_read_trylock,
                            ly_rwsem_down_read_timedlock,
                            ly_rwsem_down_read_clocklock
                        ),
                        Way::Write => ask!(
                            ask,
                            barred,
                            &mut rwsem,
                            ly_rwsem_down_write,
                            ly_rwsem_down_write_trylock,
                            ly_rwsem_down_write_timedlock,
                            ly_rwsem_down_write_clocklock
                        ),
                    };
                    assert_eq!(found, expected(ask, barred, EBUSY), "{call:?}");
                    if found == 0 {
                        should.rwsem.take(way);
                    }
                }
                Call::RwsemUnlock => {
                    let found = should.rwsem.leave().map(|way| match way {
                        Way::Read => ly_rwsem_up_read(&mut rwsem),
                        Way::Write => ly_rwsem_up_write(&mut rwsem),
                    });
                    assert!(found.is_none_or(|code| code == 0));
                }
                Call::RwsemDowngrade => {
                    if should.rwsem == Held::Write {
                        assert_eq!(ly_rwsem_downgrade_write(&mut rwsem), 0);
                        should.rwsem = Held::By(1);
                    }
                }
                Call::RwsemInit => {
                    ly_rwsem_init(&mut rwsem);
                    should.rwsem = Held::No;
                }
                Call::Sem(ask) => {
                    let barred = should.units == 0;
                    let found =
                        ask!(ask, barred, &mut sem, ly_sem_wait, ly_sem_trywait, ly_sem_timedwait, ly_sem_clockwait);
                    assert_eq!(found, expected(ask, barred, EAGAIN), "{call:?}");
                    if found == 0 {
                        should.units -= 1;
                    }
                }
                Call::SemPost => {
                    let full = should.units == MOST_UNITS;
                    assert_eq!(ly_sem_post(&mut sem), if full { EOVERFLOW } else { 0 });
                    should.units += u32::from(!full);
                }
                Call::SemInit(units) => {
                    let fits = units <= MOST_UNITS;
                    assert_eq!(ly_sem_init(&mut sem, units), if fits { 0 } else { EINVAL });
                    if fits {
                        should.units = units;
                    }
                }
                Call::Spin { waits } => {
                    let barred = should.spin != Held::No;
                    let found = if waits && !barred { ly_spin_lock(&mut spin) } else { ly_spin_trylock(&mut spin) };
                    assert_eq!(found, if barred { EBUSY } else { 0 });
                    should.spin = Held::Write;
                }
                Call::SpinUnlock => {
                    if should.spin.leave().is_some() {
                        assert_eq!(ly_spin_unlock(&mut spin), 0);
                    }
                }
                Call::Hq { waits } => {
                    let barred = should.hq != Held::No;
                    let found = if waits && !barred { ly_hq_spin_lock(&mut hq) } else { ly_hq_spin_trylock(&mut hq) };
                    assert_eq!(found, if barred { EBUSY } else { 0 });
                    should.hq = Held::Write;
                }
                Call::HqUnlock => {
                    if should.hq.leave().is_some() {
                        assert_eq!(ly_hq_spin_unlock(&mut hq), 0);
                    }
                }
                Call::Qrw { way, waits } => {
                    let barred = should.qrw.bars(way);
                    let found = match way {
                        Way::Read if waits && !barred => ly_qrwlock_read_lock(&mut qrw),
                        Way::Read => ly_qrwlock_read_trylock(&mut qrw),
                        Way::Write if waits && !barred => ly_qrwlock_write_lock(&mut qrw),
                        Way::Write => ly_qrwlock_write_trylock(&mut qrw),
                    };
                    assert_eq!(found, if barred { EBUSY } else { 0 }, "{call:?}");
                    if !barred {
                        should.qrw.take(way);
                    }
                }
                Call::QrwUnlock => {
                    let found = should.qrw.leave().map(|way| match way {
                        Way::Read => ly_qrwlock_read_unlock(&mut qrw),
                        Way::Write => ly_qrwlock_write_unlock(&mut qrw),
                    });
                    assert!(found.is_none_or(|code| code == 0));
                }
                Call::QrwDowngrade => {
                    if should.qrw == Held::Write {
                        assert_eq!(ly_qrwlock_downgrade_write(&mut qrw), 0);
                        should.qrw = Held::By(1);
                    }
                }
                reference => references(reference, &mut object, &mut should.object),
            }
            assert_eq!(ly_sem_getvalue(&sem), should.units);
            let Object { count, dead, .. } = should.object;
            let found = i64::from(ly_lockref_count(&object));
            assert!(if dead { found < 0 } else { found == count }, "{call:?}: {found}, should be {count}");
        }
    }
});

const MOST_UNITS: u32 = 2_147_483_647;

/// The calls about references.
///
/// # Safety
/// `object` is a lock.
unsafe fn references(call: Call, object: &mut ly_lockref_t, should: &mut Object) {
    let alive = !should.dead;
    // SAFETY: the caller's promise; what needs the lock is only called with it.
    unsafe {
        match call {
            Call::RefInit(count) => {
                ly_lockref_init(object, count);
                *should = Object { count: i64::from(count), ..Object::default() };
            }
            // Under the lock this would wait for the lock.
            Call::RefGet if !should.locked && alive && should.count > 0 => {
                ly_lockref_get(object);
                should.count += 1;
            }
            Call::RefGetNotZero if !should.locked => {
                let had = alive && should.count > 0;
                assert_eq!(ly_lockref_get_not_zero(object), had, "{should:?}");
                should.count += i64::from(had);
            }
            Call::RefGetNotDead if !should.locked => {
                assert_eq!(ly_lockref_get_not_dead(object), alive);
                should.count += i64::from(alive);
            }
            Call::RefPutReturn => {
                let can = alive && should.count > 0 && !should.locked;
                let left = if can { should.count - 1 } else { -1 };
                assert_eq!(i64::from(ly_lockref_put_return(object)), left, "{should:?}");
                should.count -= i64::from(can);
            }
            Call::RefPutOrLock if !should.locked => {
                let can = alive && should.count > 1;
                assert_eq!(ly_lockref_put_or_lock(object), can, "{should:?}");
                should.count -= i64::from(can);
                should.locked = !can;
            }
            Call::RefLock { waits } => {
                let barred = should.locked;
                let found = if waits && !barred { ly_lockref_lock(object) } else { ly_lockref_trylock(object) };
                assert_eq!(found, if barred { EBUSY } else { 0 });
                should.locked = true;
            }
            Call::RefUnlock if should.locked => {
                assert_eq!(ly_lockref_unlock(object), 0);
                should.locked = false;
            }
            Call::RefGetLocked if should.locked && alive => {
                ly_lockref_get_locked(object);
                should.count += 1;
            }
            Call::RefPutLocked if should.locked && alive => {
                let left = (should.count - 1).max(0);
                assert_eq!(i64::from(ly_lockref_put_locked(object)), left, "{should:?}");
                should.count = left;
            }
            Call::RefMarkDead if should.locked => {
                ly_lockref_mark_dead(object);
                should.dead = true;
            }
            _ => {}
        }
    }
}
