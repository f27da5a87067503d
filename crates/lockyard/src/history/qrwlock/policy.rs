//! Which qrwlock: the decisions that the kernel's queued rwlock has made one way or another since
//! 2014, as data.
//!
//! | policy | when | layout | how a writer says that it waits |
//! |---|---|---|---|
//! | [`TodayKernel`] | since about 2021 | modern | one unconditional or, at once |
//! | [`WordCas`] | 2014 to mid-2015 | 2014 | compare-exchange of the whole word, which every reader that comes or goes makes fail |
//! | [`ByteCas`] | to late 2017 | 2014 | compare-exchange of the writer's byte, which readers do not touch |
//! | [`FetchAdd`] | to about 2021 | modern | one unconditional addition |
//!
//! Each keeps a free lock shut for a first waiter that does not come (one that is stopped, or that
//! only the parent of a fork has). That is what the kernel does, where neither exists.
//!
//! In the layout of 2014 "waiting" and "locked" share a byte, so a waiting writer cannot say so
//! before the one inside has left: writers that come at the right moment pass it again and again,
//! and **there is no bound on that**. The modern layout has a bit of its own for it.

use core::fmt::Debug;

/// How the first waiting writer says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetWaiting {
    /// Compare-exchange of the whole word, once the writer's byte is zero.
    WordCas,
    /// Compare-exchange of the writer's byte, once it is zero.
    ByteCas,
    /// Atomic addition: the setter holds the wait lock, so the bit is clear.
    FetchAdd,
    /// Atomic or.
    FetchOr,
}

/// Which bits of the word mean what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The mark of a waiting writer.
    pub waiting: u32,
    /// One reader; what is below belongs to writers.
    pub reader: u32,
}

impl Layout {
    /// Byte 0: 0, 1 waiting or 255 locked; readers from bit 8 on.
    pub const Y2014: Self = Self { waiting: 1, reader: 1 << 8 };
    /// Byte 0: 0 or 255 locked; bit 8: waiting; readers from bit 9 on.
    pub const MODERN: Self = Self { waiting: 1 << 8, reader: 1 << 9 };
}

/// A policy's decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knobs {
    /// How the first waiting writer says so.
    pub set_waiting: SetWaiting,
    /// The first waiting reader adds itself before it waits (shorter way to the next reader), not
    /// after.
    pub count_then_wait: bool,
}

impl Knobs {
    /// The layout that the decisions need.
    pub const fn layout(self) -> Layout {
        match self.set_waiting {
            SetWaiting::WordCas | SetWaiting::ByteCas => Layout::Y2014,
            SetWaiting::FetchAdd | SetWaiting::FetchOr => Layout::MODERN,
        }
    }
}

/// A policy. Zero-sized: choosing one costs nothing at run time.
pub trait Policy: Copy + Debug + Default + Send + Sync + 'static {
    /// The name under which it is listed.
    const NAME: &'static str;
    /// Its decisions.
    const KNOBS: Knobs;
}

macro_rules! policies {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $set:ident, $count_then_wait:literal;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy, Default)]
            pub struct $name;

            impl Policy for $name {
                const NAME: &'static str = $text;
                const KNOBS: Knobs = Knobs {
                    set_waiting: SetWaiting::$set,
                    count_then_wait: $count_then_wait,
                };
            }
        )*

        /// The names of all policies.
        pub const NAMES: &[&str] = &[$($text),*];
    };
}

policies! {
    /// The kernel's since about 2021: an or.
    TodayKernel = "today-kernel", FetchOr, true;
    /// The kernel's before that, from late 2017 on: an addition.
    FetchAdd = "fetch-add", FetchAdd, true;
    /// From the patch of 2015 on: the writer's byte alone.
    ByteCas = "byte-cas", ByteCas, false;
    /// Before it: the whole word.
    WordCas = "word-cas", WordCas, false;
}
