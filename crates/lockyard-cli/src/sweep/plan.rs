//! A plan: a TOML file of lists, whose product is the sweep.
//!
//! ```toml
//! machines = ["skx_1s", "epyc9654_2s:nps4"]
//! locks = ["mutex", "rwsem:today"]
//! threads = [2, "8:64:8"]
//! seeds = "1:10"
//!
//! [[settings]]                 # the machine as it is
//! [[settings]]                 # and with another number
//! model.occupancy_ratio = 0.5
//! ```
//!
//! Fields are the options of `lockyard sim` ([`FIELDS`]), and so are their values: a list's entries
//! are joined by commas, and go the way of the command line. Only seeds and settings are told apart
//! here. The order of cells: machines, settings, then as `sim` has it (placements, families,
//! workloads, their values), locks, seeds; the last changes fastest. Paths are relative to the
//! plan.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::Path;

use clap::Parser;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::key::Key;
use crate::cli::{self, Cli, Command};
use crate::failure::{Failure, plain};
use crate::programs;
use crate::simulate::{Run, SimOptions};
use crate::suggest;
use crate::values::Bounds;

/// The most cells of a plan: more is a typing error, or a plan to be cut into several.
const MOST_CELLS: usize = 200_000;

/// The fields and the options of `lockyard sim` that they are.
const FIELDS: [(&str, &str); 19] = [
    (MACHINES, "--machine"),
    ("locks", "--lock"),
    ("policies", "--policy"),
    ("families", "--family"),
    (WORKLOADS, "--workload"),
    ("threads", "--threads"),
    ("readers", "--readers"),
    ("writers", "--writers"),
    ("cs", "--cs"),
    ("lines", "--lines"),
    ("think", "--think"),
    ("think_shape", "--think-shape"),
    ("read_pct", "--read-pct"),
    ("mix", "--mix"),
    ("sleep_us", "--sleep-us"),
    ("jobs", "--jobs"),
    ("placements", "--placement"),
    ("duration", "--duration"),
    (SEEDS, "--seed"),
];

const MACHINES: &str = "machines";
const WORKLOADS: &str = "workloads";
const SEEDS: &str = "seeds";
/// Whether the locks are part of the kernel.
const IN_KERNEL: &str = "in_kernel";
/// Numbers of the machine to change, as tables.
const SETTINGS: &str = "settings";

/// A sweep.
#[derive(Debug)]
pub(super) struct Plan {
    /// The cells: number 1 is the first.
    pub(super) cells: Vec<Cell>,
}

/// A cell.
#[derive(Debug)]
pub(super) struct Cell {
    /// What is simulated.
    pub(super) run: Run,
    /// What it is.
    pub(super) key: Key,
}

impl Plan {
    /// Reads the plan in the file `path`.
    ///
    /// # Errors
    /// One line: file, line and reason.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| Failure::usage(format!("{file}: {}", plain(&error))))?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let source = Source { path, text };
        let fields = Fields::read(&source)?;
        let seeds = Bounds { flag: SEEDS, least: 0, most: u64::MAX };
        let seeds = seeds.list(&fields.text(SEEDS).unwrap_or_else(|| "1".to_owned()));
        let seeds = seeds.map_err(|failure| fields.named(&source, 0..0, &failure))?;
        let mut cells: Vec<Cell> = Vec::new();
        let mut known: HashMap<Key, usize> = HashMap::new();
        let machines = fields.words(MACHINES).ok_or_else(|| {
            source.refuse(0..0, format_args!("'{MACHINES}' is missing: which? 'lockyard list machines' shows all"))
        })?;
        for machine in machines {
            for setting in &fields.settings {
                let options = fields.options(machine, &setting.changes);
                for run in options.map_err(|failure| fields.named(&source, setting.at.clone(), &failure))?.runs {
                    if cells.len() + seeds.len() > MOST_CELLS {
                        let what = format_args!("more than {MOST_CELLS} cells; shorten the lists");
                        return Err(source.refuse(0..0, what));
                    }
                    for &seed in &seeds {
                        let run = run.with_seed(seed);
                        let key = Key::of(&run);
                        if let Some(first) = known.insert(key, cells.len() + 1) {
                            let (second, lock, machine) = (cells.len() + 1, run.lock.label(), run.machine());
                            let what = format_args!("cells {first} and {second} are the same: {lock} on {machine}");
                            return Err(source.refuse(0..0, what));
                        }
                        cells.push(Cell { run, key });
                    }
                }
            }
        }
        Ok(Self { cells })
    }
}

