//! A prediction for programs: a line per alternative and number of threads.

use super::outcome::Prediction;
use crate::report::csv::{self, quoted};
use crate::report::json::VERSION;

const HEADER: &str = "version,machine,machine_fingerprint,program,alternative,threads,progress,low,high,ops_per_s,limit,limit_share,set,settled,interrupted";

/// A header, then the lines.
pub(crate) fn render(found: &Prediction) -> String {
    let mut out = format!("{HEADER}\n");
    for alternative in &found.alternatives {
        for point in &alternative.points {
            let limit = point.losses.first();
            let fields = [
                VERSION.to_owned(),
                found.machine.clone(),
                found.machine_fingerprint.clone(),
                found.program.clone(),
                alternative.name.clone(),
                point.threads.to_string(),
                format!("{:.4}", point.progress),
                format!("{:.4}", point.low),
                format!("{:.4}", point.high),
                format!("{:.1}", point.ops_per_s),
                limit.map_or_else(String::new, |loss| loss.what.clone()),
                limit.map_or_else(String::new, |loss| format!("{:.4}", loss.share)),
                csv::changes(&found.set),
                point.settled.to_string(),
                found.interrupted.to_string(),
            ];
            out.push_str(&fields.map(|field| quoted(&field)).join(","));
            out.push('\n');
        }
    }
    out
}
