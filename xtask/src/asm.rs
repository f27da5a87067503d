//! The shape of the uncontended fast paths, read from the compiled program.
//!
//! Each probe of `lockyard-cost` is one lock operation. Its fast path is the shortest way from its
//! first instruction to a `ret` that calls nothing; the check counts the instructions on it and
//! those among them that lock the bus. So a `Mutex` lock is one compare-exchange with no call
//! before it, and a `SpinLock` unlock locks nothing.
//!
//! Functions of the C interface that take a lock only jump: the address of their caller is on top
//! of the stack, for those that are watched. The fast paths of the preload library's mutex touch no
//! stack.

use std::collections::VecDeque;
use std::process::Command;

use crate::counts;
use crate::tools::{self, Outcome};

/// What a fast path must look like on x86-64.
struct Shape {
    probe: &'static str,
    /// The locked instructions it has, in order: the beginning of each.
    locked: &'static [&'static str],
    /// The most instructions it may have, its `ret` included.
    longest: usize,
}

/// Any locked instruction: each of them begins like this.
const ANY: &str = "";

const SHAPES: [Shape; 12] = [
    Shape { probe: "probe_mutex_lock", locked: &["lock cmpxchg"], longest: 10 },
    Shape { probe: "probe_mutex_unlock", locked: &[ANY], longest: 10 },
    Shape { probe: "probe_rt_mutex_lock", locked: &["lock cmpxchg"], longest: 20 },
    Shape { probe: "probe_rt_mutex_unlock", locked: &["lock cmpxchg"], longest: 16 },
    // A look and an exchange of a byte: more instructions, and less time, than one exchange of two.
    Shape { probe: "probe_spin_lock", locked: &["lock cmpxchg"], longest: 16 },
    Shape { probe: "probe_spin_unlock", locked: &[], longest: 10 },
    Shape { probe: "probe_rwsem_read", locked: &[ANY], longest: 22 },
    Shape { probe: "probe_rwsem_read_unlock", locked: &[ANY], longest: 22 },
    Shape { probe: "probe_rwsem_write", locked: &["lock cmpxchg"], longest: 22 },
    Shape { probe: "probe_rwsem_write_unlock", locked: &[ANY], longest: 22 },
    Shape { probe: "probe_semaphore_acquire", locked: &["lock cmpxchg"], longest: 15 },
    Shape { probe: "probe_semaphore_release", locked: &[ANY], longest: 15 },
];

/// Functions of the C interface that take a lock.
const TOLD: usize = 31;

/// Fails with one line per fast path that has not its shape.
pub(crate) fn check() -> Outcome {
    if std::env::consts::ARCH != "x86_64" {
        println!("not checked on {}: the shapes are written down for x86_64 only", std::env::consts::ARCH);
        return Ok(());
    }
    tools::need("objdump", "binutils")?;
    let program = counts::build()?;
    let symbols = tools::capture(Command::new("objdump").args(["-t", &program]))?;
    let listing = tools::capture(Command::new("objdump").args(["-d", "--no-show-raw-insn", &program]))?;
    let mut wrong = Vec::new();
    for shape in &SHAPES {
        let code =
            function(&symbols, &listing, shape.probe).ok_or_else(|| format!("no {} in {program}", shape.probe))?;
        let Some(path) = fast_path(&code, !shape.locked.is_empty()) else {
            wrong.push(format!("{}: every way to its end calls something", shape.probe));
            continue;
        };
        let locked: Vec<&str> = path.iter().copied().filter(|text| is_locked(text)).collect();
        println!("{:<26} {:>2} instructions, locked: {}", shape.probe, path.len(), list(&locked));
        let as_expected = locked.len() == shape.locked.len()
            && locked.iter().zip(shape.locked).all(|(text, start)| text.starts_with(start));
        if !as_expected || path.len() > shape.longest {
            let rule = format!("at most {} instructions, locked: {}", shape.longest, list(shape.locked));
            wrong.push(format!("{} must have {rule}, but is:\n    {}", shape.probe, path.join("\n    ")));
        }
    }
    let listing = listing_of("lockyard-capi", "liblockyard_capi.so")?;
    let (told, touching) = touching(&listing);
    println!("{told} functions of the C interface tell of their callers");
    if told < TOLD {
        wrong.push(format!("only {told} functions of the C interface tell of their callers"));
    }
    let listing = listing_of("lockyard-preload", "liblockyard_preload.so");
    wrong.extend(listing.map_or_else(|error| vec![error], |listing| framed(&listing)));
    wrong.extend(touching.iter().map(|name| format!("{name} touches the stack before it knows whether it is watched")));
    if wrong.is_empty() { Ok(()) } else { Err(format!("{}\nrerun: cargo xtask cost counts", wrong.join("\n"))) }
}