/// A file, and where something in it stands.
struct Source<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Source<'_> {
    fn refuse(&self, span: Range<usize>, why: impl fmt::Display) -> Failure {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        Failure::usage(format!("{}:{line}: {why}", self.path.display()))
    }
}

/// Numbers of a machine to change, and where they stand.
struct Setting {
    at: Range<usize>,
    /// As `--set` has them.
    changes: Vec<String>,
}

/// The fields of a plan, not yet understood.
struct Fields {
    /// Name, place and entries.
    lists: Vec<(&'static str, Range<usize>, Vec<String>)>,
    in_kernel: bool,
    settings: Vec<Setting>,
}

impl Fields {
    fn read(source: &Source<'_>) -> Result<Self, Failure> {
        let table = DeTable::parse(source.text).map_err(|error| {
            let why = error.message().lines().next().unwrap_or("not TOML").to_owned();
            source.refuse(error.span().unwrap_or(0..0), why)
        })?;
        let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).chain([IN_KERNEL, SETTINGS]).collect();
        let none = Setting { at: 0..0, changes: Vec::new() };
        let mut fields = Self { lists: Vec::new(), in_kernel: false, settings: vec![none] };
        for (key, value) in table.get_ref().iter() {
            let (name, span): (&str, _) = (key.get_ref(), key.span());
            match (name, value.get_ref()) {
                (IN_KERNEL, DeValue::Boolean(flag)) => fields.in_kernel = *flag,
                (IN_KERNEL, _) => return Err(source.refuse(span, format_args!("'{IN_KERNEL}' must be true or false"))),
                (SETTINGS, value) => fields.settings = settings(source, span, value)?,
                _ => {
                    let Some((name, _)) = FIELDS.iter().find(|(known, _)| *known == name) else {
                        let guess = suggest::nearest(name, &names).map(|near| format!("did you mean '{near}'? "));
                        let (guess, all) = (guess.unwrap_or_default(), names.join(", "));
                        return Err(source.refuse(span, format_args!("unknown field '{name}'; {guess}known are {all}")));
                    };
                    let words = words(source, name, value)?;
                    fields.lists.push((name, span, words));
                }
            }
        }
        Ok(fields)
    }

    fn words(&self, name: &str) -> Option<&[String]> {
        self.lists.iter().find(|(known, ..)| *known == name).map(|(.., words)| words.as_slice())
    }

    fn text(&self, name: &str) -> Option<String> {
        self.words(name).map(|words| words.join(","))
    }

    /// The command line of `lockyard sim` for one machine with one setting, understood.
    fn options(&self, machine: &str, setting: &[String]) -> Result<SimOptions, Failure> {
        let mut line = vec![OsString::from("lockyard"), OsString::from("sim")];
        line.push(format!("--machine={machine}").into());
        line.extend(setting.iter().map(|set| OsString::from(format!("--set={set}"))));
        for (name, option) in FIELDS.iter().filter(|(name, _)| ![MACHINES, SEEDS].contains(name)) {
            line.extend(self.text(name).map(|text| OsString::from(format!("{option}={text}"))));
        }
        if self.in_kernel {
            line.push("--in-kernel".into());
        }
        match Cli::try_parse_from(line).map_err(|error| Failure::usage(cli::one_line(&error)))?.chosen() {
            Command::Sim(args) => SimOptions::check(&args),
            _ => Err(Failure::run("the command line of a cell is not that of sim")),
        }
    }

    /// A refusal by an option, as one of the field that it was made from; by `--set`, of what
    /// stands at `setting`.
    fn named(&self, source: &Source<'_>, setting: Range<usize>, failure: &Failure) -> Failure {
        let mut text = failure.to_string();
        let mut place = (usize::MAX, 0..0);
        let mut look = |option: &str, name: &str, span: &Range<usize>, text: &str| {
            if let Some(at) = position(text, option).or_else(|| text.starts_with(&format!("{name}:")).then_some(0)) {
                place = std::cmp::min_by_key((at, span.clone()), place.clone(), |(at, _)| *at);
            }
        };
        for (name, span, _) in &self.lists {
            let option = FIELDS.iter().find(|(known, _)| known == name).map_or("", |(_, option)| option);
            look(option, name, span, &text);
        }
        look("--set", SETTINGS, &setting, &text);
        // As the plan calls it.
        for (name, option) in FIELDS.iter().copied().chain([(SETTINGS, "--set")]) {
            while let Some(at) = position(&text, option) {
                text.replace_range(at..at + option.len(), name);
            }
        }
        source.refuse(place.1, text)
    }
}

