//! Readers that come to a lock whose waiters they may pass or not.

use super::*;

/// A reader that comes to a lock with this count, queue and owner, and does not wait: what it was
/// let in by, and the count afterwards.
fn reader_comes<Y: Policy>(before: u64, kinds: &str, owner: u32) -> (Vec<Event>, u64) {
    let lock = queued::<Y>(before, kinds);
    lock.owner.store(owner, SeqCst);
    should_yield(true); // nobody spins
    events();
    let result = lock.read_acquire_until(AT_ONCE);
    let refused = |event: &Event| Y::READER_SPIN.exists() && *event == RwsemOptFail;
    let seen: Vec<_> = events().into_iter().map(|(event, _)| event).filter(|event| !refused(event)).collect();
    assert_eq!(result.is_err(), seen.contains(&RwsemRlockFail), "{}: {before:#x}", Y::NAME);
    if let Err(end) = result {
        assert_eq!(end, GaveUp::TimedOut);
        assert!(!still_queued(lock).contains(&1));
    }
    (seen, count(lock))
}

#[test]
fn a_reader_goes_in_past_waiters_as_its_policy_says() {
    const READER: u32 = 7 << 8 | READER_OWNED;
    const STOLE: &[Event] = &[RwsemRlockSteal];
    const FAILED: &[Event] = &[RwsemRlockFail];
    // The count, the owner, what becomes of a reader where they steal, and where they do not.
    let rows = [
        (WAITERS, READER, STOLE, true),
        (WAITERS, 0, STOLE, true),
        (BIAS | WAITERS, READER, FAILED, false),
        ((2 * BIAS) | WAITERS, READER, FAILED, false),
        (BIAS | WAITERS, 0, STOLE, true),
        (BIAS | WAITERS, 7 << 8, STOLE, true),
        (WRITER | WAITERS, 7 << 8, FAILED, false),
        (WRITER | BIAS | WAITERS, READER, FAILED, false),
        (WAITERS | HANDOFF, READER, FAILED, false),
        (BIAS | WAITERS | HANDOFF, 0, FAILED, false),
    ];
    for (before, owner, expected, stays) in rows {
        let after = if stays { before + BIAS } else { before };
        let free = before & LOCKED == 0 && !stays;
        for (seen, left) in [
            reader_comes::<TodayKernel>(before, "w", owner),
            reader_comes::<NoRspin>(before, "w", owner),
            reader_comes::<ReaderSteal>(before, "w", owner),
        ] {
            let seen: Vec<_> = seen.into_iter().filter(|event| !free || *event != RwsemWakeWriter).collect();
            assert_eq!((&seen[..], left), (expected, after), "{before:#x} {owner:#x}");
        }
        let (seen, left) = reader_comes::<V5_10>(before, "w", owner);
        assert!(seen.contains(&RwsemRlockFail) && left == before, "they do not steal: {before:#x}");
    }
    // The first reader in lets in those who queue; the second need not.
    assert_eq!(reader_comes::<TodayKernel>(WAITERS, "r", 0), (std::vec![RwsemWakeReader, RwsemRlockSteal], 2 * BIAS));
    assert_eq!(reader_comes::<ReaderSteal>(WAITERS, "r", 0), (std::vec![RwsemWakeReader, RwsemRlockSteal], 2 * BIAS));
    assert_eq!(reader_comes::<TodayKernel>(BIAS | WAITERS, "r", 0), (STOLE.to_vec(), (2 * BIAS) | WAITERS));
}

#[test]
fn a_reader_steals_only_where_nobody_spins_if_that_is_the_rule() {
    fn comes<Y: Policy>() -> Result<(), GaveUp> {
        let lock = queued::<Y>(WAITERS, "w");
        should_yield(true);
        assert!(lock.osq.join(record(5), crate::platform::Patience::ns(0)));
        let result = lock.read_acquire_until(AT_ONCE);
        lock.osq.leave(record(5));
        result
    }
    assert_eq!(comes::<TodayKernel>(), Ok(()));
    assert_eq!(comes::<ReaderSteal>(), Err(GaveUp::TimedOut));
}

