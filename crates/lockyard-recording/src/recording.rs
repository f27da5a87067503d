//! What a program did with its locks, event by event.
//!
//! A recording is classes of locks, locks, and *windows*: contiguous stretches of one thread, since
//! isolated samples lose the gaps between them. It has two forms that say the same: a file for
//! programs ([`Recording::to_bytes`], [`Recording::from_bytes`]) and lines of text
//! ([`Recording::to_text`], [`Recording::from_text`]).

use std::collections::BTreeMap;

use crate::model::Kind;

mod bytes;
mod checksum;
mod text;
mod writer;

pub use bytes::Damage;
pub use writer::Writer;

/// How a lock is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Beside other readers.
    Read,
    /// Alone.
    Write,
}

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The thread asks for a lock; it has it at once unless a [`What::Grant`] follows.
    Request(Mode),
    /// The thread has the lock that it asked for, and had to wait for.
    Grant,
    /// The thread gives a lock back.
    Release,
    /// The thread did not get a lock, or a unit of a semaphore, and has not waited for it.
    Failed(Mode),
    /// The thread does without what it asked for, and has waited for: a lock, or what another
    /// thread was to signal.
    GaveUp,
    /// The thread asks for what others signal: at a condition variable it waits from here on, of a
    /// semaphore it has a unit at once unless a [`What::Woken`] follows.
    Wait,
    /// The thread has what it waited for.
    Woken,
    /// The window ends, and the thread waits for what it asked for before. `firm`: only a release
    /// by the lock's holder ends that; no deadline does, nor any other thread.
    Pending {
        /// Whether it is.
        firm: bool,
    },
    /// The thread wakes one that waits at a condition variable, if there is one; or adds a unit to
    /// a semaphore.
    Signal,
    /// The thread wakes all that wait at a condition variable.
    Broadcast,
    /// Of the time since the event before, the thread slept for so many nanoseconds.
    Off(u64),
    /// Of the time since the event before, the thread would have run for so many nanoseconds, and
    /// had no CPU.
    Preempted(u64),
}

impl What {
    /// How much time it tells of; `None`: it is an event of an object.
    pub fn time(self) -> Option<u64> {
        match self {
            Self::Off(ns) | Self::Preempted(ns) => Some(ns),
            _ => None,
        }
    }
}

/// What the objects of a class are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// Locks.
    Lock(Kind),
    /// Condition variables.
    Condition,
    /// Semaphores.
    Semaphore,
}

impl Sort {
    /// All of them, in the order of their numbers in files.
    pub const ALL: [Self; 5] =
        [Self::Lock(Kind::Mutex), Self::Lock(Kind::RwLock), Self::Lock(Kind::Spin), Self::Condition, Self::Semaphore];

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lock(kind) => kind.name(),
            Self::Condition => "condition",
            Self::Semaphore => "semaphore",
        }
    }
}

/// An event of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// When, ns since an arbitrary start that all threads share.
    pub at: u64,
    /// What.
    pub what: What,
    /// The number of the lock, condition variable or semaphore; 0 where it is no event of one.
    pub lock: u32,
}

/// Locks, condition variables or semaphores that the same code made, or used first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Its name: a place in the program.
    pub name: String,
    /// What its objects are.
    pub sort: Sort,
}

/// A contiguous stretch of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// The thread's number.
    pub thread: u32,
    /// When it begins, ns.
    pub begin: u64,
    /// When it ends, ns, if that is known: until then nothing more happened, and what the thread
    /// held it still holds. Else it ends with its last event, and what came next is not known.
    pub end: Option<u64>,
    /// In the order of their times.
    pub events: Vec<Event>,
}

impl Window {
    /// The time up to which it is known what the thread did.
    pub fn until(&self) -> u64 {
        self.end.unwrap_or_else(|| self.events.last().map_or(self.begin, |event| event.at))
    }
}

/// A recording.
///
/// ```
/// use lockyard_recording::Recording;
///
/// let text = "\
/// lockyard recording 1
/// program app
/// class mutex CACHE
/// lock 0
/// window 7 1000
/// 1500 7 request 0 write
/// 1560 7 release 0
/// ";
/// let recording = Recording::from_text("app.txt", text)?;
/// let (again, damage) = Recording::from_bytes("app.lyr", &recording.to_bytes())?;
/// assert_eq!((again.to_text(), damage), (text.to_owned(), None));
/// # Ok::<(), lockyard_recording::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recording {
    /// The program, in one line; may be empty.
    pub program: String,
    /// The machine it ran on, in one line; may be empty.
    pub machine: String,
    /// What an event of a lock cost the program, ns: as much of each time between two of them is
    /// the recorder's.
    pub event_ns: u64,
    /// The classes.
    pub classes: Vec<Class>,
    /// Of each lock, condition variable and semaphore the number of its class.
    pub locks: Vec<u32>,
    /// The windows, in the order in which they were written.
    pub windows: Vec<Window>,
    /// Windows that were lost because nobody took them in time.
    pub dropped: u64,
    /// Threads that were not recorded.
    pub missing: u64,
    /// The names of threads, as far as they had any.
    pub names: BTreeMap<u32, String>,
}

