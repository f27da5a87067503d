//! The conformance suite on the real machine: every lock, every form of it. The cases are in
//! `lockyard-check`, the locks in `lockyard-catalog`. With the feature `portable` the machine is
//! that of other systems.

use lockyard::platform::Native;
use lockyard_check::conformance_of;

conformance_of!(native, Native);

/// They need PI futexes.
#[cfg(all(target_os = "linux", not(feature = "portable")))]
mod inheriting {
    use lockyard::platform::linux::Linux;
    use lockyard_check::conformance_of;

    conformance_of!(lending, Linux);
}
