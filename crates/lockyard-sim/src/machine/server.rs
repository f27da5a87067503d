//! In which order, and when, the requests for a line are served (`spec/simulation.md` 4.4, 4.5).
//!
//! Requests that move a line go through one server per line. With φ the share of a transfer that
//! the request needs to reach the point where requests are ordered, ρ the spacing of grants under
//! load, o the owner, c the asker:
//!
//! ```text
//! arrives = issued + φ L(o, c)
//! next    = the pending request with the smallest `arrives` (ties: order of issue)
//! done    = max( arrives + (1 − φ) L(o, c),  free_at + ρ L(o, c) )
//! free_at = done of the last grant + how long its core keeps the line (one `rmw_own`)
//! ```
//!
//! So an unloaded transfer takes L, and a line with a queue moves every ρL + hold. A plan is
//! *committed* at max(arrives, free_at); until then a request that arrives earlier takes its place.
//! It reaches the old copies when only the data's way to the asker remains, δL before it is done.
//! Until then the owner still hits: bursts and the advantage of siblings follow. Afterwards it does
//! so at most `burst_max` times more, and then has to ask like everybody else; copies of others are
//! gone, and a thread that watches them polls, and asks, while the line is still on its way.
//!
//! **Loads that take.** A load of a line that its owner has written to since it came may take it
//! over (`read_takes`, drawn for each load): the owner's copy is gone, and the reader may write
//! without asking. So does every such load on an Emerald Rapids (`lockyard-work`, example
//! `read_takes`); on a Skylake hardly any, or loading first and changing then would not take two
//! transfers (`load_then_rmw`, 1.9 to 2.2). The few that do matter all the same: where a thread
//! releases a lock and takes it again at once, another that sees it free in between has to ask for
//! the line once more, behind the owner, and never gets it. The core that has the line with the
//! look does.
//!
//! **Herds.** A load of a line that somebody owns is a request like any other, at
//! `load_from_modified` of L; afterwards the line is shared (but see above), and the loads behind
//! it are fills: the first in a sharing domain pays its way, the others follow from the shared
//! cache, one per `coherence.fill`; caches are served by the home one per `coherence.home`. A write
//! waits for the fills under way: they have to be invalidated.
//!
//! **Loads ahead.** A processor has several loads on their way; a task has one, and waits for it.
//! It says which it will do (`Word::prefetch`): the line is asked for as by a load, and a load that
//! finds it on its way waits for the rest.
//!
//! Every latency is multiplied by the request's jitter, drawn when it is issued. So is δ, from a
//! range: how the way divides depends on where the home is, and on the queues of a mesh. With a
//! fixed δ an owner and a spinner fall into step: its look always comes while the lock is held, or
//! always while it is free, and a little more or less of any number turns one into the other.

use super::distance::Distance;
use super::line::{Asker, Flight, Line, NO_CORE, NOBODY, Request, Shape};
use super::model::{Model, ONE, Protocol};
use crate::engine::Engine;
use crate::engine::heap::{Ps, What};

#[inline(always)]
fn scale(ps: Ps, ratio: u64) -> Ps {
    ps * ratio / ONE
}

/// Where a line comes from.
enum Source<'a> {
    /// One core has it; its way to each cluster.
    Owner(&'a [u32]),
    /// Several have copies. Only writes ask them: loads of shared lines are fills.
    Sharers,
    Memory,
}

/// The supply of a line as things stand, for any number of requests.
struct Supply<'a> {
    from: Source<'a>,
    state: &'a Line,
    model: &'a Model,
    shape: &'a Shape,
}

