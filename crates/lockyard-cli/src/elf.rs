//! What the dynamic loader would do with a preload library, as far as the files say.
//!
//! The loader says nothing, or a line that is lost among others, and runs the program without the
//! library: if the program has no loader, if it is for another machine, or if it gains privileges.
//! The heads of both files tell.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

const LOADED: u64 = 1;
const DYNAMIC: u64 = 2;
const INTERPRETER: u64 = 3;
/// Entries of a dynamic section: where the file's names are, and which is its own.
const NAMES: u64 = 5;
const OWN_NAME: u64 = 14;
/// The longest name, and the largest section, that is read.
const LONGEST: u64 = 4096;
const SHARED_OBJECT: u16 = 3;
/// How often a script may be a script's interpreter: the kernel's limit.
const SCRIPTS: usize = 5;

/// The head of an ELF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    wide: bool,
    machine: u16,
    kind: u16,
    /// The loader that it asks for, or that it is. `None`: it is linked statically, or a library.
    loader: Option<OsString>,
}

impl Head {
    /// `None`: no ELF file of this machine's byte order, or not readable.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let mut file = opened(path)?;
        let mut head = [0u8; 64];
        let read = read_up_to(&mut file, &mut head);
        if read < 52 || head[..4] != *b"\x7fELF" || head[5] != 1 {
            return None;
        }
        let wide = head[4] == 2;
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let (table, size, count) = match wide {
            true => (number(&head[32..40]), half(54), half(56)),
            false => (number(&head[28..32]), half(42), half(44)),
        };
        let parts: Vec<Part> = (0..u64::from(count))
            .filter_map(|entry| {
                let mut header = [0u8; 56];
                let header = if wide { &mut header[..] } else { &mut header[..32] };
                file.read_exact_at(header, table + entry * u64::from(size)).ok()?;
                let kind = number(&header[..4]);
                Some(match wide {
                    true => {
                        let word = |at: usize| number(&header[at..at + 8]);
                        Part { kind, at: word(8), address: word(16), length: word(32) }
                    }
                    false => {
                        let word = |at: usize| number(&header[at..at + 4]);
                        Part { kind, at: word(4), address: word(8), length: word(16) }
                    }
                })
            })
            .collect();
        let asked = parts.iter().find(|part| part.kind == INTERPRETER);
        let asked = asked.and_then(|part| text(&file, part.at, part.length));
        let loader = asked.or_else(|| own_name(&file, &parts, wide).filter(|name| is_loaders(name)));
        let loader = loader.map(OsString::from_vec);
        Some(Self { wide, machine: half(18), kind: half(16), loader })
    }

    /// Why no preload library of glibc comes to it.
    fn no_preload(&self) -> Option<&'static str> {
        match &self.loader {
            None => Some("is linked statically"),
            Some(loader) if loader.as_bytes().windows(4).any(|part| part == b"musl") => {
                Some("is linked with musl, and the library with glibc")
            }
            Some(_) => None,
        }
    }
}

/// A part of a file, as its table of them has it.
struct Part {
    kind: u64,
    /// Where in the file.
    at: u64,
    /// Where in memory.
    address: u64,
    length: u64,
}

/// The text at `at`, up to its end or `length`.
fn text(file: &File, at: u64, length: u64) -> Option<Vec<u8>> {
    let mut text = vec![0u8; length.min(LONGEST) as usize];
    let read = file.read_at(&mut text, at).ok()?;
    text.truncate(text[..read].iter().position(|byte| *byte == 0).unwrap_or(read));
    (!text.is_empty()).then_some(text)
}

/// What a library, or a loader, calls itself.
fn own_name(file: &File, parts: &[Part], wide: bool) -> Option<Vec<u8>> {
    let dynamic = parts.iter().find(|part| part.kind == DYNAMIC)?;
    let mut section = vec![0u8; dynamic.length.min(LONGEST) as usize];
    file.read_exact_at(&mut section, dynamic.at).ok()?;
    let word = if wide { 8 } else { 4 };
    let entry = |tag: u64| {
        let mut entries = section.chunks_exact(2 * word);
        entries.find(|entry| number(&entry[..word]) == tag).map(|entry| number(&entry[word..]))
    };
    let address = entry(NAMES)?.checked_add(entry(OWN_NAME)?)?;
    let is_in = |part: &&Part| {
        part.kind == LOADED && (part.address..part.address.saturating_add(part.length)).contains(&address)
    };
    let part = parts.iter().find(is_in)?;
    text(file, part.at.checked_add(address - part.address)?, LONGEST)
}

