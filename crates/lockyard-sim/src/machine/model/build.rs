//! A machine from the sheets that describe it.

use std::collections::BTreeMap;

use super::{Directory, Distance, IdleState, Model, ONE, Os, Protocol, Reach};
use crate::engine::heap::Ps;
use crate::error::Error;
use crate::machine::schema;
use crate::machine::sheet::{Plain, Sheet};
use crate::machine::topology::{Llc, Topology};

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
        schema::check_machine(machine)?;
        schema::check_common(common)?;
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
            changes: BTreeMap::new(),
            fingerprint: 0,
            eevdf: reader.has("os.eevdf") && reader.value("os.eevdf")? > 0.5,
            ipi_send: if reader.has("os.ipi_send") { reader.ps("os.ipi_send")? } else { 0 },
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
        idle_pulls: !reader.has("os.idle_pulls") || reader.value("os.idle_pulls")? > 0.5,
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
