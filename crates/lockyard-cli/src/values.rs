//! Lists of numbers as a user writes them: `2,16,64`, `1:10:3`, or both mixed.
//!
//! A range `a:b:step` includes `b` when the steps reach it; `a:b` steps by one. Values keep their
//! order, repeats are dropped, and a list that would hold more than [`MOST_VALUES`] values is
//! refused: it is a typing error more often than a wish.

use crate::failure::Failure;

/// The longest list accepted.
pub(crate) const MOST_VALUES: usize = 1000;

/// What a list of numbers is for: its flag, and the values that make sense there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The flag as the user writes it, for messages.
    pub(crate) flag: &'static str,
    /// The smallest value allowed.
    pub(crate) least: u64,
    /// The largest value allowed.
    pub(crate) most: u64,
}

impl Bounds {
    /// Parses a list of numbers, all of them within the bounds.
    ///
    /// # Errors
    /// One line that names the flag, the offending part and what would be accepted.
    pub(crate) fn list(&self, text: &str) -> Result<Vec<u64>, Failure> {
        let mut values = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            if part.is_empty() {
                return Err(self.refuse(format!("'{text}' has an empty entry")));
            }
            if part.contains(':') {
                self.range(part, &mut values)?;
            } else {
                push_new(&mut values, self.entry(part)?);
            }
            if values.len() > MOST_VALUES {
                return Err(self.refuse(format!("'{text}' is more than {MOST_VALUES} values")));
            }
        }
        Ok(values)
    }

    /// Parses one number within the bounds.
    ///
    /// # Errors
    /// One line that names the flag and what would be accepted.
    pub(crate) fn number(&self, text: &str) -> Result<u64, Failure> {
        self.value(text).map_err(|what| Failure::usage(format!("{}: {what}; give one number", self.flag)))
    }

    /// The same of an entry of a list.
    fn entry(&self, text: &str) -> Result<u64, Failure> {
        self.value(text).map_err(|what| self.refuse(what))
    }

    fn value(&self, text: &str) -> Result<u64, String> {
        let Bounds { least, most, .. } = *self;
        let allowed = if most == u64::MAX { format!("at least {least}") } else { format!("{least} to {most}") };
        let value: u64 = text.trim().parse().map_err(|_| format!("'{text}' is not a whole number ({allowed})"))?;
        if value < least || value > most {
            return Err(format!("{value} is out of bounds ({allowed})"));
        }
        Ok(value)
    }

    fn range(&self, part: &str, values: &mut Vec<u64>) -> Result<(), Failure> {
        let fields: Vec<&str> = part.split(':').collect();
        let (first, last, step) = match fields.as_slice() {
            [first, last] => (self.entry(first)?, self.entry(last)?, 1),
            [first, last, step] => {
                let step: u64 = step
                    .trim()
                    .parse()
                    .map_err(|_| self.refuse(format!("the step of '{part}' is not a whole number")))?;
                (self.entry(first)?, self.entry(last)?, step)
            }
            _ => return Err(self.refuse(format!("'{part}' is not a range first:last:step"))),
        };
        if step == 0 {
            return Err(self.refuse(format!("the step of '{part}' is zero")));
        }
        if first > last {
            return Err(self.refuse(format!("the range '{part}' is empty ({first} is above {last})")));
        }
        if (last - first) / step >= MOST_VALUES as u64 {
            return Err(self.refuse(format!("'{part}' is more than {MOST_VALUES} values")));
        }
        let mut value = first;
        loop {
            push_new(values, value);
            match value.checked_add(step) {
                Some(next) if next <= last => value = next,
                _ => return Ok(()),
            }
        }
    }

    fn refuse(&self, what: String) -> Failure {
        Failure::usage(format!("{}: {what}; give numbers such as 2,16,64 or a range 2:64:2", self.flag))
    }
}

/// Parses a length of time of `least` to `most` seconds: see [`nanoseconds`].
///
/// # Errors
/// One line that names the flag and what would be accepted.
pub(crate) fn seconds(flag: &str, text: &str, least: f64, most: f64) -> Result<std::time::Duration, Failure> {
    let refuse = |what: &str| {
        let (least, most) = (short(least * 1e9), short(most * 1e9));
        Failure::usage(format!(
            "{flag}: '{text}' {what}; give a time from {least} to {most} (a number alone is seconds)"
        ))
    };
    let value = nanoseconds(text).map_err(refuse)? / 1e9;
    if !(value >= least && value <= most) {
        return Err(refuse("is out of bounds"));
    }
    Ok(std::time::Duration::from_secs_f64(value))
}

