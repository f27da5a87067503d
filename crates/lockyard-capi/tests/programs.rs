//! The header, the C++ classes and the libraries, as their users meet them: the programs of
//! `tests/programs/` compiled without a warning by every compiler, linked with the shared and the
//! static library, and run.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use lockyard_segment::{Reader, Sample};

/// What a static library of Rust needs of the system.
const STATIC_NEEDS: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

#[derive(Clone, Copy)]
struct Compiler {
    name: &'static str,
    options: [&'static str; 2],
}

const C: [Compiler; 2] =
    [Compiler { name: "gcc", options: ["-std=c11", "-O1"] }, Compiler { name: "clang", options: ["-std=c11", "-O1"] }];
const CXX: [Compiler; 2] = [
    Compiler { name: "g++", options: ["-std=c++17", "-O1"] },
    Compiler { name: "clang++", options: ["-std=c++17", "-O1"] },
];

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo has put the libraries: beside this very test.
fn built(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("this test is a file");
    let folder = exe.parent().expect("in a folder");
    let file = folder.join(name);
    assert!(file.is_file(), "{} was not built", file.display());
    file
}

/// A folder of this test's own, with the shared library under the name that programs ask for.
fn stage(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    let library = built("liblockyard_capi.so");
    for link in ["liblockyard.so", "liblockyard.so.0"] {
        symlink(&library, folder.join(link)).expect("a link");
    }
    folder
}

fn run(command: &mut Command) -> Output {
    let shown = format!("{command:?}");
    let output = command.output().unwrap_or_else(|error| {
        panic!("{shown}: {error}; `cargo xtask test` installs the compilers (gcc, g++, clang) where they are missing")
    });
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}: {}\n{text}", output.status);
    output
}

fn compile(compiler: Compiler, source: &str, program: &Path, link: &[&str]) {
    let mut command = Command::new(compiler.name);
    command.args(compiler.options).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread", "-I"]);
    command.arg(here().join("include")).arg(here().join("tests/programs").join(source));
    run(command.arg("-o").arg(program).args(link));
}

fn shared(folder: &Path) -> Vec<String> {
    let folder = folder.display();
    vec![format!("-L{folder}"), "-llockyard".to_owned(), format!("-Wl,-rpath,{folder}")]
}

/// Compiles `source` with each compiler against the shared library, runs it, and looks at what it
/// says.
fn every(compilers: &[Compiler], source: &str, says: &str) {
    let folder = stage(source);
    for &compiler in compilers {
        let program = folder.join(compiler.name);
        let link = shared(&folder);
        compile(compiler, source, &program, &link.iter().map(String::as_str).collect::<Vec<_>>());
        let output = run(&mut Command::new(&program));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), says, "{} {source}", compiler.name);
    }
    fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn results_of_every_function() {
    every(&C, "results.c", "as documented");
}

#[test]
fn c_threads_count_under_every_lock() {
    every(&C, "contend.c", "every turn counted");
}

/// `ly_atfork.c`, `fork_min.c`: children hung at the unlock, or at their next lock.
#[test]
fn what_is_held_over_a_fork_is_the_childs() {
    every(&C, "fork.c", "every child went on");
}

#[test]
fn cxx_classes_with_the_standard_locks() {
    every(&CXX, "standard.cpp", "as the standard says");
}

/// A time beyond its clock's range was one in the past, or one in the future.
#[test]
fn cxx_deadlines_of_every_type_at_the_ends_of_their_ranges() {
    every(&CXX, "times.cpp", "each in its time");
}

