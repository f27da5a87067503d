//! The `lockyard` command: what Lockyard's locks do on this machine, beside the locks people use
//! today.
//!
//! Arguments (`cli`) become validated options (`options`), those a plan (`compare`, `bench`), the
//! plan is measured (`run`) and its results are reported (`report`). What goes wrong before the
//! first measurement is one line on stderr and exit code 2.

// This crate is a user of clocks, files and signals; the ban is for the lock algorithms.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard_work::{Machine, candidates};

use crate::cli::{Cli, Command, PlanArgs, PlanCommand};
use crate::failure::{Failure, INTERRUPTED};
use crate::hq::HqOptions;
use crate::machine::MachineFacts;
use crate::observe::Observation;
use crate::options::{BenchOptions, CompareOptions, Format};
use crate::output::Target;
use crate::predict::PredictOptions;
use crate::record::Recorded;
use crate::report::look::Look;
use crate::reproduce::ReproduceOptions;
use crate::results::Results;
use crate::run::{Measured, Pace};
use crate::simulate::SimOptions;
use crate::simulate::trace::TraceOptions;
use crate::sweep::SweepOptions;
use crate::top::Top;
use crate::torture::TortureOptions;
use crate::versus::Versus;

mod bench;
mod chosen;
mod cli;
mod clock;
mod compare;
mod completions;
mod deadlock;
mod elf;
mod ends;
mod events;
mod failure;
mod follow;
mod grid;
mod hq;
mod interrupt;
mod known;
mod launch;
mod list;
mod machine;
mod neighbours;
mod observe;
mod options;
mod output;
mod own_locks;
mod predict;
mod proc;
mod programs;
mod progress;
mod record;
mod recordings;
mod report;
mod reproduce;
mod results;
mod run;
mod score;
mod selection;
mod session;
mod simulate;
mod stacks;
mod suggest;
mod sweep;
mod symbols;
mod terminal;
mod timeline;
mod top;
mod torture;
mod unseen;
mod untimed;
mod values;
mod versus;

/// The command: what `main` does. The exit code.
pub fn main() -> ExitCode {
    let done = parse(std::env::args_os()).and_then(|cli| match cli {
        Some(cli) => carry_out(cli),
        None => Ok(0),
    });
    let (code, failure) = match done {
        Ok(code) => (code, None),
        Err(failure) => (failure.exit_code(), Some(failure)),
    };
    if let Some(failure @ (Failure::Usage(_) | Failure::Run(_))) = failure {
        // A closed stderr leaves nobody to tell.
        let _ = writeln!(io::stderr(), "lockyard: {failure}");
    }
    ExitCode::from(code)
}

/// The command line; `None` if it only asked for help or the version, which has been printed.
fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Option<Cli>, Failure> {
    match Cli::try_parse_from(words) {
        Ok(cli) => Ok(Some(cli)),
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // A closed stderr leaves nobody to tell.
            let _ = writeln!(io::stderr(), "{}", error.render());
            Err(Failure::usage("nothing was named to look at; see the examples above"))
        }
        Err(error) if error.use_stderr() => Err(Failure::usage(cli::one_line(&error))),
        Err(help) => help.print().map(|()| None).map_err(Failure::from),
    }
}

