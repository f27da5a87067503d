//! Why a process's segment cannot be read, for people.

use std::fmt;

use rustix::io::Errno;

use crate::layout::{LENGTH, VERSION};
use crate::untold::Refused;

/// Why a process's segment cannot be read. One line for people each: what, where, what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such process.
    NoProcess(u32),
    /// The process has no segment.
    NoSegment(u32),
    /// The process has become another program, by exec, which has no segment.
    Replaced(u32),
    /// The process belongs to another user.
    OtherUser {
        /// The process.
        process: u32,
        /// The user's number.
        user: u32,
    },
    /// There is a file of that name which is not the process's segment: made by somebody else, or
    /// left by an earlier process.
    Foreign(u32),
    /// The process has another version of Lockyard.
    Version {
        /// The process.
        process: u32,
        /// The version of its layout.
        found: u32,
    },
    /// The process could not make its segment.
    Untold(u32, Refused),
    /// Another recorder records the process.
    Recorded(u32),
    /// The system refused.
    System(u32, i32),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoProcess(process) => write!(out, "there is no process {process}"),
            Self::NoSegment(process) => write!(
                out,
                "process {process} has no lock statistics; start it with `lockyard run -- PROGRAM`, or with LOCKYARD_STAT=1 if it is linked with liblockyard or lockyard-stat"
            ),
            Self::Replaced(process) => write!(
                out,
                "process {process} has become another program (exec), which has no lock statistics; those of the program before are part of the report of `lockyard stat -- PROGRAM`"
            ),
            Self::OtherUser { process, user } => {
                write!(out, "the statistics of process {process} belong to user {user}; ask as that user, or as root")
            }
            Self::Foreign(process) => {
                write!(
                    out,
                    "/dev/shm/lockyard.{process} is not what process {process} has made: another process left it, or another user put it there"
                )
            }
            Self::Version { process, found } => write!(
                out,
                "process {process} writes statistics of version {found}, this command reads version {VERSION}; use the command of its Lockyard"
            ),
            Self::Untold(process, why) => {
                write!(out, "process {process} could not make its statistics: {why}")
            }
            Self::Recorded(process) => {
                write!(out, "process {process} is being recorded by another command; wait until that has ended")
            }
            Self::System(process, error) => {
                let error = std::io::Error::from_raw_os_error(*error);
                write!(out, "the statistics of process {process} cannot be read: {error}")
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = LENGTH.div_ceil(1 << 20);
        let (file, memory) = (Errno::FBIG.raw_os_error(), Errno::NOMEM.raw_os_error());
        match *self {
            Self::File(error) if error == file => write!(
                out,
                "its files are limited to less (ulimit -f) than the {length} MiB that they seem to have; raise the limit"
            ),
            Self::Memory(error) if error == memory => write!(
                out,
                "they take {length} MiB of addresses, which its limit of memory (ulimit -v) does not leave; raise the limit"
            ),
            Self::File(error) | Self::Memory(error) => write!(
                out,
                "{}; see that /dev/shm can be written and has room",
                std::io::Error::from_raw_os_error(error)
            ),
            Self::Sandbox => {
                write!(out, "it had shut itself in a sandbox, which may end it for a file; take a lock before it does")
            }
        }
    }
}
