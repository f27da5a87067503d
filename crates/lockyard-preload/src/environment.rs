//! The environment: what it says, and the line that says what is wrong with it.

use core::ffi::{CStr, c_char};

/// The value of an environment variable, if it is set and not empty.
pub(crate) fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: a C string. Nobody changes the environment while the first locks are taken; the value
    // is looked at at once.
    let value: *const c_char = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: not null, so a C string.
    Some(unsafe { CStr::from_ptr(value) }.to_bytes()).filter(|value| !value.is_empty())
}

/// What is wrong with the environment.
#[derive(Clone, Copy)]
pub(crate) struct Complaint {
    variable: &'static str,
    value: &'static [u8],
    choices: &'static str,
}

impl Complaint {
    pub(crate) const fn new(variable: &'static str, value: &'static [u8], choices: &'static str) -> Self {
        Self { variable, value, choices }
    }

    /// One line on standard error.
    pub(crate) fn say(&self) {
        let parts: [&[u8]; 7] = [
            b"lockyard: ",
            self.variable.as_bytes(),
            b"=",
            self.value,
            b": unknown lock (choose from ",
            self.choices.as_bytes(),
            b"); all locks are glibc's\n",
        ];
        let parts = parts.map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        // SAFETY: the parts are memory of the given lengths, only read.
        let _ = unsafe { libc::writev(2, parts.as_ptr(), parts.len() as i32) };
    }
}
