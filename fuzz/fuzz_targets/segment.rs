//! Segments of other processes, which may hold anything: this process is the other one, and writes
//! what the fuzzer likes into its own.
//!
//! The input is a list of writes: three bytes of offset, one of length, then so many bytes; the
//! first byte decides whether a reset comes in between.

#![no_main]

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use lockyard_segment::Reader;
use lockyard_segment::layout::{LENGTH, MAGIC, THREADS_OFFSET, VERSION};

/// The file, with a header to believe, and that header.
fn segment() -> &'static (File, Vec<u8>) {
    static SEGMENT: OnceLock<(File, Vec<u8>)> = OnceLock::new();
    SEGMENT.get_or_init(|| {
        let process = std::process::id();
        let path = format!("/dev/shm/lockyard.{process}");
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path).expect("/dev/shm");
        file.set_len(LENGTH as u64).expect("room");
        let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc");
        let after = stat.rsplit(')').next().expect("a bracket");
        let began: u64 = after.split_whitespace().nth(19).and_then(|field| field.parse().ok()).expect("field 22");
        let mut header = MAGIC.to_le_bytes().to_vec();
        header.extend(VERSION.to_le_bytes());
        header.extend(process.to_le_bytes());
        header.extend(began.to_le_bytes());
        let namespace = std::fs::metadata("/proc/self/ns/pid").expect("/proc").ino();
        header.extend(namespace.to_le_bytes());
        (file, header)
    })
}

fuzz_target!(|input: &[u8]| {
    let Some((&resets, mut input)) = input.split_first() else { return };
    let (file, header) = segment();
    file.write_all_at(&vec![0; THREADS_OFFSET + 4 * 4096], 0).expect("room");
    file.write_all_at(header, 0).expect("room");
    while let [a, b, c, length, rest @ ..] = input {
        let offset = u64::from_le_bytes([*a, *b, *c, 0, 0, 0, 0, 0]);
        let (bytes, after) = rest.split_at(rest.len().min(usize::from(*length)));
        // The process, its beginning and its namespace stay: others are none of this one's.
        if offset >= 32 && offset as usize + bytes.len() <= LENGTH {
            file.write_all_at(bytes, offset).expect("room");
        }
        input = after;
    }
    let mut reader = match Reader::open(std::process::id()) {
        Ok(reader) => reader,
        Err(refusal) => panic!("a segment with a sound header is refused: {refusal}"),
    };
    let first = reader.sample();
    if resets & 1 == 1 {
        reader = Reader::open_to_reset(std::process::id()).expect("as above");
        reader.reset().expect("there is memory");
    }
    let second = reader.sample();
    let between = second.since(&first);
    for class in &between.classes {
        let _ = (class.counts.contended_share(), class.counts.wait(0.5), class.counts.hold(0.999));
    }
    let _ = (between.event("lock_slowpath"), between.acquired(), reader.ended());
});
