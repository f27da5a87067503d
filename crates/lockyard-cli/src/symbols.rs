//! Places in files as people know them: function, file and line.
//!
//! What is told of a lock is the place after a call (see [`lockyard_segment::sample::Place`]). The
//! call itself is looked up: in the file's own debug information, else in a separate debug file, by
//! build id or by name, where Debian and its kin put it. A file without either has its table of
//! symbols. Everything happens in this process, after the fact.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::follow::Known;
use crate::proc::inside;
use addr2line::Loader;
use lockyard_segment::sample::Place;
use object::Object;

/// Where the system keeps debug files.
const DEBUG: &str = "/usr/lib/debug";

/// A place as people know it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The function, demangled; of those that are inlined there the innermost that does more than
    /// pass a lock call on. Empty: unknown.
    pub(crate) function: String,
    /// The functions that it is inlined into, outwards.
    pub(crate) inlined_into: Vec<String>,
    /// The source file, as the compiler was given it; empty: unknown.
    pub(crate) file: String,
    /// The line there; 0: unknown.
    pub(crate) line: u32,
}

/// Looks places up, and keeps the files that it has opened.
#[derive(Default)]
pub(crate) struct Symbols {
    /// Files that may be meant where a path was too long to be told whole.
    candidates: Vec<PathBuf>,
    /// Where the process's own file system begins, if it is another than ours: in a container the
    /// same path is another file.
    root: Option<PathBuf>,
    files: RefCell<HashMap<String, Option<Rc<Opened>>>>,
}

/// A loader and, where the debug file is another one, the file's own.
struct Opened {
    debug: Option<Loader>,
    own: Option<Loader>,
}

impl Symbols {
    /// For the processes of which `known` tells.
    pub(crate) fn of(known: &Known) -> Self {
        Self { candidates: known.programs.clone(), root: known.root.clone(), files: RefCell::default() }
    }

    /// The call before `place`; `None`: nothing is known beyond the place itself.
    pub(crate) fn call(&self, place: &Place) -> Option<Spot> {
        let opened = self.open(&place.file)?;
        opened.look(place.place.checked_sub(1)?)
    }

    /// A line for people: `flush (store.c:88)`, or `libx.so+0x1f0` where nothing else is known.
    pub(crate) fn line(&self, place: &Place) -> String {
        match self.call(place) {
            Some(spot) => spot.line(),
            None if place.place == 0 => "code that is not known".to_owned(),
            None if place.file.is_empty() => format!("{:#x}", place.place),
            None => format!("{}+{:#x}", last_part(&place.file), place.place),
        }
    }

    fn open(&self, file: &str) -> Option<Rc<Opened>> {
        if file.is_empty() {
            return None;
        }
        let mut files = self.files.borrow_mut();
        files.entry(file.to_owned()).or_insert_with(|| Opened::new(&self.path(file)?).map(Rc::new)).clone()
    }

    fn path(&self, file: &str) -> Option<PathBuf> {
        let path = Path::new(file);
        if path.is_absolute() {
            return Some(inside(self.root.as_deref(), path));
        }
        // Of a long path the last part was kept, cut off where even that was long.
        let ends = |candidate: &&PathBuf| {
            candidate.file_name().is_some_and(|name| name.as_bytes().starts_with(file.as_bytes()))
        };
        self.candidates.iter().find(ends).cloned()
    }
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Symbols").field("candidates", &self.candidates).finish_non_exhaustive()
    }
}

impl Opened {
    fn new(path: &Path) -> Option<Self> {
        // A process tells what it likes: to open a pipe would be to wait for its writer.
        if !path.is_file() {
            return None;
        }
        let debug = debug_file(path).and_then(|file| Loader::new(file).ok());
        let own = Loader::new(path).ok();
        (debug.is_some() || own.is_some()).then_some(Self { debug, own })
    }

    fn look(&self, address: u64) -> Option<Spot> {
        let loaders = || [&self.debug, &self.own].into_iter().flatten();
        let spot = loaders().find_map(|loader| frames(loader, address));
        spot.or_else(|| {
            let symbol = loaders().find_map(|loader| loader.find_symbol(address))?;
            Some(Spot { function: demangled(symbol), ..Spot::default() })
        })
    }
}

