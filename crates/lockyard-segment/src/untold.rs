//! What a process leaves where it could not make its segment: why. Its readers could not know: a
//! limit is the process's own.
//!
//! The file has the segment's name and begins as every segment does, with version [`NONE`] and,
//! behind the first 48 bytes, the reason. It goes when a segment would.

use rustix::fd::AsFd;
use rustix::fs::OFlags;
use rustix::io::{pread, write};

use crate::layout::MAGIC;
use crate::process;

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
}

/// Leaves `why` in place of whatever has the name of process `me`'s segment. Says whether it did:
/// files may be limited to less.
pub(crate) fn leave(me: u32, session: u32, why: Refused) -> bool {
    process::remove(&process::file_name(me));
    let (kind, error) = match why {
        Refused::File(error) => (0, error),
        Refused::Memory(error) => (1, error),
    };
    let words = [
        MAGIC,
        u64::from(me) << 32 | u64::from(NONE),
        process::now_in_ticks(),
        process::namespace_of(me),
        u64::from(session),
        0,
        u64::from(error as u32) << 32 | kind,
    ];
    let mut bytes = [0u8; BYTES];
    for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    // Beyond the limit the kernel would end the process.
    process::may_be_long(BYTES as u64)
        .and_then(|()| process::open(me, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL))
        .and_then(|file| write(&file, &bytes))
        .is_ok()
}

/// The reason in `file`, which has version [`NONE`].
pub(crate) fn read(file: impl AsFd) -> Option<Refused> {
    let mut bytes = [0u8; 8];
    let length = pread(file, &mut bytes, AT as u64).ok()?;
    let word = u64::from_le_bytes(bytes);
    let error = (word >> 32) as i32;
    (length == bytes.len()).then_some(if word as u32 == 0 { Refused::File(error) } else { Refused::Memory(error) })
}
