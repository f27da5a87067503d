//! What the library keeps of each thread: one block in the static thread-local storage.
//!
//! A thread-local of a shared library costs a call per access, which may even allocate on first
//! use. This block is declared in the initial-exec model instead: its place relative to the thread
//! pointer is fixed when the program starts, so an access is two instructions, from the first lock
//! of a thread to the last destructor. All-zero is a thread that has not been seen; there is no
//! destructor. A child process's only thread keeps its block.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lockyard::platform::Platform;
use lockyard::platform::linux::{Linux, threads};
use lockyard::platform::thread::ThreadId;
use lockyard_segment::Lessons;
use lockyard_segment::layout::ThreadPage;

use crate::config::{self, MutexKind};
use crate::holds::Holds;
use crate::rank;

/// A thread's block.
#[repr(C, align(64))]
pub(crate) struct Block {
    /// The thread's name in lock words, while `pthread_mutex_t` is the sleeping mutex and nobody
    /// wants to be told of each; otherwise 0, and the fast paths do not apply.
    fast: Cell<u32>,
    /// The kernel's name of the thread: what debuggers expect in `__owner`.
    tid: Cell<u32>,
    /// What tells threads apart, in child processes too: never 0 once asked for.
    identity: Cell<u32>,
    /// The thread's name in lock words, while `pthread_mutex_t` is the sleeping mutex.
    name: Cell<u32>,
    /// Where the thread counts, once it has: see `watch`. Null: ask.
    pub(crate) page: Cell<*const ThreadPage>,
    /// Whether `pthread_cancel` can find the thread: see `cancel`.
    pub(crate) seated: Cell<bool>,
    /// The reader-writer locks that it holds for reading.
    pub(crate) holds: Holds,
    /// What it learns from its holds: see `watch`.
    pub(crate) lessons: Lessons,
    /// How often it met readers: see [`Block::meets`].
    met: Cell<u32>,
}

const SIZE: usize = size_of::<Block>();

core::arch::global_asm!(
    ".pushsection .tbss,\"awT\",%nobits",
    ".balign 64",
    ".globl lockyard_preload_block",
    ".hidden lockyard_preload_block",
    ".type lockyard_preload_block, %object",
    ".size lockyard_preload_block, {size}",
    "lockyard_preload_block: .zero {size}",
    ".popsection",
    size = const SIZE,
);

/// The calling thread's block.
#[inline(always)]
pub(crate) fn block() -> &'static Block {
    let block: *const Block;
    // SAFETY: reads the block's offset from the global offset table and adds the thread pointer;
    // both are constant for a thread.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr [rip + lockyard_preload_block@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) block, options(pure, nomem, nostack)
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            "mrs {1}, tpidr_el0",
            "adrp {0}, :gottprel:lockyard_preload_block",
            "ldr {0}, [{0}, :gottprel_lo12:lockyard_preload_block]",
            "add {0}, {0}, {1}",
            out(reg) block, out(reg) _, options(pure, nomem, nostack, preserves_flags)
        );
    }
    // SAFETY: the thread's own block, zero at first, which is a valid `Block`; it lasts as long as
    // the thread, which alone uses it.
    unsafe { &*block }
}

/// Whether the calling thread is the process's only one, as the C library keeps count (2.32 and
/// later; `false` before).
#[inline(always)]
pub(crate) fn alone() -> bool {
    let flag: *const u8;
    // SAFETY: loads an entry of the global offset table: the address of the symbol, or null.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!(
            ".weak __libc_single_threaded",
            "mov {0}, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
            out(reg) flag, options(pure, nomem, nostack, preserves_flags)
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!(
            ".weak __libc_single_threaded",
            "adrp {0}, :got:__libc_single_threaded",
            "ldr {0}, [{0}, :got_lo12:__libc_single_threaded]",
            out(reg) flag, options(pure, nomem, nostack, preserves_flags)
        );
    }
    // SAFETY: if not null, the C library's flag. It changes only when this thread, being alone,
    // creates another: hence a fresh load each time.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

