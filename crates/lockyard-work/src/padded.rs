//! A value alone on its cache lines.

use std::ops::Deref;

/// 128 bytes, not 64: x86-64 fetches lines in pairs, and some arm64 have lines of that size.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);

impl<T> Deref for Padded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
