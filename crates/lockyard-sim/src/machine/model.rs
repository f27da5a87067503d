//! A machine as the engine wants it: integers in picoseconds, ratios in 1/1024.
//!
//! Built once from a sheet of a machine and the common one; decimal numbers end here. Costs
//! (`spec/simulation.md` 4.2, 4.3), with L(a, b) the measured transfer from core a to core b:
//!
//! | operation of core c | cost |
//! |---|---|
//! | hit | `l1`; read-modify-write on an owned line: `rmw_own`; line last touched by a sibling thread: `smt` |
//! | load, modified at o | `load_from_modified` × L(o, c) |
//! | load, clean copies | `load_shared_same` × L within the sharing domain, else `load_shared_remote` × L(nearest copy, c); without supply of clean lines, or with a directory in memory: memory |
//! | load, no copy | memory(c, home) |
//! | read-modify-write or store, modified at o | L(o, c), and the home's detour (`directory`) |
//! | the same, shared | `rmw_on_shared` × max L(copy, c) |
//! | any operation | and `instructions` for what surrounds it |
//! | a workload's own code | `workload_code` in each section, and again after each turn |

use std::collections::BTreeMap;

use serde::Serialize;

use super::directory::Directory;
pub use super::distance::Distance;
use super::distance::Reach;
use super::sheet::{Plain, Quantity, Sheet};
use super::topology::{Llc, Topology};
use crate::engine::heap::Ps;
use crate::error::Error;

/// One in fixed-point ratios.
pub(crate) const ONE: u64 = 1024;

/// Who supplies a line that several cores have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// A clean line is forwarded by the core that had it last.
    Mesif,
    /// A dirty line is supplied by its owner, a clean one by memory.
    Moesi,
    /// A clean line is supplied by memory.
    Mesi,
}

/// An idle state.
#[derive(Debug, Clone, Serialize)]
pub struct IdleState {
    /// Its name.
    pub name: String,
    /// Time to leave it.
    pub exit: Ps,
    /// Shortest stay for which it pays.
    pub residency: Ps,
}

/// Costs of the operating system.
#[derive(Debug, Clone)]
pub(crate) struct Os {
    pub(crate) ctx_switch: Ps,
    pub(crate) wake_waker_side: Ps,
    pub(crate) wake_ipi: Ps,
    pub(crate) futex_wait_entry: Ps,
    pub(crate) futex_wake_call: Ps,
    pub(crate) futex_wake_none: Ps,
    pub(crate) migration_cost: Ps,
    pub(crate) cfs_latency: Ps,
    pub(crate) cfs_min_slice: Ps,
    pub(crate) cfs_wakeup_gran: Ps,
    pub(crate) rr_slice: Ps,
    pub(crate) yield_call: Ps,
    pub(crate) timer_slack: Ps,
    pub(crate) clock_read: Ps,
    pub(crate) tick_read: Ps,
    /// Whether an idle CPU leaves the task that a queue woke last where it is.
    pub(crate) buddies_stay: bool,
    /// What the timer's interrupt takes.
    pub(crate) tick_cost: Ps,
    /// How long its handler keeps what all CPUs share.
    pub(crate) tick_hold: Ps,
    /// Lines of a task and its run queue that a wake-up moves.
    pub(crate) wake_lines: u64,
    pub(crate) poll_wake: Ps,
    pub(crate) polite: Ps,
    /// Whether a wake-up looks for an idle CPU if the task's own is busy.
    pub(crate) idle_search: bool,
    /// Whether an idle CPU wakes when its flags are written, without an interrupt.
    pub(crate) idle_watches: bool,
    pub(crate) tick: Ps,
}

