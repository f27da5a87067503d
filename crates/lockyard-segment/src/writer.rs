//! The side that writes. See the [crate's page](crate) for its use and cost.
//!
//! # State
//!
//! | `BASE` | `WATCHED` | state |
//! |---|---|---|
//! | null | false | no segment: nothing is counted but events, in private memory |
//! | set | true | open |
//! | null | true | a child after fork: opens when it first waits |
//!
//! Classes have numbers for the life of the process, whatever becomes of segments: their names are
//! in a static table, which [`open`] copies.
//!
//! The mapping is never removed while a thread could be in it: only by a child after `fork`, which
//! has one thread.

use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use lockyard::event::{self, Event};
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::linux::threads::{self, EventWords};
use rustix::fs::{FallocateFlags, OFlags, fallocate, ftruncate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::histogram::bucket;
use crate::layout::{
    CLASSES, FALLBACKS, LENGTH, MAGIC, PAGE, Shared, THREADS, THREADS_OFFSET, Tally, Text, ThreadPage, VERSION,
};
use crate::process::{self, populate};
use crate::site;

/// The segment, or null.
static BASE: AtomicPtr<Shared> = AtomicPtr::new(core::ptr::null_mut());
/// Not 0: the segment is open, or will be.
static WATCHED: AtomicU32 = AtomicU32::new(0);
/// 1 while a thread opens the segment.
static OPENING: AtomicU32 = AtomicU32::new(0);
/// Whose the segment is: after a fork that nobody told us of, the name is the parent's to remove.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// `LOCKYARD_SESSION`, or 0.
static SESSION: AtomicU32 = AtomicU32::new(0);
/// What [`open`] was told of the locks.
static LOCKS: Text<128> = Text::new();

/// Addresses of the mapping below this are real; see [`make`].
static RESERVED: AtomicUsize = AtomicUsize::new(0);
/// How much that is, where it must be decided beforehand: 256 threads have pages.
const OLD_KERNEL: usize = THREADS_OFFSET + 256 * PAGE;

/// A hold time that is still being taken when so many others should have been is given up: somebody
/// else may have released the lock.
const LOST: u64 = 1024;

thread_local! {
    // Const-initialised and without a destructor: an access is one load, at any time of the
    // thread's life.
    static PAGE_OF_THREAD: Cell<*const ThreadPage> = const { Cell::new(core::ptr::null()) };
}

/// Why there is no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The file could not be made: the number is the system's errno.
    File(i32),
    /// It could not be mapped, or `/dev/shm` is full.
    Memory(i32),
}

/// Which locks belong together in the statistics: a small number, 0 for "none".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Class(u16);

impl Class {
    /// Locks without a class.
    pub const NONE: Self = Self(0);

    /// The class with number `raw`, as [`Class::raw`] gave it.
    #[inline]
    pub const fn from_raw(raw: u32) -> Self {
        Self(if raw < CLASSES as u32 { raw as u16 } else { 0 })
    }

    /// Its number, to keep in a lock.
    #[inline]
    pub const fn raw(self) -> u32 {
        self.0 as u32
    }
}

/// Why an object was left to the C library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Fallback {
    /// A mutex with priority inheritance.
    Inherit,
    /// A mutex with a priority ceiling.
    Ceiling,
    /// A robust mutex.
    Robust,
    /// Shared between processes.
    Shared,
    /// A named semaphore.
    Named,
    /// A condition variable whose mutex went there.
    Condition,
    /// Another reason.
    Other,
}

const REASONS: [&str; 7] = ["inherit", "ceiling", "robust", "shared", "named", "condition", "other"];
const _: () = assert!(REASONS.len() <= FALLBACKS);

// ---- open and close
// -------------------------------------------------------------------------------------------------

/// Makes this process's segment, once; `locks` says for people which locks it uses. Allocates
/// nothing, leaves errno alone, prints nothing; may be called before `main`.
///
/// # Errors
/// Why there is none. The locks work as well without.
pub fn open(locks: &[u8]) -> Result<(), Refused> {
    if !BASE.load(Acquire).is_null() {
        return Ok(());
    }
    LOCKS.set(locks);
    // SAFETY: a text of the program's start. Read once, before threads that might change it; the
    // answer is not kept.
    let session = unsafe { libc::getenv(c"LOCKYARD_SESSION".as_ptr()) };
    if !session.is_null() {
        // SAFETY: not null: a C string.
        let text = unsafe { core::ffi::CStr::from_ptr(session) };
        SESSION.store(text.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(0), Relaxed);
    }
    open_now()
}

