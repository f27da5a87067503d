//! Taking and releasing a [lock of the simulated kernel](super::lock), access by access.

use lockyard::platform::Patience;

use super::lock::{KernelLock, Wait};
use crate::engine::Engine;
use crate::engine::host::Host;
use crate::machine::line::{KernelLine, NOBODY, Place};

impl Engine {
    /// The line with which `task` queues for locks of the kernel.
    fn node_line(&mut self, task: u32) -> u32 {
        if self.tasks[task as usize].node_line == NOBODY {
            let node = self.model.node_of[usize::from(self.core)];
            let line = self.lines.create(Place::Kernel(KernelLine::Node(task)), node);
            self.tasks[task as usize].node_line = line;
        }
        self.tasks[task as usize].node_line
    }
}

impl Host {
    /// Takes the lock that `find` finds.
    pub(super) fn lock(self, find: impl Fn(&mut Engine) -> &mut KernelLock) {
        let task = self.task();
        let line = find(self.engine()).line;
        if self.kernel_update(line, || find(self.engine()).try_take(task)) {
            return;
        }
        self.engine().tasks[task as usize].granted = false;
        let wait = self.kernel_update(line, || find(self.engine()).wait(task));
        if let Wait::Behind(other) = wait {
            self.stand_behind(other, task);
        }
        self.look_until(line, || find(self.engine()).is_for(wait));
        let next = self.kernel_update(line, || find(self.engine()).take_over(task, wait));
        if let Some(next) = next {
            let node = self.engine().node_line(next);
            self.kernel_update(node, || self.engine().tasks[next as usize].granted = true);
        }
    }

    /// Releases the lock that `find` finds.
    pub(super) fn unlock(self, find: impl Fn(&mut Engine) -> &mut KernelLock) {
        let line = find(self.engine()).line;
        self.kernel_update(line, || find(self.engine()).holder = NOBODY);
    }

    /// Links the node of `task` behind that of `other`, and spins on it until told that `task` is
    /// first.
    fn stand_behind(self, other: u32, task: u32) {
        let before = self.engine().node_line(other);
        self.kernel_update(before, || ());
        let own = self.engine().node_line(task);
        self.look_until(own, || self.engine().tasks[task as usize].granted);
    }

    /// Spins, looking at `line`.
    fn look_until(self, line: u32, done: impl Fn() -> bool) {
        loop {
            let seen = self.spin(Patience::ns(u32::MAX), || {
                self.kernel_load(line);
                done().then_some(())
            });
            if seen.is_some() {
                return;
            }
        }
    }
}
