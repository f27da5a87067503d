//! Where NUMA-aware spinlocks begin to pay: the time per turn against the number of nodes, as a
//! picture.
//!
//! `cargo run --release -p lockyard-work -F simulated --example crossing --
//! docs/hq-crossing.svg target/crossing`
//!
//! The machines are EPYC 9654 pairs with fewer dies: `n/2` of the twelve eight-core dies of each
//! socket, each die a NUMA node, one thread to a core, the measured distances between the dies that
//! are left. Their files are written to the second argument, for
//! `lockyard sim --machine target/crossing/dies24.toml`. On each of them a fixed number of threads
//! per node hammers one lock (`torture-spin`: empty sections), so that the queue per node stays as
//! it is while nodes are added. The picture shows medians and the range over seeds; the numbers go
//! to stdout. Both without think time, where an owner has several turns before it loses the lock,
//! and with so much that every turn is a hand-over.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use lockyard_sim::Config;
use lockyard_sim::machine::catalog;
use lockyard_sim::machine::topology::Placement;
use lockyard_work::simulated::{self, session};
use lockyard_work::{Candidate, Spec, Workload};

type Failure = Box<dyn std::error::Error>;
/// A line per lock.
type Lines = Vec<Vec<Point>>;
/// A think time and its panels, each of a crowd.
type Row = (u32, Vec<(usize, Lines)>);

const NODES: [usize; 7] = [2, 4, 6, 8, 12, 16, 24];
/// Threads on each node, a panel each. One core of each node is left over: whatever else runs would
/// take the CPU of a waiter.
const CROWDS: [usize; 3] = [2, 4, 7];
const LOCKS: [&str; 3] = ["qspinlock", "cna", "hq-spinlock"];
const SEEDS: [u64; 3] = [1, 2, 3];
const WARMUP: Duration = Duration::from_micros(500);
const WINDOW: Duration = Duration::from_millis(3);
/// PAUSEs between two turns of a thread: none, and 0.9 µs.
const THINK: [u32; 2] = [0, 50];

/// Dies of a socket of the whole machine, cores of a die.
const DIES: usize = 12;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [picture, folder] = arguments.as_slice() else { return Err("PICTURE FOLDER".into()) };
    let folder = Path::new(folder);
    std::fs::create_dir_all(folder)?;
    let mut rows = Vec::new();
    let machines = NODES.map(|nodes| (nodes, folder.join(format!("dies{nodes}.toml")).display().to_string()));
    for (nodes, path) in &machines {
        std::fs::write(path, machine(*nodes))?;
    }
    for think in THINK {
        println!("Think time {think} PAUSEs:\n");
        println!("| threads per node | nodes | {} |", LOCKS.map(|lock| format!("{lock}, ns")).join(" | "));
        println!("|---|---|{}", "---|".repeat(LOCKS.len()));
        let mut row = Vec::new();
        for crowd in CROWDS {
            row.push((crowd, sweep(&machines, crowd, think)?));
        }
        rows.push((think, row));
        println!();
    }
    std::fs::write(picture, svg(&rows))?;
    Ok(())
}

/// One panel: a line per lock.
fn sweep(machines: &[(usize, String)], crowd: usize, think: u32) -> Result<Lines, Failure> {
    let mut lines: Lines = vec![Vec::new(); LOCKS.len()];
    for (nodes, path) in machines {
        for (line, lock) in lines.iter_mut().zip(LOCKS) {
            line.push(Point::at(*nodes, turns(path, lock, crowd * nodes, think)?));
        }
        let row: Vec<String> = lines.iter().filter_map(|line| line.last()).map(Point::text).collect();
        println!("| {crowd} | {nodes} | {} |", row.join(" | "));
    }
    Ok(lines)
}

