//! Before a waiter queues: one spinner at a time tries, while the owner runs.

use super::{BLIND_NS, Contended, Look, PRESS_NS, PRESSED_STRIDE_NS};
use crate::cancel::Until;
use crate::platform::thread::Thread;
use crate::platform::{Glance, Patience, Platform};

/// Spins without queueing, one spinner at a time.
pub(super) fn spin<P: Platform, L: Contended<P>>(lock: &L, me: &Thread<P>, until: Until<'_, P>) -> bool {
    if P::cpus() == 1 || P::should_yield() || lock.owner().is_some_and(|owner| !P::is_running(owner)) {
        return false;
    }
    let budget = P::spin_budget();
    let patience = Patience::ns(budget).until(until.wake_time()).courteous();
    if !lock.osq().join(me, patience) {
        return false;
    }
    let waits = patience.stride(L::STRIDE_NS.0, L::STRIDE_NS.1);
    let taken = compete(lock, false, Patience { ns: PRESS_NS.min(budget), ..waits }) || {
        if lock.press(me) {
            // Those who are asked leave a gap soon: look often, it is ours.
            let taken = compete(lock, false, patience.stride(PRESSED_STRIDE_NS.0, PRESSED_STRIDE_NS.1));
            lock.relent();
            taken
        } else {
            compete(lock, false, waits)
        }
    };
    lock.osq().leave(me);
    taken
}

/// Tries whenever the lock looks open.
pub(super) fn compete<P: Platform, L: Contended<P>>(lock: &L, first: bool, mut patience: Patience) -> bool {
    loop {
        let owner = lock.owner();
        patience.running = owner;
        if owner.is_none() {
            // Nothing would end the spin if the owner sleeps, however long a machine lets us spin.
            patience.ns = patience.ns.min(BLIND_NS);
        }
        let ended = P::spin_paced(patience, || {
            let (look, same) = if first { (lock.look(true), false) } else { lock.look_again() };
            match look {
                Look::Open if lock.try_take(first) => Glance::Done(true),
                Look::Kept => Glance::Done(false),
                Look::Closed if same => Glance::Same,
                Look::Open | Look::Closed => Glance::Changed,
            }
        });
        if let Some(taken) = ended {
            return taken;
        }
        // Out of patience, or the owner stopped running. If it is another owner by now, give that
        // one half the time.
        patience.ns /= 2;
        let now = lock.owner();
        if patience.ns < 1_000 || now == owner || now.is_some_and(|owner| !P::is_running(owner)) {
            return false;
        }
    }
}