/// Whether a library of that name starts programs: glibc's loaders on all machines, and musl's.
fn is_loaders(name: &[u8]) -> bool {
    [&b"ld-"[..], b"ld.so", b"ld64.so", b"libc.musl"].iter().any(|begin| name.starts_with(begin))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Not a pipe: to open one would be to wait for its writer.
fn opened(path: &Path) -> Option<File> {
    path.is_file().then(|| File::open(path).ok()).flatten()
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> usize {
    let mut read = 0;
    while let Ok(more @ 1..) = file.read(&mut buffer[read..]) {
        read += more;
    }
    read
}

/// Why `path` cannot stand in `LD_PRELOAD`.
pub(crate) fn no_library(path: &Path) -> Option<&'static str> {
    let separates = |byte: &u8| matches!(byte, b':' | b'$') || byte.is_ascii_whitespace();
    if path.as_os_str().as_bytes().iter().any(separates) {
        return Some(
            "has a space, colon or dollar sign in its path, which LD_PRELOAD cannot hold; a symbolic link without will do",
        );
    }
    match Head::of(path) {
        Some(head) if head.kind == SHARED_OBJECT => None,
        _ => Some("is no shared library of this machine"),
    }
}

/// Why the loader would run `program` without `library`, and which file is the reason: the program,
/// or what runs it if it is a script.
pub(crate) fn ignores(program: &OsStr, library: &Path) -> Option<(PathBuf, &'static str)> {
    // What is not found or not readable is the system's to refuse.
    let mut file = find(program)?;
    for _ in 0..SCRIPTS {
        let why = gains_privileges(&file).or_else(|| {
            let (head, library) = (Head::of(&file)?, Head::of(library)?);
            match () {
                () if head.wide != library.wide => Some("is a program of another word size than the library"),
                () if head.machine != library.machine => Some("is a program for another processor than the library"),
                () => head.no_preload(),
            }
        });
        if let Some(why) = why {
            return Some((file, why));
        }
        file = interpreter(&file)?;
    }
    None
}

/// Why `program`, which has run, has had no library of the environment in it; the file alone says.
pub(crate) fn without_loader(program: &Path) -> Option<&'static str> {
    gains_privileges(program).or_else(|| Head::of(program)?.no_preload())
}

/// The loader takes no libraries from the environment of whom it runs with somebody else's rights.
pub(crate) fn gains_privileges(file: &Path) -> Option<&'static str> {
    let (found, own) = (fs::metadata(file).ok()?, fs::metadata("/proc/self").ok()?);
    let gives = |bit: u32| found.mode() & bit != 0;
    match () {
        () if gives(0o4000) && found.uid() != own.uid() => Some("is setuid"),
        // Without the right to execute by group, the bit means something else.
        () if gives(0o2000) && gives(0o010) && found.gid() != own.gid() => Some("is setgid"),
        () if own.uid() != 0 && has_capabilities(file) => Some("has capabilities"),
        () => None,
    }
}

fn has_capabilities(file: &Path) -> bool {
    let mut none = [0u8; 0];
    rustix::fs::getxattr(file, "security.capability", &mut none).is_ok_and(|size| size > 0)
}

/// What runs a script.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut line = [0u8; 256];
    let read = read_up_to(&mut opened(script)?, &mut line);
    let line = line[..read].strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(OsStr::from_bytes);
    let first = PathBuf::from(words.next()?);
    if first.file_name() != Some(OsStr::new("env")) {
        return Some(first);
    }
    let option = |word: &&OsStr| word.as_bytes()[0] == b'-' || word.as_bytes().contains(&b'=');
    find(words.find(|word| !option(word))?)
}

/// The file that the system runs for `program`, as `/proc` would name it: for a script, what runs
/// it.
pub(crate) fn file_of(program: &OsStr) -> Option<PathBuf> {
    let mut file = find(program)?;
    for _ in 0..SCRIPTS {
        let Some(runs) = interpreter(&file) else { break };
        file = runs;
    }
    fs::canonicalize(file).ok()
}

fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_a_program_with_a_loader() {
        let head = Head::of(&std::env::current_exe().unwrap()).unwrap();
        assert!(head.wide && head.loader.is_some(), "{head:?}");
        assert_eq!(Head::of(Path::new("/proc/self/cmdline")), None);
        assert_eq!(Head::of(Path::new("/no/such/file")), None);
    }

    /// Programs that are started by it have the library.
    #[test]
    fn a_loader_is_no_program_that_is_linked_statically() {
        let own = Head::of(&std::env::current_exe().unwrap()).and_then(|head| head.loader).expect("a loader");
        let loader = Path::new(&own);
        let found = Head::of(loader).expect("a file of this machine");
        assert!(found.loader.as_ref().is_some_and(|name| is_loaders(name.as_bytes())), "{found:?}");
        assert_eq!(without_loader(loader), None);
        // Another library is none.
        let maps = fs::read_to_string("/proc/self/maps").expect("this process has some");
        let libc =
            maps.lines().find_map(|line| Some(&line[line.find('/')?..]).filter(|path| path.contains("/libgcc_s")));
        assert_eq!(libc.and_then(|path| without_loader(Path::new(path))), Some("is linked statically"));
    }

    #[test]
    fn a_pipe_without_a_writer_is_not_waited_for() {
        let pipe = std::env::temp_dir().join(format!("lockyard-elf-{}", std::process::id()));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).expect("a pipe");
        assert!(ignores(pipe.as_os_str(), &std::env::current_exe().unwrap()).is_none());
        assert_eq!(file_of(pipe.as_os_str()).as_deref(), Some(pipe.as_path()));
        let place = lockyard_segment::sample::Place { file: pipe.to_string_lossy().into_owned(), place: 1 };
        assert!(crate::symbols::Symbols::default().call(&place).is_none());
        std::fs::remove_file(&pipe).expect("it is there");
    }
}
