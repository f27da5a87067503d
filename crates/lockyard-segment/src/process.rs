//! Processes and the names of their segments, without allocation: a lock may be waited for while
//! this runs.

use core::ffi::CStr;
use core::fmt;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use lockyard::platform::linux::file::File;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, OFlags, RawDir, Uid, chownat, fstat, stat, unlinkat};
use rustix::io::{Errno, pread};
use rustix::process::{Pid, Resource, getrlimit, test_kill_process};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, SecureComputingMode, capabilities, capabilities_secure_bits,
    secure_computing_mode,
};

use crate::layout::{Header, MAGIC, Text};
use crate::name::Name;
use crate::program::Program;

/// Where the names are.
pub(crate) const FOLDER: &CStr = c"/dev/shm";
const PREFIX: &[u8] = b"lockyard.";

/// A program that a process runs, or ran before exec, or an earlier process of the same number ran:
/// what has a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) process: u32,
    /// 0: it runs this one. Else the number of the segment's file: no two have the same.
    pub(crate) before: u64,
}

impl Image {
    /// The one that `process` runs.
    pub(crate) const fn of(process: u32) -> Self {
        Self { process, before: 0 }
    }

    /// The name of its segment, inside [`FOLDER`].
    pub(crate) fn name(self) -> Name {
        match self {
            Self { process, before: 0 } => Name::new(format_args!("lockyard.{process}")),
            Self { process, before } => Name::new(format_args!("lockyard.{process}.{before}")),
        }
    }

    /// The one whose segment has this name.
    fn named(name: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(name.strip_prefix(PREFIX)?).ok()?;
        let (process, before) = text.split_once('.').unwrap_or((text, "0"));
        Some(Self { process: process.parse().ok()?, before: before.parse().ok()? })
    }
}

/// The name of the segment of `process`, inside [`FOLDER`].
pub(crate) fn file_name(process: u32) -> Name {
    Image::of(process).name()
}

/// When `process` began, in ticks since boot; `None` if there is no such process.
pub(crate) fn began(process: u32) -> Option<u64> {
    Program::of(process).map(|program| program.began)
}

/// Now, in the same ticks. It takes no file, as the beginning of a process does.
pub(crate) fn now_in_ticks() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for an answer.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    // The kernel's promise to programs: a hundred a second.
    now.tv_sec as u64 * 100 + now.tv_nsec as u64 / 10_000_000
}

/// Whether what was written `at` that time was written by `process`, and not by one that had its
/// id before.
pub(crate) fn ran(process: u32, at: u64) -> bool {
    began(process).is_some_and(|began| began <= at)
}

/// The namespace in which this process's id means something. Asked of the calling thread: the
/// process's own file is gone once its first thread has ended.
pub fn namespace() -> u64 {
    stat(c"/proc/thread-self/ns/pid").map_or(0, |found| found.st_ino)
}

/// Whether `namespace` is known to be another one. One without `/proc` does not know its own: 0.
pub(crate) fn is_elsewhere(namespace: u64) -> bool {
    namespace != 0 && namespace != self::namespace()
}

/// What [`namespace_of`] has found, and for which process.
static FOUND: AtomicU64 = AtomicU64::new(0);
static FOUND_FOR: AtomicU32 = AtomicU32::new(0);
/// How many forks this process is from that one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// This process is the child of a fork.
pub(crate) fn note_fork() {
    FORKS.fetch_add(1, Relaxed);
}

/// The same for this process, which is `me`, when it makes its segment. A child of a fork has its
/// parent's: a file of `/proc` costs it more than its segment does. To one in a new namespace the
/// parent is nobody, and one whose parent has ended, or has not asked, asks.
pub(crate) fn namespace_of(me: u32) -> u64 {
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_pid() as u32);
    let is_parents = FORKS.swap(0, Relaxed) == 1 && parent != 0 && FOUND_FOR.load(Relaxed) == parent;
    if !is_parents {
        FOUND.store(namespace(), Relaxed);
    }
    FOUND_FOR.store(me, Relaxed);
    FOUND.load(Relaxed)
}

