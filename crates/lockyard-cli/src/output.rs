//! Files that are either whole or not there.
//!
//! A report is written to a temporary file beside its target and renamed over it, so a reader never
//! sees half of one and an interrupted run leaves the previous report in place. Whether the place
//! can be written is tried *before* measuring: nobody waits a minute to hear of a missing
//! directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, PoisonError};

use crate::failure::{Failure, plain};

/// A place where a report can be written.
#[derive(Debug)]
pub(crate) struct Target {
    shown: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A regular file, present or not: written beside and renamed.
    File(PathBuf),
    /// A device or pipe such as `/dev/null`: never replaced, written straight.
    Special(PathBuf),
}

impl Target {
    /// Checks that `path` can be written. Leaves nothing behind.
    ///
    /// # Errors
    /// One line that names the path, the reason and what to do.
    pub(crate) fn check(flag: &str, path: &Path) -> Result<Self, Failure> {
        let refuse = |why: String| {
            Failure::usage(format!("{flag}: cannot write '{}': {why}; choose a writable place", path.display()))
        };
        let place = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return Err(refuse("it is a directory".to_owned())),
            Ok(found) => {
                // Opened, not truncated: an old report stays until the new one is whole.
                OpenOptions::new().write(true).open(path).map_err(|error| refuse(plain(&error)))?;
                if found.is_file() {
                    // Through a symbolic link the file it names is replaced, not the link.
                    Place::File(fs::canonicalize(path).map_err(|error| refuse(plain(&error)))?)
                } else {
                    Place::Special(path.to_owned())
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Place::File(path.to_owned()),
            Err(error) => return Err(refuse(plain(&error))),
        };
        if let Place::File(file) = &place {
            if file.file_name().is_none() {
                return Err(refuse("it names no file".to_owned()));
            }
            let probe = Temporary::create(file).map_err(|error| refuse(plain(&error)))?;
            drop(probe);
        }
        Ok(Self { shown: path.to_owned(), place })
    }

    /// Writes `content` and makes it visible at once.
    ///
    /// # Errors
    /// One line that names the path and the reason; the old content is still there.
    pub(crate) fn write(&self, content: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), Failure> {
        self.write_by(&mut |file| file.write_all(content.as_ref()))
    }

    /// Has `content` written, and makes it visible at once.
    ///
    /// # Errors
    /// As [`Target::write`].
    pub(crate) fn write_by(&self, content: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
        let mut written = |file: &File| {
            let mut buffer = BufWriter::new(file);
            content(&mut buffer)?;
            buffer.flush()
        };
        let done = match &self.place {
            Place::File(file) => Temporary::create(file).and_then(|temporary| temporary.commit(file, &mut written)),
            Place::Special(path) => OpenOptions::new().write(true).open(path).and_then(|file| written(&file)),
        };
        done.map_err(|error| Failure::run(format!("cannot write '{}': {}", self.shown.display(), plain(&error))))
    }

    /// Begins a content that grows: visible once it is [committed](Commit).
    ///
    /// # Errors
    /// As the system's.
    pub(crate) fn grow(&self) -> io::Result<Growing> {
        Ok(match &self.place {
            Place::File(target) => {
                let mut temporary = Temporary::create(target)?;
                let file = temporary.file.take().map(|file| BufWriter::with_capacity(1 << 20, file));
                Growing { file, beside: Some((temporary, target.clone())) }
            }
            Place::Special(path) => {
                let file = OpenOptions::new().write(true).open(path)?;
                Growing { file: Some(BufWriter::new(file)), beside: None }
            }
        })
    }

    /// The path as the user gave it.
    pub(crate) fn path(&self) -> &Path {
        &self.shown
    }
}

/// A content under way; removed when dropped unless it was committed.
pub(crate) struct Growing {
    file: Option<BufWriter<File>>,
    beside: Option<(Temporary, PathBuf)>,
}

/// What becomes visible at its end.
pub(crate) trait Commit {
    /// Makes what was written visible, as far as it could be.
    ///
    /// # Errors
    /// As the system's.
    fn commit(self) -> io::Result<()>;
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or(Ok(bytes.len()), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Commit for Growing {
    fn commit(mut self) -> io::Result<()> {
        // A full disk: what it took is shown.
        let flushed = self.flush();
        if let Some((mut temporary, target)) = self.beside.take() {
            fs::rename(&temporary.path, target)?;
            temporary.renamed = true;
        }
        flushed
    }
}

/// The temporary files that there are.
static UNDER_WAY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes what is half-written: the command ends at once.
pub(crate) fn abandon() {
    for path in UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // Best effort: one that has its name by now is not there.
        let _ = fs::remove_file(path);
    }
}

/// A temporary file beside its target; removed when dropped unless it was committed.
struct Temporary {
    path: PathBuf,
    file: Option<File>,
    /// Nothing of that name is left to remove.
    renamed: bool,
}

impl Temporary {
    fn create(target: &Path) -> io::Result<Self> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let path = target.with_file_name(format!(".{name}.{}.part", process::id()));
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        Ok(Self { path, file: Some(file), renamed: false })
    }

    fn commit(mut self, target: &Path, written: &mut dyn FnMut(&File) -> io::Result<()>) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            written(&file)?;
        }
        fs::rename(&self.path, target)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed {
            // Best effort: the error that matters has been reported already.
            let _ = fs::remove_file(&self.path);
        }
        UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("lockyard-output-{}-{name}", process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn names(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn checking_leaves_nothing_and_writing_leaves_one_file() {
        let dir = scratch("whole");
        let target = Target::check("--out", &dir.join("report.json")).unwrap();
        assert!(names(&dir).is_empty());
        target.write("one").unwrap();
        target.write("two").unwrap();
        assert_eq!(names(&dir), ["report.json"]);
        assert_eq!(fs::read_to_string(dir.join("report.json")).unwrap(), "two");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn impossible_places_are_refused() {
        let dir = scratch("refuse");
        let line = Target::check("--out", &dir.join("missing/report.json")).unwrap_err().to_string();
        assert!(line.contains("no such file or directory; choose a writable place"), "{line}");
        let line = Target::check("--out", &dir).unwrap_err().to_string();
        assert!(line.contains("it is a directory"), "{line}");
        assert!(names(&dir).is_empty());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_link_is_followed_and_a_device_is_never_replaced() {
        let dir = scratch("links");
        fs::write(dir.join("real"), "old").unwrap();
        std::os::unix::fs::symlink(dir.join("real"), dir.join("link")).unwrap();
        Target::check("--out", &dir.join("link")).unwrap().write("new").unwrap();
        assert!(fs::symlink_metadata(dir.join("link")).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(dir.join("real")).unwrap(), "new");
        Target::check("--out", Path::new("/dev/null")).unwrap().write("gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        fs::remove_dir_all(dir).unwrap();
    }
}