/// Bits of a record's name, and of its claim: see [`Block::identity`].
const NAME: u32 = (1 << 16) - 1;
const CLAIM: u32 = (1 << 15) - 1;
const NAMELESS: u32 = 1 << 31;
const _: () =
    assert!(NAME == ThreadId::ANONYMOUS.raw() && NAME.count_ones() + CLAIM.count_ones() == NAMELESS.trailing_zeros());

/// The identity of a thread with a record: never 0, as no name is.
fn named(identity: u64) -> u32 {
    let (name, claim) = (identity as u32, (identity >> 32) as u32);
    (claim & CLAIM) << NAME.count_ones() | name & NAME
}

/// The identity of a thread without: it shares its name with others, so it draws a number.
#[cold]
fn nameless() -> u32 {
    static DRAWN: AtomicU32 = AtomicU32::new(0);
    DRAWN.fetch_add(1, Relaxed) | NAMELESS
}

/// The record in an identity, if it has one.
pub(crate) fn record_of(identity: u32) -> Option<u32> {
    (identity & NAMELESS == 0).then_some(identity & NAME)
}

impl Block {
    /// It meets readers where it would read. Returns how often it has, mod 2³².
    pub(crate) fn meets(&self) -> u32 {
        let met = self.met.get().wrapping_add(1);
        self.met.set(met);
        met
    }

    /// The thread's name, if it may take mutexes by the fast path.
    #[inline(always)]
    pub(crate) fn fast(&self) -> Option<ThreadId> {
        ThreadId::from_raw(self.fast.get())
    }

    /// The same where every lock is told of: the thread's name, once [`Block::identity`] was asked
    /// for.
    #[inline(always)]
    pub(crate) fn name(&self) -> Option<ThreadId> {
        ThreadId::from_raw(self.name.get())
    }

    /// No fast paths from now on.
    pub(crate) fn slow_down(&self) {
        self.fast.set(0);
    }

    /// The kernel's name of the thread, once [`Block::identity`] was asked for.
    #[inline(always)]
    pub(crate) fn tid(&self) -> u32 {
        self.tid.get()
    }

    /// What tells the thread from all others, dead ones too: an object may name an owner that has
    /// exited.
    ///
    /// | bit 31 | 16–30 | 0–15 | |
    /// |---|---|---|---|
    /// | 0 | which claim of the record | the record's name | two that live have two names; the 32,768th claim after a dead one has its number |
    /// | 1 | a number drawn | | the thread has no record |
    ///
    /// The child of a fork goes on with the block, and so with the identity. Its new threads have
    /// other records, or draw other numbers.
    #[inline(always)]
    pub(crate) fn identity(&self) -> u32 {
        self.known_identity().unwrap_or_else(|| self.introduce())
    }

    /// The same, if it was asked for before.
    #[inline(always)]
    pub(crate) fn known_identity(&self) -> Option<u32> {
        match self.identity.get() {
            0 => None,
            identity => Some(identity),
        }
    }

    #[cold]
    fn introduce(&self) -> u32 {
        self.tid.set(threads::kernel_id_of_caller());
        let id = Linux::current().map(|thread| thread.id());
        if let (Some(id), MutexKind::Mutex) = (id, config::mutex()) {
            self.name.set(id.raw());
            if !lockyard_segment::watched() {
                self.fast.set(id.raw());
            }
        }
        if let Some(id) = id {
            rank::introduce(id, self.tid.get());
        }
        let identity = threads::identity().map_or_else(nameless, named);
        self.identity.set(identity);
        identity
    }

    /// The thread's record is about to be another's, of the same name. Destructors that run later
    /// take locks as threads without a record do; what the thread holds is its own by `identity`.
    pub(crate) fn leave(&self) {
        self.fast.set(0);
        self.name.set(0);
        self.page.set(core::ptr::null());
        self.lessons.clear();
    }

    /// In a child process: the kernel has another name for the thread, and it counts elsewhere.
    pub(crate) fn rename(&self) {
        self.page.set(core::ptr::null());
        self.lessons.clear();
        if self.identity.get() != 0 {
            self.tid.set(threads::kernel_id_of_caller());
        }
    }
}
