use super::*;

#[test]
fn naps_grow_to_a_millisecond() {
    assert_eq!(
        [0, 3, 4, 5, 9, 10, 11, u32::MAX].map(nap_ns),
        [1_000, 1_000, 20_000, 40_000, 640_000, 1_280_000, 1_280_000, 1_280_000]
    );
}

#[test]
fn looks_that_see_nothing_new_come_closer() {
    let looks = |seen: Glance<()>| {
        let mut looks = 0;
        let spun = Linux::spin_paced(Patience::ns(20_000).stride(160, 4_000), || {
            looks += 1;
            seen
        });
        assert_eq!(spun, None);
        looks
    };
    let (same, changed) = (looks(Glance::Same), looks(Glance::Changed));
    // Where a PAUSE takes longer than the short distance there is one distance only.
    let coarse = clock::relax_ps() > 400_000;
    assert!(Linux::cpus() == 1 || coarse || same > 4 * changed, "{same} looks, {changed} looks");
    assert_eq!(Linux::spin_paced(Patience::ns(0), || Glance::Done(1)), Some(1));
}

/// Thousands of threads without a record left no time for those they waited for: 32,000 threads
/// took 86 s for what took 4.5 s on glibc's locks.
#[test]
fn threads_without_a_record_look_at_locks_so_often_together_and_each_once_a_second() {
    for others in [0, 1, 25, 100, 3_000, 16_000, 100_000, u32::MAX] {
        let nap = strangers_nap_ns(12, others);
        assert!((nap_ns(12)..=1_000_000_000).contains(&nap));
        assert!(nap == 1_000_000_000 || u64::from(others) * 1_000_000_000 / nap <= LOOKS, "{others}: {nap}");
        assert_eq!(strangers_nap_ns(3, others), nap_ns(3), "a few naps are short");
    }
}