impl Recording {
    /// What people call a thread: `thread 7`, or `thread 7 "flusher"`.
    pub fn called(&self, thread: u32) -> String {
        self.names.get(&thread).map_or_else(|| format!("thread {thread}"), |name| format!("thread {thread} \"{name}\""))
    }

    /// The thread has this name, unless it is none. A thread may call itself anything.
    fn name_thread(&mut self, thread: u32, name: &str) {
        let name: String = name.trim().chars().filter(|letter| !letter.is_control()).collect();
        if !name.is_empty() {
            self.names.insert(thread, name);
        }
    }

    /// Makes the names of classes different: two lines of code may have one name.
    pub fn tell_apart(&mut self) {
        let mut seen = std::collections::BTreeSet::new();
        for class in &mut self.classes {
            let mut copy = 1;
            let plain = class.name.clone();
            while !seen.insert(class.name.clone()) {
                copy += 1;
                class.name = format!("{plain} #{copy}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_one_name_are_told_apart() {
        let text = "lockyard recording 1\nclass mutex w (a.c:3)\nclass mutex b\nclass spin w (a.c:3)\n";
        let mut recording = Recording::from_text("a", text).unwrap();
        recording.tell_apart();
        let names: Vec<&str> = recording.classes.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["w (a.c:3)", "b", "w (a.c:3) #2"]);
    }

    /// SplitMix64.
    struct Draws(u64);

    impl Draws {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ z >> 31) % bound
        }
    }

    fn random(seed: u64) -> Recording {
        let mut draws = Draws(seed);
        let class = |number: u64, draws: &mut Draws| Class {
            name: format!("src/some file.cc:{number} – ünit"),
            sort: Sort::ALL[draws.below(5) as usize],
        };
        let classes: Vec<Class> = (0..1 + draws.below(4)).map(|number| class(number, &mut draws)).collect();
        let locks: Vec<u32> = (0..draws.below(9)).map(|_| draws.below(classes.len() as u64) as u32).collect();
        let mut windows = Vec::new();
        for _ in 0..draws.below(5) {
            let begin = draws.below(1 << 40);
            let mut at = begin;
            let mut events = Vec::new();
            for _ in 0..draws.below(20) {
                at += draws.below(1 << (draws.0 % 30));
                let mode = if draws.below(2) == 0 { Mode::Read } else { Mode::Write };
                let what = match draws.below(12) {
                    0 => What::Request(mode),
                    1 => What::Grant,
                    2 => What::Release,
                    3 => What::Failed(mode),
                    4 => What::Preempted(draws.below(1 << 33)),
                    5 => What::GaveUp,
                    7 => What::Wait,
                    8 => What::Woken,
                    9 => What::Signal,
                    10 => What::Broadcast,
                    11 => What::Pending { firm: mode == Mode::Read },
                    _ => What::Off(draws.below(1 << 33)),
                };
                let off = what.time().is_some() || locks.is_empty();
                let what = if locks.is_empty() { What::Off(1) } else { what };
                let lock = if off { 0 } else { draws.below(locks.len() as u64) as u32 };
                events.push(Event { at, what, lock });
            }
            let end = (draws.below(2) == 0).then(|| at + draws.below(1 << 20));
            windows.push(Window { thread: draws.below(1 << 20) as u32, begin, end, events });
        }
        let program = if draws.below(2) == 0 { String::new() } else { "memcached -t 4".to_owned() };
        let event_ns = draws.below(2) * draws.below(100);
        Recording {
            program,
            machine: "a machine".to_owned(),
            event_ns,
            classes,
            locks,
            windows,
            dropped: draws.below(3),
            missing: draws.below(2),
            names: (0..draws.below(3)).map(|thread| (thread as u32, format!("worker {thread}"))).collect(),
        }
    }

    #[test]
    fn both_forms_say_the_same() {
        for seed in 0..300 {
            let recording = random(seed);
            let (read, damage) = Recording::from_bytes("a", &recording.to_bytes()).unwrap();
            assert_eq!((&read, damage), (&recording, None), "seed {seed}");
            assert_eq!(Recording::from_text("a", &recording.to_text()).unwrap(), recording, "seed {seed}");
        }
    }