fn frames(loader: &Loader, address: u64) -> Option<Spot> {
    let mut frames = loader.find_frames(address).ok()?;
    let (mut functions, mut places) = (Vec::new(), Vec::new());
    while let Ok(Some(frame)) = frames.next() {
        let function = frame.function.and_then(|name| {
            let raw = name.raw_name().ok()?;
            Some(if is_mangled(&raw) { name.demangle().ok()?.into_owned() } else { raw.into_owned() })
        });
        functions.push(function.unwrap_or_default());
        let location = frame.location.as_ref();
        let file = location.and_then(|found| found.file).unwrap_or_default().to_owned();
        places.push((file, location.and_then(|found| found.line).unwrap_or(0)));
    }
    // People know where they take a lock, not what that is inlined from.
    let is_wrapper = |(function, (file, _)): (&String, &(String, u32))| is_wrapper(function) || is_wrappers(file);
    let at = functions.iter().zip(&places).position(|frame| !is_wrapper(frame));
    let at = at.unwrap_or(functions.len().saturating_sub(1));
    let (file, line) = places.into_iter().nth(at)?;
    let mut functions = functions.into_iter().skip(at);
    let mut function = functions.next()?;
    if function.is_empty() {
        if line == 0 {
            return None;
        }
        function = loader.find_symbol(address).map(demangled).unwrap_or_default();
    }
    let inlined_into = functions.filter(|outer| !outer.is_empty()).collect();
    Some(Spot { function, inlined_into, file, line })
}

/// Whether a function only passes a lock call on, by its full name.
pub(crate) fn is_wrapper(function: &str) -> bool {
    // `<T as Trait>::method`, and what is inside of it.
    let name = function.trim_start_matches(['<', '&']);
    const MODULES: [&str; 6] = [
        "lockyard::api::",
        "lockyard::internals::",
        "lockyard::platform::",
        "lockyard::deadlock::",
        "lockyard::detail::",
        "lock_api::",
    ];
    MODULES.iter().any(|module| name.starts_with(module))
}

/// The same by the file that it is in: with little debug information names are short.
pub(crate) fn is_wrappers(file: &str) -> bool {
    let parts: Vec<&str> = file.split('/').collect();
    let package = |part: &str, name: &str| {
        let version = part.strip_prefix(name).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
        version.is_some_and(|version| version.is_empty() || version.starts_with(|first: char| first.is_ascii_digit()))
    };
    let ours = |three: &[&str]| {
        package(three[0], "lockyard") && three[1] == "src" && matches!(three[2], "api" | "platform" | "deadlock")
    };
    parts.windows(3).any(|three| ours(three) || three == ["library", "core", "src"])
        || parts.windows(2).any(|two| package(two[0], "lock_api") && two[1] == "src")
        || parts.windows(2).any(|two| two == ["include", "c++"] || two == ["boost", "thread"])
        || matches!(parts.last(), Some(&("gthr-default.h" | "lockyard.hpp")))
}

/// Whether a name is one that a C++ or Rust compiler made. To a demangler any other is a type: `w`
/// of C would be `wchar_t`.
fn is_mangled(symbol: &str) -> bool {
    ["_Z", "__Z", "_R"].iter().any(|begin| symbol.starts_with(begin))
}

fn demangled(symbol: &str) -> String {
    if is_mangled(symbol) { addr2line::demangle_auto(symbol.into(), None).into_owned() } else { symbol.to_owned() }
}

impl Spot {
    /// `flush (store.c:88)`, with what is known of it.
    pub(crate) fn line(&self) -> String {
        let mut out = short(&self.function);
        if self.line != 0 {
            let at = format!("{}:{}", last_part(&self.file), self.line);
            // Writing to a string cannot fail.
            let _ = if out.is_empty() { write!(out, "{at}") } else { write!(out, " ({at})") };
        }
        out
    }
}

/// A function's name without arguments and parameters of templates: what tells it apart for people.
pub(crate) fn short(function: &str) -> String {
    let mut out = String::new();
    let mut depth = 0u32;
    for letter in function.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 && !out.is_empty() => break,
            letter if depth == 0 => out.push(letter),
            _ => {}
        }
    }
    // An operator, or `<T as Trait>::method`: as it is.
    if out.is_empty() || out.starts_with("::") || out.ends_with("operator") { function.to_owned() } else { out }
}

