//! The `spin` crate: test-and-test-and-set, and a ticket lock. Neither ever sleeps.

use crate::subject::Exclusive;

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