/// The fields of a header that are the same in every version: process, when it made the segment,
/// namespace, session.
pub(crate) struct Identity {
    pub(crate) process: u32,
    pub(crate) made: u64,
    pub(crate) namespace: u64,
    pub(crate) session: u32,
}

/// Reads them; `None` if the file is no segment, or not yet.
pub(crate) fn identity(file: impl AsFd) -> Option<Identity> {
    const _: () = assert!(core::mem::offset_of!(Header, session) == 32);
    let mut bytes = [0u8; 48];
    let length = pread(file, &mut bytes, 0).ok()?;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    (length == bytes.len() && word(0) == MAGIC).then(|| Identity {
        process: (word(8) >> 32) as u32,
        made: word(16),
        namespace: word(24),
        session: word(32) as u32,
    })
}

/// Which layout the file has.
pub(crate) fn version(file: impl AsFd) -> u32 {
    let mut bytes = [0u8; 4];
    pread(file, &mut bytes, 8).map_or(0, |_| u32::from_le_bytes(bytes))
}

/// Calls `visit` with the id of every process that has a segment.
pub(crate) fn each_name(mut visit: impl FnMut(u32)) -> Result<(), Errno> {
    each_image(|image| {
        if image.before == 0 {
            visit(image.process);
        }
    })
}

/// Calls `visit` for every name of a segment.
pub(crate) fn each_image(visit: impl FnMut(Image)) -> Result<(), Errno> {
    each_image_in(FOLDER, visit)
}

fn each_image_in(folder: &CStr, mut visit: impl FnMut(Image)) -> Result<(), Errno> {
    let folder = File::open(folder, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
    let mut entries = RawDir::new(folder, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if let Some(image) = Image::named(entry.file_name().to_bytes()) {
            visit(image);
        }
    }
    Ok(())
}

/// Removes the segments of this user's processes that are gone, and whose session has ended, or is
/// the caller's. Names of other namespaces stay: their process ids are not ours to judge.
pub(crate) fn sweep() {
    let (namespace, me) = (namespace(), rustix::process::getpid().as_raw_pid() as u32);
    let kept = |session: u32| session != me && alive(session);
    let user = rustix::process::geteuid().as_raw();
    let _ = each_image(|image| {
        let (process, name) = (image.process, image.name());
        let Ok(file) = open_image(image, OFlags::RDONLY) else { return };
        let mine = rustix::fs::fstat(&file).is_ok_and(|found| found.st_uid == user);
        // Without an identity it is being made at this moment, unless nobody is there to make it.
        let gone = match identity(&file) {
            Some(found) => {
                let runs = image.before == 0 && ran(process, found.made);
                found.namespace == namespace && !runs && !kept(found.session)
            }
            None => began(process).is_none(),
        };
        if mine && gone {
            remove(&name);
        }
    });
}

/// Opens the segment file of `process`; never through a symbolic link, and without waiting: anybody
/// can put a pipe there.
pub(crate) fn open(process: u32, flags: OFlags) -> Result<File, Errno> {
    open_image(Image::of(process), flags)
}

/// The same of `image`.
pub(crate) fn open_image(image: Image, flags: OFlags) -> Result<File, Errno> {
    open_in(FOLDER, &image.name(), flags)
}

fn open_in(folder: &CStr, name: &Name, flags: OFlags) -> Result<File, Errno> {
    File::open(path(folder, name).as_c_str(), flags | OFlags::NOFOLLOW | OFlags::NONBLOCK)
}

fn path(folder: &CStr, name: &Name) -> Name {
    Name::new(format_args!("{}/{}", folder.to_str().unwrap_or_default(), name.as_c_str().to_str().unwrap_or_default()))
}

/// The process's own file system, as the kernel shows it, below its folder.
const ITS_ROOT: &str = "root";

/// Opens the segment of `image` for a reader, and says what its process calls itself: one in
/// another namespace has another process id there, and another `/dev/shm`.
pub(crate) fn open_for_reader(image: Image, flags: OFlags) -> Result<(File, u32), Errno> {
    let process = image.process;
    let namespace = |whose: fmt::Arguments<'_>, kind: &str| {
        stat(Name::new(format_args!("/proc/{whose}/ns/{kind}")).as_c_str()).map(|found| found.st_ino)
    };
    let of_processes = namespace(format_args!("{process}"), "pid").unwrap_or(0);
    let apart = ["mnt", "pid"].into_iter().any(|kind| {
        let [its, own] = [namespace(format_args!("{process}"), kind), namespace(format_args!("self"), kind)];
        matches!((its, own), (Ok(its), Ok(own)) if its != own)
    });
    // Another namespace has a process of this number, too, and its segment the name, or had it.
    let is_its = |file: &File| identity(file).is_none_or(|found| [0, of_processes].contains(&found.namespace));
    let search = |folder: &CStr, image: Image| {
        let first = open_in(folder, &image.name(), flags);
        if image.before != 0 || of_processes == 0 || first.as_ref().is_ok_and(is_its) {
            return first;
        }
        let mut found = None;
        each_image_in(folder, |other| {
            if found.is_none() && other.process == image.process && other.before != 0 {
                let is_known = |file: &File| identity(file).is_some_and(|found| found.namespace == of_processes);
                found = open_in(folder, &other.name(), flags).ok().filter(is_known);
            }
        })?;
        // What is there is said to be another's.
        found.map_or(first, Ok)
    };
    if !apart {
        return search(FOLDER, image).map(|file| (file, process));
    }
    let inner =
        status(process, "NSpid:").and_then(|ids| ids.split_whitespace().last()?.parse().ok()).unwrap_or(process);
    let folder = Name::new(format_args!("/proc/{process}/{ITS_ROOT}/dev/shm"));
    let its = search(folder.as_c_str(), Image { process: inner, ..image }).map(|file| (file, inner));
    // It may have got its own file system since.
    its.or_else(|error| open_image(image, flags).map(|file| (file, process)).map_err(|_| error))
}

