//! Sleeping on a word.
//!
//! As the kernel does it: words hash to buckets, each with a spinlock and a list of sleepers.
//! Sleeping locks the bucket, compares the word, joins the list, unlocks and blocks; waking locks
//! the bucket, takes a sleeper out, unlocks and wakes it. A bucket's lock is a queued one of the
//! simulated kernel ([`lock`](super::lock)). Costs: `futex_wait_entry` for going to sleep,
//! `futex_wake_none` for a wake-up that finds nobody, `futex_wake_call` in all for one that wakes,
//! of which `wake_waker_side` is the scheduler's part: half before the target learns of it and half
//! after, with a transfer of the target's run-queue line in between. For real-time tasks there is
//! more that all CPUs share: [`super::realtime`].
//!
//! **Not built on `lockyard::futex_hash`**, whose sleepers sleep by this very futex: see "The
//! simulator's futex" in `docs/design/simulator.md`.
//!
//! Locks that are simulated as part of the kernel ([`Config::in_kernel`](crate::Config)) block and
//! wake without any of that: only the scheduler's part remains.

use std::collections::VecDeque;

use crate::engine::Engine;
use crate::engine::heap::Ps;
use crate::engine::host::Host;
use crate::faults::Fault;
use crate::machine::line::{KernelLine, Place};

use super::buckets::Bucket;
use super::lock::KernelLock;

impl Engine {
    fn bucket(&mut self, key: u64) -> u32 {
        let hash = ((key >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24 & self.futexes.mask) as u32;
        if let Some(&number) = self.futexes.numbers.get(&hash) {
            return number;
        }
        let node = self.model.node_of[usize::from(self.core)];
        let line = self.lines.create(Place::Kernel(KernelLine::Bucket(hash)), node);
        let number = self.futexes.buckets.len() as u32;
        self.futexes.buckets.push(Bucket { lock: KernelLock::new(line), sleepers: VecDeque::new() });
        self.futexes.numbers.insert(hash, number);
        number
    }

    fn bucket_at(&mut self, number: u32) -> &mut Bucket {
        &mut self.futexes.buckets[number as usize]
    }

    /// Takes the first sleeper of the word with `key` out of its bucket.
    fn take_sleeper(&mut self, number: u32, key: u64) -> Option<u32> {
        let sleepers = &self.futexes.buckets[number as usize].sleepers;
        let mut index = sleepers.iter().position(|sleeper| sleeper.0 == key)?;
        if self.faults.active {
            let here: Vec<usize> = (0..sleepers.len()).filter(|&place| sleepers[place].0 == key).collect();
            if let Some(other) = self.faults.wake_order(here.len()) {
                index = here[other];
                self.faults.note(self.now, self.current, Fault::WakeOrder);
            }
        }
        let (_, task) = self.bucket_at(number).sleepers.remove(index)?;
        self.tasks[task as usize].bucket = None;
        Some(task)
    }

    /// `task` sleeps in no bucket any more.
    pub(crate) fn leave_bucket(&mut self, task: u32) {
        if let Some(number) = self.tasks[task as usize].bucket.take() {
            self.bucket_at(number).sleepers.retain(|&(_, sleeper)| sleeper != task);
        }
    }

    /// The word on which `task` sleeps, for messages.
    pub(crate) fn sleeps_on(&self, task: u32) -> Option<u64> {
        let number = self.tasks[task as usize].bucket?;
        let sleepers = &self.futexes.buckets[number as usize].sleepers;
        sleepers.iter().find(|sleeper| sleeper.1 == task).map(|sleeper| sleeper.0)
    }
}

impl Host {
    fn lock_bucket(self, number: u32) {
        self.lock(|engine| &mut engine.bucket_at(number).lock);
    }

    fn unlock_bucket(self, number: u32) {
        self.unlock(|engine| &mut engine.bucket_at(number).lock);
    }

