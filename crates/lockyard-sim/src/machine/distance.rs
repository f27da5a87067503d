//! How far cores are from each other: the classes of distance, and who is how far from each
//! cluster.

use serde::Serialize;

use crate::engine::heap::Ps;

/// Distance classes, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Distance {
    /// Between hardware threads of one core.
    Sibling,
    /// Within a cluster.
    Cluster,
    /// Within a die.
    Die,
    /// Within a socket.
    Socket,
    /// To a socket one hop away.
    Hop1,
    /// To a socket two hops away.
    Hop2,
    /// From memory.
    Memory,
}

impl Distance {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Sibling, Self::Cluster, Self::Die, Self::Socket, Self::Hop1, Self::Hop2, Self::Memory];

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sibling => "sibling",
            Self::Cluster => "cluster",
            Self::Die => "die",
            Self::Socket => "socket",
            Self::Hop1 => "hop1",
            Self::Hop2 => "hop2",
            Self::Memory => "memory",
        }
    }
}

/// A set of clusters, a bit each.
pub(crate) type Clusters = Vec<u64>;

/// Adds a cluster.
#[inline(always)]
pub(crate) fn add(set: &mut [u64], cluster: u16) {
    set[usize::from(cluster) / 64] |= 1 << (cluster % 64);
}

/// A set for so many clusters, empty.
pub(crate) fn none(clusters: usize) -> Clusters {
    vec![0; clusters.div_ceil(64)]
}

/// The clusters at one distance from another.
#[derive(Debug, Clone)]
struct Ring {
    ps: Ps,
    members: Clusters,
}

impl Ring {
    /// The first of `set` on it.
    #[inline(always)]
    fn first(&self, set: impl Fn(usize) -> u64) -> Option<u16> {
        let mut met = self.members.iter().enumerate().map(|(index, word)| (index, word & set(index)));
        let (index, word) = met.find(|&(_, word)| word != 0)?;
        Some((index * 64) as u16 + word.trailing_zeros() as u16)
    }
}

/// For each cluster, all clusters (itself among them), by distance. A machine has few distances:
/// the nearest or farthest member of a set is found in as many looks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    /// The nearest first.
    rings: Vec<Vec<Ring>>,
}

impl Reach {
    /// From the latencies between clusters, `between(other, own)`.
    pub(crate) fn new(clusters: usize, between: impl Fn(u16, u16) -> Ps) -> Self {
        let rings_of = |own: u16| {
            let mut rings: Vec<Ring> = Vec::new();
            for other in 0..clusters as u16 {
                let ps = between(other, own);
                let at = rings.partition_point(|ring| ring.ps < ps);
                if rings.get(at).is_none_or(|ring| ring.ps != ps) {
                    rings.insert(at, Ring { ps, members: none(clusters) });
                }
                add(&mut rings[at].members, other);
            }
            rings
        };
        Self { rings: (0..clusters as u16).map(rings_of).collect() }
    }

    /// The farthest of `set`, and the latency from it; among several the first.
    #[inline]
    pub(crate) fn farthest(&self, own: u16, set: impl Fn(usize) -> u64) -> Option<(u16, Ps)> {
        self.rings[usize::from(own)].iter().rev().find_map(|ring| Some((ring.first(&set)?, ring.ps)))
    }

    /// The nearest of `set`; among several the first.
    #[inline]
    pub(crate) fn nearest(&self, own: u16, set: impl Fn(usize) -> u64) -> Option<u16> {
        self.rings[usize::from(own)].iter().find_map(|ring| ring.first(&set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_and_the_farthest_are_those_that_a_search_finds() {
        let clusters = 130;
        let between = |a: u16, b: u16| Ps::from(a.abs_diff(b) / 7 + u16::from(a > b));
        let reach = Reach::new(clusters as usize, between);
        let mut random = crate::engine::random::Random::new(3, 0);
        for round in 0..500 {
            let mut set = none(clusters as usize);
            let mut members: Vec<u16> = (0..round % 9).map(|_| random.below(clusters) as u16).collect();
            members.iter().for_each(|&cluster| add(&mut set, cluster));
            members.sort_unstable();
            let own = random.below(clusters) as u16;
            let word = |index: usize| set[index];
            let farthest = members.iter().rev().copied().max_by_key(|&other| between(other, own));
            assert_eq!(reach.farthest(own, word), farthest.map(|other| (other, between(other, own))));
            assert_eq!(reach.nearest(own, word), members.iter().copied().min_by_key(|&other| between(other, own)));
        }
    }
}