/// The effective user of `process`. Whose its files in `/proc` are says less: root's, once it has
/// changed its user.
pub(crate) fn user(process: u32) -> Option<u32> {
    status(process, "Uid:")?.split_whitespace().nth(1)?.parse().ok()
}

fn status(process: u32, field: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    text.lines().find_map(|line| line.strip_prefix(field)).map(str::to_owned)
}

/// A file, whatever its name: device and inode.
pub(crate) type FileId = [u64; 2];

pub(crate) fn file_id(file: impl AsFd) -> Result<FileId, Errno> {
    fstat(file).map(|found| [found.st_dev, found.st_ino])
}

/// Whether the calling thread may become any user, and loses root's rights when it has no id of
/// root's any more.
pub(crate) fn can_give_up_root() -> bool {
    let kept = CapabilitiesSecureBits::KEEP_CAPS | CapabilitiesSecureBits::NO_SETUID_FIXUP;
    rustix::process::geteuid().is_root()
        && capabilities_secure_bits().is_ok_and(|bits| !bits.intersects(kept))
        && capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SETUID))
}

/// Gives the segment of `process` to `user`, if the file at its name is `made`, root's, and has no
/// other name. Between the look and the gift the name may change, the opened file does not.
pub(crate) fn give(process: u32, made: FileId, user: u32) -> Result<(), Errno> {
    let file = open(process, OFlags::PATH)?;
    let found = fstat(&file)?;
    if file_id(&file)? != made || found.st_uid != 0 || found.st_nlink != 1 {
        return Err(Errno::PERM);
    }
    chownat(&file, c"", Some(Uid::from_raw(user)), None, AtFlags::EMPTY_PATH)
}

/// Removes the name of the segment of `process` that is `made`, whichever it has.
pub(crate) fn remove_made(process: u32, made: FileId) {
    let names = [Image::of(process), Image { process, before: made[1] }];
    let is_it = |image: &Image| open_image(*image, OFlags::PATH).and_then(file_id) == Ok(made);
    if let Some(image) = names.into_iter().find(is_it) {
        remove(&image.name());
    }
}

pub(crate) fn remove(name: &Name) {
    let _ = unlinkat(CWD, path(FOLDER, name).as_c_str(), AtFlags::empty());
}

