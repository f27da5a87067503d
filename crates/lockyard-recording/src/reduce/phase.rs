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
/// A thread that has a smaller share of its time in the phase does not work in it.
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
    let work = |at: u64| threads.iter().filter(move |one| one.span.0 <= at && at <= one.span.1);
    let mut moments: Vec<u64> = threads.iter().flat_map(|one| [one.span.0, one.span.1]).collect();
    moments.sort_unstable();
    let weight = |at: u64| (work(at).count(), work(at).map(Sums::sections).sum::<usize>());
    let Some(most) = (0..moments.len()).max_by_key(|&place| weight(moments[place])) else { return threads };
    let count = work(moments[most]).count();
    if 2 * count < threads.len().max(4) {
        return threads;
    }
    let many = |at: &&u64| 2 * work(**at).count() > count;
    let begin = moments[..=most].iter().rev().take_while(many).last().copied().unwrap_or(0);
    let end = moments[most..].iter().take_while(many).last().copied().unwrap_or(u64::MAX);
    let phase = (begin, end);
    threads.retain(|one| meets(one.span, phase));
    threads
}

fn meets(span: (u64, u64), phase: (u64, u64)) -> bool {
    let (begin, end) = (span.0.max(phase.0), span.1.min(phase.1));
    begin <= end && (end - begin) as f64 >= MEET * span.1.saturating_sub(span.0) as f64
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
    fn threads_that_come_and_go_are_one_phase() {
        let each: Vec<(u64, u64)> = (0..20).map(|at| (10 * at, 10 * at + 15)).collect();
        assert_eq!(kept(&each), each);
        let pair = [(0, 10), (20, 30)];
        assert_eq!((kept(&pair), kept(&[]).len()), (pair.to_vec(), 0));
    }
}
