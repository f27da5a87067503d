//! Files that describe programs: models and recordings.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use lockyard_recording::{Model, Recording};
use lockyard_work::Replay;

use crate::failure::{Failure, plain};
use crate::progress;
use crate::report::numbers;

/// The first bytes of a file and of its text.
const FILE: &[u8] = b"LYREC";
const TEXT: &[u8] = b"lockyard recording";
/// Of a longer file no more is read than it takes to know.
const MOST_BYTES: u64 = 1 << 30;

/// Whether `name` is a file's rather than a workload's.
pub(crate) fn is_file(name: &str) -> bool {
    name.contains(['/', '.'])
}

/// What an operation is: `CLASS=N`, so many sections of a class.
///
/// # Errors
/// One line: it is something else.
pub(crate) fn operation(text: &str) -> Result<(&str, f64), Failure> {
    let parts = text.rsplit_once('=').and_then(|(class, count)| Some((class, count.trim().parse::<f64>().ok()?)));
    let fits = parts.filter(|(_, count)| *count > 0.0 && *count <= 1_000.0);
    fits.ok_or_else(|| Failure::usage(format!("--op: '{text}' is not CLASS=N, as in CACHE=5, with N up to 1000")))
}

/// The program that the file `path` describes: a model, or what a recording comes to, with this
/// [`operation`].
///
/// # Errors
/// One line: it cannot be read, or what is wrong in it.
pub(crate) fn program(flag: &str, path: &str, operation: Option<(&str, f64)>) -> Result<Arc<Model>, Failure> {
    let wrong = |error: lockyard_recording::Error| Failure::usage(format!("{flag}: {error}"));
    let bytes = bytes(flag, path)?;
    let program = match recognised(flag, path, &bytes)? {
        Some(recording) => {
            let wrong = |error: lockyard_recording::Error| Failure::usage(format!("{flag}: {path}: {error}"));
            let model = recording.model(operation).map_err(wrong)?;
            if let Some(note) = left_out(&recording, &model) {
                progress::say(&format!("lockyard: note: {path}: {note}"));
            }
            model
        }
        None if operation.is_some() => {
            let why = format!("--op is for a recording; {path} is a model, which says itself what an operation is");
            return Err(Failure::usage(why));
        }
        None => Model::read(path, &text(flag, path, bytes)?).map_err(wrong)?,
    };
    Ok(Arc::new(program))
}

/// What is said of the threads of `recording` that `model` is without.
fn left_out(recording: &Recording, model: &Model) -> Option<String> {
    let kept: f64 = model.roles.iter().map(|role| role.threads).sum();
    let (all, kept) = (recording.summary().threads, kept.round() as usize);
    (kept < all).then(|| {
        format!("{kept} of the {all} threads recorded work at the same time; the others, before or after them or hardly at all, are left out")
    })
}

/// The same as a workload in which every class takes the lock under test.
///
/// # Errors
/// As [`program`].
pub(crate) fn replay(flag: &str, path: &str) -> Result<Replay, Failure> {
    Ok(Replay::new(stem(path), program(flag, path, None)?))
}

/// `app` of `/tmp/app.toml`.
pub(crate) fn stem(path: &str) -> String {
    let stem = std::path::Path::new(path).file_stem();
    stem.map_or_else(|| path.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// The recording in the file `path`.
///
/// # Errors
/// One line: it cannot be read, or is none.
pub(crate) fn recorded(flag: &str, path: &str) -> Result<Recording, Failure> {
    let found = recognised(flag, path, &bytes(flag, path)?)?;
    found.ok_or_else(|| {
        let model = if path.ends_with(".toml") { "; a model is for predict and --workload" } else { "" };
        Failure::usage(format!("{flag}: {path}: it is no recording of lockyard{model}"))
    })
}

/// What the file `path` holds.
///
/// # Errors
/// One line: it cannot be read, is empty, or is too long for a recording.
fn bytes(flag: &str, path: &str) -> Result<Vec<u8>, Failure> {
    let refuse = |why: &str| Failure::usage(format!("{flag}: {path}: {why}"));
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    match read.map_err(|error| refuse(&plain(&error)))? {
        0 => Err(refuse("it is empty")),
        length if length as u64 > MOST_BYTES => Err(refuse("it is longer than 1 GiB")),
        _ => Ok(bytes),
    }
}

/// The first line of `bytes` that is neither empty nor a comment.
fn first_line(bytes: &[u8]) -> &[u8] {
    let mut lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    lines.find(|line| !line.is_empty() && !line.starts_with(b"#")).unwrap_or_default()
}

/// The text in `bytes`.
///
/// # Errors
/// One line: it is none.
fn text(flag: &str, path: &str, bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|_| Failure::usage(format!("{flag}: {path}: it is neither text nor a recording")))
}

/// The recording in `bytes`, if they look like one. Says so on stderr if the file is damaged, or if
/// windows are missing.
///
/// # Errors
/// One line: what is wrong in it.
fn recognised(flag: &str, path: &str, bytes: &[u8]) -> Result<Option<Recording>, Failure> {
    let wrong = |error: lockyard_recording::Error| Failure::usage(format!("{flag}: {error}"));
    let recording = if bytes.starts_with(FILE) {
        let (recording, damage) = Recording::from_bytes(path, bytes).map_err(wrong)?;
        if let Some(damage) = damage {
            if recording.windows.is_empty() {
                return Err(Failure::usage(format!("{flag}: {path}: {}, before any window", damage.cause())));
            }
            progress::say(&format!("lockyard: note: {path}: {damage}"));
        }
        recording
    } else if first_line(bytes).starts_with(TEXT) {
        Recording::from_text(path, &text(flag, path, bytes.to_vec())?).map_err(wrong)?
    } else {
        return Ok(None);
    };
    if recording.dropped > 0 {
        progress::say(&format!("lockyard: note: {path}: {} windows were lost while recording", recording.dropped));
    }
    if recording.missing > 0 {
        let threads = numbers::count(recording.missing as usize, "thread");
        progress::say(&format!("lockyard: note: {path}: {threads} not recorded: what follows is of the others"));
    }
    Ok(Some(recording))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_a_model_is_without_are_told_of() {
        // A thread takes a lock so often, from then on.
        let works = |thread: u32, from: u64, often: u64| {
            let sections = (0..often).map(|at| {
                let at = from + 100 * at;
                format!("{at} {thread} request 0 write\n{} {thread} release 0\n", at + 20)
            });
            format!("window {thread} {from}\n{}", sections.collect::<String>())
        };
        let note = |windows: &[String]| {
            let text = format!("lockyard recording 1\nclass mutex A\nlock 0\n{}", windows.concat());
            let recording = Recording::from_text("a", &text).unwrap();
            left_out(&recording, &recording.model(None).unwrap())
        };
        let (one, other) = (works(1, 100_000, 500), works(2, 100_000, 500));
        assert_eq!(note(&[one.clone(), other.clone()]), None);
        let fills = works(3, 1, 500);
        assert!(note(&[fills, one, other]).is_some_and(|note| note.starts_with("2 of the 3 threads")));
    }
}
