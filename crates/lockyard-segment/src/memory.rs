//! Another process's segment in this process's memory, for [`Reader`](crate::Reader).
//!
//! | | what a load sees | a file that its owner makes shorter |
//! |---|---|---|
//! | mapped | the newest store | SIGBUS ends the reader |
//! | copied | what [`Memory::refresh`] has read | the words stay as they were |
//!
//! A user who can make the file shorter can also kill a reader of the same user, so that reader
//! maps. Root copies what is not root's. (Root's file may become a user's while root has it mapped,
//! when its process gives up root.)

use core::sync::atomic::Ordering::Acquire;

use lockyard::platform::linux::file::File;
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use crate::layout::{LENGTH, PAGE, Shared, THREADS_OFFSET, ThreadPage};

/// See the page of this file.
#[derive(Debug)]
pub(crate) struct Memory {
    base: *const Shared,
    /// What it is a copy of.
    copied: Option<File>,
}

// SAFETY: the mapping is this value's own, and holds nothing but atomics.
unsafe impl Send for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `mapped` or `copied`; no reference outlives `self`.
        let _ = unsafe { munmap(self.base.cast_mut().cast(), LENGTH) };
    }
}

impl Memory {
    pub(crate) fn mapped(file: impl AsFd, writable: bool) -> Result<Self, Errno> {
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping where the kernel finds room. Only parts that the writer has made
        // real are touched.
        let base = unsafe { mmap(core::ptr::null_mut(), LENGTH, access, MapFlags::SHARED, file, 0) }?;
        Ok(Self { base: base.cast(), copied: None })
    }

    /// Zeroes until the first [`refresh`](Self::refresh).
    pub(crate) fn copied(file: File) -> Result<Self, Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: new memory where the kernel finds room.
        let base = unsafe { mmap_anonymous(core::ptr::null_mut(), LENGTH, ProtFlags::READ | ProtFlags::WRITE, flags) }?;
        Ok(Self { base: base.cast(), copied: Some(file) })
    }

    /// Reads a copy's words again, in system calls as many as the process has had threads.
    pub(crate) fn refresh(&self) {
        if self.copied.is_some() {
            self.read(0, THREADS_OFFSET);
            self.slots().for_each(|slot| self.read(THREADS_OFFSET + slot * PAGE, PAGE));
        }
    }

    /// The header's alone.
    pub(crate) fn refresh_header(&self) {
        self.read(0, PAGE);
    }

    fn read(&self, offset: usize, length: usize) {
        let Some(file) = &self.copied else { return };
        let file = file.as_fd().as_raw_fd();
        let place = self.base.cast::<u8>().wrapping_add(offset).cast_mut();
        // SAFETY: inside our own memory, which is writable; no other thread has `self`, and what
        // refers to the words refers to atomics.
        let _ = unsafe { libc::pread(file, place.cast(), length, offset as libc::off_t) };
    }

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: there as long as `self` lives; nothing but atomics, of which every value is one.
        unsafe { &*self.base }
    }

    /// The pages that are real.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &ThreadPage> {
        self.slots().map(|slot| {
            let place = self.base.cast::<u8>().wrapping_add(THREADS_OFFSET + slot * PAGE).cast::<ThreadPage>();
            // SAFETY: inside the mapping, aligned; as `shared`.
            unsafe { &*place }
        })
    }

    fn slots(&self) -> impl Iterator<Item = usize> {
        let words = self.shared().header.pages.iter().enumerate();
        words.flat_map(|(word, bits)| {
            let bits = bits.load(Acquire);
            (0..64).filter(move |bit| bits & 1 << bit != 0).map(move |bit| word * 64 + bit)
        })
    }
}
