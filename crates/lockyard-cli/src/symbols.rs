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

use crate::known::Known;
use crate::proc::inside;
use crate::terminal::visible;
use addr2line::Loader;
use lockyard_segment::Sample;
use lockyard_segment::sample::Place;
use object::Object;

/// Where the system keeps debug files.
const DEBUG: &str = "/usr/lib/debug";

/// A place as people know it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Where it is; of what is inlined there the innermost that does more than pass a lock call on.
    pub(crate) at: Line,
    /// What that is inlined into, outwards: each with its call.
    pub(crate) inlined_into: Vec<Line>,
}

/// A line of a function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Line {
    /// The function, demangled. Empty: unknown.
    pub(crate) function: String,
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
    /// The calls that were looked up.
    spots: RefCell<HashMap<Key, Option<Rc<Spot>>>>,
    /// Lines that were seen, with what they are inlined into; and whether some of them are inlined
    /// into something else.
    outer: RefCell<HashMap<Line, (Option<Line>, bool)>>,
}

/// A file, and a place in it.
type Key = (String, u64);

/// A loader and, where the debug file is another one, the file's own.
struct Opened {
    debug: Option<Loader>,
    own: Option<Loader>,
}

impl Symbols {
    /// For the processes of which `known` tells.
    pub(crate) fn of(known: &Known) -> Self {
        Self { candidates: known.programs.clone(), root: known.root.clone(), ..Self::default() }
    }

    /// The call before `place`; `None`: nothing is known beyond the place itself.
    pub(crate) fn call(&self, place: &Place) -> Option<Spot> {
        self.spot(place).map(|spot| (*spot).clone())
    }

    fn spot(&self, place: &Place) -> Option<Rc<Spot>> {
        let key = (place.file.clone(), place.place);
        if let Some(known) = self.spots.borrow().get(&key) {
            return known.clone();
        }
        let look = || self.open(&place.file)?.look(place.place.checked_sub(1)?).map(Rc::new);
        let spot = look();
        self.spots.borrow_mut().insert(key, spot.clone());
        spot
    }

    /// Whether two places are known to be in one line of a function.
    pub(crate) fn are_in_line(&self, one: &Place, other: &Place) -> bool {
        self.spot(one).is_some_and(|spot| self.spot(other).is_some_and(|other| spot.at == other.at))
    }

    /// Looks at the places in `sample`, so that [`line`](Self::line) tells those apart that are in
    /// one line: `lock (store.c:7)` of all callers.
    pub(crate) fn tell_apart(&self, sample: &Sample) {
        let sites = sample.classes.iter().map(|class| Place { file: class.name.clone(), place: class.site });
        let callers = sample.classes.iter().flat_map(|class| class.callers.iter().map(|caller| &caller.place));
        let waits = sample.waiters.iter().filter_map(|thread| Some(&thread.waits.as_ref()?.place));
        let holds = sample.waiters.iter().flat_map(|thread| thread.holds.iter().map(|hold| &hold.place));
        let within = sample.classes.iter().flat_map(|class| class.within.iter().map(|within| &within.place));
        for spot in
            sites.chain(callers.chain(waits).chain(holds).chain(within).cloned()).filter_map(|place| self.call(&place))
        {
            self.note(&spot);
        }
    }

    fn note(&self, spot: &Spot) {
        let mut seen = self.outer.borrow_mut();
        let lines = || [&spot.at].into_iter().chain(&spot.inlined_into);
        let outer = lines().skip(1).map(Some).chain([None]);
        for (line, outer) in lines().zip(outer) {
            let (first, several) = seen.entry(line.clone()).or_insert_with(|| (outer.cloned(), false));
            *several |= first.as_ref() != outer;
        }
    }

