//! Which functions pass locks on, learnt from one hold.
//!
//! A thread notes the frames above a lock call, and compares them with those above the call that
//! gives the lock back. The lowest frame that is in both is that of the function in which the lock
//! is held: the functions of the frames below it, on the side of the lock call, had returned, and
//! so pass on. Frames are the same that end at the same address and are of one function: a frame
//! that has gone leaves its place to others, but of another function, or of one that is called in
//! its turn.
//!
//! | above the lock call | above the release | learnt |
//! |---|---|---|
//! | `user → my_lock` | `user → my_unlock` | `my_lock` passes on, the lock ends in `user` |
//! | `user` | `user` | it ends in `user` |
//! | `user` | `user → finish` | likewise |
//! | `run → user` | `run`, in the same call | likewise: `user` ended with a jump |
//! | `begin` | `end`, no frame in common | nothing; after seven times: it ends in `begin` |
//!
//! A wait at a condition variable gives the lock back, and takes it again. The functions between it
//! and that which held the lock before, as a rule hold it no longer than the wait: they pass on.
//!
//! | lock call, or wait | then | learnt |
//! |---|---|---|
//! | `user → my_lock` | wait by `user → my_wait` | both pass on, the lock ends in `user` |
//! | wait by `user → my_wait` | release by `user → my_unlock` | `my_wait` passes on |
//! | wait by `user → my_wait` | wait by `user → my_wait` | nothing: one call, or two |
//!
//! **Signals.** A handler may take locks at any moment. A lesson that is written or read is under
//! way for no lock: the handler's are others.

use core::cell::Cell;
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

use crate::frames::{self, Call, Frame, LEVELS};
use crate::unwind;

/// What a thread has noted of some lock calls until the locks are given back. All-zero: nothing.
#[derive(Debug)]
pub struct Lessons([Lesson; 4]);

/// Of one.
#[derive(Debug)]
struct Lesson {
    /// The lock's address; 0: none; [`BUSY`].
    lock: Cell<usize>,
    /// It begins with a wait at a condition variable.
    waits: Cell<bool>,
    /// Other locks that the thread has given back since.
    others: Cell<u32>,
    /// How often waits have taught nothing here.
    waited: Cell<u32>,
    seen: [Cell<Seen>; LEVELS],
}

/// A frame. All-zero: none.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    at: usize,
    end: usize,
    /// Where its function begins.
    function: usize,
}

impl Seen {
    fn new(frame: Frame) -> Option<Self> {
        Some(Self { at: frame.at, end: frame.end()?, function: unwind::function(frame.at)? })
    }
}

/// In place of a lock's address: the lesson is written or read.
const BUSY: usize = 1;

/// Releases of other locks before the end of a lesson: the lock may be given back by another
/// thread, or never.
const PATIENCE: u32 = 1000;

impl Lessons {
    fn of(&self, lock: usize) -> Option<&Lesson> {
        self.0.iter().find(|lesson| lesson.lock.get() == lock)
    }

    /// Nothing is noted any more: in the child of a fork acquisitions are counted elsewhere.
    pub fn clear(&self) {
        self.0.iter().for_each(|lesson| lesson.lock.set(0));
    }

    /// Whether a lock is noted.
    #[inline]
    pub fn are_under_way(&self) -> bool {
        self.0.iter().any(|lesson| lesson.lock.get() > BUSY)
    }

    /// Notes that `call` has taken `lock`, if there is room; not if it is noted already and
    /// `shared`: a thread may hold it several times. If not shared, its release was not seen.
    /// `waits`: it was taken again, after a wait at a condition variable.
    #[cold]
    pub fn begin(&self, lock: usize, call: Call, shared: bool, waits: bool) {
        let known = self.of(lock);
        if known.is_some() && shared {
            return;
        }
        known.inspect(|known| known.give_up());
        // Handlers have left them by a jump.
        if self.0.iter().all(|lesson| lesson.lock.get() == BUSY) {
            self.clear();
        }
        if let Some(free) = self.of(0) {
            free.begin(lock, call, waits);
        }
    }

    /// `call` gives `lock` back; `waits`: for a wait at a condition variable. If that is noted, and
    /// did not begin with such a wait: the place of the code that called the lock function, and
    /// that of the code that held the lock. `None`: nothing is known yet.
    #[cold]
    pub fn end(&self, lock: usize, call: Call, waits: bool) -> Option<(usize, usize)> {
        match self.of(lock) {
            Some(lesson) => lesson.end(call, waits),
            None => {
                self.0.iter().for_each(Lesson::goes_on);
                None
            }
        }
    }
}

