//! Rings into windows, addresses into numbers of locks.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard_recording::model::Kind;
use lockyard_recording::recording::{self, Class, Mode, Sort, What, Window, Writer};
use lockyard_segment::Recorder;
use lockyard_segment::recorder::RecordedClass;
use lockyard_segment::sample::Place;
use lockyard_segment::tape;

use crate::output::Commit;
use crate::symbols::Symbols;

mod names;
mod rest;

/// A window of so many events ends where its thread holds nothing.
const LONG: usize = 4_096;
/// One of so many ends in any case.
const LONGEST: usize = 65_536;

/// A window that is so old ends as well, ns: what it has is in the file, should the recorder be
/// killed.
const OLD: u64 = 500_000_000;

/// So many addresses of a process are known at once, whatever it tells: after them, a lock that is
/// taken again is another one.
const MOST_LOCKS: usize = 1 << 20;

/// Makes a recording of what recorders read.
pub(super) struct Collector<W: Write> {
    writer: Writer<W>,
    /// The classes of the file, by their numbers.
    classes: Vec<RecordedClass>,
    /// By the keys of their recorders.
    processes: HashMap<u64, Process>,
    events: u64,
    windows: u64,
    threads: BTreeSet<u32>,
    /// How many threads of each process waited for a lock when it paused last, and the longest.
    waiting: HashMap<u64, (usize, u64)>,
    /// Whether something old was written, that is to be in the file.
    is_to_flush: bool,
    failed: Option<io::Error>,
}

/// What became of it.
pub(super) struct Summary {
    pub(super) events: u64,
    pub(super) windows: u64,
    pub(super) threads: usize,
    /// Threads that waited for a lock at its end, and for how long the longest, ns.
    pub(super) waiting: Option<(usize, u64)>,
    pub(super) failed: Option<io::Error>,
}

#[derive(Default)]
struct Process {
    /// The file's number of each class.
    classes: HashMap<usize, u32>,
    /// Of each address the class of the lock that is there, and the file's number of it.
    locks: HashMap<u64, (usize, u32)>,
    /// The window under way on each tape.
    open: HashMap<usize, Open>,
    /// The CPU time that each thread had when recording began, ns.
    ran: HashMap<u32, u64>,
    names: names::Names,
}

/// A window under way.
struct Open {
    window: Window,
    /// Locks that the thread holds or waits for.
    held: Vec<u32>,
    /// The last of them, if it may wait for that.
    asked: Option<u32>,
    /// The condition variable or semaphore that the thread may wait for.
    idle: Option<u32>,
}

impl<W: Write + Commit> Collector<W> {
    pub(super) fn new(out: W, program: &str, machine: &str, event_ns: u64) -> io::Result<Self> {
        Ok(Self {
            writer: Writer::new(out, program, machine, event_ns)?,
            classes: Vec::new(),
            processes: HashMap::new(),
            events: 0,
            windows: 0,
            threads: BTreeSet::new(),
            waiting: HashMap::new(),
            is_to_flush: false,
            failed: None,
        })
    }

    /// Whether no lock was seen so far.
    pub(super) fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Reads what `recorder` has.
    pub(super) fn read(&mut self, recorder: &Recorder) {
        let mut process = self.processes.remove(&recorder.key()).unwrap_or_default();
        recorder.drain(|tape, event| {
            if self.failed.is_some() {
                return;
            }
            let taken = match event {
                Some(event) => self.take(&mut process, tape, event, &|class| recorder.class(class)),
                // What comes next is of a window whose beginning is not known.
                None => process.open.remove(&tape).map_or(Ok(()), |open| self.put(&open.window)),
            };
            self.failed = taken.err();
        });
        if self.failed.is_none() {
            self.failed = self.put_old(&mut process).err();
        }
        process.names.look(recorder.process(), process.open.values().map(|open| open.window.thread));
        self.processes.insert(recorder.key(), process);
    }

