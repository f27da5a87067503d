//! The surface of the library: how many public functions its pages show to a user.
//!
//! Rustdoc makes the pages of the default features, with warnings as errors, into a folder of their
//! own: those of the workspace show the internals too. Counted are functions, and methods of types
//! with `pub` before them, on pages of their own or of their type. Methods of traits are not: a
//! trait's are one promise.

use std::fs;
use std::path::Path;

use crate::pages;
use crate::tools::{self, Outcome, cargo_with};

/// More than this cannot be kept stable.
const MOST: usize = 80;

const FOLDER: &str = "surface";

/// Fails if there are more, or warnings.
pub(crate) fn check() -> Outcome {
    let folder = tools::target().join(FOLDER);
    // What was public once would be counted.
    let pages = folder.join("doc");
    if pages.exists() {
        fs::remove_dir_all(&pages).map_err(|error| format!("{}: {error}", pages.display()))?;
    }
    let words = format!("doc --quiet --no-deps -p lockyard --lib --target-dir {}", folder.display());
    cargo_with(&[("RUSTDOCFLAGS", "-D warnings")], &words)?;
    pages::methods(&pages.join("lockyard"))?;
    let mut counts = Vec::new();
    collect(&pages.join("lockyard"), &mut counts)?;
    counts.sort();
    let sum: usize = counts.iter().map(|(_, count)| count).sum();
    println!("{sum} public functions of the library, as rustdoc shows them without methods of traits; at most {MOST}");
    if (1..=MOST).contains(&sum) {
        return Ok(());
    }
    let lines: Vec<String> = counts.iter().map(|(page, count)| format!("{count:4} {page}")).collect();
    Err(format!(
        "{}\n{sum} public functions, from 1 to {MOST} are allowed: put what only Lockyard's crates call behind \
         `unstable-internals`; rerun: cargo xtask lint",
        lines.join("\n")
    ))
}

/// The pages below `folder` with functions, and how many.
fn collect(folder: &Path, counts: &mut Vec<(String, usize)>) -> Outcome {
    let wrong = |error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_dir() {
            collect(&path, counts)?;
        } else if let Some(name) = path.file_name().and_then(|name| name.to_str()) {
            let page = fs::read_to_string(&path).map_err(wrong)?;
            let count = functions(name, &page);
            if count > 0 {
                counts.push((name.trim_end_matches(".html").to_owned(), count));
            }
        }
    }
    Ok(())
}

/// How many public functions the page shows. Where something is public under another path, a page
/// may only lead there: it shows none.
fn functions(name: &str, page: &str) -> usize {
    if page.contains("http-equiv=\"refresh\"") {
        0
    } else if name.starts_with("fn.") {
        1
    } else {
        let methods = page.split("class=\"method\">").skip(1);
        methods.filter(|method| signature(method).is_some_and(|code| code.starts_with("pub "))).count()
    }
}

/// What stands in the head of a method's section.
fn signature(section: &str) -> Option<&str> {
    Some(section.split_once("<h4 class=\"code-header\">")?.1)
}

#[cfg(test)]
mod tests {
    use super::functions;

    #[test]
    fn public_functions_are_counted_once_each() {
        let method = |head: &str| {
            format!("<section id=\"method.f\" class=\"method\"><h4 class=\"code-header\">{head} f()</h4></section>")
        };
        let page = [method("pub const fn"), method("fn"), method("pub unsafe fn")].concat();
        assert_eq!(functions("struct.S.html", &page), 2);
        assert_eq!(functions("fn.f.html", "a function"), 1);
        assert_eq!(functions("fn.f.html", "<meta http-equiv=\"refresh\" content=\"0\">"), 0);
        let of_a_trait = page.replace("class=\"method\"", "class=\"method trait-impl\"");
        assert_eq!(functions("struct.S.html", &of_a_trait), 0);
    }
}
