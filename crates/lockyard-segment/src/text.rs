//! Short texts in shared memory.

use core::sync::atomic::{AtomicU8, Ordering::*};

/// A short text, zero-padded.
#[derive(Debug)]
#[repr(transparent)]
pub struct Text<const N: usize>([AtomicU8; N]);

impl<const N: usize> Text<N> {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU8::new(0) }; N])
    }

    /// As much of `text` as there is room for.
    pub(crate) fn set(&self, text: &[u8]) {
        for (index, byte) in self.0.iter().enumerate() {
            byte.store(text.get(index).copied().unwrap_or(0), Relaxed);
        }
    }

    /// Whether it is what [`Text::set`] makes of `text`.
    pub(crate) fn is(&self, text: &[u8]) -> bool {
        self.0.iter().enumerate().all(|(index, byte)| byte.load(Relaxed) == text.get(index).copied().unwrap_or(0))
    }

    /// The text, in `place`.
    pub(crate) fn copy_to<'a>(&self, place: &'a mut [u8; N]) -> &'a [u8] {
        for (to, from) in place.iter_mut().zip(&self.0) {
            *to = from.load(Relaxed);
        }
        place.split(|byte| *byte == 0).next().unwrap_or(&[])
    }

    pub(crate) fn copy_from(&self, other: &Self) {
        for (to, from) in self.0.iter().zip(&other.0) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }

    /// The text; bytes that are none are replaced.
    pub fn get(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().map(|byte| byte.load(Relaxed)).take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
