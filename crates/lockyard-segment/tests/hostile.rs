//! A segment that says what no process can mean: it is read without harm. What
//! `cargo xtask explore fuzz segment` looks for, once.
//!
//! A test program of its own: it makes the segment of its own process by hand.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, MetadataExt};

use lockyard_segment::layout::{
    CallerRecord, ClassRecord, Header, LENGTH, MAGIC, Shared, THREADS_OFFSET, Tally, ThreadPage, VERSION,
};
use lockyard_segment::{Reader, Refusal};

/// Removes the name when the test ends, however it ends.
struct Named(String);

impl Drop for Named {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_segment_that_lies_is_read_without_harm() {
    let process = std::process::id();
    let named = Named(format!("/dev/shm/lockyard.{process}"));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&named.0).unwrap();
    file.set_len(LENGTH as u64).unwrap();
    let put = |offset: usize, bytes: &[u8]| file.write_all_at(bytes, offset as u64).unwrap();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let began = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)).unwrap();
    put(0, &MAGIC.to_le_bytes());
    put(offset_of!(Header, version), &VERSION.to_le_bytes());
    put(offset_of!(Header, process), &process.to_le_bytes());
    put(offset_of!(Header, made), &began.parse::<u64>().unwrap().to_le_bytes());
    let namespace = std::fs::metadata("/proc/self/ns/pid").unwrap().ino();
    put(offset_of!(Header, namespace), &namespace.to_le_bytes());
    // Four billion events and reasons, two classes of one name, and counters at their ends in three
    // threads.
    put(offset_of!(Header, events), &[0xff; 4]);
    put(offset_of!(Header, reasons), &[0xff; 4]);
    put(offset_of!(Header, classes), &[0b11]);
    put(offset_of!(Header, pages), &[0b111]);
    // Callers of all classes there are and are not, some of them in the wrong place.
    put(offset_of!(Header, callers), &[0xff; 8]);
    put(offset_of!(Shared, callers), &[0xff; size_of::<CallerRecord>() * 3]);
    put(offset_of!(Shared, callers) + size_of::<CallerRecord>() * 4, &(1u64 << 57).to_le_bytes());
    for page in 0..3 {
        put(THREADS_OFFSET + page * size_of::<ThreadPage>(), &[0xff; size_of::<ThreadPage>()]);
    }
    for class in 0..2 {
        let record = offset_of!(Shared, classes) + class * size_of::<ClassRecord>();
        put(record + offset_of!(ClassRecord, tally), &[0xff; size_of::<Tally>()]);
    }

    let reader = Reader::open(process).unwrap();
    let sample = reader.sample();
    assert_eq!(sample.threads, 2);
    assert_eq!(sample.classes.len(), 1, "two of one name are one");
    let class = &sample.classes[0].counts;
    assert!((0.0..=1.0).contains(&class.contended_share()));
    assert!(class.wait(0.5) <= class.wait(1.0));
    let mut sum = sample.clone();
    sum.add(&sample);
    assert_eq!(sum.acquired(), sample.acquired().wrapping_mul(2));
    assert_eq!(sample.since(&sample).acquired(), 0);
    // Of another namespace: the process that has the number here is another one.
    put(offset_of!(Header, namespace), &(namespace + 1).to_le_bytes());
    assert!(reader.ended() && !reader.is_before_exec());
    assert_eq!(Reader::open(process).map(drop), Err(Refusal::Foreign(process)));
    put(offset_of!(Header, namespace), &namespace.to_le_bytes());
    assert!(!reader.ended() && Reader::open(process).is_ok());
    // Made before this process began: by one that had its id.
    let before = began.parse::<u64>().unwrap() - 1;
    put(offset_of!(Header, made), &before.to_le_bytes());
    assert!(reader.ended());
    assert_eq!(Reader::open(process).map(drop), Err(Refusal::Foreign(process)));
}
