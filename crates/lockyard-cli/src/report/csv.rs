//! CSV for spreadsheets and scripts: a header, then one line per lock and cell. Columns are only
//! ever added at the end.

use std::collections::BTreeMap;

use crate::report::json::VERSION;
use crate::results::{CellResult, Results};
use lockyard_work::Summary;

/// The columns.
pub(crate) const HEADER: &str = "family,origin,lock,policy,workload,threads,cs,cs_sleep_ns,think,read_pct,mix,seed,\
    rounds,window_ns,kops_per_s,ns_per_op,spread,ratio_to_best_peer,fairness,idle_threads,wait_p50_ns,wait_p99_ns,\
    wait_p999_ns,wait_max_ns,worst_wait_ns,busy,interrupted,machine,events_per_1000,others,lines,think_shape,version";

/// All results.
pub(crate) fn render(results: &Results) -> String {
    let mut out = format!("{HEADER}\n");
    for cell in results.groups.iter().flat_map(|group| &group.cells) {
        for lock in &cell.locks {
            let fields: Vec<String> =
                fields(cell, lock, &results.machine.model).iter().map(|field| quoted(field)).collect();
            out.push_str(&fields.join(","));
            out.push('\n');
        }
    }
    out
}

fn fields(cell: &CellResult, lock: &Summary, machine: &str) -> Vec<String> {
    let spec = &cell.spec;
    let mix = serde_json::to_value(spec.mix).ok().and_then(|mix| mix.as_str().map(str::to_owned)).unwrap_or_default();
    let events: Vec<String> = lock.events_per_kop.iter().map(|(name, rate)| format!("{name}={rate:.3}")).collect();
    vec![
        lock.family.name().to_owned(),
        lock.origin.name().to_owned(),
        lock.lock.to_owned(),
        lock.policy.unwrap_or_default().to_owned(),
        spec.workload.name().to_owned(),
        spec.lockers().to_string(),
        spec.cs.to_string(),
        spec.cs_sleep.as_nanos().to_string(),
        spec.think.to_string(),
        spec.read_pct.to_string(),
        mix,
        spec.seed.to_string(),
        lock.rounds.to_string(),
        spec.window().unwrap_or_default().as_nanos().to_string(),
        format!("{:.3}", lock.kops_per_s),
        format!("{:.2}", lock.ns_per_op),
        format!("{:.4}", lock.spread),
        lock.ratio_to_best_peer.map_or_else(String::new, |ratio| format!("{ratio:.4}")),
        format!("{:.4}", lock.fairness),
        lock.worst_idle_threads.to_string(),
        format!("{:.0}", lock.wait_p50),
        format!("{:.0}", lock.wait_p99),
        format!("{:.0}", lock.wait_p999),
        format!("{:.0}", lock.wait_max),
        lock.worst_wait.to_string(),
        format!("{:.3}", lock.busy),
        (!cell.complete).to_string(),
        machine.to_owned(),
        events.join(";"),
        format!("{:.3}", lock.others),
        spec.lines.to_string(),
        spec.think_shape.name().to_owned(),
        VERSION.to_owned(),
    ]
}

/// Changed numbers of a machine, as one field: `path=number;path=number`.
pub(crate) fn changes(changes: &BTreeMap<String, f64>) -> String {
    let changes: Vec<String> = changes.iter().map(|(path, value)| format!("{path}={value}")).collect();
    changes.join(";")
}

/// A field as RFC 4180 wants it.
pub(crate) fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    #[test]
    fn every_line_has_every_column() {
        let text = render(&fixture::results());
        let columns = HEADER.split(',').count();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(HEADER));
        let mut rows = 0;
        for line in lines {
            // The fixture's machine name has a comma, and is quoted.
            let plain = line.replace("\"Example CPU, 2.5 GHz\"", "machine");
            assert_eq!(plain.split(',').count(), columns, "{line}");
            rows += 1;
        }
        assert_eq!(rows, 6);
    }

    #[test]
    fn quoting_follows_the_rfc() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
    }
}
