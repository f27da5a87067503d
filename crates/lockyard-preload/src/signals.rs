//! What a recorder is told of condition variables and semaphores: see [`lockyard_segment::tape`].
//! Which of them: see [`places`](lockyard_segment::places).
//!
//! All of it may run in a signal handler.
//!
//! **Cost.** Without a segment a load and a branch at each call. With one, while the thread is not
//! recorded, a call and two loads more.

use core::ffi::c_int;

use lockyard_segment as segment;
use lockyard_segment::layout::ThreadPage;
use lockyard_segment::places::Object;
use lockyard_segment::tape::{self, Kind};

use crate::watch;

/// What calls on them tell.
pub(crate) trait Told: Copy {
    /// The calling thread does `what` with it.
    fn tell(self, what: Kind);

    /// Its wait is over: the thread has what it waited for, or does without.
    #[inline(always)]
    fn tell_end(self, is_signalled: bool) {
        self.tell(if is_signalled { Kind::Woken } else { Kind::GaveUp });
    }

    /// A call of the C library that waits for it, and says 0 if it was signalled.
    #[inline(always)]
    fn tell_around(self, wait: impl FnOnce() -> c_int) -> c_int {
        self.tell(Kind::Wait);
        let result = wait();
        self.tell_end(result == 0);
        result
    }
}

impl Told for Object {
    #[inline(always)]
    fn tell(self, what: Kind) {
        #[cold]
        #[inline(never)]
        fn tell(object: Object, what: Kind) {
            if let Some(page) = watch::page_so_far() {
                object.tell_on(page, what);
            }
        }
        if segment::watched() {
            tell(self, what);
        }
    }
}

/// Where the calling thread counts, if it is recorded.
#[inline]
pub(crate) fn recorded() -> Option<&'static ThreadPage> {
    let page = if segment::watched() { watch::page_so_far() } else { None };
    page.filter(|page| tape::is_on(page))
}
