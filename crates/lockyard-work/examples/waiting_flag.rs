//! Whether qrwlock's byte compare-exchange for the waiting flag is ever slower than the full-word
//! loop: on every machine of the catalog, in the loop that the change was published with.
//!
//! `cargo run --release -p lockyard-work -F simulated --example waiting_flag [-- SEEDS MACHINE]`
//!
//! Five reads to a write, empty sections, 2 to 20 threads, near each other and far apart. The
//! median time per turn over seeds with the byte policy, divided by that with the word policy:
//! above 1 the byte is slower. A cell beyond 1.02 is measured once more with four times as many
//! seeds that were not used before; what those say counts. Prints a line per machine and the worst;
//! the exit code is 1 if that is beyond 1.02.

mod cells;

use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use cells::{Failure, find, machines, mean, median, times};
use lockyard_sim::machine::topology::Placement;
use lockyard_work::{Spec, Workload};

const BAR: f64 = 1.02;
const THREADS: [usize; 6] = [2, 4, 8, 12, 16, 20];

fn main() -> Result<ExitCode, Failure> {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let seeds = seeds.max(1);
    let only = arguments.next().unwrap_or_default();
    let (byte, word) = (find("qrwlock:byte-cas")?, find("qrwlock:word-cas")?);
    let measure = |machine: &str, placement, threads, seeds: RangeInclusive<u64>| -> Result<_, Failure> {
        let (warmup, duration) = (Duration::from_micros(200), Duration::from_millis(1));
        let spec = Spec { threads, warmup, duration, ..Spec::new(Workload::QrwLoop) };
        let [byte, word] = [byte, word].map(|lock| times(lock, machine, placement, &spec, seeds.clone()));
        Ok((byte?, word?))
    };
    println!("| machine | placement | {} |", THREADS.map(|threads| threads.to_string()).join(" | "));
    println!("|---|---|{}", "---|".repeat(THREADS.len()));
    let (mut worst, mut cells, mut beyond) = ((0.0, String::new()), 0, 0);
    for machine in machines(&only) {
        for placement in [Placement::Fill, Placement::Spread] {
            let mut row = Vec::new();
            for threads in THREADS {
                let (byte, word) = measure(&machine, placement, threads, 1..=seeds)?;
                let mut ratio = median(&byte) / median(&word);
                let mut shown = format!("{ratio:.3}");
                if ratio > BAR {
                    let (byte, word) = measure(&machine, placement, threads, seeds + 1..=seeds * 5)?;
                    ratio = median(&byte) / median(&word);
                    shown = format!("{shown}, again {ratio:.3}, mean {:.3}", mean(&byte) / mean(&word));
                }
                cells += 1;
                beyond += usize::from(ratio > BAR);
                if ratio > worst.0 {
                    worst = (ratio, format!("{machine}, {placement}, {threads} threads"));
                }
                row.push(shown);
            }
            println!("| {machine} | {placement} | {} |", row.join(" | "));
        }
    }
    println!("\n{beyond} of {cells} cells beyond {BAR}; worst: {:.3} ({})", worst.0, worst.1);
    Ok(if beyond == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
