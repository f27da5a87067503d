//! At how many threads a lock is never free any more, from averages alone.
//!
//! ```text
//! threads = time of an operation / (acquisitions per operation × (hold / units + transfers))
//! ```
//!
//! The lock of a class that the formula speaks of is its most popular one. Transfers are that of
//! the lock's word, and those of the lines that a section writes to: [`Lock::middle_lines`]. Units
//! are those of a semaphore. The time of an operation is that on the CPU and in sections that
//! sleep; where operations wait for work, that is a part of it. Readers share their hold and their
//! lines; the lock's word they do not share. Between two writes there is one hold of readers, if
//! there are as many: all of these are side by side. With several roles the parts of the time in
//! which a thread of each occupies the lock add up by share of threads.
//!
//! **What it leaves out**: other locks, waking sleepers, the order of service. It is an estimate
//! beside a simulation, and what counters can tell without one.

use crate::model::{Lock, Model};

/// The threads at which a class saturates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Saturation {
    /// The number of the class in [`Model::locks`].
    pub lock: usize,
    /// Threads; `None` if no number of them saturates it: it is private or never taken.
    pub threads: Option<f64>,
}

/// The threads at which each class of `model` saturates, the first to do so first.
///
/// `transfer_ns(threads)` is how long a cache line takes between two of so many threads. It grows
/// with them, so the formula is solved by repetition. `waits`: operations wait for work.
///
/// ```
/// use lockyard_recording::{Model, saturation::saturation};
///
/// let lock = "[lock.A]\nlines = 0\n";
/// let role = "[[role]]\ncpu = \"1.9us\"\ntakes = [{ lock = \"A\", hold = \"100ns\" }]";
/// let found = saturation(&Model::read("app.toml", &format!("{lock}{role}"))?, &|_| 100.0, false);
/// assert_eq!(found[0].threads.map(f64::round), Some(10.0));
/// # Ok::<(), lockyard_recording::Error>(())
/// ```
pub fn saturation(model: &Model, transfer_ns: &dyn Fn(f64) -> f64, waits: bool) -> Vec<Saturation> {
    let of = |(number, lock): (usize, &Lock)| Saturation {
        lock: number,
        threads: threads(model, number, lock, transfer_ns, waits),
    };
    let mut all: Vec<Saturation> = model.locks.iter().enumerate().map(of).collect();
    let order = |one: &Saturation| one.threads.unwrap_or(f64::INFINITY);
    all.sort_by(|a, b| order(a).total_cmp(&order(b)));
    all
}