    /// Sleeps while `read()`, a load of the word at `address`, yields `expected`, until woken or
    /// until `deadline` (ns).
    pub(crate) fn park(self, address: usize, expected: u32, deadline: Option<u64>, read: impl Fn() -> u32) {
        if self.engine().in_kernel {
            return self.park_in_kernel(address, expected, deadline, read);
        }
        self.enter_kernel();
        let entry = self.engine().model.os.futex_wait_entry;
        let task = self.task();
        self.engine().tasks[task as usize].woken = false;
        self.pass(entry / 2);
        let key = self.engine().key(address);
        let number = self.engine().bucket(key);
        self.lock_bucket(number);
        if read() != expected {
            self.unlock_bucket(number);
            return self.leave_kernel();
        }
        self.engine().bucket_at(number).sleepers.push_back((key, task));
        self.engine().tasks[task as usize].bucket = Some(number);
        self.unlock_bucket(number);
        self.fall_asleep(deadline, entry - entry / 2);
    }

    /// The end of going to sleep.
    fn fall_asleep(self, deadline: Option<u64>, cost: Ps) {
        let task = self.task();
        if let Some(deadline) = deadline {
            let engine = self.engine();
            engine.tasks[task as usize].deadline = Some(deadline);
            engine.arm_timer(task, engine.when(deadline));
        }
        if let Some(delay) = self.engine().faults.spurious_wake() {
            let engine = self.engine();
            engine.faults.note(engine.now, task, Fault::SpuriousWake);
            engine.arm_timer(task, engine.now + delay);
        }
        self.pass(cost);
        if self.engine().tasks[task as usize].class.is_realtime() {
            self.leaves_realtime();
        }
        self.block();
        self.engine().tasks[task as usize].deadline = None;
        self.engine().leave_bucket(task);
        self.leave_kernel();
    }

    /// As [`Host::park`] for code that is itself part of the kernel: no system call, no bucket. It
    /// says that it sleeps, looks again, and blocks.
    fn park_in_kernel(self, address: usize, expected: u32, deadline: Option<u64>, read: impl Fn() -> u32) {
        self.enter_kernel();
        let task = self.task();
        self.engine().tasks[task as usize].woken = false;
        let key = self.engine().key(address);
        let number = self.engine().bucket(key);
        self.engine().bucket_at(number).sleepers.push_back((key, task));
        self.engine().tasks[task as usize].bucket = Some(number);
        if read() != expected {
            self.engine().leave_bucket(task);
            return self.leave_kernel();
        }
        self.fall_asleep(deadline, 0);
    }

    /// Wakes one sleeper of the word at `address`.
    pub(crate) fn unpark(self, address: usize) {
        self.unpark_some(address, 1);
    }

    /// Wakes sleepers of the word at `address`, so many at most, by one call.
    pub(crate) fn unpark_some(self, address: usize, most: u32) {
        self.enter_kernel();
        let (none, all, waker) = {
            let os = &self.engine().model.os;
            (os.futex_wake_none, os.futex_wake_call, os.wake_waker_side)
        };
        let key = self.engine().key(address);
        let number = self.engine().bucket(key);
        if self.engine().in_kernel {
            for _ in 0..most {
                let Some(task) = self.engine().take_sleeper(number, key) else { break };
                self.rouse(task);
            }
            return self.leave_kernel();
        }
        self.pass(none);
        let line = self.engine().bucket_at(number).lock.line;
        self.kernel_load(line);
        let bucket = self.engine().bucket_at(number);
        if bucket.sleepers.is_empty() && !bucket.lock.is_held() {
            return self.leave_kernel();
        }
        self.lock_bucket(number);
        let found: Vec<u32> = (0..most).map_while(|_| self.engine().take_sleeper(number, key)).collect();
        self.unlock_bucket(number);
        if !found.is_empty() {
            self.pass(all.saturating_sub(none + waker));
        }
        for task in found {
            self.rouse(task);
        }
        self.leave_kernel();
    }

    /// The scheduler's part of waking `task`.
    fn rouse(self, task: u32) {
        let waker = self.engine().model.os.wake_waker_side;
        let engine = self.engine();
        let queue = engine.cpus[engine.tasks[task as usize].cpu as usize].rq_line;
        self.kernel_update(queue, || ());
        self.enters_realtime(task);
        let away = self.engine().moves(task);
        self.pass(waker / 2 + away);
        let engine = self.engine();
        let here = engine.here;
        let interrupt = if engine.wake(task, here) { engine.model.ipi_send } else { 0 };
        self.pass(waker - waker / 2 + interrupt);
    }
}
