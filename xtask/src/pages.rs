//! What people need to find: the methods on the page of each type, and packages that can be
//! published.

use std::fs;
use std::path::Path;

use crate::tools::{Outcome, cargo};

/// Fails with one line for each alias of the library whose page shows no methods: rustdoc shows
/// those of the type that an alias names, unless that is an alias itself.
/// `folder`: its pages, and no older ones.
pub(crate) fn methods(folder: &Path) -> Outcome {
    let mut pages = 0;
    let mut bare = Vec::new();
    for file in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?.flatten() {
        let name = file.file_name().to_string_lossy().into_owned();
        let Some(alias) = name.strip_prefix("type.").and_then(|name| name.strip_suffix(".html")) else { continue };
        let page = fs::read_to_string(file.path()).map_err(|error| format!("{name}: {error}"))?;
        pages += 1;
        if !page.contains("type.impl/") {
            bare.push(format!("lockyard::{alias} shows no methods: name the type itself, not an alias of it"));
        }
    }
    println!("{pages} aliases");
    if pages <= 20 {
        bare.push(format!("only {pages} aliases have pages in {}", folder.display()));
    }
    if bare.is_empty() { Ok(()) } else { Err(bare.join("\n")) }
}

/// Everything that is for others, as cargo would publish it, but for compiling it once more and for
/// the upload. Needs the registry.
pub(crate) fn publish() -> Outcome {
    cargo("publish --workspace --dry-run --no-verify --allow-dirty")
}
