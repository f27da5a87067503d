//! Which part of a sweep a process does: `--shard K/N`, or what the scheduler of a cluster says in
//! the environment.
//!
//! | scheduler | the number is in | so many are |
//! |---|---|---|
//! | HyperQueue | `HQ_TASK_ID`, from 1 | `--shards` |
//! | Kubernetes, indexed job | `JOB_COMPLETION_INDEX`, from 0 | `--shards` |
//! | Slurm, array | `SLURM_ARRAY_TASK_ID`, from 1 | `--shards` |
//! | the same | the same, from `…_MIN` in steps of `…_STEP` | `SLURM_ARRAY_TASK_COUNT` |
//!
//! The first that is there counts: HyperQueue's workers often run inside a job of another.

use std::fmt;

use crate::failure::Failure;

/// The most shards.
const MOST: u64 = 1_000_000;

/// Every N-th cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    /// K, from 1.
    pub(super) number: usize,
    /// N.
    pub(super) count: usize,
}

impl Shard {
    /// The whole sweep.
    const WHOLE: Self = Self { number: 1, count: 1 };

    /// Whether it has the cell `number`.
    pub(super) fn has(self, number: usize) -> bool {
        number % self.count == self.number % self.count
    }

    /// How many of `cells` cells it has.
    pub(super) fn size(self, cells: usize) -> usize {
        cells / self.count + usize::from(cells % self.count >= self.number)
    }

    /// The name of its file.
    pub(super) fn file_name(self) -> String {
        format!("{}-of-{}.jsonl", self.number, self.count)
    }

    /// The shard whose file has this name.
    pub(super) fn of_file(name: &str) -> Option<Self> {
        let (number, count) = name.strip_suffix(".jsonl")?.split_once("-of-")?;
        let shard = Self { number: number.parse().ok()?, count: count.parse().ok()? };
        ((1..=shard.count).contains(&shard.number) && shard.file_name() == name).then_some(shard)
    }

