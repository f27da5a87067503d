//! The machine a report is about, as people and programs read it.

use lockyard::platform::linux::topology::{Cache, Node, Topology};
use serde::Serialize;

/// A machine description.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MachineFacts {
    /// Processor model.
    pub(crate) model: String,
    /// CPUs this process may use.
    pub(crate) cpus_usable: u32,
    /// CPUs that are online.
    pub(crate) cpus_online: u32,
    /// CPUs of each NUMA node, in the kernel's list form.
    pub(crate) nodes: Vec<String>,
    /// Caches of one CPU, innermost first.
    pub(crate) caches: Vec<String>,
    /// Kernel release.
    pub(crate) kernel: String,
    /// What one PAUSE instruction takes here, in nanoseconds: the unit of critical sections.
    pub(crate) pause_ns: f64,
}

impl MachineFacts {
    /// Describes this machine; `pause_ns` is measured by whoever runs the workloads.
    pub(crate) fn read(pause_ns: f64) -> Self {
        Self::from_topology(Topology::read(), pause_ns)
    }

    fn from_topology(topology: Topology, pause_ns: f64) -> Self {
        let or_unknown = |text: String| if text.is_empty() { "unknown".to_owned() } else { text };
        Self {
            model: or_unknown(topology.model),
            cpus_usable: topology.usable,
            cpus_online: topology.online.len().max(topology.usable as usize) as u32,
            nodes: topology.nodes.iter().map(node_line).collect(),
            caches: topology.caches.iter().map(cache_line).collect(),
            kernel: or_unknown(topology.kernel),
            pause_ns: (pause_ns * 10.0).round() / 10.0,
        }
    }

    /// Name and value pairs, as every report shows them.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        let cpus = if self.cpus_usable == self.cpus_online {
            format!("{} usable", self.cpus_usable)
        } else {
            format!("{} usable of {} online", self.cpus_usable, self.cpus_online)
        };
        let nodes = match self.nodes.as_slice() {
            [_] => "1".to_owned(),
            nodes => format!("{} ({})", nodes.len(), nodes.join("; ")),
        };
        let caches = if self.caches.is_empty() { "unknown".to_owned() } else { self.caches.join(", ") };
        vec![
            ("CPU", self.model.clone()),
            ("CPUs", cpus),
            ("NUMA nodes", nodes),
            ("caches", caches),
            ("kernel", format!("Linux {}", self.kernel)),
            ("1 PAUSE", format!("{:.1} ns", self.pause_ns)),
        ]
    }

    /// The machine in one line.
    pub(crate) fn line(&self) -> String {
        let Self { model, cpus_usable, kernel, pause_ns, .. } = self;
        let plural = if *cpus_usable == 1 { "" } else { "s" };
        format!("{model}, {cpus_usable} CPU{plural}, Linux {kernel}, 1 PAUSE = {pause_ns:.1} ns")
    }
}

fn node_line(node: &Node) -> String {
    let Node { id, cpus, .. } = node;
    if cpus.is_empty() { format!("node {id}: no CPU") } else { format!("node {id}: CPUs {}", ranges(cpus)) }
}

fn cache_line(cache: &Cache) -> String {
    let kind = match cache.kind.as_str() {
        "Data" => "d",
        "Instruction" => "i",
        _ => "",
    };
    let size = if cache.kib >= 1024 {
        let mib = format!("{:.1}", f64::from(cache.kib) / 1024.0);
        format!("{} MiB", mib.trim_end_matches(".0"))
    } else {
        format!("{} KiB", cache.kib)
    };
    let sharing = if cache.shared_by > 1 { format!(" shared by {} CPUs", cache.shared_by) } else { String::new() };
    format!("L{}{kind} {size}{sharing}", cache.level)
}

/// Numbers in the kernel's list form: `0-3,8`.
fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let shown: Vec<String> = parts
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    shown.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_reads_well() {
        let node = |id, cpus: &[u32]| Node { id, cpus: cpus.to_vec(), distances: vec![10, 21] };
        let cache = |level, kind: &str, kib, shared_by| Cache { level, kind: kind.to_owned(), kib, shared_by };
        let facts = MachineFacts::from_topology(
            Topology {
                model: "Example 9000".to_owned(),
                kernel: "7.2.0".to_owned(),
                usable: 6,
                online: (0..8).collect(),
                nodes: vec![node(0, &[0, 1, 2, 3]), node(1, &[4, 5, 7])],
                caches: vec![cache(1, "Data", 32, 1), cache(3, "Unified", 36_608, 8)],
            },
            43.26,
        );
        assert_eq!(facts.line(), "Example 9000, 6 CPUs, Linux 7.2.0, 1 PAUSE = 43.3 ns");
        let shown: Vec<String> = facts.lines().into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        assert_eq!(
            shown,
            [
                "CPU: Example 9000",
                "CPUs: 6 usable of 8 online",
                "NUMA nodes: 2 (node 0: CPUs 0-3; node 1: CPUs 4-5,7)",
                "caches: L1d 32 KiB, L3 35.8 MiB shared by 8 CPUs",
                "kernel: Linux 7.2.0",
                "1 PAUSE: 43.3 ns",
            ]
        );
    }
}