pub(crate) fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The separate debug file of `path`, if there is one.
fn debug_file(path: &Path) -> Option<PathBuf> {
    let bytes = std::fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let id = file.build_id().ok().flatten().filter(|id| id.len() > 1).map(|id| {
        let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        PathBuf::from(format!("{DEBUG}/.build-id/{}/{}.debug", digits(&id[..1]), digits(&id[1..])))
    });
    let folder = path.parent()?;
    let linked = file.gnu_debuglink().ok().flatten().map(|(name, _)| OsStr::from_bytes(name)).map(|name| {
        let below = folder.strip_prefix("/").unwrap_or(folder);
        [folder.join(name), folder.join(".debug").join(name), Path::new(DEBUG).join(below).join(name)]
    });
    id.into_iter().chain(linked.into_iter().flatten()).find(|found| found.is_file() && found != path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_short() {
        for (long, expected) in [
            ("flush", "flush"),
            ("ns::Table<int, std::less<int> >::put(int, char const*)", "ns::Table::put"),
            ("lockyard::mutex::RawMutex<P>::acquire", "lockyard::mutex::RawMutex::acquire"),
            ("<T as Trait>::method", "<T as Trait>::method"),
            ("(anonymous namespace)::run(int)", "(anonymous namespace)::run"),
        ] {
            assert_eq!(short(long), expected);
        }
    }

    #[test]
    fn a_name_of_c_is_no_mangled_type() {
        for name in ["w", "f", "d", "v", "Pi", "St", "_Zed", "_Read", ""] {
            assert_eq!(demangled(name), name);
        }
        for (symbol, expected) in [
            ("_ZN5store5flushEi", "store::flush(int)"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
        ] {
            assert_eq!(demangled(symbol), expected);
        }
    }

    #[test]
    fn lock_calls_are_told_from_those_who_make_them() {
        for wrapper in [
            "<lockyard::internals::api::exclusive::RawMutex<P> as lock_api::mutex::RawMutex>::lock",
            "lock_api::mutex::Mutex<R,T>::lock",
        ] {
            assert!(is_wrapper(wrapper), "{wrapper}");
        }
        for file in [
            "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/lock_api-0.5.0/src/mutex.rs",
            "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/lockyard-0.1.0/src/api/calls.rs",
            "/src/crates/lockyard/src/platform/watch.rs",
            "vendor/lock_api/src/mutex.rs",
            "/usr/include/boost/thread/pthread/mutex.hpp",
            "/rustc/0123/library/core/src/option.rs",
            "/usr/include/c++/14/bits/std_mutex.h",
            "/usr/include/x86_64-linux-gnu/c++/14/bits/gthr-default.h",
        ] {
            assert!(is_wrappers(file), "{file}");
        }
        for file in
            ["src/main.rs", "/src/lockyard-tool/src/api/main.rs", "/src/lockyard/src/main.rs", "lock_api.rs", ""]
        {
            assert!(!is_wrappers(file), "{file}");
        }
        for user in
            ["flush", "core::Cache::put(int)", "std::hash<Key>::operator()", "<store::Table as store::Index>::put", ""]
        {
            assert!(!is_wrapper(user), "{user}");
        }
    }

    #[test]
    fn what_is_not_known_is_a_number() {
        let symbols = Symbols::default();
        let line = |file: &str, place| symbols.line(&Place { file: file.to_owned(), place });
        assert_eq!(line("", 0), "code that is not known");
        assert_eq!(line("", 0x10), "0x10");
        assert_eq!(line("/no/such/lib.so", 0x1f0), "lib.so+0x1f0");
        assert_eq!(line("long-name", 0x1f0), "long-name+0x1f0");
    }

    /// A function of this test's own program, by the table of symbols at least.
    #[test]
    fn code_of_this_program_has_a_name() {
        let exe = std::env::current_exe().unwrap();
        let address = last_part as fn(&str) -> &str as usize;
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let base = maps.lines().find(|line| line.ends_with(exe.to_str().unwrap())).unwrap();
        let base = usize::from_str_radix(base.split('-').next().unwrap(), 16).unwrap();
        let name = exe.file_name().unwrap().to_str().unwrap().to_owned();
        let place = Place { file: name, place: (address - base) as u64 + 1 };
        let mut known = Known::default();
        known.programs.push(exe.clone());
        let line = Symbols::of(&known).line(&place);
        assert!(line.starts_with("lockyard_cli::symbols::last_part"), "{line}");
        // In a container the same path is another file, here one that is not there.
        let whole = Place { file: exe.to_str().unwrap().to_owned(), ..place };
        for (root, named) in [("/proc/self/root", true), (env!("CARGO_MANIFEST_DIR"), false)] {
            known.root = Some(PathBuf::from(root));
            assert_eq!(Symbols::of(&known).line(&whole) == line, named, "{root}");
        }
    }
}
