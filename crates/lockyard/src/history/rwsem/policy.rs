//! Which rw-semaphore: every decision that the kernel's rwsem has made one way or another since
//! 2019, as data.
//!
//! A policy is a zero-sized type; its [`Knobs`] are a constant, so that what a policy does not use
//! is not compiled. Named policies are the states of the kernel's history that published
//! measurements compare, each written as its difference from the one before:
//!
//! | policy | Linux commit | what it adds |
//! |---|---|---|
//! | [`XaddBaseline`] | a8654596f0 (v5.1) | the lock as it was: signed count, readers woken up to the first writer |
//! | [`HandoffNone`] | 6cef7ff6e4 | count made of bits |
//! | [`Handoff4ms`] | 4f23dbc1e6 | a waiter past its deadline forbids barging |
//! | [`HandoffImmediate`] | – | the experiment in that commit's message: deadline 0 |
//! | [`WakeAllReaders`] | d3681e269f | wakes all queued readers, up to 256; wakes after the wait lock |
//! | [`ReaderSpinOnWriter`] | cf69482d62 | readers spin while a writer runs |
//! | [`TimedWriterSpin`] | 7d43f1ce9d | writers spin on readers for a while |
//! | [`AdaptiveRspin`] | 5cfd92e12e | readers stop spinning where writers failed to |
//! | [`V5_10`] | v5.10 | entitled writer spins; a count at its end is looked for |
//! | [`StarvationGuard`] | 2f06f702925b | no barging into a lock that readers hold |
//! | [`ReaderSteal`] | 1a728dff85 | readers go in past waiters |
//! | [`ReaderStealV2`] | posted, not merged | ... and let in the readers behind a first writer |
//! | [`LimitRspin`] | reconstruction | ... and only one reader spins |
//! | [`NoRspin`] | 617f3ef951 (v5.11) | readers do not spin |
//! | [`V5_16`] | v5.16 to v5.18 | entitlement kept per waiter; known to hang in the kernel, a target for fault injection |
//! | [`TodayKernel`] | v6.3 to v7.0 | the kernel's today |
//!
//! Two are literal forms of known bugs, for fault injection only: [`XaddBaselineLiteral`] (a
//! granted reader may release before it was counted), [`TimedWriterSpinLiteral`] (looks at the run
//! state of a thread that is no longer an owner; costs time, not safety).

use core::fmt::Debug;

/// What the count word means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountScheme {
    /// A signed sum: see `biased.rs`.
    Biased,
    /// Flags and a number of readers: see [`rwsem`](super).
    Bits,
}

/// When a waiter may forbid barging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handoff {
    /// Never.
    None,
    /// In a failed try made so many nanoseconds after it queued.
    After(u64),
}

impl Handoff {
    /// In its first failed try.
    pub const IMMEDIATE: Self = Self::After(0);

    /// Whether there is such a thing.
    pub const fn exists(self) -> bool {
        matches!(self, Self::After(_))
    }
}

/// When a real-time writer may request handoff without waiting for its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandoffRt {
    /// Once it has slept.
    AfterFirstWake,
    /// In its first failed try.
    FirstAttempt,
}

/// Where it is noted which waiter asked for handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Track {
    /// In a variable of the waiting writer: not first, first, handoff.
    State,
    /// In the waiter's record, where others see it.
    Flag,
}

/// Which queued readers a grant serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeReaders {
    /// Those before the first writer.
    HeadRun,
    /// All, up to [`MAX_GRANTS`](super::MAX_GRANTS).
    All,
}

/// Whether readers spin before they queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReaderSpin {
    /// They do not.
    Off,
    /// They do.
    On,
    /// So many at a time.
    Limited(u32),
}

impl ReaderSpin {
    /// Whether any reader spins.
    pub const fn exists(self) -> bool {
        !matches!(self, Self::Off)
    }
}

/// Which marks in the owner word forbid spinning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nonspin {
    /// Every reader-owned word does.
    WithReader,
    /// One mark for readers, one for writers.
    Split,
    /// One mark.
    Single,
}

/// Which of the marks a reader keeps when it stores itself as owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// None.
    Nothing,
    /// The one against readers.
    Reader,
    /// All.
    All,
}

/// Whether a reader on the slow path may keep its bias past waiting threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steal {
    /// No.
    Off,
    /// If nobody spins.
    IfOsqEmpty,
    /// Yes.
    On,
}

/// What a spinner that should not burn time does when it finds no owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RtNullOwner {
    /// Leaves.
    Quit,
    /// Tries once more if a writer has just gone.
    OneRetry,
}

