//! Segments of programs before exec, and of processes of which a later one has the number.

use std::os::unix::fs::FileExt;
use std::thread;
use std::time::{Duration, Instant};

use lockyard_segment::{self as segment, Reader, Refusal, Refused};

use super::{Writer, alone, file, the_one};

/// It was taken for that of a program that could make none, and stayed when that had ended.
#[test]
fn the_segment_of_the_program_before_exec_is_not_the_later_ones() {
    let _alone = alone();
    let writer = Writer::start("exec", &[]);
    let id = writer.id();
    let refused = Reader::open(id).map(drop).expect_err("there is none");
    assert_eq!(refused, Refusal::Untold(id, Refused::File(libc::EFBIG)));
    assert!(refused.to_string().contains("its files are limited to less (ulimit -f) than the "), "{refused}");
    assert!(!segment::reader::running().contains(&id));
    writer.ends();
    assert!(!file(id).exists());
}

/// It was told of as if it still ran.
#[test]
fn a_program_is_over_once_exec_has_begun_one_without_a_segment() {
    let _alone = alone();
    let mut writer = Writer::start("exec of another", &[]);
    let id = writer.id();
    let reader = Reader::open(id).expect("its segment");
    assert!(!reader.ended() && !reader.is_before_exec() && segment::reader::running().contains(&id));
    writer.tell();
    let end = Instant::now() + Duration::from_secs(60);
    while !reader.ended() && Instant::now() < end {
        thread::yield_now();
    }
    assert!(reader.ended() && reader.is_before_exec());
    assert_eq!(Reader::open(id).map(drop), Err(Refusal::Replaced(id)));
    assert!(!segment::reader::running().contains(&id));
    writer.ends();
    let _ = std::fs::remove_file(file(id));
}

/// What it had counted was removed.
#[test]
fn a_process_with_the_number_of_another_one_of_its_session_leaves_that_ones_segment() {
    let _alone = alone();
    // Not this process: other tests' threads remove what its sessions have left.
    let mut holder = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
    let session = holder.id();
    let environment = [("LOCKYARD_SESSION", session.to_string())];
    let mut first = Writer::start("load", &environment);
    let id = first.id();
    first.tell();
    let did = first.hears("did ");
    first.ends();
    // As if the second had the first one's number.
    let mut second = Writer::start("later", &environment);
    let path = file(second.id());
    std::fs::rename(file(id), &path).expect("it is there");
    let segment = std::fs::File::options().write(true).open(&path).expect("a segment");
    segment.write_all_at(&second.id().to_le_bytes(), 12).expect("room");
    second.tell();
    second.hears("open");
    let members = Reader::of_session(session);
    let earlier = members.iter().find(|reader| reader.is_before_exec()).expect("the first one's");
    assert!(members.len() == 2 && earlier.ended() && earlier.process() == second.id());
    assert!(did.starts_with(&the_one(&earlier.sample()).acquired.to_string()), "{did}");
    second.ends();
    members.iter().for_each(Reader::remove);
    assert_eq!(Reader::of_session(session).len(), 0);
    holder.kill().expect("it is there");
    holder.wait().expect("it ends");
}