/// Where `option` stands in `text`, and not as the beginning of another (`--think-shape`).
fn position(text: &str, option: &str) -> Option<usize> {
    let ends = |at: &usize| !text[at + option.len()..].starts_with(|next: char| next == '-' || next.is_alphanumeric());
    text.match_indices(option).map(|(at, _)| at).find(ends)
}

/// The entries of the list `name`; a value alone is a list of one.
fn words(source: &Source<'_>, name: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, Failure> {
    let one = |value: &Spanned<DeValue<'_>>| {
        let word = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            number @ (DeValue::Integer(_) | DeValue::Float(_)) => number_text(number),
            _ => {
                let what = format_args!("'{name}' must be a text, a number, or a list of them");
                return Err(source.refuse(value.span(), what));
            }
        };
        Ok(if [MACHINES, WORKLOADS].contains(&name) { beside(source.path, name, &word) } else { word })
    };
    match value.get_ref() {
        DeValue::Array(entries) if entries.is_empty() => {
            Err(source.refuse(value.span(), format_args!("'{name}' is empty; leave it out, or name one")))
        }
        DeValue::Array(entries) => entries.iter().map(one).collect(),
        _ => Ok(vec![one(value)?]),
    }
}

fn number_text(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        _ => String::new(),
    }
}

/// Files are looked for beside the plan.
fn beside(plan: &Path, name: &str, word: &str) -> String {
    let folder = plan.parent().filter(|folder| !folder.as_os_str().is_empty());
    let one = |part: &str| {
        let is_file =
            if name == MACHINES { part.contains('/') || part.contains(".toml") } else { programs::is_file(part) };
        match folder {
            Some(folder) if is_file => folder.join(part).to_string_lossy().into_owned(),
            _ => part.to_owned(),
        }
    };
    word.split(',').map(str::trim).map(one).collect::<Vec<_>>().join(",")
}

