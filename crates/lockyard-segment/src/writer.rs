//! The side that writes: the segment of this process, and the page of each of its threads. See the
//! [crate's page](crate) for its use and cost, `classes` for what locks belong
//! to, [`told`](crate::told) for what they tell.
//!
//! # State
//!
//! | `BASE` | `WATCHED` | state |
//! |---|---|---|
//! | null | false | no segment: nothing is counted but events, in private memory |
//! | set | true | open |
//! | null | true | a child after fork: opens when it first takes a lock |
//!
//! The mapping is never removed while a thread could be in it: its place stays that, in children of
//! a fork too.

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*, fence};

use lockyard::event;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::linux::threads::{self, EventWords};
use rustix::fs::{OFlags, ftruncate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap};

use crate::classes::{self, Class};
use crate::fallbacks;
use crate::forked;
use crate::layout::{
    CLASSES, ClassRecord, LENGTH, MAGIC, PAGE, Shared, THREADS, THREADS_OFFSET, Tally, Text, ThreadPage, VERSION,
};
use crate::process;
pub(crate) use crate::real::{real, real_pages};
use crate::untold::{self, Refused};
use crate::{exec, expected, kernel_names, program, real, site};

/// The segment, or null.
static BASE: AtomicPtr<Shared> = AtomicPtr::new(core::ptr::null_mut());
/// Not 0: the segment is open, or will be.
static WATCHED: AtomicU32 = AtomicU32::new(0);
/// The kernel's name of the thread that opens the segment.
static OPENING: AtomicU32 = AtomicU32::new(0);
/// Whose the segment is, or the word why there is none: after a fork that nobody told us of, the
/// name is the parent's to remove.
static OWNER: AtomicU32 = AtomicU32::new(0);
/// The segment's file: [`make`] stores it, then `BASE`; a thread that has loaded `BASE` finds it.
static FILE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// `LOCKYARD_SESSION`, or 0.
static SESSION: AtomicU32 = AtomicU32::new(0);
/// Whether `LOCKYARD_RECORD` is set: a recorder follows the process, and its children.
static FOLLOWED: AtomicBool = AtomicBool::new(false);
/// Whether the process is recorded from its first lock on.
static RECORDED: AtomicBool = AtomicBool::new(false);
/// The namespace of processes of that session (`LOCKYARD_NAMESPACE`), or 0: unknown.
static NAMESPACE: AtomicU64 = AtomicU64::new(0);
/// What [`open`] was told of the locks.
static LOCKS: Text<128> = Text::new();

/// The page of a thread for which there was no room, or which ends.
const NOWHERE: *const ThreadPage = core::ptr::without_provenance(1);

thread_local! {
    // Null: not asked for yet. Const-initialised and without a
    // destructor: an access is one load, at any time of the thread's life.
    static PAGE_OF_THREAD: Cell<*const ThreadPage> = const { Cell::new(core::ptr::null()) };
}

/// Whether acquisitions are to be told. One load.
#[inline(always)]
pub fn watched() -> bool {
    WATCHED.load(Relaxed) != 0
}

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
    process::note_filter();
    site::ask_ahead();
    // SAFETY: a text of the program's start. Read once, before threads that might change it; the
    // answer is not kept.
    let is_followed = !unsafe { libc::getenv(c"LOCKYARD_RECORD".as_ptr()) }.is_null();
    // SAFETY: as above.
    let number = |name: &core::ffi::CStr| unsafe {
        let text = libc::getenv(name.as_ptr());
        // A C string.
        if text.is_null() { None } else { core::ffi::CStr::from_ptr(text).to_str().ok()?.parse::<u64>().ok() }
    };
    SESSION.store(number(c"LOCKYARD_SESSION").unwrap_or(0) as u32, Relaxed);
    NAMESPACE.store(number(c"LOCKYARD_NAMESPACE").unwrap_or(0), Relaxed);
    FOLLOWED.store(is_followed, Relaxed);
    RECORDED.store(is_followed && expected::is_on_in_parent(SESSION.load(Relaxed)), Relaxed);
    // A session has done so when it began, and keeps the names of all that belongs to it. Children
    // of a fork do not: there may be a thousand, and their stacks may be small.
    if !process::alive(SESSION.load(Relaxed)) {
        process::sweep();
    }
    open_now()
}

/// Opens the segment of a child, at its first lock. Without a segment the child goes on as before.
pub(crate) fn open_in_child() {
    if !BASE.load(Relaxed).is_null() || !watched() {
        return;
    }
    if !process::is_shut_in() {
        let _ = open_now();
    } else if WATCHED.swap(0, Relaxed) != 0 {
        forked::could_not_tell(Refused::Sandbox);
    }
}

