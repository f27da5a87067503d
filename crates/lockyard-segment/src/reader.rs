//! The side that reads: another process's segment, mapped, and what it says at a moment.

use core::sync::atomic::{AtomicU64, Ordering::*};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::histogram::{self, BUCKETS};
use crate::layout::{EVENTS, LENGTH, PAGE, Shared, THREADS_OFFSET, Tally, ThreadPage, VERSION};
use crate::process;

/// Why a process's segment cannot be read. One line for people each: what, where, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such process.
    NoProcess(u32),
    /// The process has no segment.
    NoSegment(u32),
    /// The process belongs to another user.
    OtherUser {
        /// The process.
        process: u32,
        /// The user's number.
        user: u32,
    },
    /// There is a file of that name which is not the process's segment: made by somebody else, or
    /// left by an earlier process.
    Foreign(u32),
    /// The process has another version of Lockyard.
    Version {
        /// The process.
        process: u32,
        /// The version of its layout.
        found: u32,
    },
    /// The system refused.
    System(u32, i32),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess(process) => write!(out, "there is no process {process}"),
            Self::NoSegment(process) => write!(
                out,
                "process {process} has no lock statistics; start it with `lockyard run -- PROGRAM`, or with LOCKYARD_STAT=1 if it is linked with liblockyard"
            ),
            Self::OtherUser { process, user } => {
                write!(out, "process {process} belongs to user {user}; ask as that user, or as root")
            }
            Self::Foreign(process) => {
                write!(out, "/dev/shm/lockyard.{process} is not what process {process} has made; remove it")
            }
            Self::Version { process, found } => write!(
                out,
                "process {process} writes statistics of version {found}, this command reads version {VERSION}; use the command of its Lockyard"
            ),
            Self::System(process, error) => {
                let error = std::io::Error::from_raw_os_error(*error);
                write!(out, "the statistics of process {process} cannot be read: {error}")
            }
        }
    }
}

impl std::error::Error for Refusal {}

/// A segment, mapped. Stays readable when the process has ended and its name is gone.
#[derive(Debug)]
pub struct Reader {
    process: u32,
    base: *const Shared,
    writable: bool,
}

