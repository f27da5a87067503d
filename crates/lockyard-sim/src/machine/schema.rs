//! Which fields a machine file has.
//!
//! A file that passes has every number the model needs, in a unit the model knows, and nothing that
//! nobody reads: an unknown field is a misspelt one. Sections that are evidence rather than input
//! (`facts`, `sources`, `matrix` with `applies = false`) may hold anything.

use super::sheet::Sheet;
use crate::error::Error;

/// A number of the model.
struct Field {
    path: &'static str,
    /// Acceptable units.
    units: &'static [&'static str],
    required: bool,
}

const fn field(path: &'static str, units: &'static [&'static str], required: bool) -> Field {
    Field { path, units, required }
}

const TIME: &[&str] = &["ns", "us", "ms", "cycles"];
const HITS: &[&str] = &["hits"];
const RATIO: &[&str] = &["x", "relative"];

/// Numbers of a machine.
const MACHINE: &[Field] = &[
    field("clock.ghz", &["GHz"], true),
    field("clock.pause", &["cycles"], true),
    field("clock.pause_ns", &["ns"], false),
    field("clock.tick_hz", &["Hz"], true),
    field("clock.wfe_wake", TIME, false),
    field("clock.wfe_event_stream", TIME, false),
    field("cache.l1", TIME, true),
    field("cache.l2", TIME, true),
    field("cache.l3", TIME, false),
    field("coherence.fill", TIME, true),
    field("coherence.home", TIME, true),
    field("coherence.read_takes", RATIO, false),
    field("transfer.smt", TIME, false),
    field("transfer.cluster", TIME, false),
    field("transfer.node", TIME, false),
    field("transfer.half", TIME, false),
    field("transfer.socket", TIME, true),
    field("transfer.hop1", TIME, false),
    field("transfer.hop2", TIME, false),
    field("atomic.rmw_own", TIME, true),
    field("atomic.request_flight_share", RATIO, false),
    field("atomic.burst_max", HITS, false),
    field("idle.deepest", &["states"], false),
    field("memory.local", TIME, true),
    field("memory.other_die", TIME, false),
    field("memory.hop1", TIME, false),
    field("memory.hop2", TIME, false),
];

/// Numbers that all machines share.
const COMMON: &[Field] = &[
    field("model.load_from_modified", RATIO, true),
    field("model.load_shared_same", RATIO, true),
    field("model.load_shared_remote", RATIO, true),
    field("model.rmw_on_shared", RATIO, true),
    field("model.load_then_rmw", RATIO, false),
    field("model.occupancy_ratio", RATIO, true),
    field("model.spin_iter_overhead", TIME, true),
    field("model.store_buffer_entries", &["entries"], true),
    field("model.request_flight_share", RATIO, true),
    field("model.data_share", RATIO, true),
    field("model.data_spread", RATIO, true),
    field("model.read_takes", RATIO, true),
    field("model.burst_max", HITS, true),
    field("model.instructions", TIME, true),
    field("model.workload_code", TIME, true),
    field("model.latency_jitter", RATIO, true),
    field("model.t_evict", TIME, true),
    field("model.smt_spin", RATIO, true),
    field("model.smt_busy", RATIO, true),
    field("os.ctx_switch", TIME, true),
    field("os.wake_waker_side", TIME, true),
    field("os.wake_ipi", TIME, true),
    field("os.futex_wait_entry", TIME, true),
    field("os.futex_wake_call", TIME, true),
    field("os.futex_wake_none", TIME, true),
    field("os.futex_turnaround", TIME, false),
    field("os.migration_cost", TIME, true),
    field("os.cfs_latency", TIME, true),
    field("os.cfs_min_slice", TIME, true),
    field("os.cfs_wakeup_gran", TIME, true),
    field("os.rr_slice", TIME, true),
    field("os.rwsem_handoff", TIME, false),
    field("os.yield_call", TIME, true),
    field("os.timer_slack", TIME, true),
    field("os.clock_read", TIME, true),
    field("os.tick_read", TIME, true),
    field("os.tick_cost", TIME, true),
    field("os.tick_hold", TIME, true),
    field("os.wake_lines", RATIO, true),
    field("os.poll_wake", TIME, true),
    field("os.polite", TIME, true),
    field("os.idle_search", RATIO, true),
    field("os.buddies_stay", RATIO, true),
    field("os.idle_watches", RATIO, true),
    field("os.ipi_send", TIME, false),
    field("os.eevdf", RATIO, false),
    field("os.idle_pulls", RATIO, false),
];

/// Anything else that a file may say.
const PLAIN: &[&str] = &[
    "schema",
    "id",
    "name",
    "isa",
    "published_rows",
    "model_known",
    "likely_parts",
    "topology.sockets",
    "topology.dies_per_socket",
    "topology.clusters_per_socket",
    "topology.cores_per_cluster",
    "topology.smt",
    "topology.nodes",
    "topology.llc",
    "topology.one_hop",
    "topology.fill",
    "topology.default_mode",
    "topology.cpu_numbering",
    "topology.hops",
    "topology.home",
    "topology.numactl_distance",
    "coherence.protocol",
    "coherence.description",
    "coherence.directory",
    "idle.states_us",
    "idle.source",
    "os.note",
];

/// Sections that may hold anything.
const FREE: &[&str] = &["facts.", "sources.", "matrix.", "topology.modes."];

fn free(path: &str) -> bool {
    FREE.iter().any(|section| path.starts_with(section))
}

/// Checks a machine's file.
pub(super) fn check_machine(sheet: &Sheet) -> Result<(), Error> {
    version(sheet)?;
    for path in sheet.plain.keys() {
        let number = MACHINE.iter().any(|field| field.path == path);
        if !number && !PLAIN.contains(&path.as_str()) && !free(path) {
            return Err(unknown(sheet, path));
        }
    }
    let known = |path: &str| {
        let overrides = || COMMON.iter().filter(|field| field.path.starts_with("os."));
        MACHINE.iter().chain(overrides()).find(|field| field.path == path)
    };
    for path in sheet.quantities.keys().filter(|path| !free(path)) {
        units(sheet, path, known(path).ok_or_else(|| unknown(sheet, path))?)?;
    }
    required(sheet, MACHINE)
}

/// Checks the common file.
pub(super) fn check_common(sheet: &Sheet) -> Result<(), Error> {
    version(sheet)?;
    for path in sheet.quantities.keys().filter(|path| !free(path)) {
        let field = COMMON.iter().find(|field| field.path == path).ok_or_else(|| unknown(sheet, path))?;
        units(sheet, path, field)?;
    }
    required(sheet, COMMON)
}

fn version(sheet: &Sheet) -> Result<(), Error> {
    sheet.integer("schema", 1..2).map(|_| ())
}

fn unknown(sheet: &Sheet, path: &str) -> Error {
    sheet.complain(sheet.line_of(path), format_args!("unknown field '{path}'"))
}

fn units(sheet: &Sheet, path: &str, field: &Field) -> Result<(), Error> {
    let quantity = &sheet.quantities[path];
    if !field.units.contains(&quantity.unit.as_str()) {
        let why = format!("'{path}' is in '{}'; expected {}", quantity.unit, field.units.join(" or "));
        return Err(sheet.complain(quantity.line, why));
    }
    if quantity.low < 0.0 {
        return Err(sheet.complain(quantity.line, format_args!("'{path}' must not be negative")));
    }
    let most = most(&quantity.unit);
    if quantity.high > most {
        let why = format!("'{path}' must be at most {most} {}", quantity.unit);
        return Err(sheet.complain(quantity.line, why));
    }
    Ok(())
}

/// The largest number of a unit: far above every machine, and small enough that sums and products
/// of them fit the clock, which counts picoseconds.
fn most(unit: &str) -> f64 {
    match unit {
        "ns" => 1e9,
        "us" => 1e6,
        "ms" => 1e3,
        "cycles" => 1e8,
        "GHz" => 100.0,
        "Hz" => 1e6,
        _ => 1e4,
    }
}

fn required(sheet: &Sheet, fields: &[Field]) -> Result<(), Error> {
    fields.iter().filter(|field| field.required).try_for_each(|field| sheet.quantity(field.path).map(|_| ()))
}
