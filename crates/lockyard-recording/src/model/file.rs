//! A model read from its file: every refusal names file, line and reason.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use toml::Spanned;

use super::{Kind, Lock, MOST_COUNT, MOST_PARTS, Model, Role, Take};
use crate::error::Error;
use crate::time::Times;
use locks::LockFields;
use queues::{GetFields, PutFields, QueueFields};

mod locks;
mod queues;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    lock: BTreeMap<String, Spanned<LockFields>>,
    #[serde(default)]
    queue: BTreeMap<String, Spanned<QueueFields>>,
    role: Vec<Spanned<RoleFields>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleFields {
    name: Option<String>,
    threads: Option<Positive>,
    cpu: Times,
    #[serde(default)]
    wait: Times,
    #[serde(default)]
    gets: Vec<GetFields>,
    #[serde(default)]
    takes: Vec<Spanned<TakeFields>>,
    #[serde(default)]
    puts: Vec<PutFields>,
    early: Option<Percent>,
    #[serde(default = "yes")]
    counted: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TakeFields {
    lock: Spanned<String>,
    hold: Times,
    count: Option<Positive>,
    reads: Option<Spanned<Percent>>,
    tries: Option<Percent>,
    #[serde(default)]
    sleep: Times,
    sleeps: Option<Percent>,
    within: Option<Spanned<String>>,
    before: Option<Spanned<Percent>>,
}

/// A whole number from LEAST to MOST.
struct Bounded<const LEAST: u64, const MOST: u64>(u32);

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Bounded<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        let fits = u64::try_from(number).is_ok_and(|number| (LEAST..=MOST).contains(&number));
        let refuse = || de::Error::custom(format!("{number} is out of bounds ({LEAST} to {MOST})"));
        if fits { Ok(Self(number as u32)) } else { Err(refuse()) }
    }
}

/// A number above 0.
struct Positive(f64);

impl<'de> Deserialize<'de> for Positive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        let fits = number > 0.0 && number <= MOST_COUNT;
        let refuse = || de::Error::custom(format!("{number} is out of bounds (above 0, at most {MOST_COUNT})"));
        if fits { Ok(Self(number)) } else { Err(refuse()) }
    }
}

struct Percent(f64);

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = f64::deserialize(deserializer)?;
        let refuse = || de::Error::custom(format!("{number} is no percentage (0 to 100)"));
        if (0.0..=100.0).contains(&number) { Ok(Self(number)) } else { Err(refuse()) }
    }
}

enum Numbers {
    One(f64),
    Many(Vec<f64>),
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Numbers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or a list of numbers")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Numbers, E> {
                Ok(Numbers::One(number as f64))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Numbers, E> {
                Ok(Numbers::One(number as f64))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Numbers, E> {
                Ok(Numbers::One(number))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Numbers, A::Error> {
                let mut numbers = Vec::new();
                while let Some(number) = list.next_element::<f64>()? {
                    numbers.push(number);
                }
                Ok(Numbers::Many(numbers))
            }
        }
        deserializer.deserialize_any(Reads)
    }
}

/// Finds lines, and complains of them.
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    /// The number of `name` among those that are `known`.
    fn find<'k>(
        &self,
        what: &str,
        name: &Spanned<String>,
        known: impl Iterator<Item = &'k str>,
    ) -> Result<usize, Error> {
        let known: Vec<&str> = known.collect();
        known.iter().position(|known| known == name.get_ref()).ok_or_else(|| {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            self.refuse(name.span(), format_args!("unknown {what} '{}'; known are {known}", name.get_ref()))
        })
    }

    fn check_name(&self, what: &str, name: &str, span: Range<usize>) -> Result<(), Error> {
        if name.is_empty() || name.len() > 200 || name.chars().any(char::is_control) {
            return Err(self.refuse(span, format_args!("a {what}'s name has 1 to 200 printable characters")));
        }
        Ok(())
    }

    fn refuse(&self, span: Range<usize>, why: impl fmt::Display) -> Error {
        let before = self.text.as_bytes().get(..span.start).unwrap_or_default();
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        Error::new(format!("{}:{line}: {why}", self.file))
    }
}

