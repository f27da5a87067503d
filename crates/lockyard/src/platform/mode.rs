//! How threads hold locks, as they note it for the detector of deadlocks: plain data below the
//! locks.

#![cfg_attr(not(feature = "deadlock"), allow(unreachable_pub))]

/// How a thread holds a lock, or wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// With other readers.
    Shared,
    /// With other readers, and with the right to become the writer.
    Upgradable,
    /// Held for an upgradable read, wanted for writing.
    Upgrading,
    /// Alone.
    Exclusive,
}

impl core::fmt::Display for Mode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Mode::Shared => "shared",
            Mode::Upgradable => "upgradable",
            Mode::Upgrading => "upgrading",
            Mode::Exclusive => "exclusive",
        })
    }
}
