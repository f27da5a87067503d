//! For which locks the holders of others have waited.

use core::sync::atomic::Ordering::*;

use super::{ClassSample, Place};
use crate::layout::ClassRecord;

/// How long threads that held a lock, while others waited for it, waited at a place for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Within {
    /// How long, in nanoseconds; little of it may have been elsewhere.
    pub ns: u64,
    /// The class of the other, as in [`ClassSample`].
    pub kind: String,
    /// Likewise.
    pub name: String,
    /// Likewise.
    pub site: u64,
    /// Where they waited.
    pub place: Place,
}

impl Within {
    pub(crate) fn new(ns: u64, (class, place): (&ClassRecord, Place)) -> Self {
        Self { ns, kind: class.kind.get(), name: class.name.get(), site: class.site.load(Relaxed), place }
    }

    /// Whether `class` is that of the other lock.
    pub fn is_for(&self, class: &ClassSample) -> bool {
        (&self.kind, &self.name, self.site) == (&class.kind, &class.name, class.site)
    }

    fn is_same(&self, other: &Self) -> bool {
        let key = |one: &Self| (one.kind.clone(), one.name.clone(), one.site, one.place.clone());
        key(self) == key(other)
    }
}

pub(super) fn add(sums: &mut Vec<Within>, more: &[Within]) {
    for one in more {
        match sums.iter_mut().find(|known| known.is_same(one)) {
            Some(sum) => sum.ns = sum.ns.saturating_add(one.ns),
            None => sums.push(one.clone()),
        }
    }
}

/// Makes of what was counted `now` what was counted since it was `earlier`.
pub(super) fn since(now: &mut [Within], earlier: &[Within]) {
    // What took the place of another has begun with its count.
    let gone = earlier.iter().filter(|then| !now.iter().any(|one| one.is_same(then)));
    let gone = gone.map(|then| then.ns).max().unwrap_or(0);
    for one in now {
        let then = earlier.iter().find(|then| then.is_same(one)).map_or(gone, |then| then.ns);
        one.ns = one.ns.saturating_sub(then);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_the_place_of_another_has_not_waited_as_long_as_that_one() {
        let at = |place, ns| {
            let place = Place { place, ..Place::default() };
            Within { ns, kind: String::new(), name: String::new(), site: 0, place }
        };
        let mut now = [at(1, 900), at(3, 150)];
        since(&mut now, &[at(1, 500), at(2, 100)]);
        assert_eq!(now, [at(1, 400), at(3, 50)]);
    }
}
