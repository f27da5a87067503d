//! Times as people write them: `60ns`, `2.5us`, `1ms`, and lists of them that are drawn from.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};

/// The longest time that a model may say, ns: ten seconds.
pub const LONGEST_NS: u64 = 10_000_000_000;
/// The most values that are drawn from.
pub const MOST_VALUES: usize = 64;

const UNITS: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

/// A time that is one value, or drawn from several that are equally likely. Nanoseconds.
///
/// ```
/// use lockyard_recording::time::Times;
///
/// let holds = Times::drawn(vec![40, 60, 80]);
/// assert_eq!((holds.mean(), holds.values().len()), (60.0, 3));
/// assert_eq!(Times::one(2_500).to_string(), "\"2.5us\"");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times(Vec<u64>);

impl Default for Times {
    fn default() -> Self {
        Self::one(0)
    }
}

impl Times {
    /// Always `ns`, at most [`LONGEST_NS`].
    pub fn one(ns: u64) -> Self {
        Self(vec![ns.min(LONGEST_NS)])
    }

    /// One of `values`, of which the first [`MOST_VALUES`] count; none: zero.
    pub fn drawn(mut values: Vec<u64>) -> Self {
        values.truncate(MOST_VALUES);
        values.iter_mut().for_each(|ns| *ns = (*ns).min(LONGEST_NS));
        if values.is_empty() { Self::default() } else { Self(values) }
    }

    /// The values, at least one.
    pub fn values(&self) -> &[u64] {
        &self.0
    }

    /// Their mean.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / self.0.len() as f64
    }

    /// Whether it is always zero.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|&ns| ns == 0)
    }

    /// Each value times `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self::drawn(self.0.iter().map(|&ns| (ns as f64 * factor).round() as u64).collect())
    }
}

/// As it stands in a file.
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "\"{}\"", text(*one)),
            values => {
                let texts: Vec<String> = values.iter().map(|&ns| format!("\"{}\"", text(ns))).collect();
                write!(f, "[{}]", texts.join(", "))
            }
        }
    }
}

/// `ns` in the largest unit that needs no more than three decimals.
pub fn text(ns: u64) -> String {
    let unit = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    let fits = unit.into_iter().find(|&(_, size)| ns >= size && ns.is_multiple_of(size / 1_000));
    fits.map_or_else(|| format!("{ns}ns"), |(unit, size)| format!("{}{unit}", ns as f64 / size as f64))
}

/// The time that `text` says, in whole nanoseconds.
///
/// # Errors
/// One line: no unit, no number, or out of bounds.
pub fn parse(text: &str) -> Result<u64, String> {
    let refuse = |what| format!("'{text}' {what}; give a time from 0ns to 10s, such as 60ns, 2.5us or 1ms");
    let found = UNITS.into_iter().find_map(|(unit, ns)| Some((text.trim().strip_suffix(unit)?, ns)));
    let (number, unit) = found.ok_or_else(|| refuse("has no unit"))?;
    let value: f64 = number.trim().parse().map_err(|_| refuse("is not a time"))?;
    let ns = (value * unit).round();
    if (0.0..=LONGEST_NS as f64).contains(&ns) { Ok(ns as u64) } else { Err(refuse("is out of bounds")) }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Times;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"60ns\", or a list of times")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Times, E> {
                parse(text).map(Times::one).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Times, A::Error> {
                let mut values = Vec::new();
                while let Some(text) = list.next_element::<String>()? {
                    values.push(parse(&text).map_err(de::Error::custom)?);
                }
                if values.is_empty() || values.len() > MOST_VALUES {
                    return Err(de::Error::custom(format!(
                        "a list of times has 1 to {MOST_VALUES}, this one has {}",
                        values.len()
                    )));
                }
                Ok(Times::drawn(values))
            }
        }
        deserializer.deserialize_any(Reads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_they_are_read() {
        for ns in [0, 1, 60, 999, 1_000, 2_500, 2_501, 1_234_567, 1_500_000, 9_999_999_999, LONGEST_NS] {
            assert_eq!(parse(&text(ns)), Ok(ns), "{}", text(ns));
        }
        assert_eq!(text(2_500), "2.5us");
        assert_eq!(parse("2 µs"), Ok(2_000));
    }

    #[test]
    fn nonsense_is_refused() {
        for (bad, part) in [
            ("60", "no unit"),
            ("xns", "not a time"),
            ("-1ns", "out of bounds"),
            ("11s", "out of"),
            ("NaNns", "out of"),
        ] {
            let message = parse(bad).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }
}
