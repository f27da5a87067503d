//! `parking_lot` 0.13.

use crate::subject::{Exclusive, Shared};

/// `parking_lot::Mutex`.
#[derive(Debug)]
pub(crate) struct Mutex(::parking_lot::Mutex<()>);

impl Exclusive for Mutex {
    fn new() -> Self {
        Self(::parking_lot::Mutex::new(()))
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

/// `parking_lot::RwLock`.
#[derive(Debug)]
pub(crate) struct RwLock(::parking_lot::RwLock<()>);

impl Exclusive for RwLock {
    fn new() -> Self {
        Self(::parking_lot::RwLock::new(()))
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
