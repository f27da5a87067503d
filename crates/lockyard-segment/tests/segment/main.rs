//! Two processes: one writes, the other reads. The writer is this program again, in a role.

mod successors;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lockyard::event::Event;
use lockyard::mutex::RawMutex;
use lockyard::platform::Platform;
use lockyard::platform::linux::Linux;
use lockyard_segment::{self as segment, Class, Fallback, Reader, Refusal, Refused, Sample};

const NOBODY: u32 = 65_534;

fn file(process: u32) -> PathBuf {
    PathBuf::from(format!("/dev/shm/lockyard.{process}"))
}

// ---- the other process
// ----------------------------------------------------------------------------------------------

struct Writer {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Writer {
    /// Starts this program in `role` and waits until it says "ready".
    fn start(role: &str, environment: &[(&str, String)]) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program is a file"));
        command.args(["--exact", "role", "--nocapture"]).env("SEGMENT_ROLE", role).envs(environment.iter().cloned());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut writer = Self { child, said };
        writer.hears("ready");
        writer
    }

    /// The rest of the line that begins with `word`.
    fn hears(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.said.read_line(&mut line).expect("a pipe"), 0, "it ended without saying {word:?}");
            // The test harness speaks on the same lines.
            if let Some(at) = line.find(word) {
                return line[at + word.len()..].trim().to_owned();
            }
        }
    }

    fn tell(&mut self) {
        self.child.stdin.as_mut().expect("a pipe").write_all(b"go on\n").expect("it listens");
    }

    fn id(&self) -> u32 {
        self.child.id()
    }

    fn ends(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// Not a test of its own: what the other process does.
#[test]
fn role() {
    match std::env::var("SEGMENT_ROLE").as_deref() {
        Ok("load") => load(),
        Ok("crash") => {
            segment::open(b"test").expect("a segment");
            say("ready");
            listen();
        }
        Ok("nobody") => {
            // SAFETY: a number.
            assert_eq!(unsafe { libc::setuid(NOBODY) }, 0);
            segment::open(b"test").expect("a segment");
            say("ready");
            listen();
        }
        Ok("open and close") => {
            segment::open(b"test").expect("a segment");
            segment::close();
            say("ready");
        }
        Ok("fork") => fork(),
        Ok("exec") => {
            segment::open(b"test").expect("a segment");
            let limit = libc::rlimit { rlim_cur: 51_200, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: limits of this process.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
            let mut next = Command::new(std::env::current_exe().expect("this program is a file"));
            let next = next.args(["--exact", "role", "--nocapture"]).env("SEGMENT_ROLE", "limited");
            panic!("no exec: {}", next.exec());
        }
        Ok("later") => {
            say("ready");
            listen();
            segment::open(b"test").expect("a segment");
            say("open");
            listen();
        }
        Ok("exec of another") => {
            segment::open(b"test").expect("a segment");
            say("ready");
            listen();
            panic!("no exec: {}", Command::new("cat").exec());
        }
        Ok("limited") => {
            assert_eq!(segment::open(b"test"), Err(Refused::File(libc::EFBIG)));
            say("ready");
            listen();
            segment::close();
        }
        _ => {}
    }
}

fn say(line: &str) {
    println!("{line}");
}

fn listen() {
    // A closed pipe says the same.
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}

/// A critical section, told as a library of locks would.
fn section(lock: &RawMutex<Linux>, class: Class, within: impl FnOnce()) -> bool {
    let address = core::ptr::from_ref(lock).addr();
    let waited = !lock.try_acquire();
    if waited {
        let waiting = segment::contended(class, address);
        lock.acquire();
        waiting.got();
    } else {
        segment::acquired(class, address);
    }
    within();
    // SAFETY: taken above.
    unsafe { lock.release() };
    segment::released(address);
    waited
}

static LOCK: RawMutex<Linux> = RawMutex::new();

/// Four threads want one mutex, until told to stop; then says what they did, and stays until told
/// to end.
fn load() {
    segment::open(b"mutex=mutex").expect("a segment");
    let class = segment::class(b"mutex", b"the one", 0);
    assert_eq!(segment::class(b"mutex", b"the one", 0), class);
    segment::fell_back(Fallback::Robust);
    let (stop, turns, waits) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                // One turn at least: it may be told to stop before it has run.
                loop {
                    let waited = section(&LOCK, class, || (0..200).for_each(|_| core::hint::spin_loop()));
                    turns.fetch_add(1, Relaxed);
                    waits.fetch_add(waited.into(), Relaxed);
                    if stop.load(Relaxed) {
                        break;
                    }
                }
            });
        }
        say("ready");
        listen();
        stop.store(true, Relaxed);
    });
    let slow = lockyard::event::Snapshot::now().get(Event::MutexSlowpath);
    say(&format!("did {} {} {slow}", turns.load(Relaxed), waits.load(Relaxed)));
    listen();
    segment::close();
}

