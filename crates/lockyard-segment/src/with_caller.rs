//! Functions that know which code has called them.

/// A C function of its own that calls `$body` with one argument more: its [`Call`](crate::Call)
/// (unknown on processors for which that is not written). At most four arguments.
///
/// For functions that C calls, and for those to which such a one jumps when it has not touched the
/// stack. (Should it have, the address is in the library of the locks.)
#[macro_export]
macro_rules! with_caller {
    ($(#[$doc:meta])* $visible:vis fn $($rest:tt)*) => {
        $crate::with_caller! { $(#[$doc])* $visible extern "C" fn $($rest)* }
    };
    ($(#[$doc:meta])* $visible:vis extern $abi:literal
        fn $name:ident($($argument:ident: $type:ty),*) => $body:ident) => {
        $(#[$doc])*
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        #[unsafe(naked)]
        $visible unsafe extern $abi fn $name($($argument: $type),*) -> core::ffi::c_int {
            $crate::go_on_with_caller!($($argument)* => $body)
        }

        $(#[$doc])*
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        $visible unsafe extern $abi fn $name($($argument: $type),*) -> core::ffi::c_int {
            // SAFETY: the caller's promises, passed on.
            unsafe { $body($($argument,)* $crate::Call::UNKNOWN) }
        }
    };
}

/// Another name of the C function `$target`, which so sees the same caller.
#[macro_export]
macro_rules! alias {
    ($(#[$doc:meta])* $visible:vis fn $name:ident($($argument:ident: $type:ty),*) = $target:path) => {
        $(#[$doc])*
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        #[unsafe(naked)]
        $visible unsafe extern "C" fn $name($($argument: $type),*) -> core::ffi::c_int {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("jmp {target}", target = sym $target);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("b {target}", target = sym $target);
        }

        $(#[$doc])*
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        $visible unsafe extern "C" fn $name($($argument: $type),*) -> core::ffi::c_int {
            // SAFETY: the caller's promises, passed on.
            unsafe { $target($($argument),*) }
        }
    };
}

/// The instructions of [`with_caller`]: the two words of the call go into the registers behind
/// those of the arguments named.
#[cfg(target_arch = "x86_64")]
#[doc(hidden)]
#[macro_export]
macro_rules! go_on_with_caller {
    ($a:ident => $body:ident) => { $crate::go_on_with_caller!("rsi", "rdx", $body) };
    ($a:ident $b:ident => $body:ident) => { $crate::go_on_with_caller!("rdx", "rcx", $body) };
    ($a:ident $b:ident $c:ident => $body:ident) => { $crate::go_on_with_caller!("rcx", "r8", $body) };
    ($a:ident $b:ident $c:ident $d:ident => $body:ident) => { $crate::go_on_with_caller!("r8", "r9", $body) };
    ($top:literal, $frame:literal, $body:ident) => {
        core::arch::naked_asm!(
            concat!("mov ", $top, ", rsp"), concat!("mov ", $frame, ", rbp"), "jmp {body}", body = sym $body
        )
    };
}
#[cfg(target_arch = "aarch64")]
#[doc(hidden)]
#[macro_export]
macro_rules! go_on_with_caller {
    ($a:ident => $body:ident) => { $crate::go_on_with_caller!("x1", "x2", $body) };
    ($a:ident $b:ident => $body:ident) => { $crate::go_on_with_caller!("x2", "x3", $body) };
    ($a:ident $b:ident $c:ident => $body:ident) => { $crate::go_on_with_caller!("x3", "x4", $body) };
    ($a:ident $b:ident $c:ident $d:ident => $body:ident) => { $crate::go_on_with_caller!("x4", "x5", $body) };
    ($top:literal, $frame:literal, $body:ident) => {
        core::arch::naked_asm!(
            concat!("mov ", $top, ", x30"), concat!("mov ", $frame, ", x29"), "b {body}", body = sym $body
        )
    };
}