fn threads(model: &Model, number: usize, lock: &Lock, transfer_ns: &dyn Fn(f64) -> f64, waits: bool) -> Option<f64> {
    const ROUNDS: usize = 50;
    let lines = f64::from(lock.middle_lines());
    if lock.private {
        return None;
    }
    let occupied = |transfer: f64| -> f64 {
        let sum: f64 = model.roles.iter().map(|role| role.threads).sum();
        let part = |role: &crate::model::Role| {
            let takes = role.takes.iter().enumerate().filter(|(_, take)| take.lock == number);
            let ns = takes.map(|(index, take)| {
                let alone = 1.0 - take.reads / 100.0;
                // What is nested in the section belongs to it.
                let nested = role.takes.iter().enumerate().filter(|(_, inner)| inner.within == Some(index));
                let nested: f64 = nested.map(|(_, inner)| inner.count * inner.section_ns()).sum();
                let section = take.section_ns() + nested;
                let beside = alone.min(1.0 - alone) * section;
                role.times(index) * (alone * (section / f64::from(lock.units) + lines * transfer) + beside + transfer)
            });
            let wait = if waits { role.wait.mean() } else { 0.0 };
            role.threads / sum * ns.sum::<f64>() / (role.lasts_ns() + wait)
        };
        model.roles.iter().map(part).sum::<f64>() * lock.hottest_share()
    };
    if occupied(1.0) <= 0.0 {
        return None;
    }
    let mut found = 1.0 / occupied(transfer_ns(1.0));
    for _ in 0..ROUNDS {
        // Half-way: a step in the transfer times must not make it jump for ever.
        found = (found + 1.0 / occupied(transfer_ns(found))) / 2.0;
    }
    Some(found.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(text: &str, transfer: f64) -> Option<f64> {
        saturation(&Model::read("a", text).unwrap(), &|_| transfer, false)[0].threads
    }

    #[test]
    fn the_formula() {
        let text = "[lock.A]\nlines = 0\nobjects = 4\n[[role]]\ncpu = \"1us\"\ntakes = [{ lock = \"A\", hold = \"50ns\", count = 2 }]";
        // 1,100 ns an operation; each of four locks is taken half a time, for 50 + 50.
        assert!((first(text, 50.0).unwrap() - 22.0).abs() < 0.1);
    }

    /// It was to saturate with as many threads as have nothing but writes.
    #[test]
    fn readers_have_the_lock_once_between_two_writes() {
        let text = |reads| {
            format!(
                "[lock.A]\nkind = \"rwlock\"\nlines = 0\n[[role]]\ncpu = \"900ns\"\n\
                 takes = [{{ lock = \"A\", hold = \"100ns\", reads = {reads} }}]"
            )
        };
        let threads = |reads: f64| first(&text(reads), 0.0).map(|threads| threads.round());
        assert_eq!([0.0, 50.0, 90.0].map(threads), [Some(10.0), Some(10.0), Some(50.0)]);
    }

    #[test]
    fn lines_move_with_the_lock() {
        let text = |lines| {
            format!(
                "[lock.A]\nlines = {lines}\n[[role]]\ncpu = \"900ns\"\ntakes = [{{ lock = \"A\", hold = \"100ns\" }}]"
            )
        };
        assert!((first(&text(2), 50.0).unwrap() - 1_000.0 / 250.0).abs() < 0.1);
    }

    #[test]
    fn readers_share_their_hold() {
        let text = |reads| {
            format!(
                "[lock.A]\nlines = 0\nkind = \"rwlock\"\n[[role]]\ncpu = \"900ns\"\ntakes = [{{ lock = \"A\", hold = \"100ns\", reads = {reads} }}]"
            )
        };
        assert!((first(&text(100), 50.0).unwrap() - 20.0).abs() < 0.1);
        assert!((first(&text(0), 50.0).unwrap() - 1_000.0 / 150.0).abs() < 0.1);
    }

    #[test]
    fn private_locks_never_saturate() {
        let text = "[lock.A]\nprivate = true\n[[role]]\ncpu = \"900ns\"\ntakes = [{ lock = \"A\", hold = \"100ns\" }]";
        assert_eq!(first(text, 50.0), None);
    }

    #[test]
    fn a_step_in_the_transfer_times_is_met() {
        let text = "[lock.A]\nlines = 0\n[[role]]\ncpu = \"1.9us\"\ntakes = [{ lock = \"A\", hold = \"100ns\" }]";
        let model = Model::read("a", text).unwrap();
        let found = saturation(&model, &|threads| if threads < 12.0 { 20.0 } else { 300.0 }, false)[0].threads.unwrap();
        assert!((5.0..17.0).contains(&found), "{found}");
    }

    /// Of units the formula knew nothing, and of sections that sleep it had the sleep, and not that
    /// the operation is longer for it.
    #[test]
    fn units_and_sleeps_are_counted() {
        let text = |units, wait| {
            format!(
                "[lock.A]\nkind = \"semaphore\"\nunits = {units}\n[[role]]\ncpu = \"3us\"\nwait = \"{wait}us\"\n\
                 takes = [{{ lock = \"A\", hold = \"100ns\", sleep = \"900ns\" }}]"
            )
        };
        let found = |units, wait, waits| {
            saturation(&Model::read("a", &text(units, wait)).unwrap(), &|_| 0.001, waits)[0].threads.map(f64::round)
        };
        assert_eq!([found(1, 0, false), found(4, 0, false)], [Some(4.0), Some(16.0)]);
        assert_eq!([found(1, 96, false), found(1, 96, true)], [Some(4.0), Some(100.0)]);
    }
}