/// The C and C++ blocks of the README and the guide; those without our header as well.
#[test]
fn the_programs_of_the_documents_compile_and_run() {
    let folder = stage("documents");
    let chapters = fs::read_dir(here().join("../../docs/guide/src")).expect("the guide");
    let documents = chapters.map(|entry| entry.expect("a file").path()).chain([here().join("../../README.md")]);
    let mut ran = 0;
    for document in documents.filter(|path| path.extension().is_some_and(|end| end == "md")) {
        let text = fs::read_to_string(&document).expect("a text");
        for (fence, compiler, file) in [("\n```c\n", C[0], "block.c"), ("\n```cpp\n", CXX[0], "block.cpp")] {
            for block in text.split(fence).skip(1) {
                let source = folder.join(file);
                fs::write(&source, block.split("```").next().unwrap_or(block)).expect("a file");
                let (program, link) = (folder.join("block"), shared(&folder));
                let link: Vec<_> = link.iter().map(String::as_str).collect();
                compile(compiler, &source.display().to_string(), &program, &link);
                run(&mut Command::new(&program));
                ran += 1;
            }
        }
    }
    assert!(ran > 3, "{ran} blocks are not the documents'");
    fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn the_static_library_is_enough() {
    let folder = stage("static");
    let library = built("liblockyard_capi.a").display().to_string();
    let program = folder.join("contend");
    compile(C[0], "contend.c", &program, &[&[library.as_str()][..], &STATIC_NEEDS].concat());
    run(&mut Command::new(&program));
    fs::remove_dir_all(folder).expect("the folder goes");
}

/// What `lockyard stat` gets of a program that has run.
fn watched(program: &mut Command) -> Sample {
    static SESSION: Mutex<()> = Mutex::new(());
    let _one_at_a_time = SESSION.lock();
    let session = std::process::id();
    run(program.env("LOCKYARD_STAT", "1").env("LOCKYARD_SESSION", session.to_string()));
    let readers = Reader::of_session(session);
    let [reader] = &readers[..] else { panic!("{} processes", readers.len()) };
    assert!(reader.ended());
    reader.remove();
    reader.sample()
}

/// What `lockyard stat` gets: each turn of each lock, without a call in the program but for the
/// names.
#[test]
fn a_watched_program_tells_every_turn() {
    const TURNS: u64 = 6 * 20_000;
    let folder = stage("watched");
    let program = folder.join("contend");
    let link = shared(&folder);
    compile(C[0], "contend.c", &program, &link.iter().map(String::as_str).collect::<Vec<_>>());
    let sample = watched(&mut Command::new(&program));
    let counts = |kind: &str, name: &str| {
        let class = sample.classes.iter().find(|class| class.kind == kind && class.name == name);
        &class.unwrap_or_else(|| panic!("no {kind} '{name}'")).counts
    };
    assert_eq!(counts("mutex", "accounts").acquired, TURNS);
    for kind in ["rtmutex", "ly_spinlock", "hq_spinlock"] {
        assert_eq!(counts(kind, "").acquired, TURNS, "{kind}");
    }
    assert_eq!(counts("qrwlock", "").acquired, 2 * TURNS, "written and read");
    // They have room for a class, and no name: it is the code that has taken them first (in a build
    // without optimisation, code of the library).
    for (kind, turns) in [("semaphore", TURNS), ("rwsem", 2 * TURNS), ("read_mostly", 2 * TURNS + 101)] {
        let used = sample.classes.iter().filter(|class| class.kind == kind && class.counts.acquired != 0);
        let used: Vec<_> = used.map(|class| (class.counts.acquired, class.name.is_empty())).collect();
        assert_eq!(used, [(turns, false)], "{kind}");
    }
    // A thread takes them in turns, always the same: no lock is left out.
    for class in sample.classes.iter().filter(|class| class.counts.acquired != 0) {
        let holds = class.counts.holds.iter().sum::<u64>();
        assert!(holds > class.counts.acquired / 640, "{}: {holds} hold times", class.kind);
    }
    let mutex = counts("mutex", "accounts");
    assert!(mutex.gave_up <= mutex.contended && mutex.contended == mutex.waits.iter().sum::<u64>());
    assert!(sample.events.len() > 50);
    fs::remove_dir_all(folder).expect("the folder goes");
}

/// A thread that is watched tries first, and was not counted where readers meet: the lock did not
/// learn.
#[test]
fn the_readers_of_a_watched_lock_go_apart() {
    let folder = stage("beside");
    let program = folder.join("contend");
    compile(C[0], "contend.c", &program, &shared(&folder).iter().map(String::as_str).collect::<Vec<_>>());
    let sample = watched(Command::new(&program).arg("beside"));
    assert_eq!(sample.event("rwsem_apart"), 1);
    fs::remove_dir_all(folder).expect("the folder goes");
}

/// Strict C, older and newer C++, no warning that one can ask for: the header is at home
/// everywhere.
#[test]
fn the_headers_compile_everywhere() {
    let include = format!("-I{}", here().join("include").display());
    let all = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"];
    let more = ["-Wconversion", "-Wshadow", "-Wold-style-cast", "-Wmissing-braces"];
    let c = ("-xc", "lockyard.h", vec!["-std=c99", "-std=c11", "-std=gnu17"]);
    let cxx = ("-xc++", "lockyard.hpp", vec!["-std=c++17", "-std=c++20"]);
    for (compilers, (language, header, standards)) in [(C, c), (CXX, cxx)] {
        for (compiler, standard) in compilers.iter().flat_map(|one| standards.iter().map(move |two| (one, two))) {
            let mut command = Command::new(compiler.name);
            command.args(all).args([standard, &include.as_str(), &language]).args(["-include", header, "/dev/null"]);
            run(if language == "-xc" { &mut command } else { command.args(more) });
        }
    }
}

/// What others could collide with, or come to rely on: nothing but `ly_…`, and all of it in the
/// header.
#[test]
fn the_shared_library_exports_its_interface_and_nothing_else() {
    let output = run(Command::new("nm").args(["-D", "--defined-only"]).arg(built("liblockyard_capi.so")));
    let names = String::from_utf8(output.stdout).expect("ASCII");
    let names: Vec<&str> = names.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let foreign: Vec<_> = names.iter().filter(|name| !name.starts_with("ly_")).collect();
    assert!(foreign.is_empty(), "exported as well: {foreign:?}");
    let header = fs::read_to_string(here().join("include/lockyard.h")).expect("the header");
    let missing: Vec<_> = names.iter().filter(|name| !header.contains(&format!("{name}("))).collect();
    assert!(names.len() > 50 && missing.is_empty(), "{} functions, not in the header: {missing:?}", names.len());
    let elf = run(Command::new("readelf").arg("-d").arg(built("liblockyard_capi.so")));
    let elf = String::from_utf8_lossy(&elf.stdout).into_owned();
    assert!(elf.contains("[liblockyard.so.0]") && elf.contains("NODELETE"), "{elf}");
}
