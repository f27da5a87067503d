//! How far the stack of the calling thread goes up, for readers of frames, where that is known
//! without a question to the kernel: sandboxes forbid them.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use lockyard::platform::linux::threads;

/// Where the stack of the process's first thread ends, as far as its code goes; 0: unknown.
static END: AtomicUsize = AtomicUsize::new(0);
/// That thread's block of the C library, which is elsewhere.
static FIRST: AtomicUsize = AtomicUsize::new(0);

/// Asks the loader what is needed later, in the first thread.
pub(crate) fn ask_ahead() {
    if threads::kernel_id_of_caller() != rustix::process::getpid().as_raw_pid() as u32 {
        return;
    }
    // SAFETY: a name of the loader's, of a word, if it has it.
    let end = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_stack_end".as_ptr()).cast::<usize>().as_ref() };
    END.store(end.map_or(0, |end| *end), Relaxed);
    FIRST.store(this_thread(), Relaxed);
}

/// Up to where there is memory for certain above `top`, where the calling thread is; 0: it is on a
/// stack that the program made, or deep in its own.
///
/// Behind a thread's stack is the C library's block of it, and no thread has a smaller stack than
/// [`SMALLEST`]: what is that near below the block is in it. The first thread's is larger.
#[cold]
pub(crate) fn end_above(top: usize) -> usize {
    /// `PTHREAD_STACK_MIN`.
    const SMALLEST: usize = 1 << 14;
    const LARGE: usize = 1 << 17;
    let block = this_thread();
    let (end, most) = if block == FIRST.load(Relaxed) { (END.load(Relaxed), LARGE) } else { (block, SMALLEST) };
    if end > top && end - top <= most { end } else { 0 }
}

/// The C library's block of the calling thread; 0: unknown.
fn this_thread() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let block: usize;
        // SAFETY: loads the block's first word, which is its address.
        unsafe {
            core::arch::asm!(
                "mov {}, qword ptr fs:[0]", out(reg) block,
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        block
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_its_own_stack_and_no_other() {
        ask_ahead();
        let here = || {
            let local = 0u8;
            core::ptr::from_ref(&local).addr()
        };
        if cfg!(not(target_arch = "x86_64")) {
            return;
        }
        let of_thread = std::thread::spawn(move || end_above(here()) > here()).join().unwrap();
        let heap = Box::new(0u8);
        assert!(of_thread && end_above(core::ptr::from_ref(&*heap).addr()) == 0);
    }
}