/// What a thread that has queued does about the others in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnqueueWake {
    /// A reader wakes the first waiter if nobody holds the lock, or if it is itself first and no
    /// writer does; a writer that is not first grants to first readers if readers hold the lock.
    A,
    /// As `A`, but a writer also wakes if nobody holds, and marks against spinning are cleared
    /// then.
    B,
    /// Both look at what holds the lock, first or not.
    C,
}

/// Which waiter wakes others when it gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortWake {
    /// A writer.
    WriterOnly,
    /// One that was first.
    FirstAny,
}

/// All decisions. The names are those of `rwsem` in the kernel's changelogs, as far as it has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // each is explained where its type is, or below
pub struct Knobs {
    pub count: CountScheme,
    pub handoff: Handoff,
    pub handoff_rt: HandoffRt,
    pub track: Track,
    pub wake_readers: WakeReaders,
    /// An enqueuing writer wakes others while it holds the wait lock.
    pub wake_under_lock: bool,
    pub reader_spin: ReaderSpin,
    /// Writers spin on readers, for a time.
    pub writer_spin_on_readers: bool,
    pub nonspin: Nonspin,
    pub nonspin_keep: Keep,
    /// Readers stop spinning where writers' spinning failed; one last try if a new reader phase
    /// began.
    pub adaptive_rspin: bool,
    pub steal: Steal,
    /// No stealing while other readers hold the lock.
    pub reader_guard: bool,
    /// A writer entitled to the handoff spins on the owner before it sleeps again.
    pub handoff_writer_spin: bool,
    /// A spinner leaves when somebody has asked for handoff.
    pub watch_stops_on_handoff: bool,
    pub rt_null_owner: RtNullOwner,
    pub enqueue_wake: EnqueueWake,
    pub abort_wake: AbortWake,
    /// A reader that finds the count at its end marks the lock against spinning, and a grant pass
    /// looks for that first. (No policy counts on from there.)
    pub overflow_guard: bool,
    /// A reader that lets others in also serves those behind a first writer.
    pub past_writer: bool,
    /// Readers are counted before any of them is told.
    pub two_phase_grant: bool,
    /// The pre-check of spinning also asks whether the last *reader* runs.
    pub oncpu_check_on_readers: bool,
    /// `Flag` tracking as it first was: `HANDOFF` stops every waiter but the first, and the waiter
    /// for which it was set is entitled.
    pub strict_handoff: bool,
}

/// A policy: a name and its knobs. The other constants are the knobs one by one, for use in the
/// algorithm.
#[allow(missing_docs)] // as in `Knobs`
pub trait Policy: Copy + Default + Debug + Send + Sync + 'static {
    const NAME: &'static str;
    const KNOBS: Knobs;

    const COUNT: CountScheme = Self::KNOBS.count;
    const HANDOFF: Handoff = Self::KNOBS.handoff;
    const HANDOFF_RT: HandoffRt = Self::KNOBS.handoff_rt;
    const TRACK: Track = Self::KNOBS.track;
    const WAKE_READERS: WakeReaders = Self::KNOBS.wake_readers;
    const WAKE_UNDER_LOCK: bool = Self::KNOBS.wake_under_lock;
    const READER_SPIN: ReaderSpin = Self::KNOBS.reader_spin;
    const WRITER_SPIN_ON_READERS: bool = Self::KNOBS.writer_spin_on_readers;
    const NONSPIN: Nonspin = Self::KNOBS.nonspin;
    const NONSPIN_KEEP: Keep = Self::KNOBS.nonspin_keep;
    const ADAPTIVE_RSPIN: bool = Self::KNOBS.adaptive_rspin;
    const STEAL: Steal = Self::KNOBS.steal;
    const READER_GUARD: bool = Self::KNOBS.reader_guard;
    const HANDOFF_WRITER_SPIN: bool = Self::KNOBS.handoff_writer_spin;
    const WATCH_STOPS_ON_HANDOFF: bool = Self::KNOBS.watch_stops_on_handoff;
    const RT_NULL_OWNER: RtNullOwner = Self::KNOBS.rt_null_owner;
    const ENQUEUE_WAKE: EnqueueWake = Self::KNOBS.enqueue_wake;
    const ABORT_WAKE: AbortWake = Self::KNOBS.abort_wake;
    const OVERFLOW_GUARD: bool = Self::KNOBS.overflow_guard;
    const PAST_WRITER: bool = Self::KNOBS.past_writer;
    const TWO_PHASE_GRANT: bool = Self::KNOBS.two_phase_grant;
    const ONCPU_CHECK_ON_READERS: bool = Self::KNOBS.oncpu_check_on_readers;
    const STRICT_HANDOFF: bool = Self::KNOBS.strict_handoff;
}

