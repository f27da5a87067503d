//! Where in which file a piece of code is: what an address means to people, and after the process
//! has ended.
//!
//! The C library knows, from version 2.35 on, and says it without a lock or a system call, which a
//! sandbox might forbid (`_dl_find_object`). Else, and for what was loaded by a relative path, it
//! is read from `/proc/thread-self/maps`, with system calls and the stack alone: a lock may be
//! waited for while this runs, by the loader or an allocator. (The file of the whole process is
//! empty once its first thread has ended.)

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::*};

use lockyard::platform::linux::file::File;
use rustix::fs::{CWD, OFlags, readlinkat_raw};
use rustix::io::read;

use crate::layout::Text;
use crate::process;

/// A file, and a place in it as `addr2line -e FILE` counts.
pub(crate) struct Site {
    path: [u8; LONGEST],
    length: usize,
    pub(crate) place: usize,
}

const LONGEST: usize = crate::layout::PATH;

impl Site {
    pub(crate) fn path(&self) -> &[u8] {
        &self.path[..self.length]
    }

    fn new(path: &[u8], place: usize) -> Self {
        let last = path.iter().rposition(|byte| *byte == b'/').map_or(path, |slash| &path[slash + 1..]);
        let kept = if path.len() <= LONGEST { path } else { &last[..last.len().min(LONGEST)] };
        let mut site = Self { path: [0; LONGEST], length: kept.len(), place };
        site.path[..kept.len()].copy_from_slice(kept);
        site
    }
}

/// The C library's function, or null: it has none, or [`ask_ahead`] was not called.
static FIND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// The file of the program, which has no name there; empty: unknown, or too long.
static PROGRAM: Text<LONGEST> = Text::new();

/// Asks the C library and the system what is needed later.
pub(crate) fn ask_ahead() {
    // SAFETY: a name. The loader's lock is taken here, and not in a lock's path.
    let find = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"_dl_find_object".as_ptr()) };
    let mut path = [0; LONGEST];
    // Without an interpreter that is the program: the loader, which was told of another one.
    // SAFETY: a question to the C library.
    let is_loader = unsafe { libc::getauxval(libc::AT_BASE) } == 0;
    if !is_loader
        && let Ok(length) = readlinkat_raw(CWD, c"/proc/self/exe", &mut path[..])
        && length < LONGEST
    {
        PROGRAM.set(&path[..length]);
    }
    FIND.store(find, Release);
    crate::stack::ask_ahead();
}

/// What the C library says of the object in which `address` is: `struct dl_find_object`, of which
/// later versions use more of `reserved`.
#[repr(C)]
struct Found {
    flags: u64,
    begin: usize,
    end: usize,
    object: *const Loaded,
    /// The index of its tables for exceptions, or null.
    tables: *const u8,
    rest: [u64; 11],
}

/// The beginning of a `struct link_map`.
#[repr(C)]
struct Loaded {
    bias: usize,
    name: *const c_char,
}

/// What the C library says of `address`.
fn found(address: usize) -> Option<Found> {
    type Find = unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int;
    let find = FIND.load(Acquire);
    if find.is_null() {
        return None;
    }
    // SAFETY: that function.
    let find: Find = unsafe { core::mem::transmute(find) };
    let (object, tables) = (core::ptr::null(), core::ptr::null());
    let mut found = Found { flags: 0, begin: 0, end: 0, object, tables, rest: [0; 11] };
    // SAFETY: any address; a place with room.
    let is_found = unsafe { find(core::ptr::without_provenance_mut(address), &raw mut found) } == 0;
    is_found.then_some(found)
}

/// As [`locate`], by the C library alone, which is quick.
pub(crate) fn known(address: usize) -> Option<Site> {
    let found = found(address).filter(|found| !found.object.is_null())?;
    // SAFETY: what has been found stays as long as the code at `address`, which is in use.
    let (bias, name) = unsafe { ((*found.object).bias, CStr::from_ptr((*found.object).name)) };
    let mut program = [0; LONGEST];
    let path = if name.is_empty() { PROGRAM.copy_to(&mut program) } else { name.to_bytes() };
    (path.first() == Some(&b'/')).then(|| Site::new(path, address - bias))
}

