//! The compact NUMA-aware spinlock's own states: waiters are moved aside, go first after a while,
//! or become the queue.

use lockyard::event::Event;
use lockyard::spin::cna::{ASIDE_NS, RawCnaSpinLock};
use lockyard_check::lock::Lock;
use lockyard_check::scripted::{Scene, Scripted, every_stop};
use lockyard_check::stage::{Stage, Steps};

/// Plays a full queue at one time of the day: whether a head begins a circle is drawn from the
/// clock. `pause` passes while somebody is aside, or not. Returns whether the second waiter was
/// stopped, and how often somebody was moved aside, flushed, spliced.
fn play(time: u64, stop: Option<u64>, pause: u64) -> (bool, [i64; 3]) {
    let mut sums = [0; 3];
    let mut stopped = false;
    let lock = RawCnaSpinLock::<Scripted>::default();
    let served = Steps::<Scripted>::default();
    let inside = Steps::<Scripted>::default();
    let section = || {
        assert_eq!(inside.advance(), 1, "two owners");
        served.advance();
        inside.retreat();
    };
    let cycle = || {
        lock.acquire();
        section();
        // SAFETY: acquired above.
        unsafe { lock.release() };
    };
    let hold = || {
        lock.acquire();
        section();
    };
    Scene::play(|scene, [holder, a, b, c, d, e]| {
        scene.advance(time);
        holder.does(|| lock.acquire());
        // Nodes 1, 2, 0, 1, 2. The first holds the lock for a while: the second orders the queue
        // meanwhile.
        a.starts(hold);
        match stop {
            Some(stop) => drop(b.starts_until(stop, cycle)),
            None => drop(b.starts(cycle)),
        }
        [c, d, e].into_iter().for_each(|actor| drop(actor.starts(cycle)));
        // SAFETY: acquired above.
        holder.starts(|| unsafe { lock.release() });
        scene.settle();
        // The second is head now, but asleep until its turn ends; then it orders the queue, as the
        // first still holds the lock.
        scene.advance(2_000_000);
        stopped |= b.is_stopped();
        scene.advance(pause);
        // SAFETY: acquired by its first task.
        let release = || unsafe { lock.release() };
        let released = a.starts_if_idle(release).is_some();
        b.resumes();
        scene.settle();
        if !released {
            // It was waiting for the stopped one to link itself.
            drop(a.starts(release));
        }
        scene.finish_all();
        for (sum, event) in sums.iter_mut().zip([Event::CnaAside, Event::CnaFlush, Event::CnaSplice]) {
            *sum += scene.events(event);
        }
    });
    assert_eq!(served.count(), 5);
    assert!(lock.at_rest());
    (stopped, sums)
}

/// A time at which the second waiter begins a circle.
fn shuffling_time() -> u64 {
    (0..10_000).find(|&time| play(time, None, 0).1[0] > 0).expect("one in 128")
}

#[test]
fn waiters_are_moved_aside_and_served() {
    Scripted::perform("cna: moved aside", || {
        let time = shuffling_time();
        assert_eq!(play(time, None, 0).1, [2, 0, 1]);
        assert_eq!(play(time, None, 2 * ASIDE_NS).1, [2, 1, 0]);
        // They are aside for that long and no longer. Ages are known to the microsecond.
        assert_eq!(play(time, None, ASIDE_NS - 1_024).1, [2, 0, 1]);
        assert_eq!(play(time, None, ASIDE_NS + 1_024).1, [2, 1, 0]);
    });
}

#[test]
fn a_head_that_orders_is_preempted_everywhere() {
    Scripted::perform("cna: preempted", || {
        let time = shuffling_time();
        let stops = every_stop(|stop| play(time, Some(stop), 0).0);
        assert!(stops > 10, "{stops}");
    });
}

/// What the second waiter finds when it orders the queue, beside the nodes of those behind it.
#[derive(Debug, Clone, Copy)]
struct Setting {
    /// Nodes of the second waiter and of the three behind it.
    nodes: [u32; 4],
    /// Where the second runs by then.
    moves_to: u32,
    /// Which of the four have real-time priority.
    realtime: [bool; 4],
    /// Whether the lock is held when it looks.
    held: bool,
}

impl Setting {
    const PLAIN: Self = Self { nodes: [2, 0, 1, 2], moves_to: 2, realtime: [false; 4], held: true };

    /// How many it moves aside, and the order in which they are served.
    fn play(self, time: u64) -> (i64, Vec<usize>) {
        let lock = RawCnaSpinLock::<Scripted>::default();
        #[allow(clippy::disallowed_types)] // notes of the test, not part of what is tested
        let order = std::sync::Mutex::new(Vec::new());
        let mut moved = 0;
        // SAFETY: each is told to who holds the lock.
        let release = || unsafe { lock.release() };
        let cycle = |number: usize| {
            lock.acquire();
            order.lock().unwrap().push(number);
            release();
        };
        Scene::play(|scene, [holder, first, second, third, fourth, fifth]| {
            scene.advance(time);
            holder.does(|| lock.acquire());
            first.starts(|| lock.acquire());
            for (number, actor) in [second, third, fourth, fifth].into_iter().enumerate() {
                actor.is_on_node(self.nodes[number]);
                actor.is_realtime(self.realtime[number]);
                actor.starts(move || cycle(number));
            }
            second.freeze();
            second.is_on_node(self.moves_to);
            holder.does(release);
            if !self.held {
                first.does(release);
            }
            scene.advance(0);
            second.thaw();
            // Where the lock is held the second sleeps to the end of its turn.
            scene.advance(2_000_000);
            moved = scene.events(Event::CnaAside);
            first.starts_if_idle(|| {}).expect("it holds the lock, or has had it");
            if self.held {
                first.does(release);
            }
            scene.finish();
            [second, third, fourth, fifth].iter().for_each(|actor| actor.is_realtime(false));
        });
        assert!(lock.at_rest());
        (moved, order.into_inner().unwrap())
    }
}

