//! A program's model as a workload: what is played back, and on which of its locks.
//!
//! Each class of the model keeps the kind of lock that the program has, or takes the lock under
//! test. The workload itself is `workload::replay`.

use std::sync::{Arc, OnceLock};

use lockyard_recording::Model;
use lockyard_recording::model::{Kind, Lock};

/// How many of the lines that a section may touch it does touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Touch {
    /// The least that the model says.
    Least,
    /// The geometric middle.
    #[default]
    Middle,
    /// The most.
    Most,
}

impl Touch {
    /// The lines that a section of `lock` touches.
    pub fn lines(self, lock: &Lock) -> u32 {
        let (least, most) = lock.lines;
        match self {
            Self::Least => least,
            Self::Middle => lock.middle_lines(),
            Self::Most => most,
        }
    }
}

/// What is played back.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use lockyard_recording::Model;
/// use lockyard_work::{Replay, Spec, Workload, candidates};
///
/// let text = "[lock.A]\n[[role]]\ncpu = \"2us\"\ntakes = [{ lock = \"A\", hold = \"100ns\" }]";
/// let replay = Replay::new("app", Arc::new(Model::read("app.toml", text)?));
/// let duration = Duration::from_millis(5);
/// let spec = Spec { replay: Some(Arc::new(replay)), duration, ..Spec::new(Workload::Replay) };
/// let record = candidates()[0].measure(&spec)?;
/// assert!(record.metrics["ops_per_s"] > 0.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// What reports call it.
    pub name: String,
    /// The program.
    pub model: Arc<Model>,
    /// The program whose operations count as progress: [`model`](Self::model), or what it was
    /// before a change. Its roles and takes are the same, their times may differ.
    pub original: Arc<Model>,
    /// Of each class, whether it takes the lock under test; the others keep their kind. A class
    /// that is read keeps it also when the lock under test has no read side; a semaphore always
    /// does.
    pub tested: Vec<bool>,
    /// How many lines a section touches.
    pub touch: Touch,
    /// Whether operations wait for work as they did in the program; else that time is left out.
    pub waits: bool,
}

impl Replay {
    /// `model` with every class on the lock under test.
    pub fn new(name: impl Into<String>, model: Arc<Model>) -> Self {
        let tested = vec![true; model.locks.len()];
        let original = model.clone();
        Self { name: name.into(), model, original, tested, touch: Touch::default(), waits: false }
    }

    /// One mutex, taken for 100 ns in an operation of 2 µs.
    pub fn example() -> Arc<Self> {
        static EXAMPLE: OnceLock<Arc<Replay>> = OnceLock::new();
        const TEXT: &str =
            "[lock.EXAMPLE]\n[[role]]\ncpu = \"2us\"\ntakes = [{ lock = \"EXAMPLE\", hold = \"100ns\" }]\n";
        let made = || Arc::new(Self::new("replay", Arc::new(Model::read("example", TEXT).expect("a model"))));
        EXAMPLE.get_or_init(made).clone()
    }

    /// Whether the class takes the lock under test, which has a read side or not.
    pub fn is_tested(&self, class: usize, shared: bool) -> bool {
        let semaphore = self.model.locks[class].kind == Kind::Semaphore;
        self.tested[class] && !semaphore && (shared || !self.model.is_read(class))
    }

    /// Why a lock under test would play no part, if so.
    pub(crate) fn refuses(&self, shared: bool) -> Option<&'static str> {
        let mut classes = 0..self.model.locks.len();
        let none = self.tested.contains(&true) && !classes.any(|class| self.is_tested(class, shared));
        let read = (0..self.model.locks.len()).any(|class| self.model.is_read(class));
        none.then_some(match read {
            true => "it has no read side, and every lock of the program is read",
            false => "the program has semaphores, and no lock in whose place it may be",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_of_the_range() {
        let lock = Lock { lines: (1, 4), ..Lock::new("A") };
        let lines = [Touch::Least, Touch::Middle, Touch::Most].map(|touch| touch.lines(&lock));
        assert_eq!(lines, [1, 2, 4]);
        assert_eq!(Touch::Middle.lines(&Lock { lines: (0, 0), ..lock }), 0);
    }

    #[test]
    fn a_class_that_is_read_keeps_its_kind_under_a_mutex() {
        let text = "[lock.A]\nkind = \"rwlock\"\n[lock.B]\n[[role]]\ncpu = \"2us\"\n\
                    takes = [{ lock = \"A\", hold = \"100ns\", reads = 50 }, { lock = \"B\", hold = \"1ns\" }]";
        let mut replay = Replay::new("x", Arc::new(Model::read("x", text).unwrap()));
        assert_eq!([0, 1].map(|class| replay.is_tested(class, false)), [false, true]);
        assert!(replay.is_tested(0, true) && replay.refuses(false).is_none());
        replay.tested = vec![true, false];
        assert!(replay.refuses(false).is_some() && replay.refuses(true).is_none());
        replay.tested = vec![false, false];
        assert!(replay.refuses(false).is_none());
    }
}
