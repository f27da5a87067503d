//! The fields of a model's file about locks.

use serde::Deserialize;
use serde::de::{self, Deserializer};
use toml::Spanned;

use super::{Bounded, Numbers, Source};
use crate::error::Error;
use crate::model::{Kind, Lock, MOST_LINES, MOST_OBJECTS, MOST_START, Popularity};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LockFields {
    kind: Option<Kind>,
    units: Option<Spanned<Bounded<1, { MOST_START as u64 }>>>,
    objects: Option<Bounded<1, { MOST_OBJECTS as u64 }>>,
    popularity: Option<Wanted>,
    #[serde(default)]
    private: bool,
    lines: Option<Lines>,
}

/// `2`, or `[1, 4]`.
struct Lines(u32, u32);

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let numbers = Numbers::deserialize(deserializer)?;
        let (least, most) = match numbers {
            Numbers::One(lines) => (lines, lines),
            Numbers::Many(ends) if ends.len() == 2 => (ends[0], ends[1]),
            Numbers::Many(ends) => {
                return Err(de::Error::custom(format!("lines: one number or two, {} given", ends.len())));
            }
        };
        let whole = |lines: f64| lines.fract() == 0.0 && (0.0..=f64::from(MOST_LINES)).contains(&lines);
        if whole(least) && whole(most) && least <= most {
            return Ok(Self(least as u32, most as u32));
        }
        Err(de::Error::custom(format!("lines: whole numbers from 0 to {MOST_LINES}, the smaller first")))
    }
}

/// An exponent, or weights.
struct Wanted(Popularity);

impl<'de> Deserialize<'de> for Wanted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let refuse = |what: &str| Err(de::Error::custom(format!("popularity: {what}")));
        match Numbers::deserialize(deserializer)? {
            Numbers::One(exponent) if (0.0..=10.0).contains(&exponent) => Ok(Self(Popularity::Zipf(exponent))),
            Numbers::One(_) => refuse("an exponent from 0 to 10, or a list of weights"),
            Numbers::Many(weights) => {
                let fit = weights.iter().all(|weight| (0.0..=1e12).contains(weight));
                if !fit || weights.iter().sum::<f64>() <= 0.0 || weights.len() > MOST_OBJECTS as usize {
                    return refuse("weights from 0 to 1e12, not all of them 0");
                }
                Ok(Self(Popularity::Weights(weights)))
            }
        }
    }
}

pub(super) fn read(source: &Source<'_>, name: String, fields: Spanned<LockFields>) -> Result<Lock, Error> {
    let span = fields.span();
    let LockFields { kind, units, objects, popularity, private, lines } = fields.into_inner();
    source.check_name("lock", &name, span.clone())?;
    let kind = kind.unwrap_or(Kind::Mutex);
    if let Some(units) = units.as_ref().filter(|_| kind != Kind::Semaphore) {
        return Err(
            source.refuse(units.span(), format_args!("units: {name} is a {}; only a semaphore has units", kind.name()))
        );
    }
    let units = units.map_or(1, |units| units.into_inner().0);
    let usual = Lock::new(name);
    let popularity = popularity.map_or(usual.popularity, |wanted| wanted.0);
    let said = objects.map(|objects| objects.0);
    let objects = match &popularity {
        Popularity::Weights(weights) => weights.len() as u32,
        Popularity::Zipf(_) => said.unwrap_or(1),
    };
    if said.is_some_and(|said| said != objects) {
        return Err(source.refuse(span, format_args!("lock {}: as many weights as objects are needed", usual.name)));
    }
    let lines = match lines {
        Some(Lines(_, most)) if kind == Kind::Semaphore && most > 0 => {
            let why = format_args!("lines: {} is a semaphore, whose sections share none", usual.name);
            return Err(source.refuse(span, why));
        }
        _ if kind == Kind::Semaphore => (0, 0),
        lines => lines.map_or(usual.lines, |Lines(least, most)| (least, most)),
    };
    Ok(Lock { name: usual.name, kind, units, objects, popularity, private, lines })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    #[test]
    fn a_semaphore_has_units_and_no_lines() {
        let role = "[[role]]\ncpu = \"1us\"\ntakes = [{ lock = \"S\", hold = \"1us\" }]\n";
        let read = |fields: &str| Model::read("a", &format!("[lock.S]\n{fields}\n{role}"));
        let lock = read("kind = \"semaphore\"\nunits = 4").unwrap().locks.remove(0);
        assert_eq!((lock.kind, lock.units, lock.lines), (Kind::Semaphore, 4, (0, 0)));
        assert_eq!(read("kind = \"semaphore\"").unwrap().locks[0].units, 1);
        for (fields, why) in [
            ("units = 4", "units: S is a mutex; only a semaphore has units"),
            ("kind = \"semaphore\"\nunits = 0", "0 is out of bounds"),
            ("kind = \"semaphore\"\nlines = 1", "lines: S is a semaphore, whose sections share none"),
        ] {
            let error = read(fields).expect_err(fields).to_string();
            assert!(error.starts_with("a:") && error.contains(why), "{error}, not {why}");
        }
    }
}
