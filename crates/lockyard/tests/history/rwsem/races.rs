//! Races of the rwsem, for every policy that is not literally one of them.

use lockyard::cancel::Until;
use lockyard::history::rwsem::KernelRwSem;
use lockyard::history::rwsem::policy::{self, Policy, TodayKernel, Visitor, WakeAllReaders, XaddBaseline};
use lockyard::rwsem::RawRwSem;
use lockyard_check::lock::Way;
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::{LITERAL, MS, RwSem, asks, cycle, release};
use crate::scripts;

scripts! {
    /// R1: the last reader took a bias that was only testing for a holder, and woke nobody. The
    /// tester, stopped between adding and taking back, gives up or queues; the writer gets the lock
    /// either way.
    fn r1_the_last_readers_wake_is_not_swallowed() {
        every_policy!(L => {
            for impatient in [false, true] {
                every_stop(|stop| {
                    let lock = L::default();
                    let mut stopped = false;
                    Scene::play(|scene, [holder, writer, tester]| {
                        holder.does(|| lock.lock(Way::Read));
                        let got = writer.starts(|| cycle(&lock, Way::Write));
                        asks(scene, writer);
                        tester.starts_until(stop, || {
                            let until = if impatient { Until::deadline(0) } else { Until::FOREVER };
                            if lock.lock_until(Way::Read, until).is_ok() {
                                release(&lock, Way::Read);
                            }
                        });
                        stopped = tester.is_stopped();
                        holder.starts(|| release(&lock, Way::Read));
                        tester.resumes();
                        scene.finish_all();
                        got.expect("nobody holds the lock");
                    });
                    assert!(lock.at_rest(), "{}", L::NAME);
                    stopped
                });
            }
        });
    }

    /// R2: a woken writer is passed, sleeps again, and its time keeps running.
    fn r2_a_passed_writer_is_served_in_the_end() {
        every_policy!(L => {
            let lock = L::default();
            Scene::play(|scene, [holder, writer]| {
                holder.does(|| lock.lock(Way::Write));
                let got = writer.starts(|| cycle(&lock, Way::Write));
                for _ in 0..8 {
                    writer.freeze();
                    holder.does(|| release(&lock, Way::Write));
                    // Where the lock is kept for the writer by now, this fails.
                    if !holder.does(|| lock.try_lock(Way::Write)) {
                        holder.starts(|| lock.lock(Way::Write));
                    }
                    writer.thaw();
                    scene.advance(MS);
                    assert!(holder.is_idle(), "{}: the writer has it, and its holder waits for it", L::NAME);
                }
                holder.does(|| release(&lock, Way::Write));
                scene.finish();
                got.expect("the holder is gone");
            });
            assert!(lock.at_rest(), "{}", L::NAME);
        });
    }

    /// R10: more readers than one pass serves.
    fn r10_more_than_256_queued_readers() {
        fn readers<L: RwSem>() {
            const READERS: usize = 300;
            let lock = L::default();
            Scene::play_with(READERS + 1, |scene, actors| {
                let (holder, readers) = actors.split_last().expect("there is one at least");
                holder.does(|| lock.lock(Way::Write));
                let got: Vec<_> = readers.iter().map(|reader| reader.starts(|| cycle(&lock, Way::Read))).collect();
                assert!(got.iter().all(|outcome| !outcome.is_done()));
                holder.does(|| release(&lock, Way::Write));
                scene.finish();
                got.into_iter().for_each(|outcome| outcome.expect("served"));
            });
            assert!(lock.at_rest(), "{}", L::NAME);
        }
        readers::<RawRwSem<Scripted>>();
        readers::<KernelRwSem<Scripted, TodayKernel>>();
        readers::<KernelRwSem<Scripted, WakeAllReaders>>();
        readers::<KernelRwSem<Scripted, XaddBaseline>>();
    }

    /// R11: a downgrade with a writer first in the queue lets nobody in that should not be.
    fn r11_downgrade_with_a_writer_first() {
        every_policy!(L => {
            let lock = L::default();
            Scene::play(|scene, [holder, writer, reader]| {
                holder.does(|| lock.lock(Way::Write));
                let wrote = writer.starts(|| cycle(&lock, Way::Write));
                let read = reader.starts(|| cycle(&lock, Way::Read));
                // SAFETY: locked above.
                holder.does(|| unsafe { lock.downgrade() });
                scene.settle();
                assert!(!wrote.is_done(), "{}: a writer beside a downgraded one", L::NAME);
                if L::PAST_WRITER {
                    assert!(read.is_done(), "{}: this policy lets readers behind a writer in", L::NAME);
                }
                holder.does(|| release(&lock, Way::Read));
                scene.finish();
                wrote.expect("free");
                read.expect("free");
            });
            assert!(lock.at_rest(), "{}", L::NAME);
        });
    }

    /// R12: waiters, but no holder: a thread that comes in that moment gets in, or waits, and
    /// nobody is lost.
    fn r12_waiters_without_a_holder() {
        every_policy!(L => {
            for (first_way, comer_way) in
                [(Way::Write, Way::Write), (Way::Write, Way::Read), (Way::Read, Way::Write), (Way::Read, Way::Read)]
            {
                let lock = L::default();
                Scene::play(|scene, [holder, first, comer]| {
                    holder.does(|| lock.lock(Way::Write));
                    let got = first.starts(|| cycle(&lock, first_way));
                    first.freeze();
                    holder.does(|| release(&lock, Way::Write));
                    let came = comer.starts(|| cycle(&lock, comer_way));
                    first.thaw();
                    scene.finish();
                    got.expect("served");
                    came.expect("served");
                });
                assert!(lock.at_rest(), "{}", L::NAME);
            }
        });
    }
}