#[cold]
fn open_now() -> Result<(), Refused> {
    if OPENING.swap(1, Acquire) != 0 {
        return Ok(()); // another thread is at it
    }
    let result = make();
    if result.is_err() {
        WATCHED.store(0, Relaxed);
    }
    OPENING.store(0, Release);
    result
}

fn make() -> Result<(), Refused> {
    process::sweep();
    let me = rustix::process::getpid().as_raw_pid() as u32;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let file = |error: Errno| Refused::File(error.raw_os_error());
    let made = process::open(me, flags).or_else(|error| {
        // This very process's, of the program it was before exec; or of one long gone.
        if error == Errno::EXIST {
            process::remove(&process::file_name(me));
        }
        process::open(me, flags)
    });
    let made = made.map_err(file)?;
    let memory = |error: Errno| {
        process::remove(&process::file_name(me));
        Refused::Memory(error.raw_os_error())
    };
    ftruncate(&made, LENGTH as u64).map_err(memory)?;
    // SAFETY: a new mapping where the kernel finds room.
    let base =
        unsafe { mmap(core::ptr::null_mut(), LENGTH, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &made, 0) };
    let base = base.map_err(memory)?.cast::<Shared>();
    RESERVED.store(0, Relaxed);
    if real(base.cast()) == Err(Errno::INVAL) {
        // A kernel before 5.14: everything but the threads, and a number of these, are made real at
        // once.
        fallocate(&made, FallocateFlags::empty(), 0, OLD_KERNEL as u64).map_err(memory)?;
        RESERVED.store(base.addr() + OLD_KERNEL, Relaxed);
    }
    for part in 0..3 {
        real(base.cast::<u8>().wrapping_add(part * PAGE)).map_err(memory)?;
    }
    // SAFETY: mapped for good, zero (which is a valid `Shared`), and nothing but atomics.
    let shared = unsafe { &*base };
    describe(shared, me);
    OWNER.store(me, Relaxed);
    BASE.store(base, Release);
    for index in 0..NAMED.load(Acquire).min(CLASSES as u32) {
        publish(shared, index as usize);
    }
    WATCHED.store(1, Relaxed);
    // SAFETY: the mapping stays until `take_back`; a page per slot.
    unsafe { threads::lend(lend) };
    Ok(())
}

fn describe(shared: &Shared, me: u32) {
    let header = &shared.header;
    header.version.store(VERSION, Relaxed);
    header.process.store(me, Relaxed);
    header.began.store(process::began(me).unwrap_or(0), Relaxed);
    header.namespace.store(process::namespace(), Relaxed);
    header.session.store(SESSION.load(Relaxed), Relaxed);
    header.opened_ns.store(Linux::now(), Relaxed);
    header.locks.copy_from(&LOCKS);
    for (event, name) in event::Event::ALL.iter().zip(&shared.names) {
        name.set(event.name().as_bytes());
    }
    header.events.store(event::COUNT as u32, Relaxed);
    for (reason, name) in REASONS.iter().zip(&header.reason_names) {
        name.set(reason.as_bytes());
    }
    header.reasons.store(REASONS.len() as u32, Relaxed);
    header.magic.store(MAGIC, Release);
}

/// Makes the page at `place` real, so that writing to it cannot fail.
fn real(place: *mut u8) -> Result<(), Errno> {
    if place.addr() < RESERVED.load(Relaxed) {
        return Ok(());
    }
    let page = place.map_addr(|address| address & !(PAGE - 1));
    populate(page)
}

/// The process ends: the name goes, unless somebody wants the last numbers. Counting goes on, for
/// whoever takes locks from here on.
pub fn close() {
    let Some(shared) = shared() else { return };
    let me = rustix::process::getpid().as_raw_pid() as u32;
    if OWNER.load(Relaxed) != me {
        return;
    }
    shared.header.ended_ns.store(Linux::now(), Relaxed);
    shared.header.ended.store(1, Release);
    if !process::alive(SESSION.load(Relaxed)) {
        process::remove(&process::file_name(me));
    }
}

