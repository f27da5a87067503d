use super::*;

#[test]
fn functions_are_short() {
    for (long, expected) in [
        ("flush", "flush"),
        ("ns::Table<int, std::less<int> >::put(int, char const*)", "ns::Table::put"),
        ("lockyard::mutex::RawMutex<P>::acquire", "lockyard::mutex::RawMutex::acquire"),
        ("<T as Trait>::method", "<T as Trait>::method"),
        ("(anonymous namespace)::run(int)", "(anonymous namespace)::run"),
    ] {
        assert_eq!(short(long), expected);
    }
}

#[test]
fn a_name_of_c_is_no_mangled_type() {
    for name in ["w", "f", "d", "v", "Pi", "St", "_Zed", "_Read", ""] {
        assert_eq!(demangled(name), name);
    }
    for (symbol, expected) in [
        ("_ZN5store5flushEi", "store::flush(int)"),
        ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
        ("_RNvC6_123foo3bar", "123foo::bar"),
    ] {
        assert_eq!(demangled(symbol), expected);
    }
}

#[test]
fn lock_calls_are_told_from_those_who_make_them() {
    for wrapper in [
        "<lockyard::internals::api::exclusive::RawMutex<P> as lock_api::mutex::RawMutex>::lock",
        "lock_api::mutex::Mutex<R,T>::lock",
    ] {
        assert!(is_wrapper(wrapper), "{wrapper}");
    }
    for file in [
        "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/lock_api-0.5.0/src/mutex.rs",
        "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/lockyard-0.1.0/src/api/calls.rs",
        "/src/crates/lockyard/src/platform/watch.rs",
        "vendor/lock_api/src/mutex.rs",
        "/usr/include/boost/thread/pthread/mutex.hpp",
        "/rustc/0123/library/core/src/option.rs",
        "/usr/include/c++/14/bits/std_mutex.h",
        "/usr/include/x86_64-linux-gnu/c++/14/bits/gthr-default.h",
    ] {
        assert!(is_wrappers(file), "{file}");
    }
    for file in ["src/main.rs", "/src/lockyard-tool/src/api/main.rs", "/src/lockyard/src/main.rs", "lock_api.rs", ""] {
        assert!(!is_wrappers(file), "{file}");
    }
    for user in
        ["flush", "core::Cache::put(int)", "std::hash<Key>::operator()", "<store::Table as store::Index>::put", ""]
    {
        assert!(!is_wrapper(user), "{user}");
    }
}

/// All calls of an accessor that was inlined had one text.
#[test]
fn a_line_that_is_inlined_into_several_is_told_with_them() {
    let line = |function: &str, line| Line { function: function.to_owned(), file: "/a/bank.rs".to_owned(), line };
    let of = |lines: &[(&str, u32)]| {
        let mut lines = lines.iter().map(|(function, number)| line(function, *number));
        Spot { at: lines.next().expect("a line"), inlined_into: lines.collect() }
    };
    let deposit = of(&[("lock", 4), ("deposit", 5), ("main", 9)]);
    let withdraw = of(&[("lock", 4), ("withdraw", 6), ("main", 9)]);
    let audit = of(&[("audit", 7), ("main", 9)]);
    let symbols = Symbols::default();
    let told = || [&deposit, &withdraw, &audit].map(|spot| symbols.told(spot));
    symbols.note(&deposit);
    symbols.note(&audit);
    assert_eq!(told()[0], "lock (bank.rs:4) in deposit (bank.rs:5)", "it is the only one");
    symbols.note(&withdraw);
    let expected = [
        "lock (bank.rs:4) in deposit (bank.rs:5)",
        "lock (bank.rs:4) in withdraw (bank.rs:6)",
        "audit (bank.rs:7) in main (bank.rs:9)",
    ];
    assert_eq!(told(), expected);
    // A guard in a lock's wrapper: the three were one.
    let [compact, get] =
        [9, 12].map(|number| of(&[("mutex_lock", 14), ("Guard", 20), ("table", number), ("main", 30)]));
    symbols.note(&compact);
    symbols.note(&get);
    let wrapped = "mutex_lock (bank.rs:14) in Guard (bank.rs:20) in table (bank.rs:12)";
    assert_eq!(symbols.told(&get), wrapped);
    // What Rust calls threads by says nothing.
    let mut spawned = of(&[("lock", 4), ("__rust_begin_short_backtrace", 166)]);
    spawned.inlined_into[0].file = "/rustc/0123/library/std/src/sys/backtrace.rs".to_owned();
    assert_eq!(symbols.told(&spawned), "lock (bank.rs:4)");
}