/// What tells the file in which the code at `address` is from others that were loaded there before,
/// or will be. 0: not known.
pub(crate) fn stamp(address: usize) -> u64 {
    let Some(found) = found(address).filter(|found| !found.object.is_null()) else { return 0 };
    // SAFETY: as in `known`.
    let name = unsafe { CStr::from_ptr((*found.object).name) }.to_bytes();
    let mix = |sum: u64, part: u64| (sum ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    name.chunks(8).map(word).fold(found.begin as u64, mix) | 1
}

/// Where the index of the tables for exceptions begins (`.eh_frame_hdr`) of the file in which the
/// code at `address` is.
#[cfg(target_arch = "x86_64")]
pub(crate) fn tables(address: usize) -> Option<usize> {
    found(address).map(|found| found.tables.addr()).filter(|tables| *tables != 0)
}

/// What `address`, in this process's code, is. `None`: code without a file, or in a sandbox not to
/// be known.
pub(crate) fn locate(address: usize) -> Option<Site> {
    known(address).or_else(|| if process::is_shut_in() { None } else { mapped(address) })
}

/// The same, by the kernel. Apart, since it takes much of a stack.
#[cold]
#[inline(never)]
fn mapped(address: usize) -> Option<Site> {
    const MAPS: &CStr = c"/proc/thread-self/maps";
    let maps = File::open(MAPS, OFlags::RDONLY).ok()?;
    // Where the file of the lines at hand begins in memory, and whether its header can be read
    // there.
    let (mut base, mut readable) = (0, false);
    let mut found = None;
    each_line(&maps, |line| {
        let Some(mapping) = Mapping::parse(line) else { return true };
        if mapping.offset == 0 {
            (base, readable) = (mapping.start, mapping.readable);
        }
        if !(mapping.start..mapping.end).contains(&address) {
            return true;
        }
        found = (mapping.path.first() == Some(&b'/')).then(|| {
            // SAFETY: the first page of a file that is mapped there, readable; an ELF file, since
            // it has code.
            let fixed = readable && unsafe { is_fixed(base) };
            Site::new(mapping.path, if fixed { address } else { address - base })
        });
        false
    });
    found
}

/// Whether the program mapped at `base` has to lie there: its places are addresses.
///
/// # Safety
/// The header of an ELF file is at `base`.
unsafe fn is_fixed(base: usize) -> bool {
    const TYPE: usize = 16;
    const FIXED: u16 = 2;
    // SAFETY: the caller's promise.
    unsafe { core::ptr::with_exposed_provenance::<u16>(base + TYPE).read_volatile() == FIXED }
}

/// A line: `start-end rights offset device inode   path`.
struct Mapping<'a> {
    start: usize,
    end: usize,
    offset: usize,
    readable: bool,
    path: &'a [u8],
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut rest = line;
        let mut field = || {
            let from = rest.iter().position(|byte| *byte != b' ')?;
            let length = rest[from..].iter().position(|byte| *byte == b' ').unwrap_or(rest.len() - from);
            let field = &rest[from..from + length];
            rest = &rest[from + length..];
            Some(field)
        };
        let (range, rights, offset) = (field()?, field()?, field()?);
        let (_device, _inode) = (field()?, field()?);
        let dash = range.iter().position(|byte| *byte == b'-')?;
        let path = rest.iter().position(|byte| *byte != b' ').map_or(&rest[..0], |from| &rest[from..]);
        Some(Self {
            start: hexadecimal(&range[..dash])?,
            end: hexadecimal(&range[dash + 1..])?,
            offset: hexadecimal(offset)?,
            readable: rights.first() == Some(&b'r'),
            path,
        })
    }
}

fn hexadecimal(digits: &[u8]) -> Option<usize> {
    usize::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()
}

