//! The names of threads. A thread gets its own at any time, as a rule when it begins.

use std::collections::BTreeMap;

use crate::proc;

/// Those of a process.
#[derive(Default)]
pub(super) struct Names {
    /// That of each thread that was seen. `None`: that of its process.
    known: BTreeMap<u32, Option<String>>,
    looks: u64,
}

impl Names {
    /// Looks at the names of those `threads` of `process` that are new; of all of them after twice
    /// as many looks as the last time.
    pub(super) fn look(&mut self, process: u32, threads: impl Iterator<Item = u32>) {
        self.looks += 1;
        let all = self.looks.is_power_of_two();
        for thread in threads {
            if !all && self.known.contains_key(&thread) {
                continue;
            }
            // What it was called lasts, once it has ended.
            if let Some(name) = proc::name_of_thread(process, thread) {
                self.known.insert(
                    thread,
                    Some(name).filter(|name| proc::name_of_thread(process, process).as_ref() != Some(name)),
                );
            }
        }
    }

    /// The threads that have one.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &str)> {
        self.known.iter().filter_map(|(thread, name)| Some((*thread, name.as_deref()?)))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_that_names_itself_later_has_that_name() {
        let process = std::process::id();
        let thread_of = || lockyard::platform::linux::threads::kernel_id_of_caller();
        let mut names = Names::default();
        let main = proc::name_of_thread(process, process).unwrap();
        thread::scope(|scope| {
            let named = thread::Builder::new().name("flusher".to_owned());
            let spawned = named.spawn_scoped(scope, || {
                names.look(process, [thread_of()].into_iter());
                assert_eq!(names.all().collect::<Vec<_>>(), [(thread_of(), "flusher")]);
                rustix::thread::set_name(c"other").unwrap();
                (0..3).for_each(|_| names.look(process, [thread_of()].into_iter()));
                assert_eq!(names.all().collect::<Vec<_>>(), [(thread_of(), "other")]);
                // That of the process says nothing.
                rustix::thread::set_name(&std::ffi::CString::new(main.as_str()).unwrap()).unwrap();
                (0..4).for_each(|_| names.look(process, [thread_of()].into_iter()));
                assert_eq!(names.all().count(), 0);
            });
            assert!(spawned.is_ok());
        });
    }
}