/// Parses `words`, the program's name first, and checks every value as the command would, and no
/// more: nothing is measured, started or told. For those who look for values that are taken badly.
///
/// # Errors
/// The line that the command would end with, and its exit code.
pub fn check(words: impl IntoIterator<Item = OsString>) -> Result<(), (u8, String)> {
    let checked = |cli: Cli| match cli.chosen() {
        Command::Compare(args) if !args.program.is_empty() => Versus::check(&args).map(drop),
        Command::Compare(args) => CompareOptions::check(&args.matrix).map(drop),
        Command::Bench(args) => BenchOptions::check(&args, candidates()).map(drop),
        Command::Sim(args) => SimOptions::check(&args).map(drop),
        Command::Trace(args) => TraceOptions::check(&args).map(drop),
        Command::Sweep(args) if args.what.is_none() => SweepOptions::check(&args.shard, |_| None).map(drop),
        Command::Predict(args) => PredictOptions::check(&args).map(drop),
        Command::Reproduce(args) => ReproduceOptions::check(&args).map(drop),
        Command::Record(args) => Recorded::check(&args).map(drop),
        Command::Stat(args) => Observation::check(&args).map(drop),
        Command::Top(args) => Top::check(&args).map(drop),
        Command::Hq(args) => HqOptions::check(&args, candidates()).map(drop),
        Command::Torture(args) => TortureOptions::check(&args).map(drop),
        Command::Report(_) | Command::Model(_) | Command::Script(_) | Command::Import(_) => Ok(()),
        Command::Sweep(_) | Command::Run(_) | Command::List(_) | Command::Completions { .. } | Command::Man { .. } => {
            Ok(())
        }
    };
    let outcome = parse(words).and_then(|cli| cli.map_or(Ok(()), checked));
    outcome.map_err(|failure| (failure.exit_code(), failure.to_string()))
}

fn carry_out(cli: Cli) -> Result<u8, Failure> {
    // Simulated machines begin with the same settings.
    Linux::commons().pool.tunables().set_from_environment().map_err(|error| Failure::usage(error.to_string()))?;
    match cli.chosen() {
        Command::Compare(args) if !args.program.is_empty() => {
            let look = Look { styled: styled(), full_titles: true, events: false };
            Versus::check(&args)?.run(look)
        }
        Command::Compare(args) => compare(&CompareOptions::check(&args.matrix)?),
        Command::Bench(args) => bench(&BenchOptions::check(&args, candidates())?),
        Command::Sim(args) => sim(SimOptions::check(&args)?),
        Command::Trace(args) => trace(TraceOptions::check(&args)?),
        Command::Sweep(args) => sweep(&args),
        Command::Predict(args) => foretell(&PredictOptions::check(&args)?),
        Command::Record(args) => Recorded::check(&args)?.run(),
        Command::Report(args) => show(&recordings::report(&args, styled())?),
        Command::Model(args) => print(&recordings::model(&args)?),
        Command::Script(args) => print(&recordings::script(&args)?),
        Command::Import(args) => print(&recordings::import(&args)?),
        Command::Reproduce(args) => reproduce(&ReproduceOptions::check(&args)?),
        Command::Run(args) => launch::run(&args),
        Command::Stat(args) => Observation::check(&args)?.run(styled()),
        Command::Top(args) => Top::check(&args)?.run(),
        Command::Hq(args) => hq(&HqOptions::check(&args, candidates())?),
        Command::Torture(args) => torture::run(&TortureOptions::check(&args)?),
        Command::List(args) => print(&list::render(candidates(), &args, terminal::width(io::stdout()))?),
        Command::Completions { shell } => print(&completions::script(shell, Cli::command(), candidates())),
        Command::Man { command } => {
            let mut page = Vec::new();
            clap_mangen::Man::new(cli::page_of(command.as_deref())?).render(&mut page)?;
            print(&String::from_utf8_lossy(&page))
        }
    }
}

fn compare(options: &CompareOptions) -> Result<u8, Failure> {
    let look = Look { styled: styled(), full_titles: false, events: true };
    let machine = facts();
    if !options.json {
        show(&format!("{}\n", report::table::machine(&machine.lines(), look)))?;
    }
    let started = clock::now_utc();
    interrupt::listen()?;
    let measured = run::run(compare::plan(candidates(), options), Pace::Budget(options.budget))?;
    let results = results("compare", machine, started, options.seed, measured);
    // The page first: a closed stdout must not lose it. A full disk must not lose the tables.
    let page = options.html.as_ref().map_or(Ok(()), |target| target.write(&report::html::page(&results)));
    if options.json {
        print(&report::json::document(&results)?)?;
    } else {
        show(&report::table::render(&results, look))?;
        show(&format!("\n{}\n", report::summary::summary(&results, look)))?;
    }
    if options.sim && !results.interrupted {
        let (outcomes, _) = simulate::run(simulate::sample(options.seed));
        let title = look.bold("The same locks on a machine you may not have, simulated (lockyard sim --help)");
        show(&format!("{title}\n{}", simulate::table::tables(&outcomes, look, false)))?;
    }
    page?;
    if let Some(target) = options.html.as_ref().filter(|_| !options.json) {
        print(&format!("wrote {}\n", target.path().display()))?;
    }
    finish(&results)
}

