//! Scenes: a script, its actors, and how it ends.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

use lockyard::event::Event;

use super::actor::{Actor, Player};
use super::scene::{self, Core, Me, State};

thread_local! {
    /// Where a script that is played many times is: said when it fails.
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Notes where a script that is played many times is.
pub(super) fn place(text: String) {
    PLACE.set(text);
}

/// A scene with its actors. See the [module text](super).
#[derive(Debug)]
pub struct Scene {
    core: Arc<Core>,
}

impl Scene {
    /// Plays `script` with `N` actors. In the end all must be without a task.
    pub fn play<'e, const N: usize>(script: impl FnOnce(&Scene, [&Actor<'e>; N])) {
        Self::play_with(N, |scene, actors| {
            let actors: Vec<&Actor<'e>> = actors.iter().collect();
            let Ok(actors) = actors.try_into() else { unreachable!("as many actors as asked for") };
            script(scene, actors);
        });
    }

    /// As [`Scene::play`], with a number of actors that is known later.
    pub fn play_with<'e>(actors: usize, script: impl FnOnce(&Scene, &[Actor<'e>])) {
        let players: Vec<Player> = (0..actors).map(|_| Player::hire()).collect();
        let core = Core::new(&players.iter().map(|player| player.id()).collect::<Vec<_>>());
        let cast: Vec<Actor<'e>> =
            players.into_iter().enumerate().map(|(number, player)| Actor::new(&core, number, player)).collect();
        let outer = scene::me();
        // The script sees the scene's clock and events as an actor does; it must not wait.
        scene::enter(Some(Me { core: core.clone(), number: usize::MAX }));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            script(&Scene { core: core.clone() }, &cast);
            let stuck: Vec<_> = cast.iter().filter(|actor| !actor.is_idle() && !actor.is_ghost()).collect();
            assert!(stuck.is_empty(), "the script ended before its actors: {stuck:#?}");
        }));
        cast.iter().filter(|actor| actor.is_ghost()).for_each(Actor::vanishes);
        scene::enter(outer);
        let place = PLACE.take();
        if let Err(panic) = ended {
            // Tasks borrow from the script's surroundings: we may only leave when none is under
            // way. Actors that wait for ever cannot be brought to their end, so the process goes
            // instead.
            if cast.iter().any(|actor| !actor.is_idle()) {
                report(&panic, &place, &cast);
            }
            eprintln!("at: {place}");
            cast.into_iter().for_each(|actor| actor.leaves());
            resume_unwind(panic);
        }
        // A ghost's record stays what it was: nobody gets it.
        cast.into_iter().filter(|actor| !actor.is_ghost()).for_each(|actor| actor.leaves());
    }

    /// From here on the scene is the child of a fork: `ghosts` do nothing any more, and the locks
    /// know that they are not here. They wait, or are stopped, and are in no window.
    pub fn forks(&self, ghosts: &[&Actor<'_>]) {
        self.settle();
        for ghost in ghosts {
            assert!(!ghost.is_in_window(), "no child begins in a window: {ghost:?}");
            self.core.change(|world| world.roles[ghost.number()].ghost = true);
        }
        self.settle();
    }

    /// Waits until nothing more can happen without the script.
    pub fn settle(&self) {
        self.core.settle();
        assert!(!self.core.world().roles.iter().any(|role| role.failed), "an actor has failed");
    }

    /// Turns the clock forward.
    pub fn advance(&self, ns: u64) {
        self.core.change(|world| world.now += ns);
        self.settle();
    }

    /// What time it is.
    pub fn now(&self) -> u64 {
        self.core.world().now
    }

    /// How often `event` was counted in this scene.
    pub fn events(&self, event: Event) -> i64 {
        self.core.world().events(event)
    }

    /// Lets everything run to its end, turning the clock to the next deadline whenever nothing else
    /// can happen. Returns how far it was turned. Panics if somebody can never wake again.
    pub fn finish(&self) -> u64 {
        self.end(false)
    }

    /// As [`Scene::finish`], but those who are stopped, or come to their stop only now, go on
    /// before the clock is turned.
    pub fn finish_all(&self) -> u64 {
        self.end(true)
    }

    fn end(&self, resume: bool) -> u64 {
        let start = self.now();
        assert!(self.run_out(resume), "nobody can go on: a lost wake-up or a deadlock");
        self.now() - start
    }

    /// Whether everybody is done, or somebody waits for what will never come: the clock is turned
    /// as far as need be.
    pub fn can_finish(&self) -> bool {
        self.run_out(false)
    }

    /// Lets everything happen that time alone brings. Then everybody is done or waits for the
    /// script; those who are stopped stay so.
    pub fn run_dry(&self) {
        self.run_out(false);
    }

    /// Turns the clock to the next deadline whenever nothing else can happen, until all are done
    /// (`true`) or nobody can go on.
    fn run_out(&self, resume: bool) -> bool {
        let mut naps = 0;
        loop {
            self.settle();
            let end = self.core.change(|world| {
                if world.roles.iter().all(|role| role.ghost || role.state == State::Idle) {
                    return Some(true);
                }
                // An actor that seemed to nap for ever may have gone on since the scene settled.
                if !world.quiet() {
                    return None;
                }
                let mut resumed = false;
                for role in world.roles.iter_mut().filter(|role| resume && role.state == State::Stopped) {
                    role.state = State::Running;
                    resumed = true;
                }
                if resumed {
                    return None;
                }
                let next = world.roles.iter().filter(|role| !role.frozen).filter_map(|role| match role.state {
                    State::Parked { deadline, .. } => deadline,
                    _ => None,
                });
                if let Some(next) = next.min() {
                    world.now = next.max(world.now);
                    return None;
                }
                // Polls may wait for a time of their own.
                if naps < 200 && world.roles.iter().any(|role| matches!(role.state, State::Napping(_))) {
                    naps += 1;
                    world.now += 100_000;
                    return None;
                }
                Some(false)
            });
            if let Some(done) = end {
                return done;
            }
        }
    }
}

/// A script has failed and left actors waiting: say why, and end the process, which cannot go on
/// without them.
fn report(panic: &Box<dyn std::any::Any + Send>, place: &str, cast: &[Actor<'_>]) -> ! {
    let why = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    let mut text = format!(
        "\nSCRIPT FAILED in {}, {place}: {}\n",
        thread::current().name().unwrap_or("?"),
        why.unwrap_or("a panic")
    );
    for actor in cast {
        text.push_str(&format!("    {actor:?}\n"));
    }
    crate::native::die(&text);
}

/// Plays `script` again and again, with a stop one step later each time, until its actor is no
/// longer stopped: the script gets the step's number, and returns whether the stop took place.
/// Returns how many stops there were.
pub fn every_stop(mut script: impl FnMut(u64) -> bool) -> u64 {
    (0..).find(|&stop| !script(stop)).unwrap_or(0)
}

/// [`Stage::run`](crate::stage::Stage::run): every actor has one task, and the scene runs to its
/// end.
pub(super) fn run(threads: usize, act: impl Fn(usize) + Sync) {
    let act = &act;
    Scene::play_with(threads, |scene, actors| {
        for actor in actors {
            let number = actor.number();
            drop(actor.send(None, None, move || {
                act(number);
            }));
        }
        scene.finish();
    });
}
