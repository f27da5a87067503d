//! What the library keeps of each thread: one block in the static thread-local storage.
//!
//! A thread-local of a shared library costs a call per access, which may even allocate on first use. This block is declared in the initial-exec model
//! instead: its place relative to the thread pointer is fixed when the program starts, so an access is two instructions, from the first lock of a thread to
//! the last destructor. All-zero is a thread that has not been seen; there is no destructor. A child process's only thread keeps its block.

use core::cell::Cell;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use libc::pthread_mutex_t;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::wait::thread::ThreadId;

use crate::config::{self, MutexKind};
use crate::holds::Holds;
use crate::rank;
use crate::real::real;

/// A thread's block.
#[repr(C, align(64))]
pub(crate) struct Block {
    /// The thread's name in lock words, while `pthread_mutex_t` is the sleeping mutex and nobody wants to be told of each; otherwise 0, and the fast paths do not apply.
    fast: Cell<u32>,
    /// The kernel's name of the thread: what debuggers expect in `__owner`.
    tid: Cell<u32>,
    /// What tells threads apart, in child processes too: never 0 once asked for.
    identity: Cell<u32>,
    /// Whether `pthread_cancel` can find the thread: see `cancel`.
    pub(crate) seated: Cell<bool>,
    /// The reader-writer locks that it holds for reading.
    pub(crate) holds: Holds,
}

const SIZE: usize = size_of::<Block>();

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".balign 64",
    ".globl lockyard_preload_block",
    ".hidden lockyard_preload_block",
    ".type lockyard_preload_block, @object",
    ".size lockyard_preload_block, {size}",
    "lockyard_preload_block: .zero {size}",
    ".popsection",
    size = const SIZE,
);

/// The calling thread's block.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn block() -> &'static Block {
    let block: *const Block;
    // SAFETY: reads the block's offset from the global offset table and adds the thread pointer; both are constant for a thread.
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr [rip + lockyard_preload_block@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) block, options(pure, nomem, nostack)
        );
    }
    // SAFETY: the thread's own block, zero at first, which is a valid `Block`; it lasts as long as the thread, which alone uses it.
    unsafe { &*block }
}

#[cfg(not(target_arch = "x86_64"))]
std::thread_local! {
    static BLOCK: Block = const { Block::new() };
}

/// The calling thread's block.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn block() -> &'static Block {
    // SAFETY: const-initialised and without destructor, so it lasts as long as the thread, which alone uses it.
    BLOCK.with(|block| unsafe { &*core::ptr::from_ref(block) })
}

#[cfg(not(target_arch = "x86_64"))]
impl Block {
    const fn new() -> Self {
        // SAFETY: all-zero is a valid block.
        unsafe { core::mem::zeroed() }
    }
}

/// Whether the calling thread is the process's only one, as the C library keeps count (2.32 and later; `false` before).
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn alone() -> bool {
    let flag: *const u8;
    // SAFETY: loads an entry of the global offset table: the address of the symbol, or null.
    unsafe {
        core::arch::asm!(
            ".weak __libc_single_threaded",
            "mov {0}, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
            out(reg) flag, options(pure, nomem, nostack, preserves_flags)
        );
    }
    // SAFETY: if not null, the C library's flag. It changes only when this thread, being alone, creates another: hence a fresh load each time.
    !flag.is_null() && unsafe { flag.read_volatile() } != 0
}

/// Unknown here: a thread never counts as alone.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn alone() -> bool {
    false
}

/// Whether glibc's mutexes tell the kernel's name of their owner.
static TOLD: AtomicBool = AtomicBool::new(false);
/// Where they tell it.
const OWNER: usize = 8;

/// The kernel's name of the calling thread.
fn kernel_name() -> u32 {
    match if TOLD.load(Relaxed) { told() } else { 0 } {
        0 => rustix::thread::gettid().as_raw_pid() as u32,
        name => name,
    }
}

/// What glibc has noted as the owner of a mutex that the caller holds.
fn told() -> u32 {
    let mut mutex = MaybeUninit::<pthread_mutex_t>::zeroed();
    let mutex = mutex.as_mut_ptr();
    real!(pthread_mutex_lock(mutex: *mut pthread_mutex_t) -> c_int);
    // SAFETY: inside the mutex and aligned as it is; only this thread knows it.
    let owner = unsafe { (*mutex.byte_add(OWNER).cast::<AtomicU32>()).load(Relaxed) };
    real!(pthread_mutex_unlock(mutex: *mut pthread_mutex_t) -> c_int);
    owner
}

/// When the library is loaded: looks whether glibc can be asked for the names of threads. A sandbox
/// that the program enters later may forbid `gettid`, which glibc's own locks do not need. (Not at a
/// thread's first lock: the look-up of a function may wait for the loader.)
pub(crate) fn learn_names() {
    TOLD.store(told() == rustix::thread::gettid().as_raw_pid() as u32, Relaxed);
}

impl Block {
    /// The thread's name, if it may take mutexes by the fast path.
    #[inline(always)]
    pub(crate) fn fast(&self) -> Option<ThreadId> {
        ThreadId::from_raw(self.fast.get())
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

    /// What tells the thread from all others.
    #[inline(always)]
    pub(crate) fn identity(&self) -> u32 {
        match self.identity.get() {
            0 => self.introduce(),
            identity => identity,
        }
    }

    #[cold]
    fn introduce(&self) -> u32 {
        let tid = kernel_name();
        self.tid.set(tid);
        // Threads beyond the registry's size share a name; the kernel's is theirs alone, and the top bit keeps the two kinds apart.
        let id = Linux::current().map(|thread| thread.id());
        if let (Some(id), MutexKind::Mutex, false) = (id, config::mutex(), lockyard_segment::watched()) {
            self.fast.set(id.raw());
        }
        if let Some(id) = id {
            rank::introduce(id, tid);
        }
        let identity = id.map_or(tid | 1 << 31, ThreadId::raw);
        self.identity.set(identity);
        identity
    }

    /// In a child process: the kernel has another name for the thread.
    pub(crate) fn rename(&self) {
        if self.identity.get() != 0 {
            self.tid.set(kernel_name());
        }
    }
}
