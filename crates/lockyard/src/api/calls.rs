//! What the lock calls of users tell: the detector of deadlocks (feature `deadlock`), and
//! statistics (feature `stat`). Without both nothing is left of this, not an instruction. With
//! `stat`, and nobody who listens, one load and a branch each.
//!
//! Statistics are told of a release before it, when a hold that has a time ends, and after it. The
//! detector is told before: see [`deadlock`].

use core::cell::Cell;
use core::convert::Infallible;

use crate::deadlock::{self, Mode};
#[cfg(feature = "stat")]
use crate::platform::watch::{self, Ask, Watcher};
use crate::platform::watch::{Class, Look, Moved};

/// A lock that tells.
pub trait Watched: Look {
    /// The name of its type, at most 16 bytes.
    const KIND: &'static str;
    /// Whether the thread that takes it is the one that releases it. The detector is told of no
    /// other, and statistics of no hold of another.
    const OWNED: bool = false;

    /// Its class in the statistics. `None`: these are not told.
    fn class(&self) -> Option<&Class>;
}

fn kind<L: Watched>() -> deadlock::Kind {
    L::OWNED.then_some(L::KIND)
}

/// Takes `lock` by `wait`; `attempt` takes it if that is possible now.
#[inline(always)]
pub(crate) fn acquire<L: Watched>(lock: &L, mode: Mode, attempt: impl FnOnce() -> bool, wait: impl FnOnce()) {
    let Ok(()) = acquire_or_fail(lock, mode, attempt, || {
        wait();
        Ok::<(), Infallible>(())
    });
}

/// As [`acquire`], where the wait may fail.
#[inline(always)]
pub(crate) fn acquire_or_fail<L: Watched, E>(
    lock: &L,
    mode: Mode,
    attempt: impl FnOnce() -> bool,
    wait: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    #[cfg(feature = "stat")]
    if let Some((watcher, ask)) = told(lock, mode, false) {
        let attempt = || deadlock::attempt(lock, kind::<L>(), mode, attempt());
        // Tried already.
        return take(watcher, &ask, attempt, || deadlock::acquire_or_fail(lock, kind::<L>(), mode, || false, wait));
    }
    deadlock::acquire_or_fail(lock, kind::<L>(), mode, attempt, wait)
}

/// As [`acquire_or_fail`], where the wait ends by itself: no part of a deadlock.
#[inline(always)]
pub(crate) fn acquire_until<L: Watched, E>(
    lock: &L,
    mode: Mode,
    attempt: impl FnOnce() -> bool,
    wait: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    #[cfg(feature = "stat")]
    if let Some((watcher, ask)) = told(lock, mode, true) {
        take(watcher, &ask, attempt, wait)?;
        deadlock::acquired(lock, kind::<L>(), mode);
        return Ok(());
    }
    let _ = attempt;
    wait()?;
    deadlock::acquired(lock, kind::<L>(), mode);
    Ok(())
}

/// Tries to take `lock` by `attempt`.
#[inline(always)]
pub(crate) fn attempt<L: Watched>(lock: &L, mode: Mode, attempt: impl FnOnce() -> bool) -> bool {
    #[cfg(feature = "stat")]
    if let Some((watcher, ask)) = told(lock, mode, true) {
        let taken = try_once(watcher, &ask, attempt);
        return deadlock::attempt(lock, kind::<L>(), mode, taken);
    }
    deadlock::attempt(lock, kind::<L>(), mode, attempt())
}

/// Releases `lock`, held as `mode`, by `release`.
#[inline(always)]
pub(crate) fn release<L: Watched, R>(lock: &L, mode: Mode, release: impl FnOnce() -> R) -> R {
    #[cfg(feature = "stat")]
    let told = lock.class().is_some().then(|| core::ptr::from_ref(lock).addr()).zip(watch::watcher());
    #[cfg(feature = "stat")]
    if let Some((lock, watcher)) = told {
        (watcher.releasing)(lock);
    }
    deadlock::released(lock, kind::<L>(), mode);
    let result = release();
    #[cfg(feature = "stat")]
    if let Some((lock, watcher)) = told {
        (watcher.released)(lock);
    }
    result
}

/// The calling thread holds `lock` as `to`, not as `from`, from now on.
#[inline(always)]
pub(crate) fn changed<L: Watched>(lock: &L, from: Mode, to: Mode) {
    #[cfg(feature = "stat")]
    if let Some((watcher, ask)) = told(lock, to, false) {
        (watcher.released)(ask.lock);
        try_once(watcher, &ask, || true);
    }
    upgraded(lock, from, to);
}

/// The same, where statistics know it already.
#[inline(always)]
pub(crate) fn upgraded<L: Watched>(lock: &L, from: Mode, to: Mode) {
    deadlock::changed(lock, kind::<L>(), from, to);
}

/// The upgradable reader of `lock` becomes the writer by `attempt`, or by `wait`, which ends, if
/// there is one. Whether it does; if not it is the reader that it was.
#[inline(always)]
pub(crate) fn upgrade_until<L: Watched, W: FnOnce() -> bool>(
    lock: &L,
    attempt: impl FnOnce() -> bool,
    wait: Option<W>,
) -> bool {
    #[cfg(feature = "stat")]
    if let Some((watcher, ask)) = told(lock, Mode::Upgrading, true) {
        let upgraded = match wait {
            Some(wait) => take(watcher, &ask, attempt, || wait().then_some(()).ok_or(())).is_ok(),
            None => try_once(watcher, &ask, attempt),
        };
        if !upgraded {
            try_once(watcher, &Ask { shared: true, ..ask }, || true);
        }
        return upgraded;
    }
    let _ = lock;
    wait.map_or_else(attempt, |wait| wait())
}

