//! How to come from a function's frame to that of its caller: by the tables that compilers leave
//! for exceptions (`.eh_frame` and its index, `.eh_frame_hdr`).
//!
//! The C library says where a file's tables are (see [`site`]), so nothing here takes a lock,
//! allocates or calls the system. x86-64 only: elsewhere no frame has a known caller.

/// How to leave the frame of a function, at a call in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Whether the end of the frame is counted from the frame pointer; else from the stack pointer.
    pub(crate) by_frame_pointer: bool,
    /// Bytes from there to the end of the frame; the return address lies below it.
    pub(crate) size: usize,
    /// Bytes from the end of the frame down to the caller's frame pointer; 0: it is unchanged.
    pub(crate) saved: usize,
}

#[cfg(target_arch = "x86_64")]
pub(crate) use tables::{after_fork_in_child, function, step};

/// What [`step`] finds.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "nothing is found"))]
pub(crate) enum Found {
    Step(Step),
    /// There is no table, or it says what is not written here.
    Nothing,
    /// Another thread asks: it is not known yet.
    Later,
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn step(_at: usize) -> Found {
    Found::Nothing
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn after_fork_in_child() {}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn function(_at: usize) -> Option<usize> {
    None
}

#[cfg(target_arch = "x86_64")]
mod tables {
    use core::cell::UnsafeCell;
    use core::sync::atomic::{AtomicBool, Ordering::*};

    use gimli::{
        BaseAddresses, CfaRule, EhFrame, EndianSlice, NativeEndian, ReaderOffset, Register, RegisterRule,
        UnwindContext, UnwindContextStorage, UnwindSection, UnwindTableRow, X86_64,
    };

    use super::{Found, Step};
    use crate::site;

    /// No larger frame is worth a look.
    const LARGEST: usize = 1 << 15;

    type Slice = EndianSlice<'static, NativeEndian>;

    /// Room for what one function's table says.
    struct Few;

    impl<T: ReaderOffset> UnwindContextStorage<T> for Few {
        type Rules = [(Register, RegisterRule<T>); 24];
        type Stack = [UnwindTableRow<T, Self>; 4];
    }

    /// Too large for the stacks of signal handlers: one for the process.
    struct Context {
        taken: AtomicBool,
        inner: UnsafeCell<Option<UnwindContext<usize, Few>>>,
    }

    // SAFETY: `taken` admits one thread at a time.
    unsafe impl Sync for Context {}

    static CONTEXT: Context = Context { taken: AtomicBool::new(false), inner: UnsafeCell::new(None) };

    /// The word at `address`.
    ///
    /// # Safety
    /// It lies in a table of a loaded file.
    unsafe fn word(address: usize) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::with_exposed_provenance::<u32>(address).read_unaligned() }
    }

    /// Where the function that contains `pc` begins, and its entry in `.eh_frame`.
    fn entry(pc: usize) -> Option<(usize, usize)> {
        /// Version 1; the pointer to the tables relative to itself, the count a number, the index
        /// relative to its own beginning: four signed bytes each. What linkers write.
        const FORM: u32 = u32::from_le_bytes([1, 0x1b, 0x03, 0x3b]);
        const ROW: usize = 8;
        let index = site::tables(pc)?;
        let at = |offset: i32| index.wrapping_add_signed(offset as isize);
        // SAFETY: the C library's word for it; the index has `count` rows.
        unsafe {
            if word(index) != FORM {
                return None;
            }
            let (count, rows) = (word(index + 8) as usize, index + 12);
            let begins = |row: usize| at(word(rows + row * ROW) as i32);
            let (mut low, mut high) = (0, count);
            while low < high {
                let middle = low.midpoint(high);
                if begins(middle) <= pc { low = middle + 1 } else { high = middle }
            }
            let row = low.checked_sub(1)?;
            Some((begins(row), at(word(rows + row * ROW + 4) as i32)))
        }
    }

    /// Where the function begins from which a call returns to `at`.
    pub(crate) fn function(at: usize) -> Option<usize> {
        Some(entry(at.checked_sub(1)?)?.0)
    }

    /// How to leave the frame of the function from which a call returns to `at`.
    pub(crate) fn step(at: usize) -> Found {
        let pc = at.wrapping_sub(1);
        let Some((_, entry)) = entry(pc) else { return Found::Nothing };
        if CONTEXT.taken.swap(true, Acquire) {
            return Found::Later;
        }
        // SAFETY: this thread has set `taken`.
        let context = unsafe { &mut *CONTEXT.inner.get() }.get_or_insert_with(UnwindContext::new_in);
        let step = read(pc, entry, context);
        CONTEXT.taken.store(false, Release);
        step.map_or(Found::Nothing, Found::Step)
    }

    /// In the child of a fork: a thread that asked is not in it.
    pub(crate) fn after_fork_in_child() {
        CONTEXT.taken.store(false, Relaxed);
    }

    fn read(pc: usize, entry: usize, context: &mut UnwindContext<usize, Few>) -> Option<Step> {
        // An entry, and the one that it shares with others: a length each, which does not count
        // itself, and the way from the one to the other.
        // SAFETY: entries of the index point to whole entries of the table.
        let (begin, end) = unsafe {
            let shared = (entry + 4).checked_sub(word(entry + 4) as usize)?;
            let whole = |entry: usize| match word(entry) {
                0 | 0xffff_fff0.. => None,
                length => Some(entry + 4 + length as usize),
            };
            (entry.min(shared), whole(entry)?.max(whole(shared)?))
        };
        // SAFETY: both entries lie in there, and the table is not changed.
        let table = unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(begin), end - begin) };
        let section = EhFrame::from(Slice::new(table, NativeEndian));
        let bases = BaseAddresses::default().set_eh_frame(begin as u64);
        let offset = gimli::EhFrameOffset(entry - begin);
        let entry = section.fde_from_offset(&bases, offset, EhFrame::cie_from_offset).ok()?;
        let row = entry.unwind_info_for_address(&section, &bases, context, pc as u64).ok()?;
        let (register, size) = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => (*register, usize::try_from(*offset).ok()?),
            CfaRule::Expression(_) => return None,
        };
        let is_near = |bytes: usize| (8..=LARGEST).contains(&bytes) && bytes.is_multiple_of(8);
        let saved = match row.register(X86_64::RBP) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => 0,
            Some(RegisterRule::Offset(offset)) => usize::try_from(-offset).ok().filter(|down| is_near(*down))?,
            Some(_) => return None,
        };
        let returns = row.register(X86_64::RA) == Some(RegisterRule::Offset(-8));
        let is_known = register == X86_64::RSP || register == X86_64::RBP;
        (returns && is_known && is_near(size) && !entry.is_signal_trampoline()).then_some(Step {
            by_frame_pointer: register == X86_64::RBP,
            size,
            saved,
        })
    }
}