/// A machine.
#[derive(Debug, Clone)]
pub struct Model {
    id: String,
    mode: Option<String>,
    name: String,
    topology: Topology,
    idle: Vec<IdleState>,
    quantities: BTreeMap<String, Quantity>,
    fingerprint: u64,
    pub(crate) os: Os,
    pub(crate) protocol: Protocol,
    /// Stores may become visible out of order.
    pub(crate) weak_stores: bool,
    pub(crate) cycle: Ps,
    pub(crate) l1: Ps,
    pub(crate) l3: Ps,
    pub(crate) rmw_own: Ps,
    pub(crate) pause: Ps,
    /// Distance between two polls of a spinning thread.
    pub(crate) poll: Ps,
    /// Spinning threads wait for the line's event, and wake so long after it.
    pub(crate) wfe_wake: Option<Ps>,
    pub(crate) sibling: Ps,
    pub(crate) fill: Ps,
    pub(crate) home_fill: Ps,
    pub(crate) load_from_modified: u64,
    pub(crate) load_shared_same: u64,
    pub(crate) load_shared_remote: u64,
    pub(crate) rmw_on_shared: u64,
    pub(crate) occupancy: u64,
    pub(crate) flight: u64,
    /// The last part of a transfer: the data's way from the old copy.
    pub(crate) data_share: u64,
    /// It is drawn for each request, evenly, from this much below to this much above.
    pub(crate) data_spread: u64,
    /// Share of the loads of a line that its owner has written to, by which the line moves instead
    /// of being shared.
    pub(crate) read_takes: u64,
    /// How often an owner may still use a line that another core's request has been committed for.
    pub(crate) burst_max: u32,
    /// Jitter: transfers are multiplied by ONE ± this, evenly.
    pub(crate) jitter: u64,
    /// Instructions around each memory operation.
    pub(crate) step: Ps,
    /// Instructions of a workload's own code, in a section and after a turn.
    pub(crate) around: Ps,
    pub(crate) store_buffer: usize,
    pub(crate) evict: Ps,
    pub(crate) smt_spin: u64,
    pub(crate) smt_busy: u64,
    clusters: usize,
    pub(crate) cluster_of: Vec<u16>,
    pub(crate) llc_of: Vec<u16>,
    pub(crate) node_of: Vec<u16>,
    /// Transfers between clusters; on the diagonal between two cores of one.
    transfer: Vec<u32>,
    distance: Vec<Distance>,
    pub(crate) reach: Reach,
    /// What the home adds to a way between sockets; the tables have its `read` already.
    pub(crate) directory: Option<Directory>,
    /// Memory latency, by cluster and home node.
    memory: Vec<u32>,
}

/// Reads quantities in the engine's units.
struct Reader<'a> {
    machine: &'a Sheet,
    common: &'a Sheet,
    cycle_ps: f64,
}

impl Reader<'_> {
    fn sheet(&self, path: &str) -> &Sheet {
        if self.machine.quantities.contains_key(path) || !self.common.quantities.contains_key(path) {
            self.machine
        } else {
            self.common
        }
    }

    fn value(&self, path: &str) -> Result<f64, Error> {
        self.sheet(path).quantity(path).map(|quantity| quantity.value)
    }

    fn has(&self, path: &str) -> bool {
        self.sheet(path).quantities.contains_key(path)
    }

    fn ps(&self, path: &str) -> Result<Ps, Error> {
        let quantity = self.sheet(path).quantity(path)?;
        let unit = match quantity.unit.as_str() {
            "cycles" => self.cycle_ps,
            "us" => 1e6,
            "ms" => 1e9,
            _ => 1e3,
        };
        Ok((quantity.value * unit).round() as Ps)
    }

    fn ps_or(&self, path: &str, default: Ps) -> Result<Ps, Error> {
        if self.has(path) { self.ps(path) } else { Ok(default) }
    }

    fn ratio(&self, path: &str) -> Result<u64, Error> {
        Ok((self.value(path)? * ONE as f64).round() as u64)
    }
}

