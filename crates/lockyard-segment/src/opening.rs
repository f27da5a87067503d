//! Whose segment a file is, and who may look at it: what a reader asks before it believes a word.

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::layout::{LENGTH, VERSION};
use crate::memory::Memory;
use crate::process::{self, Image};
use crate::refusal::Refusal;
use crate::untold;

/// A file that was believed, mapped.
pub(crate) struct Opened {
    pub image: Image,
    /// The file's inode.
    pub file: u64,
    pub memory: Memory,
}

/// Maps the segment of `image`; `running`: of a process that must be there.
pub(crate) fn open(image: Image, writable: bool, running: bool) -> Result<Opened, Refusal> {
    let process = image.process;
    let system = |error: Errno| Refusal::System(process, error.raw_os_error());
    // Nobody but root and the process's user may look: its files in /proc say whose it is.
    let owner = process::user(process);
    let flags = if writable { OFlags::RDWR } else { OFlags::RDONLY };
    let (file, own_name) = match (process::open_for_reader(image, flags), owner) {
        (Ok(found), _) => found,
        (Err(Errno::NOENT), None) => return Err(Refusal::NoProcess(process)),
        (Err(Errno::NOENT), Some(user)) if !process::permitted(user) => {
            return Err(Refusal::OtherUser { process, user });
        }
        (Err(Errno::NOENT), Some(_)) => return Err(Refusal::NoSegment(process)),
        (Err(Errno::ACCESS | Errno::PERM), Some(user)) if process::permitted(user) => {
            return Err(Refusal::OtherUser { process, user: 0 });
        }
        (Err(Errno::ACCESS | Errno::PERM), Some(user)) => return Err(Refusal::OtherUser { process, user }),
        (Err(Errno::LOOP), _) => return Err(Refusal::Foreign(process)),
        (Err(error), _) => return Err(system(error)),
    };
    let found = rustix::fs::fstat(&file).map_err(system)?;
    if !process::permitted(found.st_uid) {
        return Err(Refusal::OtherUser { process, user: found.st_uid });
    }
    // A file that another user has put there is none to believe, nor one that an earlier
    // process has left. Root's is: it made the file before it became another user.
    let owned = owner.is_none_or(|owner| owner == found.st_uid) || found.st_uid == 0;
    let whole = found.st_size as usize == LENGTH;
    let identity = process::identity(&file).ok_or(Refusal::Foreign(process))?;
    // Numbers of another namespace of processes mean others here, unless they were translated.
    let is_elsewhere = process::is_elsewhere(identity.namespace) && own_name == process;
    let now = process::began(process).filter(|_| !is_elsewhere);
    if !owned
        || identity.process != own_name
        || running && (is_elsewhere || now.is_some_and(|began| began > identity.made))
    {
        return Err(Refusal::Foreign(process));
    }
    if running && now.is_none() {
        return Err(Refusal::NoProcess(process));
    }
    let version = process::version(&file);
    if let Some(why) = untold::read(&file).filter(|_| version == untold::NONE) {
        return Err(Refusal::Untold(process, why));
    }
    if version != VERSION || !whole {
        return Err(Refusal::Version { process, found: version });
    }
    let foreign = found.st_uid != rustix::process::geteuid().as_raw();
    let memory = if foreign && !writable { Memory::copied(file) } else { Memory::mapped(&file, writable) };
    Ok(Opened { image, file: found.st_ino, memory: memory.map_err(system)? })
}