#[cold]
fn open_now() -> Result<(), Refused> {
    let me = threads::kernel_id_of_caller();
    if let Err(other) = OPENING.compare_exchange(0, me, Acquire, Relaxed) {
        // In a signal handler of the thread that is at it there is nothing to wait for.
        if other != me {
            wait_until_open();
        }
        return Ok(());
    }
    let process = rustix::process::getpid().as_raw_pid() as u32;
    // Another may have come first.
    let result = if BASE.load(Relaxed).is_null() { make(process) } else { Ok(()) };
    if let Err(refused) = result {
        WATCHED.store(0, Relaxed);
        match untold::leave(process, SESSION.load(Relaxed), refused) {
            Some(file) => {
                note_made(file);
                OWNER.store(process, Relaxed);
            }
            None => forked::could_not_tell(refused),
        }
    }
    OPENING.store(0, Release);
    result
}

/// Another thread opens the segment. What this one takes meanwhile would be nobody's: of a circle
/// of two that begin at once, one lock would have no holder.
fn wait_until_open() {
    let is_open = || (OPENING.load(Acquire) == 0).then_some(());
    // A handler that the other thread is in may never return: then nobody waits any more.
    if (0..ROUNDS).all(|_| Linux::try_window(is_open).is_none()) {
        WATCHED.store(0, Relaxed);
    }
}

/// How often a thread waits a millisecond or two for another that opens the segment.
const ROUNDS: u32 = 200;