#[test]
fn a_reader_that_finds_the_queue_empty_need_not_join_it() {
    let fast = std::vec![RwsemRlockFast];
    assert_eq!(reader_comes::<V5_10>(WAITERS, "", 0), (fast.clone(), BIAS | WAITERS));
    assert_eq!(reader_comes::<Handoff4ms>(WAITERS, "", 0), (fast.clone(), BIAS | WAITERS));
    // No handoff outlives the queue, so later kernels do not look for it: the earlier ones queue
    // and are served there.
    assert_eq!(reader_comes::<TodayKernel>(HANDOFF, "", 0), (fast, BIAS | HANDOFF));
    for (seen, left) in [reader_comes::<V5_16>(HANDOFF, "", 0), reader_comes::<V5_10>(HANDOFF, "", 0)] {
        assert_eq!((seen, left), (std::vec![RwsemWakeReader, RwsemRlock], BIAS));
    }
    assert_eq!(reader_comes::<TodayKernel>(WRITER, "", 0), (std::vec![RwsemRlockFail], WRITER));
    assert_eq!(reader_comes::<V5_10>(WRITER, "", 0), (std::vec![RwsemRlockFail], WRITER));
    assert_eq!(reader_comes::<XaddBaseline>(biased::W, "", 0), (std::vec![RwsemRlockFail], biased::W));
}

#[test]
fn readers_that_overflow_are_marked_against_spinners() {
    fn marks<Y: Policy>(before: u64) -> u32 {
        let lock = queued::<Y>(before, "w");
        lock.owner.store(7 << 8 | READER_OWNED, SeqCst);
        should_yield(true);
        assert!(lock.read_acquire_until(AT_ONCE).is_err());
        assert_eq!(count(lock), before, "{}", Y::NAME);
        lock.owner.load(SeqCst) & RD_NONSPINNABLE
    }
    assert_eq!(marks::<TodayKernel>(READFAIL | WAITERS), RD_NONSPINNABLE);
    assert_eq!(marks::<TodayKernel>((2 * BIAS) | WAITERS), 0);
    assert_eq!(marks::<AdaptiveRspin>(WRITER | READFAIL | WAITERS), 0, "nobody looked then");
}

#[test]
fn who_may_not_queue_goes_in_past_those_who_do() {
    fn comes<Y: Policy>(before: u64, kinds: &str, writes: bool) -> Option<u64> {
        as_thread(0, || {
            let lock = queued::<Y>(before, kinds);
            let end = Until::after(1_000);
            let result = if writes { lock.write_acquire_until(end) } else { lock.read_acquire_until(end) };
            if result.is_err() {
                assert_eq!(count(lock), before, "{}", Y::NAME);
                assert_eq!(lock.owner.load(SeqCst), 0);
            }
            result.ok().map(|()| count(lock))
        })
    }
    assert_eq!(comes::<TodayKernel>(WAITERS, "w", true), Some(WAITERS | WRITER));
    assert_eq!(comes::<TodayKernel>(WAITERS, "w", false), Some(WAITERS | BIAS));
    assert_eq!(comes::<V5_10>(BIAS | WAITERS, "w", false), Some(WAITERS | (2 * BIAS)));
    for held in [WRITER | WAITERS, WAITERS | HANDOFF, WRITER | BIAS | WAITERS, READFAIL | WAITERS] {
        assert_eq!(comes::<TodayKernel>(held, "w", true), None);
        assert_eq!(comes::<TodayKernel>(held, "w", false), None);
    }
    let w = |count: u64| biased::WAIT.wrapping_add(count);
    assert_eq!(comes::<XaddBaseline>(biased::WAIT, "w", true), Some(w(biased::W)));
    assert_eq!(comes::<XaddBaseline>(biased::WAIT, "w", false), Some(w(1)));
    assert_eq!(comes::<XaddBaseline>(w(1), "w", false), Some(w(2)));
    assert_eq!(comes::<XaddBaseline>(w(1), "w", true), None);
    assert_eq!(comes::<XaddBaseline>(w(biased::W), "w", false), None);
    assert_eq!(comes::<XaddBaseline>(biased::W, "", false), None, "one writer, and nobody waits");
}
