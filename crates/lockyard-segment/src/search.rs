//! The threads that hold a lock, looked for among the pages of all.
//!
//! A look costs a cache miss a page. A waiter looks at [`ALWAYS`] pages, and at all others if the
//! last look at those is so long over that such looks take a [`SHARE`]th of one CPU's time at most.

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
/// How often readers are looked for: one may be about to note that it holds the lock.
const LOOKS: usize = 2;

/// When the next look at further pages is due, nanoseconds of the monotonic clock.
static DUE: AtomicU64 = AtomicU64::new(0);

/// What `look` says of the further pages; `None` if it is not due.
fn further<R>(look: impl FnOnce(&mut dyn Iterator<Item = &'static ThreadPage>) -> R) -> Option<R> {
    let mut pages = writer::known_pages().skip(ALWAYS).peekable();
    pages.peek()?;
    let begin = Linux::now();
    if begin < DUE.load(Relaxed) {
        return None;
    }
    let found = look(&mut pages);
    let end = Linux::now();
    DUE.store(end.saturating_add(SHARE * end.saturating_sub(begin)), Relaxed);
    Some(found)
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
    for _ in 0..LOOKS {
        let near = mark_all(&mut writer::known_pages().take(ALWAYS));
        let far = further(mark_all).unwrap_or(0);
        if near | far != 0 {
            return if near != 0 { near } else { far };
        }
    }
    0
}

/// The page of the thread that the kernel calls `thread`.
#[cold]
pub(crate) fn of_thread(thread: u32) -> Option<&'static ThreadPage> {
    let is_it = |page: &&'static ThreadPage| page.thread.load(Relaxed) == u64::from(thread);
    let near = || writer::known_pages().take(ALWAYS).find(is_it);
    (thread != 0).then(near).flatten().or_else(|| further(|mut pages| Iterator::find(&mut pages, is_it)).flatten())
}
