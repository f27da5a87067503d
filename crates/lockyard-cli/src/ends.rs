//! When the programs of processes ended: with their processes, or before exec. No other process is
//! told of an exec; so looks note what each process runs.

use std::collections::HashMap;

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard_segment::{Maker, Program, Reader};

use crate::session;

/// What processes ran, by their numbers: each program with the moment at which it was first seen
/// (ns of the monotonic clock). `None`: the process had ended.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ends(HashMap<u32, Vec<(u64, Option<Program>)>>);

impl Ends {
    /// Looks at what `process` runs now.
    pub(crate) fn look(&mut self, process: u32) -> Option<Program> {
        let goes_on = session::threads(process);
        let now = goes_on.and_then(|threads| Program::of(process).map(|now| Program { threads, ..now }));
        let seen = self.0.entry(process).or_default();
        match (seen.last_mut(), &now) {
            // The kernel has a program before it has its stack.
            (Some((_, Some(last))), Some(now)) if last.is(now) => last.stack = last.stack.max(now.stack),
            (None | Some((_, None)), None) => {}
            _ => seen.push((Linux::now(), now)),
        }
        now
    }

    /// `process` has ended by now.
    pub(crate) fn note(&mut self, process: u32) {
        let seen = self.0.entry(process).or_default();
        if !matches!(seen.last(), Some((_, None))) {
            seen.push((Linux::now(), None));
        }
    }

    /// When the program of `reader` was seen to be over, and whether its process had become another
    /// one by exec.
    pub(crate) fn of_reader(&self, reader: &Reader) -> Option<(u64, bool)> {
        self.of(reader.process(), &reader.maker(), reader.opened())
    }

    /// The same of the program that `process` ran at the moment `at`.
    pub(crate) fn of(&self, process: u32, program: &Maker, at: u64) -> Option<(u64, bool)> {
        let is_it = |seen: &Program| program.is(seen);
        let mut later = self.0.get(&process)?.iter().filter(|(seen, _)| *seen > at);
        let (end, next) = later.find(|(_, seen)| !seen.as_ref().is_some_and(is_it))?;
        Some((*end, next.is_some_and(|next| program.is_in(&next))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_over_once_its_process_runs_another() {
        let program = |began, stack| Program { began, stack, threads: 1 };
        let maker = |at, stack| Maker { at, stack };
        let (first, next) = (program(7, 4096), program(7, 8192));
        let seen = vec![(10, Some(first)), (20, Some(next)), (30, None), (40, Some(program(9, 4096)))];
        let ends = Ends(HashMap::from([(1, seen)]));
        assert_eq!(ends.of(1, &maker(8, 4096), 5), Some((20, true)));
        assert_eq!(ends.of(1, &maker(7, 8192), 15), Some((30, false)));
        // Nobody has seen it run.
        assert_eq!(ends.of(1, &maker(7, 1024), 15), Some((20, true)));
        assert_eq!(ends.of(1, &maker(8, 1024), 25), Some((30, false)));
        // Another process with the same number.
        assert_eq!((ends.of(1, &maker(9, 4096), 35), ends.of(2, &maker(7, 4096), 5)), (None, None));
    }
}