/// To be called in the child of a fork, where there is one thread: the segment is the parent's. The
/// child opens its own when it first waits for a lock.
pub fn after_fork_in_child() {
    let base = BASE.swap(core::ptr::null_mut(), AcqRel);
    OPENING.store(0, Relaxed);
    if base.is_null() {
        return;
    }
    threads::take_back();
    PAGE_OF_THREAD.set(core::ptr::null());
    // SAFETY: our mapping; nobody refers to it any more.
    let _ = unsafe { munmap(base.cast(), LENGTH) };
}

fn shared() -> Option<&'static Shared> {
    // SAFETY: null, or a mapping that stays while there are threads that could ask.
    unsafe { BASE.load(Acquire).as_ref() }
}

// ---- threads
// --------------------------------------------------------------------------------------------------------

/// The page of slot `slot`, made real.
fn page(slot: u32) -> Option<&'static ThreadPage> {
    let shared = shared()?;
    if slot as usize >= THREADS {
        return None;
    }
    let place = core::ptr::from_ref(shared).cast::<u8>().wrapping_add(THREADS_OFFSET + slot as usize * PAGE);
    let bit = 1u64 << (slot % 64);
    let known = &shared.header.pages[slot as usize / 64];
    if known.load(Acquire) & bit == 0 {
        if real(place.cast_mut()).is_err() {
            shared.header.private.fetch_add(1, Relaxed);
            return None;
        }
        known.fetch_or(bit, Release);
    }
    // SAFETY: inside the mapping, aligned, real, nothing but atomics.
    Some(unsafe { &*place.cast::<ThreadPage>() })
}

fn lend(slot: u32) -> Option<&'static EventWords> {
    page(slot)?.events.first_chunk()
}

/// The calling thread's page.
#[inline]
fn mine() -> Option<&'static ThreadPage> {
    // SAFETY: null, or a page of the mapping, which stays; `after_fork_in_child` clears it.
    match unsafe { PAGE_OF_THREAD.get().as_ref() } {
        None => find_mine(),
        page => page,
    }
}

#[cold]
fn find_mine() -> Option<&'static ThreadPage> {
    // A thread without a record has no page of its own, and its acquisitions are not counted:
    // nobody could add to number 0 plainly.
    let page = page(Linux::current()?.id().raw())?;
    PAGE_OF_THREAD.set(page);
    Some(page)
}

#[inline]
fn add(word: &AtomicU64, amount: u64) {
    word.store(word.load(Relaxed).wrapping_add(amount), Relaxed);
}

// ---- classes
// --------------------------------------------------------------------------------------------------------

struct Identity {
    ready: AtomicU32,
    site: AtomicU64,
    /// The address that [`class_at`] was asked for, or 0.
    address: AtomicU64,
    kind: Text<16>,
    name: Text<64>,
}

static IDENTITIES: [Identity; CLASSES] = [const {
    let (site, address) = (AtomicU64::new(0), AtomicU64::new(0));
    Identity { ready: AtomicU32::new(0), site, address, kind: Text::new(), name: Text::new() }
}; CLASSES];

/// Class numbers given out, number 0 included.
static NAMED: AtomicU32 = AtomicU32::new(1);

/// The class of locks of `kind` (at most 16 bytes) called `name` (at most 64), made by the code at
/// `site` (0: unknown). The same for the same arguments; two threads that ask at once may get two,
/// which readers add up. [`Class::NONE`] when there is no room for more.
///
/// Costs a look at all classes: keep the answer.
pub fn class(kind: &[u8], name: &[u8], site: usize) -> Class {
    let same = |identity: &Identity| identity.site.load(Relaxed) == site as u64 && identity.name.is(name);
    known(kind, same).unwrap_or_else(|| made(kind, name, site, 0))
}

/// The class of locks of `kind` that the code at `address` makes, or takes first. Its name is the
/// file of that code, and readers are told the place in it; code without a file is called by its
/// address.
///
/// Costs a look at all classes, and the first time a look at the process's mappings (some ten
/// microseconds): keep the answer.
#[cold]
pub fn class_at(kind: &[u8], address: usize) -> Class {
    let same = |identity: &Identity| identity.address.load(Relaxed) == address as u64;
    known(kind, same).unwrap_or_else(|| match site::locate(address) {
        Some(site) => made(kind, site.path(), site.place, address),
        None => made(kind, b"", address, address),
    })
}

