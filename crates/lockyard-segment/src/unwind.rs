//! How to come from a function's frame to that of its caller: by the tables that compilers leave
//! for exceptions (`.eh_frame` and its index, `.eh_frame_hdr`; "DWARF Debugging Information
//! Format", version 5, 6.4, and the Linux Standard Base, 10.6).
//!
//! The C library says where a file's tables are (see [`site`]), so nothing here takes a lock,
//! allocates or calls the system. A row of two registers is all that is kept, for lock calls are
//! made on small stacks, too; what needs more is not known. x86-64 only: elsewhere no frame has a
//! known caller.

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
pub(crate) use tables::{function, step};

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn step(_at: usize) -> Option<Step> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn function(_at: usize) -> Option<usize> {
    None
}

#[cfg(target_arch = "x86_64")]
mod tables {
    use super::Step;
    use crate::site;

    /// No larger frame is worth a look.
    const LARGEST: i64 = 1 << 15;
    /// The numbers of registers.
    const FRAME_POINTER: u64 = 6;
    const STACK_POINTER: u64 = 7;
    const RETURN_ADDRESS: u64 = 16;

    /// Bytes of a table that are read in turn.
    #[derive(Clone, Copy)]
    struct Bytes {
        at: usize,
        end: usize,
    }

    impl Bytes {
        fn byte(&mut self) -> Option<u8> {
            let at = self.at;
            // SAFETY: between the ends of an entry of a loaded file's table.
            let byte = (at < self.end).then(|| unsafe { core::ptr::with_exposed_provenance::<u8>(at).read() })?;
            self.at += 1;
            Some(byte)
        }

        fn skip(&mut self, bytes: u64) -> Option<()> {
            let at = self.at.checked_add(usize::try_from(bytes).ok()?)?;
            (at <= self.end).then(|| self.at = at)
        }

        fn number(&mut self, bytes: u32) -> Option<u64> {
            (0..bytes).try_fold(0, |sum, byte| Some(sum | u64::from(self.byte()?) << (8 * byte)))
        }

        /// LEB128.
        fn unsigned(&mut self) -> Option<u64> {
            let mut sum = 0;
            for shift in (0..63).step_by(7) {
                let byte = self.byte()?;
                sum |= u64::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    return Some(sum);
                }
            }
            None
        }