    fn take(
        &mut self,
        process: &mut Process,
        tape: usize,
        event: tape::Event,
        class: &dyn Fn(usize) -> Option<RecordedClass>,
    ) -> io::Result<()> {
        if event.kind == tape::Kind::Window {
            let window = Window { thread: event.value as u32, begin: event.at, end: None, events: Vec::new() };
            let before = process.open.insert(tape, Open { window, held: Vec::new(), asked: None, idle: None });
            return before.map_or(Ok(()), |before| self.put(&before.window));
        }
        let is_end = matches!(event.kind, tape::Kind::Woken | tape::Kind::GaveUp);
        let awaited = process.open.get(&tape).and_then(|open| open.idle).filter(|_| is_end);
        let (what, lock) = match event.kind {
            tape::Kind::Off => (What::Off(event.value), 0),
            tape::Kind::Preempted => (What::Preempted(event.value), 0),
            tape::Kind::Release => match process.locks.get(&event.value) {
                Some(&(_, lock)) => (What::Release, lock),
                // Taken before anything was recorded.
                None => return Ok(()),
            },
            // What it waited for may be gone by then.
            kind => (
                asked(kind),
                match awaited {
                    Some(lock) => lock,
                    None => self.lock(process, event.value, event.class, class)?,
                },
            ),
        };
        // Events of a thread that has no window: the ring's beginning was lost.
        let Some(open) = process.open.get_mut(&tape) else { return Ok(()) };
        let end = open.window.events.last().map_or(open.window.begin, |last| last.at);
        open.window.events.push(recording::Event { at: event.at.max(end), what, lock });
        open.note(what, lock);
        let events = open.window.events.len();
        // A wait is in one window, so that its time is known to be one.
        let (is_rest, longest) =
            if open.idle.is_some() { (false, 2 * LONGEST) } else { (open.held.is_empty(), LONGEST) };
        let is_end = matches!(what, What::Release | What::Woken | What::Signal | What::Broadcast);
        if events >= LONG && is_rest && is_end || events >= longest {
            let next = Window { thread: open.window.thread, begin: event.at.max(end), end: None, events: Vec::new() };
            let whole = std::mem::replace(&mut open.window, next);
            self.put(&whole)?;
        }
        Ok(())
    }

    /// The file's number of the lock at `address`. One that lies where another did is another.
    fn lock(
        &mut self,
        process: &mut Process,
        address: u64,
        class: usize,
        named: &dyn Fn(usize) -> Option<RecordedClass>,
    ) -> io::Result<u32> {
        let known = process.locks.get(&address).copied();
        if let Some((known, lock)) = known
            && (known == class || known == 0 || class == 0)
        {
            // Without a class: taken by a call that does not tell where it is.
            return Ok(lock);
        }
        // That of code that only passes locks on is over for a lock that has had another: a thread
        // that asked before is read after one that has asked since.
        if let Some((_, lock)) = known
            && named(class).is_some_and(|class| class.passes)
        {
            return Ok(lock);
        }
        let number = match process.classes.get(&class) {
            Some(&number) => number,
            None => {
                let found = RecordedClass { passes: false, ..named(class).unwrap_or_default() };
                let number = match self.classes.iter().position(|known| *known == found) {
                    Some(number) => number as u32,
                    None => {
                        let name = name(&found, None);
                        self.classes.push(found);
                        let found = &self.classes[self.classes.len() - 1];
                        self.writer.class(&Class { name, sort: sort(&found.kind) })?
                    }
                };
                process.classes.insert(class, number);
                number
            }
        };
        if process.locks.len() >= MOST_LOCKS {
            process.locks.clear();
        }
        // One that had the class of code that only passes locks on is the same.
        let same = known.filter(|&(known, _)| named(known).is_some_and(|known| known.passes));
        let lock = match same {
            Some((_, lock)) => {
                self.writer.moves(lock, number)?;
                lock
            }
            None => self.writer.lock(number),
        };
        process.locks.insert(address, (class, lock));
        Ok(lock)
    }