fn known(kind: &[u8], same: impl Fn(&Identity) -> bool) -> Option<Class> {
    let there = NAMED.load(Acquire).min(CLASSES as u32) as usize;
    let is = |identity: &Identity| identity.ready.load(Acquire) == 1 && same(identity) && identity.kind.is(kind);
    IDENTITIES[..there].iter().position(is).map(|index| Class(index as u16))
}

fn made(kind: &[u8], name: &[u8], site: usize, address: usize) -> Class {
    let index = NAMED.fetch_update(AcqRel, Relaxed, |next| (next < CLASSES as u32).then_some(next + 1));
    let Ok(index) = index else { return Class::NONE };
    let identity = &IDENTITIES[index as usize];
    identity.site.store(site as u64, Relaxed);
    identity.address.store(address as u64, Relaxed);
    identity.kind.set(kind);
    identity.name.set(name);
    identity.ready.store(1, Release);
    if let Some(shared) = shared() {
        publish(shared, index as usize);
    }
    Class(index as u16)
}

/// Writes the names of class `index` into the segment.
fn publish(shared: &Shared, index: usize) {
    let record = &shared.classes[index];
    if real(core::ptr::from_ref(record).cast_mut().cast()).is_err() {
        return; // its bit stays clear: nobody looks, and nobody counts
    }
    let identity = &IDENTITIES[index];
    record.site.store(identity.site.load(Relaxed), Relaxed);
    record.kind.copy_from(&identity.kind);
    record.name.copy_from(&identity.name);
    shared.header.classes[index / 64].fetch_or(1 << (index % 64), Release);
}

fn tally(class: u64) -> Option<&'static Tally> {
    let shared = shared()?;
    let index = class as usize;
    let bits = shared.header.classes.get(index / 64)?.load(Acquire);
    (bits & 1 << (index % 64) != 0).then(|| &shared.classes[index % CLASSES].tally)
}

// ---- locks
// ----------------------------------------------------------------------------------------------------------

/// Whether acquisitions are to be told. One load.
#[inline(always)]
pub fn watched() -> bool {
    WATCHED.load(Relaxed) != 0
}

/// The calling thread has taken the lock at `lock` without waiting.
#[inline]
pub fn acquired(class: Class, lock: usize) {
    let Some(page) = mine() else { return };
    add(&page.acquired[usize::from(class.0) % CLASSES], 1);
    let ticks = page.ticks.load(Relaxed) + 1;
    page.ticks.store(ticks, Relaxed);
    if ticks >= page.sample_at.load(Relaxed) {
        sample(page, class, lock, ticks);
    }
}

/// Begins to take a hold time, and chooses when to take the next: after 33 to 96 acquisitions, 64
/// on average. Not after the same number each time: a thread that takes its locks in turns would be
/// seen with one of them only.
#[cold]
fn sample(page: &ThreadPage, class: Class, lock: usize, ticks: u64) {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    page.sample_at.store(ticks + 33 + (ticks.wrapping_mul(GOLDEN) >> 58), Relaxed);
    let skipped = page.skipped.load(Relaxed) + 1;
    if page.held.load(Relaxed) != 0 && skipped < LOST {
        page.skipped.store(skipped, Relaxed);
        return;
    }
    page.skipped.store(0, Relaxed);
    page.held_class.store(class.0.into(), Relaxed);
    page.held_since.store(Linux::now(), Relaxed);
    page.held.store(lock as u64, Relaxed);
}

/// The calling thread has released the lock at `lock`, which may be gone by now: only the address
/// is used.
#[inline]
pub fn released(lock: usize) {
    let Some(page) = mine() else { return };
    if page.held.load(Relaxed) == lock as u64 && lock != 0 {
        end_of_hold(page);
    }
    if page.waited.load(Relaxed) != 0 {
        settle(page);
    }
}

#[cold]
fn end_of_hold(page: &ThreadPage) {
    let ns = Linux::now().saturating_sub(page.held_since.load(Relaxed));
    page.held.store(0, Relaxed);
    if let Some(tally) = tally(page.held_class.load(Relaxed)) {
        tally.hold_ns.fetch_add(ns, Relaxed);
        tally.hold_max.fetch_max(ns, Relaxed);
        tally.holds[bucket(ns)].fetch_add(1, Relaxed);
    }
}