        fn signed(&mut self) -> Option<i64> {
            let from = self.at;
            let sum = self.unsigned()?;
            let unused = 64 - 7 * (self.at - from) as u32;
            Some((sum << unused) as i64 >> unused)
        }
    }

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

    /// Where the function begins from which a call, which is under way, returns to `at`.
    pub(crate) fn function(at: usize) -> Option<usize> {
        let pc = at.checked_sub(1)?;
        let (begin, entry) = entry(pc)?;
        own(entry, (pc - begin) as u64).map(|_| begin)
    }

    /// How to leave the frame of the function from which a call, which is under way, returns to
    /// `at`.
    pub(crate) fn step(at: usize) -> Option<Step> {
        let pc = at.checked_sub(1)?;
        let (begin, entry) = entry(pc)?;
        read(entry, (pc - begin) as u64)
    }

    /// An entry without its length.
    ///
    /// # Safety
    /// One of a loaded file's table begins there.
    unsafe fn whole(entry: usize) -> Option<Bytes> {
        // SAFETY: the caller's promise.
        match unsafe { word(entry) } {
            0 | 0xffff_fff0.. => None,
            length => Some(Bytes { at: entry + 4, end: entry + 4 + length as usize }),
        }
    }

    /// What entries of the table have in common.
    struct Common {
        code_unit: u64,
        data_unit: i64,
        /// Bytes of an address.
        address: u32,
        first: Bytes,
    }

    fn common(mut entry: Bytes) -> Option<Common> {
        let (id, version) = (entry.number(4)?, entry.byte()?);
        // "zR", "zPLR": what is more is after a length. (No frames of signals, "S".)
        if id != 0 || version != 1 || entry.byte()? != b'z' {
            return None;
        }
        let mut letters = entry;
        while entry.byte()? != 0 {}
        let (code_unit, data_unit) = (entry.unsigned()?, entry.signed()?);
        if entry.byte()? != RETURN_ADDRESS as u8 {
            return None;
        }
        let more = entry.unsigned()?;
        let mut first = entry;
        first.skip(more)?;
        /// How an address is written: its lowest bits.
        fn length(form: u8) -> Option<u32> {
            match form & 0x0f {
                0x00 | 0x04 | 0x0c => Some(8),
                0x03 | 0x0b => Some(4),
                _ => None,
            }
        }
        let mut address = 8;
        loop {
            match letters.byte()? {
                0 => break,
                b'R' => address = length(entry.byte()?)?,
                b'L' => entry.skip(1)?,
                b'P' => {
                    let form = entry.byte()?;
                    entry.skip(length(form)?.into())?;
                }
                _ => return None,
            }
        }
        Some(Common { code_unit, data_unit, address, first })
    }

    /// What is known at a place of a function.
    #[derive(Clone, Copy)]
    struct Row {
        register: u64,
        size: i64,
        /// Where the caller's frame pointer is, from the end of the frame; 0: unchanged.
        saved: i64,
        /// Where the return address is.
        returns: i64,
    }

    /// What `entry`, which is of a function with the place `offset`, has in common with others, and
    /// its instructions. The index has no end of functions: behind them is code without a table.
    fn own(entry: usize, offset: u64) -> Option<(Common, Bytes)> {
        // SAFETY: entries of the index point to entries of the table, and these to the one that
        // they share with others, by the way back to it.
        let (mut own, common) = unsafe {
            let own = whole(entry)?;
            (own, common(whole(own.at.checked_sub(word(own.at) as usize)?)?)?)
        };
        own.skip(4 + u64::from(common.address))?;
        if offset >= own.number(common.address)? {
            return None;
        }
        let more = own.unsigned()?;
        own.skip(more)?;
        Some((common, own))
    }

    fn read(entry: usize, offset: u64) -> Option<Step> {
        let (common, own) = own(entry, offset)?;
        let blank = Row { register: 0, size: 0, saved: 0, returns: 0 };
        let mut first = blank;
        run(&common, common.first, u64::MAX, &mut first, blank)?;
        let mut row = first;
        run(&common, own, offset, &mut row, first)?;
        let is_near = |bytes: i64| (8..=LARGEST).contains(&bytes) && bytes % 8 == 0;
        let is_known = matches!(row.register, STACK_POINTER | FRAME_POINTER) && row.returns == -8;
        (is_known && is_near(row.size) && (row.saved == 0 || is_near(-row.saved))).then_some(Step {
            by_frame_pointer: row.register == FRAME_POINTER,
            size: row.size as usize,
            saved: -row.saved as usize,
        })
    }

    /// Follows `code` up to the place `offset` of the function. `first` is the row at its
    /// beginning. `None`: something that is not written here.
    fn run(common: &Common, mut code: Bytes, offset: u64, row: &mut Row, first: Row) -> Option<()> {
        const DEPTH: usize = 4;
        let (mut place, mut kept, mut depth) = (0, [first; DEPTH], 0);
        while code.at < code.end {
            let byte = code.byte()?;
            let low = u64::from(byte & 0x3f);
            let ahead = match (byte & 0xc0, byte) {
                (0x40, _) => Some(low),
                (_, 0x02) => Some(code.number(1)?),
                (_, 0x03) => Some(code.number(2)?),
                (_, 0x04) => Some(code.number(4)?),
                _ => None,
            };
            if let Some(ahead) = ahead {
                place += ahead * common.code_unit;
                if place > offset {
                    return Some(());
                }
                continue;
            }
            let scaled = |value: u64| i64::try_from(value).ok()?.checked_mul(common.data_unit);
            let mut set = |register: u64, at: i64| match register {
                FRAME_POINTER => row.saved = at,
                RETURN_ADDRESS => row.returns = at,
                _ => {}
            };
            match (byte & 0xc0, byte) {
                // offset, offset_extended
                (0x80, _) => set(low, scaled(code.unsigned()?)?),
                (_, 0x05) => {
                    let register = code.unsigned()?;
                    set(register, scaled(code.unsigned()?)?);
                }
                // restore, restore_extended
                (0xc0, _) | (_, 0x06) => {
                    let register = if byte == 0x06 { code.unsigned()? } else { low };
                    match register {
                        FRAME_POINTER => row.saved = first.saved,
                        RETURN_ADDRESS => row.returns = first.returns,
                        _ => {}
                    }
                }
                // nop
                (_, 0x00) => {}
                // undefined, same_value
                (_, 0x07 | 0x08) => set(code.unsigned()?, 0),
                // register
                (_, 0x09) => {
                    let register = code.unsigned()?;
                    code.unsigned()?;
                    if matches!(register, FRAME_POINTER | RETURN_ADDRESS) {
                        return None;
                    }
                }
                // remember_state, restore_state
                (_, 0x0a) => {
                    *kept.get_mut(depth)? = *row;
                    depth += 1;
                }
                (_, 0x0b) => {
                    depth = depth.checked_sub(1)?;
                    *row = kept[depth];
                }
                // def_cfa, def_cfa_register, def_cfa_offset
                (_, 0x0c) => (row.register, row.size) = (code.unsigned()?, code.unsigned()? as i64),
                (_, 0x0d) => row.register = code.unsigned()?,
                (_, 0x0e) => row.size = code.unsigned()? as i64,
                // def_cfa_expression
                (_, 0x0f) => {
                    let bytes = code.unsigned()?;
                    code.skip(bytes)?;
                    row.register = u64::MAX;
                }
                // expression, val_expression: of a register that matters it is not known.
                (_, 0x10 | 0x16) => {
                    let register = code.unsigned()?;
                    let bytes = code.unsigned()?;
                    code.skip(bytes)?;
                    if matches!(register, FRAME_POINTER | RETURN_ADDRESS) {
                        row.register = u64::MAX;
                    }
                }
                // GNU_args_size
                (_, 0x2e) => {
                    code.unsigned()?;
                }
                _ => return None,
            }
        }
        Some(())
    }
}
