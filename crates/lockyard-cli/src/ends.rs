//! When the programs of processes ended: with their processes, or before exec. No other process is
//! told of an exec; so looks note what each process runs.

use std::collections::HashMap;

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard_segment::{Program, Reader};

/// What processes ran, by their numbers: each program with the moment at which it was first seen
/// (ns of the monotonic clock). `None`: the process had ended.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ends(HashMap<u32, Vec<(u64, Option<Program>)>>);

impl Ends {
    /// Looks at what `process` runs now.
    pub(crate) fn look(&mut self, process: u32) -> Option<Program> {
        let (seen, now) = (self.0.entry(process).or_default(), Program::of(process));
        match (seen.last_mut(), &now) {
            // The kernel has a program before it has its stack.
            (Some((_, Some(last))), Some(now)) if last.is(now) => last.stack = last.stack.max(now.stack),
            (None | Some((_, None)), None) => {}
            _ => seen.push((Linux::now(), now)),
        }
        now
    }

    /// When the program of `reader` was seen to be over, and whether its process had become another
    /// one by exec.
    pub(crate) fn of_reader(&self, reader: &Reader) -> Option<(u64, bool)> {
        self.of(reader.process(), &reader.program(), reader.opened())
    }

    /// The same of `program`, which `process` ran at the moment `at`.
    pub(crate) fn of(&self, process: u32, program: &Program, at: u64) -> Option<(u64, bool)> {
        let is_it = |seen: &Program| seen.is(program);
        let mut later = self.0.get(&process)?.iter().filter(|(seen, _)| *seen > at);
        let (end, next) = later.find(|(_, seen)| !seen.as_ref().is_some_and(is_it))?;
        Some((*end, next.is_some_and(|next| next.began == program.began)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_over_once_its_process_runs_another() {
        let program = |began, stack| Program { began, stack, threads: 1 };
        let (first, next) = (program(7, 4096), program(7, 8192));
        let seen = vec![(10, Some(first)), (20, Some(next)), (30, None), (40, Some(program(9, 4096)))];
        let ends = Ends(HashMap::from([(1, seen)]));
        assert_eq!(ends.of(1, &first, 5), Some((20, true)));
        assert_eq!(ends.of(1, &next, 15), Some((30, false)));
        // Nobody has seen it run.
        assert_eq!(ends.of(1, &program(7, 1024), 15), Some((20, true)));
        assert_eq!(ends.of(1, &program(8, 1024), 25), Some((30, false)));
        // Another process with the same number.
        assert_eq!((ends.of(1, &program(9, 4096), 35), ends.of(2, &first, 5)), (None, None));
    }
}