/// Parses a length of time from `least` to `most` nanoseconds: see [`nanoseconds`].
///
/// # Errors
/// One line that names the flag and what would be accepted.
pub(crate) fn duration(flag: &str, text: &str, least: u64, most: u64) -> Result<std::time::Duration, Failure> {
    let refuse = |what: &str| {
        let (least, most) = (short(least as f64), short(most as f64));
        Failure::usage(format!(
            "{flag}: '{text}' {what}; give a time from {least} to {most} (a number alone is seconds)"
        ))
    };
    let ns = nanoseconds(text).map_err(refuse)?.round();
    if !(ns >= least as f64 && ns <= most as f64) {
        return Err(refuse("is out of bounds"));
    }
    Ok(std::time::Duration::from_nanos(ns as u64))
}

/// `ns` as a user writes it, in the largest unit of which it is one or more.
fn short(ns: f64) -> String {
    let unit = UNITS.into_iter().filter(|(name, _)| name.is_ascii()).rfind(|(_, unit)| ns >= *unit);
    unit.map_or_else(|| format!("{ns}ns"), |(name, unit)| format!("{}{name}", ns / unit))
}

/// Units of time, the smallest first.
const UNITS: [(&str, f64); 6] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9)];

/// A time as every option takes it: `500us`, `10ms`, `1s`, `2min`; a number alone is seconds.
fn nanoseconds(text: &str) -> Result<f64, &'static str> {
    let text = text.trim();
    let is_number = |number: &str| number.trim().parse::<f64>().is_ok();
    let found = UNITS.into_iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit).filter(|n| is_number(n))?, ns)));
    let (number, unit) = found.unwrap_or((text, 1e9));
    let value: f64 = number.trim().parse().map_err(|_| "is not a time (such as 500us, 10ms, 1s, 2min)")?;
    Ok(value * unit)
}

fn push_new<T: PartialEq>(values: &mut Vec<T>, value: T) {
    if !values.contains(&value) {
        values.push(value);
    }
}

/// A think time as a user writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Think {
    /// `20`: so many PAUSEs.
    Pauses(u64),
    /// `0.25x`: so many times the section.
    Sections(f64),
}

impl Think {
    /// In PAUSEs, beside a section of `cs`. A part of one counts as one.
    pub(crate) fn beside(self, cs: u32) -> u32 {
        match self {
            Think::Pauses(pauses) => pauses as u32,
            // 1.1 times ten is eleven, whatever binary fractions make of it.
            Think::Sections(times) => (times * f64::from(cs) - 1e-6).ceil() as u32,
        }
    }
}

/// A list of think times: `1,20,100`, `0.25x,1x,4x`, or both mixed.
///
/// # Errors
/// One line that names the flag, the offending part and what would be accepted.
pub(crate) fn thinks(bounds: Bounds, text: &str) -> Result<Vec<Think>, Failure> {
    let mut values = Vec::new();
    for part in text.split(',').map(str::trim) {
        match part.strip_suffix('x') {
            Some(times) => match times.parse::<f64>() {
                Ok(times) if (0.0..=1e6).contains(&times) => push_new(&mut values, Think::Sections(times)),
                _ => {
                    let flag = bounds.flag;
                    let what = format!("{flag}: '{part}' is not a multiple of the section; give one such as 0.25x");
                    return Err(Failure::usage(what));
                }
            },
            None => bounds.list(part)?.into_iter().for_each(|pauses| push_new(&mut values, Think::Pauses(pauses))),
        }
    }
    Ok(values)
}

/// A list of percentages: `50,95,99.9`, with ranges of whole ones.
///
/// # Errors
/// One line that names the flag, the offending part and what would be accepted.
pub(crate) fn percentages(flag: &'static str, text: &str) -> Result<Vec<f64>, Failure> {
    let mut values = Vec::new();
    for part in text.split(',').map(str::trim) {
        if !part.contains('.') {
            let whole = Bounds { flag, least: 0, most: 100 }.list(part)?;
            whole.into_iter().for_each(|percent| push_new(&mut values, percent as f64));
            continue;
        }
        match part.parse::<f64>() {
            Ok(percent) if (0.0..=100.0).contains(&percent) => push_new(&mut values, percent),
            _ => {
                let what = format!("{flag}: '{part}' is not a percentage from 0 to 100; give some such as 50,95,99.9");
                return Err(Failure::usage(what));
            }
        }
    }
    Ok(values)
}

