//! `usync` 0.2: one word, a lock-free queue of threads that park.

use crate::subject::{Exclusive, Shared};

/// `usync::Mutex`.
#[derive(Debug)]
pub(crate) struct Mutex(::usync::Mutex<()>);

impl Exclusive for Mutex {
    fn new() -> Self {
        Self(::usync::Mutex::new(()))
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock();
        section()
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        let _guard = self.0.try_lock()?;
        Some(section())
    }
}

/// `usync::RwLock`.
#[derive(Debug)]
pub(crate) struct RwLock(::usync::RwLock<()>);

impl Exclusive for RwLock {
    fn new() -> Self {
        Self(::usync::RwLock::new(()))
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.write();
        section()
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        let _guard = self.0.try_write()?;
        Some(section())
    }
}

impl Shared for RwLock {
    #[inline(always)]
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.read();
        section()
    }

    fn try_with_shared<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        let _guard = self.0.try_read()?;
        Some(section())
    }
}
