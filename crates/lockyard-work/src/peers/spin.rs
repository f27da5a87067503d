//! The `spin` crate: test-and-test-and-set, a ticket lock, a reader-writer lock. None ever sleeps.

use crate::subject::{Exclusive, Family, Label, Shared, Subject};

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
}

impl Subject for Ttas {
    const LABEL: Label = Label::peer("spin-ttas", Family::Spin);
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
}

impl Subject for Ticket {
    const LABEL: Label = Label::peer("spin-ticket", Family::Spin);
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
}

impl Shared for RwLock {
    #[inline(always)]
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.0.read();
        section()
    }
}

impl Subject for RwLock {
    const LABEL: Label = Label::peer("spin-rwlock", Family::Rw);
}