/// `--seed`.
pub(crate) fn seed(text: &str) -> Result<u64, Failure> {
    text.trim()
        .parse()
        .map_err(|_| Failure::usage(format!("--seed: '{text}' is not a whole number; give one from 0 to {}", u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: Bounds = Bounds { flag: "--threads", least: 1, most: 4096 };

    fn message(text: &str) -> String {
        THREADS.list(text).expect_err("must be refused").to_string()
    }

    #[test]
    fn lists_and_ranges_mix() {
        assert_eq!(THREADS.list("2,16,64").unwrap(), [2, 16, 64]);
        assert_eq!(THREADS.list("1:10:3").unwrap(), [1, 4, 7, 10]);
        assert_eq!(THREADS.list("1:10:4").unwrap(), [1, 5, 9]);
        assert_eq!(THREADS.list("3:5").unwrap(), [3, 4, 5]);
        assert_eq!(THREADS.list("1, 2:4:2 ,8").unwrap(), [1, 2, 4, 8]);
        assert_eq!(THREADS.list("7:7:5").unwrap(), [7]);
    }

    #[test]
    fn repeats_are_dropped_and_order_kept() {
        assert_eq!(THREADS.list("8,2,8,1:3").unwrap(), [8, 2, 1, 3]);
    }

    #[test]
    fn refusals_name_the_flag_and_the_reason() {
        assert!(message("0").contains("--threads: 0 is out of bounds (1 to 4096)"));
        assert!(message("x").contains("'x' is not a whole number"));
        assert!(message("-1").contains("'-1' is not a whole number"));
        assert!(message("").contains("empty entry"));
        assert!(message("1,,2").contains("empty entry"));
        assert!(message("8:2:1").contains("is empty (8 is above 2)"));
        assert!(message("1:8:0").contains("step of '1:8:0' is zero"));
        assert!(message("1:2:3:4").contains("not a range"));
        assert!(message("1:4096:1").contains("more than 1000 values"));
        assert!(!message("x").contains('\n'));
    }

    #[test]
    fn a_range_at_the_top_of_the_type_ends() {
        let any = Bounds { flag: "--seed", least: 0, most: u64::MAX };
        let top = u64::MAX;
        assert_eq!(any.list(&format!("{}:{top}:3", top - 4)).unwrap(), [top - 4, top - 1]);
    }

    #[test]
    fn durations_have_units_and_bounds() {
        let parse = |text: &str| duration("--duration", text, 1_000, 60_000_000_000);
        assert_eq!(["500us", "1.5 ms", "2s"].map(|text| parse(text).unwrap().as_micros()), [500, 1_500, 2_000_000]);
        assert_eq!(["10", "1min"].map(|text| parse(text).unwrap().as_secs()), [10, 60], "a number alone is seconds");
        for bad in ["0", "0ms", "-1ms", "61", "ms", "nanms", "1h", "61s", "10ns"] {
            let line = parse(bad).unwrap_err().to_string();
            assert!(line.starts_with(&format!("--duration: '{bad}' ")), "{line}");
        }
    }

    #[test]
    fn think_times_are_pauses_or_sections() {
        let parse = |text: &str| thinks(Bounds { flag: "--think", least: 0, most: 1000 }, text);
        let pauses = |text: &str, cs| parse(text).unwrap().iter().map(|one| one.beside(cs)).collect::<Vec<_>>();
        assert_eq!(pauses("1,0.25x, 1x ,4x,10:20:5", 20), [1, 5, 20, 80, 10, 15, 20]);
        assert_eq!((pauses("0.25x,1.1x", 10), pauses("0.25x,4x", 0)), (vec![3, 11], vec![0, 0]));
        assert_eq!(parse("1x,1.0x").unwrap().len(), 1);
        for bad in ["x", "-1x", "nanx", "infx", "1e9x"] {
            assert!(parse(bad).unwrap_err().to_string().contains("is not a multiple of the section"), "{bad}");
        }
        assert!(parse("0.25").unwrap_err().to_string().contains("'0.25' is not a whole number"));
        assert!(parse("1x,,2").is_err() && parse("1001").is_err());
    }

    #[test]
    fn percentages_may_be_fractions() {
        let parse = |text: &str| percentages("--read-pct", text);
        assert_eq!(parse("50, 99.9,0:100:50").unwrap(), [50.0, 99.9, 0.0, 100.0]);
        assert_eq!(parse("95,95.0").unwrap().len(), 1);
        for bad in ["100.1", "-0.5", "9.9.9", "."] {
            assert!(parse(bad).unwrap_err().to_string().contains("is not a percentage from 0 to 100"), "{bad}");
        }
        assert!(parse("101").unwrap_err().to_string().contains("101 is out of bounds (0 to 100)"));
    }

    #[test]
    fn seconds_have_bounds() {
        for text in ["0.25", "250ms", "0.25s"] {
            assert_eq!(seconds("--secs", text, 0.001, 10.0).unwrap().as_millis(), 250);
        }
        for bad in ["0", "-1", "nan", "inf", "abc", "11"] {
            assert!(seconds("--secs", bad, 0.001, 10.0).is_err(), "{bad}");
        }
    }
}
