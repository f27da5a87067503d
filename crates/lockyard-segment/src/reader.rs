//! The side that reads: another process's segment, mapped, and what it says at a moment.

use core::sync::atomic::{AtomicU64, Ordering::*};

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::callers::{self, Caller};
use crate::histogram::bucket;
use crate::holds;
use crate::layout::{
    CALLERS, CALLERS_OF_A_PAGE, CallerRecord, EVENTS, Held, PAGE, Shared, Tally, ThreadPage, WITH_DEADLINE,
};
use crate::memory::Memory;
use crate::opening::{self, Opened};
use crate::process::{self, Image};
use crate::program::{Maker, Program};
use crate::real::populate;
use crate::refusal::Refusal;
use crate::sample::{CallerSample, ClassSample, Counts, Hold, Place, Sample, ThreadSample, Wait, Waiting, Within};
use crate::told::{self, UnderWay};
use crate::within;

/// A segment. Stays readable when the process has ended and its name is gone.
#[derive(Debug)]
pub struct Reader {
    image: Image,
    /// The file's inode.
    file: u64,
    memory: Memory,
    writable: bool,
}

impl Reader {
    /// The segment of `process`, which is running.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn open(process: u32) -> Result<Self, Refusal> {
        Self::map(Image::of(process), false, true)
    }

    /// The same, to [reset](Self::reset). For root: the process's user can end the caller with
    /// SIGBUS, by making the file shorter.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub fn open_to_reset(process: u32) -> Result<Self, Refusal> {
        Self::map(Image::of(process), true, true)
    }

    /// Removes the name: nobody else will find it. For the session that kept it. A name that has
    /// become another program's meanwhile stays.
    pub fn remove(&self) {
        let found = process::open_image(self.image, OFlags::PATH).and_then(process::file_id);
        if found.is_ok_and(|[_, file]| file == self.file) {
            process::remove(&self.image.name());
        }
    }

    pub(crate) fn map(image: Image, writable: bool, running: bool) -> Result<Self, Refusal> {
        let Opened { image, file, memory } = opening::open(image, writable, running)?;
        let reader = Self { image, file, memory, writable };
        reader.memory.refresh_header();
        if running && reader.is_before_exec() { Err(Refusal::Replaced(image.process)) } else { Ok(reader) }
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.memory.shared()
    }

    /// What tells its file from others that are mapped.
    pub(crate) fn key(&self) -> u64 {
        self.file
    }

    /// The process.
    pub fn process(&self) -> u32 {
        self.image.process
    }

    pub(crate) fn image(&self) -> Image {
        self.image
    }

    /// Whether it is of a program that its process was before exec.
    pub fn is_before_exec(&self) -> bool {
        let own = self.maker();
        let is_another = |now: Program| own.is_in(&now) && !own.is(&now);
        let is_elsewhere = || process::is_elsewhere(self.shared().header.namespace.load(Relaxed));
        // One of another namespace may have had to make way, and goes on.
        let has_ended = || self.shared().header.ended.load(Acquire) != 0;
        self.image.before != 0 && (!is_elsewhere() || has_ended()) || self.now().is_some_and(is_another)
    }

    /// What its process runs now. `None`: nothing, or not to be known: its number is one of another
    /// namespace.
    fn now(&self) -> Option<Program> {
        let header = &self.shared().header;
        let is_elsewhere = process::is_elsewhere(header.namespace.load(Relaxed));
        let is_its_own = header.process.load(Relaxed) == self.image.process;
        Program::of(self.image.process).filter(|_| !(is_elsewhere && is_its_own))
    }

    /// Whether the program has ended, with its process or before exec.
    pub fn ended(&self) -> bool {
        self.memory.refresh_header();
        let runs = || self.now().is_some_and(|now| self.maker().is(&now));
        self.shared().header.ended.load(Acquire) != 0 || !runs()
    }

    /// The program of which it tells.
    pub fn maker(&self) -> Maker {
        let header = &self.shared().header;
        Maker { at: header.made.load(Relaxed), stack: header.stack.load(Relaxed) }
    }

    /// When it was opened, nanoseconds of the monotonic clock.
    pub fn opened(&self) -> u64 {
        self.shared().header.opened_ns.load(Relaxed)
    }

    /// Whether it counts from a [reset](Self::reset) on.
    pub fn was_reset(&self) -> bool {
        self.memory.refresh_header();
        self.shared().baseline.reset_ns.load(Acquire) != 0
    }

    /// Reads a copy's words again.
    pub(crate) fn refresh(&self) {
        self.memory.refresh();
    }

    pub(crate) fn pages(&self) -> impl Iterator<Item = &ThreadPage> {
        self.memory.pages()
    }

    /// What the process has counted since it began, or since the last reset.
    pub fn sample(&self) -> Sample {
        self.sample_at(Linux::now())
    }

    /// The same, as if it were `now` (ns of the monotonic clock): for a program that was over then,
    /// and had no time to say so. Waits under way end there.
    pub fn sample_at(&self, now: u64) -> Sample {
        self.memory.refresh();
        let shared = self.shared();
        let header = &shared.header;
        let now = match header.ended_ns.load(Relaxed) {
            0 => now,
            // The next program has noted it, perhaps long after.
            ended => ended.min(now),
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
        let mut classes: Vec<ClassSample> = Vec::new();
        // Where the class with a number is in `classes`.
        let mut known: Vec<(usize, usize)> = Vec::new();
        for index in self.classes() {
            let record = &shared.classes[index];
            let before = (reset != 0).then(|| &shared.class_baselines[index].0);
            let mut found = ClassSample {
                kind: record.kind.get(),
                name: record.name.get(),
                site: record.site.load(Relaxed),
                waiting: Waiting::default(),
                counts: Counts::read(&record.tally, self.acquired(index)),
                callers: Vec::new(),
                within: self.within(&record.tally, before),
            };
            if let Some(before) = before {
                found.counts = found.counts.since(&Counts::read(before, before.acquired.load(Relaxed)));
            }
            match classes.iter().position(|class| class.is_same(&found)) {
                Some(at) => {
                    classes[at].add(&found);
                    known.push((index, at));
                }
                None => {
                    known.push((index, classes.len()));
                    classes.push(found);
                }
            }
        }
        let place_of = |caller: Caller| {
            let index = caller.class().index();
            known.iter().find(|(number, _)| *number == index).map(|(_, at)| *at)
        };
        for (index, caller) in self.callers() {
            let Some(class) = place_of(caller).and_then(|at| classes.get_mut(at)) else { continue };
            let record = &shared.callers[index];
            let mut found = CallerSample {
                place: place(record),
                shared: caller.is_shared(),
                holder: record.holder.load(Relaxed) as u32,
                name: record.name.get(),
                ..CallerSample::default()
            };
            found.read(&record.tally);
            if reset != 0 {
                let mut before = CallerSample::default();
                before.read(&shared.caller_baselines[index]);
                found = found.since(&before);
            }
            class.add(&ClassSample { callers: vec![found], ..ClassSample::default() });
        }
        self.pending(&mut classes, &place_of);
        let waiters = self.waiters(&mut classes, &place_of, reset, now);
        Sample {
            process: self.image.process,
            locks: header.locks.get(),
            seconds: now.saturating_sub(reset.max(header.opened_ns.load(Relaxed))) as f64 / 1e9,
            threads: self.pages().skip(1).filter(|page| page.is_used()).count() as u32,
            started: if reset == 0 { header.started.load(Relaxed) } else { 0 },
            private: header.private.load(Relaxed),
            beyond: header.beyond.load(Relaxed),
            events,
            fallbacks,
            classes,
            waiters,
        }
    }

    /// Waits that are over, and not in a tally yet.
    fn pending(&self, classes: &mut [ClassSample], place_of: &dyn Fn(Caller) -> Option<usize>) {
        for page in self.pages() {
            let Some(caller) = Caller::from_raw(page.waited.load(Relaxed)) else { continue };
            let Some(class) = place_of(caller).and_then(|at| classes.get_mut(at)) else { continue };
            let ns = page.waited_ns.load(Relaxed);
            let mut counts = Counts { contended: 1, wait_ns: ns, wait_max: ns, ..Counts::default() };
            counts.waits[bucket(ns)] = 1;
            counts.parks = page.waited_parks.load(Relaxed);
            counts.handoffs = page.waited_handoffs.load(Relaxed);
            let (place, shared) = (self.place(caller), caller.is_shared());
            let waits = CallerSample { place, shared, waits: 1, wait_ns: ns, wait_max: ns, ..CallerSample::default() };
            class.add(&ClassSample { counts, callers: vec![waits], ..ClassSample::default() });
        }
    }

    /// The threads that wait now, and those that hold what they wait for.
    fn waiters(
        &self,
        classes: &mut [ClassSample],
        place_of: &dyn Fn(Caller) -> Option<usize>,
        reset: u64,
        now: u64,
    ) -> Vec<ThreadSample> {
        let is_held = |lock: u64| {
            let is_it = |held: &Held| held.lock.load(Relaxed) == lock;
            self.pages().any(|page| page.held[..page.depth()].iter().any(is_it))
        };
        let mut all = Vec::new();
        for page in self.pages() {
            let waits = told::under_way(page, now);
            let waits = waits.filter(|wait| !wait.is_asleep || is_held(wait.lock));
            let waits = waits.and_then(|UnderWay { caller, lock, since, until, held_by, .. }| {
                let (class, place) = (place_of(caller)?, self.place(caller));
                let ns = until.saturating_sub(since);
                let (holder, has_deadline) = (held_by as u32, held_by & WITH_DEADLINE != 0);
                Some(Wait { lock, class, place, since, ns, holder, has_deadline })
            });
            if let Some(wait) = &waits {
                let (ns, holder) = (wait.ns, wait.holder);
                let sum_ns = (wait.since + ns).saturating_sub(wait.since.max(reset));
                classes[wait.class].waiting.add(Waiting { threads: 1, longest_ns: ns, sum_ns, holder });
            }
            let holds = page.held[..page.depth()].iter().filter_map(|held| {
                let caller = Caller::from_raw(held.caller.load(Relaxed))?;
                let ns = holds::held_for(held.since.load(Relaxed), now)?;
                let (place, shared) = (self.place(caller), caller.is_shared());
                Some(Hold { lock: held.lock.load(Relaxed), place, shared, ns })
            });
            let (thread, name) = (page.thread.load(Relaxed) as u32, page.name.get());
            all.push(ThreadSample { process: self.image.process, thread, name, waits, holds: holds.collect() });
        }
        let wanted: Vec<u64> = all.iter().filter_map(|thread| Some(thread.waits.as_ref()?.lock)).collect();
        let matters = |thread: &ThreadSample| {
            thread.waits.is_some() || thread.holds.iter().any(|hold| wanted.contains(&hold.lock))
        };
        all.retain(matters);
        // A thread that has never waited has not noted its name.
        for thread in all.iter_mut().filter(|thread| thread.name.is_empty()) {
            let name = std::fs::read_to_string(format!("/proc/{}/task/{}/comm", thread.process, thread.thread));
            thread.name = name.unwrap_or_default().trim_end().to_owned();
        }
        all
    }

    /// The callers that are known, with their numbers.
    fn callers(&self) -> impl Iterator<Item = (usize, Caller)> {
        let shared = self.shared();
        let real = shared.header.callers.load(Acquire);
        let indices = (0..CALLERS).filter(move |index| real & 1 << (index / CALLERS_OF_A_PAGE) != 0);
        indices.filter_map(|index| Some((index, Caller::from_raw(shared.callers[index].caller.load(Relaxed))?)))
    }

    /// For which locks threads waited that held one whose tally this is.
    fn within(&self, tally: &Tally, before: Option<&Tally>) -> Vec<Within> {
        let of = |caller: Caller| (&self.shared().classes[caller.class().index()], self.place(caller));
        within::read(tally, before).map(|(caller, ns)| Within::new(ns, of(caller))).collect()
    }

    /// Where `caller` is, if it has a record.
    fn place(&self, caller: Caller) -> Place {
        let shared = self.shared();
        let real = shared.header.callers.load(Acquire);
        let mut records = callers::places(caller)
            .filter(|index| real & 1 << (index / CALLERS_OF_A_PAGE) != 0)
            .map(|index| &shared.callers[index]);
        records.find(|record| record.caller.load(Relaxed) == caller.raw()).map_or_else(Place::default, place)
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

    /// From now on everybody sees what is counted from now on. The process's counters are not
    /// touched. Two that reset at once: the later one counts.
    ///
    /// # Errors
    /// `/dev/shm` is full, or the reader was not [opened to reset](Self::open_to_reset).
    pub fn reset(&self) -> Result<(), Refusal> {
        let shared = self.shared();
        let writable = |part: *const u8| {
            let page = part.cast_mut().map_addr(|address| address & !(PAGE - 1));
            if self.writable { populate(page, 1) } else { Err(Errno::ACCESS) }
        };
        writable(core::ptr::from_ref(&shared.baseline).cast()).map_err(|error| self.refused(error))?;
        for index in self.classes() {
            let part = core::ptr::from_ref(&shared.class_baselines[index]);
            writable(part.cast()).map_err(|error| self.refused(error))?;
        }
        for (index, _) in self.callers() {
            let part = core::ptr::from_ref(&shared.caller_baselines[index]);
            // It may lie across two pages.
            for byte in [part.cast::<u8>(), part.wrapping_add(1).cast::<u8>().wrapping_sub(1)] {
                writable(byte).map_err(|error| self.refused(error))?;
            }
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
            within::begin_anew(now, before);
            now.hottest.begin_anew(&before.hottest);
        }
        for (index, _) in self.callers() {
            let (now, before) = (&shared.callers[index].tally, &shared.caller_baselines[index]);
            for (word, old) in CallerSample::words(now).into_iter().zip(CallerSample::words(before)) {
                old.store(word.load(Relaxed), Relaxed);
            }
        }
        shared.baseline.reset_ns.store(Linux::now(), Release);
        Ok(())
    }

    fn refused(&self, error: Errno) -> Refusal {
        Refusal::System(self.image.process, error.raw_os_error())
    }
}

fn place(record: &CallerRecord) -> Place {
    // The file is whole once there is a place.
    let place = record.place.load(Acquire);
    Place { file: if place == 0 { String::new() } else { record.file.get() }, place }
}

/// The running processes that tell what their locks do, as far as this user may look.
pub fn running() -> Vec<u32> {
    let mut found = Vec::new();
    let _ = process::each_name(|process| found.push(process));
    found.retain(|process| matches!(Reader::open(*process), Ok(_) | Err(Refusal::Version { .. })));
    found
}

/// Removes what dead processes of this user have left.
pub fn sweep() {
    process::sweep();
}