    #[test]
    fn a_file_that_is_cut_is_readable_up_to_its_last_whole_block() {
        for seed in 0..40 {
            let recording = random(seed);
            let bytes = recording.to_bytes();
            let mut most = 0;
            for cut in 0..bytes.len() {
                let Ok((read, damage)) = Recording::from_bytes("a", &bytes[..cut]) else { continue };
                assert!(damage.is_some(), "seed {seed}, {cut} of {} bytes", bytes.len());
                assert!(recording.windows.starts_with(&read.windows), "seed {seed}, cut at {cut}");
                assert!(read.windows.len() >= most, "seed {seed}, cut at {cut}");
                most = read.windows.len();
            }
            assert_eq!(most, recording.windows.len(), "seed {seed}");
        }
    }

    /// A thread may call itself anything.
    #[test]
    fn names_of_threads_that_are_none_are_left_out() {
        for name in ["", " "] {
            let recording = Recording { names: BTreeMap::from([(7, name.to_owned())]), ..Recording::default() };
            let (read, damage) = Recording::from_bytes("a", &recording.to_bytes()).unwrap();
            assert_eq!((read, damage), (Recording::default(), None), "{name:?}");
        }
        let named = Recording::from_text("a", "lockyard recording 1\nthread 7 the\u{1b}  flusher\n").unwrap();
        assert_eq!((named.called(7), named.called(8)), ("thread 7 \"the  flusher\"".to_owned(), "thread 8".to_owned()));
        assert!(Recording::from_text("a", "lockyard recording 1\nthread 7\n").is_err());
    }

    #[test]
    fn files_of_earlier_versions_are_read() {
        let text = "lockyard recording 1\nclass mutex A\nlock 0\nwindow 1 0\n10 1 request 0 write\n20 1 release 0\n";
        let recording = Recording::from_text("a", text).unwrap();
        for version in [1, 2] {
            let mut bytes = recording.to_bytes();
            bytes[8] = version;
            assert_eq!(Recording::from_bytes("a", &bytes).unwrap(), (recording.clone(), None));
        }
    }

    #[test]
    fn a_bit_that_flips_is_noticed() {
        for seed in 0..12 {
            let recording = random(seed);
            let mut bytes = recording.to_bytes();
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                if let Ok((read, damage)) = Recording::from_bytes("a", &bytes) {
                    assert!(damage.is_some(), "seed {seed}, bit {bit}");
                    assert!(recording.windows.starts_with(&read.windows), "seed {seed}, bit {bit}");
                }
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    #[test]
    fn noise_is_refused_or_read_and_nothing_else() {
        let mut draws = Draws(7);
        for _ in 0..2_000 {
            let mut bytes = Recording::default().to_bytes();
            bytes.truncate(draws.below(bytes.len() as u64 + 1) as usize);
            bytes.extend((0..draws.below(80)).map(|_| draws.below(256) as u8));
            let _ = Recording::from_bytes("a", &bytes);
            let _ = Recording::from_text("a", &String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn bad_lines_are_refused_with_their_number() {
        let head = "lockyard recording 1\nclass mutex A\nlock 0\nwindow 1 10\n";
        let cases = [
            ("", "a:1: the first line must be 'lockyard recording 1'"),
            ("lockyard recording 2\n", "a:1: "),
            ("lockyard recording 1\nclass futex A\n", "a:2: unknown kind 'futex'; known are mutex, rwlock, spin, "),
            (&format!("{head}11 1 woken 0 read\n"), "a:5: 'woken' has no mode"),
            ("lockyard recording 1\nlock 0\n", "a:2: class 0"),
            (&format!("{head}x\n"), "a:5: "),
            (&format!("{head}11 1 request 3 write\n"), "a:5: lock 3"),
            (&format!("{head}11 1 request 0\n"), "a:5: "),
            (&format!("{head}11 1 release 0 write\n"), "a:5: "),
            (&format!("{head}9 1 release 0\n"), "a:5: the time goes back"),
            (&format!("{head}11 2 release 0\n"), "a:5: thread 2"),
            (&format!("{head}window 1 10 9\n"), "a:5: the window ends before"),
            (&format!("{head}window 1 10 12\n13 1 release 0\n"), "a:6: the window ends before"),
        ];
        for (text, start) in cases {
            let message = Recording::from_text("a", text).expect_err(text).to_string();
            assert!(message.starts_with(start) && !message.contains('\n'), "{message}, not {start}");
        }
    }
}
