//! Lockyard's locks that only the real machine has: they are made of what its kernel does.

use lockyard::platform::linux::Linux;
use lockyard::rtmutex::{Lateral, Policy, RawRtMutex, policy};

use crate::candidate::Candidate;
use crate::subject::{Exclusive, Family, Label, Subject};

/// How many there are.
pub(crate) const COUNT: usize = 4;

/// All of them, default policies first.
pub(crate) const fn candidates() -> [Candidate; COUNT] {
    [rtmutex::<Lateral>(), rtmutex::<policy::Merged>(), rtmutex::<policy::Published>(), rtmutex::<policy::Off>()]
}

const fn rtmutex<S: Policy>() -> Candidate {
    Candidate::exclusive::<Linux, PiMutex<S>>().by_name()
}

/// `pi-mutex` with policy `S`.
#[derive(Debug)]
struct PiMutex<S: Policy>(RawRtMutex<Linux, S>);

impl<S: Policy> Exclusive for PiMutex<S> {
    fn new() -> Self {
        Self(RawRtMutex::default())
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        self.0.acquire().unwrap_or_else(failed);
        let result = section();
        // SAFETY: acquired above by this thread.
        unsafe { self.0.release() }.unwrap_or_else(failed);
        result
    }
}

impl<S: Policy> Subject for PiMutex<S> {
    const LABEL: Label = Label::lockyard("pi-mutex", Some(S::NAME), Family::Mutex);
}

/// Ends the program: a lock that was not taken must not be measured.
#[cold]
fn failed(error: lockyard::PiError) {
    panic!("pi-mutex: {error}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_listed_and_the_default_comes_first() {
        let listed: Vec<_> = candidates().iter().filter_map(|candidate| candidate.policy).collect();
        assert_eq!(listed, policy::POLICIES);
    }
}