impl Lesson {
    fn begin(&self, lock: usize, call: Call, waits: bool) {
        self.busy(lock, || {
            self.waits.set(waits);
            self.note(call);
            self.others.set(0);
        });
    }

    /// Does what no signal handler may find half done. From then on the lesson is that of `lock`.
    fn busy<T>(&self, lock: usize, what: impl FnOnce() -> T) -> T {
        self.lock.set(BUSY);
        compiler_fence(SeqCst);
        let result = what();
        compiler_fence(SeqCst);
        self.lock.set(lock);
        result
    }

    fn note(&self, call: Call) {
        self.seen.iter().for_each(|seen| seen.set(Seen::default()));
        let mut is_last = false;
        for (seen, frame) in self.seen.iter().zip(call.frames()) {
            let Some(frame) = Seen::new(frame) else { break };
            seen.set(frame);
            // One more tells whether that function has returned.
            if is_last {
                break;
            }
            is_last = frames::ends(frame.at);
        }
    }

    fn seen(&self) -> impl Iterator<Item = Seen> {
        self.seen.iter().map(Cell::get).take_while(|seen| seen.at != 0)
    }

    /// The lowest place that is not known to pass on.
    fn place(&self) -> Option<usize> {
        self.seen().map(|seen| seen.at).find(|at| !frames::passes(*at))
    }

    fn goes_on(&self) {
        self.others.set(self.others.get().saturating_add(1));
        if self.lock.get() > BUSY && self.others.get() > PATIENCE {
            self.give_up();
        }
    }

    /// Nothing was learnt of the place.
    fn try_in_vain(&self) {
        if let Some(place) = self.place() {
            frames::tried(place);
        }
    }

    fn give_up(&self) {
        self.try_in_vain();
        self.lock.set(0);
    }

    fn end(&self, call: Call, waits: bool) -> Option<(usize, usize)> {
        self.busy(0, || self.learn(call, waits))
    }

    fn learn(&self, call: Call, waits: bool) -> Option<(usize, usize)> {
        let is_in = |(depth, frame): (usize, Frame)| {
            let above = Seen::new(frame)?;
            let same = |seen: Seen| (seen.end, seen.function) == (above.end, above.function);
            let level = self.seen().position(same)?;
            // The same call: the function that it called has not returned, and is not there because
            // it jumped to the one that gives the lock back.
            let is_same = self.seen[level].get().at == above.at;
            Some((depth, level - usize::from(is_same && level > 0)))
        };
        match call.frames().enumerate().find_map(is_in) {
            // One call of the function that waits, or two.
            Some((0, 0)) if waits && self.waits.get() => {
                // So that a thread which only waits goes on without lessons.
                const FEW: u32 = 8;
                self.waited.set(self.waited.get().wrapping_add(1));
                if frames::passes(self.seen[0].get().at) || self.waited.get().is_multiple_of(FEW) {
                    self.try_in_vain();
                }
            }
            Some((depth, level)) => {
                self.seen().take(level).for_each(|seen| frames::pass(seen.at));
                self.seen().skip(level).take(1).for_each(|seen| frames::end(seen.at));
                let between = if waits { depth } else { 0 };
                call.frames().take(between).for_each(|frame| frames::pass(frame.at));
            }
            None => self.try_in_vain(),
        }
        let place = self.place().filter(|place| frames::is_settled(*place) && !self.waits.get())?;
        Some((self.seen[0].get().at, place))
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use core::ffi::c_int;
    use core::hint::black_box;

    use super::*;
    use crate::interrupted::{EACH, interrupted};

    thread_local! {
        static LESSONS: &'static Lessons = {
            // Frames end where the tables of the C library say.
            crate::site::ask_ahead();
            // SAFETY: cells, of which zero is a value.
            Box::leak(unsafe { Box::new(core::mem::zeroed()) })
        };
        /// To where the last call returned.
        static AT: Cell<usize> = const { Cell::new(0) };
        /// Its place, found without a call and in the usual way.
        static PLACES: Cell<[Option<usize>; 2]> = const { Cell::new([None; 2]) };
    }

