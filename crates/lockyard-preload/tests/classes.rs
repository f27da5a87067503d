//! Which locks of a C or C++ program are one class in the statistics, and what code they are of.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use lockyard_segment::sample::ClassSample;

mod running;

use running::{compile, compile_with, library, run};

/// How long a program may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(100);

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// What a program's classes counted, and where its functions are.
struct Classes {
    program: String,
    sample: lockyard_segment::Sample,
    symbols: Vec<(u64, String)>,
}

/// Runs the program at `path` to its end.
fn classes_of(path: &Path) -> Classes {
    classes_of_call(path, &[])
}

/// The same with arguments.
fn classes_of_call(path: &Path, arguments: &[&Path]) -> Classes {
    classes_of_first(path, arguments, 1)
}

/// The same of the first of so many processes.
fn classes_of_first(path: &Path, arguments: &[&Path], processes: usize) -> Classes {
    let session = std::process::id();
    let mut command = Command::new(path);
    command
        .args(arguments)
        .env("LD_PRELOAD", library())
        .env("LOCKYARD_STAT", "1")
        .env("LOCKYARD_SESSION", session.to_string());
    // The tests of this process have one session.
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _alone = ALONE.lock();
    let found = run(&mut command, LIMIT);
    assert!(found.ok, "{}{}", found.out, found.err);
    let mut readers = lockyard_segment::Reader::of_session(session);
    readers.sort_by_key(lockyard_segment::Reader::opened);
    readers.iter().for_each(lockyard_segment::Reader::remove);
    assert_eq!(readers.len(), processes);
    let sample = readers[0].sample();

    let listed = Command::new("nm").arg("-n").arg(path).output().expect("nm (binutils)").stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    let symbol = |line: &str| Some((u64::from_str_radix(line.get(..16)?, 16).ok()?, line.get(19..)?.to_owned()));
    let symbols = listed.lines().filter_map(symbol).collect();
    let program = path.file_name().unwrap().to_str().unwrap().to_owned();
    Classes { program, sample, symbols }
}

impl Classes {
    /// The classes of locks of `function`, whatever the compiler has added to its name.
    fn with<'a>(&'a self, function: &'a str) -> impl Iterator<Item = &'a ClassSample> {
        let is = move |site: u64| self.function(site) == Some(function);
        self.sample.classes.iter().filter(move |class| class.name.ends_with(&self.program) && is(class.site))
    }

    /// The function of the code at `site`, without what the compiler has added to its name.
    fn function(&self, site: u64) -> Option<&str> {
        let (_, name) = self.symbols.iter().rfind(|(address, _)| *address <= site)?;
        name.split('.').next()
    }

    fn of<'a>(&'a self, kind: &str, function: &'a str) -> &'a ClassSample {
        let found = self.with(function).find(|class| class.kind == kind);
        found.unwrap_or_else(|| panic!("no {kind} of {function}: {:?}", self.sample.classes))
    }

    /// Acquisitions of all locks of `function`.
    fn all(&self, function: &str) -> u64 {
        self.with(function).map(|class| class.counts.acquired).sum()
    }
}

/// What `lockyard stat` gets of a program that knows nothing of it: each turn of each lock, by the
/// place that made it or took it first.
#[test]
fn locks_are_told_apart_by_the_code_that_makes_them() {
    let path = compile(&program("classes.c"));
    let classes = classes_of(&path);
    let class = |kind: &str, function: &'static str| &classes.of(kind, function).counts;
    assert_eq!(class("mutex", "makes").acquired, 10 * 1000 + 1);
    assert_eq!((class("mutex", "makes").contended, class("mutex", "makes").gave_up), (1, 1));
    assert_eq!(class("rwlock", "reads").acquired, 2 * 1000);
    let busy = class("mutex", "counts");
    assert_eq!((busy.acquired, busy.contended), (4 * 20_000, busy.waits.iter().sum()));
    assert!(busy.contended > 0 && busy.wait_ns > 0 && busy.holds.iter().sum::<u64>() > busy.acquired / 640);
}

