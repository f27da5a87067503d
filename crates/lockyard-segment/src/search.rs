//! The threads that hold a lock, looked for among the pages of all.
//!
//! A look costs a cache miss a page. A waiter looks at [`ALWAYS`] pages. Of the waiters that come
//! in [`SHARE`] times the time that a look at all others takes, one looks at all others.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;

use crate::callers::Caller;
use crate::holds::mark_noted;
use crate::kernel_names;
use crate::layout::{Held, ThreadPage};
use crate::writer;

/// Pages that a waiter always looks at.
const ALWAYS: usize = 64;
/// Looks at further pages pause for so many times what one took.
const SHARE: u64 = 16;
/// The longest pause, and the longest time for which waiters leave it to the one that looks.
const PAUSE_NS: u64 = 20_000_000;

/// When the next look at further pages is due, nanoseconds of the monotonic clock.
static DUE: AtomicU64 = AtomicU64::new(0);

/// Looks at the further pages, if that is due.
fn further<R>(look: impl FnOnce(&mut dyn Iterator<Item = &'static ThreadPage>) -> R) -> Option<R> {
    let mut pages = writer::known_pages().skip(ALWAYS).peekable();
    pages.peek()?;
    let (due, begin) = (DUE.load(Relaxed), Linux::now());
    // One of those that come together looks.
    let looks = due <= begin && DUE.compare_exchange(due, begin.saturating_add(PAUSE_NS), Relaxed, Relaxed).is_ok();
    looks.then(|| {
        let found = look(&mut pages);
        let end = Linux::now();
        let pause = end.saturating_sub(begin).saturating_mul(SHARE).min(PAUSE_NS);
        DUE.store(end.saturating_add(pause), Relaxed);
        found
    })
}

/// Marks what threads hold of `lock` as waited for. The kernel's name of one of them; 0: none is
/// seen, or several that hold it alone, of which some notes have outlasted their holds.
pub(crate) fn readers(lock: usize) -> u32 {
    let mut found = Found::default();
    let mut mark_all = |pages: &mut dyn Iterator<Item = &'static ThreadPage>| {
        pages.filter(|page| mark_noted(page, lock)).for_each(|page| found.add(page, lock));
    };
    // Twice: a thread may be about to note that it holds the lock, or to move the note.
    for _ in 0..2 {
        mark_all(&mut writer::known_pages().take(ALWAYS));
    }
    further(mark_all);
    found.thread()
}

/// A thread of each sort that holds a lock.
#[derive(Default)]
struct Found {
    shares: u32,
    alone: u32,
    several_alone: bool,
}

impl Found {
    fn add(&mut self, page: &ThreadPage, lock: usize) {
        let thread = page.thread.load(Relaxed) as u32;
        let is_shared = |held: &Held| Caller::from_raw(held.caller.load(Relaxed)).is_some_and(Caller::is_shared);
        let mut notes = page.held[..page.depth()].iter();
        if notes.any(|held| held.lock.load(Relaxed) == lock as u64 && is_shared(held)) {
            self.shares = if self.shares == 0 { thread } else { self.shares };
        } else {
            self.several_alone |= self.alone != 0 && self.alone != thread;
            self.alone = thread;
        }
    }

    fn thread(&self) -> u32 {
        match self.shares {
            0 if self.several_alone => 0,
            0 => self.alone,
            thread => thread,
        }
    }
}

/// Marks what one of the first threads holds of `lock`, for which a signalled thread waits. That
/// thread's page; or whether there are others, which may hold it.
#[cold]
pub(crate) fn holder(lock: usize) -> Result<&'static ThreadPage, bool> {
    let mut pages = writer::known_pages();
    let found = pages.by_ref().take(ALWAYS).find(|page| mark_noted(page, lock));
    found.ok_or_else(|| pages.next().is_some())
}

/// The page of the thread that the kernel calls `thread`.
#[cold]
pub(crate) fn of_thread(thread: u32) -> Option<&'static ThreadPage> {
    let is_it = |page: &&'static ThreadPage| page.thread.load(Relaxed) == u64::from(thread);
    let noted = || kernel_names::slot_of(thread).and_then(writer::known_page).filter(is_it);
    let near = || writer::known_pages().take(ALWAYS).find(is_it);
    let far = || further(|mut pages| Iterator::find(&mut pages, is_it)).flatten();
    if thread == 0 { None } else { noted().or_else(near).or_else(far) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Class;
    use crate::holds::note;

    /// A page of `thread` with a note of lock 8.
    fn page(thread: u32, shared: bool) -> Box<ThreadPage> {
        // SAFETY: nothing but atomics, of which zero is a value.
        let page: Box<ThreadPage> = unsafe { Box::new(core::mem::zeroed()) };
        let caller = Caller::from(Class::NONE);
        page.thread.store(thread.into(), Relaxed);
        note(&page, if shared { caller.shared() } else { caller }, 8, None);
        page
    }

    /// A waiter was told of one whose lock another thread had released.
    #[test]
    fn of_several_that_hold_a_lock_alone_none_is_told() {
        let found = |pages: &[&ThreadPage]| {
            let mut found = Found::default();
            pages.iter().for_each(|page| found.add(page, 8));
            found.thread()
        };
        let [one, other] = [page(1, false), page(2, false)];
        let [reader, second] = [page(3, true), page(4, true)];
        assert_eq!((found(&[]), found(&[&one]), found(&[&one, &one])), (0, 1, 1));
        assert_eq!((found(&[&one, &other]), found(&[&one, &reader, &second])), (0, 3));
    }
}
