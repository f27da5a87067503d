//! What the locks do, for `lockyard stat`: every way into a lock goes through `take`, `attempt` or
//! `wait`, every way out through `give`.
//!
//! Unless somebody watches, that is one load and a branch, and then the lock's own path. See
//! [`lockyard_segment`].

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lockyard_segment::places::Object;
use lockyard_segment::tape;
use lockyard_segment::{self as segment, Caller, Class, Holder};

use crate::site::Site;

/// A kind of lock.
#[derive(Debug)]
pub(crate) struct Kind {
    name: &'static [u8],
    /// Who holds the lock at an address.
    holder: unsafe fn(usize) -> Holder,
    /// Whether threads wait for it; `None`: it does not tell.
    queued: unsafe fn(usize) -> Option<bool>,
    /// The class of locks that have none of their own.
    class: AtomicU32,
}

/// For locks that do not know who holds them.
pub(crate) unsafe fn unknown(_lock: usize) -> Holder {
    Holder::Unknown
}

/// For locks that do not know whether threads wait for them.
pub(crate) unsafe fn untold(_lock: usize) -> Option<bool> {
    None
}

/// For locks that are held by the threads that have noted it.
pub(crate) unsafe fn noted(_lock: usize) -> Holder {
    Holder::Readers
}

/// Whether threads wait for the lock of type `$lock` at an address: its method `$asked`.
macro_rules! queued {
    ($lock:ty, $asked:ident) => {{
        unsafe fn queued(lock: usize) -> Option<bool> {
            let lock = core::ptr::with_exposed_provenance_mut::<$lock>(lock);
            // SAFETY: the caller's promise: it is there.
            Some(unsafe { $crate::layout::Holds::lock(lock) }.$asked())
        }
        queued
    }};
}
pub(crate) use queued;

impl Kind {
    /// `holder` and `queued` are asked of locks that are there, of this kind.
    pub(crate) const fn new(
        name: &'static str,
        holder: unsafe fn(usize) -> Holder,
        queued: unsafe fn(usize) -> Option<bool>,
    ) -> Self {
        Self { name: name.as_bytes(), holder, queued, class: AtomicU32::new(0) }
    }

    /// The calling thread has taken the lock at `lock`, and did not wait.
    fn acquired(&self, caller: Caller, lock: usize) {
        // SAFETY: the thread has the lock.
        if unsafe { (self.queued)(lock) } == Some(true) {
            segment::acquired_past_others(caller, lock);
        } else {
            segment::acquired(caller, lock);
        }
    }

    /// A wait for the lock at `lock` has ended with it.
    fn got(&self, waiting: segment::Waiting, lock: usize) {
        // SAFETY: the thread has the lock.
        if unsafe { (self.queued)(lock) } == Some(false) {
            waiting.got_last();
        } else {
            waiting.got();
        }
    }

    /// The calling thread begins to wait for the lock with class word `place`, at `lock`.
    fn contended(&self, place: Place, lock: usize) -> segment::Waiting {
        // SAFETY: the caller of a lock call waits for a lock of this kind.
        let holder = unsafe { (self.holder)(lock) };
        segment::contended_by(self.caller(place), lock, holder)
    }

    /// What is told of a call for the lock with class word `place`.
    fn caller(&self, place: Place) -> Caller {
        let caller = Caller::new(self.class(place), place.site.known().unwrap_or(0));
        if place.shared { caller.shared() } else { caller }
    }

    /// The class that a lock names, or gets now.
    fn class(&self, place: Place) -> Class {
        match place.raw() {
            0 => self.first(place),
            raw => Class::from_raw(raw),
        }
    }

    /// The class of a lock that has none: the code that takes or tries it first while it is
    /// watched, where the lock has a place to keep that, and there is room; else its kind.
    fn first(&self, place: Place) -> Class {
        let Some(word) = place.word() else { return self.nameless() };
        let at = place.site.known().map(|site| segment::class_at(self.name, site));
        let class = at.filter(|class| *class != Class::NONE).unwrap_or_else(|| self.nameless());
        match settle(word, class) {
            Ok(()) => {
                segment::joined(class);
                class
            }
            Err(given) => given,
        }
    }

    fn nameless(&self) -> Class {
        match self.class.load(Relaxed) {
            0 => {
                let class = segment::class(self.name, b"", 0);
                settle(&self.class, class).map_or_else(|given| given, |()| class)
            }
            own => Class::from_raw(own),
        }
    }