    /// The line of `spot`, the function that it is inlined into, since that one is what people know
    /// it by, and more of those as far as it takes to tell it from others. Nobody has looked at the
    /// places of recordings together: these are their lines alone.
    fn told(&self, spot: &Spot) -> String {
        let seen = self.outer.borrow();
        let of_program = |outer: &&Line| !is_librarys(&outer.file);
        // The constructor of a guard is no more than what takes the lock in it.
        let mut outers = spot.inlined_into.iter().filter(of_program);
        let around = outers.clone().find(|outer| !outer.is_constructor()).or_else(|| outers.next_back());
        let around = around.filter(|_| seen.contains_key(&spot.at));
        let mut text = spot.at.text();
        let (mut inner, mut last, mut several) = (&spot.at, text.clone(), false);
        for outer in &spot.inlined_into {
            // What is inlined into one place alone tells nothing apart. What that is inlined into
            // may.
            several |= seen.get(inner).is_some_and(|(_, several)| *several);
            inner = outer;
            if is_librarys(&outer.file) || !several && !around.is_some_and(|around| std::ptr::eq(around, outer)) {
                continue;
            }
            several = false;
            let line = outer.text();
            // A function that calls itself, once more.
            if line != last {
                text += &format!(" in {line}");
                last = line;
            }
        }
        text
    }

    /// A line for people: `flush (store.c:88)`, or `libx.so+0x1f0` where nothing else is known.
    pub(crate) fn line(&self, place: &Place) -> String {
        let line = match self.call(place) {
            Some(spot) => self.told(&spot),
            None if place.place == 0 => "code that is not known".to_owned(),
            None if place.file.is_empty() => format!("{:#x}", place.place),
            None => format!("{}+{:#x}", last_part(&place.file), place.place),
        };
        visible(&line).into_owned()
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
            Some(Spot { at: Line { function: demangled(symbol), ..Line::default() }, inlined_into: Vec::new() })
        })
    }
}

fn frames(loader: &Loader, address: u64) -> Option<Spot> {
    let mut frames = loader.find_frames(address).ok()?;
    let mut lines = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let function = frame.function.and_then(|name| {
            let raw = name.raw_name().ok()?;
            Some(if is_mangled(&raw) { name.demangle().ok()?.into_owned() } else { raw.into_owned() })
        });
        let location = frame.location.as_ref();
        let file = location.and_then(|found| found.file).unwrap_or_default().to_owned();
        let line = location.and_then(|found| found.line).unwrap_or(0);
        lines.push(Line { function: function.unwrap_or_default(), file, line });
    }
    // People know where they take a lock, not what that is inlined from.
    let at = lines.iter().position(|line| !line.is_lock_call()).unwrap_or(lines.len().saturating_sub(1));
    let mut lines = lines.into_iter().skip(at);
    let mut at = lines.next()?;
    if at.function.is_empty() {
        if at.line == 0 {
            return None;
        }
        at.function = loader.find_symbol(address).map(demangled).unwrap_or_default();
    }
    let inlined_into = lines.filter(|outer| !outer.function.is_empty()).collect();
    Some(Spot { at, inlined_into })
}

/// Whether the file is one of the standard library of Rust or C++: that it calls a function tells
/// nothing of the program.
fn is_librarys(file: &str) -> bool {
    file.starts_with("/rustc/") || file.starts_with("library/") || is_of_cpp(file)
}

fn is_of_cpp(file: &str) -> bool {
    file.split('/').zip(file.split('/').skip(1)).any(|two| two == ("include", "c++"))
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
        || is_of_cpp(file)
        || parts.windows(2).any(|two| two == ["boost", "thread"])
        || matches!(parts.last(), Some(&("gthr-default.h" | "lockyard.hpp")))
}

/// Whether a name is one that a C++ or Rust compiler made. To a demangler any other is a type: `w`
/// of C would be `wchar_t`.
fn is_mangled(symbol: &str) -> bool {
    ["_Z", "__Z", "_R"].iter().any(|begin| symbol.starts_with(begin))
}

pub(crate) fn demangled(symbol: &str) -> String {
    if is_mangled(symbol) { addr2line::demangle_auto(symbol.into(), None).into_owned() } else { symbol.to_owned() }
}

impl Line {
    /// Whether it only passes a lock call on.
    pub(crate) fn is_lock_call(&self) -> bool {
        is_wrapper(&self.function) || is_wrappers(&self.file)
    }

    /// Whether it is a constructor of C++: `store::Guard::Guard`.
    fn is_constructor(&self) -> bool {
        let name = short(&self.function);
        let mut parts = name.rsplit("::");
        parts.next().is_some_and(|last| parts.next() == Some(last))
    }

    /// `flush (store.c:88)`, with what is known of it.
    fn text(&self) -> String {
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
mod tests;
