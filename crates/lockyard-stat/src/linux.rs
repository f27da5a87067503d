//! The listener: what locks tell goes into the segment.

use lockyard::api::{self, Ask, Owner, Take, Watched, Watcher};
use lockyard_segment::{self as segment, Caller, Class, Holder, Waiting};

use crate::Refused;

static WATCHER: Watcher = Watcher {
    take,
    attempt,
    idle,
    awaited: segment::awaited,
    awake: segment::awake,
    moved,
    releasing: segment::releasing,
    released,
};

pub(crate) fn open() -> Result<(), Refused> {
    segment::open_for_life(b"lockyard").map_err(|refused| Refused::System(refused.error()))?;
    api::watch(&WATCHER);
    Ok(())
}

segment::tell_from_load_on!(open);

pub(crate) fn set_name<L: Watched>(lock: &L, name: &str) {
    if let Some(class) = lock.class() {
        let named = segment::class(L::KIND.as_bytes(), name.as_bytes(), 0);
        class.set(named.kept());
        segment::joined(named);
    }
}

/// What is told of a call. The thread has a page from here on, and so a record: a lock that it
/// takes names it as the owner, even if it is the thread's first.
fn caller(ask: &Ask<'_>) -> Caller {
    segment::page();
    let number = match ask.class.get() {
        0 => first(ask),
        number => number,
    };
    let caller = Caller::new(Class::from_raw(number), ask.place);
    if ask.shared { caller.shared() } else { caller }
}

/// The lock is taken for the first time.
#[cold]
fn first(ask: &Ask<'_>) -> u32 {
    let kind = ask.kind.as_bytes();
    let at = if ask.place == 0 { Class::NONE } else { segment::class_at(kind, ask.place) };
    // Where the place is not known, or there is no room for it, its kind.
    let class = if at == Class::NONE { segment::class(kind, b"", 0) } else { at };
    match ask.class.give(class.kept()) {
        Ok(()) => {
            segment::joined(class);
            class.kept()
        }
        Err(given) => given,
    }
}

/// A wait that has not ended otherwise has been given up: by a panic.
struct Ends(Option<Waiting>);

impl Drop for Ends {
    fn drop(&mut self) {
        if let Some(waiting) = self.0.take() {
            waiting.gave_up();
        }
    }
}

fn acquired(ask: &Ask<'_>, caller: Caller) {
    match ask.owned {
        true if ask.look.is_contended() => segment::acquired_past_others(caller, ask.lock),
        true => segment::acquired(caller, ask.lock),
        false => segment::acquired_unheld(caller, ask.lock),
    }
}

fn take(ask: &Ask<'_>, attempt: Take<'_>, wait: Take<'_>) -> bool {
    let caller = caller(ask);
    if attempt() {
        acquired(ask, caller);
        return true;
    }
    let holder = match ask.look.owner() {
        Owner::Record(record) => Holder::Record(record),
        Owner::Thread(thread) => Holder::Thread(thread),
        Owner::Noted if ask.owned => Holder::Readers,
        Owner::Noted | Owner::Unknown => Holder::Unknown,
    };
    let waiting = segment::contended_by(caller, ask.lock, holder);
    let mut waiting = Ends(Some(if ask.ends { waiting.with_deadline() } else { waiting }));
    let taken = wait();
    if taken && let Some(waiting) = waiting.0.take() {
        match ask.owned {
            true if ask.look.is_contended() => waiting.got(),
            true => waiting.got_last(),
            false => waiting.got_unheld(),
        }
    }
    taken
}

fn attempt(ask: &Ask<'_>, attempt: Take<'_>) -> bool {
    let caller = caller(ask);
    let taken = attempt();
    match taken {
        true => acquired(ask, caller),
        false => segment::refused(caller, ask.lock),
    }
    taken
}

fn idle(ask: &Ask<'_>) {
    segment::idle(caller(ask), ask.lock);
}

fn moved(ask: &Ask<'_>, since: u64) {
    segment::acquired_after(caller(ask), ask.lock, since, ask.look.is_contended());
}

fn released(lock: usize) {
    segment::released(lock);
}