/// Functions of the preload library, with the ends of their names, that must not touch the stack:
/// what they store there would have to reach the cache before their locked instruction.
const FRAMELESS: [&str; 4] = [
    // As C knows them, and those to which they jump.
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "5mutex5calls8lock_for",
    "5mutex5calls10unlock_for",
];

/// The code of `library`, which `package` makes.
fn listing_of(package: &str, library: &str) -> Outcome<String> {
    tools::cargo(&format!("build --release --quiet -p {package}"))?;
    let library = tools::target().join("release").join(library);
    tools::capture(Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(library))
}

/// A line for each of [`FRAMELESS`] that is not what it must be.
fn framed(listing: &str) -> Vec<String> {
    let wrong = |end: &&str| {
        // The listing names one of those that share an address; or others jump to it.
        let is_alias = |name: &str| name.trim_start_matches('_') == *end;
        let is_mangled = |name: &str| match name.rsplit_once("17h") {
            Some((name, _)) => name.ends_with(end),
            None => false,
        };
        let named = functions(listing).filter(|(name, _)| is_alias(name) || is_mangled(name));
        let what = match named.max_by_key(|(name, _)| name == end) {
            None => "is not there",
            Some((_, code)) if !code.contains("lock ") => "has no locked instruction",
            Some((_, code)) if touches_stack(code) => "touches the stack",
            Some(_) => return None,
        };
        Some(format!("{end} of the preload library {what}"))
    };
    FRAMELESS.iter().filter_map(wrong).collect()
}

/// The functions of a listing: name and code.
fn functions(listing: &str) -> impl Iterator<Item = (&str, &str)> {
    listing.split("\n\n").filter_map(|function| {
        let (head, code) = function.trim_start().split_once('\n')?;
        Some((head.split_once('<')?.1.strip_suffix(">:")?, code))
    })
}

/// Whether there is an instruction in `code` that touches the stack, or a call.
fn touches_stack(code: &str) -> bool {
    // Before the name of a place, which may contain anything.
    let mut instructions = code.lines().filter_map(|line| line.split(['<', '#']).next());
    instructions.any(|text| ["push", "call", "%rsp"].iter().any(|word| text.contains(word)))
}

/// How many functions `ly_…` jump to one that tells of their caller, and those of them that touch
/// the stack or call before.
fn touching(listing: &str) -> (usize, Vec<&str>) {
    let mut told: Vec<_> = functions(listing).filter(|(name, _)| name.starts_with("ly_")).collect();
    told.retain(|(_, code)| code.contains("7watched"));
    let touching = told.iter().filter(|(_, code)| touches_stack(code)).map(|(name, _)| *name);
    (told.len(), touching.collect())
}

fn list(words: &[&str]) -> String {
    let words: Vec<&str> = words.iter().map(|word| if *word == ANY { "any" } else { word }).collect();
    if words.is_empty() { "none".to_owned() } else { words.join("; ") }
}

/// An instruction and its address.
type Instruction<'a> = (u64, &'a str);

/// The instructions of `symbol`, from the symbols of `objdump -t` and the listing of
/// `objdump -d --no-show-raw-insn`. Functions with the same code share an address, where the
/// listing names only one of them.
fn function<'a>(symbols: &str, listing: &'a str, symbol: &str) -> Option<Vec<Instruction<'a>>> {
    let entry = symbols.lines().find(|line| line.split_whitespace().last() == Some(symbol))?;
    let head = format!("{} <", entry.split_whitespace().next()?);
    let lines = listing.lines().skip_while(|line| !line.starts_with(&head)).skip(1).take_while(|line| !line.is_empty());
    let parsed = lines.filter_map(|line| {
        let (address, text) = line.split_once(':')?;
        let text = text.split('#').next().unwrap_or(text).trim();
        Some((u64::from_str_radix(address.trim(), 16).ok()?, text))
    });
    Some(parsed.collect())
}

/// The shortest way from the first instruction to a `ret`, without a call or a jump out of the
/// function; if the operation `locks` the bus, one that does: the way of a release of nothing is
/// shorter, and none of the operation's.
fn fast_path<'a>(code: &[Instruction<'a>], locks: bool) -> Option<Vec<&'a str>> {
    // An instruction is twice here: on ways that have not locked yet, and on those that have.
    let mut came_from: Vec<Option<usize>> = vec![None; 2 * code.len()];
    let mut queue = VecDeque::from([0]);
    while let Some(place) = queue.pop_front() {
        let (at, text) = (place / 2, code.get(place / 2)?.1);
        let has_locked = place % 2 == 1 || is_locked(text);
        if text.starts_with("ret") && (has_locked || !locks) {
            let mut path = vec![text];
            let mut step = place;
            while step != 0 {
                step = came_from[step]?;
                path.push(code[step / 2].1);
            }
            path.reverse();
            return Some(path);
        }
        for next in successors(code, at) {
            let place_after = 2 * next + usize::from(has_locked);
            if next != 0 && next < code.len() && came_from[place_after].is_none() {
                came_from[place_after] = Some(place);
                queue.push_back(place_after);
            }
        }
    }
    None
}