// SAFETY: the mapping is this value's own, and holds nothing but atomics.
unsafe impl Send for Reader {}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`; no reference outlives `self`.
        let _ = unsafe { munmap(self.base.cast_mut().cast(), LENGTH) };
    }
}

impl Reader {
    /// The segment of `process`, which is running.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn open(process: u32) -> Result<Self, Refusal> {
        Self::map(process, false, true)
    }

    /// The same, to [reset](Self::reset).
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn open_to_reset(process: u32) -> Result<Self, Refusal> {
        Self::map(process, true, true)
    }

    /// The segments of all processes, running or not, that wrote for session `session` (the process
    /// id of a `lockyard stat`).
    pub fn of_session(session: u32) -> Vec<Self> {
        let mut members = Vec::new();
        let _ = process::each_name(|process| members.push(process));
        let belongs = |process: &u32| {
            let file = process::open(*process, OFlags::RDONLY).ok();
            file.and_then(process::identity).is_some_and(|found| found.session == session)
        };
        members.into_iter().filter(belongs).filter_map(|process| Self::map(process, false, false).ok()).collect()
    }

    /// Removes the name: nobody else will find it. For the session that kept it.
    pub fn remove(&self) {
        process::remove(&process::file_name(self.process));
    }

    fn map(process: u32, writable: bool, running: bool) -> Result<Self, Refusal> {
        let system = |error: Errno| Refusal::System(process, error.raw_os_error());
        // Nobody but root and the process's user may look: its files in /proc say whose it is.
        let owner = fs::metadata(format!("/proc/{process}")).ok().map(|found| found.uid());
        let flags = if writable { OFlags::RDWR } else { OFlags::RDONLY };
        let file = match (process::open(process, flags), owner) {
            (Ok(file), _) => file,
            (Err(Errno::NOENT), None) => return Err(Refusal::NoProcess(process)),
            (Err(Errno::NOENT), Some(user)) if !permitted(user) => return Err(Refusal::OtherUser { process, user }),
            (Err(Errno::NOENT), Some(_)) => return Err(Refusal::NoSegment(process)),
            (Err(Errno::ACCESS | Errno::PERM), Some(user)) => return Err(Refusal::OtherUser { process, user }),
            (Err(Errno::LOOP), _) => return Err(Refusal::Foreign(process)),
            (Err(error), _) => return Err(system(error)),
        };
        let found = rustix::fs::fstat(&file).map_err(system)?;
        if !permitted(found.st_uid) {
            return Err(Refusal::OtherUser { process, user: found.st_uid });
        }
        // A file that another user has put there is none to believe, nor one that an earlier
        // process has left.
        let (owned, whole) = (owner.is_none_or(|owner| owner == found.st_uid), found.st_size as usize == LENGTH);
        let identity = process::identity(&file).ok_or(Refusal::Foreign(process))?;
        let now = process::began(process);
        if !owned || identity.process != process || running && now.is_some() && now != Some(identity.began) {
            return Err(Refusal::Foreign(process));
        }
        if running && now.is_none() {
            return Err(Refusal::NoProcess(process));
        }
        let version = version(&file);
        if version != VERSION || !whole {
            return Err(Refusal::Version { process, found: version });
        }
        let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        // SAFETY: a new mapping where the kernel finds room. Only parts that the writer has made
        // real are touched.
        let base = unsafe { mmap(core::ptr::null_mut(), LENGTH, access, MapFlags::SHARED, &file, 0) };
        Ok(Self { process, base: base.map_err(system)?.cast(), writable })
    }

    fn shared(&self) -> &Shared {
        // SAFETY: mapped as long as `self` lives; nothing but atomics, of which every value is one.
        // (Its owner could make it shorter: then this process dies of SIGBUS, which its owner or
        // root could as well have killed.)
        unsafe { &*self.base }
    }

    /// The process.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Whether the process has ended.
    pub fn ended(&self) -> bool {
        let header = &self.shared().header;
        header.ended.load(Acquire) != 0 || process::began(self.process) != Some(header.began.load(Relaxed))
    }

    fn pages(&self) -> impl Iterator<Item = &ThreadPage> {
        let base = self.base.cast::<u8>();
        let words = self.shared().header.pages.iter().enumerate();
        words.flat_map(move |(word, bits)| {
            let bits = bits.load(Acquire);
            (0..64).filter(move |bit| bits & 1 << bit != 0).map(move |bit| {
                let place = base.wrapping_add(THREADS_OFFSET + (word * 64 + bit) * PAGE).cast::<ThreadPage>();
                // SAFETY: inside the mapping, aligned; as `shared`.
                unsafe { &*place }
            })
        })
    }

    /// What the process has counted since it began, or since the last reset.
    pub fn sample(&self) -> Sample {
        let shared = self.shared();
        let header = &shared.header;
        let now = match header.ended_ns.load(Relaxed) {
            0 => Linux::now(),
            ended => ended,
        };
        let reset = shared.baseline.reset_ns.load(Acquire);
        let counts = self.event_sums();
        let since =
            |now: u64, before: &AtomicU64| if reset == 0 { now } else { now.saturating_sub(before.load(Relaxed)) };
        let names = shared.names.iter().take(header.events.load(Relaxed) as usize);
        let events = names
            .zip(counts.iter().zip(&shared.baseline.events))
            .map(|(name, (count, before))| (name.get(), since(*count, before)))
            .collect();
        let reasons = header.reason_names.iter().take(header.reasons.load(Relaxed) as usize);
        let fallbacks = reasons
            .zip(header.fallbacks.iter().zip(&shared.baseline.fallbacks))
            .map(|(name, (count, before))| (name.get(), since(count.load(Relaxed), before)))
            .collect();
        let ended = self.ended();
        let mut classes: Vec<ClassSample> = Vec::new();
        for index in self.classes() {
            let record = &shared.classes[index];
            let mut found = ClassSample {
                kind: record.kind.get(),
                name: record.name.get(),
                site: record.site.load(Relaxed),
                waiting: Waiting::default(),
                counts: Counts::read(&record.tally, self.acquired(index)),
            };
            if reset != 0 {
                let before = &shared.class_baselines[index].0;
                found.counts = found.counts.since(&Counts::read(before, before.acquired.load(Relaxed)));
            }
            if !ended {
                found.waiting = self.waiting(index, now);
            }
            match classes.iter_mut().find(|class| class.is_same(&found)) {
                Some(class) => class.add(&found),
                None => classes.push(found),
            }
        }
        Sample {
            process: self.process,
            locks: header.locks.get(),
            seconds: now.saturating_sub(reset.max(header.opened_ns.load(Relaxed))) as f64 / 1e9,
            threads: self.pages().count().saturating_sub(1) as u32,
            private: header.private.load(Relaxed),
            events,
            fallbacks,
            classes,
        }
    }

    fn event_sums(&self) -> Vec<u64> {
        // The number is the other process's word: no more than there is room for.
        let events = (self.shared().header.events.load(Relaxed) as usize).min(EVENTS);
        let mut sums = vec![0u64; events];
        for page in self.pages() {
            for (sum, word) in sums.iter_mut().zip(&page.events) {
                *sum = sum.wrapping_add(word.load(Relaxed));
            }
        }
        sums
    }

    fn classes(&self) -> impl Iterator<Item = usize> {
        let bits = self.shared().header.classes.iter().enumerate().map(|(word, bits)| (word, bits.load(Acquire)));
        bits.flat_map(|(word, bits)| (0..64).filter(move |bit| bits & 1 << bit != 0).map(move |bit| word * 64 + bit))
    }

    fn acquired(&self, class: usize) -> u64 {
        self.pages().fold(0, |sum, page| sum.wrapping_add(page.acquired[class].load(Relaxed)))
    }

    /// Who waits for locks of class `index` at this moment.
    fn waiting(&self, index: usize, now: u64) -> Waiting {
        let mut all = Waiting::default();
        for page in self.pages().filter(|page| page.waiting.load(Acquire) == index as u64 + 1) {
            all.add(Waiting {
                threads: 1,
                longest_ns: now.saturating_sub(page.waiting_since.load(Relaxed)),
                holder: page.waiting_for.load(Relaxed) as u32,
            });
        }
        all
    }

    /// From now on everybody sees what is counted from now on. The process's counters are not
    /// touched. Two that reset at once: the later one counts.
    ///
    /// # Errors
    /// `/dev/shm` is full, or the reader was not [opened to reset](Self::open_to_reset).
    pub fn reset(&self) -> Result<(), Refusal> {
        let shared = self.shared();
        let writable = |part: *const u8| {
            let page = part.cast_mut().map_addr(|address| address & !(PAGE - 1));
            if self.writable { process::populate(page) } else { Err(Errno::ACCESS) }
        };
        writable(core::ptr::from_ref(&shared.baseline).cast()).map_err(|error| self.refused(error))?;
        for index in self.classes() {
            let part = core::ptr::from_ref(&shared.class_baselines[index]);
            writable(part.cast()).map_err(|error| self.refused(error))?;
        }
        for (sum, before) in self.event_sums().iter().zip(&shared.baseline.events) {
            before.store(*sum, Relaxed);
        }
        for (count, before) in shared.header.fallbacks.iter().zip(&shared.baseline.fallbacks) {
            before.store(count.load(Relaxed), Relaxed);
        }
        for index in self.classes() {
            let (now, before) = (&shared.classes[index].tally, &shared.class_baselines[index].0);
            before.acquired.store(self.acquired(index), Relaxed);
            for (word, old) in Counts::words(now).zip(Counts::words(before)) {
                old.store(word.load(Relaxed), Relaxed);
            }
            for (words, old) in [(&now.waits, &before.waits), (&now.holds, &before.holds)] {
                words.iter().zip(old).for_each(|(word, old)| old.store(word.load(Relaxed), Relaxed));
            }
        }
        shared.baseline.reset_ns.store(Linux::now(), Release);
        Ok(())
    }

    fn refused(&self, error: Errno) -> Refusal {
        Refusal::System(self.process, error.raw_os_error())
    }
}

/// Whether this process's user may look at what `user` has: only if they are the same, or this is
/// root.
fn permitted(user: u32) -> bool {
    let me = rustix::process::geteuid();
    me.is_root() || me.as_raw() == user
}

fn version(file: impl rustix::fd::AsFd) -> u32 {
    let mut bytes = [0u8; 4];
    rustix::io::pread(file, &mut bytes, 8).map_or(0, |_| u32::from_le_bytes(bytes))
}

/// What a process has counted.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    /// The process.
    pub process: u32,
    /// Which locks it uses, for people.
    pub locks: String,
    /// Over how long.
    pub seconds: f64,
    /// Threads that have a page; a page may have had several threads, one after the other.
    pub threads: u32,
    /// Threads whose counts are not here: there was no memory for them.
    pub private: u32,
    /// Lock events by name.
    pub events: Vec<(String, u64)>,
    /// Objects left to the C library, by reason.
    pub fallbacks: Vec<(String, u64)>,
    /// Lock classes.
    pub classes: Vec<ClassSample>,
}

/// What a lock class has counted.
#[derive(Debug, Clone, Default)]
pub struct ClassSample {
    /// Which lock.
    pub kind: String,
    /// What it is for; empty for locks that nobody has named.
    pub name: String,
    /// The code that makes them, or takes them first: its place in the file that `name` is, or its
    /// address if `name` is no path. 0: unknown.
    pub site: u64,
    /// Who waits for them at this moment.
    pub waiting: Waiting,
    /// The counts.
    pub counts: Counts,
}

/// Who waits for locks of a class at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many threads.
    pub threads: u32,
    /// How long the one that has waited longest has waited so far, in nanoseconds.
    pub longest_ns: u64,
    /// The kernel's name of the thread that held its lock when it began; 0: unknown.
    pub holder: u32,
}

impl Waiting {
    fn add(&mut self, other: Self) {
        self.threads += other.threads;
        if other.longest_ns > self.longest_ns {
            (self.longest_ns, self.holder) = (other.longest_ns, other.holder);
        }
    }
}

impl ClassSample {
    fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.waiting.add(other.waiting);
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.kind, &self.name, self.site) == (&other.kind, &other.name, other.site)
    }
}

/// Counts of a lock class. Times in nanoseconds.
#[derive(Debug, Clone)]
pub struct Counts {
    /// Acquisitions.
    pub acquired: u64,
    /// Those that waited.
    pub contended: u64,
    /// Those of them that gave up.
    pub gave_up: u64,
    /// Sleeps.
    pub parks: u64,
    /// Handoffs asked for.
    pub handoffs: u64,
    /// Waiting time.
    pub wait_ns: u64,
    /// The longest wait.
    pub wait_max: u64,
    /// Hold time of those whose hold time was taken.
    pub hold_ns: u64,
    /// The longest of them.
    pub hold_max: u64,
    /// Waits by [class of time](crate::histogram).
    pub waits: Vec<u64>,
    /// Hold times, likewise.
    pub holds: Vec<u64>,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            acquired: 0,
            contended: 0,
            gave_up: 0,
            parks: 0,
            handoffs: 0,
            wait_ns: 0,
            wait_max: 0,
            hold_ns: 0,
            hold_max: 0,
            waits: vec![0; BUCKETS],
            holds: vec![0; BUCKETS],
        }
    }
}

impl Counts {
    /// The single words of a tally, in the order of [`Counts::fields`].
    fn words(tally: &Tally) -> impl Iterator<Item = &AtomicU64> {
        let Tally { contended, gave_up, parks, handoffs, wait_ns, wait_max, hold_ns, hold_max, .. } = tally;
        [contended, gave_up, parks, handoffs, wait_ns, wait_max, hold_ns, hold_max].into_iter()
    }

    fn fields(&mut self) -> [&mut u64; 8] {
        let Self { contended, gave_up, parks, handoffs, wait_ns, wait_max, hold_ns, hold_max, .. } = self;
        [contended, gave_up, parks, handoffs, wait_ns, wait_max, hold_ns, hold_max]
    }

    fn read(tally: &Tally, acquired: u64) -> Self {
        let mut counts = Self { acquired, ..Self::default() };
        for (field, word) in counts.fields().into_iter().zip(Self::words(tally)) {
            *field = word.load(Relaxed);
        }
        let read = |words: &[AtomicU64; BUCKETS]| words.iter().map(|word| word.load(Relaxed)).collect();
        counts.waits = read(&tally.waits);
        counts.holds = read(&tally.holds);
        counts
    }

    /// What was counted between `earlier` and these. The longest times are upper bounds: those of
    /// the longest classes that were hit.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        let mut before = earlier.clone();
        later.acquired = later.acquired.saturating_sub(before.acquired);
        for (now, then) in later.fields().into_iter().zip(before.fields()) {
            *now = now.saturating_sub(*then);
        }
        for (now, then) in [(&mut later.waits, &before.waits), (&mut later.holds, &before.holds)] {
            now.iter_mut().zip(then).for_each(|(now, then)| *now = now.saturating_sub(*then));
        }
        later.wait_max = longest(&later.waits, self.wait_max);
        later.hold_max = longest(&later.holds, self.hold_max);
        later
    }

    fn add(&mut self, other: &Self) {
        let mut other = other.clone();
        let (wait_max, hold_max) = (self.wait_max.max(other.wait_max), self.hold_max.max(other.hold_max));
        self.acquired = self.acquired.wrapping_add(other.acquired);
        for (sum, more) in self.fields().into_iter().zip(other.fields()) {
            *sum = sum.wrapping_add(*more);
        }
        for (sum, more) in [(&mut self.waits, &other.waits), (&mut self.holds, &other.holds)] {
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.wrapping_add(*more));
        }
        (self.wait_max, self.hold_max) = (wait_max, hold_max);
    }

    /// The share of acquisitions that waited.
    pub fn contended_share(&self) -> f64 {
        self.contended as f64 / self.acquired.saturating_add(self.gave_up).max(1) as f64
    }

    /// The wait that `share` of the waits do not exceed.
    pub fn wait(&self, share: f64) -> u64 {
        histogram::quantile(&self.waits, share, self.wait_max)
    }

    /// The hold time that `share` of the hold times taken do not exceed.
    pub fn hold(&self, share: f64) -> u64 {
        histogram::quantile(&self.holds, share, self.hold_max)
    }
}

/// The upper end of the last class that was hit, but at most `ever`.
fn longest(counts: &[u64], ever: u64) -> u64 {
    match counts.iter().rposition(|count| *count != 0) {
        Some(last) if last + 1 < BUCKETS => histogram::lower(last + 1).min(ever),
        Some(_) => ever,
        None => 0,
    }
}

impl Sample {
    /// The count of the event called `name`.
    pub fn event(&self, name: &str) -> u64 {
        self.events.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
    }

    /// All acquisitions that were told, of all classes.
    pub fn acquired(&self) -> u64 {
        self.classes.iter().fold(0, |sum, class| sum.wrapping_add(class.counts.acquired))
    }

    /// What was counted between `earlier` and this sample of the same process. Nothing where it
    /// counted backwards: the process has become another program, or a count was corrected.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        later.seconds -= earlier.seconds;
        for (now, then) in [(&mut later.events, &earlier.events), (&mut later.fallbacks, &earlier.fallbacks)] {
            for ((_, count), (_, before)) in now.iter_mut().zip(then) {
                *count = count.saturating_sub(*before);
            }
        }
        for class in &mut later.classes {
            if let Some(before) = earlier.classes.iter().find(|before| before.is_same(class)) {
                class.counts = class.counts.since(&before.counts);
            }
        }
        later
    }

    /// Adds what another process of the same program counted.
    pub fn add(&mut self, other: &Self) {
        self.seconds = self.seconds.max(other.seconds);
        self.threads += other.threads;
        self.private = self.private.wrapping_add(other.private);
        for (sums, more) in [(&mut self.events, &other.events), (&mut self.fallbacks, &other.fallbacks)] {
            for (name, count) in more {
                match sums.iter_mut().find(|(known, _)| known == name) {
                    Some((_, sum)) => *sum = sum.wrapping_add(*count),
                    None => sums.push((name.clone(), *count)),
                }
            }
        }
        for class in &other.classes {
            match self.classes.iter_mut().find(|known| known.is_same(class)) {
                Some(known) => known.add(class),
                None => self.classes.push(class.clone()),
            }
        }
    }
}

/// Removes what dead processes of this user have left.
pub fn sweep() {
    process::sweep();
}
