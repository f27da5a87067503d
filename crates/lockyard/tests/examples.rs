//! The programs of `examples/`, each run as a test: they check themselves.

macro_rules! examples {
    ($($name:ident $file:literal)*) => { $(
        #[path = $file]
        mod $name;

        #[test]
        fn $name() {
            lockyard_check::native::guarded(stringify!($name), $name::main);
        }
    )* };
}

examples! {
    cache "../examples/cache.rs"
    control "../examples/control.rs"
    own_platform "../examples/own_platform.rs"
    pool "../examples/pool.rs"
    rate "../examples/rate.rs"
    refcount "../examples/refcount.rs"
}

/// A program that nobody runs here would rot.
#[test]
fn every_example_is_run() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let list = include_str!("examples.rs");
    for file in std::fs::read_dir(folder).expect("the folder of examples") {
        let name = file.expect("an entry").file_name().into_string().expect("a name");
        assert!(list.contains(&format!("\"../examples/{name}\"")), "{name} is not run");
    }
}
