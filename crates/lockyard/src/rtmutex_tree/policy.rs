//! What an own-tree mutex leaves to choice: whether the first waiter spins, and which threads may
//! pass it.

use core::fmt::Debug;

/// Whether, and how, the first waiter spins while the owner runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopSpin {
    /// Never: it sleeps at once.
    Off,
    /// As first published (September 2016): the owner is sampled after the wait lock was dropped;
    /// no owner means "try again at once".
    Published,
    /// As merged (5.15): the owner is sampled together with the test for the first place, under the
    /// wait lock; no owner means "sleep".
    Merged,
}

/// Which threads may take a free mutex past its first waiter, beside those of strictly higher
/// priority, which always may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steal {
    /// Nobody.
    Strict,
    /// Time-sharing threads past a time-sharing waiter, up to so many times; then it is its turn.
    /// (The kernel's lateral steal has no limit: waiters starved for minutes.)
    Lateral(u32),
}

impl Steal {
    /// Whether one of `priority` may pass a first waiter of priority `first` that was passed
    /// `passed` times by its equals.
    pub(crate) const fn permits(self, priority: u32, first: u32, passed: u32) -> bool {
        match self {
            _ if priority != first => priority > first,
            Self::Strict => false,
            // Real-time threads never: it would add an unbounded delay.
            Self::Lateral(limit) => priority == 0 && passed < limit,
        }
    }
}

/// A policy: a type without values, chosen at compile time.
pub trait Policy: Copy + Debug + Send + Sync + 'static {
    /// What users write.
    const NAME: &'static str;
    /// Whether the first waiter spins.
    const SPIN: TopSpin;
    /// Which threads may pass it.
    const STEAL: Steal;
}

/// The names of all policies, the default first.
pub const NAMES: &[&str] = &[Today::NAME, Published2016::NAME, NoSpin::NAME, Strict::NAME];

macro_rules! policies {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $spin:expr, $steal:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name;

        impl Policy for $name {
            const NAME: &'static str = $text;
            const SPIN: TopSpin = $spin;
            const STEAL: Steal = $steal;
        }
    )*};
}

policies! {
    /// As in today's kernel, with a limit to lateral steals.
    Today = "today", TopSpin::Merged, Steal::Lateral(32);
    /// The patch of 2016: the first waiter spins, nobody passes it but its betters.
    Published2016 = "top-spin-2016", TopSpin::Published, Steal::Strict;
    /// Before any of it: what the patch of 2016 was compared with.
    NoSpin = "no-spin", TopSpin::Off, Steal::Strict;
    /// Today's spinning, strict order.
    Strict = "strict", TopSpin::Merged, Steal::Strict;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_never_mixed_and_realtime_never_steals_from_its_equals() {
        for steal in [Steal::Strict, Steal::Lateral(2)] {
            assert!(steal.permits(7, 6, 1_000) && !steal.permits(6, 7, 0) && !steal.permits(0, 1, 0));
            assert!(!steal.permits(7, 7, 0));
        }
        assert!(!Steal::Strict.permits(0, 0, 0));
        assert_eq!([0, 1, 2, 3].map(|passed| Steal::Lateral(2).permits(0, 0, passed)), [true, true, false, false]);
    }
}
