//! A CPU's run queue.
//!
//! Real-time tasks by priority, first come first served within one; fair tasks by virtual time.
//! Ties go to the one that was queued earlier, so the order is total.

use std::collections::BTreeMap;

use super::class::{Class, Fair, FairForm};
use crate::engine::heap::Ps;

/// Tasks that wait for a CPU.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Key: 255 − priority, order of arrival.
    realtime: BTreeMap<(u64, u64), u32>,
    /// Key: virtual time, order of arrival.
    fair: BTreeMap<(u64, u64), u32>,
    arrivals: u64,
    /// The virtual clock: never runs backwards.
    pub(crate) virtual_now: Ps,
    sum: u128,
}

impl Queue {
    pub(crate) fn len(&self) -> usize {
        self.realtime.len() + self.fair.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.realtime.is_empty() && self.fair.is_empty()
    }

    /// The priority of the best real-time task; 0 if there is none.
    pub(crate) fn priority(&self) -> u8 {
        self.realtime.first_key_value().map_or(0, |(key, _)| 255 - key.0 as u8)
    }

    /// Queues a task; `front`: ahead of its equals (it was preempted). Returns the key by which it
    /// can be taken out.
    pub(crate) fn push(&mut self, task: u32, class: Class, virtual_time: Ps, front: bool) -> (u64, u64) {
        self.arrivals += 1;
        if class.is_realtime() {
            let rank = u64::from(255 - class.priority());
            let order = if front { (1 << 32) - self.arrivals } else { (1 << 32) + self.arrivals };
            self.realtime.insert((rank, order), task);
            return (rank, order);
        }
        let key = (virtual_time, self.arrivals);
        self.fair.insert(key, task);
        self.sum += u128::from(virtual_time);
        key
    }

    /// Takes out a task by its key.
    pub(crate) fn remove(&mut self, class: Class, key: (u64, u64)) {
        if class.is_realtime() {
            self.realtime.remove(&key);
        } else if self.fair.remove(&key).is_some() {
            self.sum -= u128::from(key.0);
        }
    }

    /// Whether `task` is queued under `key`.
    pub(crate) fn holds(&self, task: u32, class: Class, key: (u64, u64)) -> bool {
        let queue = if class.is_realtime() { &self.realtime } else { &self.fair };
        queue.get(&key) == Some(&task)
    }

    /// The key and the task that should run next.
    fn choose(&self, fair: &Fair) -> Option<(bool, (u64, u64))> {
        if let Some((&key, _)) = self.realtime.first_key_value() {
            return Some((true, key));
        }
        let (&first, _) = self.fair.first_key_value()?;
        match fair.form {
            FairForm::Cfs => Some((false, first)),
            // All slices are equal, so the earliest deadline among the eligible is the least
            // virtual time among them.
            FairForm::Eevdf => Some((false, first)),
        }
    }

    /// Takes out the task that should run next.
    pub(crate) fn pop(&mut self, fair: &Fair) -> Option<u32> {
        let (realtime, key) = self.choose(fair)?;
        if realtime {
            return self.realtime.remove(&key);
        }
        self.sum -= u128::from(key.0);
        self.fair.remove(&key)
    }

    /// Mean virtual time of the queued fair tasks and one more.
    pub(crate) fn mean_with(&self, virtual_time: Ps) -> Ps {
        ((self.sum + u128::from(virtual_time)) / (self.fair.len() as u128 + 1)) as Ps
    }

    /// The least virtual time among queued fair tasks.
    pub(crate) fn least(&self) -> Option<Ps> {
        self.fair.first_key_value().map(|(key, _)| key.0)
    }

    /// The greatest virtual time among queued fair tasks.
    pub(crate) fn greatest(&self) -> Option<Ps> {
        self.fair.last_key_value().map(|(key, _)| key.0)
    }

    /// Advances the virtual clock, given the running task's virtual time if it is fair.
    pub(crate) fn advance(&mut self, running: Option<Ps>) {
        let least = match (running, self.least()) {
            (Some(a), Some(b)) => a.min(b),
            (Some(a), None) | (None, Some(a)) => a,
            (None, None) => return,
        };
        self.virtual_now = self.virtual_now.max(least);
    }

    /// Queued tasks, in the order in which they would be taken by another CPU.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.realtime.values().chain(self.fair.values()).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAIR: Fair =
        Fair { form: FairForm::Cfs, latency: 24, least_slice: 3, wakeup_granularity: 4, wakeup_preemption: true };

    #[test]
    fn realtime_goes_first_by_priority_and_fair_by_virtual_time() {
        let mut queue = Queue::default();
        queue.push(1, Class::Fair, 50, false);
        queue.push(2, Class::Fair, 10, false);
        queue.push(3, Class::Fifo(5), 0, false);
        let key = queue.push(4, Class::Fifo(50), 0, false);
        queue.push(5, Class::Fifo(5), 0, true);
        assert_eq!((queue.priority(), queue.len(), queue.mean_with(30)), (50, 5, 30));
        queue.remove(Class::Fifo(50), key);
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop(&FAIR)).collect();
        assert_eq!(order, [5, 3, 2, 1]);
        assert!(queue.is_empty());
    }

    #[test]
    fn the_virtual_clock_never_runs_backwards() {
        let mut queue = Queue::default();
        queue.advance(Some(100));
        queue.push(1, Class::Fair, 40, false);
        queue.advance(Some(120));
        assert_eq!(queue.virtual_now, 100);
    }

    #[test]
    fn slices_shrink_to_the_least() {
        assert_eq!([1, 4, 100].map(|n| FAIR.slice(n)), [24, 6, 3]);
    }
}
