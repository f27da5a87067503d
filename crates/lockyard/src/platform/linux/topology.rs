//! CPUs, NUMA nodes and caches, read from sysfs.
//!
//! Locks ask for [`node_of`] and [`cache_of`]: tables filled on first use, without allocating.
//! People get [`Topology`].

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::*};
use std::{fs, string::String, vec::Vec};

#[cfg(not(miri))]
use rustix::thread::CpuSet;
use rustix::thread::sched_getaffinity;

use super::file::read as read_file;
use super::quota;

const CPUS: usize = 4096;

static NODE_OF: [AtomicU8; CPUS] = [const { AtomicU8::new(0) }; CPUS];
/// The highest node with a CPU list.
static LAST_NODE: AtomicU32 = AtomicU32::new(0);
static KNOWN: AtomicBool = AtomicBool::new(false);

/// Number of the last-level cache, + 1.
static CACHE_OF: [AtomicU8; CPUS] = [const { AtomicU8::new(0) }; CPUS];
static CACHES: AtomicU32 = AtomicU32::new(0);
static CACHES_KNOWN: AtomicBool = AtomicBool::new(false);

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

/// Reads all that locks may ask for, now: for a program that is about to give up the right to open
/// files.
pub fn read_ahead() {
    recount_cpus();
    nodes();
    caches();
}

/// CPUs this process may use: those it may run on, or fewer if its control groups limit its time;
/// at least 1.
pub fn usable_cpus() -> u32 {
    granted_of(allowed_cpus())
}

/// CPUs the calling thread may run on.
fn allowed_cpus() -> u32 {
    sched_getaffinity(None).map_or(1, |set| set.count().max(1))
}

fn granted_of(allowed: u32) -> u32 {
    quota::cpus().map_or(allowed, |granted| granted.min(allowed))
}

static USABLE: AtomicU32 = AtomicU32::new(0);

/// [`usable_cpus`] as counted last: when the program started, or by [`read_ahead`].
#[inline]
pub(super) fn cpus() -> u32 {
    match USABLE.load(Relaxed) {
        0 => recount_cpus(),
        cpus => cpus,
    }
}

/// Locks do not look again by themselves: they would make system calls that a sandbox may forbid by
/// then. Of the CPUs of threads the most that any look has seen count: one that is bound to a CPU
/// must not keep all from spinning. (A number that is too high costs little, since nobody spins for
/// an owner that is not running.)
fn recount_cpus() -> u32 {
    static MOST: AtomicU32 = AtomicU32::new(0);
    let allowed = allowed_cpus();
    let cpus = granted_of(MOST.fetch_max(allowed, Relaxed).max(allowed));
    USABLE.store(cpus, Relaxed);
    cpus
}

static CPU_END: AtomicU32 = AtomicU32::new(0);

/// The highest number of a CPU that this process may run on.
pub(super) fn last_usable_cpu() -> u32 {
    let last = |set: CpuSet| (0..CpuSet::MAX_CPU).rev().find(|&cpu| set.is_set(cpu));
    let last = sched_getaffinity(None).ok().and_then(last).unwrap_or(0) as u32;
    CPU_END.fetch_max(last + 1, Relaxed);
    last
}

/// One more than the highest [`last_usable_cpu`] so far: that of the start.
pub(super) fn cpu_end() -> u32 {
    match CPU_END.load(Relaxed) {
        0 => last_usable_cpu() + 1,
        end => end,
    }
}

/// The last-level cache of `cpu`, numbered in the order of their first CPUs; 0 where sysfs does not
/// say.
#[inline]
pub fn cache_of(cpu: u32) -> u32 {
    if !CACHES_KNOWN.load(Acquire) {
        learn_caches();
    }
    u32::from(CACHE_OF[cpu as usize % CPUS].load(Relaxed)).saturating_sub(1)
}

/// How many last-level caches there are; 1 where sysfs knows none.
#[inline]
pub fn caches() -> u32 {
    if !CACHES_KNOWN.load(Acquire) {
        learn_caches();
    }
    CACHES.load(Relaxed).max(1)
}

/// Fills the table of nodes. Several threads may do so at once; they write the same.
///
/// They hold a lock, or wait for one: only what is online is asked for. (To try all 4,096 CPUs that
/// there could be is eight thousand system calls.)
#[cold]
fn learn() {
    let (mut online, mut text) = ([0u8; 1024], [0u8; 1024]);
    for_each_cpu(read_file(c"/sys/devices/system/node/online", &mut online).unwrap_or_default(), |node| {
        let known = u8::try_from(node).ok();
        let list = known.and_then(|_| read_numbered("/sys/devices/system/node/node", node, "/cpulist", &mut text));
        let Some(list) = list else { return };
        LAST_NODE.fetch_max(node as u32, Relaxed);
        for_each_cpu(list, |cpu| {
            if let Some(entry) = NODE_OF.get(cpu) {
                entry.store(node as u8, Relaxed);
            }
        });
    });
    KNOWN.store(true, Release);
}

/// Fills the table of caches: as [`learn`].
#[cold]
fn learn_caches() {
    let mut online = [0u8; 1024];
    let online = read_file(c"/sys/devices/system/cpu/online", &mut online).unwrap_or_default();
    CACHES.store(number_caches(online, &CACHE_OF, shared_with).into(), Relaxed);
    CACHES_KNOWN.store(true, Release);
}