impl Supply<'_> {
    /// Full latency of serving `request` now.
    #[inline(always)]
    fn latency(&self, request: &Request) -> Ps {
        let (model, core) = (self.model, request.core);
        let own = model.cluster_of[usize::from(core)];
        let ps = match self.from {
            Source::Owner(_) if self.state.owner == core => model.sibling,
            Source::Owner(ways) => {
                let ps = Ps::from(ways[usize::from(own)])
                    + self.detour(own, model.cluster_of[usize::from(self.state.owner)]);
                if request.owning { ps } else { scale(ps, model.load_from_modified) }
            }
            Source::Sharers => match model.reach.farthest(own, self.state.sharers.others(self.shape, core)) {
                Some((cluster, ps)) => scale(ps + self.detour(own, cluster), model.rmw_on_shared),
                // Ours is the only copy: the home has to be told.
                None => scale(model.between(own, own), model.load_shared_same),
            },
            Source::Memory => model.memory(core, self.state.home),
        };
        scale(ps, request.jitter)
    }

    /// What the home adds to the way from one cluster to another.
    #[inline(always)]
    fn detour(&self, own: u16, other: u16) -> Ps {
        self.model.directory.as_ref().map_or(0, |directory| directory.detour(own, other, self.state.home))
    }

    /// When `request` reaches the point where requests are ordered.
    #[inline(always)]
    fn arrival(&self, request: &Request) -> Ps {
        request.issued + scale(self.latency(request), self.model.flight)
    }
}

impl Engine {
    /// Asks for a line on behalf of `asker`, who does not have it.
    pub(crate) fn request(&mut self, line: u32, asker: Asker, core: u16, owning: bool) {
        let jitter = self.drawn(ONE, self.model.jitter);
        let data_share = self.drawn(self.model.data_share, self.model.data_spread).min(ONE);
        let taking = match self.model.read_takes {
            _ if owning => false,
            0 => false,
            ONE => true,
            share => u64::from(self.random.below(ONE as u32)) < share,
        };
        let request = Request { asker, core, owning, taking, issued: self.now, jitter, data_share };
        let Some(flight) = self.lines[line].flight else {
            if !owning && self.can_fill(line) {
                self.fill(line, request);
            } else {
                self.launch(line, request);
            }
            return;
        };
        let overtakes = self.now < flight.committed && self.supply(line).arrival(&request) < flight.arrives;
        if overtakes {
            self.lines[line].pending.push_front(flight.request);
            self.launch(line, request);
        } else {
            self.lines[line].pending.push_back(request);
        }
    }

    /// `ratio`, up to `spread` more or less.
    #[inline(always)]
    fn drawn(&mut self, ratio: u64, spread: u64) -> u64 {
        match spread {
            0 => ratio,
            spread => (ratio + u64::from(self.random.below(2 * spread as u32 + 1))).saturating_sub(spread),
        }
    }

    /// Shared copies exist, and nobody owns the line.
    fn can_fill(&self, line: u32) -> bool {
        let line = &self.lines[line];
        line.owner == NO_CORE && line.sharers.count() != 0
    }

