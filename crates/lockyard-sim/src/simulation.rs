//! A simulation: a machine, a program's threads, and what came of it.
//!
//! ```
//! use lockyard::spin::qspinlock::RawQSpinLock;
//! use lockyard_sim::{Config, Sim, Simulation, machine::catalog};
//!
//! let config = Config::new(catalog::machine("epyc9654_2s:nps4")?);
//! let simulation = Simulation::new(&config, 64)?;
//! let lock = simulation.place("lock", RawQSpinLock::<Sim>::default())?;
//! let report = simulation.run(|_| {
//!     for _ in 0..10 {
//!         lock.acquire();
//!         // SAFETY: acquired above.
//!         unsafe { lock.release() };
//!         lockyard_sim::operation();
//!     }
//! })?;
//! assert_eq!(report.operations(), 640);
//! # Ok::<(), lockyard_sim::Error>(())
//! ```

use std::cell::{Cell, RefCell};

use lockyard::event::Snapshot;
use lockyard::platform::{ParkedHeads, Platform as _, Pool, Thread, ThreadId};

use crate::config::{Config, Start};
use crate::engine::Engine;
use crate::engine::arena::Arena;
use crate::engine::heap::Ps;
use crate::engine::host::Host;
use crate::engine::random::Random;
use crate::engine::run;
use crate::engine::task::{State, Task};
use crate::engine::waits::Wanted;
use crate::engine::watch::{Note, short};
use crate::error::Error;
use crate::faults::{Fault, Met};
use crate::inside::pin_here;
use crate::names::Names;
use crate::platform::{RECORD, Sim};
use crate::report::Report;

/// Records of threads that have ended come in steps of this.
const ENDED_TOGETHER: usize = 64;

/// Distance between two starts.
const START: Ps = 100_000;

/// The most threads of a simulation.
pub const MOST_THREADS: usize = 4_097;

/// A machine with a program that has not run yet.
#[derive(Debug)]
pub struct Simulation {
    engine: RefCell<Box<Engine>>,
    arena: RefCell<Arena>,
    names: RefCell<Names>,
    /// Of the threads that live.
    starts: Vec<Ps>,
    ran: Cell<bool>,
}

impl Simulation {
    /// A simulation of `threads` threads.
    ///
    /// # Errors
    /// Too many threads or none, a stack too small, no memory.
    pub fn new(config: &Config, threads: usize) -> Result<Self, Error> {
        Self::after(config, 0, threads)
    }

    /// A simulation of `threads` threads, numbered from `ended` on: those before have lived and
    /// ended, and may have left their names in locks.
    ///
    /// # Errors
    /// As [`Simulation::new`]; those that have ended count.
    pub fn after(config: &Config, ended: usize, threads: usize) -> Result<Self, Error> {
        let live = threads;
        let threads = ended + live;
        if live == 0 || threads > MOST_THREADS {
            return Err(Error::Config(format!("threads: 1 to {MOST_THREADS} can be simulated, {threads} given")));
        }
        if config.heirs >= live {
            return Err(Error::Config(format!("heirs: fewer than the {live} threads, {} given", config.heirs)));
        }
        if config.stack_bytes < 16 << 10 {
            return Err(Error::Config(format!("stack: at least 16 KiB, {} bytes given", config.stack_bytes)));
        }
        if Host::here().is_some() {
            return Err(Error::Config("a simulated thread cannot simulate".to_owned()));
        }
        let heads = size_of::<ParkedHeads<Sim>>().next_multiple_of(align_of::<Thread<Sim>>());
        // In steps, so that the memory of one simulation fits the next.
        let records = live + ended.next_multiple_of(ENDED_TOGETHER);
        let mut arena = Arena::new(heads + records * RECORD, live, config.stack_bytes)?;
        let base = arena.base();
        let mut engine = Box::new(Engine::new(config, base, arena.len()));
        engine.heads = base;
        engine.heirs = config.heirs;
        engine.records = base + heads;
        let pool = arena.place_last(size_of::<Pool<Sim>>(), align_of::<Pool<Sim>>());
        let pool = pool.ok_or_else(|| Error::Memory("no room for the pool of the hierarchical locks".to_owned()))?;
        let pool = pool.cast::<Pool<Sim>>();
        engine.pool = pool.addr();
        // SAFETY: the arena has room for the table and for `threads` records behind it, suitably
        // aligned (the base is a page), and for the pool.
        unsafe {
            (base as *mut ParkedHeads<Sim>).write(ParkedHeads::default());
            pool.write(const { Pool::new() });
            (*pool).tunables().copy_from(Sim::commons().pool.tunables());
            if let Some(order) = &mut engine.seen {
                (*pool).notes().for_each(|word| order.protect(word.place(), size_of_val(word)));
            }
            for index in 0..threads {
                let record = (engine.records + index * RECORD) as *mut Thread<Sim>;
                record.write(Thread::default());
                (*record).set_id(ThreadId::from_raw(index as u32 + 1).expect("not zero"));
                if let Some(order) = &mut engine.seen {
                    (*record).links().for_each(|word| order.link(word.place(), index));
                    (*record).grants().for_each(|word| order.link(word.place(), index));
                }
            }
        }
        let mut turns: Vec<u64> = (0..live as u64).collect();
        match config.start {
            Start::Shuffled => Random::new(config.seed, u64::from_le_bytes(*b"start   ")).shuffle(&mut turns),
            Start::InOrder => {}
            Start::Together => turns.fill(0),
        }
        let cpus = engine.order.len();
        for index in 0..threads {
            let cpu = engine.order[index % cpus];
            engine.tasks.push(Task::new(cpu, 0..0));
        }
        engine.tasks[..ended].iter_mut().for_each(|task| task.state = State::Done);
        let mut names = Names::new(base, heads, engine.records, threads, RECORD);
        names.add(engine.pool, size_of::<Pool<Sim>>(), "hq pool");
        // One object that belongs to nobody keeps `place` from sharing a line with the last record.
        arena.place(0, 128);
        Ok(Self {
            engine: RefCell::new(engine),
            arena: RefCell::new(arena),
            names: RefCell::new(names),
            starts: turns.into_iter().map(|turn| turn * START).collect(),
            ran: Cell::new(false),
        })
    }

