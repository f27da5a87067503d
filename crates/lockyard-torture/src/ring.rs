//! The last events of each thread, for the report of a failure.
//!
//! Written by the thread, read by whoever reports, perhaps while the thread still writes: an event
//! that is torn by that is one wrong line at the end of a long report. In ordinary memory, so that
//! it costs no simulated time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lockyard_catalog::lock::Way;

/// How many events are kept.
pub const KEPT: usize = 64;

macro_rules! events {
    ($($event:ident = $text:literal;)*) => {
        /// What a thread did.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Event {
            $(#[doc = $text] $event,)*
        }

        impl Event {
            const ALL: &'static [Self] = &[$(Self::$event,)*];

            fn text(self) -> &'static str {
                match self { $(Self::$event => $text,)* }
            }
        }
    };
}

events! {
    Wants = "wants";
    Tries = "tries";
    WaitsUntil = "waits with a deadline for";
    WaitsWithToken = "waits with a token for";
    Got = "has";
    Failed = "could not take";
    TimedOut = "timed out on";
    WasCancelled = "was cancelled on";
    Downgrades = "downgrades";
    SleepsWith = "sleeps holding";
    Releases = "releases";
    Released = "has released";
    Cancels = "cancels the wait of thread";
    Reference = "takes and gives back a reference of";
    Frees = "frees";
    Forks = "is in the child of a fork, holding";
    Exits = "exits after operations:";
}

/// The ring.
#[derive(Debug)]
pub struct Ring {
    next: AtomicU64,
    slots: [[AtomicU64; 2]; KEPT],
}

impl Default for Ring {
    fn default() -> Self {
        Self { next: AtomicU64::new(0), slots: [const { [const { AtomicU64::new(0) }; 2] }; KEPT] }
    }
}

impl Ring {
    /// Adds an event at time `ns`, about lock (or thread, or number) `what`.
    pub fn note(&self, ns: u64, event: Event, way: Way, what: usize) {
        let next = self.next.load(Relaxed);
        let [time, packed] = &self.slots[next as usize % KEPT];
        time.store(ns, Relaxed);
        packed.store((what as u64) << 16 | u64::from(way == Way::Read) << 8 | event as u64, Relaxed);
        self.next.store(next + 1, Relaxed);
    }

    /// The last `most` events, oldest first, with the names of `locks`.
    pub fn lines(&self, most: usize, locks: &[String]) -> Vec<String> {
        let next = self.next.load(Relaxed);
        let first = next.saturating_sub(most.min(KEPT) as u64);
        (first..next)
            .map(|number| {
                let [time, packed] = &self.slots[number as usize % KEPT];
                let (ns, packed) = (time.load(Relaxed), packed.load(Relaxed));
                let event = Event::ALL.get((packed & 0xff) as usize).copied().unwrap_or(Event::Exits);
                let what = (packed >> 16) as usize;
                let object = match event {
                    Event::Cancels | Event::Exits => what.to_string(),
                    _ => locks.get(what).cloned().unwrap_or_else(|| format!("lock {what}")),
                };
                let way = match event {
                    Event::Cancels | Event::Exits | Event::Frees | Event::Reference => "",
                    _ if packed >> 8 & 1 == 1 => " (read)",
                    _ => " (write)",
                };
                format!("{:>14} ns  {} {object}{way}", ns, event.text())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept() {
        let ring = Ring::default();
        for number in 0..100 {
            ring.note(number, Event::Got, Way::Read, 1);
        }
        ring.note(100, Event::Exits, Way::Write, 7);
        let lines = ring.lines(50, &["a".to_owned(), "b".to_owned()]);
        assert_eq!(lines.len(), 50);
        assert!(lines[0].ends_with("51 ns  has b (read)"), "{}", lines[0]);
        assert!(lines[49].ends_with("100 ns  exits after operations: 7"), "{}", lines[49]);
    }
}