impl Model {
    /// Builds a machine. `mode` chooses among the firmware modes of the machine.
    pub(crate) fn build(machine: &Sheet, common: &Sheet, mode: Option<&str>) -> Result<Self, Error> {
        super::schema::check_machine(machine)?;
        super::schema::check_common(common)?;
        let (topology, mode) = topology(machine, mode)?;
        let ghz = machine.quantity("clock.ghz")?.value;
        if ghz < 0.1 {
            return Err(machine.complain(machine.line_of("clock.ghz"), "'clock.ghz' must be at least 0.1"));
        }
        let reader = Reader { machine, common, cycle_ps: 1e3 / ghz };
        let mut quantities = common.quantities.clone();
        quantities.extend(machine.quantities.iter().map(|(path, quantity)| (path.clone(), quantity.clone())));
        quantities.retain(|path, _| !path.starts_with("facts."));
        let pause = reader.ps_or("clock.pause_ns", reader.ps("clock.pause")?)?;
        let cores = topology.cores();
        let mut model = Self {
            id: machine.text("id")?.to_owned(),
            mode,
            name: machine.text("name")?.to_owned(),
            idle: idle_states(machine, &reader)?,
            quantities,
            fingerprint: 0,
            os: os(&reader)?,
            protocol: match machine.text("coherence.protocol")? {
                "mesif" => Protocol::Mesif,
                "moesi" => Protocol::Moesi,
                "mesi" => Protocol::Mesi,
                _ => {
                    let line = machine.line_of("coherence.protocol");
                    return Err(machine.complain(line, "'coherence.protocol' must be mesif, moesi or mesi"));
                }
            },
            weak_stores: match machine.text("isa")? {
                "x86_64" => false,
                "aarch64" => true,
                _ => return Err(machine.complain(machine.line_of("isa"), "'isa' must be x86_64 or aarch64")),
            },
            cycle: reader.cycle_ps.round() as Ps,
            l1: reader.ps("cache.l1")?,
            l3: reader.ps_or("cache.l3", reader.ps("cache.l2")?)?,
            rmw_own: reader.ps("atomic.rmw_own")?,
            pause,
            poll: reader.ps("model.spin_iter_overhead")? + pause,
            wfe_wake: if reader.has("clock.wfe_wake") { Some(reader.ps("clock.wfe_wake")?) } else { None },
            sibling: if topology.smt > 1 { reader.ps("transfer.smt")? } else { reader.ps("atomic.rmw_own")? },
            fill: reader.ps("coherence.fill")?,
            home_fill: reader.ps("coherence.home")?,
            load_from_modified: reader.ratio("model.load_from_modified")?,
            load_shared_same: reader.ratio("model.load_shared_same")?,
            load_shared_remote: reader.ratio("model.load_shared_remote")?,
            rmw_on_shared: reader.ratio("model.rmw_on_shared")?,
            occupancy: reader.ratio("model.occupancy_ratio")?,
            flight: if reader.has("atomic.request_flight_share") {
                reader.ratio("atomic.request_flight_share")?.min(ONE)
            } else {
                reader.ratio("model.request_flight_share")?.min(ONE)
            },
            data_share: reader.ratio("model.data_share")?.min(ONE),
            data_spread: reader.ratio("model.data_spread")?.min(ONE),
            read_takes: reader
                .ratio(if reader.has("coherence.read_takes") { "coherence.read_takes" } else { "model.read_takes" })?
                .min(ONE),
            burst_max: reader.value(if reader.has("atomic.burst_max") {
                "atomic.burst_max"
            } else {
                "model.burst_max"
            })? as u32,
            jitter: reader.ratio("model.latency_jitter")?.min(ONE / 2),
            step: reader.ps("model.instructions")?,
            around: reader.ps("model.workload_code")?,
            store_buffer: (reader.value("model.store_buffer_entries")? as usize).max(1),
            evict: reader.ps("model.t_evict")?,
            smt_spin: reader.ratio("model.smt_spin")?,
            smt_busy: reader.ratio("model.smt_busy")?,
            clusters: topology.clusters(),
            cluster_of: (0..cores).map(|core| topology.cluster_of(core) as u16).collect(),
            llc_of: (0..cores).map(|core| topology.llc_of(core) as u16).collect(),
            node_of: (0..cores).map(|core| topology.node_of(core) as u16).collect(),
            transfer: Vec::new(),
            distance: Vec::new(),
            reach: Reach::default(),
            directory: None,
            memory: Vec::new(),
            topology,
        };
        model.lay_out(&reader)?;
        model.reach = Reach::new(model.clusters, |a, b| model.between(a, b));
        model.fingerprint = model.digest();
        Ok(model)
    }

