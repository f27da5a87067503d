//! Who sits where.
//!
//! A machine is sockets of dies of clusters of cores of hardware threads, all alike. A *cluster* is
//! the cores behind one slice group of L3 (AMD: CCX, Kunpeng: 4-core cluster, Intel: the socket).
//! NUMA nodes divide a socket evenly and are a matter of firmware (AMD's NPS modes): they label
//! cores and give lines a home, but do not move anything.
//!
//! CPU numbers follow the usual firmware order: first threads of all cores, socket by socket, then
//! second threads: `cpu = thread × cores + core`.
//!
//! A **placement** is an order of CPUs; thread i starts on the i-th. Placement is part of a
//! workload: FIFO queue locks freeze the order in which threads came, and with it the distances
//! that the lock travels.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::engine::random::Random;
use crate::error::Error;

/// What threads are placed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Socket by socket in the machine's own filling order: one thread to a core first, or whole
    /// sockets first.
    #[default]
    Fill,
    /// Round the NUMA nodes, one thread to a core first.
    Spread,
    /// Cores in an order drawn from the seed, then their second threads.
    Random,
}

impl Placement {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fill, Self::Spread, Self::Random];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fill => "fill",
            Self::Spread => "spread",
            Self::Random => "random",
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Placement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|placement| placement.name() == text);
        found.ok_or_else(|| Error::Config(format!("unknown placement '{text}': fill, spread or random")))
    }
}

/// Which cores share the cache that a woken thread should stay near.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Llc {
    /// A cluster.
    Cluster,
    /// A die.
    Die,
    /// A socket.
    Socket,
}

/// A machine's shape.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// Sockets.
    pub sockets: usize,
    /// Dies (AMD: quadrants) of a socket.
    pub dies_per_socket: usize,
    /// Clusters of a socket.
    pub clusters_per_socket: usize,
    /// Cores of a cluster.
    pub cores_per_cluster: usize,
    /// Hardware threads of a core.
    pub smt: usize,
    /// NUMA nodes of the machine, in the mode chosen.
    pub nodes: usize,
    /// The sharing domain of the last-level cache.
    pub llc: Llc,
    /// Offsets between the numbers of sockets that are one hop apart (modulo the number of
    /// sockets). Empty: all are.
    pub one_hop: Vec<usize>,
    /// Whether `fill` uses all hardware threads of a socket before it goes to the next.
    pub fill_whole_sockets: bool,
}

impl Topology {
    /// Cores of the machine.
    pub fn cores(&self) -> usize {
        self.sockets * self.cores_per_socket()
    }

    /// Cores of a socket.
    pub fn cores_per_socket(&self) -> usize {
        self.clusters_per_socket * self.cores_per_cluster
    }

    /// CPUs (hardware threads) of the machine.
    pub fn cpus(&self) -> usize {
        self.cores() * self.smt
    }

    /// Clusters of the machine.
    pub fn clusters(&self) -> usize {
        self.sockets * self.clusters_per_socket
    }

    /// The core of `cpu`.
    pub fn core_of(&self, cpu: usize) -> usize {
        cpu % self.cores()
    }

    /// The cluster of `core`.
    pub fn cluster_of(&self, core: usize) -> usize {
        core / self.cores_per_cluster
    }

    /// The socket of `core`.
    pub fn socket_of(&self, core: usize) -> usize {
        core / self.cores_per_socket()
    }

    /// The die of `core`.
    pub fn die_of(&self, core: usize) -> usize {
        core / (self.cores_per_socket() / self.dies_per_socket)
    }

    /// The NUMA node of `core`.
    pub fn node_of(&self, core: usize) -> usize {
        core / (self.cores() / self.nodes)
    }

    /// The last-level-cache domain of `core`.
    pub fn llc_of(&self, core: usize) -> usize {
        match self.llc {
            Llc::Cluster => self.cluster_of(core),
            Llc::Die => self.die_of(core),
            Llc::Socket => self.socket_of(core),
        }
    }

    /// Hops between two sockets: 0, 1 or 2.
    pub fn hops(&self, a: usize, b: usize) -> usize {
        let offset = (a + self.sockets - b) % self.sockets;
        match offset {
            0 => 0,
            _ if self.one_hop.is_empty() || self.one_hop.contains(&offset) => 1,
            _ => 2,
        }
    }

    /// The CPUs in the order of `placement`.
    pub fn order(&self, placement: Placement, seed: u64) -> Vec<u32> {
        let cores = self.cores();
        let cpu = |core: usize, thread: usize| (thread * cores + core) as u32;
        let by_thread = |order: &[usize]| -> Vec<u32> {
            (0..self.smt).flat_map(|thread| order.iter().map(move |&core| cpu(core, thread))).collect()
        };
        let all: Vec<usize> = (0..cores).collect();
        match placement {
            Placement::Fill if self.fill_whole_sockets => {
                let sockets = all.chunks(self.cores_per_socket());
                sockets.flat_map(by_thread).collect()
            }
            Placement::Fill => by_thread(&all),
            Placement::Spread => {
                let per_node = cores / self.nodes;
                let round = |turn| (0..self.nodes).map(move |node| node * per_node + turn);
                by_thread(&(0..per_node).flat_map(round).collect::<Vec<_>>())
            }
            Placement::Random => {
                let mut order = all;
                Random::new(seed, u64::from_le_bytes(*b"placemnt")).shuffle(&mut order);
                by_thread(&order)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn box_of(sockets: usize) -> Topology {
        Topology {
            sockets,
            dies_per_socket: 2,
            clusters_per_socket: 4,
            cores_per_cluster: 2,
            smt: 2,
            nodes: sockets * 2,
            llc: Llc::Cluster,
            one_hop: vec![1, 4, 7],
            fill_whole_sockets: false,
        }
    }

    #[test]
    fn eight_glueless_sockets_have_three_near_and_four_far_neighbours() {
        let eight = box_of(8);
        for a in 0..8 {
            let hops: Vec<usize> = (0..8).map(|b| eight.hops(a, b)).collect();
            assert_eq!([0, 1, 2].map(|n| hops.iter().filter(|&&h| h == n).count()), [1, 3, 4]);
            assert!((0..8).all(|b| eight.hops(a, b) == eight.hops(b, a)));
        }
    }

    #[test]
    fn placements_are_permutations_with_one_thread_to_a_core_first() {
        let two = Topology { one_hop: vec![], ..box_of(2) };
        for placement in Placement::ALL {
            let order = two.order(placement, 5);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..32).collect::<Vec<_>>());
            assert!(order[..16].iter().all(|&cpu| cpu < 16), "{placement}");
        }
        assert_eq!(two.order(Placement::Spread, 0)[..4], [0, 4, 8, 12]);
        let whole = Topology { fill_whole_sockets: true, ..two };
        assert_eq!(whole.order(Placement::Fill, 0)[..10], [0, 1, 2, 3, 4, 5, 6, 7, 16, 17]);
    }
}
