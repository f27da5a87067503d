//! `include/lockyard.h` is what cbindgen reads from the sources. `cargo xtask lint --fix` sets
//! `LOCKYARD_WRITE_HEADER`, and it is written instead.

use std::fs;
use std::path::Path;

#[test]
fn the_header_is_what_the_sources_say() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = here.join("include/lockyard.h");
    let mut made = Vec::new();
    cbindgen::generate(here).expect("cbindgen reads the sources").write(&mut made);
    if std::env::var_os("LOCKYARD_WRITE_HEADER").is_some() {
        fs::write(&file, made).expect("the header is written");
    } else {
        let there = fs::read(&file).unwrap_or_default();
        assert!(there == made, "{} is not what the sources say; run: cargo xtask lint --fix", file.display());
    }
}