fn bench(options: &BenchOptions) -> Result<u8, Failure> {
    let machine = facts();
    let look = Look { styled: styled(), full_titles: true, events: options.events };
    for (lock, why) in bench::cautions(&options.cells) {
        let _ = writeln!(io::stderr(), "lockyard: note: {lock}: {why}");
    }
    let started = clock::now_utc();
    interrupt::listen()?;
    if options.grid {
        progress::say(&format!("lockyard: {}", grid::announced(&options.cells)));
    }
    let measured = run::run(options.cells.clone(), Pace::AsPlanned)?;
    let mut results = results("bench", machine, started, options.seed, measured);
    if options.grid {
        results.scores = score::of(&results.groups, results.machine.cpus_usable as usize, results.interrupted);
    }
    let written = options.out.as_ref().map_or(Ok(()), |(target, format)| {
        let text = formatted(&results, *format, Look { styled: false, ..look })?;
        target.write(&text)
    });
    put(options.format, &formatted(&results, options.format, look)?)?;
    written?;
    finish(&results)
}

fn sim(options: SimOptions) -> Result<u8, Failure> {
    let look = Look { styled: styled(), full_titles: true, events: options.events };
    interrupt::listen()?;
    let (outcomes, interrupted) = simulate::run(options.runs);
    let failed: Vec<&String> = outcomes.iter().filter_map(|outcome| outcome.result.as_ref().err()).collect();
    if let (Some(why), true) = (failed.first(), failed.len() == outcomes.len()) {
        return Err(Failure::usage((*why).clone()));
    }
    let text = |format: Format, look: Look| match format {
        Format::Tables => Ok(simulate::table::render(&outcomes, look)),
        Format::JsonLines => simulate::json::lines(&outcomes),
        Format::Csv => Ok(simulate::json::csv(&outcomes)),
    };
    shown(options.format, options.out.as_ref(), look, text)?;
    if interrupted {
        return Ok(stopped());
    }
    match failed.first() {
        None => Ok(0),
        Some(why) => {
            Err(Failure::run(format!("{} of {} simulations failed; the first: {why}", failed.len(), outcomes.len())))
        }
    }
}

fn sweep(args: &PlanArgs) -> Result<u8, Failure> {
    match &args.what {
        None => {
            let options = SweepOptions::check(&args.shard, |name| std::env::var(name).ok())?;
            interrupt::listen()?;
            sweep::run(options)
        }
        Some(PlanCommand::Status(args)) => {
            show(&sweep::status::status(args, Look { styled: styled(), full_titles: false, events: false })?)
        }
        Some(PlanCommand::Merge(args)) => sweep::merge::merge(args),
    }
}

/// Prints `text` in one format, and writes it in another if that is wanted.
fn shown(
    format: Format,
    out: Option<&(Target, Format)>,
    look: Look,
    text: impl Fn(Format, Look) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let written = out.map_or(Ok(()), |(target, format)| target.write(&text(*format, Look { styled: false, ..look })?));
    put(format, &text(format, look)?)?;
    written
}

fn put(format: Format, text: &str) -> Result<u8, Failure> {
    if format == Format::Tables { show(text) } else { print(text) }
}

fn trace(options: TraceOptions) -> Result<u8, Failure> {
    let TraceOptions { run, window, out } = options;
    interrupt::listen()?;
    let (outcomes, _) = simulate::run(vec![run]);
    let Some(outcome) = outcomes.first() else { return Ok(stopped()) };
    let (text, count) = simulate::trace::document(outcome, window)?;
    // A trace that cannot be written is a bad place to write it to: there is nothing else to show.
    out.write(&text).map_err(|failure| Failure::usage(failure.to_string()))?;
    print(&format!("wrote {}: {}\n", out.path().display(), simulate::trace::said(outcome, window, count)))
}