    /// Puts an object into the simulated memory, at the next place that its alignment allows:
    /// neighbours share lines as they would in a program. Reports call its lines `name`.
    ///
    /// # Errors
    /// The memory is full.
    pub fn place<T>(&self, name: &str, value: T) -> Result<&T, Error> {
        const { assert!(!std::mem::needs_drop::<T>(), "placed objects are not dropped") };
        let place = self.arena.borrow_mut().place(size_of::<T>(), align_of::<T>());
        let place = place.ok_or_else(|| Error::Memory(format!("no room in the simulated memory for '{name}'")))?;
        let place = place.cast::<T>();
        // SAFETY: room of the right size and alignment that belongs to this object alone, for as
        // long as the arena: `self`.
        let object = unsafe {
            place.write(value);
            &*place
        };
        self.name(name, object);
        Ok(object)
    }

    /// Starts the next placed object on a new pair of lines.
    pub fn new_line(&self) {
        self.arena.borrow_mut().place(0, 128);
    }

    /// Gives the lines of an object a name, wherever it is.
    pub fn name<T>(&self, name: &str, object: &T) {
        self.name_memory(name, std::ptr::from_ref(object).addr(), size_of::<T>());
    }

    /// For [`Config::watch_order`]: the words in `size` bytes at `address` are protected by locks,
    /// as plain memory would be. Whatever ordering their own accesses have counts for nothing.
    pub fn protect(&self, address: usize, size: usize) {
        if let Some(order) = &mut self.engine.borrow_mut().seen {
            order.protect(address, size);
        }
    }

    /// Gives the lines of `size` bytes at `address` a name.
    pub fn name_memory(&self, name: &str, address: usize, size: usize) {
        self.names.borrow_mut().add(address, size, name);
    }

    /// Sets the first CPU of a thread, and whether it stays there.
    pub fn assign(&self, thread: usize, cpu: usize, pinned: bool) {
        let mut engine = self.engine.borrow_mut();
        let cpu = (cpu % engine.cpus.len()) as u32;
        engine.tasks[thread].cpu = cpu;
        engine.assigned.push((thread as u32, cpu, pinned));
    }

    /// What its locks borrow.
    pub fn pool(&self) -> &Pool<Sim> {
        // SAFETY: in the arena, initialised, for as long as the simulation lives.
        unsafe { &*(self.engine.borrow().pool as *const Pool<Sim>) }
    }

    /// Thread 0 presides: it begins on the last CPU of the placement, and the others one CPU
    /// earlier than they would. Its time is not part of the sums.
    pub fn preside(&self) {
        let mut engine = self.engine.borrow_mut();
        engine.presided = true;
        let cpus = engine.order.len();
        for index in 0..engine.tasks.len() {
            engine.tasks[index].cpu = engine.order[(index + cpus - 1) % cpus];
        }
    }

