//! The same program with another structure: what a *what-if* asks.

use std::fmt;
use std::str::FromStr;

use super::{Kind, MOST_OBJECTS, Model, Popularity};
use crate::error::Error;

/// What becomes of a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action {
    /// Each of its locks becomes this many, equally wanted.
    Shards(u32),
    /// Its sections are this many times shorter; what they did is not done at all.
    Hold(f64),
    /// Nobody takes it: its sections run side by side.
    Remove,
    /// It becomes a reader-writer lock of which this percentage of the acquisitions only read.
    RwLock(f64),
}

/// A change of one class: `shards=8:CLASS`, `hold/2:CLASS`, `remove:CLASS`, `rwlock:CLASS`,
/// `rwlock=80:CLASS`.
///
/// ```
/// use lockyard_recording::Model;
/// use lockyard_recording::model::Change;
///
/// let text = "[lock.A]\n[[role]]\ncpu = \"1us\"\ntakes = [{ lock = \"A\", hold = \"50ns\" }]";
/// let model = Model::read("app.toml", text)?;
/// let change: Change = "shards=8:A".parse()?;
/// assert_eq!(change.made(&model)?.locks[0].objects, 8);
/// # Ok::<(), lockyard_recording::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What is done.
    pub action: Action,
    /// The class's name.
    pub class: String,
}

impl FromStr for Change {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refuse = |what: &str| {
            Error::new(format!("'{text}' {what}; give shards=8:CLASS, hold/2:CLASS, rwlock=80:CLASS or remove:CLASS"))
        };
        let (action, class) = text.split_once(':').ok_or_else(|| refuse("names no class"))?;
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        let action = if let Some(shards) = action.strip_prefix("shards=") {
            let shards = shards.parse().ok().filter(|shards| (2..=MOST_OBJECTS).contains(shards));
            Action::Shards(shards.ok_or_else(|| refuse("needs a number of shards from 2 to 65536"))?)
        } else if let Some(factor) = action.strip_prefix("hold/") {
            let factor = number(factor).filter(|factor| (0.01..=1_000.0).contains(factor));
            Action::Hold(factor.ok_or_else(|| refuse("needs a number from 0.01 to 1000"))?)
        } else if let Some(reads) = action.strip_prefix("rwlock=") {
            let reads = number(reads).filter(|reads| (0.0..=100.0).contains(reads));
            Action::RwLock(reads.ok_or_else(|| refuse("needs a percentage of reads"))?)
        } else {
            match action {
                "remove" => Action::Remove,
                "rwlock" => Action::RwLock(100.0),
                _ => return Err(refuse("is no change")),
            }
        };
        Ok(Self { action, class: class.to_owned() })
    }
}

/// As it is written.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = &self.class;
        match self.action {
            Action::Shards(shards) => write!(f, "shards={shards}:{class}"),
            Action::Hold(factor) => write!(f, "hold/{factor}:{class}"),
            Action::Remove => write!(f, "remove:{class}"),
            Action::RwLock(100.0) => write!(f, "rwlock:{class}"),
            Action::RwLock(reads) => write!(f, "rwlock={reads}:{class}"),
        }
    }
}

impl Change {
    /// `model` with this change.
    ///
    /// A removed lock is one that each acquisition finds free: it becomes [`Lock::private`], so
    /// that its sections still take their time. A shorter section also sleeps shorter.
    ///
    /// [`Lock::private`]: super::Lock::private
    ///
    /// # Errors
    /// One line: there is no such class, it would have too many locks, or is a semaphore and shall
    /// be read.
    pub fn made(&self, model: &Model) -> Result<Model, Error> {
        let number = model.lock(&self.class).ok_or_else(|| {
            let known: Vec<&str> = model.locks.iter().map(|lock| lock.name.as_str()).collect();
            Error::new(format!("'{self}': unknown lock '{}'; known are {}", self.class, known.join(", ")))
        })?;
        let mut model = model.clone();
        let lock = &mut model.locks[number];
        if lock.kind == Kind::Semaphore && matches!(self.action, Action::RwLock(_)) {
            return Err(Error::new(format!("'{self}': {} is a semaphore", self.class)));
        }
        match self.action {
            Action::Shards(shards) => {
                let objects = lock.objects.checked_mul(shards).filter(|objects| *objects <= MOST_OBJECTS);
                let too_many = || Error::new(format!("'{self}': more than {MOST_OBJECTS} locks"));
                let objects = objects.ok_or_else(too_many)?;
                let each = |weight: f64| (0..shards).map(move |_| weight / f64::from(shards));
                let even = lock.popularity == Popularity::Zipf(0.0);
                if !even {
                    lock.popularity = Popularity::Weights(lock.weights().into_iter().flat_map(each).collect());
                }
                lock.objects = objects;
            }
            Action::Remove => {
                lock.private = true;
                lock.objects = 1;
                lock.popularity = Popularity::Zipf(0.0);
            }
            Action::RwLock(_) => lock.kind = Kind::RwLock,
            Action::Hold(_) => {}
        }
        for take in model.roles.iter_mut().flat_map(|role| &mut role.takes).filter(|take| take.lock == number) {
            match self.action {
                Action::Hold(factor) => {
                    take.hold = take.hold.scaled(1.0 / factor);
                    take.sleep = take.sleep.scaled(1.0 / factor);
                }
                Action::RwLock(reads) => take.reads = reads,
                Action::Shards(_) | Action::Remove => {}
            }
        }
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        let text = "[lock.A]\nobjects = 2\npopularity = 1\n[lock.B]\n[[role]]\ncpu = \"1us\"\n\
                    takes = [{ lock = \"A\", hold = \"60ns\", sleep = \"1us\", sleeps = 50 }, { lock = \"B\", hold = \"60ns\" }]";
        Model::read("a", text).unwrap()
    }

    fn changed(text: &str) -> Result<Model, Error> {
        text.parse::<Change>()?.made(&model())
    }

    #[test]
    fn changes_change_their_class_and_no_other() {
        let sharded = changed("shards=4:A").unwrap();
        assert_eq!((sharded.locks[0].objects, sharded.locks[1].clone()), (8, model().locks[1].clone()));
        assert!((sharded.locks[0].hottest_share() - 2.0 / 3.0 / 4.0).abs() < 1e-9);
        let halved = changed("hold/2:A").unwrap();
        assert_eq!((halved.roles[0].takes[0].hold.mean(), halved.roles[0].takes[1].hold.mean()), (30.0, 60.0));
        assert_eq!((halved.roles[0].takes[0].sleep.mean(), halved.roles[0].takes[0].sleeps), (500.0, 50.0));
        assert!(changed("remove:B").unwrap().locks[1].private);
        let read = changed("rwlock=80:B").unwrap();
        assert_eq!((read.locks[1].kind, read.roles[0].takes[1].reads), (Kind::RwLock, 80.0));
    }

    #[test]
    fn changes_are_written_as_they_are_read() {
        for text in ["shards=8:A", "hold/2.5:A", "remove:B", "rwlock:A", "rwlock=80:x:y"] {
            assert_eq!(text.parse::<Change>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in
            ["", "A", "shards:A", "shards=1:A", "hold/0:A", "rwlock=101:A", "grow:A", "remove:C", "shards=65536:A"]
        {
            let message = changed(text).expect_err(text).to_string();
            assert!(!message.contains('\n'), "{message}");
        }
    }
}