#[test]
fn a_head_orders_those_behind_it() {
    Scripted::perform("cna: ordered", || {
        let times: Vec<u64> = (0..2_000).filter(|&time| Setting::PLAIN.play(time).0 > 0).take(2).collect();
        // One in 128, drawn from the time.
        assert!(times.len() == 2 && times[0] + 8 < times[1], "{times:?}");
        let plays = |change: fn(&mut Setting)| {
            let mut setting = Setting::PLAIN;
            change(&mut setting);
            setting.play(times[0])
        };
        // All between it and the last that are of other nodes; they come behind the last.
        assert_eq!(plays(|_| {}), (2, vec![0, 3, 1, 2]));
        // Up to the first of its own node. Node 0 is a node as any other.
        assert_eq!(plays(|setting| setting.nodes = [2, 0, 2, 1]), (1, vec![0, 2, 3, 1]));
        assert_eq!(plays(|setting| setting.nodes = [0, 1, 0, 2]), (1, vec![0, 2, 3, 1]));
        assert_eq!(plays(|setting| setting.nodes = [1, 0, 1, 2]), (1, vec![0, 2, 3, 1]));
        assert_eq!(plays(|setting| setting.nodes = [2, 2, 0, 1]).0, 0);
        // Its node is where it has queued; for one that would not be moved itself, where it is.
        assert_eq!(plays(|setting| setting.moves_to = 0), (2, vec![0, 3, 1, 2]));
        let realtime = |setting: &mut Setting| setting.realtime[0] = true;
        assert_eq!(plays(realtime), (2, vec![0, 3, 1, 2]));
        assert_eq!(
            plays(|setting| *setting = Setting { moves_to: 0, realtime: [true, false, false, false], ..*setting }).0,
            0
        );
        // Those with real-time priority stay where they are.
        assert_eq!(plays(|setting| setting.realtime[1] = true).0, 0);
        assert_eq!(plays(|setting| setting.realtime[2] = true), (1, vec![0, 2, 3, 1]));
        // A free lock is not kept waiting.
        assert_eq!(plays(|setting| setting.held = false), (0, vec![0, 1, 2, 3]));
    });
}

/// A lock with a holder, a first waiter and a second of node 2; behind them one that was on node 1
/// when it last waited, is on `node` now, and stops before step `stop`; then two others of node 2.
/// Whether it was stopped, and how many the second moves aside meanwhile.
fn late(time: u64, stop: u64, node: u32) -> (bool, i64) {
    let lock = RawCnaSpinLock::<Scripted>::default();
    // SAFETY: each is told to who holds the lock.
    let release = || unsafe { lock.release() };
    let cycle = || {
        lock.acquire();
        release();
    };
    let (mut stopped, mut moved) = (false, 0);
    Scene::play(|scene, [holder, first, second, late, fourth, fifth]| {
        scene.advance(time);
        late.is_on_node(1);
        holder.does(|| lock.acquire());
        first.starts(cycle);
        late.starts(cycle);
        holder.does(release);
        scene.finish();
        late.is_on_node(node);
        holder.does(|| lock.acquire());
        first.starts(|| lock.acquire());
        second.is_on_node(2);
        second.starts(cycle);
        late.starts_until(stop, cycle);
        stopped = late.is_stopped();
        for actor in [fourth, fifth] {
            actor.is_on_node(2);
            actor.starts(cycle);
        }
        second.freeze();
        holder.does(release);
        scene.advance(0);
        second.thaw();
        scene.advance(2_000_000);
        moved = scene.events(Event::CnaAside);
        late.resumes();
        scene.settle();
        if first.starts_if_idle(release).is_none() {
            scene.finish_all();
            first.does(release);
        }
        scene.finish_all();
    });
    assert!(lock.at_rest());
    (stopped, moved)
}

#[test]
fn who_has_not_looked_where_it_is_stays_where_it_is() {
    Scripted::perform("cna: late", || {
        let time = (0..2_000).find(|&time| late(time, u64::MAX, 0) == (false, 1)).expect("one in 128");
        let stops = every_stop(|stop| {
            let (stopped, moved) = late(time, stop, 2);
            assert_eq!(moved, 0, "before step {stop}");
            stopped
        });
        assert!(stops > 5, "{stops}");
    });
}

#[test]
fn a_head_that_found_nobody_queued_leaves_the_queue_as_it_is() {
    Scripted::perform("cna: nobody before it", || {
        let mut queued = 0;
        for time in 0..300 {
            let lock = RawCnaSpinLock::<Scripted>::default();
            // SAFETY: each is told to who holds the lock.
            let release = || unsafe { lock.release() };
            let cycle = || {
                lock.acquire();
                release();
            };
            every_stop(|stop| {
                let mut stopped = false;
                Scene::play(|scene, [holder, head, second, third, fourth]| {
                    scene.advance(time);
                    holder.does(|| lock.acquire());
                    head.starts_until(stop, cycle);
                    stopped = head.is_stopped();
                    queued += i32::from(stopped && lock.raw() >> 16 != 0);
                    [second, third, fourth].into_iter().for_each(|actor| drop(actor.starts(cycle)));
                    head.resumes();
                    scene.settle();
                    assert_eq!(scene.events(Event::CnaAside), 0, "at {time}, before step {stop}");
                    holder.does(release);
                    scene.finish_all();
                });
                stopped && lock.raw() == 0
            });
        }
        assert!(queued > 300, "{queued}");
    });
}