/// The machine file of a pair with `nodes / 2` dies to a socket.
fn machine(nodes: usize) -> String {
    let whole = include_str!("../../lockyard-sim/machines/epyc9654_2s.toml");
    let kept: Vec<usize> = (0..nodes / 2).chain(DIES..DIES + nodes / 2).collect();
    let mut out = String::new();
    let (mut skips, mut row) = (false, None);
    for line in whole.lines() {
        if line.starts_with('[') {
            skips = line == "[topology.modes]";
        }
        if skips {
            continue;
        }
        let replaced = match line.split_once(" = ").map_or(line, |pair| pair.0) {
            "id" => format!("id = \"dies{nodes}\""),
            "name" => {
                format!("name = \"2x AMD EPYC 9654 with {} dies each, a node per die, no second threads\"", nodes / 2)
            }
            "clusters_per_socket" => format!("clusters_per_socket = {}", nodes / 2),
            "dies_per_socket" => "dies_per_socket = 1".to_owned(),
            "smt" if line.starts_with("smt = 2") => "smt = 1".to_owned(),
            "nodes" => format!("nodes = {nodes}"),
            "default_mode" => continue,
            "ns" => {
                row = Some(0);
                line.to_owned()
            }
            _ => match row {
                Some(number) if line.starts_with("  [") => {
                    row = Some(number + 1);
                    if !kept.contains(&number) {
                        continue;
                    }
                    let numbers: Vec<&str> = line.trim_matches(|c: char| !c.is_ascii_digit()).split(", ").collect();
                    let left: Vec<&str> = kept.iter().map(|column| numbers[*column]).collect();
                    format!("  [{}],", left.join(", "))
                }
                _ => line.to_owned(),
            },
        };
        out.push_str(&replaced);
        out.push('\n');
    }
    out
}

/// What a turn takes, all threads together, ns, seed by seed.
fn turns(machine: &str, lock: &str, threads: usize, think: u32) -> Result<Vec<f64>, Failure> {
    let all = &simulated::LOCKS;
    let lock: &Candidate = all.iter().find(|known| known.label() == lock).ok_or("no such lock")?;
    let mut found = Vec::new();
    for seed in SEEDS {
        let config = Config { seed, placement: Placement::Spread, ..Config::new(catalog::machine(machine)?) };
        let spec = Spec { threads, think, seed, warmup: WARMUP, duration: WINDOW, ..Spec::new(Workload::TortureSpin) };
        let (record, _) = session(&config, || lock.measure(&spec));
        found.push(record?.ns_per_op);
    }
    Ok(found)
}

/// A lock on a machine.
#[derive(Debug, Clone)]
struct Point {
    nodes: usize,
    low: f64,
    middle: f64,
    high: f64,
}

impl Point {
    fn at(nodes: usize, mut found: Vec<f64>) -> Self {
        found.sort_by(f64::total_cmp);
        Self { nodes, low: found[0], middle: found[found.len() / 2], high: found[found.len() - 1] }
    }

    fn text(&self) -> String {
        format!("{:.0}", self.middle)
    }
}

// ---- the picture
// ------------------------------------------------------------------------------------------------

