//! Data beside the invariant's: lines that travel with the lock.
//!
//! What a section costs in a program is mostly the lines that its last holder had. The words are
//! the machine's, so that a simulated one charges their way. All of them hold the number of writes:
//! a thread that finds two which differ is not alone.

use std::sync::atomic::Ordering::Relaxed;

use lockyard::platform::Word;

use crate::machine::Machine;
use crate::padded::Padded;

/// A number of lines, each with one word.
#[derive(Debug)]
pub(crate) struct Data<M: Machine>(Box<[Padded<M::U32>]>);

impl<M: Machine> Data<M> {
    /// `lines` lines, on no other thread's way.
    pub(crate) fn new(lines: u32) -> Self {
        let lines: Box<[Padded<M::U32>]> = (0..lines).map(|_| Padded::default()).collect();
        for line in &lines {
            M::name("data", &line.0);
        }
        Self(lines)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Of a writer: counts it on every line. Whether all lines held the same count.
    #[inline(always)]
    pub(crate) fn change(&self) -> bool {
        self.visit(|line, count| line.store(count.wrapping_add(1), Relaxed))
    }

    /// Of a reader: whether all lines hold the same count.
    #[inline(always)]
    pub(crate) fn look(&self) -> bool {
        self.visit(|_, _| ())
    }

    #[inline(always)]
    fn visit(&self, each: impl Fn(&M::U32, u32)) -> bool {
        let Some(first) = self.0.first() else { return true };
        let count = first.load(Relaxed);
        each(first, count);
        let mut same = true;
        for line in &self.0[1..] {
            let found = line.load(Relaxed);
            same &= found == count;
            each(line, found);
        }
        same
    }
}

#[cfg(test)]
mod tests {
    use lockyard::platform::linux::Linux;

    use super::*;

    #[test]
    fn a_writer_half_way_is_seen() {
        let data = Data::<Linux>::new(3);
        assert!(data.look() && data.change() && data.look());
        data.0[1].store(0, Relaxed);
        assert!(!data.look() && !data.change());
    }

    #[test]
    fn no_lines_are_never_torn() {
        let data = Data::<Linux>::new(0);
        assert!(data.is_empty() && data.change() && data.look());
    }

    #[test]
    fn every_word_has_a_line_of_its_own() {
        let data = Data::<Linux>::new(8);
        let lines: std::collections::BTreeSet<usize> =
            data.0.iter().map(|line| std::ptr::from_ref(line).addr() / 64).collect();
        assert_eq!(lines.len(), 8);
    }
}