fn make(me: u32) -> Result<(), Refused> {
    let file = |error: Errno| Refused::File(error.raw_os_error());
    let memory = |error: Errno| Refused::Memory(error.raw_os_error());
    process::has_room(LENGTH).map_err(memory)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let made = process::open(me, flags).or_else(|error| {
        // This very process's, of the program it was before exec; or that of another one, which had
        // the same number.
        if error == Errno::EXIST {
            exec::set_aside(me, SESSION.load(Relaxed));
        }
        process::open(me, flags)
    });
    let made = made.map_err(file)?;
    // Not before: the name of an earlier program would stay.
    process::may_be_long(LENGTH as u64).map_err(file)?;
    note_made(process::file_id(&made).map_err(memory)?);
    ftruncate(&made, LENGTH as u64).map_err(memory)?;
    // SAFETY: a new mapping where the kernel finds room.
    let base =
        unsafe { mmap(core::ptr::null_mut(), LENGTH, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &made, 0) };
    let base = base.map_err(memory)?.cast::<Shared>();
    real::begin(base.cast(), &made).map_err(memory)?;
    // SAFETY: mapped for good, zero (which is a valid `Shared`), and nothing but atomics.
    let shared = unsafe { &*base };
    describe(shared, me);
    // A signal handler may have forked meanwhile: the child opens its own later.
    if OPENING.load(Relaxed) == 0 {
        return Ok(());
    }
    OWNER.store(me, Relaxed);
    BASE.store(base, Release);
    for index in classes::with_names() {
        publish(shared, index);
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
    header.made.store(process::now_in_ticks(), Relaxed);
    header.stack.store(program::own_stack(), Relaxed);
    header.namespace.store(process::namespace_of(me), Relaxed);
    header.session.store(SESSION.load(Relaxed), Relaxed);
    if RECORDED.load(Relaxed) {
        expected::begin(header);
    }
    header.opened_ns.store(Linux::now(), Relaxed);
    header.locks.copy_from(&LOCKS);
    for (event, name) in event::Event::ALL.iter().zip(&shared.names) {
        name.set(event.name().as_bytes());
    }
    header.events.store(event::COUNT as u32, Relaxed);
    fallbacks::describe(header);
    header.magic.store(MAGIC, Release);
}

/// The process ends: the name goes, unless somebody wants the last numbers. Counting goes on, for
/// whoever takes locks from here on.
pub fn close() {
    let me = OWNER.load(Relaxed);
    // A sandbox may forbid the question: it is asked only where there is something to remove.
    if me == 0 || me != rustix::process::getpid().as_raw_pid() as u32 {
        return;
    }
    if let Some(shared) = shared() {
        shared.header.ended_ns.store(Linux::now(), Relaxed);
        shared.header.ended.store(1, Release);
    }
    // In a sandbox it stays, and in another namespace than the session's, which removes it, as does
    // the next process.
    let (session, namespace) = (SESSION.load(Relaxed), NAMESPACE.load(Relaxed));
    let own = shared().map_or(0, |shared| shared.header.namespace.load(Relaxed));
    let is_wanted = || session != 0 && (namespace != 0 && namespace != own || process::alive(session));
    if !process::is_shut_in() && !is_wanted() {
        // One with the same number in another namespace may have the name by now.
        process::remove_made(me, made());
    }
}

/// Root's process is about to become `user`'s, and will have no id of root's: its segment becomes
/// `user`'s, so that root and that user can read it, and the process can remove it when it ends.
/// Says whether it did. If the change fails afterwards, [`withdraw`] must be called.
///
/// Not to be called for a change that leaves a way back: `user` can write to the file and make it
/// shorter. For that reason a process that keeps root's capabilities keeps root's segment.
pub fn give_to(user: u32) -> bool {
    let me = rustix::process::getpid().as_raw_pid() as u32;
    shared().is_some()
        && OWNER.load(Relaxed) == me
        && process::can_give_up_root()
        && process::give(me, made(), user).is_ok()
}

/// After [`give_to`] the process has stayed root's. It cannot have its segment back, since the user
/// may have opened the file: zeroed memory of its own takes the segment's place, the name goes, and
/// the threads count where nobody reads.
pub fn withdraw() {
    let Some(shared) = shared() else { return };
    let _ = forked::blank(core::ptr::from_ref(shared).cast_mut().cast(), LENGTH);
    process::remove_made(OWNER.swap(0, Relaxed), made());
}

fn note_made(file: process::FileId) {
    FILE.iter().zip(file).for_each(|(word, known)| word.store(known, Relaxed));
}

/// What tells the segment's file from others.
fn made() -> process::FileId {
    [FILE[0].load(Relaxed), FILE[1].load(Relaxed)]
}

/// Ends this library's statistics for good, in children too: another in the process has taken over.
pub fn quit() {
    WATCHED.store(0, Relaxed);
    // In a child that nobody was told of the name is the parent's.
    if OWNER.load(Relaxed) != rustix::process::getpid().as_raw_pid() as u32 {
        OWNER.store(0, Relaxed);
    }
    withdraw();
}

/// To be called in the child of a fork, where there is one thread: the segment is the parent's. The
/// child opens its own when it first takes a lock. A caller that has kept a [`page`](crate::page)
/// forgets it: what is counted there is nobody's.
pub fn after_fork_in_child() {
    // SAFETY: null, or the mapping, which stays.
    let parents = unsafe { BASE.load(Relaxed).as_ref() };
    if let Some(parents) = parents {
        threads::take_back();
        BASE.store(core::ptr::null_mut(), Relaxed);
        PAGE_OF_THREAD.set(core::ptr::null());
        // The recording may be over that the variable is of.
        RECORDED.store(FOLLOWED.load(Relaxed) && expected::is_on(&parents.header), Relaxed);
    }
    OWNER.store(0, Relaxed);
    OPENING.store(0, Relaxed);
    process::note_fork();
    parents.map(forked::keep);
}

pub(crate) fn shared() -> Option<&'static Shared> {
    // SAFETY: null, or a mapping that stays while there are threads that could ask.
    unsafe { BASE.load(Acquire).as_ref() }
}

/// Writes the names of class `index` into the segment.
fn publish(shared: &Shared, index: usize) {
    let record = &shared.classes[index];
    if real(core::ptr::from_ref(record).cast_mut().cast()).is_err() {
        return; // its bit stays clear: nobody looks, and nobody counts
    }
    classes::describe(index, record);
    shared.header.classes[index / 64].fetch_or(1 << (index % 64), Release);
    tell_locks(Class::from_raw(index as u32));
}

/// Tells readers how many locks have `class`, after a change of that, or of the segment: a fence
/// between it and the look for the record, so that one of two threads sees the other's.
#[cold]
pub(crate) fn tell_locks(class: Class) {
    fence(SeqCst);
    if let Some(tally) = tally(class) {
        classes::tell_locks(class, &tally.locks);
    }
}

/// Writes the names of `class` into the segment, if there is one.
pub(crate) fn publish_class(class: Class) {
    if let Some(shared) = shared() {
        publish(shared, class.index());
    }
}

/// The counters of `class`, if the segment has its names.
pub(crate) fn tally(class: Class) -> Option<&'static Tally> {
    class_record(class).map(|record| &record.tally)
}

