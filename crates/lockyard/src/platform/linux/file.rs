//! The kernel's small files, read without allocating and without errno.

use core::ffi::CStr;
use core::mem::ManuallyDrop;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;

/// An open file. It is closed by a system call: the C library's `close` is a cancellation point,
/// and a thread that somebody wants to end would end there, inside a lock.
#[derive(Debug)]
pub struct File(ManuallyDrop<OwnedFd>);

impl File {
    /// The file at `path`, closed on exec; one that is made can be read and written by its user.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &CStr, flags: OFlags) -> Result<Self, Errno> {
        Self::open_at(CWD, path, flags)
    }

    /// The same, in `folder`.
    ///
    /// # Errors
    /// The system's.
    pub fn open_at(folder: impl AsFd, path: &CStr, flags: OFlags) -> Result<Self, Errno> {
        let file = openat(folder, path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
        Ok(Self(ManuallyDrop::new(file)))
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: it is open, and nobody closes it but this.
        unsafe { rustix::io::close(self.0.as_raw_fd()) };
    }
}

/// What the file begins with, as far as there is room for it in `text`.
pub(super) fn read<'t>(path: &CStr, text: &'t mut [u8]) -> Option<&'t [u8]> {
    let file = File::open(path, OFlags::RDONLY).ok()?;
    let length = rustix::io::read(&file, &mut *text).ok()?;
    text.get(..length)
}