/// What somebody does with a policy chosen by name: see [`visit`].
pub trait Visitor {
    /// What comes out.
    type Output;
    /// Called with the policy's type.
    fn policy<Y: Policy>(self) -> Self::Output;
}

macro_rules! policies {
    ($($policy:ident $name:literal: $base:expr, $($knob:ident = $value:expr),*;)*) => {
        $(
            #[doc = concat!("The policy `", $name, "`: see the [module text](self).")]
            #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
            pub struct $policy;

            impl Policy for $policy {
                const NAME: &'static str = $name;
                #[allow(clippy::needless_update)]
                const KNOBS: Knobs = Knobs { $($knob: $value,)* ..$base };
            }
        )*

        /// Every policy's name.
        pub const NAMES: &[&str] = &[$($name),*];

        /// Runs `visitor` with the policy called `name`. `None`: there is none.
        pub fn visit<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            match name {
                $($name => Some(visitor.policy::<$policy>()),)*
                _ => None,
            }
        }
    };
}

const MS: u64 = 1_000_000;

/// The lock of early 2019.
const OLDEST: Knobs = Knobs {
    count: CountScheme::Biased,
    handoff: Handoff::None,
    handoff_rt: HandoffRt::AfterFirstWake,
    track: Track::State,
    wake_readers: WakeReaders::HeadRun,
    wake_under_lock: true,
    reader_spin: ReaderSpin::Off,
    writer_spin_on_readers: false,
    nonspin: Nonspin::WithReader,
    nonspin_keep: Keep::Nothing,
    adaptive_rspin: false,
    steal: Steal::Off,
    reader_guard: false,
    handoff_writer_spin: false,
    watch_stops_on_handoff: false,
    rt_null_owner: RtNullOwner::Quit,
    enqueue_wake: EnqueueWake::A,
    abort_wake: AbortWake::WriterOnly,
    overflow_guard: false,
    past_writer: false,
    two_phase_grant: true,
    oncpu_check_on_readers: false,
    strict_handoff: false,
};

policies! {
    XaddBaseline "xadd-baseline": OLDEST,;
    XaddBaselineLiteral "xadd-baseline-literal": XaddBaseline::KNOBS, two_phase_grant = false;
    HandoffNone "handoff-none": XaddBaseline::KNOBS, count = CountScheme::Bits;
    Handoff4ms "handoff-4ms": HandoffNone::KNOBS,
        handoff = Handoff::After(4 * MS), enqueue_wake = EnqueueWake::B, watch_stops_on_handoff = true;
    HandoffImmediate "handoff-immediate": Handoff4ms::KNOBS, handoff = Handoff::IMMEDIATE;
    WakeAllReaders "wake-all-readers": Handoff4ms::KNOBS,
        wake_readers = WakeReaders::All, wake_under_lock = false, rt_null_owner = RtNullOwner::OneRetry;
    ReaderSpinOnWriter "reader-spin-on-writer": WakeAllReaders::KNOBS, reader_spin = ReaderSpin::On;
    TimedWriterSpin "timed-writer-spin": ReaderSpinOnWriter::KNOBS,
        writer_spin_on_readers = true, nonspin = Nonspin::Split;
    TimedWriterSpinLiteral "timed-writer-spin-literal": TimedWriterSpin::KNOBS, oncpu_check_on_readers = true;
    AdaptiveRspin "adaptive-rspin": TimedWriterSpin::KNOBS, nonspin_keep = Keep::Reader, adaptive_rspin = true;
    V5_10 "v5.10": AdaptiveRspin::KNOBS,
        handoff_writer_spin = true, watch_stops_on_handoff = false, overflow_guard = true;
    StarvationGuard "starvation-guard": V5_10::KNOBS, reader_guard = true;
    ReaderSteal "reader-steal": StarvationGuard::KNOBS, steal = Steal::IfOsqEmpty;
    ReaderStealV2 "reader-steal-v2": ReaderSteal::KNOBS, past_writer = true;
    LimitRspin "limit-rspin": ReaderSteal::KNOBS, reader_spin = ReaderSpin::Limited(1);
    NoRspin "no-rspin": ReaderSteal::KNOBS,
        reader_spin = ReaderSpin::Off, adaptive_rspin = false, steal = Steal::On,
        nonspin = Nonspin::Single, nonspin_keep = Keep::All;
    V5_16 "v5.16": NoRspin::KNOBS,
        track = Track::Flag, handoff_rt = HandoffRt::FirstAttempt, strict_handoff = true;
    TodayKernel "today-kernel": V5_16::KNOBS,
        strict_handoff = false, enqueue_wake = EnqueueWake::C, abort_wake = AbortWake::FirstAny;
}
