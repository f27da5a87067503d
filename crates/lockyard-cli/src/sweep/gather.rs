//! The files of a sweep: those of its folder, or those that were named.

use std::fs;
use std::path::{Path, PathBuf};

use super::file::Contents;
use super::plan::Plan;
use super::shard::Shard;
use super::usual_folder;
use crate::failure::{Failure, plain};

/// A file and what it holds.
#[derive(Debug)]
pub(super) struct Part {
    /// Its path.
    pub(super) path: PathBuf,
    /// The shard that its name says.
    pub(super) shard: Option<Shard>,
    /// What it holds.
    pub(super) contents: Contents,
}

/// The plan `path`, and what is there of it in `named` files and folders, by default in the plan's
/// folder.
///
/// # Errors
/// One line: a file that cannot be read, or is not of this plan; or there is none.
pub(super) fn parts(path: &Path, named: &[PathBuf]) -> Result<(Plan, Vec<Part>), Failure> {
    let plan = Plan::read(path)?;
    let usual = [usual_folder(path)];
    let places = if named.is_empty() { &usual } else { named };
    let mut files = Vec::new();
    for place in places {
        if place.is_dir() || named.is_empty() {
            files.extend(inside(place)?);
        } else {
            files.push(place.clone());
        }
    }
    if files.is_empty() {
        let places: Vec<String> = places.iter().map(|place| format!("'{}'", place.display())).collect();
        let what = format!("{} has no file of a shard yet (3-of-8.jsonl)", places.join(", "));
        return Err(Failure::usage(what));
    }
    let part = |path: PathBuf| {
        let shard = path.file_name().and_then(|name| Shard::of_file(&name.to_string_lossy()));
        Ok(Part { shard, contents: Contents::read(&path, &plan)?, path })
    };
    let parts = files.into_iter().map(part).collect::<Result<Vec<Part>, Failure>>()?;
    Ok((plan, parts))
}

/// The files of shards in `folder`, by shard.
fn inside(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error| Failure::usage(format!("'{}': cannot be read: {}", folder.display(), plain(&error)));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if let Some(shard) = Shard::of_file(&entry.file_name().to_string_lossy()) {
            found.push(((shard.count, shard.number), entry.path()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}
