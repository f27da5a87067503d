//! Rings of events, alone and by this thread.

use super::*;

fn tape() -> Box<Tape> {
    // SAFETY: zeroes are a tape: nothing but atomics.
    unsafe { Box::new_zeroed().assume_init() }
}

#[test]
fn what_is_written_is_read_in_order_and_once() {
    let tape = tape();
    let word = |number: u64| Event::word(Kind::Release, number, 3);
    for round in 0..5 {
        let base = round * 20_000;
        (0..20_000).for_each(|number| assert!(tape.push(base + number, word(number))));
        let mut all = Vec::new();
        tape.drain(|event| all.extend(event));
        assert_eq!(all.len(), 20_000);
        for (number, event) in all.iter().enumerate() {
            let number = number as u64;
            let expected = Event { at: base + number, kind: Kind::Release, value: number, class: 3 };
            assert_eq!(*event, expected);
        }
        tape.drain(|event| panic!("{event:?}"));
    }
}

#[test]
fn a_full_ring_takes_no_more_and_says_so() {
    let tape = tape();
    (0..TAPE as u64).for_each(|at| assert!(tape.push(at, Event::word(Kind::Off, 1, 0))));
    assert!(!tape.push(0, 0) && tape.full.load(Relaxed) == 1);
    let mut count = 0;
    tape.drain(|_| count += 1);
    assert!(count == TAPE && tape.push(0, 0));
}

#[test]
fn an_event_within_an_event_is_noticed() {
    let tape = tape();
    assert_eq!((tape.busy.enter(), tape.busy.enter(), tape.busy.enter()), (0, 1, 2));
    assert!(tape.busy.leave() && tape.busy.enter() == 0 && !tape.busy.leave());
    assert!(tape.busy.leave(), "taken to be abandoned meanwhile");
}

#[test]
fn an_event_that_a_handler_has_left_by_a_jump_ends_the_window_and_not_the_recording() {
    crate::open(b"test").expect("a segment");
    let page = writer::mine().expect("this thread's");
    page.tape.store(BEGIN, Relaxed);
    given_back(page, 1);
    let tape = mine(page).expect("it is recorded");
    assert_eq!((page.tape.load(Relaxed), tape.busy.enter()), (ON, 0));
    (0..HANDLER).for_each(|_| given_back(page, 2));
    assert_eq!(page.tape.load(Relaxed), BEGIN);
    given_back(page, 3);
    page.tape.store(OFF, Relaxed);
    let mut seen = Vec::new();
    tape.drain(|event| seen.extend(event));
    let seen = seen.iter().filter(|event| matches!(event.kind, Kind::Window | Kind::Release));
    let kinds: Vec<(Kind, u64)> = seen.map(|event| (event.kind, event.value)).collect();
    assert!(matches!(kinds[..], [(Kind::Window, _), (_, 1), (Kind::Window, _), (_, 3)]), "{kinds:?}");
}

#[test]
fn what_another_process_writes_there_ends_no_recorder() {
    let tape = tape();
    tape.written.store(u64::MAX, Relaxed);
    tape.events.0[0][1].store(u64::MAX, Relaxed);
    let mut taken = Vec::new();
    tape.drain(|event| taken.push(event));
    assert_eq!(taken, [None]);
    // Nothing is read twice: the next event is.
    assert!(tape.push(7, Event::word(Kind::Release, 1, 0)));
    taken.clear();
    tape.drain(|event| taken.push(event));
    assert_eq!(taken.len(), 1);
    // One that goes back.
    tape.written.store(u64::MAX - 5, Relaxed);
    tape.drain(|event| assert_eq!(event, None));
    tape.drain(|event| panic!("{event:?}"));
}

#[test]
fn a_wait_for_a_signal_is_no_time_off_the_cpu_and_counts_nothing() {
    crate::open(b"test").expect("a segment");
    let page = writer::mine().expect("this thread's");
    let nap = || std::thread::sleep(core::time::Duration::from_millis(3));
    tell(page, Kind::Signal, Class::NONE, 4);
    page.tape.store(BEGIN, Relaxed);
    for (what, object) in [(Kind::Signal, 5), (Kind::Wait, 6)] {
        tell(page, what, Class::from_raw(7), object);
    }
    nap();
    tell(page, Kind::Woken, Class::from_raw(7), 6);
    // A gap that is not slept in.
    let since = Linux::now();
    while Linux::now() - since < 2 * GAP_NS {}
    tell(page, Kind::Wait, Class::NONE, 8);
    nap();
    tell(page, Kind::GaveUp, Class::NONE, 8);
    nap();
    tell(page, Kind::Broadcast, Class::NONE, 9);
    page.tape.store(OFF, Relaxed);
    let mut seen = Vec::new();
    mine(page).expect("it is recorded").drain(|event| seen.extend(event));
    let told = seen.iter().filter(|event| !matches!(event.kind, Kind::Window | Kind::Preempted));
    let told: Vec<(Kind, u64)> =
        told.map(|event| (event.kind, if event.kind == Kind::Off { 0 } else { event.value })).collect();
    use Kind::{Broadcast, GaveUp, Off, Signal, Wait, Woken};
    assert_eq!(told, [(Signal, 5), (Wait, 6), (Woken, 6), (Wait, 8), (GaveUp, 8), (Off, 0), (Broadcast, 9)]);
    let off = seen.iter().find(|event| event.kind == Off).expect("it slept once outside of a wait");
    assert!((2_500_000..).contains(&off.value), "{off:?}");
    assert!(seen.iter().filter(|event| event.value == 6).all(|event| event.class == 7));
    assert_eq!(page.acquired[7].load(Relaxed), 0);
    for number in 0..=u8::MAX {
        assert!(Kind::of(number).is_none_or(|kind| kind as u8 == number));
    }
    assert_eq!(Kind::of(Broadcast as u8), Some(Broadcast));
}
