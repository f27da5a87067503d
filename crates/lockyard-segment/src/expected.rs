//! Whether new threads are recorded: [`Header::recorded_until`].
//!
//! A recorder puts that moment off as long as it records, and stores 0 when it stops. One that was
//! killed stores nothing: later threads find that the moment has passed. The child of a fork is
//! recorded from its first lock on if its parent is then; another program of the session, until its
//! recorder has found it.
//!
//! **Ordering.** A new thread stores `BEGIN`, then loads the word once more; a recorder that stops
//! stores 0 there, then `OFF` into each page. Between the two each has a SeqCst fence: the thread
//! finds the 0, or the recorder finds the page, and `BEGIN` in it.

use core::sync::atomic::{Ordering::*, fence};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;

use crate::layout::state::{BEGIN, OFF};
use crate::layout::{Header, ThreadPage};
use crate::tape::change;

/// For so long after a recorder was there. One that is delayed for longer misses the first events
/// of threads that begin meanwhile.
const LEASE_NS: u64 = 2_000_000_000;

/// New threads are recorded from here on, for a while.
pub(crate) fn begin(header: &Header) {
    header.recorded_until.store(Linux::now() + LEASE_NS, Relaxed);
}

/// They are not. What the caller does next ends it for the threads that are there.
pub(crate) fn end(header: &Header) {
    header.recorded_until.store(0, Relaxed);
    fence(SeqCst);
}

/// Whether they are.
pub(crate) fn is_on(header: &Header) -> bool {
    let until = header.recorded_until.load(Relaxed);
    until != 0 && Linux::now() < until
}

/// The thread of `page`, which is not recorded, is new.
pub(crate) fn join(page: &ThreadPage, header: &Header) {
    if is_on(header) {
        begin_unless_over(page, header);
    }
}

fn begin_unless_over(page: &ThreadPage, header: &Header) {
    change(page, OFF, BEGIN);
    fence(SeqCst);
    if header.recorded_until.load(Relaxed) == 0 {
        change(page, BEGIN, OFF);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Zeroes.
    fn made<T>() -> Box<T> {
        // SAFETY: of headers and pages only: nothing but atomics.
        unsafe { Box::<T>::new_zeroed().assume_init() }
    }

    /// They took a tape of 516 KiB each, for good.
    #[test]
    fn a_thread_that_begins_after_its_recorder_was_killed_is_not_recorded() {
        let (page, header) = (made::<ThreadPage>(), made::<Header>());
        begin(&header);
        join(&page, &header);
        assert_eq!(page.tape.load(Relaxed), BEGIN);
        page.begin_anew(1);
        header.recorded_until.store(Linux::now(), Relaxed);
        join(&page, &header);
        assert_eq!(page.tape.load(Relaxed), OFF);
    }

    /// It was recorded for good.
    #[test]
    fn a_thread_that_begins_while_recording_stops_is_not_recorded() {
        let (page, header) = (made::<ThreadPage>(), made::<Header>());
        begin(&header);
        // Here the thread has asked.
        end(&header);
        page.tape.swap(OFF, Relaxed);
        begin_unless_over(&page, &header);
        assert_eq!(page.tape.load(Relaxed), OFF);
    }
}