pub(super) fn read(file: &str, text: &str) -> Result<Model, Error> {
    let source = Source { file, text };
    let parsed: File = toml::from_str(text).map_err(|error| {
        let why = error.message().lines().next().unwrap_or("not TOML").to_owned();
        source.refuse(error.span().unwrap_or(0..0), why)
    })?;
    let parts = [("locks", parsed.lock.len()), ("queues", parsed.queue.len()), ("roles", parsed.role.len())];
    for (what, count) in parts {
        if count > MOST_PARTS {
            return Err(source.refuse(0..0, format_args!("{what}: at most {MOST_PARTS}, {count} given")));
        }
    }
    if parsed.role.is_empty() {
        return Err(source.refuse(0..0, "at least one [[role]] is needed"));
    }
    let locks = parsed.lock.into_iter().map(|(name, fields)| locks::read(&source, name, fields));
    let locks = locks.collect::<Result<Vec<Lock>, Error>>()?;
    let queues = queues::read(&source, parsed.queue)?;
    let mut model = Model { locks, queues, roles: Vec::new() };
    for (index, fields) in parsed.role.into_iter().enumerate() {
        let role = role(&source, index, fields, &model)?;
        model.roles.push(role);
    }
    if !model.roles.iter().any(|role| role.counted) {
        return Err(source.refuse(0..0, "counted: at least one role's operations are"));
    }
    queues::check(&source, &model)?;
    match cycle(&model) {
        Some(name) => Err(source.refuse(
            0..0,
            format_args!("lock {name} may be taken within itself, through others or directly: that deadlocks"),
        )),
        None => Ok(model),
    }
}

fn role(source: &Source<'_>, index: usize, fields: Spanned<RoleFields>, model: &Model) -> Result<Role, Error> {
    let span = fields.span();
    let RoleFields { name, threads, cpu, wait, gets, takes, puts, early, counted } = fields.into_inner();
    for (what, count) in [("gets", gets.len()), ("takes", takes.len()), ("puts", puts.len())] {
        if count > MOST_PARTS {
            return Err(source.refuse(span, format_args!("{what}: at most {MOST_PARTS}, {count} given")));
        }
    }
    let threads = threads.map_or(1.0, |threads| threads.0);
    let name = name.unwrap_or_else(|| format!("role{}", index + 1));
    let gets = queues::gets(source, gets, &model.queues)?;
    let puts = queues::puts(source, puts, &model.queues)?;
    let early = early.map_or(100.0, |early| early.0);
    let mut role = Role { name, threads, cpu, wait, gets, takes: Vec::new(), puts, early, counted };
    for fields in takes {
        let take = take(source, fields.into_inner(), &model.locks, &role.takes)?;
        role.takes.push(take);
    }
    let before = role.takes.iter().filter_map(|take| take.before).sum::<f64>();
    if before > 100.5 {
        let why = format!("role {}: {before:.0} % of its CPU time comes before its locks", role.name);
        return Err(source.refuse(span, why));
    }
    // An operation that takes no time would let a replay do nothing else for ever.
    if role.operation_ns() < 1.0 {
        return Err(
            source.refuse(span, format_args!("role {}: an operation takes at least 1ns of CPU time", role.name))
        );
    }
    let most = (0..role.takes.len()).map(|take| role.times(take)).sum::<f64>();
    if most > MOST_COUNT {
        let why = format!("role {}: at most {MOST_COUNT} acquisitions in an operation, {most:.0} given", role.name);
        return Err(source.refuse(span, why));
    }
    Ok(role)
}

