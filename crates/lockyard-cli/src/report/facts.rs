//! What a report on a program's locks is made of, and how people know the parts of it.

use std::time::Duration;

use lockyard_segment::Sample;
use lockyard_segment::layout::CLASSES;
use lockyard_segment::sample::{CallerSample, ClassSample, Place, ThreadSample};

use super::numbers;
use crate::deadlock;
use crate::known::Known;
use crate::symbols::Symbols;
use crate::terminal::visible;

/// A share of the threads' time that is not worth a change.
pub(super) const SMALL: f64 = 0.01;
/// A wait that somebody notices, in nanoseconds.
pub(super) const LONG: u64 = 10_000_000;

/// Locks that came when all classes were taken.
const BEYOND: &str = "locks beyond the 255 classes";
const _: () = assert!(CLASSES == 256);

/// What a report is made of.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    /// What was counted.
    pub(crate) sample: &'a Sample,
    /// The time of all threads together.
    pub(crate) thread_time: Duration,
    /// CPUs that the program may use.
    pub(crate) cpus: usize,
    /// Whether it has ended.
    pub(crate) ended: bool,
    /// What places are called.
    pub(crate) symbols: &'a Symbols,
    /// What is known of the process beside its locks.
    pub(crate) known: &'a Known,
}

impl Facts<'_> {
    /// The share of the threads' time that `ns` is.
    pub(crate) fn share(&self, ns: u64) -> f64 {
        let whole = self.thread_time.as_nanos().max(u128::from(self.sample.lost_ns())).max(1);
        ns as f64 / whole as f64
    }

    /// How long its threads were on CPUs, all together, in seconds. `None`: not known.
    pub(super) fn busy_seconds(&self) -> Option<f64> {
        let (cpu, all) = (self.known.cpu_time.as_secs_f64(), self.known.thread_time.as_secs_f64());
        (cpu > 0.0 && all > 0.0).then(|| self.thread_time.as_secs_f64() * (cpu / all).min(1.0))
    }

    /// The class as people know it: of several that are called alike all but the first are
    /// numbered.
    pub(crate) fn label(&self, class: &ClassSample) -> String {
        let label = self.unnumbered(class);
        let place = |class: &ClassSample| Place { file: class.name.clone(), place: class.site };
        let key = |class: &ClassSample| (class.kind.clone(), class.name.clone(), class.site);
        let (own, at) = (key(class), place(class));
        let alike = |other: &&ClassSample| {
            let may_be = class.kind == other.kind && self.symbols.are_in_line(&at, &place(other));
            may_be && self.unnumbered(other) == label
        };
        match self.sample.classes.iter().filter(alike).position(|other| key(other) == own) {
            None | Some(0) => label,
            Some(before) => format!("{label} #{}", before + 1),
        }
    }

    fn unnumbered(&self, class: &ClassSample) -> String {
        let kind = match class.kind.as_str() {
            "" if self.sample.classes.len() >= CLASSES => BEYOND,
            "" => "other locks",
            kind => kind,
        };
        let label = self.named(kind, class);
        // A tab in a name would shift the columns behind it.
        if label.contains(char::is_control) { label.replace(char::is_control, " ") } else { label }
    }

    fn named(&self, kind: &str, class: &ClassSample) -> String {
        match (class.site, class.name.as_str()) {
            (0, "") => kind.to_owned(),
            (0, name) => format!("{kind} {name}"),
            (place, file) if file.starts_with('/') || file.is_empty() => {
                let place = Place { file: file.to_owned(), place };
                format!("{kind} of {}", self.symbols.line(&place))
            }
            (place, name) => {
                let at = Place { file: name.to_owned(), place };
                match self.symbols.call(&at) {
                    Some(_) => format!("{kind} of {}", self.symbols.line(&at)),
                    None => format!("{kind} {name} of {place:#x}"),
                }
            }
        }
    }
}

/// A share as people read it.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", numbers::three(share * 100.0))
}

/// A thread as people know it.
pub(crate) fn called(thread: u32, name: &str) -> String {
    if name.is_empty() { format!("thread {thread}") } else { format!("thread {thread} \"{}\"", visible(name)) }
}

