//! What the screen shows: since when, in which order, which class.

use std::cell::Cell;
use std::cmp::Reverse;
use std::thread;
use std::time::Duration;

use lockyard_segment::Sample;
use lockyard_segment::sample::{ClassSample, Counts};

use crate::known::Known;
use crate::report::facts::Facts;
use crate::report::verdict;
use crate::symbols::Symbols;

/// What classes are sorted by, the greatest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    LostNow,
    Lost,
    Waits,
    MaxWait,
    MaxHold,
    Acquired,
}

impl Sort {
    const ALL: [Self; 6] = [Self::Lost, Self::LostNow, Self::Waits, Self::MaxWait, Self::MaxHold, Self::Acquired];

    /// What it is called on the screen: the head of a column.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::LostNow => "lost now",
            Self::Lost => "lost",
            Self::Waits => "waits",
            Self::MaxWait => "max wait",
            Self::MaxHold => "max hold",
            Self::Acquired => "acquired",
        }
    }
}

/// What names a class: its numbers change from sample to sample.
type Key = (String, String, u64);

fn key(class: &ClassSample) -> Key {
    (class.kind.clone(), class.name.clone(), class.site)
}

/// What the screen shows.
#[derive(Debug)]
pub(super) struct State {
    /// The process.
    pub(super) what: String,
    symbols: Symbols,
    known: Known,
    begin: Sample,
    now: Sample,
    /// Since `begin`.
    since: Sample,
    /// Since the look before.
    between: Sample,
    /// The time of all threads since `begin`, and since the look before.
    times: [Duration; 2],
    /// Why nothing was seen of the process, if so.
    pub(super) unseen: Option<String>,
    ended: bool,
    cpus: usize,
    pub(super) sort: Sort,
    selected: Option<Key>,
    opened: bool,
    /// The first line of an open class that is shown, and how many are: the screen knows how many
    /// there are, and sets both.
    first: Cell<usize>,
    page: Cell<usize>,
}

/// A class, since the beginning and in the last interval.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) class: &'a ClassSample,
    pub(super) between: Option<&'a ClassSample>,
}

impl Row<'_> {
    fn lost_now(&self) -> u64 {
        self.between.map_or(0, ClassSample::lost_ns)
    }

    fn weight(&self, sort: Sort) -> u64 {
        let counts = &self.class.counts;
        // As the screen shows them: in the last interval, if there has been one.
        let now = |count: fn(&Counts) -> u64| count(self.between.map_or(counts, |class| &class.counts));
        match sort {
            Sort::LostNow => self.lost_now(),
            Sort::Lost => self.class.lost_ns(),
            Sort::Waits => now(|counts| counts.contended),
            Sort::MaxWait => counts.wait_max.max(self.class.waiting.longest_ns),
            Sort::MaxHold => counts.hold_max,
            Sort::Acquired => now(|counts| counts.acquired),
        }
    }
}

impl State {
    /// Shows what was counted so far.
    pub(super) fn new(what: String, known: Known, sample: Sample) -> Self {
        Self {
            what,
            symbols: Symbols::of(&known),
            known,
            begin: Sample::default(),
            since: sample.clone(),
            between: Sample::default(),
            now: sample,
            times: [Duration::ZERO; 2],
            unseen: None,
            ended: false,
            cpus: thread::available_parallelism().map_or(1, usize::from),
            sort: Sort::Lost,
            selected: None,
            opened: false,
            first: Cell::new(0),
            page: Cell::new(1),
        }
    }

    /// A look has found `sample`; `time` says how much of the last so many seconds all threads have
    /// had. `unseen`: why nothing was seen.
    pub(super) fn look(&mut self, sample: Sample, ended: bool, unseen: Option<String>, time: impl Fn(f64) -> Duration) {
        if sample.seconds < self.now.seconds {
            // Somebody has begun to count anew.
            (self.begin, self.now) = (Sample::default(), Sample::default());
        }
        self.since = sample.since(&self.begin);
        self.between = sample.since(&self.now);
        self.times = [self.since.seconds, self.between.seconds].map(time);
        (self.now, self.ended, self.unseen) = (sample, ended, unseen);
    }

    /// Shows from now on only what happens from now on.
    pub(super) fn begin_anew(&mut self) {
        self.begin = self.now.clone();
        self.since = self.now.since(&self.begin);
        self.between = Sample::default();
        (self.times, self.opened) = ([Duration::ZERO; 2], false);
    }

    pub(super) fn sort_by_the_next(&mut self) {
        let place = Sort::ALL.iter().position(|sort| *sort == self.sort).unwrap_or(0);
        self.sort = Sort::ALL[(place + 1) % Sort::ALL.len()];
    }

