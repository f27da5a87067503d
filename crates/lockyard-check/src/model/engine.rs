//! What a model checker must offer to carry the checking machine.

use core::fmt::Debug;

use lockyard::platform::Ordering;

/// An atomic of the engine.
pub trait Atom<V>: Sized {
    /// With this value.
    fn new(value: V) -> Self;
    /// Reads.
    fn load(&self, order: Ordering) -> V;
    /// Writes.
    fn store(&self, value: V, order: Ordering);
    /// Exchanges.
    fn swap(&self, value: V, order: Ordering) -> V;
    /// Exchanges if the value is `current`.
    ///
    /// # Errors
    /// The value found.
    fn compare_exchange(&self, current: V, new: V, success: Ordering, failure: Ordering) -> Result<V, V>;
    /// Adds.
    fn fetch_add(&self, value: V, order: Ordering) -> V;
    /// Subtracts.
    fn fetch_sub(&self, value: V, order: Ordering) -> V;
    /// Or.
    fn fetch_or(&self, value: V, order: Ordering) -> V;
    /// And.
    fn fetch_and(&self, value: V, order: Ordering) -> V;
}

/// A model checker.
///
/// Where an operation below lets others run, the active thread is active again when it returns.
/// (Atoms leave that to the words.)
pub trait Engine: Copy + Debug + Send + Sync + 'static {
    /// Whether it has atomics of its own, with orderings. If not, a word is a plain cell and every
    /// operation a place to switch.
    const MODELS_WORDS: bool;

    /// The most threads of all runs of an execution.
    const RECORDS: usize;

    /// Of 32 bits.
    type A32: Atom<u32>;
    /// Of 64 bits.
    type A64: Atom<u64>;

    /// Somebody else may run before an operation on a word that is not modelled.
    fn step();

    /// A word has changed, or a sleeper was woken: threads that can go on now may run.
    fn changed();

    /// Thread `number` can go on.
    fn wake(number: usize);

    /// The active thread cannot go on: somebody else runs. Returns once it was woken; at any time
    /// also for no reason.
    fn wait();

    /// Whether the active thread's sleep, which begins, may end for no reason. Asked on restless
    /// machines.
    fn stirs() -> bool;

    /// What follows in this execution is explored elsewhere.
    fn skip();

    /// A sequentially consistent fence.
    fn fence();

    /// The half of the asymmetric fence that costs nothing.
    fn fence_light();

    /// The other half: a sequentially consistent fence here, and one in every other thread, between
    /// two of its operations.
    fn fence_heavy();

    /// The active thread has stored something in a word of a queue node, at this address, whatever
    /// was there: the next writer must know of that.
    fn set(word: usize);

    /// The active thread writes such a word. It fails if nothing orders that after the last store,
    /// which then might undo what is written.
    fn link(word: usize);

    /// It has read what is there: if that was another thread's store, what it writes comes later.
    fn see(word: usize);

    /// Runs `act(0)` to `act(threads - 1)` at the same time: 0 on the calling thread.
    fn run(threads: usize, act: &(dyn Fn(usize) + Sync));
}