/// The callers that waited most, first.
pub(super) fn askers(class: &ClassSample) -> Vec<&CallerSample> {
    let mut askers: Vec<_> = class.callers.iter().filter(|caller| caller.wait_ns > 0).collect();
    askers.sort_by_key(|caller| std::cmp::Reverse(caller.wait_ns));
    askers
}

/// The callers for which others waited most, first.
pub(super) fn holders(class: &ClassSample) -> Vec<&CallerSample> {
    let mut holders: Vec<_> = class.callers.iter().filter(|caller| caller.hold_ns > 0).collect();
    holders.sort_by_key(|caller| std::cmp::Reverse(caller.hold_ns));
    holders
}

/// How long readers waited.
pub(super) fn readers_wait(class: &ClassSample) -> u64 {
    class.callers.iter().filter(|caller| caller.shared).map(|caller| caller.wait_ns).sum()
}

/// Whether most of the waiting is that of readers: they wait for writers.
pub(super) fn is_of_readers(class: &ClassSample) -> bool {
    readers_wait(class).saturating_mul(2) > class.counts.wait_ns
}

/// The [holders] to name. Those of readers overlap, so that their times say little beside a
/// writer's: where most of the waiting is that of readers, these are the writers, if one is known
/// that had the lock for long enough. Else the readers waited behind a writer that waited itself.
pub(super) fn blamed<'a>(facts: &Facts<'_>, class: &'a ClassSample) -> Vec<&'a CallerSample> {
    let holders = holders(class);
    // No more wait at a time than there are threads, and each a little longer than the hold lasts.
    let waits = 2 * u64::from(facts.sample.threads.max(facts.sample.started));
    let written: u64 = holders.iter().filter(|holder| !holder.shared).map(|holder| holder.hold_ns).sum();
    let by_writers = written > 0 && written.saturating_mul(waits) >= readers_wait(class);
    holders.into_iter().filter(|holder| !(by_writers && holder.shared && is_of_readers(class))).collect()
}

/// The thread that still holds what threads have waited for longest, and where it took it.
pub(super) fn standing<'a>(facts: &'a Facts<'_>, class: &ClassSample) -> Option<(&'a ThreadSample, String)> {
    let of_class = |thread: &&ThreadSample| {
        let wait = thread.waits.as_ref();
        let of = wait.and_then(|wait| facts.sample.classes.get(wait.class));
        of.is_some_and(|of| std::ptr::eq(of, class))
    };
    let waiters = facts.sample.waiters.iter().filter(of_class);
    let (waiter, wait) =
        waiters.filter_map(|thread| Some((thread, thread.waits.as_ref()?))).max_by_key(|(_, wait)| wait.ns)?;
    let threads = &facts.sample.waiters;
    let holder = *deadlock::holders(threads, waiter, wait).first()?;
    Some((&threads[holder.thread], facts.symbols.line(&holder.hold?.place)))
}

#[cfg(test)]
mod tests {
    use lockyard_segment::sample::{Counts, Hold, Wait};

    use super::*;

    #[test]
    fn labels_have_one_line_without_tabs_and_say_when_classes_have_run_out() {
        let class = |kind: &str, name: &str| ClassSample {
            kind: kind.to_owned(),
            name: name.to_owned(),
            ..ClassSample::default()
        };
        let label = |classes: Vec<ClassSample>| {
            let sample = Sample { classes, ..Sample::default() };
            let (symbols, known) = (&Symbols::default(), &Known::default());
            Facts { sample: &sample, thread_time: Duration::ZERO, cpus: 2, ended: true, symbols, known }
                .label(&sample.classes[0])
        };
        assert_eq!(label(vec![class("Mutex", "a\tb\nc")]), "Mutex a b c");
        assert_eq!(label(vec![class("", "")]), "other locks");
        assert_eq!(label(vec![class("", ""); CLASSES]), "locks beyond the 255 classes");
    }

