//! The kernel's small files, read without allocating and without errno.

use core::ffi::CStr;

use rustix::fs::{Mode, OFlags, open};

/// What the file begins with, as far as there is room for it in `text`.
pub(super) fn read<'t>(path: &CStr, text: &'t mut [u8]) -> Option<&'t [u8]> {
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let length = rustix::io::read(&file, &mut *text).ok()?;
    text.get(..length)
}