    /// Fills the tables of distances.
    fn lay_out(&mut self, reader: &Reader<'_>) -> Result<(), Error> {
        let topology = &self.topology;
        if Directory::wanted(reader.machine)? {
            let far = |hops: &str| reader.ps_or(&format!("memory.{hops}"), 0);
            let memory = [reader.ps("memory.local")?, far("hop1")?, far("hop2")?];
            self.directory = Some(Directory::new(topology, memory, self.l3));
        }
        let matrix = matrix(reader.machine, self.clusters)?;
        let first_core = |cluster: usize| cluster * topology.cores_per_cluster;
        let level = |names: &[&str]| -> Result<Ps, Error> {
            let found = names.iter().find(|name| reader.has(&format!("transfer.{name}")));
            reader.ps(&format!("transfer.{}", found.unwrap_or(&names[names.len() - 1])))
        };
        for a in 0..self.clusters {
            for b in 0..self.clusters {
                let (core_a, core_b) = (first_core(a), first_core(b));
                let hops = topology.hops(topology.socket_of(core_a), topology.socket_of(core_b));
                let (distance, ps) = if a == b {
                    (Distance::Cluster, level(&["cluster", "node", "socket"])?)
                } else if topology.die_of(core_a) == topology.die_of(core_b) && topology.dies_per_socket > 1 {
                    (Distance::Die, level(&["node", "socket"])?)
                } else {
                    match hops {
                        0 => (Distance::Socket, level(&["socket"])?),
                        1 => (Distance::Hop1, level(&["hop1"])?),
                        _ => (Distance::Hop2, level(&["hop2"])?),
                    }
                };
                let ps = matrix.as_ref().map_or(ps, |rows| (rows[a][b] * 1e3).round() as Ps);
                let ps = ps + self.directory.as_ref().map_or(0, |directory| directory.read(a as u16, b as u16));
                self.distance.push(distance);
                self.transfer.push(u32::try_from(ps).map_err(|_| {
                    reader.machine.complain(reader.machine.line_of("transfer.socket"), "a transfer must be below 4 ms")
                })?);
            }
            for node in 0..topology.nodes {
                let core = first_core(a);
                let home = node * (topology.cores() / topology.nodes);
                let ps = match topology.hops(topology.socket_of(core), topology.socket_of(home)) {
                    0 if topology.die_of(core) != topology.die_of(home) && reader.has("memory.other_die") => {
                        reader.ps("memory.other_die")?
                    }
                    0 => reader.ps("memory.local")?,
                    1 => reader.ps("memory.hop1")?,
                    _ => reader.ps("memory.hop2")?,
                };
                self.memory.push(ps as u32);
            }
        }
        Ok(())
    }

    /// L(a, b) between different cores.
    #[inline(always)]
    pub(crate) fn transfer(&self, a: u16, b: u16) -> Ps {
        let (a, b) = (self.cluster_of[usize::from(a)], self.cluster_of[usize::from(b)]);
        self.between(a, b)
    }

    /// L from core `a` to each cluster.
    #[inline(always)]
    pub(crate) fn transfers_from(&self, a: u16) -> &[u32] {
        let first = usize::from(self.cluster_of[usize::from(a)]) * self.clusters;
        &self.transfer[first..first + self.clusters]
    }

    /// L between two clusters.
    #[inline(always)]
    pub(crate) fn between(&self, a: u16, b: u16) -> Ps {
        Ps::from(self.transfer[usize::from(a) * self.clusters + usize::from(b)])
    }

    /// The class of the distance between two cores.
    #[inline(always)]
    pub(crate) fn distance(&self, a: u16, b: u16) -> Distance {
        if a == b {
            return Distance::Sibling;
        }
        let (a, b) = (self.cluster_of[usize::from(a)], self.cluster_of[usize::from(b)]);
        self.distance[usize::from(a) * self.clusters + usize::from(b)]
    }

    /// What a load from memory costs.
    #[inline(always)]
    pub(crate) fn memory(&self, core: u16, home: u16) -> Ps {
        let cluster = usize::from(self.cluster_of[usize::from(core)]);
        Ps::from(self.memory[cluster * self.topology.nodes + usize::from(home)])
    }

    /// The machine's id, with its mode: `epyc9654_2s:nps4`.
    pub fn label(&self) -> String {
        match &self.mode {
            Some(mode) => format!("{}:{mode}", self.id),
            None => self.id.clone(),
        }
    }

    /// What it is, in one line.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its shape.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Its idle states, the shallowest first.
    pub fn idle_states(&self) -> &[IdleState] {
        &self.idle
    }

