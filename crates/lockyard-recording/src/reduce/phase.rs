//! Which threads work at the same time.
//!
//! Many programs fill a table and then serve it, or warm up first: some threads work when others do
//! not. A model has all its threads at once, so it would mix what never met. The *phase* of a
//! recording is the time around the moment at which the most threads work, while more than half as
//! many do; of several such moments, that whose threads have the most sections. Threads that do not
//! work in it are left out. If fewer than half of all threads work at that moment, threads come and
//! go, and all are of one phase.

use super::Sums;

/// The share of a thread's events at each end that does not count: a thread may take a lock at its
/// start, or when all is over.
const END: f64 = 0.05;
/// A thread that has a smaller share of its own time in the phase, and of the phase, does not work
/// in it.
const MEET: f64 = 0.1;

/// From when to when a thread worked that took or gave back locks at these `times`, which are in
/// order.
pub(super) fn span(times: &[u64]) -> (u64, u64) {
    let Some(last) = times.len().checked_sub(1) else { return (u64::MAX, 0) };
    let cut = (END * times.len() as f64) as usize;
    (times[cut], times[last - cut])
}

/// Of `threads` those that work in the phase.
pub(super) fn together(mut threads: Vec<Sums>) -> Vec<Sums> {
    // Beginnings before ends, where both are at one moment.
    let mut turns: Vec<(u64, bool, usize)> = Vec::new();
    for one in threads.iter().filter(|one| one.span.0 <= one.span.1) {
        turns.extend([(one.span.0, false, one.sections()), (one.span.1, true, one.sections())]);
    }
    turns.sort_unstable();
    // From each moment to the next so many threads work, with so many sections.
    let (mut count, mut sections) = (0_usize, 0_usize);
    let stretches: Vec<(u64, usize, usize)> = turns
        .iter()
        .map(|&(at, ends, of)| {
            (count, sections) = if ends { (count - 1, sections - of) } else { (count + 1, sections + of) };
            (at, count, sections)
        })
        .collect();
    let busiest = (0..stretches.len()).max_by_key(|&place| (stretches[place].1, stretches[place].2));
    let Some((most, place)) = busiest.map(|place| (stretches[place].1, place)) else { return threads };
    if 2 * most < threads.len().max(4) {
        return threads;
    }
    let many = |stretch: &&(u64, usize, usize)| 2 * stretch.1 > most;
    let begin = stretches[..=place].iter().rev().take_while(many).last().map_or(0, |stretch| stretch.0);
    let end = stretches[place..].iter().find(|stretch| 2 * stretch.1 <= most).map_or(u64::MAX, |stretch| stretch.0);
    threads.retain(|one| meets(one.span, (begin, end)));
    threads
}

/// Whether a thread of this `span` has enough of its own time, or of the phase's, in the phase.
fn meets(span: (u64, u64), phase: (u64, u64)) -> bool {
    let length = |(begin, end): (u64, u64)| end.saturating_sub(begin) as f64;
    let both = (span.0.max(phase.0), span.1.min(phase.1));
    both.0 <= both.1 && length(both) >= MEET * length(span).min(length(phase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_at_the_ends_does_not_count() {
        let mut times: Vec<u64> = (100..200).collect();
        times.push(10_000);
        assert_eq!((span(&times), span(&[7]), span(&[])), ((105, 195), (7, 7), (u64::MAX, 0)));
    }

    fn kept(spans: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let threads = spans.iter().map(|&span| Sums { span, ..Sums::default() }).collect();
        together(threads).iter().map(|one| one.span).collect()
    }

    #[test]
    fn one_that_fills_a_table_is_not_among_those_that_read_it() {
        let (fills, reads) = ((0, 100), (110, 300));
        assert_eq!(kept(&[fills, reads, reads]), [reads, reads]);
        // One that looks after all of them is.
        let cares = (0, 300);
        assert_eq!(kept(&[fills, cares, reads, reads, reads]), [cares, reads, reads, reads]);
    }

    #[test]
    fn one_that_works_all_the_time_stays_beside_some_that_work_for_a_moment() {
        let (always, short) = ((0, 3_000), (2_800, 3_000));
        assert_eq!(kept(&[always, short, short]), [always, short, short]);
        assert_eq!(kept(&[(0, 100), (95, 100)]), [(0, 100), (95, 100)]);
        let crowd: Vec<(u64, u64)> = [vec![always; 8], vec![(0, 50); 20]].concat();
        assert_eq!(kept(&crowd), crowd);
    }

    #[test]
    fn thousands_of_threads_take_no_time() {
        let each: Vec<(u64, u64)> = (0..100_000).map(|at| (at, at + 70_000)).collect();
        assert_eq!(kept(&each).len(), each.len());
    }

    #[test]
    fn threads_that_come_and_go_are_one_phase() {
        let each: Vec<(u64, u64)> = (0..20).map(|at| (10 * at, 10 * at + 15)).collect();
        assert_eq!(kept(&each), each);
        let pair = [(0, 10), (20, 30)];
        assert_eq!((kept(&pair), kept(&[]).len()), (pair.to_vec(), 0));
    }
}