fn foretell(options: &PredictOptions) -> Result<u8, Failure> {
    interrupt::listen()?;
    let found = predict::run(options)?;
    let look = Look { styled: styled(), full_titles: true, events: false };
    let text = |format: Format, look: Look| match format {
        Format::Tables => Ok(predict::table::render(&found, look)),
        Format::JsonLines => report::json::pretty(&found),
        Format::Csv => Ok(predict::csv::render(&found)),
    };
    let page = options.html.as_ref().map_or(Ok(()), |target| target.write(&predict::page::page(&found)));
    shown(options.format, options.out.as_ref(), look, text)?;
    page?;
    if let Some(target) = options.html.as_ref().filter(|_| options.format == Format::Tables) {
        print(&format!("\nwrote {}\n", target.path().display()))?;
    }
    if found.interrupted { Ok(stopped()) } else { Ok(0) }
}

/// Says that a signal ended the run.
fn stopped() -> u8 {
    let _ = writeln!(io::stderr(), "lockyard: interrupted; the report holds what was measured so far");
    INTERRUPTED
}

fn reproduce(options: &ReproduceOptions) -> Result<u8, Failure> {
    interrupt::listen()?;
    let done = reproduce::run(options)?;
    // Files first, as above.
    let page = options.html.as_ref().map_or(Ok(()), |target| target.write(&report::figures_html::page(&done)));
    let look = Look { styled: styled(), full_titles: false, events: false };
    match options.json {
        true => print(&options.document(&done)?)?,
        false => show(&report::figures_table::render(&done, look))?,
    };
    page?;
    if let Some(target) = options.html.as_ref().filter(|_| !options.json) {
        print(&format!("wrote {}\n", target.path().display()))?;
    }
    if done.unfinished.is_empty() {
        return Ok(0);
    }
    let unfinished = done.unfinished.join(", ");
    let _ = writeln!(io::stderr(), "lockyard: interrupted; the report holds what was complete, without {unfinished}");
    Ok(INTERRUPTED)
}

fn hq(options: &HqOptions) -> Result<u8, Failure> {
    let found = hq::run(options, facts())?;
    let look = Look { styled: styled(), full_titles: true, events: true };
    if options.json { print(&report::json::pretty(&found)?) } else { show(&report::hq::render(&found, look)) }
}

fn formatted(results: &Results, format: Format, look: Look) -> Result<String, Failure> {
    match format {
        Format::Tables => Ok(format!("{}\n\n{}", results.machine.line(), report::table::render(results, look))),
        Format::JsonLines => report::json::lines(results),
        Format::Csv => Ok(report::csv::render(results)),
    }
}

fn results(command: &'static str, machine: MachineFacts, started: String, seed: u64, measured: Measured) -> Results {
    let Measured { groups, interrupted, elapsed } = measured;
    Results { command, machine, started, elapsed, seed, interrupted, groups, scores: Vec::new() }
}

/// The exit code of a run that has been reported, and its last words.
fn finish(results: &Results) -> Result<u8, Failure> {
    if results.interrupted {
        return Ok(stopped());
    }
    match results.failures().count() {
        0 => Ok(0),
        failed => Err(Failure::run(format!("{failed} measurements failed; the report names them"))),
    }
}

fn facts() -> MachineFacts {
    MachineFacts::read(lockyard::platform::linux::Linux::pause_ns())
}

/// Whether stdout shows bold and dim text.
fn styled() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Prints what is for people: its lines fit the terminal.
fn show(text: &str) -> Result<u8, Failure> {
    print(&terminal::fit(text, terminal::width(io::stdout())))
}

/// Prints to stdout; a reader that has gone away is not an error to speak of.
fn print(text: &str) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(0)
}
