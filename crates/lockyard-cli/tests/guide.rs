//! The documents' commands: those of a chapter of the guide run one after another in an empty
//! folder, as a reader would type them (with `LOCKYARD_RUN_GUIDE`), and those that need a server or
//! root are at least understood.
//!
//! Rust blocks are doc tests of `lockyard-check`, C blocks are compiled by the tests of
//! `lockyard-capi`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// A fenced block: its language and its text.
struct Block {
    language: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The blocks of a document.
fn blocks(document: &Path) -> Vec<Block> {
    let text = fs::read_to_string(document).unwrap_or_else(|error| panic!("{}: {error}", document.display()));
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => open = Some(Block { language: language.to_owned(), text: String::new() }),
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(block), None) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{}: a block without an end", document.display());
    found
}

/// The chapters, by name.
fn chapters() -> Vec<PathBuf> {
    let folder = root().join("docs/guide/src");
    let files = fs::read_dir(folder).expect("the guide").map(|entry| entry.expect("a file").path());
    let mut chapters: Vec<_> = files.filter(|file| file.extension().is_some_and(|end| end == "md")).collect();
    chapters.sort();
    chapters
}

/// The name of a file that a block's first line gives: `/* app.c */` or `# app.toml`.
fn named(block: &Block) -> Option<&str> {
    let first = block.text.lines().next()?;
    let name = first.strip_prefix("/* ").and_then(|rest| rest.strip_suffix(" */")).or(first.strip_prefix("# "))?;
    (name.contains('.') && !name.contains([' ', '/'])).then_some(name)
}

/// The folder of the chapter, which is empty.
fn folder(chapter: &Path) -> PathBuf {
    let name = chapter.file_stem().expect("a name").to_string_lossy();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("guide-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// The command and the preload library as users get them, built when they are not up to date: the
/// folder of the first, the file of the second.
fn release() -> (PathBuf, PathBuf) {
    let exe = std::env::current_exe().expect("a path");
    let target = exe.ancestors().nth(3).expect("a target directory");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--release", "-p", "lockyard-cli", "-p", "lockyard-preload", "--target-dir"]);
    assert!(build.arg(target).current_dir(root()).status().expect("cargo").success(), "{build:?}");
    (target.join("release"), target.join("release/liblockyard_preload.so"))
}

/// Runs the commands of `chapter`: how many blocks of them there are.
fn run(chapter: &Path, path: &str, library: &Path) -> usize {
    let folder = folder(chapter);
    let mut ran = 0;
    for block in blocks(chapter) {
        if let Some(name) = named(&block) {
            fs::write(folder.join(name), &block.text).expect("a file");
        }
        if block.language != "sh" {
            continue;
        }
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &block.text]).current_dir(&folder);
        let output = shell.env("PATH", path).env("LOCKYARD_PRELOAD", library).output().expect("a shell");
        assert!(
            output.status.success(),
            "{}: {}\n{}\n{}{}",
            chapter.display(),
            output.status,
            block.text,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        ran += 1;
    }
    fs::remove_dir_all(folder).expect("the folder goes");
    ran
}

/// Takes a minute, and the release build: asked for by `cargo xtask lint --pages`.
#[test]
fn the_commands_of_each_chapter_work_one_after_another() {
    if std::env::var_os("LOCKYARD_RUN_GUIDE").is_none() {
        return eprintln!("not run: LOCKYARD_RUN_GUIDE is not set");
    }
    let (command, library) = release();
    let path = format!("{}:{}", command.display(), std::env::var("PATH").expect("a PATH"));
    let (left, ran) = (Mutex::new(chapters()), AtomicUsize::new(0));
    // Two chapters at a time: they wait more than they compute.
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let next = || left.lock().ok()?.pop();
                while let Some(chapter) = next() {
                    ran.fetch_add(run(&chapter, &path, &library), Relaxed);
                }
            });
        }
    });
    let ran = ran.into_inner();
    assert!(ran > 20, "{ran} blocks are not the guide's");
}

/// The words of a line as a shell would take them, as far as the documents go: quotes, and no more.
fn words(line: &str) -> Vec<OsString> {
    let (mut words, mut word, mut quoted, mut begun) = (Vec::new(), String::new(), false, false);
    for c in line.chars().chain([' ']) {
        match c {
            '\'' => (quoted, begun) = (!quoted, true),
            ' ' if !quoted => {
                words.extend(begun.then(|| OsString::from(std::mem::take(&mut word))));
                begun = false;
            }
            _ => {
                word.push(c);
                begun = true;
            }
        }
    }
    words
}

/// What the shell, the scheduler or the reader puts in, and files that are not there.
const PUT_IN: [(&str, &str); 5] = [("$!", "1"), ("PID", "1"), ("1234", "1"), ("{}", "1"), ("plan.toml", "/dev/null")];

/// Whether it is only process 1, the empty file, or a library that is elsewhere, that the command
/// minds.
fn minds_what_was_put_in(why: &str) -> bool {
    let library = why.contains("no liblockyard_preload.so");
    library || why.contains("process 1 has no") || why.contains("/dev/null")
}

#[test]
fn commands_that_are_only_shown_are_understood() {
    let mut shown = 0;
    for document in chapters().into_iter().chain([root().join("README.md")]) {
        for block in blocks(&document).into_iter().filter(|block| block.language == "console") {
            for line in block.text.replace("\\\n", " ").lines() {
                let line = line.split(" #").next().unwrap_or(line).trim_end_matches('&');
                let Some((before, options)) = line.split_once("lockyard ") else { continue };
                let before = before.trim_end().trim_end_matches("target/release/");
                if !(before.is_empty() || ["seq", "hq"].iter().any(|scheduler| before.starts_with(scheduler))) {
                    continue;
                }
                let put_in = |line: String, (from, to): &(&str, &str)| line.replace(from, to);
                let options = PUT_IN.iter().fold(options.to_owned(), put_in);
                let taken = lockyard_cli::check([OsString::from("lockyard")].into_iter().chain(words(&options)));
                if let Err((_, why)) = taken {
                    assert!(minds_what_was_put_in(&why), "{}: {line}: {why}", document.display());
                }
                shown += 1;
            }
        }
    }
    assert!(shown > 10, "{shown} commands are not all");
}

#[test]
fn blocks_say_what_they_are() {
    for chapter in chapters().into_iter().chain([root().join("README.md")]) {
        for block in blocks(&chapter) {
            // CMake's is built by `cargo xtask install --check`.
            let known = ["rust", "c", "cpp", "cmake", "sh", "console", "text", "toml"].contains(&&*block.language);
            assert!(known, "{}: a block of {:?}: {}", chapter.display(), block.language, block.text);
        }
    }
}