const PANEL: f64 = 300.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 56.0;
const WIDE: f64 = 232.0;
const HIGH: f64 = 180.0;
/// From a row of panels to the next.
const ROW: f64 = 258.0;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#222}.t{font-weight:600}.s{fill:#666;font-size:11px}.g{stroke:#ddd}.x{stroke:#888}\
path{fill:none;stroke-width:2}.b{stroke:none;opacity:.18}.l0{stroke:#888}.l1{stroke:#c60}.l2{stroke:#06c}.f0{fill:#888}.f1{fill:#c60}.f2{fill:#06c}\
@media(prefers-color-scheme:dark){text{fill:#ddd}.s{fill:#aaa}.g{stroke:#444}.l2{stroke:#4af}.f2{fill:#4af}.l1{stroke:#fa4}.f1{fill:#fa4}}";

/// A row of panels per think time, on the same axes, a panel per crowd.
fn svg(rows: &[Row]) -> String {
    let (width, height) = (PANEL * CROWDS.len() as f64 + 8.0, ROW * rows.len() as f64 + 50.0);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Simulated time per turn of a spinlock \
         against the number of NUMA nodes\"><style>{STYLE}</style>"
    );
    let title =
        "Simulated time per turn of one contended spinlock, ns (lower is better), against NUMA nodes of 8 cores";
    text(&mut out, 8.0, 16.0, "t", "start", title);
    for (row, (think, panels)) in rows.iter().enumerate() {
        let highest = panels.iter().flat_map(|panel| &panel.1).flatten().map(|point| point.high).fold(0.0, f64::max);
        let step = if highest > 120.0 { 100.0 } else { 20.0 };
        let scale = Scale { up: TOP + ROW * row as f64, top: (highest / step).ceil() * step, step };
        for (number, (crowd, lines)) in panels.iter().enumerate() {
            let title = format!("{crowd} threads per node, think time {think} PAUSEs");
            panel(&mut out, PANEL * number as f64 + LEFT, &title, lines, &scale);
        }
    }
    let bottom = height - 14.0;
    for (number, lock) in LOCKS.iter().enumerate() {
        let at = LEFT + 120.0 * number as f64;
        let _ = write!(out, "<path class=\"l{number}\" d=\"M{at} {}h24\"/>", bottom - 4.0);
        text(&mut out, at + 30.0, bottom, "", "start", lock);
    }
    let range = "line: median of three seeds; band: their range";
    text(&mut out, LEFT + 120.0 * LOCKS.len() as f64, bottom, "s", "start", range);
    out.push_str("</svg>\n");
    out
}

/// Where a row of panels begins, and its upright axis.
struct Scale {
    up: f64,
    top: f64,
    step: f64,
}

fn panel(out: &mut String, left: f64, title: &str, lines: &[Vec<Point>], scale: &Scale) {
    let Scale { up, top, step } = *scale;
    let most = NODES[NODES.len() - 1] as f64;
    let x = |nodes: usize| left + WIDE * nodes as f64 / most;
    let y = |ns: f64| up + HIGH * (1.0 - ns / top);
    text(out, left, up - 14.0, "", "start", title);
    let mut tick = 0.0;
    while tick <= top {
        let at = y(tick);
        let _ = write!(out, "<path class=\"g\" d=\"M{left} {at:.1}h{WIDE}\"/>");
        text(out, left - 6.0, at + 4.0, "s", "end", &format!("{tick}"));
        tick += step;
    }
    for nodes in NODES {
        text(out, x(nodes), up + HIGH + 16.0, "s", "middle", &nodes.to_string());
    }
    text(out, left + WIDE / 2.0, up + HIGH + 34.0, "s", "middle", "NUMA nodes");
    for (number, line) in lines.iter().enumerate() {
        let place = |point: &Point, ns: f64| format!("{:.1} {:.1}", x(point.nodes), y(ns));
        let up = line.iter().map(|point| place(point, point.high));
        let down = line.iter().rev().map(|point| place(point, point.low));
        let band: Vec<String> = up.chain(down).collect();
        let middle: Vec<String> = line.iter().map(|point| place(point, point.middle)).collect();
        let _ = writeln!(out, "<polygon class=\"b f{number}\" points=\"{}\"/>", band.join(" "));
        let _ = writeln!(out, "<path class=\"l{number}\" d=\"M{}\"/>", middle.join("L"));
        for point in line {
            let (cx, cy) = (x(point.nodes), y(point.middle));
            let hint = format!("{} nodes, {}: {} ns", point.nodes, LOCKS[number], point.text());
            let _ = write!(
                out,
                "<circle class=\"f{number}\" cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3\"><title>{hint}</title></circle>"
            );
        }
    }
}

fn text(out: &mut String, x: f64, y: f64, class: &str, anchor: &str, content: &str) {
    let _ =
        writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\" text-anchor=\"{anchor}\">{content}</text>");
}