/// Puts the thread's last wait into its class's tally.
#[cold]
fn settle(page: &ThreadPage) {
    let class = page.waited.swap(0, Relaxed).wrapping_sub(1);
    let Some(tally) = tally(class) else { return };
    let ns = page.waited_ns.load(Relaxed);
    tally.contended.fetch_add(1, Relaxed);
    tally.wait_ns.fetch_add(ns, Relaxed);
    if tally.wait_max.load(Relaxed) < ns {
        tally.wait_max.fetch_max(ns, Relaxed);
    }
    tally.waits[bucket(ns)].fetch_add(1, Relaxed);
    for (counter, word) in [(&tally.parks, &page.waited_parks), (&tally.handoffs, &page.waited_handoffs)] {
        let amount = word.load(Relaxed);
        if amount != 0 {
            counter.fetch_add(amount, Relaxed);
        }
    }
}

/// A wait for a lock under way: ends with [`Waiting::got`] or [`Waiting::gave_up`]. Without a
/// segment it does nothing.
#[derive(Debug)]
#[must_use = "it counts when it ends"]
pub struct Waiting {
    page: Option<&'static ThreadPage>,
    class: Class,
    lock: usize,
    since: u64,
    parks: u64,
    handoffs: u64,
}

/// The calling thread begins to wait for the lock at `lock`.
#[cold]
pub fn contended(class: Class, lock: usize) -> Waiting {
    if BASE.load(Relaxed).is_null() && watched() {
        // A child's first wait. Without a segment it goes on as before.
        let _ = open_now();
    }
    let page = mine();
    if let Some(page) = page.filter(|page| page.waited.load(Relaxed) != 0) {
        settle(page);
    }
    let since = Linux::now();
    if let Some(page) = page {
        page.waiting_since.store(since, Relaxed);
        page.waiting_for.store(0, Relaxed);
        page.waiting.store(u64::from(class.0) + 1, Release);
    }
    Waiting { page, class, lock, since, parks: parks(), handoffs: handoffs() }
}

fn parks() -> u64 {
    threads::counted(Event::ParkSleep)
}

fn handoffs() -> u64 {
    let asked = [Event::MutexHandoff, Event::RwsemRlockHandoff, Event::RwsemWlockHandoff, Event::SemHandoff];
    asked.into_iter().map(threads::counted).fold(0, u64::wrapping_add)
}

impl Waiting {
    /// Whom the wait is for: the thread that the kernel calls `holder`, or 0.
    pub fn held_by(self, holder: u32) -> Self {
        if let Some(page) = self.page {
            page.waiting_for.store(holder.into(), Relaxed);
        }
        self
    }

    /// The thread has the lock.
    #[cold]
    pub fn got(self) {
        let Some(page) = self.page else { return };
        page.waiting.store(0, Relaxed);
        page.waited_ns.store(Linux::now().saturating_sub(self.since), Relaxed);
        page.waited_parks.store(parks().wrapping_sub(self.parks), Relaxed);
        page.waited_handoffs.store(handoffs().wrapping_sub(self.handoffs), Relaxed);
        page.waited.store(u64::from(self.class.0) + 1, Relaxed);
        acquired(self.class, self.lock);
    }

    /// The thread does without: its time was up.
    #[cold]
    pub fn gave_up(self) {
        let Some(page) = self.page else { return };
        page.waiting.store(0, Relaxed);
        page.waited_ns.store(Linux::now().saturating_sub(self.since), Relaxed);
        page.waited_parks.store(parks().wrapping_sub(self.parks), Relaxed);
        page.waited_handoffs.store(handoffs().wrapping_sub(self.handoffs), Relaxed);
        page.waited.store(u64::from(self.class.0) + 1, Relaxed);
        settle(page);
        if let Some(tally) = tally(self.class.0.into()) {
            tally.gave_up.fetch_add(1, Relaxed);
        }
    }
}

/// An object was left to the C library, for `reason`.
pub fn fell_back(reason: Fallback) {
    if let Some(shared) = shared() {
        shared.header.fallbacks[reason as usize].fetch_add(1, Relaxed);
    }
}