/// Tells of a CPU which share its last-level cache, in the text that it is given.
type SharedWith = for<'t> fn(usize, &'t mut [u8]) -> Option<&'t [u8]>;

/// Numbers the caches of the CPUs in the list `online`, from 1 on, and returns how many there are.
/// Asks once for each cache.
fn number_caches(online: &[u8], table: &[AtomicU8], shared_with: SharedWith) -> u8 {
    let (mut caches, mut text) = (0u8, [0u8; 1024]);
    for_each_cpu(online, |cpu| {
        let found = table.get(cpu).map_or(0, |entry| entry.load(Relaxed));
        if found != 0 {
            // It shares the cache of an earlier CPU.
            caches = caches.max(found);
            return;
        }
        let Some(list) = shared_with(cpu, &mut text) else { return };
        caches = caches.saturating_add(1);
        for_each_cpu(list, |cpu| {
            if let Some(entry) = table.get(cpu) {
                entry.store(caches, Relaxed);
            }
        });
    });
    caches
}

fn shared_with(cpu: usize, text: &mut [u8]) -> Option<&[u8]> {
    let folder = "/sys/devices/system/cpu/cpu";
    // The outermost that there is.
    let mut lists = ["/cache/index3/shared_cpu_list", "/cache/index2/shared_cpu_list"].into_iter();
    let outermost = lists.find(|list| read_numbered(folder, cpu, list, text).is_some())?;
    read_numbered(folder, cpu, outermost, text)
}

/// Reads the file called `before`, `number`, `after` into `text`, without allocating.
fn read_numbered<'t>(before: &str, number: usize, after: &str, text: &'t mut [u8]) -> Option<&'t [u8]> {
    let mut digits = [0u8; 5];
    let mut rest = number;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let leading = digits.iter().take(digits.len() - 1).take_while(|&&digit| digit == b'0').count();
    let mut path = [0u8; 80];
    let name = before.bytes().chain(digits.into_iter().skip(leading)).chain(after.bytes());
    path.iter_mut().zip(name).for_each(|(to, from)| *to = from);
    read_file(core::ffi::CStr::from_bytes_until_nul(&path).ok()?, text)
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
    /// CPUs this process may use: [`usable_cpus`].
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
        let online = cpu_list("/sys/devices/system/cpu/online");
        let mut nodes: Vec<Node> = cpu_list("/sys/devices/system/node/online")
            .into_iter()
            .map(|id| {
                let folder = std::format!("/sys/devices/system/node/node{id}");
                let distances = text(&std::format!("{folder}/distance"));
                Node {
                    id,
                    cpus: cpu_list(&std::format!("{folder}/cpulist")),
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
            shared_by: cpu_list(&std::format!("{folder}/shared_cpu_list")).len().max(1) as u32,
        })
    }
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn cpu_list(path: &str) -> Vec<u32> {
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

    #[test]
    fn caches_are_numbered_without_a_gap() {
        let online = Topology::read().online;
        let mut seen = Vec::from_iter(online.iter().map(|&cpu| cache_of(cpu)));
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.iter().all(|&cache| cache < caches()));
        assert!((1..=online.len().max(1) as u32).contains(&caches()), "{}", caches());
        if let Some(last) = Topology::read().caches.last() {
            assert!(seen.len() >= online.len() / last.shared_by as usize);
        }
    }

    /// Others wait meanwhile. Each CPU that there could be was asked for, 4,096 of them.
    #[test]
    fn only_cpus_that_are_online_are_asked_for() {
        static ASKED: AtomicU32 = AtomicU32::new(0);
        fn shared_with(cpu: usize, text: &mut [u8]) -> Option<&[u8]> {
            ASKED.fetch_add(1, Relaxed);
            let list = match cpu {
                0 | 1 => b"0-1",
                4 | 5 => b"4-5",
                _ => return None,
            };
            text[..3].copy_from_slice(list);
            Some(&text[..3])
        }
        let table = [const { AtomicU8::new(0) }; 8];
        let numbers = || Vec::from_iter(table.iter().map(|entry| entry.load(Relaxed)));
        assert_eq!(number_caches(b"0-1,4-5,7,9\n", &table, shared_with), 2);
        assert_eq!((numbers(), ASKED.load(Relaxed)), (std::vec![1, 1, 0, 0, 2, 2, 0, 0], 4));
        // Another thread that comes to it has the same result, and asks for those without a cache
        // only.
        assert_eq!(number_caches(b"0-1,4-5,7,9\n", &table, shared_with), 2);
        assert_eq!(ASKED.load(Relaxed), 6);
    }

    #[test]
    fn files_with_a_number_in_their_name() {
        let mut text = [0u8; 64];
        assert!(read_numbered("/proc/sys/kernel/random/boot_id", 7, "", &mut text).is_none());
        assert!(read_numbered("/proc/", std::process::id() as usize % 100_000, "/comm", &mut text).is_some());
        assert!(read_numbered("/proc/self/task/../fdinfo/", 0, "", &mut text).is_some());
    }
}
