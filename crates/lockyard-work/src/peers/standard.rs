//! `std::sync`, with its poison flag, as everybody uses it.

use std::sync::PoisonError;

use crate::subject::{Exclusive, Shared};

/// `std::sync::Mutex`.
#[derive(Debug)]
pub(crate) struct Mutex(std::sync::Mutex<()>);

impl Exclusive for Mutex {
    fn new() -> Self {
        Self(std::sync::Mutex::new(()))
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        section()
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        let _guard = self.0.try_lock().ok()?;
        Some(section())
    }
}

/// `std::sync::RwLock`.
#[derive(Debug)]
pub(crate) struct RwLock(std::sync::RwLock<()>);

impl Exclusive for RwLock {
    fn new() -> Self {
        Self(std::sync::RwLock::new(()))
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.write().unwrap_or_else(PoisonError::into_inner);
        section()
    }

    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        let _guard = self.0.try_write().ok()?;
        Some(section())
    }
}

impl Shared for RwLock {
    #[inline(always)]
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.read().unwrap_or_else(PoisonError::into_inner);
        section()
    }

    fn try_with_shared<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        let _guard = self.0.try_read().ok()?;
        Some(section())
    }
}
