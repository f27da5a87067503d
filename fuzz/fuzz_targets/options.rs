//! Command lines, a word a line: whatever the values are, each is taken, or refused in one line
//! with exit code 2.

#![no_main]

use std::ffi::OsString;
use std::sync::Once;

use libfuzzer_sys::fuzz_target;

/// Options that name files, or print: not what is looked for, and a fuzzer's words should neither
/// be read nor written.
const LEFT_OUT: [&str; 10] =
    ["--out", "--html", "--help", "-h", "--version", "-V", "help", "--pid", "--reset"];

fn left_out(word: &str) -> bool {
    let option = word.split('=').next().unwrap_or_default();
    LEFT_OUT.contains(&option)
        || option.starts_with("-h")
        || option.starts_with("-V")
        || word.contains(['/', '\0'])
        || word.contains(".toml")
}

fuzz_target!(|text: &str| {
    static FOLDER: Once = Once::new();
    // `compare` tries whether it could write where it stands.
    FOLDER.call_once(|| std::env::set_current_dir(std::env::temp_dir()).expect("a folder for what is temporary"));
    if text.lines().any(left_out) {
        return;
    }
    let words = std::iter::once("lockyard").chain(text.lines()).map(OsString::from);
    if let Err((code, line)) = lockyard_cli::check(words) {
        assert_eq!(code, 2, "{line}");
        assert!(!line.trim().is_empty() && !line.contains('\n'), "{line:?}");
    }
});
