//! The machine `this`: the host's own topology, with distances of its kind.
//!
//! The shape comes from sysfs. The latencies are those of a general machine of today, all marked E:
//! with them the machine is the same at every look, and for trying things out. For predictions
//! [`measured`] takes [`Costs`] that were measured on the host, marked M; two measurements differ.
//!
//! | cost | number of the file |
//! |---|---|
//! | a wake-up and a wait between threads of one CPU | a third `os.futex_wake_call`, a quarter `os.futex_wait_entry`, the rest `os.ctx_switch`: the parts that they have in `common.toml` |
//! | what a wake-up of an idle CPU takes from the waker, beyond that | `os.ipi_send` |
//! | from the wake-up to the woken thread's first step | less what comes before and after: `os.wake_ipi` |
//! | the same of a CPU that has idled long, beyond that | the exit latency of the deeper state |
//!
//! The scheduler's form and slices are those of the running kernel, by its release and the number
//! of CPUs: Linux multiplies its slices by 1 + log2 of at most eight.
//!
//! A CPU is in the deeper state if it idles for longer than the geometric mean of the two idle
//! times at which wake-ups were measured: [`Wake::SHORT`] and [`Wake::LONG`]. The other has no exit
//! latency.
//!
//! A virtual machine's interrupts go through its host, so that all four are many times a real
//! machine's.

use std::time::Duration;

use lockyard::platform::linux::topology::Topology;

use super::sheet::Sheet;
use crate::error::Error;

/// Describes the host.
pub(super) fn sheet() -> Result<Sheet, Error> {
    Sheet::read("this", &text(&Topology::read(), None))
}

/// What things cost on the host, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// The CPU's clock in GHz, while it computes.
    pub ghz: f64,
    /// A `PAUSE`.
    pub pause: f64,
    /// A read-modify-write of a line that the core has.
    pub rmw: f64,
    /// A line's way from one core to another that shares its last-level cache, if there is one: see
    /// [`hand_over::way`](crate::hand_over::way).
    pub transfer: Option<f64>,
    /// Whether a load takes over a line that its owner has written to: see [`TAKES`]. `None`: there
    /// is no such core to find out with.
    pub takes: Option<bool>,
    /// Whether a CPU that runs out of work takes a waiting thread of another at once. `None`: there
    /// is no other.
    pub idle_pulls: Option<bool>,
    /// A futex call that finds nobody to wake.
    pub wake_none: f64,
    /// `sched_yield` with nobody else to run.
    pub yield_call: f64,
    /// `clock_gettime`.
    pub clock: f64,
    /// A wake-up, a wait and the switch in between, of two threads on one CPU.
    pub hand_over: f64,
    /// Wake-ups of an idle CPU, if there is another CPU.
    pub wake: Option<Wake>,
}

/// Wake-ups of an idle CPU, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wake {
    /// The whole call of the waker.
    pub call: f64,
    /// From the begin of that call to the woken thread's first step, after a short idle time.
    pub short: f64,
    /// The same after a long one.
    pub long: f64,
}

impl Wake {
    /// A short idle time: programs' waits.
    pub const SHORT: Duration = Duration::from_micros(10);
    /// A long one.
    pub const LONG: Duration = Duration::from_micros(500);
}

/// A hand-over by two words, each written by one thread and read by the other, takes two ways; one
/// by a word that both read and change takes two where loads share, and one where they take over.
/// So loads take over if the first takes so many times the second.
pub const TAKES: f64 = 1.5;

/// Parts of [`Costs::hand_over`], and the scheduler's part of a wake-up call, as in `common.toml`.
const CALL: f64 = 0.32;
const ENTRY: f64 = 0.25;
const WAKER_SIDE: f64 = 0.73;

impl Costs {
    /// The lines of the file that replace typical ones: path, value, unit.
    fn numbers(&self) -> Vec<(&'static str, f64, &'static str)> {
        let (call, entry) = (CALL * self.hand_over, ENTRY * self.hand_over);
        let switch = self.hand_over - call - entry;
        let mut numbers = vec![
            ("clock.ghz", self.ghz, "GHz"),
            ("clock.pause", self.pause * self.ghz, "cycles"),
            ("atomic.rmw_own", self.rmw * self.ghz, "cycles"),
            ("os.futex_wake_call", call, "ns"),
            ("os.wake_waker_side", WAKER_SIDE * call, "ns"),
            ("os.futex_wait_entry", entry, "ns"),
            ("os.ctx_switch", switch, "ns"),
            ("os.futex_wake_none", self.wake_none.min(call), "ns"),
            ("os.yield_call", self.yield_call, "ns"),
            ("os.clock_read", self.clock, "ns"),
        ];
        numbers.extend(self.transfer.map(|ns| ("transfer.cluster", ns, "ns")));
        if let Some(wake) = self.wake {
            let before = call - WAKER_SIDE * call / 2.0;
            let way = (wake.short - before - switch / 2.0).max(1.0);
            numbers.extend([
                ("os.wake_ipi", way, "ns"),
                ("os.poll_wake", way, "ns"),
                ("os.ipi_send", (wake.call - call).max(0.0), "ns"),
            ]);
        }
        numbers
    }
}

/// The file of the host, with what was measured there.
pub fn measured(costs: &Costs) -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let host = Topology::read();
    let text = text(&host, Some(costs));
    text + &scheduler(&kernel, host.online.len())
}

