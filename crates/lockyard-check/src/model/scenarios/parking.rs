//! Scenarios of the futex hash itself: what a wake-up orders, and a sleeper and its waker on either
//! side of a table that grows.

use lockyard::futex_hash::{Bucket, FutexHash, Waited};
use lockyard::platform::{Ordering::Relaxed, Platform, Word};
use lockyard::spin::ticket::RawTicketLock;

use super::super::machine::execute;
use super::super::setting::{DEADLINE, Machine};
use super::super::weak::{Loom, Weak};
use super::exclusive::Of;
use super::{Protected, Scenario, barred};
use crate::lock::Way;

type Table = &'static [Bucket<Loom, RawTicketLock<Loom>>];

/// Tables are never given back.
fn table(buckets: usize) -> Table {
    Box::leak((0..buckets).map(|_| Bucket::default()).collect::<Vec<_>>().into_boxed_slice())
}

/// A word to sleep on, what its waker did before, and a table to grow to.
struct Post {
    word: <Loom as Platform>::U32,
    hash: FutexHash<'static, Loom, RawTicketLock<Loom>>,
    larger: Table,
    letter: Protected,
}

/// One sleeps until a word changes, but has no time; one changes it and wakes; with a third the
/// table grows meanwhile.
pub(super) fn late_parcel(of: &Of<'_>, grows: bool) -> Scenario {
    let threads = if grows { 3 } else { 2 };
    let machine = Machine { start: 2 * DEADLINE, ..barred(of.machine, threads) };
    of.scenario(if grows { "late-or-grow" } else { "late" }, threads, machine, move |machine| {
        execute::<Weak, _>(
            machine,
            threads,
            || Post {
                word: Default::default(),
                hash: FutexHash::with_table(table(1)),
                larger: table(2),
                letter: Protected::default(),
            },
            |post, me| match me {
                0 => {
                    if post.hash.wait(&post.word, 0, Some(DEADLINE)) == Waited::Woken {
                        post.letter.section(Way::Read);
                    }
                }
                1 => {
                    post.letter.section(Way::Write);
                    post.word.store(1, Relaxed);
                    post.hash.wake(&post.word, 1);
                }
                _ => assert!(post.hash.grow(post.larger)),
            },
            |post| assert_eq!(post.hash.wake(&post.word, 1), 0, "somebody is still queued"),
        );
    })
}

/// One sleeps until a word changes, one changes it and wakes; with a third the table grows
/// meanwhile. The word itself orders nothing: the wake-up does.
pub(super) fn parcel(of: &Of<'_>, grows: bool) -> Scenario {
    let threads = if grows { 3 } else { 2 };
    of.scenario(if grows { "wake-or-grow" } else { "wake" }, threads, barred(of.machine, threads), move |machine| {
        execute::<Weak, _>(
            machine,
            threads,
            || Post {
                word: Default::default(),
                hash: FutexHash::with_table(table(1)),
                larger: table(2),
                letter: Protected::default(),
            },
            |post, me| match me {
                0 => {
                    while post.word.load(Relaxed) == 0 {
                        if post.hash.wait(&post.word, 0, None) == Waited::Woken {
                            post.letter.section(Way::Read);
                        }
                    }
                }
                1 => {
                    post.letter.section(Way::Write);
                    post.word.store(1, Relaxed);
                    post.hash.wake(&post.word, 1);
                }
                _ => assert!(post.hash.grow(post.larger)),
            },
            |post| assert_eq!(post.hash.wake(&post.word, 1), 0, "somebody is still queued"),
        );
    })
}