fn successors(code: &[Instruction<'_>], at: usize) -> Vec<usize> {
    let mut words = code[at].1.split_whitespace();
    let operation = words.next().unwrap_or_default();
    let mut target = || {
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        code.iter().position(|instruction| instruction.0 == address)
    };
    match operation {
        "call" | "ud2" | "hlt" | "int3" | "ret" => vec![],
        "jmp" => target().into_iter().collect(),
        _ if operation.starts_with('j') => target().into_iter().chain([at + 1]).collect(),
        _ => vec![at + 1],
    }
}

/// `xchg` with memory locks the bus without the prefix; a full fence costs the same.
fn is_locked(text: &str) -> bool {
    text.starts_with("lock ") || text.starts_with("mfence") || text.starts_with("xchg") && text.contains('(')
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "\
0000000000001010 g     F .text\t0000000000000026              probe
0000000000001040 g     F .text\t0000000000000007              next
0000000000001040 g     F .text\t0000000000000007              same
";

    const LISTING: &str = "\
0000000000001000 <other>:
    1000:\tret

0000000000001010 <probe>:
    1010:\tmov    %fs:0xfffffffffffffff8,%ecx
    1018:\ttest   %ecx,%ecx
    101a:\tje     1030 <probe+0x20>
    101c:\txor    %eax,%eax
    101e:\tlock cmpxchg %ecx,(%rdi)
    1022:\tjne    1030 <probe+0x20>
    1024:\tret
    1030:\tcall   1000 <other>
    1035:\tret

0000000000001040 <next>:
    1040:\txchg   %eax,(%rdi)
    1042:\tjmp    1000 <other>
";

    #[test]
    fn the_fast_path_is_the_way_without_calls() {
        let path = fast_path(&function(SYMBOLS, LISTING, "probe").unwrap(), true).unwrap();
        assert_eq!(path.len(), 7);
        assert_eq!(path.iter().filter(|text| is_locked(text)).count(), 1);
    }

    #[test]
    fn a_way_around_the_operation_is_not_its_own() {
        let code = [
            (0, "test   %esi,%esi"),
            (2, "je     10 <f+0x10>"),
            (4, "mov    %esi,%eax"),
            (6, "lock xadd %eax,(%rdi)"),
            (16, "ret"),
        ];
        assert_eq!(fast_path(&code, false).map(|path| path.len()), Some(3));
        assert_eq!(fast_path(&code, true).map(|path| path.len()), Some(5));
    }

    #[test]
    fn a_function_that_touches_the_stack_is_named() {
        let listing = "a.so: file format\n\n0010 <ly_a>:\n  10:\tjne 40 <_ZN4ly_a7watched17h0E>\n  12:\tjmp 50 <_ZN4ly_a5plain17h0E>\n\n\
                       0020 <ly_b>:\n  20:\tpush %rbx\n  22:\tjne 40 <_ZN4ly_b7watched17h0E>\n\n0030 <ly_c>:\n  30:\tpush %rbx\n";
        assert_eq!(touching(listing), (2, vec!["ly_b"]));
    }

    #[test]
    fn a_frame_in_a_call_that_must_have_none_is_named() {
        let name = |end: &str| match end.starts_with("pthread") {
            true => format!("__{end}"),
            false => format!("_ZN4some{end}17h0123E"),
        };
        let listing = |code: &str| {
            let code = format!("  10:\tlock cmpxchg %edx,(%rdi)\n  12:\t{code}\n");
            FRAMELESS.map(|end| format!("0010 <{}>:\n{code}", name(end))).join("\n")
        };
        assert_eq!(framed(&listing("jne 40 <_ZN5calls4pushE>")), [""; 0]);
        for code in ["push %rbx", "mov %rdi,0x8(%rsp)", "call 40 <f>"] {
            assert_eq!(framed(&listing(code)).len(), FRAMELESS.len());
        }
        for missing in ["", &listing("ret").replace("lock cmpxchg %edx,(%rdi)", "jmp 40 <f>")] {
            assert_eq!(framed(missing).len(), FRAMELESS.len());
        }
    }

    #[test]
    fn a_tail_call_is_no_fast_path() {
        let code = function(SYMBOLS, LISTING, "same").unwrap();
        assert!(is_locked(code[0].1));
        assert!(fast_path(&code, true).is_none());
    }
}
