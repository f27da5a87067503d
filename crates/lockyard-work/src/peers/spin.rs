//! The `spin` crate: test-and-test-and-set, a ticket lock, a reader-writer lock. None ever sleeps.

use crate::subject::{Exclusive, Shared};

/// `spin::mutex::SpinMutex`.
#[derive(Debug)]
pub(crate) struct Ttas(::spin::mutex::SpinMutex<()>);

impl Exclusive for Ttas {
    fn new() -> Self {
        Self(::spin::mutex::SpinMutex::new(()))
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

/// `spin::mutex::TicketMutex`.
#[derive(Debug)]
pub(crate) struct Ticket(::spin::mutex::TicketMutex<()>);

impl Exclusive for Ticket {
    fn new() -> Self {
        Self(::spin::mutex::TicketMutex::new(()))
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

/// `spin::rwlock::RwLock`.
#[derive(Debug)]
pub(crate) struct RwLock(::spin::rwlock::RwLock<()>);

impl Exclusive for RwLock {
    fn new() -> Self {
        Self(::spin::rwlock::RwLock::new(()))
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
