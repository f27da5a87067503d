//! How much machine code a lock is: no simulation, the running program looks at itself.
//!
//! Published: the size of an object file before and after a change. What stands for it: the text of
//! the functions of the lock's module that its entry points reach, under the policy before and the
//! one after. Legacy symbol names do not tell the policies of a generic function apart, but calls
//! do:
//!
//! ```text
//! entry points (function pointers) ─► symbol at that address ─► its bytes ─► direct calls and jumps ─► symbols …
//! ```
//!
//! A call is found where the machine code at any byte offset reads as a near call or jump to the
//! very start of a known function; chance hits would have to hit such a start. Calls through
//! pointers are not followed. Only code of the lock's own module counts, not the waiting, parking
//! and counting that all locks share, as in the published object files. What another compiler makes
//! of another language differs in size; the change is what can be compared.
//!
//! Possible on x86-64 and in programs with a symbol table; elsewhere the cells stay empty and say
//! why.

use std::collections::{BTreeMap, BTreeSet};

use lockyard::history;
use lockyard::history::rwsem::KernelRwSem;
use lockyard::history::rwsem::policy::{self, Visitor};
use lockyard::history::semaphore::{DirectHandoff, KernelSemaphore, Opportunistic2008};
use lockyard::platform::linux::Linux;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

use crate::error::Error;
use crate::plan::{Cell, Job, Outcome, Plan, Source, Take};
use crate::table::Table;

/// A table of code sizes: two rows.
#[derive(Debug)]
pub(crate) struct CodeSize {
    column: &'static str,
    /// Rows and the locks that they are.
    rows: [(&'static str, &'static str); 2],
}

/// rwsem before and after its files were merged and its count was remade.
pub(crate) const RWSEM: CodeSize =
    CodeSize { column: "bytes", rows: [("before", "rwsem:xadd-baseline"), ("after", "rwsem:handoff-none")] };

/// The semaphore before and after the fix.
pub(crate) const SEMAPHORE: CodeSize = CodeSize {
    column: "dec",
    rows: [("before", "semaphore:direct-handoff"), ("after", "semaphore:opportunistic-2008")],
};

impl CodeSize {
    pub(crate) fn plan(&self, table: &Table) -> Result<Plan, Error> {
        let mut plan = Plan { keys: vec!["state".to_owned()], unit: "bytes", ..Plan::default() };
        let mut cells = Vec::new();
        for (name, lock) in self.rows {
            let job = plan.job(Job::CodeSize { lock });
            cells.push(plan.cell(Cell {
                row: name.to_owned(),
                column: self.column.to_owned(),
                threads: None,
                panel: String::new(),
                published: Some(table.number(table.row(name)?, self.column)?),
                source: Ok(Source::Number(job, Take::plain("bytes"))),
            }));
        }
        plan.change("bytes: before → after".to_owned(), cells[0], cells[1], 0.0);
        let locks: Vec<String> = self.rows.iter().map(|(name, lock)| format!("{name} = {lock}")).collect();
        plan.notes.push(format!("{}; not simulated: machine code of this program, by policy", locks.join(", ")));
        Ok(plan)
    }
}

/// The machine code of `lock`, or why it is not known.
pub(crate) fn run(lock: &str) -> Result<Outcome, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("machine code is read on x86-64 only".to_owned());
    }
    let (entries, module) = entries(lock).ok_or_else(|| format!("no entry points of '{lock}'"))?;
    let bytes = reachable(&entries, module)?;
    Ok(Outcome { numbers: [("bytes".to_owned(), bytes as f64)].into(), shape: None })
}

/// The entry points of a lock, and what the names of its module's functions contain.
fn entries(lock: &str) -> Option<(Vec<usize>, &'static str)> {
    match lock.split_once(':')? {
        ("rwsem", name) => policy::visit(name, RwSemEntries).map(|entries| (entries, "rwsem")),
        ("semaphore", "direct-handoff") => Some((semaphore::<DirectHandoff>(), "semaphore")),
        ("semaphore", "opportunistic-2008") => Some((semaphore::<Opportunistic2008>(), "semaphore")),
        _ => None,
    }
}

struct RwSemEntries;

impl Visitor for RwSemEntries {
    type Output = Vec<usize>;

    fn policy<Y: policy::Policy>(self) -> Vec<usize> {
        type Lock<Y> = KernelRwSem<Linux, Y>;
        let safe: [fn(&Lock<Y>); 2] = [Lock::<Y>::read_acquire, Lock::<Y>::write_acquire];
        let tries: [fn(&Lock<Y>) -> bool; 2] = [Lock::<Y>::try_read_acquire, Lock::<Y>::try_write_acquire];
        let releases: [unsafe fn(&Lock<Y>); 3] =
            [Lock::<Y>::read_release, Lock::<Y>::write_release, Lock::<Y>::downgrade];
        let safe = safe.into_iter().map(|entry| entry as usize);
        let tries = tries.into_iter().map(|entry| entry as usize);
        safe.chain(tries).chain(releases.into_iter().map(|entry| entry as usize)).collect()
    }
}