    /// Who supplies the line, as things stand.
    #[inline(always)]
    fn supply(&self, line: u32) -> Supply<'_> {
        let state = &self.lines[line];
        let from = if state.owner != NO_CORE {
            Source::Owner(self.model.transfers_from(state.owner))
        } else if state.sharers.count() != 0 {
            Source::Sharers
        } else {
            Source::Memory
        };
        Supply { from, state, model: &self.model, shape: &self.lines.shape }
    }

    /// The class of the way that serving `request` now takes.
    fn way(&self, line: u32, request: &Request) -> Distance {
        let (line, model, core) = (&self.lines[line], &self.model, request.core);
        if line.owner != NO_CORE {
            model.distance(line.owner, core)
        } else if line.sharers.count() == 0 {
            Distance::Memory
        } else if line.sharers.count() == 1 && line.sharers.contains(core) {
            Distance::Sibling
        } else {
            model.distance(line.last, core)
        }
    }

    /// Plans `request` as the next to be granted.
    fn launch(&mut self, line: u32, request: Request) {
        let latency = self.supply(line).latency(&request);
        let flight = scale(latency, self.model.flight);
        let arrives = request.issued + flight;
        let occupancy = scale(latency, self.model.occupancy);
        let state = &mut self.lines[line];
        let free_at = state.free_at.max(if request.owning { state.filled } else { 0 });
        let done = (arrives + latency - flight).max(if free_at == 0 { 0 } else { free_at + occupancy }).max(self.now);
        let committed = arrives.max(free_at);
        // The last part of the way is the data's, from the old copy to the asker.
        let lost = committed.max(done.saturating_sub(scale(latency, request.data_share)));
        let burst = self.model.burst_max;
        let moves = request.owning || request.taking && state.written && state.owner != NO_CORE;
        state.flight = Some(Flight { request, arrives, committed, lost, burst, moves, announced: false });
        state.stamp += 1;
        let stamp = state.stamp;
        self.schedule(done, What::Grant { line, stamp });
        if !self.lines[line].watchers.is_empty() {
            self.announce(line);
        }
    }

    /// Sees to it that those who watch `line` learn when the write in flight reaches their copies,
    /// if there is one.
    pub(crate) fn announce(&mut self, line: u32) {
        let state = &mut self.lines[line];
        let stamp = state.stamp;
        if let Some(flight) = &mut state.flight
            && flight.moves
            && !flight.announced
        {
            flight.announced = true;
            let time = flight.lost.max(self.now);
            self.schedule(time, What::Commit { line, stamp });
        }
    }

    /// The write in flight has reached the copies.
    pub(crate) fn commit(&mut self, line: u32, stamp: u32) {
        let state = &self.lines[line];
        if state.stamp == stamp
            && let Some(flight) = &state.flight
        {
            let core = flight.request.core;
            self.invalidate_watchers(line, core);
        }
    }

    /// The plan is done. Returns who goes on.
    pub(crate) fn grant(&mut self, line: u32, stamp: u32) -> Option<Asker> {
        if self.lines[line].stamp != stamp {
            return None;
        }
        let flight = self.lines[line].flight.take()?;
        let request = flight.request;
        let distance = self.way(line, &request);
        self.count_transfer(line, request.asker, distance);
        if request.owning {
            self.take_ownership(line, request.core);
            let hold = if matches!(request.asker, Asker::Interrupt { .. }) { self.model.os.tick_hold } else { 0 };
            self.lines[line].free_at = self.now + self.model.rmw_own + hold;
        } else {
            if flight.moves && self.lines[line].owner != NO_CORE {
                self.take_over(line, request.core);
            } else {
                self.share(line, request.core);
            }
            self.lines[line].free_at = self.now;
        }
        self.next_flight(line);
        Some(request.asker)
    }

    /// Makes `core` the owner; everybody else's copy is gone.
    pub(crate) fn take_ownership(&mut self, line: u32, core: u16) {
        let idle = self.cpus[usize::from(core)].idle_time;
        let now = self.now;
        let state = &mut self.lines[line];
        state.version = state.version.wrapping_add(1);
        state.sharers.clear();
        state.touched = now;
        state.idle_then = idle;
        state.last_cpu = NOBODY;
        state.owner = core;
        state.last = core;
        state.dirty = true;
        state.written = true;
        if !state.watchers.is_empty() {
            self.invalidate_watchers(line, core);
        }
    }

    /// A load by `core` took the line over: the owner's copy is gone.
    fn take_over(&mut self, line: u32, core: u16) {
        let version = self.lines[line].version;
        self.take_ownership(line, core);
        let state = &mut self.lines[line];
        // Its words are what they were.
        state.version = version;
        state.written = false;
    }

    /// A load by `core` was served by the owner, or by memory.
    fn share(&mut self, line: u32, core: u16) {
        let now = self.now;
        let domain = self.lines.shape.domain_of[usize::from(core)];
        let owner = self.lines[line].owner;
        if owner == NO_CORE && self.lines[line].sharers.count() == 0 {
            // From memory: exclusive.
            let state = &mut self.lines[line];
            state.owner = core;
            state.last = core;
            state.dirty = false;
            state.written = false;
            state.touched = now;
            return;
        }
        let (state, shape) = self.lines.with_shape(line);
        if owner != NO_CORE {
            state.sharers.add(shape, owner);
            let own = shape.domain_of[usize::from(owner)];
            state.sharers.first(own, now);
            state.owner = NO_CORE;
            // MESIF: the newest copy forwards, and memory is up to date. MOESI: the owner keeps
            // supplying.
            if self.model.protocol != Protocol::Moesi {
                state.last = core;
                state.dirty = false;
            }
        }
        state.sharers.add(shape, core);
        state.sharers.first(domain, now);
        state.filled = state.filled.max(now);
        state.home_free = state.home_free.max(now);
    }

    /// Serves a load of a shared line.
    fn fill(&mut self, line: u32, request: Request) {
        let (now, core) = (self.now, request.core);
        let jitter = |ps: Ps| scale(ps, request.jitter);
        let model = &*self.model;
        let (state, shape) = self.lines.with_shape(line);
        let domain = shape.domain_of[usize::from(core)];
        let own = shape.cluster_of[usize::from(core)];
        let (done, distance) = if state.sharers.contains(core) {
            (now + model.l1, None)
        } else if state.sharers.in_domain(domain) {
            let ready = now + jitter(scale(model.between(own, own), model.load_shared_same));
            (state.sharers.slot(domain, ready, model.fill), Some(Distance::Cluster))
        } else {
            let (latency, distance) = match model.protocol {
                Protocol::Moesi if state.dirty => (
                    scale(model.transfer(state.last, core), model.load_from_modified),
                    model.distance(state.last, core),
                ),
                Protocol::Mesif if model.directory.is_none() => {
                    let nearest = model.reach.nearest(own, state.sharers.others(shape, core)).unwrap_or(own);
                    let ps = scale(model.between(nearest, own), model.load_shared_remote);
                    (ps, model.distance(nearest * (shape.cores / shape.clusters) as u16, core))
                }
                _ => (model.memory(core, state.home), Distance::Memory),
            };
            state.home_free = (now + jitter(latency)).max(state.home_free + model.home_fill);
            let done = state.home_free;
            state.sharers.add(shape, core);
            state.sharers.first(domain, done);
            (done, Some(distance))
        };
        state.sharers.add(shape, core);
        state.filled = state.filled.max(done);
        if let Some(distance) = distance {
            self.count_transfer(line, request.asker, distance);
        }
        match request.asker {
            Asker::Task(task) => self.wake_at(done, task),
            Asker::Ahead { cpu } => self.cpus[cpu as usize].expect_fill(line, now, done),
            Asker::Interrupt { .. } | Asker::Buffer { .. } => {}
        }
    }

    /// Chooses among the pending requests.
    fn next_flight(&mut self, line: u32) {
        loop {
            let supply = self.supply(line);
            let mut waiting = supply.state.pending.iter().enumerate();
            let Some((mut best, first)) = waiting.next() else { return };
            let mut best_arrival = supply.arrival(first);
            for (index, request) in waiting {
                if request.issued >= best_arrival {
                    break;
                }
                let arrival = supply.arrival(request);
                if arrival < best_arrival {
                    (best, best_arrival) = (index, arrival);
                }
            }
            let Some(request) = self.lines[line].pending.remove(best) else { return };
            if !request.owning && self.can_fill(line) {
                self.fill(line, request);
                continue;
            }
            if !request.owning && self.lines[line].owner == request.core {
                // A sibling thread has brought it.
                if let Asker::Task(task) = request.asker {
                    self.wake_at(self.now + self.model.l1, task);
                }
                continue;
            }
            self.launch(line, request);
            return;
        }
    }

    #[inline]
    fn count_transfer(&mut self, line: u32, asker: Asker, distance: Distance) {
        self.lines[line].transfers += 1;
        let task = match asker {
            Asker::Task(task) => task,
            Asker::Ahead { cpu } | Asker::Buffer { cpu, .. } => self.cpus[cpu as usize].current,
            // Not the program's.
            Asker::Interrupt { .. } => return,
        };
        self.tally.transfers[distance as usize] += 1;
        if let Some(task) = self.tasks.get_mut(task as usize) {
            task.transfers += 1;
        }
    }
}
