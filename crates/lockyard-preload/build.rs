//! The library stands in place of glibc's locks, inside glibc's objects: elsewhere it is refused in
//! one line, before a page of errors.

fn main() {
    let target = |key: &str| std::env::var(format!("CARGO_CFG_TARGET_{key}")).unwrap_or_default();
    let glibc = target("OS") == "linux" && target("ENV") == "gnu" && target("ABI").is_empty();
    let known = matches!(target("ARCH").as_str(), "x86_64" | "aarch64") && target("ENDIAN") == "little";
    if !(glibc && known) {
        let target = std::env::var("TARGET").unwrap_or_default();
        println!(
            "cargo::error=lockyard-preload replaces glibc's locks, on x86-64 and AArch64: \
             not on {target}; use the crate `lockyard` or its C interface there"
        );
    }
    println!("cargo::rerun-if-changed=build.rs");
}
