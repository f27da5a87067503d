//! Whether new threads are recorded: [`Header::recorded_until`].
//!
//! A recorder puts that moment off as long as it records, and stores 0 when it stops. One that was
//! killed stores nothing: later threads find that the moment has passed. The child of a fork, and a
//! program that begins, is recorded from its first lock on if its parent is then. If nothing is
//! known of the parent, the program is, until its recorder has found it.
//!
//! **Ordering.** A new thread stores `BEGIN`, then loads the word once more; a recorder that stops
//! stores 0 there, then `OFF` into each page. Between the two each has a SeqCst fence: the thread
//! finds the 0, or the recorder finds the page, and `BEGIN` in it.

use core::mem::offset_of;
use core::sync::atomic::{Ordering::*, fence};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use rustix::fs::OFlags;
use rustix::io::pread;

use crate::layout::state::{BEGIN, OFF};
use crate::layout::{Header, ThreadPage, VERSION};
use crate::process;

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
    is_to_come(header.recorded_until.load(Relaxed))
}

/// Most often there is no recorder, and no look at the clock.
fn is_to_come(until: u64) -> bool {
    until != 0 && Linux::now() < until
}

/// Whether they are in the parent of this process, which begins in session `session`; or nothing is
/// known of it: the first program's is the recorder.
pub(crate) fn is_on_in_parent(session: u32) -> bool {
    let until = || {
        let parent = rustix::process::getppid()?.as_raw_pid() as u32;
        let file = process::open(parent, OFlags::RDONLY).ok()?;
        let found = process::identity(&file)?;
        let is_it = (found.process, found.session) == (parent, session) && process::version(&file) == VERSION;
        let mut until = [0; 8];
        let length = pread(&file, &mut until, offset_of!(Header, recorded_until) as u64).ok()?;
        (is_it && length == until.len()).then(|| u64::from_le_bytes(until))
    };
    until().is_none_or(is_to_come)
}

/// The thread of `page`, which is not recorded, is new.
pub(crate) fn join(page: &ThreadPage, header: &Header) {
    if is_on(header) {
        begin_unless_over(page, header);
    }
}

fn begin_unless_over(page: &ThreadPage, header: &Header) {
    page.change(OFF, BEGIN);
    fence(SeqCst);
    if header.recorded_until.load(Relaxed) == 0 {
        page.change(BEGIN, OFF);
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