/// A child of fork counts in a segment of its own, which appears with its first acquisition, and
/// knows its parent's classes. What it held in the parent it may give back before: one that only
/// execs pays nothing. It removes no names of dead processes, and knows what is glibc's by choice.
fn fork() {
    const FAILED: i32 = 1;
    const REMOVED: i32 = 2;
    segment::open(b"test").expect("a segment");
    let class = segment::class(b"mutex", b"inherited", 0);
    section(&LOCK, class, || ());
    Linux::count(Event::PvWaitAgain, 5);
    segment::fell_back(Fallback::ChosenSpin);
    std::thread::spawn(|| assert!(segment::page().is_some())).join().expect("no panic");
    // Beyond the last process id: nobody's. A process of another test program that starts meanwhile
    // removes the name; hence more than one child, of which one has to leave it there.
    let dead = file(1 << 22);
    let events = |process: u32| Reader::open(process).map(|reader| reader.sample().event("pv_wait_again"));
    let count = |process: u32| {
        let sample = Reader::open(process).map(|reader| reader.sample())?;
        Ok::<_, Refusal>(
            sample.classes.iter().map(|class| (class.name.clone(), class.counts.acquired)).collect::<Vec<_>>(),
        )
    };
    let expected = |acquired| vec![(String::new(), 0), ("inherited".to_owned(), acquired)];
    let parent = std::process::id();
    let child = || {
        let check = || {
            segment::after_fork_in_child();
            let me = std::process::id();
            assert!(segment::watched() && !file(me).exists());
            segment::releasing(1);
            segment::released(1);
            assert_eq!(count(me), Err(Refusal::NoSegment(me)), "nothing was taken");
            section(&LOCK, class, || ());
            assert_eq!(count(me), Ok(expected(1)));
            assert_eq!(count(parent), Ok(expected(1)), "the parent's is untouched");
            assert_eq!((events(me), events(parent)), (Ok(0), Ok(5)), "each has its own events");
            let threads = |process: u32| Reader::open(process).map(|reader| reader.sample().threads);
            assert_eq!((threads(me), threads(parent)), (Ok(1), Ok(2)), "its parent's threads are not there");
            let is_left = dead.exists();
            let chosen = Reader::open(me).map(|reader| reader.sample().fallbacks);
            assert!(chosen.is_ok_and(|all| all.contains(&("chosen spin".to_owned(), 1))));
            segment::close();
            assert!(!file(me).exists() && file(parent).exists());
            is_left
        };
        // The thread's end, after a panic, would be the process's, and a success.
        panic::catch_unwind(AssertUnwindSafe(check)).map_or(FAILED, |is_left| if is_left { 0 } else { REMOVED })
    };
    let leaves_the_name = |_| {
        std::fs::write(&dead, b"").expect("a name in /dev/shm");
        // SAFETY: the child has one thread, and does what a thread may.
        let id = unsafe { libc::fork() };
        if id == 0 {
            std::process::exit(child());
        }
        let mut status = 0;
        // SAFETY: our child, our variable.
        assert_eq!(unsafe { libc::waitpid(id, &raw mut status, 0) }, id);
        let code = std::process::ExitStatus::from_raw(status).code();
        assert!(matches!(code, Some(0 | REMOVED)), "the child failed");
        code == Some(0)
    };
    assert!((0..20).any(leaves_the_name), "a thousand children would look through a thousand names each");
    let _ = std::fs::remove_file(&dead);
    segment::close();
    say("ready");
}

