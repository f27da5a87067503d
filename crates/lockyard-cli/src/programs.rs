//! Files that describe programs: models and recordings.

use std::sync::Arc;

use lockyard_recording::{Model, Recording};
use lockyard_work::Replay;

use crate::failure::{Failure, plain};
use crate::progress;

/// The first bytes of a file and of its text.
const FILE: &[u8] = b"LYREC";
const TEXT: &[u8] = b"lockyard recording";

/// Whether `name` is a file's rather than a workload's.
pub(crate) fn is_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml") || name.ends_with(".lyr")
}

/// The program that the file `path` describes: a model, or what a recording comes to.
///
/// # Errors
/// One line: it cannot be read, or what is wrong in it.
pub(crate) fn program(flag: &str, path: &str) -> Result<Arc<Model>, Failure> {
    let wrong = |error: lockyard_recording::Error| Failure::usage(format!("{flag}: {error}"));
    let bytes = bytes(flag, path)?;
    let program = match recognised(flag, path, &bytes)? {
        Some(recording) => recording.model(None).map_err(wrong)?,
        None => Model::read(path, &text(flag, path, bytes)?).map_err(wrong)?,
    };
    Ok(Arc::new(program))
}

/// The same as a workload in which every class takes the lock under test.
///
/// # Errors
/// As [`program`].
pub(crate) fn replay(flag: &str, path: &str) -> Result<Replay, Failure> {
    Ok(Replay::new(stem(path), program(flag, path)?))
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
    found.ok_or_else(|| Failure::usage(format!("{flag}: {path}: it is no recording of lockyard")))
}

/// What the file `path` holds.
///
/// # Errors
/// One line: it cannot be read.
fn bytes(flag: &str, path: &str) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::usage(format!("{flag}: {path}: {}", plain(&error))))
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
            progress::say(&format!("lockyard: note: {path}: {damage}"));
        }
        recording
    } else if bytes.starts_with(TEXT) {
        Recording::from_text(path, &text(flag, path, bytes.to_vec())?).map_err(wrong)?
    } else {
        return Ok(None);
    };
    if recording.dropped > 0 {
        progress::say(&format!("lockyard: note: {path}: {} windows were lost while recording", recording.dropped));
    }
    Ok(Some(recording))
}
