//! Names of files, without allocation: a lock may be waited for while one is opened.

use core::ffi::CStr;
use core::fmt::{self, Write};

/// A zero-terminated text on the stack.
pub(crate) struct Name {
    bytes: [u8; 96],
    length: usize,
}

impl Name {
    pub(crate) fn new(text: fmt::Arguments<'_>) -> Self {
        let mut name = Self { bytes: [0; 96], length: 0 };
        // A text that does not fit is cut off: none is that long.
        let _ = name.write_fmt(text);
        name
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

impl Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - 1 - self.length;
        let taken = text.len().min(room);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_does_not_fit_is_cut_off() {
        assert_eq!(Name::new(format_args!("{:>120}", 1)).as_c_str().to_bytes().len(), 95);
    }
}
