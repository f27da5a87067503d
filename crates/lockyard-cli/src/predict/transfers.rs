//! How long cache lines take between CPUs of a machine.

use lockyard_sim::machine::model::Model as Machine;
use lockyard_sim::machine::topology::Placement;

/// The mean transfer between two of the first `threads` CPUs, ns.
pub(crate) fn transfer_ns(machine: &Machine, threads: f64) -> f64 {
    /// So many of them are looked at.
    const SAMPLE: usize = 48;
    let order = machine.topology().order(Placement::Fill, 1);
    let used = (threads as usize).clamp(2, order.len().max(2)).min(order.len());
    let step = used.div_ceil(SAMPLE).max(1);
    let cores: Vec<usize> =
        order[..used].iter().step_by(step).map(|&cpu| machine.topology().core_of(cpu as usize)).collect();
    let pairs = || cores.iter().flat_map(|&a| cores.iter().filter(move |&&b| a != b).map(move |&b| (a, b)));
    let sum: f64 = pairs().map(|(a, b)| machine.transfer_ns(a, b)).sum();
    sum / (pairs().count().max(1)) as f64
}