    /// Ends windows that are old, where their threads hold nothing and wait for nothing.
    fn put_old(&mut self, process: &mut Process) -> io::Result<()> {
        let now = Linux::now();
        for open in process.open.values_mut() {
            let Some(last) = open.window.events.last() else { continue };
            let is_end = matches!(last.what, What::Release | What::Woken | What::Signal | What::Broadcast);
            let is_old = now.saturating_sub(open.window.begin) > OLD;
            if is_old && is_end && open.held.is_empty() && open.idle.is_none() {
                let next = Window { thread: open.window.thread, begin: last.at, end: None, events: Vec::new() };
                let whole = std::mem::replace(&mut open.window, next);
                self.put(&whole)?;
                self.is_to_flush = true;
            }
        }
        if std::mem::take(&mut self.is_to_flush) { self.writer.flush() } else { Ok(()) }
    }

    fn put(&mut self, window: &Window) -> io::Result<()> {
        if window.events.is_empty() {
            return Ok(());
        }
        self.events += window.events.len() as u64;
        self.windows += 1;
        self.threads.insert(window.thread);
        self.writer.window(window)
    }

    /// Ends the file, in which places have the names that `symbols` knows; `cut` windows ended
    /// early, and threads were left out.
    pub(super) fn finish(self, cut: u64, unrecorded: u32, symbols: &Symbols) -> Summary {
        let waiting = self.waiting.values().copied().filter(|(threads, _)| *threads > 0);
        let waiting = waiting.reduce(|sum, one| (sum.0 + one.0, sum.1.max(one.1)));
        let (mut writer, mut failed) = (self.writer, self.failed);
        for (number, class) in self.classes.iter().enumerate() {
            if failed.is_none() {
                failed = writer.name(number as u32, &name(class, Some(symbols))).err();
            }
        }
        for (thread, name) in self.processes.values().flat_map(|process| process.names.all()) {
            if failed.is_none() {
                failed = writer.thread(thread, name).err();
            }
        }
        if failed.is_none() {
            failed = writer.missing(unrecorded.into()).err();
        }
        if failed.is_none() {
            failed = writer.end(cut).err();
        }
        let kept = writer.into_inner().commit().err();
        Summary {
            events: self.events,
            windows: self.windows,
            threads: self.threads.len(),
            waiting,
            failed: failed.or(kept),
        }
    }
}

impl Open {
    /// Keeps count of what the thread holds, and what it waits for.
    fn note(&mut self, what: What, lock: u32) {
        match what {
            What::Request(_) => self.held.push(lock),
            What::GaveUp if self.idle == Some(lock) => {}
            What::GaveUp | What::Release => {
                if let Some(place) = self.held.iter().rposition(|held| *held == lock) {
                    self.held.remove(place);
                }
            }
            _ => {}
        }
        match what {
            What::Request(_) => self.asked = Some(lock),
            What::Off(_) | What::Preempted(_) => {}
            _ => self.asked = None,
        }
        match what {
            What::Wait => self.idle = Some(lock),
            // Its mutex, while it waits at a condition variable.
            What::Release | What::Off(_) | What::Preempted(_) => {}
            _ => self.idle = None,
        }
    }
}

fn asked(kind: tape::Kind) -> What {
    match kind {
        tape::Kind::AskRead => What::Request(Mode::Read),
        tape::Kind::AskWrite => What::Request(Mode::Write),
        tape::Kind::FailRead => What::Failed(Mode::Read),
        tape::Kind::FailWrite => What::Failed(Mode::Write),
        tape::Kind::GaveUp => What::GaveUp,
        tape::Kind::Wait => What::Wait,
        tape::Kind::Woken => What::Woken,
        tape::Kind::Signal => What::Signal,
        tape::Kind::Broadcast => What::Broadcast,
        _ => What::Grant,
    }
}

/// What an object whose class is of the kind `name`, of whatever library of ours, is to a
/// recording.
fn sort(name: &str) -> Sort {
    let name = name.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    match () {
        () if name.as_bytes() == tape::CONDITION => Sort::Condition,
        () if name.as_bytes() == tape::SEMAPHORE => Sort::Semaphore,
        () if has(&["rwlock", "rwsem", "read_mostly", "readmostly"]) => Sort::Lock(Kind::RwLock),
        () if has(&["spin", "mcs", "ticket", "ttas"]) || name == "hq" => Sort::Lock(Kind::Spin),
        () => Sort::Lock(Kind::Mutex),
    }
}