/// It was told only where several functions had one line inlined: `with_lock (rdo.cc:8)`.
#[test]
fn what_a_line_is_inlined_into_is_told_though_there_is_one() {
    let line = |function: &str, file: &str, line| Line { function: function.to_owned(), file: file.to_owned(), line };
    let told = |lines: &[Line]| {
        let (symbols, spot) = (Symbols::default(), Spot { at: lines[0].clone(), inlined_into: lines[1..].to_vec() });
        symbols.note(&spot);
        symbols.told(&spot)
    };
    let save = line("save_state()", "/a/rdo.cc", 9);
    let wrapper = line("with_lock<save_state()::<lambda()> >(std::mutex&, F)", "/a/rdo.cc", 8);
    assert_eq!(told(&[wrapper.clone(), save.clone()]), "with_lock (rdo.cc:8) in save_state (rdo.cc:9)");
    // The constructor of a guard is not where the program takes the lock, nor is the library.
    let (lock, guard) = (line("Locked::acquire", "/a/rdo.cc", 5), line("Locked<int>::Locked()", "/a/rdo.cc", 6));
    let invoke = line("std::__invoke_impl", "/usr/include/c++/12/bits/invoke.h", 61);
    assert_eq!(
        told(&[lock.clone(), guard.clone(), invoke.clone(), save.clone(), wrapper]),
        "Locked::acquire (rdo.cc:5) in save_state (rdo.cc:9)"
    );
    assert_eq!(told(&[lock, guard]), "Locked::acquire (rdo.cc:5) in Locked::Locked (rdo.cc:6)");
    assert_eq!(told(&[save, invoke]), "save_state (rdo.cc:9)");
}

/// Without optimisation, and with opt-level z, a lock call is a function of its own.
#[test]
fn a_lock_call_that_is_no_part_of_the_program_is_known() {
    let line = |function: &str, file: &str| Line { function: function.to_owned(), file: file.to_owned(), line: 253 };
    assert!(line("lock", "/r/registry/src/x/lock_api-0.5.0/src/mutex.rs").is_lock_call());
    assert!(line("lock_api::mutex::Mutex<R,T>::lock", "").is_lock_call());
    assert!(!line("lock", "src/mutex.rs").is_lock_call());
}

#[test]
fn what_is_not_known_is_a_number() {
    let symbols = Symbols::default();
    let line = |file: &str, place| symbols.line(&Place { file: file.to_owned(), place });
    assert_eq!(line("", 0), "code that is not known");
    assert_eq!(line("", 0x10), "0x10");
    assert_eq!(line("/no/such/lib.so", 0x1f0), "lib.so+0x1f0");
    assert_eq!(line("long-name", 0x1f0), "long-name+0x1f0");
}

/// A function of this test's own program, by the table of symbols at least.
#[test]
fn code_of_this_program_has_a_name() {
    let exe = std::env::current_exe().unwrap();
    let address = last_part as fn(&str) -> &str as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let base = maps.lines().find(|line| line.ends_with(exe.to_str().unwrap())).unwrap();
    let base = usize::from_str_radix(base.split('-').next().unwrap(), 16).unwrap();
    let name = exe.file_name().unwrap().to_str().unwrap().to_owned();
    let place = Place { file: name, place: (address - base) as u64 + 1 };
    let mut known = Known::default();
    known.programs.push(exe.clone());
    let line = Symbols::of(&known).line(&place);
    assert!(line.starts_with("lockyard_cli::symbols::last_part"), "{line}");
    // In a container the same path is another file, here one that is not there.
    let whole = Place { file: exe.to_str().unwrap().to_owned(), ..place };
    for (root, named) in [("/proc/self/root", true), (env!("CARGO_MANIFEST_DIR"), false)] {
        known.root = Some(PathBuf::from(root));
        assert_eq!(Symbols::of(&known).line(&whole) == line, named, "{root}");
    }
}