    /// The shard that `--shard`, `--shards` and the environment ask for.
    ///
    /// # Errors
    /// One line: a number that makes no sense, or that nobody said.
    pub(super) fn chosen(
        shard: Option<&str>,
        shards: Option<&str>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Failure> {
        if let Some(text) = shard {
            return Self::written(text);
        }
        let count = shards.map(|text| number("--shards", text, 1, MOST)).transpose()?;
        for (name, first) in [("HQ_TASK_ID", 1), ("JOB_COMPLETION_INDEX", 0), ("SLURM_ARRAY_TASK_ID", 1)] {
            let Some(text) = variable(name) else { continue };
            return match count {
                Some(count) => {
                    let index = number(name, &text, first, first + count - 1)?;
                    Ok(Self { number: (index - first + 1) as usize, count: count as usize })
                }
                None if name == "SLURM_ARRAY_TASK_ID" => Self::of_array(&text, variable),
                None => Err(Failure::usage(format!(
                    "{name} is {text}, but of how many? give --shards N, or --shard 1/1 for all cells"
                ))),
            };
        }
        match count {
            None => Ok(Self::WHOLE),
            Some(count) => Err(Failure::usage(format!(
                "--shards: neither HQ_TASK_ID nor JOB_COMPLETION_INDEX nor SLURM_ARRAY_TASK_ID says which of {count}; \
                 give --shard K/{count}"
            ))),
        }
    }

    /// `K/N`.
    fn written(text: &str) -> Result<Self, Failure> {
        let refuse = || Failure::usage(format!("--shard: '{text}' is not K/N, as in 3/8, with K from 1 to N"));
        let (number, count) = text.split_once('/').ok_or_else(refuse)?;
        let parse = |text: &str| text.trim().parse::<u64>().ok().filter(|number| (1..=MOST).contains(number));
        match (parse(number), parse(count)) {
            (Some(number), Some(count)) if number <= count => {
                Ok(Self { number: number as usize, count: count as usize })
            }
            _ => Err(refuse()),
        }
    }

    /// The place of the task `text` in its array, by what Slurm says of the array.
    fn of_array(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let said = |name: &str, usual: &str| {
            let text = variable(name).unwrap_or_else(|| usual.to_owned());
            number(name, &text, 0, u64::from(u32::MAX))
        };
        let id = number("SLURM_ARRAY_TASK_ID", text, 0, u64::from(u32::MAX))?;
        let least = said("SLURM_ARRAY_TASK_MIN", "1")?;
        let step = said("SLURM_ARRAY_TASK_STEP", "1")?.max(1);
        let count = said("SLURM_ARRAY_TASK_COUNT", "0")?;
        match id.checked_sub(least).filter(|from| from.is_multiple_of(step)).map(|from| from / step) {
            Some(place) if place < count => Ok(Self { number: place as usize + 1, count: count as usize }),
            _ => Err(Failure::usage(format!(
                "SLURM_ARRAY_TASK_ID: {id} is none of {count} from {least} on in steps of {step}; number the array \
                 from 1 and give --shards N, which is also how single tasks can be repeated"
            ))),
        }
    }
}

fn number(name: &str, text: &str, least: u64, most: u64) -> Result<u64, Failure> {
    let found = text.trim().parse::<u64>().ok().filter(|number| (least..=most).contains(number));
    found.ok_or_else(|| Failure::usage(format!("{name}: '{text}' is not a number from {least} to {most}")))
}

/// `3/8`.
impl fmt::Display for Shard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.number, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(shard: Option<&str>, shards: Option<&str>, set: &[(&str, &str)]) -> Result<String, String> {
        let variable = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let chosen = Shard::chosen(shard, shards, variable);
        chosen.map(|shard| shard.to_string()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn each_cell_is_in_one_shard() {
        for count in 1..=7 {
            let shards: Vec<Shard> = (1..=count).map(|number| Shard { number, count }).collect();
            for cells in 0..=20 {
                assert!((1..=cells).all(|cell| shards.iter().filter(|shard| shard.has(cell)).count() == 1));
                for shard in &shards {
                    assert_eq!(shard.size(cells), (1..=cells).filter(|&cell| shard.has(cell)).count(), "{shard}");
                }
            }
        }
    }

    #[test]
    fn files_name_their_shard() {
        let shard = Shard { number: 3, count: 8 };
        assert_eq!(Shard::of_file(&shard.file_name()), Some(shard));
        for other in ["3-of-8", "0-of-8.jsonl", "9-of-8.jsonl", "03-of-8.jsonl", "a.jsonl"] {
            assert_eq!(Shard::of_file(other), None, "{other}");
        }
    }

    #[test]
    fn schedulers_say_which_shard() {
        assert_eq!(chosen(None, None, &[]).unwrap(), "1/1");
        assert_eq!(chosen(Some("3/8"), None, &[("HQ_TASK_ID", "1")]).unwrap(), "3/8");
        assert_eq!(chosen(None, Some("8"), &[("HQ_TASK_ID", "8"), ("SLURM_ARRAY_TASK_ID", "1")]).unwrap(), "8/8");
        assert_eq!(chosen(None, Some("8"), &[("JOB_COMPLETION_INDEX", "0")]).unwrap(), "1/8");
        assert_eq!(chosen(None, Some("8"), &[("SLURM_ARRAY_TASK_ID", "5")]).unwrap(), "5/8");
        let array = |id, least, count, step| {
            let min = ("SLURM_ARRAY_TASK_MIN", least);
            let count = ("SLURM_ARRAY_TASK_COUNT", count);
            chosen(None, None, &[("SLURM_ARRAY_TASK_ID", id), min, count, ("SLURM_ARRAY_TASK_STEP", step)])
        };
        assert_eq!(
            (array("0", "0", "4", "1").unwrap(), array("3", "0", "4", "1").unwrap()),
            ("1/4".into(), "4/4".into())
        );
        assert_eq!(array("5", "1", "3", "2").unwrap(), "3/3");
        for (id, least, count, step) in [("9", "1", "3", "1"), ("4", "1", "3", "2"), ("0", "1", "3", "1")] {
            assert!(array(id, least, count, step).unwrap_err().contains("give --shards N"));
        }
    }

    #[test]
    fn what_nobody_said_is_not_guessed() {
        assert!(chosen(None, None, &[("HQ_TASK_ID", "1")]).unwrap_err().contains("of how many? give --shards N"));
        assert!(chosen(None, None, &[("JOB_COMPLETION_INDEX", "0")]).unwrap_err().contains("give --shards N"));
        assert!(chosen(None, Some("4"), &[]).unwrap_err().contains("give --shard K/4"));
        let out = chosen(None, Some("4"), &[("SLURM_ARRAY_TASK_ID", "0")]).unwrap_err();
        assert_eq!(out, "SLURM_ARRAY_TASK_ID: '0' is not a number from 1 to 4");
        assert!(chosen(None, Some("4"), &[("JOB_COMPLETION_INDEX", "4")]).unwrap_err().contains("from 0 to 3"));
        for bad in ["0/4", "5/4", "1", "1/0", "a/b", "1/4/2", "-1/4"] {
            assert!(chosen(Some(bad), None, &[]).unwrap_err().contains("is not K/N"), "{bad}");
        }
        assert!(chosen(None, Some("0"), &[]).unwrap_err().starts_with("--shards: '0'"));
    }
}
