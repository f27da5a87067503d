//! The threads that hold a lock, looked for among the pages of all.
//!
//! A look costs a cache miss a page. A waiter looks at [`ALWAYS`] pages. Of the waiters that come
//! in [`SHARE`] times the time that a look at all others takes, one looks at all others.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;

use crate::holds::mark_noted;
use crate::layout::ThreadPage;
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
/// seen.
pub(crate) fn readers(lock: usize) -> u32 {
    let mark_all = |pages: &mut dyn Iterator<Item = &'static ThreadPage>| {
        pages.filter(|page| mark_noted(page, lock)).fold(0, |first, page| match first {
            0 => page.thread.load(Relaxed) as u32,
            first => first,
        })
    };
    // Twice: a thread may be about to note that it holds the lock, or to move the note.
    let near = [(); 2].map(|()| mark_all(&mut writer::known_pages().take(ALWAYS)));
    let far = further(mark_all);
    near.into_iter().chain(far).find(|thread| *thread != 0).unwrap_or(0)
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
    let near = || writer::known_pages().take(ALWAYS).find(is_it);
    let far = || further(|mut pages| Iterator::find(&mut pages, is_it)).flatten();
    if thread == 0 { None } else { near().or_else(far) }
}