    /// Runs `body(i)` on each thread, until all are done.
    ///
    /// # Errors
    /// A deadlock, the time limit, a panic of a thread, no memory for the stacks, a second run.
    pub fn run(&self, body: impl Fn(usize) + Sync) -> Result<Report, Error> {
        if self.ran.replace(true) {
            return Err(Error::Config("a simulation runs once".to_owned()));
        }
        let mut engine = self.engine.borrow_mut();
        let mut arena = self.arena.borrow_mut();
        let names = self.names.borrow();
        let pins = std::mem::take(&mut engine.assigned);
        let name = |engine: &Engine, wanted: Wanted| names.of(engine, wanted);
        let body = |index: usize| {
            for &(_, cpu, _) in pins.iter().filter(|pin| pin.0 as usize == index && pin.2) {
                pin_here(cpu as usize);
            }
            body(index);
        };
        run::run(&mut engine, &mut arena, &self.starts, &body, &name)?;
        Ok(Report::of(&mut engine, &names))
    }

    /// As [`Simulation::run`]; `judge` looks at everything before a thread goes on that was
    /// [stopped](crate::faults). It sees memory as all CPUs do, and costs no simulated time.
    ///
    /// # Errors
    /// As [`Simulation::run`]. A panic of the judge ends the run like one of the thread that was
    /// stopped.
    pub fn run_judged(&self, body: impl Fn(usize) + Sync, judge: &mut dyn FnMut()) -> Result<Report, Error> {
        // SAFETY: only the lifetime is forgotten. It is called during `run` only (a simulation runs
        // once), which ends before the borrow.
        let judge = unsafe { std::mem::transmute::<&mut dyn FnMut(), &'static mut dyn FnMut()>(judge) };
        self.engine.borrow_mut().judge = Some(std::ptr::NonNull::from(judge));
        self.run(body)
    }

    /// As [`Simulation::run`]; `observer` looks at everything before each step of any thread
    /// (before each access to a word, each spin, sleep and wake-up), and again as soon as an access
    /// has changed a word: no change follows another unseen, but for stores that leave one buffer
    /// at one moment. It sees memory as all CPUs do (what is in a store buffer it does not see),
    /// costs no simulated time and changes nothing.
    ///
    /// # Errors
    /// As [`Simulation::run`]. A panic of the observer ends the run like one of the thread whose
    /// step it was.
    pub fn run_observed(&self, body: impl Fn(usize) + Sync, observer: &mut dyn FnMut()) -> Result<Report, Error> {
        // SAFETY: only the lifetime is forgotten. It is called during `run` only (a simulation runs
        // once), which ends before the borrow.
        let observer = unsafe { std::mem::transmute::<&mut dyn FnMut(), &'static mut dyn FnMut()>(observer) };
        self.engine.borrow_mut().set_observer(observer);
        self.run(body)
    }
}

/// A seam call of a simulated thread, for people.
#[derive(Debug, Clone)]
pub struct Remembered {
    /// When, ps.
    pub ps: u64,
    /// What it was, and of which word.
    pub text: String,
    /// Where in the source.
    pub place: String,
}

impl Simulation {
    /// The last seam calls of each thread in the run, as many as [`Config::journal`] says. What
    /// they were, where, and what the word held before.
    pub fn journal(&self) -> Vec<Vec<Remembered>> {
        let (engine, names) = (self.engine.borrow(), self.names.borrow());
        let remembered = |note: &Note| Remembered {
            ps: note.ps,
            text: match note.call.address() {
                Some(address) => {
                    format!("{} {} ({:#x})", note.call.name(), names.address(&engine, address), note.before)
                }
                None => note.call.name().to_owned(),
            },
            place: format!("{}:{}", short(note.place.file()), note.place.line()),
        };
        engine.guard.notes.iter().map(|notes| notes.iter().map(remembered).collect()).collect()
    }

    /// The last faults of the run, and how many of each kind there were.
    pub fn faults_met(&self) -> (Vec<Met>, Vec<(Fault, u64)>) {
        let engine = self.engine.borrow();
        let (last, counts) = engine.faults.met();
        (last.to_vec(), Fault::ALL.iter().copied().zip(counts.iter().copied()).collect())
    }

    /// How often the run came to the ordering of [`Config::weakening`].
    pub fn weakened(&self) -> u64 {
        self.engine.borrow().seen.as_ref().map_or(0, |order| order.weakened)
    }

    /// Lock events of the run, by name, whether or not it came to its end.
    pub fn events(&self) -> Vec<(&'static str, u64)> {
        Snapshot::from_counts(self.engine.borrow().counts).iter().collect()
    }

    /// When the run ended, ns of simulated time.
    pub fn ended_ns(&self) -> u64 {
        self.engine.borrow().now / 1000
    }
}