/// Whether `process` (0: nobody) is there, as far as this namespace knows.
pub(crate) fn alive(process: u32) -> bool {
    if process == 0 || began(process).is_some() {
        return process != 0;
    }
    // There may be no descriptor left to have. A sandbox forbids the other question.
    let stat = Name::new(format_args!("/proc/{process}/stat"));
    matches!(File::open(stat.as_c_str(), OFlags::RDONLY), Err(Errno::MFILE | Errno::NFILE))
        && Pid::from_raw(process as i32).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Whether a file may have so many bytes. Beyond its limit the kernel would end the process.
pub(crate) fn may_be_long(length: u64) -> Result<(), Errno> {
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < length) { Err(Errno::FBIG) } else { Ok(()) }
}

/// Whether so much address space may be taken: of a small limit it would leave too little for the
/// stacks of threads.
pub(crate) fn has_room(length: usize) -> Result<(), Errno> {
    const PART: u64 = 4;
    let limit = getrlimit(Resource::As).current;
    if limit.is_some_and(|limit| limit / PART < length as u64) { Err(Errno::NOMEM) } else { Ok(()) }
}

/// Whether a filter of system calls was there when the process began, as in a container.
static WAS_FILTERED: AtomicBool = AtomicBool::new(true);

/// Whether a child of a fork opens nothing before it waits: it may be in a sandbox that cannot be
/// told from the container around it.
pub(crate) fn was_filtered() -> bool {
    WAS_FILTERED.load(Relaxed)
}

fn is_filtered() -> bool {
    secure_computing_mode().is_ok_and(|mode| mode != SecureComputingMode::Disabled)
}

/// Notes that, for [`is_shut_in`].
pub(crate) fn note_filter() {
    WAS_FILTERED.store(is_filtered(), Relaxed);
}

/// Whether the process, or the parent that forked it, has shut itself in a sandbox since it began:
/// that would end it for a file that is opened. (In a container that cannot be told.)
pub(crate) fn is_shut_in() -> bool {
    !WAS_FILTERED.load(Relaxed) && is_filtered()
}

/// Makes a system call that may be refused. The caller's errno stays.
pub(crate) fn quietly(call: impl FnOnce() -> i32) -> i32 {
    // SAFETY: always answers for the calling thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the thread's own word.
    let before = unsafe { *errno };
    let result = call();
    // SAFETY: as above.
    unsafe { *errno = before };
    result
}

/// The calling thread's name, as the kernel has it.
pub(crate) fn name_of_caller(name: &Text<16>) {
    let mut bytes = [0u8; 16];
    // SAFETY: room for a name.
    if quietly(|| unsafe { libc::prctl(libc::PR_GET_NAME, bytes.as_mut_ptr()) }) == 0 {
        name.set(bytes.split(|byte| *byte == 0).next().unwrap_or_default());
    }
}

/// Whether this process's user may look at what `user` has: only if they are the same, or this is
/// root.
pub(crate) fn permitted(user: u32) -> bool {
    let me = rustix::process::geteuid();
    me.is_root() || me.as_raw() == user
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_began_once_and_nobody_began_never() {
        let me = std::process::id();
        let begun = began(me).expect("it runs");
        assert!(begun > 0 && begun <= now_in_ticks());
        assert!(ran(me, begun) && ran(me, now_in_ticks()) && !ran(me, begun - 1) && !ran(u32::MAX, u64::MAX));
        assert_eq!(began(me), began(me));
        assert_eq!(began(u32::MAX), None);
        assert!(alive(me) && !alive(0));
    }

    #[test]
    fn names_fit() {
        assert_eq!(file_name(u32::MAX).as_c_str(), c"lockyard.4294967295");
        for image in [Image::of(7), Image { process: u32::MAX, before: u64::MAX }] {
            assert_eq!(Image::named(image.name().as_c_str().to_bytes()), Some(image));
        }
        assert_eq!(Image::named(b"lockyard.7.x").or(Image::named(b"other.7")), None);
        // The longest path that is opened.
        let image = Image { process: u32::MAX, before: u64::MAX };
        let name = image.name();
        let of_process = format!("/proc/{}/{ITS_ROOT}", u32::MAX);
        let path = format!("{of_process}/dev/shm/{}", name.as_c_str().to_str().unwrap());
        assert_eq!(Name::new(format_args!("{path}")).as_c_str().to_bytes(), path.as_bytes());
    }
}
