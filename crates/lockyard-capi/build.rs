//! What the linker must know of the shared library: its name, which changes with its interface, and
//! that it stays.

fn main() {
    // The name under which programs ask for it: the major version, as in `cargo xtask install`.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liblockyard.so.0");
    // Threads may sleep in it and records name them: `dlclose` must not take the code away.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