/// The fair class of a `kernel`, such as `6.18.44`, on so many CPUs: lines of `[os]`.
fn scheduler(kernel: &str, cpus: usize) -> String {
    let mut numbers = kernel.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse::<u32>().unwrap_or(0));
    let release = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let factor = 1 + cpus.clamp(1, 8).ilog2();
    let us = [("cfs_latency", 6_000), ("cfs_min_slice", 750), ("cfs_wakeup_gran", 1_000)];
    let line = |(key, us): (&str, u32)| {
        let value = us * factor;
        format!("{key} = {{ v = {value}, lo = {value}, hi = {value}, u = \"us\", c = \"P\" }}\n")
    };
    let eevdf = u8::from(release >= (6, 6));
    us.map(line).concat() + &format!("eevdf = {{ v = {eevdf}, lo = 0, hi = 1, u = \"x\", c = \"P\" }}\n")
}

fn text(host: &Topology, costs: Option<&Costs>) -> String {
    // What `cargo run --release -p lockyard-work --example read_takes` says on an Emerald Rapids.
    let takes = costs.and_then(|costs| costs.takes).unwrap_or_else(|| host.model.contains("Intel"));
    let typical = typical(host, takes);
    let Some(costs) = costs else { return typical };
    let mut numbers = costs.numbers();
    let mut text = String::with_capacity(2 * typical.len());
    let mut section = "";
    let line = |key: &str, value: f64, unit: &str| {
        let [value, lo, hi] = [1.0, 0.8, 1.25].map(|share| (value * share * 1e3).round() / 1e3);
        format!("{key} = {{ v = {value}, lo = {lo}, hi = {hi}, u = \"{unit}\", c = \"M\" }}\n")
    };
    for old in typical.lines() {
        section = old.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(section);
        let key = old.split(" = ").next().unwrap_or_default();
        let at = numbers.iter().position(|(path, ..)| path.split_once('.') == Some((section, key)));
        match (at.map(|at| numbers.remove(at)), costs.wake) {
            (Some((_, value, unit)), _) => text += &line(key, value, unit),
            (None, Some(wake)) if key == "states_us" => {
                let exit = ((wake.long - wake.short) / 1e3).max(0.0);
                let between = (Wake::SHORT.as_secs_f64() * Wake::LONG.as_secs_f64()).sqrt() * 1e6;
                text += &format!("states_us = [[\"halt\", 0, 0], [\"idle\", {exit:.1}, {between:.1}]]\n");
            }
            _ => text += &format!("{old}\n"),
        }
    }
    text = text.replace("latencies are not measured", "measured on it");
    text += "[os]\n";
    for (path, value, unit) in numbers {
        if let Some(key) = path.strip_prefix("os.") {
            text += &line(key, value, unit);
        }
    }
    if let Some(pulls) = costs.idle_pulls.map(u8::from) {
        text += &format!("idle_pulls = {{ v = {pulls}, lo = 0, hi = 1, u = \"x\", c = \"M\" }}\n");
    }
    if costs.wake.is_some() {
        text += "idle_watches = { v = 0, lo = 0, hi = 1, u = \"x\", c = \"M\" }\n";
    }
    text
}

/// The host's file without measurements, but for whether loads take lines over.
fn typical(host: &Topology, takes: bool) -> String {
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
        takes = u8::from(takes),
    )
}

#[cfg(test)]
mod tests {
    use super::super::catalog;
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
        let sheet = Sheet::read("this", &text(&host, None)).unwrap();
        let shape = ["sockets", "clusters_per_socket", "cores_per_cluster", "smt"];
        let found = shape.map(|key| sheet.integer(&format!("topology.{key}"), 0..1000).unwrap());
        assert_eq!(found, [2, 2, 8, 2]);
        assert!(Sheet::read("this", &text(&Topology::default(), None)).is_ok());
    }

    #[test]
    fn what_was_measured_takes_the_place_of_what_is_typical() {
        let wake = Some(Wake { call: 6_000.0, short: 15_000.0, long: 17_000.0 });
        let costs = Costs {
            ghz: 2.0,
            pause: 20.0,
            rmw: 9.0,
            transfer: Some(60.0),
            takes: Some(true),
            idle_pulls: Some(false),
            wake_none: 200.0,
            yield_call: 500.0,
            clock: 22.0,
            hand_over: 4_000.0,
            wake,
        };
        let host = Topology { online: vec![0, 1], ..Topology::default() };
        let measured = catalog::read("this", &text(&host, Some(&costs))).unwrap();
        let number = |path: &str| measured.quantities()[path].value;
        assert_eq!((number("clock.pause"), number("transfer.cluster"), number("os.ipi_send")), (40.0, 60.0, 4_720.0));
        assert_eq!((number("coherence.read_takes"), number("os.idle_pulls")), (1.0, 0.0));
        let parts = ["os.futex_wake_call", "os.futex_wait_entry", "os.ctx_switch"].map(number);
        assert_eq!(parts.iter().sum::<f64>(), 4_000.0);
        assert!(measured.name().contains("measured on it"));
        let scheduled = text(&host, Some(&costs)) + &scheduler("6.18.44-x", 2);
        let scheduled = catalog::read("this", &scheduled).unwrap();
        assert!(scheduled.eevdf && !measured.eevdf && scheduler("6.5.0", 2).contains("eevdf = { v = 0"));
        assert_eq!(scheduled.quantities()["os.cfs_min_slice"].value, 1_500.0);
        // With one CPU there is nobody to wake elsewhere.
        let alone = Costs { transfer: None, wake: None, ..costs };
        assert!(catalog::read("this", &text(&Topology::default(), Some(&alone))).is_ok());
    }
}