// ---- this process
// ---------------------------------------------------------------------------------------------------

/// One test at a time: every process that starts removes the names of dead ones.
fn alone() -> MutexGuard<'static, ()> {
    static ORDER: Mutex<()> = Mutex::new(());
    ORDER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn the_one(sample: &Sample) -> &segment::sample::Counts {
    let class = sample.classes.iter().find(|class| class.name == "the one").expect("the class is there");
    assert_eq!(class.kind, "mutex");
    &class.counts
}

#[test]
fn a_process_under_load_is_read_and_reset_by_another() {
    let _alone = alone();
    let mut writer = Writer::start("load", &[]);
    let reader = Reader::open(writer.id()).expect("its segment");
    let first = reader.sample();
    // Counts grow while it runs, each in its turn: another look, until all have.
    let grown = |between: &Sample| {
        let counts = the_one(between);
        counts.waits.iter().sum::<u64>() > 20 && counts.acquired > 0 && between.event("mutex_slowpath") > 0
    };
    let end = Instant::now() + Duration::from_secs(60);
    let mut looks = std::iter::repeat_with(|| reader.sample()).take_while(|_| Instant::now() < end);
    let last = looks.find(|last| grown(&last.since(&first))).expect("what it does is counted");
    assert!(last.since(&first).seconds > 0.0);
    assert_eq!((last.locks.as_str(), last.private), ("mutex=mutex", 0));
    assert_eq!(last.fallbacks.iter().find(|(name, _)| name == "robust"), Some(&("robust".to_owned(), 1)));

    writer.tell();
    let did: Vec<u64> = writer.hears("did ").split(' ').map(|number| number.parse().expect("a number")).collect();
    let sample = reader.sample();
    let counts = the_one(&sample);
    assert_eq!((counts.acquired, counts.contended, sample.event("mutex_slowpath")), (did[0], did[1], did[2]));
    assert_eq!((counts.waits.iter().sum::<u64>(), counts.gave_up), (did[1], 0));
    assert!(counts.wait(0.5) <= counts.wait(0.99) && counts.wait(0.99) <= counts.wait_max, "{counts:?}");
    assert_eq!(counts.parks, sample.event("park_sleep"), "its threads slept for this lock only");
    assert!(counts.holds.iter().sum::<u64>() > 0 && counts.hold(0.5) > 0);

    // At rest, so a reset leaves nothing: for this reader and for one that comes later.
    Reader::open_to_reset(writer.id()).expect("to reset").reset().expect("there is memory");
    assert!(reader.reset().is_err(), "opened to read only");
    for reader in [&reader, &Reader::open(writer.id()).expect("its segment")] {
        let sample = reader.sample();
        assert_eq!((the_one(&sample).acquired, the_one(&sample).wait_max, sample.event("mutex_slowpath")), (0, 0, 0));
        assert!(sample.seconds < 60.0);
    }
    assert!(!reader.ended());
    let id = writer.id();
    writer.ends();
    assert!(reader.ended() && !file(id).exists(), "the name goes at exit");
    assert_eq!(the_one(&reader.sample()).acquired, 0, "who has it open still reads it");
    assert_eq!(Reader::open(id).map(drop), Err(Refusal::NoProcess(id)));
}

#[test]
fn a_crashed_process_leaves_a_name_until_the_next_one_starts() {
    let _alone = alone();
    // Of a session, so that processes of other test programs leave the name alone.
    let mut session = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
    let mut writer = Writer::start("crash", &[("LOCKYARD_SESSION", session.id().to_string())]);
    let id = writer.id();
    writer.child.kill().expect("it is there");
    writer.child.wait().expect("it ends");
    assert!(file(id).exists());
    assert_eq!(Reader::open(id).map(drop), Err(Refusal::NoProcess(id)));
    session.kill().expect("it is there");
    session.wait().expect("it ends");
    let next = Writer::start("open and close", &[]);
    assert!(!file(id).exists() && !file(next.id()).exists());
    next.ends();
}

