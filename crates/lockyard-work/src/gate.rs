//! What threads of a round wait at: asleep, so that threads of lower priority run meanwhile.

use lockyard::platform::{Ordering::*, Platform, Word};

/// Closed at first; each opening lets one thread pass.
#[derive(Debug)]
pub(crate) struct Gate<P: Platform>(P::U32);

impl<P: Platform> Default for Gate<P> {
    fn default() -> Self {
        Self(P::U32::default())
    }
}

impl<P: Platform> Gate<P> {
    /// Lets one more thread pass.
    pub(crate) fn open(&self) {
        self.0.fetch_add(1, Release);
        P::unpark(&self.0);
    }

    /// Waits until it may pass.
    pub(crate) fn pass(&self) {
        loop {
            match self.0.load(Acquire) {
                0 => P::park(&self.0, 0, None),
                open => {
                    if self.0.compare_exchange(open, open - 1, Acquire, Relaxed).is_ok() {
                        return;
                    }
                }
            }
        }
    }
}
