//! Classes that nest in each other: in a model one of them does.

use std::collections::{BTreeMap, BTreeSet};

/// Of these pairs of classes, outer and inner, with how often they nest: those that would close a
/// circle.
pub(super) fn circles(nested: impl Iterator<Item = ((usize, usize), usize)>) -> BTreeSet<(usize, usize)> {
    let mut pairs: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for (pair, count) in nested {
        *pairs.entry(pair).or_default() += count;
    }
    let mut order: Vec<((usize, usize), usize)> = pairs.into_iter().collect();
    order.sort_by_key(|&(pair, count)| (usize::MAX - count, pair));
    let (mut kept, mut dropped) = (BTreeSet::new(), BTreeSet::new());
    for (pair, _) in order {
        if reaches(&kept, pair.1, pair.0) {
            dropped.insert(pair);
        } else {
            kept.insert(pair);
        }
    }
    dropped
}

/// Whether `from` is `to`, or something that is nested in it is.
fn reaches(kept: &BTreeSet<(usize, usize)>, from: usize, to: usize) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut open = vec![from];
    while let Some(class) = open.pop() {
        for &(_, inner) in kept.iter().filter(|(outer, _)| *outer == class) {
            if seen.insert(inner) {
                open.push(inner);
            }
        }
    }
    seen.contains(&to)
}