    /// Gives the lock whose class word is at `place` the class `name`. `ENOSPC`: there are too
    /// many.
    ///
    /// # Safety
    /// `place` points to a word that only this module uses, `name` to a text.
    pub(crate) unsafe fn set(&self, place: *mut u32, name: *const c_char) -> c_int {
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) };
        let class = segment::class(self.name, name.to_bytes(), 0);
        // SAFETY: the caller's promise.
        unsafe { word(place) }.store(class.kept(), Relaxed);
        segment::joined(class);
        if class == Class::NONE { libc::ENOSPC } else { 0 }
    }
}

/// Gives a lock, or locks, with this class word `class`, unless another thread has given them one
/// meanwhile, which is the error: a lock whose class changed would be recorded as two.
fn settle(word: &AtomicU32, class: Class) -> Result<(), Class> {
    word.compare_exchange(0, class.kept(), Relaxed, Relaxed).map(|_| ()).map_err(Class::from_raw)
}

unsafe fn word<'a>(place: *mut u32) -> &'a AtomicU32 {
    // SAFETY: the caller's promise: a word of a lock, aligned, and used by this module only.
    unsafe { AtomicU32::from_ptr(place) }
}

/// The class word of a lock, or none, how the lock is wanted, and where.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    word: *mut u32,
    shared: bool,
    site: Site,
}

impl Place {
    pub(crate) const NONE: Self = Self { word: core::ptr::null_mut(), shared: false, site: Site::UNWATCHED };

    /// # Safety
    /// `place` points to a word that only this module uses.
    pub(crate) const unsafe fn new(place: *mut u32) -> Self {
        Self { word: place, shared: false, site: Site::UNWATCHED }
    }

    /// The same, for a call that was made at `site`.
    pub(crate) const fn at(self, site: Site) -> Self {
        Self { site, ..self }
    }

    /// The same, for a call that shares the lock.
    pub(crate) const fn shared(self) -> Self {
        Self { shared: true, ..self }
    }

    fn is_watched(self) -> bool {
        self.site != Site::UNWATCHED
    }

    fn word<'a>(self) -> Option<&'a AtomicU32> {
        // SAFETY: `new`'s promise.
        (!self.word.is_null()).then(|| unsafe { word(self.word) })
    }

    fn raw(self) -> u32 {
        self.word().map_or(0, |word| word.load(Relaxed))
    }
}

/// The calling thread does `what` with `object`, for a recorder.
#[inline(always)]
pub(crate) fn tell(object: Object, what: tape::Kind) {
    #[cold]
    fn tell(object: Object, what: tape::Kind) {
        if let Some(page) = segment::page_so_far() {
            object.tell_on(page, what);
        }
    }
    if segment::watched() {
        tell(object, what);
    }
}

/// Takes the lock at `lock` with `acquire`; `attempt` is the try that needs no wait.
#[inline(always)]
pub(crate) fn take<T>(kind: &Kind, place: Place, lock: *mut T, attempt: impl FnOnce() -> bool, acquire: impl FnOnce()) {
    if place.is_watched() {
        told(kind, place, lock.expose_provenance(), attempt, acquire);
    } else {
        acquire();
    }
}

#[cold]
fn told(kind: &Kind, place: Place, lock: usize, attempt: impl FnOnce() -> bool, acquire: impl FnOnce()) {
    let caller = known(kind, place);
    if attempt() {
        kind.acquired(caller, lock);
    } else {
        let waiting = kind.contended(place, lock);
        acquire();
        kind.got(waiting, lock);
    }
}

/// What is told of a call, before it takes the lock: a class that is made is not made under the
/// lock. The calling thread has a page from here on, and so a record: a lock that it takes names it
/// as the owner, even if it is the thread's first.
fn known(kind: &Kind, place: Place) -> Caller {
    segment::page();
    kind.caller(place)
}

/// Takes the lock at `lock` if `attempt` does; else `code`, and the call does without it.
#[inline(always)]
pub(crate) fn attempt<T>(
    kind: &Kind,
    place: Place,
    lock: *mut T,
    attempt: impl FnOnce() -> bool,
    code: c_int,
) -> c_int {
    if at_once(kind, place, lock, attempt) {
        return 0;
    }
    if place.is_watched() {
        segment::refused(kind.caller(place), lock.addr());
    }
    code
}

/// Takes the lock at `lock` if `attempt` does; else the call goes on to wait for it.
#[inline(always)]
pub(crate) fn at_once<T>(kind: &Kind, place: Place, lock: *mut T, attempt: impl FnOnce() -> bool) -> bool {
    let caller = place.is_watched().then(|| known(kind, place));
    let taken = attempt();
    if taken && let Some(caller) = caller {
        kind.acquired(caller, lock.expose_provenance());
    }
    taken
}