/// Its record, likewise.
pub(crate) fn class_record(class: Class) -> Option<&'static ClassRecord> {
    let shared = shared()?;
    let index = class.index();
    let bits = shared.header.classes.get(index / 64)?.load(Acquire);
    (bits & 1 << (index % 64) != 0).then(|| &shared.classes[index % CLASSES])
}

/// The page of slot `slot`, made real.
fn page(slot: u32) -> Option<&'static ThreadPage> {
    let shared = shared()?;
    if slot as usize >= THREADS {
        return None;
    }
    let page = at(shared, slot);
    let bit = 1u64 << (slot % 64);
    let known = &shared.header.pages[slot as usize / 64];
    if known.load(Acquire) & bit == 0 {
        real(core::ptr::from_ref(page).cast_mut().cast()).ok()?;
        known.fetch_or(bit, Release);
    }
    Some(page)
}

fn lend(slot: u32) -> Option<&'static EventWords> {
    page(slot)?.events.first_chunk()
}

/// The calling thread's page.
#[inline]
pub(crate) fn mine() -> Option<&'static ThreadPage> {
    let page = PAGE_OF_THREAD.get();
    if page == NOWHERE {
        return None;
    }
    // SAFETY: null, or a page of the mapping, which stays; `after_fork_in_child` clears it.
    unsafe { page.as_ref() }.or_else(find_mine)
}

/// The same, for what a thread does beside taking locks: the child of a fork opens no segment for
/// that, unless it is recorded. One that only execs may give locks back before, in handlers.
#[inline]
pub(crate) fn mine_so_far() -> Option<&'static ThreadPage> {
    if BASE.load(Relaxed).is_null() && !RECORDED.load(Relaxed) { None } else { mine() }
}

/// The calling thread has no page from here on. The one that it had.
pub(crate) fn leave() -> Option<&'static ThreadPage> {
    let page = PAGE_OF_THREAD.replace(NOWHERE);
    // SAFETY: null, or a page of the mapping, which stays; `after_fork_in_child` clears it.
    Some(page).filter(|page| *page != NOWHERE).and_then(|page| unsafe { page.as_ref() })
}

#[cold]
fn find_mine() -> Option<&'static ThreadPage> {
    // A thread without a record has no page of its own, and its acquisitions are not counted:
    // nobody could add to number 0 plainly.
    let slot = Linux::current()?.id().raw();
    if RECORDED.load(Relaxed) || !process::was_filtered() {
        open_in_child();
    }
    let shared = shared()?;
    let Some(page) = page(slot) else {
        // The thread asks no more, and is counted once.
        PAGE_OF_THREAD.set(NOWHERE);
        shared.header.private.fetch_add(1, Relaxed);
        shared.header.beyond.fetch_add((slot as usize >= THREADS).into(), Relaxed);
        return None;
    };
    PAGE_OF_THREAD.set(page);
    shared.header.started.fetch_add(1, Relaxed);
    let thread = threads::kernel_id_of_caller();
    page.begin_anew(thread);
    expected::join(page, &shared.header);
    kernel_names::note(thread, slot);
    Some(page)
}

/// The page of slot `slot`, if it is real.
pub(crate) fn known_page(slot: u32) -> Option<&'static ThreadPage> {
    let shared = shared()?;
    let bits = shared.header.pages.get(slot as usize / 64)?.load(Acquire);
    (bits & 1 << (slot % 64) != 0).then(|| at(shared, slot))
}

/// All pages that are real, but number 0.
pub(crate) fn known_pages() -> impl Iterator<Item = &'static ThreadPage> {
    let words = threads::last_name() as usize / 64 + 1;
    let words = shared().into_iter().flat_map(move |shared| shared.header.pages.iter().take(words).enumerate());
    words.flat_map(|(word, bits)| {
        let left = Some(bits.load(Acquire)).filter(|bits| *bits != 0);
        let sets = core::iter::successors(left, |bits| Some(bits & (bits - 1)).filter(|bits| *bits != 0));
        let slots = sets.map(move |bits| word as u32 * 64 + bits.trailing_zeros());
        slots.filter(|slot| *slot != 0).filter_map(known_page)
    })
}

fn at(shared: &'static Shared, slot: u32) -> &'static ThreadPage {
    let place = core::ptr::from_ref(shared).cast::<u8>().wrapping_add(THREADS_OFFSET + slot as usize * PAGE);
    // SAFETY: inside the mapping, aligned, nothing but atomics. A caller that looks inside has
    // seen that it is real.
    unsafe { &*place.cast::<ThreadPage>() }
}