/// A call in which the calling thread gives up `lock`, a mutex that it holds, and takes it again.
pub(crate) struct Away<'a, L> {
    lock: &'a L,
    #[cfg(feature = "stat")]
    told: Option<(&'static Watcher, Ask<'a>)>,
    /// That it has the mutex again is told.
    is_told: Cell<bool>,
}

/// Runs `wait`, for which the calling thread gives `lock` up, and after which it holds it again.
#[inline(always)]
pub(crate) fn without<L: Watched, R>(lock: &L, wait: impl FnOnce(&Away<'_, L>) -> R) -> R {
    let away = Away {
        lock,
        #[cfg(feature = "stat")]
        told: told(lock, Mode::Exclusive, false),
        is_told: Cell::new(false),
    };
    #[cfg(feature = "stat")]
    if let Some((watcher, ask)) = &away.told {
        (watcher.releasing)(ask.lock);
        (watcher.released)(ask.lock);
        (watcher.idle)(ask);
    }
    deadlock::released(lock, kind::<L>(), Mode::Exclusive);
    let result = wait(&away);
    if !away.is_told.get() {
        #[cfg(feature = "stat")]
        if let Some((watcher, ask)) = &away.told {
            try_once(watcher, ask, || true);
        }
        deadlock::acquired(lock, kind::<L>(), Mode::Exclusive);
    }
    result
}

impl<L: Watched> Away<'_, L> {
    /// The mutex.
    pub(crate) fn lock(&self) -> &L {
        self.lock
    }

    /// Takes the mutex: as [`acquire`].
    pub(crate) fn acquire(&self, attempt: impl FnOnce() -> bool, wait: impl FnOnce()) {
        self.is_told.set(true);
        let (kind, mode) = (kind::<L>(), Mode::Exclusive);
        let wait = || {
            wait();
            Ok::<(), Infallible>(())
        };
        #[cfg(feature = "stat")]
        if let Some((watcher, ask)) = &self.told {
            let attempt = || deadlock::attempt(self.lock, kind, mode, attempt());
            let wait = || deadlock::acquire_or_fail(self.lock, kind, mode, || false, wait);
            let Ok(()) = take(watcher, ask, attempt, wait);
            return;
        }
        let Ok(()) = deadlock::acquire_or_fail(self.lock, kind, mode, attempt, wait);
    }

    /// The thread runs again.
    pub(crate) fn awake(&self) {
        #[cfg(feature = "stat")]
        if let Some((watcher, _)) = &self.told {
            (watcher.awake)();
        }
    }

    /// The thread has the mutex, in whose queue it was since `moment`, asleep.
    pub(crate) fn adopted(&self, moment: u64) {
        self.is_told.set(true);
        #[cfg(feature = "stat")]
        if let Some((watcher, ask)) = &self.told {
            (watcher.moved)(ask, moment);
        }
        let _ = moment;
        deadlock::acquired(self.lock, kind::<L>(), Mode::Exclusive);
    }
}

/// A signal is about to move a waiter into the queue of its mutex.
#[inline]
pub(crate) fn awaited(moved: Moved) {
    #[cfg(feature = "stat")]
    if let Some(watcher) = watch::watcher() {
        (watcher.awaited)(moved);
    }
    let _ = moved;
}

/// What is told of a call for `lock`, and to whom. The caller's code is where this is inlined.
#[cfg(feature = "stat")]
#[inline(always)]
fn told<L: Watched>(lock: &L, mode: Mode, ends: bool) -> Option<(&'static Watcher, Ask<'_>)> {
    let watcher = watch::watcher()?;
    let (class, place) = (lock.class()?, watch::here());
    let shared = matches!(mode, Mode::Shared | Mode::Upgradable);
    let (kind, owned, lock_at) = (L::KIND, L::OWNED, core::ptr::from_ref(lock).addr());
    let ask = Ask { look: lock, class, kind, lock: lock_at, shared, owned, ends, place };
    if mode == Mode::Upgrading {
        // The upgradable read ends where the wait for the write begins.
        (watcher.released)(ask.lock);
    }
    Some((watcher, ask))
}

#[cfg(feature = "stat")]
#[cold]
fn try_once(watcher: &Watcher, ask: &Ask<'_>, attempt: impl FnOnce() -> bool) -> bool {
    let mut attempt = Some(attempt);
    (watcher.attempt)(ask, &mut || attempt.take().is_some_and(|attempt| attempt()))
}

#[cfg(feature = "stat")]
#[cold]
fn take<E>(
    watcher: &Watcher,
    ask: &Ask<'_>,
    attempt: impl FnOnce() -> bool,
    wait: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    let (mut attempt, mut wait, mut result) = (Some(attempt), Some(wait), Ok(()));
    let mut attempt = || attempt.take().is_some_and(|attempt| attempt());
    let mut wait = || {
        result = wait.take().map_or(Ok(()), |wait| wait());
        result.is_ok()
    };
    (watcher.take)(ask, &mut attempt, &mut wait);
    result
}