    /// Two rows of a table had one name.
    #[test]
    fn classes_that_are_called_alike_are_numbered() {
        // Two places in one function of this program, which has no lines or is in one of them.
        let name = std::env::current_exe().unwrap().to_string_lossy().into_owned();
        let (symbols, known) = (&Symbols::default(), &Known::default());
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let base = maps.lines().find(|line| line.ends_with(&name)).unwrap();
        let base = usize::from_str_radix(base.split('-').next().unwrap(), 16).unwrap();
        let site = (percent as fn(f64) -> String as usize - base) as u64;
        let class = |site, kind: &str| ClassSample {
            kind: kind.to_owned(),
            name: name.clone(),
            site,
            ..ClassSample::default()
        };
        let classes = vec![class(site + 1, "mutex"), class(site + 1, "rwlock"), class(site + 2, "mutex")];
        let sample = Sample { classes, ..Sample::default() };
        let facts = Facts { sample: &sample, thread_time: Duration::ZERO, cpus: 2, ended: true, symbols, known };
        let labels: Vec<String> = sample.classes.iter().map(|class| facts.label(class)).collect();
        assert!(labels[0].starts_with("mutex of ") && labels[2] == format!("{} #2", labels[0]), "{labels:?}");
        assert!(labels[1].starts_with("rwlock of ") && !labels[1].contains('#'), "{labels:?}");
    }

    /// They went to the terminal as they were, in the middle of the first sentence.
    #[test]
    fn names_of_threads_have_one_line_and_no_colour() {
        assert_eq!(called(7, "a\u{1b}[31mb\nc"), "thread 7 \"a\\u{1b}[31mb\\nc\"");
        assert_eq!((called(7, "flusher"), called(7, "")), ("thread 7 \"flusher\"".to_owned(), "thread 7".to_owned()));
    }

    /// Readers beside each other were said to hold what readers wait for.
    #[test]
    fn readers_that_wait_do_so_for_writers() {
        let caller = |shared, wait_ns, hold_ns| CallerSample { shared, wait_ns, hold_ns, ..CallerSample::default() };
        let blame = |callers: Vec<CallerSample>| {
            let wait_ns = callers.iter().map(|caller| caller.wait_ns).sum();
            let class =
                ClassSample { callers, counts: Counts { wait_ns, ..Counts::default() }, ..ClassSample::default() };
            let sample = Sample { threads: 2, ..Sample::default() };
            let (symbols, known) = (&Symbols::default(), &Known::default());
            let facts = Facts { sample: &sample, thread_time: Duration::ZERO, cpus: 2, ended: true, symbols, known };
            blamed(&facts, &class).into_iter().map(|caller| caller.hold_ns).collect::<Vec<_>>()
        };
        assert_eq!(blame(vec![caller(true, 90, 700), caller(false, 10, 300)]), [300]);
        assert_eq!(blame(vec![caller(true, 10, 700), caller(false, 90, 300)]), [700, 300]);
        assert_eq!(blame(vec![caller(true, 90, 700), caller(false, 10, 0)]), [700]);
    }

    /// The thread was named whose lock another one had released.
    #[test]
    fn the_thread_is_named_of_which_the_waiter_was_told() {
        let holds = |thread| ThreadSample {
            process: 1,
            thread,
            holds: vec![Hold { lock: 8, place: Place::default(), shared: false, ns: 0 }],
            ..ThreadSample::default()
        };
        let wait =
            Wait { lock: 8, class: 0, place: Place::default(), since: 1, ns: LONG, holder: 3, has_deadline: false };
        let waiter = ThreadSample { process: 1, thread: 1, waits: Some(wait), ..ThreadSample::default() };
        let waiters = vec![waiter, holds(2), holds(3)];
        let sample = Sample { classes: vec![ClassSample::default()], waiters, ..Sample::default() };
        let (symbols, known) = (&Symbols::default(), &Known::default());
        let facts = Facts { sample: &sample, thread_time: Duration::ZERO, cpus: 2, ended: true, symbols, known };
        assert_eq!(standing(&facts, &sample.classes[0]).map(|(thread, _)| thread.thread), Some(3));
    }
}
