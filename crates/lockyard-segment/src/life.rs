//! A process's statistics from their opening to its end, for libraries that are part of a program.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use lockyard::platform::linux::threads;

use crate::untold::Refused;
use crate::{told, writer};

/// What is in the file of a program that tells of its locks by itself, and then [`END`].
const TELLS: &str = "lockyard: this program tells of its locks by itself";

/// What a program that tells of its locks by itself has in its file. One that looks for it has not.
pub const TELLS_BYTES: [u8; TELLS.len() + END.len()] = marked(TELLS);

const fn marked<const N: usize>(text: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let (begin, end) = bytes.split_at_mut(N - END.len());
    begin.copy_from_slice(text.as_bytes());
    end.copy_from_slice(&END);
    bytes
}

/// What a program that looks for such a text has not behind it: there lies some other text.
const END: [u8; 8] = [1, 0xfe, 3, 0xfc, 5, 0xfa, 7, 0xf8];

/// What is in liblockyard's file, and then [`END`].
const OF_C: &str = "lockyard: liblockyard is in this file";

/// What liblockyard has in its file, and a program with which it is linked statically.
pub const OF_C_BYTES: [u8; OF_C.len() + END.len()] = marked(OF_C);

/// Whether [`TELLS_BYTES`] is at the beginning of `bytes`.
pub fn tells(bytes: &[u8]) -> bool {
    begins(bytes, TELLS)
}

/// The same of [`OF_C_BYTES`].
pub fn is_of_c(bytes: &[u8]) -> bool {
    begins(bytes, OF_C)
}

fn begins(bytes: &[u8], text: &str) -> bool {
    bytes.strip_prefix(text.as_bytes()).is_some_and(|rest| rest.starts_with(&END))
}

/// Opens the segment, and registers what the child of a fork and the end of the process need;
/// `locks` says for people which locks it uses. Once, or as often as one likes. May allocate: it
/// registers handlers.
///
/// # Errors
/// Why there is no segment. The locks work as well without.
pub fn open_for_life(locks: &[u8]) -> Result<(), Refused> {
    static REGISTERED: AtomicU32 = AtomicU32::new(0);
    if writer::shared().is_none() {
        take_over();
    }
    writer::open(locks)?;
    if REGISTERED.swap(1, Relaxed) == 0 {
        // SAFETY: functions that live as long as the process: a library that counts stays loaded.
        unsafe {
            // Without them a child would count in its parent's segment, and the name would stay
            // until the next program removes it: no reason to fail.
            libc::pthread_atfork(None, None, Some(in_child));
            libc::atexit(at_exit);
        }
        threads::when_left(told::left);
    }
    Ok(())
}

/// Makes the library in which it stands tell by itself: its statistics are opened by `$open` when
/// the program is loaded, if the environment [asks](crate::asked), and `lockyard stat` knows by the
/// file that the preload library would be one too many.
#[macro_export]
macro_rules! tell_from_load_on {
    ($open:expr) => {
        #[used]
        static TELLS: [u8; $crate::TELLS_BYTES.len()] = $crate::TELLS_BYTES;

        #[used]
        #[unsafe(link_section = ".init_array")]
        static AT_LOAD: extern "C" fn() = {
            extern "C" fn at_load() {
                // SAFETY: at load, before threads that might change the environment.
                if unsafe { $crate::asked() } {
                    // The program goes on without; `lockyard stat` says that it saw nothing.
                    let _ = $open();
                }
            }
            at_load
        };
    };
}

/// Whether the environment asks for statistics: `LOCKYARD_STAT` is set, and not 0.
///
/// # Safety
/// No thread changes the environment meanwhile: called at load.
pub unsafe fn asked() -> bool {
    // SAFETY: the caller's promise; the text is not kept.
    unsafe {
        let value = libc::getenv(c"LOCKYARD_STAT".as_ptr());
        !value.is_null() && !matches!(CStr::from_ptr(value).to_bytes(), b"" | b"0")
    }
}

/// If the preload library tells of this process it ends that: there is one file a process, and two
/// would take it from each other.
fn take_over() {
    // SAFETY: a name; what has it is the preload library's function of this type.
    unsafe {
        let quit = libc::dlsym(libc::RTLD_DEFAULT, c"lockyard_preload_quit".as_ptr());
        if !quit.is_null() {
            core::mem::transmute::<*mut libc::c_void, extern "C" fn()>(quit)();
        }
    }
}

unsafe extern "C" fn in_child() {
    writer::after_fork_in_child();
}

extern "C" fn at_exit() {
    writer::close();
}
