//! What the windows under way end in when recording stops: a thread that waits for a lock, holds
//! one or sleeps writes nothing of it.
//!
//! | a thread | its window |
//! |---|---|
//! | waits, by its own note | lasts until then, and tells for what |
//! | holds what its events say, by its notes | lasts until then |
//! | is there, and its CPU time is known | lasts until then, and tells for how long it slept |
//! | has told nothing since its window was to begin | is what its notes and its CPU time say |
//! | has ended, or its ring was full | ends with its last event |

use std::collections::BTreeMap;
use std::io::{self, Write};

use lockyard_recording::recording::{self, Mode, What, Window};
use lockyard_segment::recorder::{Noted, Standing, Told};
use lockyard_segment::{Recorder, tape};

use super::{Collector, Open, Process};
use crate::deadlock::RELEASED_BY_ALL;
use crate::output::Commit;
use crate::proc;

impl<W: Write + Commit> Collector<W> {
    /// Notes for how long the threads of the process of `recorder`, which begins to record, have
    /// run: of those that stay quiet nothing else will tell.
    pub(in crate::record) fn begin(&mut self, recorder: &Recorder) {
        let ran = |thread| Some((thread, proc::cpu_time_of_thread(recorder.process(), thread)?));
        self.processes.entry(recorder.key()).or_default().ran = recorder.names().filter_map(ran).collect();
    }

    /// Ends the windows under way of the process of `recorder`, which has paused at `at`. What
    /// comes after is not of them.
    pub(in crate::record) fn close(&mut self, recorder: &Recorder, at: u64, threads: &[Standing]) {
        let mut process = self.processes.remove(&recorder.key()).unwrap_or_default();
        let mut open: BTreeMap<usize, Open> = std::mem::take(&mut process.open).into_iter().collect();
        let waits = || threads.iter().filter_map(|thread| thread.waits);
        let longest = waits().map(|(_, since, _)| at.saturating_sub(since)).max().unwrap_or(0);
        self.waiting.insert(recorder.key(), (waits().count(), longest));
        for thread in threads {
            let same = |open: &&mut Open| thread.told == Told::Whole && open.window.thread == thread.thread;
            let ended = match open.get_mut(&thread.tape).filter(same) {
                Some(open) => {
                    self.end(&mut process, recorder, (at, thread), open);
                    Ok(())
                }
                None => self.stood(&mut process, recorder, (at, thread)),
            };
            self.failed = self.failed.take().or(ended.err());
        }
        let mut rest: Vec<Window> = open.into_values().map(|open| open.window).collect();
        rest.sort_by_key(|window| (window.begin, window.thread));
        for window in rest {
            if self.failed.is_none() {
                self.failed = self.put(&window).err();
            }
        }
        self.processes.insert(recorder.key(), process);
    }

    /// Says what the window of `thread` ends in, if that is known: that it waits, for what; what it
    /// holds; or that it has slept.
    fn end(&self, process: &mut Process, recorder: &Recorder, (at, thread): (u64, &Standing), open: &mut Open) {
        let number = |lock: u64| process.locks.get(&lock).map(|known| known.1);
        let last = open.window.events.last().map_or(open.window.begin, |last| last.at);
        let at = at.max(last);
        let waits = thread.waits.filter(|(noted, ..)| open.asked.is_some() && number(noted.lock) == open.asked);
        let held = open.held.iter().filter(|lock| waits.is_none() || open.asked != Some(**lock));
        // One of which another thread gives back what this one took has no note.
        if !held.clone().all(|lock| thread.holds.iter().any(|noted| number(noted.lock) == Some(*lock))) {
            return;
        }
        let holds = held.count() > 0;
        let pending = match (waits, open.idle) {
            (Some((noted, _, has_deadline)), _) => Some((number(noted.lock), is_firm(recorder, noted, has_deadline))),
            (None, Some(object)) if process.sleeps(recorder, thread.thread, object) => Some((Some(object), false)),
            _ => None,
        };
        if let Some((Some(lock), firm)) = pending {
            open.window.events.push(recording::Event { at, what: What::Pending { firm }, lock });
        } else if let Some(ran) =
            proc::cpu_time_of_thread(recorder.process(), thread.thread).filter(|_| thread.cpu.0 > 0)
        {
            let off = at.saturating_sub(thread.cpu.0).saturating_sub(ran.saturating_sub(thread.cpu.1)).min(at - last);
            open.window.events.push(recording::Event { at, what: What::Off(off), lock: 0 });
        } else if !holds {
            // It may have ended.
            return;
        }
        open.window.end = Some(at);
    }

    /// A thread that has told nothing since it was to be recorded: it waits for a lock, or does
    /// something else, perhaps with locks that it took before.
    fn stood(&mut self, process: &mut Process, recorder: &Recorder, (at, thread): (u64, &Standing)) -> io::Result<()> {
        let begin = thread.waits.map_or(0, |(_, since, _)| since).max(recorder.since()).min(at);
        let waits = thread.waits.map(|(noted, ..)| noted);
        let mut window = Window { thread: thread.thread, begin, end: Some(at), events: Vec::new() };
        let ran = || {
            let before = process.ran.get(&thread.thread).filter(|_| thread.told == Told::Nothing)?;
            Some(proc::cpu_time_of_thread(recorder.process(), thread.thread)?.saturating_sub(*before))
        };
        let what = match thread.waits {
            Some((noted, _, has_deadline)) => What::Pending { firm: is_firm(recorder, noted, has_deadline) },
            None => match ran() {
                Some(ran) => What::Off((at - begin).saturating_sub(ran)),
                // It has ended, or its ring was full.
                None => return Ok(()),
            },
        };
        for one in thread.holds.iter().chain(&waits) {
            let mode = if one.is_shared { Mode::Read } else { Mode::Write };
            let lock = self.lock(process, one.lock, one.class, &|class| recorder.class(class))?;
            window.events.push(recording::Event { at: begin, what: What::Request(mode), lock });
        }
        let lock = window.events.last().filter(|_| waits.is_some()).map_or(0, |event| event.lock);
        window.events.push(recording::Event { at, what, lock });
        self.put(&window)
    }
}

impl Process {
    /// Whether `thread`, which has told that it waits for this condition variable or semaphore and
    /// not that it is over, does so.
    fn sleeps(&self, recorder: &Recorder, thread: u32, object: u32) -> bool {
        const SIZE: u64 = 32;
        let Some((place, (class, _))) = self.locks.iter().find(|(_, known)| known.1 == object) else { return false };
        let is_condition = recorder.class(*class).is_some_and(|class| class.kind.as_bytes() == tape::CONDITION);
        // Of a semaphore it may have a unit.
        let word = || proc::futex_of(recorder.process(), thread);
        is_condition || word().is_some_and(|word| (*place..place.saturating_add(SIZE)).contains(&word))
    }
}

/// Whether only a release by the thread that holds it ends a wait.
fn is_firm(recorder: &Recorder, noted: Noted, has_deadline: bool) -> bool {
    let kind = recorder.class(noted.class).unwrap_or_default().kind;
    !has_deadline && !RELEASED_BY_ALL.contains(&kind.as_str())
}