fn take(source: &Source<'_>, fields: TakeFields, locks: &[Lock], before: &[Take]) -> Result<Take, Error> {
    let find = |name: &Spanned<String>| source.find("lock", name, locks.iter().map(|lock| lock.name.as_str()));
    let lock = find(&fields.lock)?;
    let reads = match fields.reads {
        Some(reads) if locks[lock].kind != Kind::RwLock && reads.get_ref().0 > 0.0 => {
            let (name, kind) = (&locks[lock].name, locks[lock].kind.name());
            return Err(source.refuse(reads.span(), format_args!("reads: {name} is a {kind}; only a rwlock is read")));
        }
        Some(reads) => reads.into_inner().0,
        None => 0.0,
    };
    let within = match &fields.within {
        None => None,
        Some(name) => {
            let outer = find(name)?;
            let found = before.iter().rposition(|take| take.lock == outer);
            Some(found.ok_or_else(|| {
                source.refuse(name.span(), format_args!("within: no take of {} stands before this one", name.get_ref()))
            })?)
        }
    };
    let count = fields.count.map_or(1.0, |count| count.0);
    let tries = fields.tries.map_or(0.0, |tries| tries.0);
    let sleeps = fields.sleeps.map_or(100.0, |sleeps| sleeps.0);
    let before = match &fields.before {
        Some(before) if within.is_some() => {
            return Err(source.refuse(before.span(), "before: this lock is taken within another one's section"));
        }
        before => before.as_ref().map(|before| before.get_ref().0),
    };
    Ok(Take { lock, hold: fields.hold, count, reads, tries, sleep: fields.sleep, sleeps, within, before })
}