    crate::with_caller!(fn take(lock: usize) => take_for);
    crate::with_caller!(fn give(lock: usize) => give_for);
    crate::with_caller!(fn pass_through(lock: usize) => pass_through_for);
    crate::with_caller!(fn lock(lock: usize) => lock_for);
    crate::with_caller!(fn unlock(lock: usize) => unlock_for);
    crate::with_caller!(fn wait(lock: usize) => wait_for);

    fn lessons() -> &'static Lessons {
        LESSONS.with(|lessons| *lessons)
    }

    extern "C" fn take_for(lock: usize, call: Call) -> c_int {
        AT.set(call.at());
        interrupted(EACH, handler, || lessons().begin(lock, call, false, false));
        0
    }

    /// 1: it was taken, and ends, where it was.
    extern "C" fn give_for(lock: usize, call: Call) -> c_int {
        let mut found = None;
        interrupted(EACH, handler, || found = lessons().end(lock, call, false));
        c_int::from(found == Some((AT.get(), AT.get())))
    }

    /// Another lock is taken and given back.
    extern "C" fn pass_through_for(lock: usize, call: Call) -> c_int {
        lessons().begin(lock, call, false, false);
        lessons().end(lock, call, false);
        0
    }

    fn handler() {
        // SAFETY: it is of this module.
        unsafe { pass_through(128) };
    }

    /// A handler that took a lock while a lesson was written or read mixed its frames into it.
    #[test]
    fn a_signal_handler_that_takes_locks_changes_no_lesson_under_way() {
        lessons();
        // SAFETY: they are of this module.
        unsafe {
            take(64);
            assert_eq!(give(64), 1);
        }
        assert!(!lessons().are_under_way() && lessons().of(BUSY).is_none());
    }

    extern "C" fn lock_for(lock: usize, call: Call) -> c_int {
        AT.set(call.at());
        PLACES.set([call.settled_place_nearby(), call.settled_place()]);
        lessons().begin(lock, call, false, false);
        0
    }

    extern "C" fn unlock_for(lock: usize, call: Call) -> c_int {
        lessons().end(lock, call, false);
        0
    }

    extern "C" fn wait_for(lock: usize, call: Call) -> c_int {
        AT.set(call.at());
        lessons().end(lock, call, true);
        lessons().begin(lock, call, false, true);
        0
    }

    /// Functions that do nothing else, and return which place in them calls.
    macro_rules! apart {
        ($($name:ident: $does:ident;)*) => {$(
            #[inline(never)]
            fn $name() -> usize {
                // SAFETY: it is of this module.
                unsafe { $does(64) };
                black_box(AT.get())
            }
        )*};
    }

    apart! {
        my_lock: lock;
        my_wait: wait;
        other_wait: wait;
        my_unlock: unlock;
    }

    /// The function is at several depths, since its frame may reach into the next page at one.
    #[inline(never)]
    fn held_here(depth: usize, nearby: &mut Vec<[Option<usize>; 2]>) {
        my_lock();
        nearby.push(PLACES.get());
        my_unlock();
        if depth > 0 {
            held_here(depth - 1, nearby);
        }
        black_box(nearby.len());
    }

    #[test]
    fn a_place_that_is_known_is_found_without_a_call() {
        let mut found = Vec::new();
        held_here(20, &mut found);
        assert_eq!(found[0][0], None, "nothing is known yet");
        assert!(found.iter().all(|[nearby, place]| nearby.is_none() || nearby == place), "{found:?}");
        assert!(found.iter().filter(|[nearby, _]| nearby.is_some()).count() > 15, "{found:?}");
    }

    /// A function that only waits was never learnt, but taken for that which held the lock.
    #[test]
    fn functions_that_wait_pass_on_what_is_held_before_and_after() {
        // By the lock call before it, which it teaches itself.
        let (locks, waits) = (my_lock(), my_wait());
        assert!(frames::passes(locks) && frames::passes(waits));
        my_unlock();
        // By the release after it: two waits may be of one call.
        let mut waits = other_wait();
        for _ in 0..20 {
            waits = other_wait();
        }
        assert!(!frames::passes(waits) && !frames::is_settled(waits));
        my_unlock();
        assert!(frames::passes(waits));
        // Held where it waits.
        // SAFETY: they are of this module.
        unsafe { wait(64) };
        let here = AT.get();
        my_unlock();
        assert!(frames::ends(here));
    }
}
