//! What a process counted as the program that it was before exec: a session gets it.

use core::mem::offset_of;

use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard::platform::linux::file::File;
use rustix::fd::AsFd;
use rustix::fs::{OFlags, RenameFlags, fstat, renameat_with};
use rustix::io::{pread, pwrite};

use crate::layout::{Header, VERSION};
use crate::process::{self, Image};

/// The name of `process`, which is ours, is taken: by the program that it was before exec, by a
/// process that had the same number, or by one that has it in another namespace. Session `session`
/// gets what that program has counted, if it took a lock. One of another namespace may go on, and
/// keeps its segment under another name. Anything else is removed.
pub(crate) fn set_aside(process: u32, session: u32) {
    let image = Image::of(process);
    if keep(image, session).or_else(|| make_way(image)).is_none() {
        process::remove(&process::file_name(process));
    }
}

/// Renames the segment of a process of another namespace. Of those of one number so many are left:
/// which have ended is not to be known here.
fn make_way(image: Image) -> Option<()> {
    const MOST: usize = 16;
    let file = process::open(image.process, OFlags::RDONLY).ok()?;
    let found = process::identity(&file).filter(|found| process::is_elsewhere(found.namespace))?;
    let mut others = 0;
    let same = |other: &Image| other.process == found.process && other.before != 0;
    process::each_image(|other| others += usize::from(same(&other))).ok()?;
    let [_, number] = process::file_id(&file).ok().filter(|_| others < MOST)?;
    rename(image, number)
}

/// From now on the segment of `image`, whose file has this number, is called by it.
fn rename(image: Image, number: u64) -> Option<()> {
    let folder = File::open(process::FOLDER, OFlags::PATH).ok()?;
    let (old, new) = (image.name(), Image { before: number, ..image }.name());
    renameat_with(&folder, old.as_c_str(), &folder, new.as_c_str(), RenameFlags::NOREPLACE).ok()
}

fn keep(image: Image, session: u32) -> Option<()> {
    let file = process::open(image.process, OFlags::RDWR).ok()?;
    let found = process::identity(&file).filter(|found| found.session == session && process::alive(session))?;
    let attributes = fstat(&file).ok()?;
    let is_ours = found.namespace == process::namespace()
        && attributes.st_uid == rustix::process::geteuid().as_raw()
        && process::version(&file) == VERSION;
    if !is_ours || word(&file, offset_of!(Header, started))? == 0 {
        return None;
    }
    let (ended, moment) = (offset_of!(Header, ended), offset_of!(Header, ended_ns));
    if word(&file, ended)? == 0 {
        // Its threads are gone, and their waits are over; since when, a reader may know better.
        process::may_be_long(moment as u64 + 8).ok()?;
        pwrite(&file, &Linux::now().to_le_bytes(), moment as u64).ok()?;
        pwrite(&file, &1u32.to_le_bytes(), ended as u64).ok()?;
    }
    rename(image, attributes.st_ino)
}

fn word(file: impl AsFd, at: usize) -> Option<u32> {
    let mut bytes = [0u8; 4];
    (pread(file, &mut bytes, at as u64) == Ok(bytes.len())).then(|| u32::from_le_bytes(bytes))
}
