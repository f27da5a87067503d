//! Ordering sites: every place in a lock where an ordering is said, found by where it is called
//! from, and weakened one at a time.
//!
//! Lock code needs no marks for this. The words of the checking machine are `#[track_caller]`, so
//! that an operation knows file, line and column of the lock that asked for it. A site is that
//! place and the part it plays: a compare-exchange has two.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::Location;
use std::str::FromStr;

use lockyard::platform::Ordering;

use super::world::world;

/// What an ordering is said for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// A load.
    Load,
    /// A store.
    Store,
    /// A read-modify-write that succeeds: swap, addition, compare-exchange.
    Rmw,
    /// A compare-exchange that fails.
    Failure,
    /// A fence.
    Fence,
}

impl Part {
    const ALL: [Self; 5] = [Self::Load, Self::Store, Self::Rmw, Self::Failure, Self::Fence];

    const fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Store => "store",
            Self::Rmw => "rmw",
            Self::Failure => "failure",
            Self::Fence => "fence",
        }
    }

    /// The orderings one step weaker than `order`. A fence is there or not: it becomes `Relaxed`,
    /// which is none.
    pub fn weaker(self, order: Ordering) -> &'static [Ordering] {
        match (self, order) {
            (_, Ordering::AcqRel) => &[Ordering::Acquire, Ordering::Release],
            (_, Ordering::Acquire | Ordering::Release) | (Self::Fence, _) => &[Ordering::Relaxed],
            (Self::Load, Ordering::SeqCst) => &[Ordering::Acquire],
            (Self::Store, Ordering::SeqCst) => &[Ordering::Release],
            (_, Ordering::SeqCst) => &[Ordering::AcqRel],
            _ => &[],
        }
    }
}

/// Where an ordering is said.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The source file, from the workspace's folder.
    pub file: String,
    /// Its line.
    pub line: u32,
    /// And column.
    pub column: u32,
    /// For what.
    pub part: Part,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}:{}", self.file, self.line, self.column, self.part.name())
    }
}

impl FromStr for Site {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("not FILE:LINE:COLUMN:PART: {text}");
        let words: Vec<&str> = text.split(':').collect();
        let [file, line, column, part] = words.as_slice() else { return Err(wrong()) };
        Ok(Self {
            file: (*file).to_owned(),
            line: line.parse().map_err(|_| wrong())?,
            column: column.parse().map_err(|_| wrong())?,
            part: Part::ALL.into_iter().find(|known| known.name() == *part).ok_or_else(wrong)?,
        })
    }
}

/// A site, and a weaker ordering for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// The site.
    pub site: Site,
    /// What is said there instead.
    pub order: Ordering,
}

impl FromStr for Mutant {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (site, order) = text.split_once('=').ok_or_else(|| format!("not SITE=ORDERING: {text}"))?;
        Ok(Self { site: site.parse()?, order: order_from(order).ok_or_else(|| format!("no such ordering: {order}"))? })
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={:?}", self.site, self.order)
    }
}

/// The ordering with this name.
pub fn order_from(name: &str) -> Option<Ordering> {
    use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
    [Relaxed, Acquire, Release, AcqRel, SeqCst].into_iter().find(|order| format!("{order:?}") == name)
}

#[derive(Clone, Copy)]
struct Known {
    said: Ordering,
    effective: Ordering,
}

thread_local! {
    /// By the address of the location and the part: what is said there, and what is done.
    static KNOWN: RefCell<HashMap<(usize, Part), Known>> = RefCell::new(HashMap::new());
    /// The locations, for the report.
    static PLACES: RefCell<BTreeMap<Site, Ordering>> = const { RefCell::new(BTreeMap::new()) };
    static MUTANT: RefCell<Option<Mutant>> = const { RefCell::new(None) };
    /// Whether the mutated site was reached.
    static REACHED: Cell<bool> = const { Cell::new(false) };
}

/// Weakens one site from now on, on this host thread.
pub fn weaken(mutant: Option<Mutant>) {
    KNOWN.take();
    REACHED.set(false);
    MUTANT.set(mutant);
}

/// Whether anybody came to the weakened site.
pub fn reached() -> bool {
    REACHED.get()
}

/// The sites that were come to, and what is said there.
pub fn seen() -> BTreeMap<Site, Ordering> {
    PLACES.with_borrow(Clone::clone)
}

/// The ordering for an operation asked for at `place`, where `said` is written.
pub(super) fn order(place: &'static Location<'static>, part: Part, said: Ordering) -> Ordering {
    world().is_at(place);
    if said == Ordering::Relaxed {
        return said;
    }
    let key = (std::ptr::from_ref(place).addr(), part);
    let known = KNOWN.with_borrow(|known| known.get(&key).copied());
    if let Some(known) = known.filter(|known| known.said == said) {
        return known.effective;
    }
    let site = Site { file: place.file().to_owned(), line: place.line(), column: place.column(), part };
    let effective = MUTANT.with_borrow(|mutant| match mutant {
        Some(mutant) if mutant.site == site => {
            REACHED.set(true);
            mutant.order
        }
        _ => said,
    });
    PLACES.with_borrow_mut(|places| places.insert(site, said));
    KNOWN.with_borrow_mut(|known| known.insert(key, Known { said, effective }));
    effective
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_and_mutants_are_written_and_read() {
        let text = "crates/lockyard/src/mutex.rs:163:40:rmw=Relaxed";
        let mutant: Mutant = text.parse().unwrap();
        assert_eq!(mutant.to_string(), text);
        assert_eq!((mutant.site.line, mutant.site.part, mutant.order), (163, Part::Rmw, Ordering::Relaxed));
        assert!("mutex.rs:163=Relaxed".parse::<Mutant>().is_err());
        assert!("a.rs:1:1:rmw=Sometimes".parse::<Mutant>().is_err());
    }

    #[test]
    fn each_ordering_has_its_weaker_ones() {
        assert_eq!(Part::Rmw.weaker(Ordering::AcqRel).len(), 2);
        assert_eq!(Part::Load.weaker(Ordering::Acquire), [Ordering::Relaxed]);
        assert_eq!(Part::Fence.weaker(Ordering::SeqCst), [Ordering::Relaxed]);
        assert!(Part::Store.weaker(Ordering::Relaxed).is_empty());
    }
}
