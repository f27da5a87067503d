//! Where the dependencies come from and under which licences, from `cargo tree` alone: seconds,
//! where cargo-deny needs minutes to compile. The licences allowed are those of `deny.toml`; every
//! package is the workspace's own or from the default registry; `Cargo.lock` matches the manifests.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::tools::{self, Outcome};

/// Fails with one line per package that may not be used.
pub(crate) fn check() -> Outcome {
    let allowed = allowed(&fs::read_to_string("deny.toml").map_err(|error| format!("deny.toml: {error}"))?);
    let tree = "tree --workspace --locked --edges all --target all --prefix none --format {p}|{l}";
    println!("$ cargo {tree}");
    let packages = tools::capture(Command::new("cargo").args(tree.split(' ')))
        .map_err(|error| format!("{error}\nif Cargo.lock is out of date, run: cargo update --workspace"))?;
    let packages: BTreeSet<&str> = packages.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    let root = tools::root().display().to_string();
    let mut breaches = Vec::new();
    for (package, licence) in packages.iter().filter_map(|line| line.split_once('|')) {
        // "name vVERSION", then "(proc-macro)" where it is one, then "(path or address)" unless
        // from the registry.
        let source = package.replace(" (proc-macro)", "");
        let source = source.split_once(" (").map(|(_, source)| source.trim_end_matches(')').to_owned());
        if source.is_some_and(|source| !source.starts_with(&root)) {
            breaches.push(format!("{package}: neither from the registry nor from this workspace"));
        }
        match permitted(licence, &allowed) {
            Some(true) => {}
            Some(false) => breaches.push(format!("{package}: licence {licence:?} is not in deny.toml")),
            None => breaches.push(format!("{package}: licence {licence:?} cannot be read")),
        }
    }
    println!("{} packages", packages.len());
    if breaches.is_empty() { Ok(()) } else { Err(format!("{}\nrerun: cargo xtask lint", breaches.join("\n"))) }
}

/// The quoted words of the first `allow = [ … ]` under `[licenses]`.
fn allowed(deny: &str) -> Vec<String> {
    let list = deny.split_once("[licenses]").and_then(|(_, rest)| rest.split_once("allow = [")?.1.split_once(']'));
    let quoted = list.map_or("", |(list, _)| list).split('"').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

/// Whether an SPDX expression can be satisfied with allowed licences; `None` if it is no such
/// expression.
fn permitted(expression: &str, allowed: &[String]) -> Option<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    let result = any(&mut words, allowed)?;
    words.is_empty().then_some(result)
}

fn any(words: &mut Vec<&str>, allowed: &[String]) -> Option<bool> {
    let mut result = all(words, allowed)?;
    while words.pop_if(|word| *word == "OR").is_some() {
        result |= all(words, allowed)?;
    }
    Some(result)
}

fn all(words: &mut Vec<&str>, allowed: &[String]) -> Option<bool> {
    let mut result = one(words, allowed)?;
    while words.pop_if(|word| *word == "AND").is_some() {
        result &= one(words, allowed)?;
    }
    Some(result)
}

fn one(words: &mut Vec<&str>, allowed: &[String]) -> Option<bool> {
    let first = words.pop()?;
    if first == "(" {
        let result = any(words, allowed)?;
        return (words.pop()? == ")").then_some(result);
    }
    let mut licence = first.to_owned();
    if words.pop_if(|word| *word == "WITH").is_some() {
        licence = format!("{licence} WITH {}", words.pop()?);
    }
    (!matches!(first, ")" | "OR" | "AND" | "WITH")).then(|| allowed.contains(&licence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let allowed =
            allowed("[graph]\n[licenses]\nallow = [\n    \"MIT\", # x\n    \"Apache-2.0 WITH LLVM-exception\",\n]");
        assert_eq!(allowed, ["MIT", "Apache-2.0 WITH LLVM-exception"]);
        let permitted = |expression| permitted(expression, &allowed);
        assert_eq!(permitted("MIT"), Some(true));
        assert_eq!(permitted("GPL-2.0-only"), Some(false));
        assert_eq!(permitted("GPL-2.0-only OR MIT"), Some(true));
        assert_eq!(permitted("Apache-2.0/MIT"), Some(true));
        assert_eq!(permitted("(MIT OR Zlib) AND GPL-2.0-only"), Some(false));
        assert_eq!(permitted("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only"), Some(true));
        assert_eq!(permitted("Zlib AND GPL-2.0-only OR MIT"), Some(true));
        assert_eq!(permitted(""), None);
        assert_eq!(permitted("MIT MIT"), None);
        assert_eq!(permitted("(MIT"), None);
        assert_eq!(permitted("MIT OR"), None);
    }
}
