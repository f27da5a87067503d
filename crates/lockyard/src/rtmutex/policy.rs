//! Who may wait in user space.
//!
//! | policy | the top waiter | equals |
//! |---|---|---|
//! | [`Lateral`] | spins on one owner | wait, and pass each other, in user space |
//! | [`Merged`] | spins on one owner, as the kernel's own does since 5.15 | wait in the kernel, in order |
//! | [`Published`] | spins on any owner, as in the patch of 2016 | wait in the kernel, in order |
//! | [`Off`] | sleeps at once | wait in the kernel, in order: what a C library's PI mutex does |

use core::fmt::Debug;

/// What the thread that is next to own the mutex does while the owner runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopWaiter {
    /// Waits in the kernel at once.
    Sleeps,
    /// Spins, also when the mutex has gone to another owner meanwhile.
    Spins,
    /// Spins as long as the owner that it met has the mutex.
    SpinsOnOneOwner,
}

/// A policy; see the [module text](self).
pub trait Policy: Copy + Debug + Default + Send + Sync + 'static {
    /// The name that users write.
    const NAME: &'static str;
    /// What the top waiter does.
    const TOP_WAITER: TopWaiter;
    /// Whether time-sharing threads that hold nothing wait in user space.
    const LATERAL: bool;
}

macro_rules! policies {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $top:ident, $lateral:literal;)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $name;

        impl Policy for $name {
            const NAME: &'static str = $text;
            const TOP_WAITER: TopWaiter = TopWaiter::$top;
            const LATERAL: bool = $lateral;
        })*

        /// The names of all policies, the default first.
        pub const POLICIES: &[&str] = &[$($text),*];
    };
}

policies! {
    /// Equals pass each other for a turn: the default.
    Lateral = "lateral", SpinsOnOneOwner, true;
    /// The kernel's spinning of 5.15, in user space.
    Merged = "merged", SpinsOnOneOwner, false;
    /// The patch of 2016, in user space.
    Published = "published", Spins, false;
    /// No waiting in user space.
    Off = "off", Sleeps, false;
}
