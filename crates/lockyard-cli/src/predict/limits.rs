//! Where the time of a simulated program's threads went, when it was not what the program is for.

use lockyard_recording::Model as Program;
use lockyard_sim::machine::model::Model as Machine;
use lockyard_sim::report::Report;
use lockyard_work::Record;
use serde::Serialize;

use super::transfers::transfer_ns;

/// What took time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Loss {
    /// What it is, with the class's name where it is one's.
    pub(crate) what: String,
    /// Its share of the threads' time.
    pub(crate) share: f64,
}

/// A wait of so many transfers is one for lines and not for an owner.
const TRANSFERS: f64 = 2.5;
/// If more of the waits than this share found all other threads waiting, that is said.
const ALONE: f64 = 0.05;
/// Less is not worth a word.
const NOTICEABLE: f64 = 0.02;

/// The losses of a run, the largest first; none that nobody would notice.
pub(crate) fn of(program: &Program, machine: &Machine, record: &Record, report: &Report) -> Vec<Loss> {
    let time = record.duration_ns as f64 * record.threads as f64;
    let mut losses = Vec::new();
    let mut add = |what: String, ns: f64| losses.push(Loss { what, share: ns / time });
    let transfer = transfer_ns(machine, record.threads as f64);
    let mut waited = 0.0;
    for class in &record.locks {
        let of = |what: &str| class.numbers.get(what).copied().unwrap_or(0) as f64;
        let Some(lock) = program.locks.get(class.lock) else {
            // Behind the locks there are the queues.
            let queue = program.queues.get(class.lock - program.locks.len());
            let name = queue.map_or("", |queue| &queue.name);
            let alone = of("alone") > ALONE * of("waits");
            let why = if alone { ", where no thread was left to signal" } else { "" };
            add(format!("waiting for others at {name}{why}"), of("waited_ns"));
            waited += of("waited_ns");
            continue;
        };
        let name = &lock.name;
        let each = of("waited_ns") / of("acquisitions").max(1.0);
        match each < TRANSFERS * transfer {
            true => add(format!("moving {name}'s lock word"), of("waited_ns")),
            false => add(format!("waiting for {name}"), of("waited_ns")),
        }
        add(format!("moving what {name} protects"), of("moved_ns"));
        add(format!("releasing {name} and waking waiters"), of("released_ns"));
        waited += of("waited_ns") + of("moved_ns") + of("released_ns");
    }
    let times = report.window.as_ref().unwrap_or(&report.whole).times;
    let all = (times.running_ns + times.spinning_ns + times.runnable_ns + times.sleeping_ns) as f64;
    let cpus = machine.topology().cpus();
    // A thread that waits for a lock may want for a CPU as well: it is counted once. What a thread
    // loses to another on its core it loses while it runs.
    let useful = record.metrics.get("computed").copied().unwrap_or(0.0) * record.duration_ns as f64;
    let left = (time - useful - waited).max(0.0);
    if record.threads > cpus {
        add("no CPU".to_owned(), (times.runnable_ns as f64 / all.max(1.0) * time).min(left));
    } else if record.threads > machine.topology().cores() {
        let ran = (times.running_ns + times.spinning_ns) as f64 / all.max(1.0) * time;
        add("two threads on a core".to_owned(), (ran - useful).clamp(0.0, left));
    }
    losses.retain(|loss| loss.share >= NOTICEABLE);
    losses.sort_by(|a, b| b.share.total_cmp(&a.share));
    losses
}