fn semaphore<Y: history::semaphore::Policy>() -> Vec<usize> {
    type Lock<Y> = KernelSemaphore<Linux, Y>;
    let down: fn(&Lock<Y>) = Lock::<Y>::down;
    let tries: [fn(&Lock<Y>) -> bool; 2] = [Lock::<Y>::try_down, Lock::<Y>::up];
    [down as usize].into_iter().chain(tries.into_iter().map(|entry| entry as usize)).collect()
}

/// A function of the program: its size and its name.
struct Function<'a> {
    size: u64,
    name: &'a str,
    code: &'a [u8],
}

/// Bytes of the functions of `module` that `entries` reach.
fn reachable(entries: &[usize], module: &str) -> Result<u64, String> {
    let data = std::fs::read("/proc/self/exe").map_err(|_| "this program's file cannot be read".to_owned())?;
    let file = ElfFile64::<object::Endianness>::parse(&*data).map_err(|error| error.to_string())?;
    let functions = functions(&file);
    if functions.is_empty() {
        return Err("this program has no symbol table (stripped)".to_owned());
    }
    let base = load_address(&file).ok_or("this program's place in memory is not known")?;
    let mut open: Vec<u64> = entries.iter().map(|entry| *entry as u64 - base).collect();
    let mut seen = BTreeSet::new();
    let mut bytes = 0;
    while let Some(address) = open.pop() {
        let Some(function) = functions.get(&address) else { continue };
        let own = function.name.contains("lockyard") && function.name.contains(module);
        if own && seen.insert(address) {
            bytes += function.size;
            open.extend(targets(address, function.code));
        }
    }
    if bytes == 0 { Err("the lock's functions were not found in the symbol table".to_owned()) } else { Ok(bytes) }
}

fn functions<'a>(file: &ElfFile64<'a>) -> BTreeMap<u64, Function<'a>> {
    let Some(text) = file.section_by_name(".text") else { return BTreeMap::new() };
    let (Ok(code), start) = (text.data(), text.address()) else { return BTreeMap::new() };
    let symbols = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    let found = symbols.filter_map(|symbol| {
        let from = usize::try_from(symbol.address().checked_sub(start)?).ok()?;
        let code = code.get(from..from + symbol.size() as usize)?;
        Some((symbol.address(), Function { size: symbol.size(), name: symbol.name().ok()?, code }))
    });
    found.collect()
}

/// Where the program was loaded: the address of this function less the one in the file.
fn load_address(file: &ElfFile64<'_>) -> Option<u64> {
    let here = run as fn(&str) -> Result<Outcome, String> as usize as u64;
    let mut symbols = file.symbols().filter(|symbol| symbol.name().is_ok_and(|name| name.contains("code_size3run")));
    Some(here - symbols.next()?.address())
}

/// Where near calls, jumps and conditional jumps in `code` lead.
fn targets(address: u64, code: &[u8]) -> Vec<u64> {
    let near = |at: usize, length: usize| {
        let bytes: [u8; 4] = code.get(at + length - 4..at + length)?.try_into().ok()?;
        let from = address + (at + length) as u64;
        Some(from.wrapping_add_signed(i64::from(i32::from_le_bytes(bytes))))
    };
    let at = |index: usize| match (code[index], code.get(index + 1)) {
        (0xe8 | 0xe9, _) => near(index, 5),
        (0x0f, Some(0x80..=0x8f)) => near(index, 6),
        _ => None,
    };
    (0..code.len()).filter_map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_jumps_are_found() {
        // call +1 (to 16), jne −2 (to 10), ret
        let code = [0xe8, 1, 0, 0, 0, 0x0f, 0x85, 0xff, 0xff, 0xff, 0xff, 0xc3];
        assert_eq!(targets(10, &code), [16, 20]);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn code_of_this_program_is_found() {
        for lock in ["rwsem:xadd-baseline", "rwsem:today-kernel", "semaphore:direct-handoff"] {
            let outcome = run(lock).unwrap_or_else(|why| panic!("{lock}: {why}"));
            assert!((100.0..1e6).contains(&outcome.numbers["bytes"]), "{lock}: {outcome:?}");
        }
        assert!(run("rwsem:nothing").is_err() && run("mutex").is_err());
    }
}
