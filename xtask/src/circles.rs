//! Circles between modules: a module of a crate that uses another, directly or through others, is
//! not used by it. A module and those inside it are one family, and may use each other.
//!
//! A file is a module; what it uses are the paths in its code that begin with `crate`, `super` or
//! `self`. Unit tests do not count: those of one lock may import others.

use std::collections::{BTreeMap, BTreeSet};

/// The names that lead to a module from the crate's root.
type Module = Vec<String>;

/// Every circle among the modules of these files, once, as a line. A file is its path below the
/// folder of the crate's sources, and its code without comments.
pub(crate) fn circles(files: &[(&str, String)]) -> Vec<String> {
    let of_file = |path: &str| -> Module {
        let name = path.trim_end_matches(".rs").trim_end_matches("/mod");
        name.split('/').filter(|part| !matches!(*part, "lib" | "main")).map(str::to_owned).collect()
    };
    let is_test = |path: &str| path.split('/').any(|part| part.trim_end_matches(".rs") == "tests");
    let files: BTreeMap<Module, &str> =
        files.iter().filter(|(path, _)| !is_test(path)).map(|(path, code)| (of_file(path), &**code)).collect();
    let modules: BTreeSet<Module> = files.keys().cloned().collect();
    let uses: BTreeMap<&Module, BTreeSet<Module>> =
        files.iter().map(|(module, code)| (module, uses(module, code, &modules))).collect();
    uses.keys().filter_map(|module| circle(module, &uses)).collect()
}

/// The modules that `module` uses, without its family.
fn uses(module: &Module, code: &str, modules: &BTreeSet<Module>) -> BTreeSet<Module> {
    let code = code.split("mod tests {").next().unwrap_or_default();
    let family = |other: &Module| other.starts_with(module) || module.starts_with(other);
    let used = paths(code).into_iter().filter_map(|path| {
        let mut from: Module = if path[0] == "crate" { Vec::new() } else { module.clone() };
        for name in path {
            match name {
                "crate" | "self" => {}
                "super" => drop(from.pop()),
                _ => from.push(name.to_owned()),
            }
        }
        // What the path names may be something inside the module.
        (1..=from.len()).rev().map(|length| from[..length].to_vec()).find(|module| modules.contains(module))
    });
    used.filter(|other| !family(other)).collect()
}

/// The shortest circle through `module`, if it is the first of its names.
fn circle(module: &Module, uses: &BTreeMap<&Module, BTreeSet<Module>>) -> Option<String> {
    let mut ways: Vec<Vec<&Module>> = vec![vec![module]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way[way.len() - 1];
            for next in uses.get(last).into_iter().flatten() {
                if next == module {
                    let names: Vec<String> = way.iter().chain([&module]).map(|module| module.join("::")).collect();
                    return (way.iter().min() == Some(&module)).then(|| names.join(" uses "));
                }
                if seen.insert(next) {
                    longer.push([&way[..], &[next]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

/// The paths of `code` that begin in this crate, one for each name of a group.
fn paths(code: &str) -> Vec<Vec<&str>> {
    let mut paths = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            if !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                group(&code[at..], &[], &mut paths);
            }
        }
    }
    paths
}

/// Reads a path, or a group of them in braces, that goes on from `before`. Returns what follows.
fn group<'a>(text: &'a str, before: &[&'a str], paths: &mut Vec<Vec<&'a str>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut inside) = text.strip_prefix('{') {
        while let Some(first) = inside.trim_start().chars().next().filter(|first| *first != '}') {
            let rest = group(inside, before, paths);
            // Past the comma, or past what is read no further: `as` and a name.
            let read = rest.len() < inside.trim_start().len() && first != ',';
            inside = if read { rest } else { &inside.trim_start()[first.len_utf8()..] };
        }
        return inside.trim_start().strip_prefix('}').unwrap_or_default();
    }
    let length = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*').unwrap_or(text.len());
    let (name, rest) = text.split_at(length);
    let path = [before, &[name]].concat();
    match rest.strip_prefix("::") {
        Some(rest) if !name.is_empty() => group(rest, &path, paths),
        _ => {
            if before.len() + usize::from(!name.is_empty()) > 1 {
                paths.push(path);
            }
            rest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_with_their_groups() {
        let code = "use crate::a::{self, b::{C, D as E}, f::*};\nlet x = super::g::h(self::i::J);\nnot_crate::k::L";
        let found: Vec<String> = paths(code).iter().map(|path| path.join("::")).collect();
        for path in
            ["crate::a::self", "crate::a::b::C", "crate::a::b::D", "crate::a::f::*", "super::g::h", "self::i::J"]
        {
            assert!(found.iter().any(|found| found == path), "{path} of {found:?}");
        }
        assert!(!found.iter().any(|path| path.contains('k')));
    }

    #[test]
    fn circles_are_found_and_families_are_none() {
        let files = |list: &[(&'static str, &str)]| {
            list.iter().map(|(path, code)| (*path, (*code).to_owned())).collect::<Vec<_>>()
        };
        let family =
            files(&[("a/mod.rs", "mod b; use b::X;"), ("a/b.rs", "use super::Y; use crate::c::Z;"), ("c.rs", "")]);
        assert!(circles(&family).is_empty());
        let three = files(&[
            ("a/b.rs", "use crate::c::X;"),
            ("c.rs", "fn f() { crate::d::g() }"),
            ("d.rs", "use super::a::b::Y;"),
            ("lib.rs", "mod a;"),
        ]);
        assert_eq!(circles(&three), ["a::b uses c uses d uses a::b"]);
        let tests = files(&[
            ("a.rs", "use crate::c::X;"),
            ("c.rs", "mod tests { use crate::a::Y; }"),
            ("c/tests.rs", "use crate::a::Y;"),
        ]);
        assert!(circles(&tests).is_empty());
    }
}