    /// Every number of the machine and of what all machines share, by dotted path.
    pub fn quantities(&self) -> &BTreeMap<String, Quantity> {
        &self.quantities
    }

    /// A digest of everything that decides results: names a machine file's version.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Measured transfer between two cores, in nanoseconds; zero for a core and itself.
    pub fn transfer_ns(&self, a: usize, b: usize) -> f64 {
        if a == b { 0.0 } else { self.transfer(a as u16, b as u16) as f64 / 1e3 }
    }

    /// What one PAUSE takes, in nanoseconds.
    pub fn pause_ns(&self) -> f64 {
        self.pause as f64 / 1e3
    }

    fn digest(&self) -> u64 {
        let mut text = self.label();
        for (path, quantity) in &self.quantities {
            text.push_str(&format!(";{path}={}{}", quantity.value, quantity.unit));
        }
        text.push_str(&format!(";{:?};{:?};{:?}", self.topology, self.transfer, self.idle));
        if let Some(directory) = &self.directory {
            text.push_str(&format!(";{directory:?}"));
        }
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    }
}

fn topology(sheet: &Sheet, mode: Option<&str>) -> Result<(Topology, Option<String>), Error> {
    let sockets = sheet.integer("topology.sockets", 1..65)?;
    let clusters_per_socket = sheet.integer("topology.clusters_per_socket", 1..257)?;
    let cores_per_cluster = sheet.integer("topology.cores_per_cluster", 1..257)?;
    let smt = sheet.integer("topology.smt", 1..9)?;
    let complain = |path: &str, why: String| Err(sheet.complain(sheet.line_of(path), why));
    let cpus = sockets * clusters_per_socket * cores_per_cluster * smt;
    if cpus > 1024 {
        return complain("topology.sockets", format!("{cpus} CPUs; at most 1024 can be simulated"));
    }
    let modes = sheet.names_below("topology.modes");
    let mode = match mode {
        Some(mode) => Some(mode.to_owned()),
        None => sheet.text_if("topology.default_mode")?.map(str::to_owned),
    };
    let nodes = match &mode {
        None => sheet.integer("topology.nodes", 1..257)?,
        Some(mode) if modes.contains(mode) => sheet.integer(&format!("topology.modes.{mode}"), 1..257)?,
        Some(mode) if modes.is_empty() => {
            return Err(Error::Machine(format!("{} has no modes, '{mode}' was asked for", sheet.text("id")?)));
        }
        Some(mode) => {
            let known = modes.join(", ");
            return Err(Error::Machine(format!("{} has no mode '{mode}'; modes are {known}", sheet.text("id")?)));
        }
    };
    let dies_per_socket = sheet.integer_or("topology.dies_per_socket", 1..65, 1)?;
    if clusters_per_socket % dies_per_socket != 0 {
        return complain("topology.dies_per_socket", "dies must divide the clusters of a socket evenly".to_owned());
    }
    if nodes % sockets != 0 || (sockets * clusters_per_socket * cores_per_cluster) % nodes != 0 {
        return complain("topology.nodes", "NUMA nodes must divide the cores of each socket evenly".to_owned());
    }
    let one_hop = sheet.list("topology.one_hop", "a list of socket offsets", |item| match item {
        Plain::Integer(number) => usize::try_from(*number).ok(),
        _ => None,
    })?;
    let llc = match sheet.text("topology.llc")? {
        "cluster" => Llc::Cluster,
        "die" => Llc::Die,
        "socket" => Llc::Socket,
        _ => return complain("topology.llc", "'topology.llc' must be cluster, die or socket".to_owned()),
    };
    let fill_whole_sockets = match sheet.text_if("topology.fill")? {
        None | Some("cores") => false,
        Some("socket-threads") => true,
        Some(_) => return complain("topology.fill", "'topology.fill' must be cores or socket-threads".to_owned()),
    };
    let one_hop = one_hop.unwrap_or_default();
    let topology = Topology {
        sockets,
        dies_per_socket,
        clusters_per_socket,
        cores_per_cluster,
        smt,
        nodes,
        llc,
        one_hop,
        fill_whole_sockets,
    };
    Ok((topology, mode))
}

