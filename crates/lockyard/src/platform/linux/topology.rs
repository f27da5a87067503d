//! CPUs, NUMA nodes and caches, read from sysfs.
//!
//! Locks ask one thing, [`node_of`]: a table filled on first use, without allocating. People get [`Topology`].

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::*};
use std::{fs, string::String, vec::Vec};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::read;
use rustix::thread::sched_getaffinity;

const CPUS: usize = 4096;
const NODES: usize = 256;

static NODE_OF: [AtomicU8; CPUS] = [const { AtomicU8::new(0) }; CPUS];
/// The highest node with a CPU list.
static LAST_NODE: AtomicU32 = AtomicU32::new(0);
static KNOWN: AtomicBool = AtomicBool::new(false);

/// The NUMA node of `cpu`; 0 where sysfs does not say.
#[inline]
pub fn node_of(cpu: u32) -> u32 {
    if !KNOWN.load(Acquire) {
        learn();
    }
    u32::from(NODE_OF[cpu as usize % CPUS].load(Relaxed))
}

/// One more than the highest node; 1 where sysfs knows none.
#[inline]
pub fn nodes() -> u32 {
    if !KNOWN.load(Acquire) {
        learn();
    }
    LAST_NODE.load(Relaxed) + 1
}

/// CPUs this process may run on; at least 1.
pub fn usable_cpus() -> u32 {
    sched_getaffinity(None).map_or(1, |set| set.count().max(1))
}

/// Fills the table. Several threads may do so at once; they write the same.
#[cold]
fn learn() {
    for node in 0..NODES {
        let mut path = [0u8; 48];
        let digits = [b'0' + (node / 100) as u8, b'0' + (node / 10 % 10) as u8, b'0' + (node % 10) as u8];
        let number = digits.split_at(if node < 10 { 2 } else { usize::from(node < 100) }).1;
        let parts = [b"/sys/devices/system/node/node".as_slice(), number, b"/cpulist\0"];
        for (to, from) in path.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        let Ok(path) = core::ffi::CStr::from_bytes_until_nul(&path) else { continue };
        let Ok(file) = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else { continue };
        let mut text = [0u8; 1024];
        let Ok(length) = read(&file, &mut text[..]) else { continue };
        LAST_NODE.fetch_max(node as u32, Relaxed);
        for_each_cpu(&text[..length], |cpu| {
            if let Some(entry) = NODE_OF.get(cpu) {
                entry.store(node as u8, Relaxed);
            }
        });
    }
    KNOWN.store(true, Release);
}

/// Calls `each` with every number of a kernel list such as `0-3,8,10-11`.
fn for_each_cpu(list: &[u8], mut each: impl FnMut(usize)) {
    for part in list.trim_ascii().split(|&byte| byte == b',') {
        let mut ends = part.splitn(2, |&byte| byte == b'-').map(number);
        if let Some(Some(first)) = ends.next() {
            let last = ends.next().flatten().unwrap_or(first);
            (first..=last.min(first + CPUS)).for_each(&mut each);
        }
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    core::str::from_utf8(digits).ok()?.trim().parse().ok()
}

/// A machine, described for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// Processor model, or empty.
    pub model: String,
    /// Kernel release, or empty.
    pub kernel: String,
    /// CPUs this process may use.
    pub usable: u32,
    /// Online CPUs.
    pub online: Vec<u32>,
    /// NUMA nodes with their CPUs; one node with all CPUs where sysfs knows none.
    pub nodes: Vec<Node>,
    /// Caches of the first CPU, innermost first.
    pub caches: Vec<Cache>,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Number.
    pub id: u32,
    /// Its CPUs.
    pub cpus: Vec<u32>,
    /// Distances to all nodes (10 = local), as the firmware tells them.
    pub distances: Vec<u32>,
}

/// A cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// 1 for L1 …
    pub level: u32,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// Size in KiB.
    pub kib: u32,
    /// How many CPUs share it.
    pub shared_by: u32,
}

impl Topology {
    /// Reads this machine. Missing files leave fields empty; never fails.
    pub fn read() -> Self {
        let online = cpus("/sys/devices/system/cpu/online");
        let mut nodes: Vec<Node> = cpus("/sys/devices/system/node/online")
            .into_iter()
            .map(|id| {
                let folder = std::format!("/sys/devices/system/node/node{id}");
                let distances = text(&std::format!("{folder}/distance"));
                Node {
                    id,
                    cpus: cpus(&std::format!("{folder}/cpulist")),
                    distances: distances.split_whitespace().filter_map(|word| word.parse().ok()).collect(),
                }
            })
            .collect();
        if nodes.is_empty() {
            nodes.push(Node { id: 0, cpus: online.clone(), distances: std::vec![10] });
        }
        let first = online.first().copied().unwrap_or(0);
        let caches = (0..8)
            .map_while(|index| Cache::read(&std::format!("/sys/devices/system/cpu/cpu{first}/cache/index{index}")))
            .collect();
        let model = text("/proc/cpuinfo")
            .lines()
            .find_map(|line| line.strip_prefix("model name").and_then(|rest| rest.split_once(':')))
            .map(|(_, name)| String::from(name.trim()))
            .unwrap_or_default();
        Self {
            model,
            kernel: String::from(text("/proc/sys/kernel/osrelease").trim()),
            usable: usable_cpus(),
            online,
            nodes,
            caches,
        }
    }
}

impl Cache {
    fn read(folder: &str) -> Option<Self> {
        let field = |name: &str| text(&std::format!("{folder}/{name}"));
        let size = field("size");
        let kib = match size.trim().strip_suffix('M') {
            Some(mib) => mib.parse::<u32>().ok()? * 1024,
            None => size.trim().trim_end_matches('K').parse().ok()?,
        };
        Some(Self {
            level: field("level").trim().parse().ok()?,
            kind: String::from(field("type").trim()),
            kib,
            shared_by: cpus(&std::format!("{folder}/shared_cpu_list")).len().max(1) as u32,
        })
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn cpus(path: &str) -> Vec<u32> {
    let mut list = Vec::new();
    for_each_cpu(text(path).as_bytes(), |cpu| list.push(cpu as u32));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists() {
        let parse = |list: &str| {
            let mut all = Vec::new();
            for_each_cpu(list.as_bytes(), |cpu| all.push(cpu));
            all
        };
        assert_eq!(parse("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse("5"), [5]);
        assert!(parse("\n").is_empty());
        assert!(parse("x-y").is_empty());
    }

    #[test]
    fn the_table_agrees_with_the_description() {
        let machine = Topology::read();
        assert!(machine.usable >= 1 && !machine.nodes.is_empty());
        for node in &machine.nodes {
            assert!(node.id < nodes());
            for &cpu in &node.cpus {
                assert_eq!(node_of(cpu), node.id);
            }
        }
    }
}