/// `my_lock` took all of a program's locks: one class, and no caller.
#[test]
fn locks_are_of_the_code_that_holds_them_and_not_of_what_passes_them_on() {
    if cfg!(not(target_arch = "x86_64")) {
        return eprintln!("skipped: frames are followed on x86-64 only");
    }
    for optimised in ["-O0", "-O1", "-O2", "-O3"] {
        let path = compile_with(&program("wrappers.c"), optimised);
        let classes = classes_of(&path);
        let acquired = |kind: &str, function: &'static str| classes.of(kind, function).counts.acquired;
        for function in ["of_orders", "jumps", "has_room", "mixes", "open_store", "open_cache"] {
            assert_eq!(acquired("mutex", function), 1000, "{optimised}: {function}");
        }
        assert_eq!(acquired("rwlock", "of_table"), 3000, "{optimised}");
        assert_eq!(acquired("mutex", "awaits"), 2000, "{optimised}");
        // The one that another thread gives back teaches nothing.
        let (known, handed) = (acquired("mutex", "of_users"), classes.all("hands_over") + classes.all("my_lock"));
        assert!(known >= 1000 && known + handed == 1001, "{optimised}: {known}, {handed}");
        for function in ["enter", "make", "my_trylock", "my_read", "my_write", "my_wait", "works"] {
            assert_eq!(classes.all(function), 0, "{optimised}: {function}");
        }
    }
}

/// The mutex was called one of code that had freed the memory, without a call that destroys it.
#[test]
fn a_lock_is_not_of_the_code_whose_lock_lay_there_before() {
    if cfg!(not(target_arch = "x86_64")) {
        return eprintln!("skipped: frames are followed on x86-64 only");
    }
    let classes = classes_of(&compile(&program("reused.c")));
    let used: Vec<u64> = ["uses", "has_two"].map(|function| classes.all(function)).to_vec();
    assert_eq!((used, classes.all("opens")), (vec![1000, 1000], 0), "{:?}", classes.sample.classes);
}

/// Holds that began with the return of `my_wait` were its own.
#[test]
fn a_hold_after_a_wait_is_of_the_code_that_called_the_function_which_waits() {
    if cfg!(not(target_arch = "x86_64")) {
        return eprintln!("skipped: frames are followed on x86-64 only");
    }
    let classes = classes_of(&compile(&program("waits.c")));
    let callers = &classes.of("mutex", "consumes").callers;
    let holds = |function: &str| -> u64 {
        let within = callers.iter().filter(|caller| classes.function(caller.place.place) == Some(function));
        within.map(|caller| caller.holds).sum()
    };
    assert!(holds("consumes") >= 1 && holds("my_wait") == 0, "{callers:?}");
}

/// Locks of a plugin were those of another one, which was unloaded and had lain in its place.
#[test]
fn locks_of_a_plugin_are_not_of_the_one_that_lay_there_before() {
    let first = compile(&program("plugin.c"));
    let second = first.with_file_name(format!("second-{}", std::process::id()));
    std::fs::copy(&first, &second).unwrap();
    let classes = classes_of_call(&compile(&program("plugins.c")), &[&first, &second, &second]);
    std::fs::remove_file(&second).unwrap();
    let acquired = |path: &Path| -> u64 {
        let of = classes.sample.classes.iter().filter(|class| path.ends_with(&class.name));
        of.map(|class| class.counts.acquired).sum()
    };
    let each = acquired(&first);
    assert!(each > 0 && acquired(&second) == 2 * each, "{:?}", classes.sample.classes);
}

/// The lock that hurt was one of "other locks", since those of other places came before.
#[test]
fn a_lock_that_is_waited_for_has_a_class_however_many_others_there_are() {
    let classes = classes_of(&compile(&program("places.cc")));
    let waited = classes.sample.classes.iter().find(|class| class.counts.contended > 0);
    let waited = waited.expect("a wait is counted");
    assert!(waited.name.ends_with("places") && waited.counts.gave_up == 1, "{waited:?}");
    let acquired: u64 = classes.sample.classes.iter().map(|class| class.counts.acquired).sum();
    assert_eq!(acquired, 301);
}

/// Each time another class was made: after 159 loads there was no room for others.
#[test]
fn a_library_that_is_loaded_again_elsewhere_has_its_classes() {
    let plugin = compile(&program("plugin.c"));
    let classes = classes_of_call(&compile(&program("elsewhere.c")), &[&plugin]);
    let of = classes.sample.classes.iter().filter(|class| plugin.ends_with(&class.name));
    let acquired: Vec<u64> = of.map(|class| class.counts.acquired).filter(|count| *count > 0).collect();
    assert_eq!((acquired.len(), classes.all("main")), (1, 1), "{:?}", classes.sample.classes);
}

/// The child's next class had the number of the parent's next class, and was written into the
/// parent's statistics.
#[test]
fn a_child_that_locks_in_a_handler_of_another_library_tells_nothing_of_its_parent() {
    let main = compile(&program("handlers.c"));
    let classes = classes_of_first(&main, &[], 2);
    let names: Vec<&str> = classes.sample.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(classes.all("main"), 100, "{names:?}");
    assert!(classes.sample.classes.iter().all(|class| class.counts.acquired <= 100), "{:?}", classes.sample.classes);
}
