//! The segments that are kept for a session: a `lockyard stat -- PROGRAM`, known by its process id.
//!
//! A process that has ended leaves its own, for the session to remove. A process that becomes
//! another program leaves that of the one that it was, under another name: see `exec`.

use core::sync::atomic::Ordering::*;

use rustix::fs::OFlags;

use crate::process::{self, Image};
use crate::reader::Reader;
use crate::refusal::Refusal;
use crate::untold::Refused;

impl Reader {
    /// The segments of all processes, running or not, that wrote for session `session`, and those
    /// of the programs that they were before exec.
    pub fn of_session(session: u32) -> Vec<Self> {
        Self::members(session).into_iter().filter_map(|image| Self::map(image, false, false).ok()).collect()
    }

    /// Why segments of that session cannot be read.
    pub fn refused_of_session(session: u32) -> Vec<Refusal> {
        Self::members(session).into_iter().filter_map(|image| Self::map(image, false, false).err()).collect()
    }

    /// How many children of forks could make no segment, as the segments of `readers` say, and why
    /// one of them could not.
    pub fn untold_children(readers: &[Self]) -> Option<(u64, Refused)> {
        let all = readers.iter().map(|reader| {
            reader.refresh();
            let page = &reader.shared().baseline;
            (page.untold.load(Acquire), Refused::from_word(page.untold_why.load(Relaxed)))
        });
        all.filter(|(count, _)| *count > 0).reduce(|(sum, _), (count, why)| (sum + count, why))
    }

    /// The programs of that session.
    pub(crate) fn members(session: u32) -> Vec<Image> {
        let mut members = Vec::new();
        let _ = process::each_image(|image| members.push(image));
        // An earlier command may have had the same id, and have left processes that go on.
        let (begun, namespace) = (process::began(session), process::namespace());
        let belongs = |image: &Image| {
            let file = process::open_image(*image, OFlags::RDONLY).ok();
            file.and_then(process::identity).is_some_and(|found| {
                let is_later = found.namespace != namespace || begun <= Some(found.made);
                found.session == session && is_later
            })
        };
        members.retain(belongs);
        members
    }
}
