//! What the locks of a running process do, in shared memory: another process reads it without
//! stopping this one.
//!
//! # For a library that takes locks
//!
//! ```no_run
//! use lockyard_segment as segment;
//!
//! // Once, as early as one likes (before main too): nothing here allocates or prints.
//! let opened = segment::open(b"mutex=mutex rwlock=rwsem");
//!
//! // Once per lock or per place that makes locks: the class is a small number to keep in the
//! // lock. 0 is "none".
//! let class = segment::class(b"mutex", b"connection table", 0);
//!
//! // Or where nobody has given names: the class is the place of the code that makes locks, or
//! // takes them first.
//! let class = segment::class_at(b"mutex", main as *const () as usize);
//!
//! // Taking a lock at `address`. `watched` is one load; without a segment nothing else happens.
//! # let (address, try_lock, lock, unlock) = (0usize, || true, || (), || ());
//! if !segment::watched() {
//!     lock();
//! } else if try_lock() {
//!     segment::acquired(class, address);
//! } else {
//!     let waiting = segment::contended(class, address);
//!     lock();
//!     waiting.got(); // or `gave_up`
//! }
//!
//! // Where the code that asks, or the holder, is known, both are told: `contended_by`.
//!
//! // Releasing it.
//! if segment::watched() {
//!     segment::releasing(address);
//! }
//! unlock();
//! if segment::watched() {
//!     segment::released(address);
//! }
//!
//! // In the child of a fork (pthread_atfork), and at exit.
//! segment::after_fork_in_child();
//! segment::close();
//! ```
//!
//! Lock events need none of this: once the segment is open, threads count them there
//! ([`lockyard::platform::linux::threads::lend`]). What went to the C library instead of a lock of
//! ours is told with [`fell_back`].
//!
//! # The segment
//!
//! A file `/dev/shm/lockyard.PID`, mode 0600, mapped by the process and by whoever looks. Parts
//! ([`layout`]): a page that says what it is, the names of events, statistics per lock class, one
//! page per thread. It is sparse: a process pays for the pages that it uses, at most 1.3 MB and
//! 4 KiB per thread.
//!
//! Every word is an atomic that is read and written on its own: a reader may see two words
//! of different moments, as with any live counter; sums of a process at rest are exact. There is no
//! lock, no sequence number and no retry, so a reader disturbs nobody, and a writer that dies
//! leaves nothing half-done.
//!
//! A page is made real by asking the kernel for it (`MADV_POPULATE_WRITE`) before the first write:
//! where `/dev/shm` is full, a thread counts in private memory instead of dying of SIGBUS, and the
//! segment says how many do.
//!
//! # Life
//!
//! * **Exit**: [`close`] removes the name, unless a `lockyard stat -- PROGRAM` wants the last
//!   numbers (`LOCKYARD_SESSION` names its process id); then that removes it.
//! * **Crash, `_exit`, kill**: the name stays. The next process of the same user that opens a
//!   segment removes it, as does `lockyard stat`: the process id is gone, or belongs to a process
//!   that began later.
//! * **Change of user**: [`give_to`] gives the file to the new one, where root is given up for
//!   good. Otherwise root alone can look, and the name stays until root's next process.
//! * **fork**: the child counts in private memory from [`after_fork_in_child`] on, and opens a
//!   segment of its own when it first takes a lock: a child that only execs pays nothing, though
//!   handlers give locks back in it. Where system calls were filtered from the start, when it first
//!   waits. One that can make none says so in the one page that it keeps of its parent's.
//! * **exec**: the new program's segment replaces the old one's. A session gets both: the old one
//!   is called `lockyard.PID.INODE` from then on, as is that of an earlier process with the same
//!   number. A new program without a segment leaves the old one where it is: readers see by where
//!   the stack of the process begins that it is over.
//! * **No segment**, where a limit forbids it: a word in its place tells readers why.
//!
//! # Cost
//!
//! Uncontended, without a segment: one load and a branch in the caller. With one: an addition to a
//! word of the thread's own page and a note of the lock held there, in two or three cache lines,
//! and one acquisition in 64 to 256 reads the clock twice for its hold time. Contended: four
//! readings of the clock, and a look at the holder's page; the shared counters of the class are
//! written after the release, not while the lock is held.

pub mod callers;
pub mod classes;
mod exec;
mod expected;
mod fallbacks;
mod forked;
pub mod frames;
pub mod histogram;
mod holds;
pub mod hottest;
#[cfg(all(test, target_arch = "x86_64"))]
mod interrupted;
mod kernel_names;
pub mod layout;
mod lesson;
mod life;
mod memory;
mod moved;
mod name;
mod opening;
pub mod origins;
pub mod places;
mod process;
mod program;
pub mod reader;
mod real;
pub mod recorder;
mod refusal;
pub mod sample;
mod search;
mod session;
mod site;
mod stack;
pub mod tape;
mod text;
pub mod told;
mod untold;
mod unwind;
mod with_caller;
mod within;
pub mod writer;

pub use callers::Caller;
pub use classes::{Class, MANY as MANY_LOCKS};
pub use fallbacks::{CHOSEN, Fallback};
pub use frames::Call;
pub use holds::{acquired_plainly, released_plainly};
pub use lesson::Lessons;
pub use life::{OF_C_BYTES, TELLS_BYTES, asked, is_of_c, open_for_life, tells};
pub use moved::{acquired_after, awaited, awake, idle};
pub use process::namespace;
pub use program::{Maker, Program};
pub use reader::Reader;
pub use recorder::Recorder;
pub use refusal::Refusal;
pub use sample::Sample;
pub use told::{
    Holder, Waiting, acquired, acquired_on, acquired_past_others, acquired_unheld, class, class_at, class_awaited,
    class_held, contended, contended_by, fell_back, joined, left, moves, page, page_so_far, refused, released,
    released_on, releasing, releasing_on,
};
pub use untold::Refused;
pub use writer::{after_fork_in_child, close, give_to, open, quit, watched, withdraw};