#[test]
fn a_session_keeps_the_name_and_gets_the_last_numbers() {
    let _alone = alone();
    let session = std::process::id();
    let mut writer = Writer::start("load", &[("LOCKYARD_SESSION", session.to_string())]);
    let id = writer.id();
    writer.tell();
    let did = writer.hears("did ");
    writer.ends();
    // Another process that starts meanwhile leaves it alone.
    Writer::start("open and close", &[]).ends();
    let members = Reader::of_session(session);
    let [reader] = &members[..] else { panic!("{} processes", members.len()) };
    assert!(reader.ended() && reader.process() == id);
    let sample = reader.sample();
    assert!(did.starts_with(&the_one(&sample).acquired.to_string()), "{did}");
    reader.remove();
    assert!(!file(id).exists());
}

#[test]
fn a_child_of_fork_has_its_own() {
    let _alone = alone();
    Writer::start("fork", &[]).ends();
}

#[test]
fn another_users_process_is_refused_and_says_whose_it_is() {
    let _alone = alone();
    let writer = Writer::start("crash", &[]);
    let id = writer.id();
    // SAFETY: no argument.
    let me = unsafe { libc::geteuid() };
    let refused = if me == 0 {
        // The raw call changes the calling thread alone, which ends with it.
        let ask = move || {
            // SAFETY: numbers.
            assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) }, 0);
            Reader::open(id).map(drop)
        };
        assert!(Reader::open(id).is_ok(), "root may look");
        thread::spawn(ask).join().expect("it ends")
    } else {
        Reader::open(1).map(drop)
    };
    let (process, user) = if me == 0 { (id, 0) } else { (1, 0) };
    assert_eq!(refused, Err(Refusal::OtherUser { process, user }));
    let line = refused.expect_err("refused").to_string();
    assert_eq!(
        line,
        format!("the statistics of process {process} belong to user {user}; ask as that user, or as root")
    );
    writer.ends();
    let _ = std::fs::remove_file(file(id));
}

/// A load from a mapped file that has become shorter is SIGBUS.
#[test]
fn root_reads_a_users_segment_whatever_its_user_does_to_the_file() {
    let _alone = alone();
    // SAFETY: no argument.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: only root may read other users' segments");
    }
    let writer = Writer::start("nobody", &[]);
    let id = writer.id();
    let reader = Reader::open(id).expect("root may look");
    let sample = reader.sample();
    assert_eq!(sample.locks, "test");
    assert!(!sample.events.is_empty() && !reader.ended());
    std::fs::File::options().write(true).open(file(id)).and_then(|file| file.set_len(0)).expect("its file");
    assert_eq!(reader.sample().events.len(), sample.events.len());
    // The writer's next store there would be its end.
    let mut writer = writer;
    writer.child.kill().expect("it runs");
    writer.child.wait().expect("it ends");
    assert!(reader.ended());
    let _ = std::fs::remove_file(file(id));
}

#[test]
fn what_is_no_segment_is_refused() {
    let _alone = alone();
    let me = std::process::id();
    assert_eq!(Reader::open(me).map(drop), Err(Refusal::NoSegment(me)));
    // A process that is not of this test, so that its name is free: this one's, made by hand.
    std::fs::write(file(me), b"something else entirely").expect("a file");
    assert_eq!(Reader::open(me).map(drop), Err(Refusal::Foreign(me)));
    std::fs::remove_file(file(me)).expect("it goes");
    // Nobody waits for a pipe that somebody has put there, neither a reader nor a process that
    // starts.
    let made = Command::new("mkfifo").arg(file(me)).status();
    assert!(made.expect("mkfifo").success());
    assert_eq!(Reader::open(me).map(drop), Err(Refusal::Foreign(me)));
    Writer::start("open and close", &[]).ends();
    std::fs::remove_file(file(me)).expect("it goes");
}
