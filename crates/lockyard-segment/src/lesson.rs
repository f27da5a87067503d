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

use core::cell::Cell;

use crate::frames::{self, Call, Frame, LEVELS};
use crate::unwind;

/// What a thread has noted of some lock calls until the locks are given back. All-zero: nothing.
#[derive(Debug)]
pub struct Lessons([Lesson; 4]);

/// Of one.
#[derive(Debug)]
struct Lesson {
    /// The lock's address; 0: none.
    lock: Cell<usize>,
    /// Other locks that the thread has given back since.
    others: Cell<u32>,
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
        self.0.iter().any(|lesson| lesson.lock.get() != 0)
    }

    /// Notes that `call` has taken `lock`, if there is room; not if it is noted already and
    /// `shared`: a thread may hold it several times. If not shared, its release was not seen.
    #[cold]
    pub fn begin(&self, lock: usize, call: Call, shared: bool) {
        let known = self.of(lock);
        if known.is_some() && shared {
            return;
        }
        known.inspect(|known| known.give_up());
        if let Some(free) = self.of(0) {
            free.begin(lock, call);
        }
    }

    /// `call` gives `lock` back. If that is noted: the place of the code that called the lock
    /// function, and that of the code that held the lock. `None`: nothing is known yet.
    #[cold]
    pub fn end(&self, lock: usize, call: Call) -> Option<(usize, usize)> {
        match self.of(lock) {
            Some(lesson) => lesson.end(call),
            None => {
                self.0.iter().for_each(Lesson::goes_on);
                None
            }
        }
    }
}

impl Lesson {
    fn begin(&self, lock: usize, call: Call) {
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
        self.others.set(0);
        self.lock.set(lock);
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
        if self.lock.get() != 0 && self.others.get() > PATIENCE {
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

    fn end(&self, call: Call) -> Option<(usize, usize)> {
        self.lock.set(0);
        let is_in = |frame: Frame| {
            let above = Seen::new(frame)?;
            let same = |seen: Seen| (seen.end, seen.function) == (above.end, above.function);
            let level = self.seen().position(same)?;
            // The same call: the function that it called has not returned, and is not there because
            // it jumped to the one that gives the lock back.
            let is_same = self.seen[level].get().at == above.at;
            Some(level - usize::from(is_same && level > 0))
        };
        match call.frames().find_map(is_in) {
            Some(level) => {
                self.seen().take(level).for_each(|seen| frames::pass(seen.at));
                self.seen().skip(level).take(1).for_each(|seen| frames::end(seen.at));
            }
            None => self.try_in_vain(),
        }
        let place = self.place().filter(|place| frames::is_settled(*place))?;
        Some((self.seen[0].get().at, place))
    }
}
