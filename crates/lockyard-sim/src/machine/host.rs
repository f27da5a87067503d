//! The machine `this`: the host's own topology, with distances of its kind.
//!
//! Nothing is measured: the shape comes from sysfs, and the latencies are those of a general
//! machine of today, all marked E. It is for trying things out, not for predictions.

use lockyard::platform::linux::topology::Topology;

use super::sheet::Sheet;
use crate::error::Error;

/// Describes the host.
pub(super) fn sheet() -> Result<Sheet, Error> {
    Sheet::read("this", &text(&Topology::read()))
}

fn text(host: &Topology) -> String {
    let cpus = host.online.len().clamp(1, 1024);
    let sharers = |level| {
        let cache = host.caches.iter().rfind(|cache| cache.level == level && cache.kind != "Instruction");
        cache.map_or(1, |cache| cache.shared_by as usize)
    };
    let fit = |part: usize, whole: usize| if part > 0 && whole.is_multiple_of(part) { part } else { 1 };
    // Threads of a core share its L1 and L2.
    let smt = fit(sharers(1).max(1), cpus);
    let cores = cpus / smt;
    let nodes = fit(host.nodes.len().max(1), cores);
    let per_node = cores / nodes;
    let cluster = match sharers(3) / smt {
        n if n > 1 && per_node.is_multiple_of(n) => n,
        _ => per_node,
    };
    let isa = if cfg!(target_arch = "aarch64") { "aarch64" } else { "x86_64" };
    let name = host.model.replace(['"', '\\'], "");
    format!(
        r#"schema = 1
id = "this"
name = "{name}, {cpus} CPUs (the running host; latencies are not measured)"
isa = "{isa}"
[topology]
sockets = {nodes}
clusters_per_socket = {clusters}
cores_per_cluster = {cluster}
smt = {smt}
nodes = {nodes}
llc = "cluster"
[coherence]
protocol = "mesif"
fill = {{ v = 5, lo = 2, hi = 15, u = "ns", c = "E" }}
home = {{ v = 10, lo = 5, hi = 20, u = "ns", c = "E" }}
read_takes = {{ v = {takes}, lo = 0, hi = 1, u = "x", c = "E" }}
[clock]
ghz = {{ v = 2.6, lo = 2, hi = 4, u = "GHz", c = "E" }}
pause = {{ v = 60, lo = 10, hi = 140, u = "cycles", c = "E" }}
tick_hz = {{ v = 250, lo = 100, hi = 1000, u = "Hz", c = "E" }}
[cache]
l1 = {{ v = 4, lo = 4, hi = 5, u = "cycles", c = "E" }}
l2 = {{ v = 14, lo = 10, hi = 16, u = "cycles", c = "E" }}
l3 = {{ v = 20, lo = 15, hi = 30, u = "ns", c = "E" }}
[transfer]
smt = {{ v = 9, lo = 4, hi = 13, u = "ns", c = "E" }}
cluster = {{ v = 45, lo = 25, hi = 60, u = "ns", c = "E" }}
socket = {{ v = 90, lo = 50, hi = 110, u = "ns", c = "E" }}
hop1 = {{ v = 150, lo = 120, hi = 200, u = "ns", c = "E" }}
[atomic]
rmw_own = {{ v = 18, lo = 7, hi = 26, u = "cycles", c = "E" }}
[memory]
local = {{ v = 100, lo = 80, hi = 130, u = "ns", c = "E" }}
hop1 = {{ v = 170, lo = 130, hi = 240, u = "ns", c = "E" }}
[idle]
states_us = [["C1", 2, 2], ["C1E", 10, 20], ["C6", 130, 600]]
"#,
        clusters = per_node / cluster,
        // What `cargo run --release -p lockyard-work --example read_takes` says on an Emerald
        // Rapids.
        takes = u8::from(name.contains("Intel")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockyard::platform::linux::topology::{Cache, Node};

    #[test]
    fn shapes_follow_sysfs() {
        let cache = |level, shared_by| Cache { level, kind: "Unified".to_owned(), kib: 1, shared_by };
        let node = |id| Node { id, cpus: vec![], distances: vec![] };
        let host = Topology {
            online: (0..64).collect(),
            nodes: vec![node(0), node(1)],
            caches: vec![cache(1, 2), cache(2, 2), cache(3, 16)],
            ..Topology::default()
        };
        let sheet = Sheet::read("this", &text(&host)).unwrap();
        let shape = ["sockets", "clusters_per_socket", "cores_per_cluster", "smt"];
        let found = shape.map(|key| sheet.integer(&format!("topology.{key}"), 0..1000).unwrap());
        assert_eq!(found, [2, 2, 8, 2]);
        assert!(Sheet::read("this", &text(&Topology::default())).is_ok());
    }
}
