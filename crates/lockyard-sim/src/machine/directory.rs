//! Machines of many sockets, where a line's home looks into memory for who has the line.
//!
//! Two sockets ask each other. With more of them that would be too many questions, so a request
//! goes to the line's home, which keeps a directory of the sockets that may have it; on some
//! machines in bits of memory itself (`coherence.directory = "memory"`; Xeon E7 v2: two bits beside
//! each line, among those that correct errors). The home reads memory then, asks the owner's
//! socket, and that one sends the line:
//!
//! ```text
//! asker ──k──▶ home: reads memory ──k──▶ owner's socket: takes the line from its core ──k──▶ asker
//! ```
//!
//! On such a machine L(o, c) between sockets, which was measured between two of them, grows by the
//! time from the home's shared cache to its memory and back (`memory.local − cache.l3`), and, if
//! the home is neither the asker's socket nor the owner's, by a *detour* of k(c, h) + k(h, o) −
//! k(o, c). k is a message's way between two sockets: half of what memory there takes more than
//! memory here. Inside a socket the shared cache knows, and nobody asks the home. A clean line
//! comes from the home's memory.

use super::sheet::Sheet;
use super::topology::Topology;
use crate::engine::heap::Ps;
use crate::error::Error;

/// What the home adds to a way between sockets.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    sockets: usize,
    /// k, by two sockets.
    message: Vec<Ps>,
    /// What reading it takes.
    read: Ps,
    socket_of_cluster: Vec<u16>,
    socket_of_node: Vec<u16>,
}

impl Directory {
    /// Whether a machine has one.
    pub(crate) fn wanted(sheet: &Sheet) -> Result<bool, Error> {
        match sheet.text_if("coherence.directory")? {
            None => Ok(false),
            Some("memory") => Ok(true),
            Some(_) => Err(sheet.complain(
                sheet.line_of("coherence.directory"),
                "'coherence.directory' must be memory, if it is there",
            )),
        }
    }

    /// From what memory takes at no, one and two hops, and the shared cache.
    pub(crate) fn new(topology: &Topology, memory: [Ps; 3], cache: Ps) -> Self {
        let sockets = topology.sockets;
        let pairs = (0..sockets).flat_map(|a| (0..sockets).map(move |b| (a, b)));
        let socket_of = |part: usize, parts: usize| topology.socket_of(part * (topology.cores() / parts)) as u16;
        let (clusters, nodes) = (topology.clusters(), topology.nodes);
        Self {
            sockets,
            message: pairs.map(|(a, b)| memory[topology.hops(a, b)].saturating_sub(memory[0]) / 2).collect(),
            read: memory[0].saturating_sub(cache),
            socket_of_cluster: (0..clusters).map(|cluster| socket_of(cluster, clusters)).collect(),
            socket_of_node: (0..nodes).map(|node| socket_of(node, nodes)).collect(),
        }
    }

    fn message(&self, a: u16, b: u16) -> Ps {
        self.message[usize::from(a) * self.sockets + usize::from(b)]
    }

    fn sockets_of(&self, a: u16, b: u16) -> (u16, u16) {
        (self.socket_of_cluster[usize::from(a)], self.socket_of_cluster[usize::from(b)])
    }

    /// What reading it adds to the way between two clusters.
    pub(crate) fn read(&self, a: u16, b: u16) -> Ps {
        let (a, b) = self.sockets_of(a, b);
        if a == b { 0 } else { self.read }
    }

    /// What a home on `node` adds to the way between two clusters, besides.
    #[inline]
    pub(crate) fn detour(&self, a: u16, b: u16, node: u16) -> Ps {
        let (a, b) = self.sockets_of(a, b);
        let home = self.socket_of_node[usize::from(node)];
        if a == b { 0 } else { (self.message(a, home) + self.message(home, b)).saturating_sub(self.message(a, b)) }
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::catalog;

    #[test]
    fn a_home_elsewhere_is_a_detour() {
        let model = catalog::machine("ivb_ex_8s").unwrap();
        let directory = model.directory.as_ref().unwrap();
        // Memory takes 130, 200 and 270 ns: a message 35 or 70. The shared cache takes 15.5. From
        // socket 0, 1 and 7 are one hop away, 2 is two.
        assert_eq!((directory.read(0, 0), directory.read(0, 1), directory.read(0, 2)), (0, 114_500, 114_500));
        assert_eq!([0, 1, 7, 2].map(|home| directory.detour(0, 1, home)), [0, 0, 70_000, 70_000]);
        assert_eq!([0, 2, 1, 5].map(|home| directory.detour(0, 2, home)), [0, 0, 0, 70_000]);
        assert_eq!(directory.detour(3, 3, 0), 0);
        assert!(catalog::machine("skx_2s_40c").unwrap().directory.is_none());
    }
}
