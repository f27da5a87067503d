//! Which program a process runs: after exec it has its old number, and another program.

use core::fmt::Arguments;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lockyard::platform::linux::file::File;
use rustix::fs::OFlags;
use rustix::io::read;

use crate::name::Name;

/// A program under way. Read without allocation: a lock may be waited for meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// When its process began, in ticks since boot.
    pub began: u64,
    /// Where its stack and its code begin, in one number: elsewhere after exec. 0: not for the
    /// caller to know.
    pub stack: u64,
    /// How many threads it has.
    pub threads: u32,
}

impl Program {
    /// The one that `process` runs; `None`: there is no such process, or it has ended, though it
    /// may not be collected yet.
    pub fn of(process: u32) -> Option<Self> {
        Self::read(format_args!("/proc/{process}/stat"))
    }

    /// Whether they are the same, as far as the stacks are known.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.began == other.began && (self.stack == other.stack || self.stack == 0 || other.stack == 0)
    }

    fn read(path: Arguments<'_>) -> Option<Self> {
        let file = File::open(Name::new(path).as_c_str(), OFlags::RDONLY).ok()?;
        let mut buffer = [0u8; 512];
        let length = read(&file, &mut buffer).ok()?;
        // "id (name) state …": the name may hold spaces and brackets, so count from its last
        // bracket. The state is field 3.
        let text = &buffer[..length];
        let after = text.iter().rposition(|byte| *byte == b')')? + 1;
        let mut fields = text[after..].split(|byte| *byte == b' ').filter(|field| !field.is_empty());
        let ended = matches!(fields.next()?, b"Z" | b"X");
        let mut number = |skip: usize| core::str::from_utf8(fields.nth(skip)?).ok()?.parse::<u64>().ok();
        let (threads, began) = (number(16)? as u32, number(1)?);
        let (code, end_of_code, stack) = (number(3)?, number(0)?, number(0)?);
        // Where addresses are no random ones, stacks of one length begin alike.
        let stack = if stack == 0 { 0 } else { stack ^ code.rotate_left(16) ^ end_of_code.rotate_left(32) };
        // The first thread may end before the others.
        (!ended || threads > 1).then_some(Self { began, stack, threads })
    }
}

/// A program as its segment tells of it, which it made.
#[derive(Debug, Clone, Copy)]
pub struct Maker {
    /// When it made that, in ticks since boot.
    pub at: u64,
    /// As [`Program::stack`].
    pub stack: u64,
}

impl Maker {
    /// Whether `now`, which a process of that number runs, is the same.
    #[must_use]
    pub fn is(&self, now: &Program) -> bool {
        self.is_in(now) && (self.stack == now.stack || self.stack == 0 || now.stack == 0)
    }

    /// Whether its process runs `now`: what began later has no more of it than the number.
    #[must_use]
    pub fn is_in(&self, now: &Program) -> bool {
        now.began <= self.at
    }
}

/// Where the stack of the program that calls begins. Asked of the calling thread: the process's own
/// file does not tell once its first thread has ended. A child of a fork knows its parent's.
pub(crate) fn own_stack() -> u64 {
    static STACK: AtomicU64 = AtomicU64::new(0);
    if STACK.load(Relaxed) == 0 {
        let found = Program::read(format_args!("/proc/thread-self/stat"));
        STACK.store(found.map_or(0, |program| program.stack), Relaxed);
    }
    STACK.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_beginning_or_another_stack_is_another_program() {
        let program = |began, stack| Program { began, stack, threads: 1 };
        let known = program(7, 4096);
        assert!(known.is(&known) && known.is(&program(7, 0)) && program(7, 0).is(&known));
        assert!(!known.is(&program(8, 4096)) && !known.is(&program(8, 0)) && !known.is(&program(7, 8192)));
    }

    #[test]
    fn a_process_knows_its_own() {
        let own = Program::of(std::process::id()).expect("it runs");
        assert!(own.threads > 0 && own.stack != 0 && own.stack == own_stack());
        assert!(Program::of(0).is_none());
    }
}