/// The settings in the list `value`, which stands at `at`.
fn settings(source: &Source<'_>, at: Range<usize>, value: &DeValue<'_>) -> Result<Vec<Setting>, Failure> {
    let refuse = |span| {
        let what = "'settings' must be tables of numbers: [{}, { model.occupancy_ratio = 0.5 }]";
        Err(source.refuse(span, what))
    };
    let DeValue::Array(entries) = value else { return refuse(at) };
    if entries.is_empty() {
        return refuse(at);
    }
    let mut settings = Vec::new();
    for entry in entries.iter() {
        let DeValue::Table(table) = entry.get_ref() else { return refuse(entry.span()) };
        let mut changes = Vec::new();
        let mut open = vec![(String::new(), table)];
        while let Some((path, table)) = open.pop() {
            for (key, value) in table.iter() {
                let path =
                    if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
                match value.get_ref() {
                    DeValue::Table(inner) => open.push((path, inner)),
                    number @ (DeValue::Integer(_) | DeValue::Float(_)) => {
                        changes.push(format!("{path}={}", number_text(number)));
                    }
                    _ => return refuse(value.span()),
                }
            }
        }
        changes.sort();
        settings.push(Setting { at: entry.span(), changes });
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Plan, String> {
        Plan::parse(Path::new("plan.toml"), text).map_err(|failure| failure.to_string())
    }

    fn cells(text: &str) -> Vec<String> {
        let cell = |Cell { run, .. }: &Cell| {
            let (machine, spec) = (&run.config.machine, &run.spec);
            let set: Vec<String> = machine.changes().values().map(f64::to_string).collect();
            let (machine, set) = (machine.label(), set.join(","));
            assert_eq!(run.config.seed, spec.seed);
            format!("{machine} [{set}] {} {} {}", spec.threads, run.lock.label(), spec.seed)
        };
        plan(text).unwrap().cells.iter().map(cell).collect()
    }

    #[test]
    fn cells_are_the_product_in_a_fixed_order() {
        let text = "seeds = [1, \"7:9:2\"]\nthreads = 2\nlocks = [\"mutex\", \"rtmutex-tree\"]\nmachines = \"skx_1s,quad2008\"\n\
                    [[settings]]\n[[settings]]\nmodel.occupancy_ratio = 0.5\n";
        let found = cells(text);
        assert_eq!(found.len(), 2 * 2 * 2 * 3);
        assert_eq!(found[0], "skx_1s [] 2 mutex 1");
        assert_eq!(found[1], "skx_1s [] 2 mutex 7");
        assert_eq!(found[3], "skx_1s [] 2 rtmutex-tree:today 1");
        assert_eq!(found[12], "skx_1s [0.5] 2 mutex 1");
        assert_eq!(found[23], "quad2008 [0.5] 2 rtmutex-tree:today 9");
        assert_eq!(cells("machines = [\"skx_1s\"]"), ["skx_1s [] 2 mutex 1"]);
    }

    #[test]
    fn a_key_is_of_all_that_decides() {
        let usual = "machines = \"skx_1s\"\nlocks = \"rwsem\"\n";
        let key = |more: &str| plan(&format!("{usual}{more}")).unwrap().cells[0].key.to_string();
        assert_eq!(key(""), key("seeds = 1\nthreads = 2\n"));
        let others = [
            "seeds = 2",
            "threads = 3",
            "policies = \"v5.10\"",
            "cs = 2",
            "think = \"9x\"",
            "think_shape = \"exponential\"",
            "read_pct = 99.5",
            "mix = \"alternate\"",
            "lines = 1",
            "placements = \"spread\"",
            "in_kernel = true",
            "duration = \"11ms\"",
            "workloads = \"rwsem-micro\"",
            "workloads = \"replay\"",
            "settings = [{ model.occupancy_ratio = 0.5 }]",
            "settings = [{ \"model.occupancy_ratio\" = 0.6 }]",
        ];
        let mut keys: Vec<String> = others.into_iter().map(key).chain([key("")]).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), others.len() + 1);
    }

    #[test]
    fn refusals_name_file_line_and_field() {
        let machine = "machines = [\"skx_1s\"]\n";
        for (text, wanted) in [
            ("", "plan.toml:1: 'machines' is missing"),
            ("machines = \"skx_1\"", "plan.toml:1: machines: unknown machine 'skx_1'; did you mean 'skx_1s'?"),
            ("machines = [\"skx_1s\"", "plan.toml:1: "),
            ("\nmachines = [\"skx_1s\",\n \"skx_1s\"]", "plan.toml:1: cells 1 and 2 are the same: mutex on skx_1s"),
        ] {
            let line = plan(text).unwrap_err();
            assert!(line.starts_with(wanted), "{line}");
        }
        for (text, wanted) in [
            ("thread = 2", "2: unknown field 'thread'; did you mean 'threads'? known are machines, "),
            ("\nthreads = [2, 0]", "3: threads: 0 is out of bounds"),
            ("threads = [true]", "2: 'threads' must be a text, a number, or a list of them"),
            ("threads = []", "2: 'threads' is empty"),
            ("seeds = -1", "2: seeds: '-1' is not a whole number"),
            ("mix = \"mixed\"", "2: invalid value 'mixed' for 'mix"),
            ("think = 1\nthink_shape = \"odd\"", "3: invalid value 'odd' for 'think_shape"),
            ("locks = [\"mutx\"]", "2: locks: unknown lock 'mutx'; did you mean 'mutex'?"),
            ("workloads = [\"gone.toml\"]", "2: workloads: gone.toml: no such file"),
            ("duration = \"1h\"", "2: duration: '1h' is not a time"),
            ("in_kernel = 1", "2: 'in_kernel' must be true or false"),
            ("settings = 1", "2: 'settings' must be tables of numbers"),
            ("settings = [{ a = \"b\" }]", "2: 'settings' must be tables of numbers"),
            ("[[settings]]\n[[settings]]\nmodel.x = 1", "3: settings: unknown number 'model.x'"),
            ("seeds = \"1:1000\"\ncs = \"1:201\"", "1: more than 200000 cells"),
        ] {
            let line = plan(&format!("{machine}{text}")).map(drop).unwrap_err();
            assert!(line.starts_with(&format!("plan.toml:{wanted}")) && !line.contains('\n'), "{text}: {line}");
        }
    }

    #[test]
    fn files_are_beside_the_plan() {
        let beside = |name, word| beside(Path::new("/tmp/a/plan.toml"), name, word);
        assert_eq!(beside(MACHINES, "skx_1s,my.toml:nps4,/etc/x.toml"), "skx_1s,/tmp/a/my.toml:nps4,/etc/x.toml");
        assert_eq!(beside(WORKLOADS, "contend, app.lyr"), "contend,/tmp/a/app.lyr");
    }
}