fn idle_states(sheet: &Sheet, reader: &Reader<'_>) -> Result<Vec<IdleState>, Error> {
    let wanted = "a list of [\"name\", exit us, residency us], no time above 1000000";
    let states = sheet.list("idle.states_us", wanted, |item| {
        let Plain::List(parts) = item else { return None };
        let us = |part: &Plain| match part {
            Plain::Integer(number @ 0..=1_000_000) => Some(*number as Ps * 1_000_000),
            Plain::Float(number) if (0.0..=1e6).contains(number) => Some((number * 1e6).round() as Ps),
            _ => None,
        };
        match parts.as_slice() {
            [Plain::Text(name), exit, residency] => {
                Some(IdleState { name: name.clone(), exit: us(exit)?, residency: us(residency)? })
            }
            _ => None,
        }
    })?;
    let line = sheet.line_of("idle.states_us");
    let states = states.ok_or_else(|| sheet.complain(line, "missing field 'idle.states_us'"))?;
    if states.is_empty() || !states.is_sorted_by_key(|state| state.residency) {
        return Err(sheet.complain(line, "'idle.states_us' must name at least one state, by rising residency"));
    }
    let mut states = states;
    if reader.has("idle.deepest") {
        // Zero leaves polling only.
        states.truncate(reader.value("idle.deepest")? as usize);
    }
    Ok(states)
}

/// The measured matrix between clusters, if there is one that applies.
fn matrix(sheet: &Sheet, clusters: usize) -> Result<Option<Vec<Vec<f64>>>, Error> {
    if !sheet.flag("matrix.applies")? {
        return Ok(None);
    }
    let wanted = format!("{clusters} rows of {clusters} positive numbers");
    let rows = sheet.list("matrix.ns", &wanted, |row| {
        let Plain::List(row) = row else { return None };
        let number = |item: &Plain| match item {
            Plain::Integer(number) if *number > 0 => Some(*number as f64),
            Plain::Float(number) if *number > 0.0 => Some(*number),
            _ => None,
        };
        let row: Option<Vec<f64>> = row.iter().map(number).collect();
        row.filter(|row| row.len() == clusters)
    })?;
    let line = sheet.line_of("matrix.ns");
    let fits = |rows: &Vec<Vec<f64>>| rows.len() == clusters;
    match rows {
        Some(rows) if fits(&rows) => Ok(Some(rows)),
        _ => Err(sheet.complain(line, format_args!("'matrix.ns' must be {wanted}"))),
    }
}

fn os(reader: &Reader<'_>) -> Result<Os, Error> {
    Ok(Os {
        ctx_switch: reader.ps("os.ctx_switch")?,
        wake_waker_side: reader.ps("os.wake_waker_side")?,
        wake_ipi: reader.ps("os.wake_ipi")?,
        futex_wait_entry: reader.ps("os.futex_wait_entry")?,
        futex_wake_call: reader.ps("os.futex_wake_call")?,
        futex_wake_none: reader.ps("os.futex_wake_none")?,
        migration_cost: reader.ps("os.migration_cost")?,
        cfs_latency: reader.ps("os.cfs_latency")?,
        cfs_min_slice: reader.ps("os.cfs_min_slice")?,
        cfs_wakeup_gran: reader.ps("os.cfs_wakeup_gran")?,
        rr_slice: reader.ps("os.rr_slice")?,
        yield_call: reader.ps("os.yield_call")?,
        timer_slack: reader.ps("os.timer_slack")?,
        clock_read: reader.ps("os.clock_read")?,
        tick_read: reader.ps("os.tick_read")?,
        buddies_stay: reader.value("os.buddies_stay")? > 0.5,
        tick_cost: reader.ps("os.tick_cost")?,
        tick_hold: reader.ps("os.tick_hold")?,
        wake_lines: reader.value("os.wake_lines")? as u64,
        poll_wake: reader.ps("os.poll_wake")?,
        polite: reader.ps("os.polite")?,
        idle_watches: reader.value("os.idle_watches")? > 0.5,
        idle_search: reader.value("os.idle_search")? > 0.5,
        tick: (1e12 / reader.value("clock.tick_hz")?.max(1.0)).round() as Ps,
    })
}
