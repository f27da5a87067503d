//! What a process leaves where it could not make its segment: why. Its readers could not know: a
//! limit is the process's own.
//!
//! The file has the segment's name and begins as every segment does, with version [`NONE`] and,
//! behind the first 48 bytes, the reason. It goes when a segment would.

use rustix::fd::AsFd;
use rustix::fs::OFlags;
use rustix::io::{Errno, pread, write};

use crate::layout::MAGIC;
use crate::{exec, process};

/// No layout has it.
pub(crate) const NONE: u32 = 0;

/// Where the reason is.
const AT: usize = 48;
const BYTES: usize = AT + 8;

/// Why there is no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The file could not be made: the number is the system's errno.
    File(i32),
    /// It could not be mapped, or `/dev/shm` is full.
    Memory(i32),
    /// The process, a child of a fork, was in a sandbox that may end it for a file.
    Sandbox,
}

impl Refused {
    /// The system's errno, as it is or would have been.
    #[must_use]
    pub fn error(self) -> i32 {
        match self {
            Self::File(error) | Self::Memory(error) => error,
            Self::Sandbox => Errno::PERM.raw_os_error(),
        }
    }

    /// It in a word.
    pub(crate) fn word(self) -> u64 {
        let kind = match self {
            Self::File(_) => 0,
            Self::Memory(_) => 1,
            Self::Sandbox => 2,
        };
        u64::from(self.error() as u32) << 32 | kind
    }

    /// What `word` says.
    pub(crate) fn from_word(word: u64) -> Self {
        let error = (word >> 32) as i32;
        match word as u32 {
            0 => Self::File(error),
            1 => Self::Memory(error),
            _ => Self::Sandbox,
        }
    }
}

/// Leaves `why` in place of whatever has the name of process `me`'s segment: that file. `None`:
/// files may be limited to less.
pub(crate) fn leave(me: u32, session: u32, why: Refused) -> Option<process::FileId> {
    exec::set_aside(me, session);
    let words = [
        MAGIC,
        u64::from(me) << 32 | u64::from(NONE),
        process::now_in_ticks(),
        process::namespace_of(me),
        u64::from(session),
        0,
        why.word(),
    ];
    let mut bytes = [0u8; BYTES];
    for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    // Beyond the limit the kernel would end the process.
    let made = process::may_be_long(BYTES as u64)
        .and_then(|()| process::open(me, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL));
    let file = made.ok()?;
    if write(&file, &bytes) != Ok(BYTES) {
        process::remove(&process::file_name(me));
        return None;
    }
    process::file_id(&file).ok()
}

/// The reason in `file`, which has version [`NONE`].
pub(crate) fn read(file: impl AsFd) -> Option<Refused> {
    let mut bytes = [0u8; 8];
    let length = pread(file, &mut bytes, AT as u64).ok()?;
    (length == bytes.len()).then(|| Refused::from_word(u64::from_le_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_word() {
        for why in [Refused::File(24), Refused::Memory(12), Refused::Sandbox] {
            assert_eq!(Refused::from_word(why.word()), why);
        }
    }
}