/// The calling thread gives up the lock at `lock`, and sleeps until others put it into its queue,
/// or wake it.
pub(crate) fn idle<T>(kind: &Kind, place: Place, lock: *mut T) {
    if place.is_watched() {
        segment::releasing(lock.addr());
        segment::released(lock.addr());
        segment::idle(known(kind, place), lock.addr());
    }
}

/// The lock at `lock`, in whose queue the calling thread was from `since` on, asleep, is its again.
pub(crate) fn moved<T>(kind: &Kind, place: Place, lock: *mut T, since: u64) {
    if !place.is_watched() {
        return;
    }
    let (caller, lock) = (known(kind, place), lock.expose_provenance());
    // SAFETY: the caller holds a lock of this kind.
    let others = unsafe { (kind.queued)(lock) } == Some(true);
    segment::acquired_after(caller, lock, since, others);
}

/// A wait for the lock at `lock` that a deadline ends; `attempt` has failed.
#[inline]
pub(crate) fn wait<T>(kind: &Kind, place: Place, lock: *mut T, acquire: impl FnOnce() -> c_int) -> c_int {
    if !place.is_watched() {
        return acquire();
    }
    let lock = lock.expose_provenance();
    end(kind, kind.contended(place, lock).with_deadline(), lock, acquire)
}

/// A wait for the lock at `lock` that an error may end; `attempt` has failed.
#[inline]
pub(crate) fn wait_or_fail<T>(kind: &Kind, place: Place, lock: *mut T, acquire: impl FnOnce() -> c_int) -> c_int {
    if !place.is_watched() {
        return acquire();
    }
    let lock = lock.expose_provenance();
    end(kind, kind.contended(place, lock), lock, acquire)
}

fn end(kind: &Kind, waiting: segment::Waiting, lock: usize, acquire: impl FnOnce() -> c_int) -> c_int {
    let result = acquire();
    if result == 0 {
        kind.got(waiting, lock);
    } else {
        waiting.gave_up();
    }
    result
}

/// The lock at `lock` is about to be released.
#[inline(always)]
pub(crate) fn giving<T>(lock: *mut T) {
    if segment::watched() {
        segment::releasing(lock.addr());
    }
}

/// The lock at `lock`, which may be gone by now, has been released.
#[inline(always)]
pub(crate) fn give<T>(lock: *mut T) {
    if segment::watched() {
        segment::released(lock.addr());
    }
}

/// Lets `lockyard stat` see what this process's locks do, from now on: see `lockyard stat --help`.
/// Lock calls become a few nanoseconds dearer.
///
/// The shared library does this by itself at its start when LOCKYARD_STAT is set in the environment
/// and not 0. Otherwise an errno value: what kept `/dev/shm/lockyard.PID` from being made. The
/// locks work as well without. This one function may allocate: it registers handlers for fork and
/// exit.
#[unsafe(no_mangle)]
pub extern "C" fn ly_stat_open() -> c_int {
    match segment::open_for_life(b"liblockyard") {
        Ok(()) => 0,
        Err(refused) => refused.error(),
    }
}

segment::tell_from_load_on!(ly_stat_open);

#[used]
static OF_C: [u8; segment::OF_C_BYTES.len()] = segment::OF_C_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    static KIND: Kind = Kind::new("tested", unknown, untold);

    fn class(word: &AtomicU32, site: usize) -> Class {
        // SAFETY: this word is used by nobody else.
        KIND.class(unsafe { Place::new(word.as_ptr()) }.at(Site::at(site)))
    }

    #[test]
    fn a_lock_keeps_its_class_and_has_its_kinds_where_there_is_no_room() {
        let nameless = KIND.class(Place::NONE.at(Site::at(0)));
        assert_ne!(nameless, Class::NONE);
        // Taken first after a wait that nobody watched.
        let late = AtomicU32::new(0);
        assert_eq!([0, 0x1000].map(|site| class(&late, site)), [nameless; 2]);
        let classes: Vec<Class> = (0x1000..0x1400)
            .map(|site| {
                let word = AtomicU32::new(0);
                let first = class(&word, site);
                assert_eq!(class(&word, site + 1), first, "it keeps its class");
                first
            })
            .collect();
        assert!(classes[0] != nameless && classes[1] != classes[0], "by the code that takes them first");
        assert_eq!(classes.last(), Some(&nameless));
        assert!(!classes.contains(&Class::NONE));
        // A name has room, however many places there are.
        let named = AtomicU32::new(0);
        // SAFETY: this word is used by nobody else.
        assert_eq!(unsafe { KIND.set(named.as_ptr(), c"accounts".as_ptr()) }, 0);
    }
}