/// Calls `visit` with each line until it says `false`. Lines that do not fit are left out.
fn each_line(file: &File, mut visit: impl FnMut(&[u8]) -> bool) {
    let mut buffer = [0u8; 1024];
    let (mut filled, mut cut) = (0, false);
    loop {
        let more = read(file, &mut buffer[filled..]).unwrap_or(0);
        if more == 0 {
            return;
        }
        filled += more;
        let mut begin = 0;
        while let Some(length) = buffer[begin..filled].iter().position(|byte| *byte == b'\n') {
            let whole = !core::mem::take(&mut cut);
            if whole && !visit(&buffer[begin..begin + length]) {
                return;
            }
            begin += length + 1;
        }
        if begin == 0 && filled == buffer.len() {
            (filled, cut) = (0, true);
        } else {
            buffer.copy_within(begin..filled, 0);
            filled -= begin;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_this_program_is_in_its_file() {
        let address = locate as fn(usize) -> Option<Site> as usize;
        let site = locate(address).expect("this function is in a file");
        let exe = std::env::current_exe().unwrap();
        let exe = exe.to_str().unwrap();
        let kept = std::str::from_utf8(site.path()).unwrap();
        assert!(exe.ends_with(kept) && !kept.is_empty(), "{kept}");
        assert!(site.place != 0 && site.place <= address);
        let elsewhere = Site::new as fn(&[u8], usize) -> Site as usize;
        let other = locate(elsewhere).expect("as well");
        assert_eq!(address.abs_diff(elsewhere), site.place.abs_diff(other.place));
    }

    /// It read files in a lock's path, which a sandbox may forbid.
    #[test]
    fn the_c_library_says_the_same_as_the_kernel() {
        ask_ahead();
        let here = locate as fn(usize) -> Option<Site> as usize;
        let library = libc::getpid as *const () as usize;
        // SAFETY: a name.
        let libc = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"malloc_usable_size".as_ptr()) }.addr();
        for address in [here, library, libc] {
            let Some(known) = known(address) else {
                assert!(FIND.load(Relaxed).is_null(), "{address:#x} is known");
                continue;
            };
            let mapped = mapped(address).unwrap();
            // (One may have gone through links.)
            let last = |site: &Site| site.path().rsplit(|byte| *byte == b'/').next().map(<[u8]>::to_vec);
            assert_eq!((last(&known), known.place), (last(&mapped), mapped.place));
        }
        let local = 0;
        assert!(known(core::ptr::from_ref(&local).addr()).is_none());
    }

    const FIRST_ENDS: &str = "LOCKYARD_TEST_FIRST_ENDS";

    /// Not a test of its own: the first thread of its process ends, and another asks where it is.
    #[test]
    fn first_ends() {
        if std::env::var_os(FIRST_ENDS).is_none() {
            return;
        }
        extern "C" fn ask(_: *mut libc::c_void) -> *mut libc::c_void {
            // Field 3 of the process is that of its first thread.
            let ended = || std::fs::read_to_string("/proc/self/stat").is_ok_and(|stat| stat.contains(") Z "));
            while !ended() {
                std::thread::yield_now();
            }
            let found = locate(ask as *const () as usize).is_some();
            // SAFETY: nothing is kept.
            unsafe { libc::_exit(if found { 7 } else { 8 }) }
        }
        // SAFETY: a fork whose child starts one thread, and ends by that.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let mut thread = core::mem::zeroed();
                libc::pthread_create(&raw mut thread, core::ptr::null(), ask, core::ptr::null_mut());
                libc::syscall(libc::SYS_exit, 0);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert_eq!(libc::WEXITSTATUS(status), 7, "{status:#x}");
        }
    }

    #[test]
    fn code_is_found_once_the_first_thread_has_ended() {
        let exe = std::env::current_exe().unwrap();
        let mut command = std::process::Command::new(exe);
        let output = command.args(["--exact", "site::tests::first_ends"]).env(FIRST_ENDS, "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[test]
    fn what_has_no_file_is_nowhere() {
        let local = 0;
        assert!(locate(core::ptr::from_ref(&local).addr()).is_none());
        assert!(locate(0).is_none());
    }

    #[test]
    fn lines_are_taken_apart() {
        let line = b"7f1c-7f2d r-xp 00002000 08:01 1234                       /usr/lib/a file.so";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset, mapping.readable), (0x7f1c, 0x7f2d, 0x2000, true));
        assert_eq!(mapping.path, b"/usr/lib/a file.so");
        assert_eq!(Mapping::parse(b"1-2 ---p 0 0:0 0").unwrap().path, b"");
        assert!(Mapping::parse(b"").is_none() && Mapping::parse(b"1 r 0 0 0").is_none());
    }

    #[test]
    fn of_a_long_path_the_last_part_stays() {
        let long = [b"/a".as_slice(), &[b'x'; 170], b"/lib.so"].concat();
        assert_eq!(Site::new(&long, 1).path(), b"lib.so");
        assert_eq!(Site::new(&[&b"/"[..], &[b'y'; 180]].concat(), 1).path(), [b'y'; LONGEST]);
    }
}
