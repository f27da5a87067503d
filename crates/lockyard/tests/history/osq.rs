//! The spin queue's historical bugs (O1 to O3): corruption when spinners leave as first, middle or
//! last, against each other and against the head that leaves. Two of three spinners are stopped,
//! each before every one of its steps, while the third comes and gives up.

use lockyard::mutex::RawMutex;
use lockyard::platform::Platform;
use lockyard_check::lock::Lock;
use lockyard_check::scripted::{Scene, Scripted, every_stop};

use super::scripts;

type Mutex = RawMutex<Scripted>;

fn release(mutex: &Mutex) {
    // SAFETY: each script releases what one of its actors holds.
    unsafe { mutex.release() };
}

fn cycle(mutex: &Mutex) {
    mutex.acquire();
    Scripted::nap(0);
    release(mutex);
}

/// Where the script stops its spinners: both were stopped there?
fn three_spinners(first_stop: u64, second_stop: u64, first_goes_first: bool) -> (bool, bool) {
    let mutex = Mutex::default();
    let mut stopped = (false, false);
    Scene::play(|scene, [holder, first, second, third]| {
        holder.is_on_cpu(true);
        [first, second, third].iter().for_each(|spinner| spinner.is_on_cpu(true));
        holder.does(|| mutex.acquire());
        first.starts_until(first_stop, || cycle(&mutex));
        second.starts_until(second_stop, || cycle(&mutex));
        stopped = (first.is_stopped(), second.is_stopped());
        third.starts(|| cycle(&mutex));
        let (one, other) = if first_goes_first { (first, second) } else { (second, first) };
        one.resumes();
        holder.starts(|| release(&mutex));
        other.resumes();
        scene.finish_all();
    });
    assert!(mutex.at_rest(), "{first_stop}, {second_stop}: {mutex:?}");
    stopped
}

scripts! {
    /// Every stop of the one with every stop of the other, in both orders of going on.
    fn o2_spinners_leave_first_middle_and_last() {
        for first_goes_first in [true, false] {
            every_stop(|first_stop| {
                let mut any = false;
                every_stop(|second_stop| {
                    let (first, second) = three_spinners(first_stop, second_stop, first_goes_first);
                    any |= first;
                    second
                });
                any
            });
        }
    }

    /// O3: the predecessor is not on a CPU: nobody stays in the queue behind it.
    fn o3_nobody_spins_behind_a_spinner_that_does_not_run() {
        let mutex = Mutex::default();
        Scene::play(|scene, [holder, head, behind]| {
            holder.is_on_cpu(true);
            head.is_on_cpu(true);
            holder.does(|| mutex.acquire());
            for stop in 0..32 {
                head.starts_until(stop, || cycle(&mutex));
                head.is_on_cpu(false);
                // Wherever the head was stopped, the one behind gets as far as its sleep, or polls
                // for the head's link.
                behind.starts(|| cycle(&mutex));
                assert!(behind.waits());
                head.resumes();
                holder.starts(|| release(&mutex));
                scene.finish();
                holder.does(|| mutex.acquire());
                head.is_on_cpu(true);
            }
            holder.does(|| release(&mutex));
        });
        assert!(mutex.at_rest());
    }
}