/// A class that may be taken while one of its own is held.
fn cycle(model: &Model) -> Option<&str> {
    let mut inner = vec![vec![false; model.locks.len()]; model.locks.len()];
    for role in &model.roles {
        for take in &role.takes {
            let mut outer = take.within;
            while let Some(number) = outer {
                inner[role.takes[number].lock][take.lock] = true;
                outer = role.takes[number].within;
            }
        }
    }
    let classes = 0..model.locks.len();
    for middle in classes.clone() {
        let below = inner[middle].clone();
        for row in inner.iter_mut().filter(|row| row[middle]) {
            row.iter_mut().zip(&below).for_each(|(reached, below)| *reached |= below);
        }
    }
    classes.into_iter().find(|&class| inner[class][class]).map(|class| model.locks[class].name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[lock.ITEM]
objects = 1024
popularity = 0.99
lines = 2
[lock.LRU]
kind = "rwlock"
popularity = [3, 1]
private = true
[[role]]
name = "worker"
threads = 3
cpu = ["1us", "3us"]
takes = [
  { lock = "ITEM", hold = "60ns", count = 5 },
  { lock = "LRU", hold = "100ns", reads = 80, within = "ITEM", count = 0.5 },
]
[[role]]
cpu = "2us"
wait = "1ms"
"#;

    #[test]
    fn a_model_is_read() {
        let model = Model::read("app.toml", GOOD).unwrap();
        let [item, lru] = model.locks.as_slice() else { panic!() };
        assert_eq!((item.objects, item.kind, item.lines), (1024, Kind::Mutex, (2, 2)));
        assert_eq!((lru.objects, lru.kind, lru.lines, lru.private), (2, Kind::RwLock, (1, 4), true));
        let worker = &model.roles[0];
        assert_eq!((worker.takes[1].within, worker.times(1), worker.cpu.mean()), (Some(0), 2.5, 2_000.0));
        assert_eq!(worker.operation_ns(), 2_000.0 + 300.0 + 250.0);
        assert_eq!((model.roles[1].name.as_str(), model.crew(8)), ("role2", vec![6, 2]));
    }

    #[test]
    fn wrong_fields_are_refused_with_file_line_and_reason() {
        let role = "[[role]]\ncpu = \"1us\"\n";
        let lock = "[lock.A]\n[lock.B]\n";
        let cases = [
            ("", "app.toml:1: missing field `role`"),
            ("role = []", "app.toml:1: at least one"),
            ("[[role]]\n", "app.toml:1: missing field `cpu`"),
            (
                &format!(
                    "{lock}{role}takes = [{{ lock = \"A\", hold = \"1ns\", before = 60 }}, {{ lock = \"B\", hold = \"1ns\", before = 50 }}]"
                ),
                "app.toml:3: role role1: 110 % of its CPU time comes before its locks",
            ),
            (
                &format!(
                    "{lock}{role}takes = [{{ lock = \"A\", hold = \"1ns\" }}, {{ lock = \"B\", hold = \"1ns\", within = \"A\", before = 5 }}]"
                ),
                "app.toml:5: before: this lock is taken within",
            ),
            ("[[role]]\ncpu = 5\n", "app.toml:2: invalid type"),
            ("[[role]]\ncpu = \"5\"\n", "app.toml:2: '5' has no unit"),
            ("[[role]]\ncpu = \"0ns\"\n", "app.toml:1: role role1: an operation takes"),
            ("[[role]]\ncpu = []\n", "app.toml:2: a list of times"),
            ("[[role]]\ncqu = \"5us\"\n", "app.toml:2: unknown field `cqu`"),
            (&format!("{role}threads = 0\n"), "app.toml:3: 0 is out of bounds"),
            (
                &format!("{role}takes = [{{ lock = \"A\", hold = \"1ns\" }}]\n"),
                "app.toml:3: unknown lock 'A'; known are none",
            ),
            (&format!("{lock}kind = \"rw\"\n{role}"), "app.toml:3: unknown variant `rw`"),
            (&format!("{lock}objects = 0\n{role}"), "app.toml:3: 0 is out of bounds"),
            (&format!("{lock}lines = [4, 1]\n{role}"), "app.toml:3: lines:"),
            (&format!("{lock}popularity = [0]\n{role}"), "app.toml:3: popularity:"),
            (&format!("{lock}objects = 3\npopularity = [1, 1]\n{role}"), "app.toml:2: lock B: as many"),
            (
                &format!("{lock}{role}takes = [{{ lock = \"A\", hold = \"1ns\", reads = 5 }}]\n"),
                "app.toml:5: reads: A is a mutex",
            ),
            (
                &format!("{lock}{role}takes = [{{ lock = \"A\", hold = \"1ns\", within = \"B\" }}]\n"),
                "app.toml:5: within: no take of B",
            ),
            (
                &format!(
                    "{lock}{role}takes = [\n{{ lock = \"A\", hold = \"1ns\" }},\n{{ lock = \"A\", hold = \"1ns\", within = \"A\" }}]\n"
                ),
                "app.toml:1: lock A may be taken within itself",
            ),
            (
                &format!(
                    "{lock}{role}takes = [{{ lock = \"A\", hold = \"1ns\", count = 600 }}, {{ lock = \"A\", hold = \"1ns\", count = 600 }}]\n"
                ),
                "app.toml:3: role role1: at most 1000",
            ),
        ];
        for (text, start) in cases {
            let message = Model::read("app.toml", text).expect_err(text).to_string();
            assert!(message.starts_with(start) && !message.contains('\n'), "{message}, not {start}");
        }
    }

    #[test]
    fn classes_that_nest_both_ways_are_refused() {
        let take = |lock: &str| format!("{{ lock = \"{lock}\", hold = \"1ns\" }}");
        let within = |lock: &str, outer: &str| format!("{{ lock = \"{lock}\", hold = \"1ns\", within = \"{outer}\" }}");
        let role = |a: &str, b: &str| format!("[[role]]\ncpu = \"1us\"\ntakes = [{}, {}]\n", take(a), within(b, a));
        let both = |second: String| format!("[lock.A]\n[lock.B]\n[lock.C]\n{}{second}", role("A", "B"));
        assert!(Model::read("x", &both(role("B", "C"))).is_ok());
        assert!(Model::read("x", &both(role("B", "A"))).is_err());
        let three = format!("{}{}", both(role("B", "C")), role("C", "A"));
        assert!(Model::read("x", &three).is_err());
    }
}