    /// The classes that were used, in order.
    pub(super) fn rows(&self) -> Vec<Row<'_>> {
        let used = |class: &&ClassSample| class.counts.acquired != 0 || class.lost_ns() != 0;
        let between = |class: &ClassSample| self.between.classes.iter().find(|one| key(one) == key(class));
        let classes = self.since.classes.iter().filter(used);
        let mut rows: Vec<Row<'_>> = classes.map(|class| Row { class, between: between(class) }).collect();
        rows.sort_by_key(|row| Reverse((row.weight(self.sort), row.class.lost_ns(), row.class.counts.acquired)));
        rows
    }

    /// The place of the class that is selected, the first if none is.
    pub(super) fn place(&self, rows: &[Row<'_>]) -> usize {
        let chosen = self.selected.as_ref();
        rows.iter().position(|row| chosen.is_some_and(|chosen| *chosen == key(row.class))).unwrap_or(0)
    }

    /// Selects the class `steps` below.
    pub(super) fn select(&mut self, steps: isize) {
        let rows = self.rows();
        let place = self.place(&rows).saturating_add_signed(steps).min(rows.len().saturating_sub(1));
        self.selected = rows.get(place).map(|row| key(row.class));
        self.first.set(0);
    }

    /// Goes down by so many lines in an open class, or by so many rows where none is.
    pub(super) fn go(&mut self, lines: isize) {
        match self.opened() {
            Some(_) => self.first.set(self.first.get().saturating_add_signed(lines)),
            None => self.select(lines),
        }
    }

    /// The same by pages.
    pub(super) fn turn(&mut self, pages: isize) {
        self.go(pages.saturating_mul(self.page.get().max(1) as isize));
    }

    /// The first of `lines` that is shown where there is room for `page` of them: the last page is
    /// a whole one.
    pub(super) fn first_of(&self, lines: usize, page: usize) -> usize {
        self.page.set(page);
        self.first.set(self.first.get().min(lines.saturating_sub(page)));
        self.first.get()
    }

    /// Opens the class that is selected, or closes it.
    pub(super) fn open(&mut self, opened: bool) {
        // The one that is first now stays selected, wherever it moves.
        self.select(0);
        self.opened = opened && self.selected.is_some();
    }

    /// The class that is open.
    pub(super) fn opened(&self) -> Option<&ClassSample> {
        let chosen = self.selected.as_ref().filter(|_| self.opened)?;
        self.since.classes.iter().find(|class| key(class) == *chosen)
    }

    /// What was counted since the beginning.
    pub(super) fn facts(&self) -> Facts<'_> {
        self.told(&self.since, self.times[0])
    }

    /// What was counted in the last interval.
    pub(super) fn facts_between(&self) -> Facts<'_> {
        self.told(&self.between, self.times[1])
    }

    fn told<'a>(&'a self, sample: &'a Sample, thread_time: Duration) -> Facts<'a> {
        self.symbols.tell_apart(sample);
        Facts { sample, thread_time, cpus: self.cpus, ended: self.ended, symbols: &self.symbols, known: &self.known }
    }

    /// The sentence.
    pub(super) fn verdict(&self) -> String {
        verdict::verdict(&self.facts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::observed::tests::sample;

    fn two_classes() -> Sample {
        let mut sample = sample();
        let mut other = sample.classes[1].clone();
        other.name = "other".to_owned();
        other.waiting = Default::default();
        (other.counts.wait_ns, other.counts.acquired) = (10, 1_000_000);
        sample.classes.push(other);
        sample
    }

    #[test]
    fn a_selected_class_stays_selected_when_the_order_changes() {
        let mut state = State::new("x".to_owned(), Known::default(), two_classes());
        assert_eq!(state.rows().iter().map(|row| row.class.name.as_str()).collect::<Vec<_>>(), ["a \"b\"", "other"]);
        state.select(1);
        state.open(true);
        assert_eq!(state.opened().unwrap().name, "other");
        while state.sort != Sort::Acquired {
            state.sort_by_the_next();
        }
        assert_eq!(state.place(&state.rows()), 0);
        assert_eq!(state.opened().unwrap().name, "other");
        state.select(-5);
        state.select(9);
        assert_eq!(state.opened().unwrap().name, "a \"b\"");
        state.open(false);
        assert!(state.opened().is_none());
    }

    #[test]
    fn a_new_beginning_counts_what_comes_after_it() {
        let mut state = State::new("x".to_owned(), Known::default(), two_classes());
        state.begin_anew();
        assert_eq!(state.since.acquired(), 0);
        let mut later = two_classes();
        later.seconds += 2.0;
        later.classes[2].counts.acquired += 7;
        state.look(later.clone(), false, None, |seconds| Duration::from_secs_f64(2.0 * seconds));
        assert_eq!((state.since.acquired(), state.between.acquired()), (7, 7));
        assert_eq!(state.times, [Duration::from_secs(4); 2]);
        state.open(true);
        assert!(state.opened().is_some());
        state.begin_anew();
        assert!(state.opened().is_none());
        // Another command has reset the counts of the process.
        later.seconds = 0.5;
        state.look(later, true, None, |_| Duration::ZERO);
        assert_eq!((state.since.acquired(), state.between.acquired()), (1_001_007, 1_001_007));
        assert!(state.facts().ended);
        let empty = State::new("x".to_owned(), Known::default(), Sample::default());
        assert!(empty.rows().is_empty() && empty.opened().is_none());
    }
}