/// The class as people know it.
fn name(class: &RecordedClass, symbols: Option<&Symbols>) -> String {
    match (class.site, class.name.as_str(), symbols) {
        (0, "", _) if class.kind.is_empty() => "other locks".to_owned(),
        (0, "", _) => class.kind.clone(),
        (0, name, _) => name.to_owned(),
        (place, file, Some(symbols)) => symbols.line(&Place { file: file.to_owned(), place }),
        (place, file, None) => format!("{file}+{place:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is full at once; whether what it took was shown.
    struct Full(std::rc::Rc<std::cell::Cell<bool>>);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::StorageFull.into())
        }
    }

    impl Commit for Full {
        fn commit(self) -> io::Result<()> {
            self.0.set(true);
            Ok(())
        }
    }

    /// It was removed, and was said to be readable.
    #[test]
    fn what_a_full_disk_took_is_kept() {
        let shown = std::rc::Rc::default();
        let collector = Collector::new(Full(std::rc::Rc::clone(&shown)), "program", "machine", 0).unwrap();
        let failed = collector.finish(0, 0, &Symbols::default()).failed.expect("it is full");
        assert_eq!((failed.kind(), shown.get()), (io::ErrorKind::StorageFull, true));
    }

    impl Commit for &mut Vec<u8> {
        fn commit(self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The first hold of each lock was that of another lock, of `my_lock`.
    #[test]
    fn a_lock_that_leaves_the_class_of_code_that_passes_it_on_is_one_lock() {
        let named = |class: usize| {
            let (kind, name) = ("mutex".to_owned(), ["", "my_lock", "user"][class].to_owned());
            Some(RecordedClass { kind, name, site: 0, passes: class == 1 })
        };
        let (mut file, mut process) = (Vec::new(), Process::default());
        let mut collector = Collector::new(&mut file, "program", "machine", 0).unwrap();
        // The third is of a thread that asked before.
        for (at, class) in [(1, 1), (2, 2), (3, 1), (4, 2)] {
            let event = |kind, value| tape::Event { at, kind, class, value };
            for event in [event(tape::Kind::Window, 7), event(tape::Kind::AskWrite, 64), event(tape::Kind::Release, 64)]
            {
                collector.take(&mut process, 0, event, &named).unwrap();
            }
        }
        collector.processes.insert(0, process);
        assert!(collector.finish(0, 0, &Symbols::default()).failed.is_none());
        let (read, damage) = recording::Recording::from_bytes("a", &file).unwrap();
        let classes: Vec<&str> = read.locks.iter().map(|&class| read.classes[class as usize].name.as_str()).collect();
        assert_eq!((classes, damage), (vec!["user"], None));
    }

    #[test]
    fn locks_of_all_libraries_are_known_by_their_names() {
        for name in [
            "rwlock",
            "rwsem",
            "qrwlock",
            "read_mostly",
            "ReadMostly",
            "PerCpuRwSem",
            "RwSem",
            "RwLock",
            "RecursiveRwLock",
            "QRwLock",
        ] {
            assert_eq!(sort(name), Sort::Lock(Kind::RwLock), "{name}");
        }
        for name in
            ["spinlock", "ly_spinlock", "hq_spinlock", "SpinLock", "HqSpinLock", "CnaSpinLock", "McsLock", "TicketLock"]
        {
            assert_eq!(sort(name), Sort::Lock(Kind::Spin), "{name}");
        }
        for name in ["mutex", "rtmutex", "Mutex", "FairMutex", "TreeRtMutex", "semaphore", ""] {
            assert_eq!(sort(name), Sort::Lock(Kind::Mutex), "{name}");
        }
        assert_eq!(["condition", "sem_t"].map(sort), [Sort::Condition, Sort::Semaphore]);
    }
}
