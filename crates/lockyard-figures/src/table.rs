//! Published tables: CSV files with a head of comments that says where the figures come from.
//!
//! ```text
//! # commit subject: …        the head: "# name: text" lines
//! threads,pre,post           one line of column names
//! 2,100,200                  rows, as many fields as columns
//! ```
//!
//! Every published number of this project is in one of these files and nowhere else. A file is
//! complained about with file, line and reason. Fields hold no commas and no quotes.

use crate::error::Error;

macro_rules! files {
    ($($stem:literal,)*) => {
        /// Stems and contents of the data files.
        const FILES: &[(&str, &str)] = &[$(($stem, include_str!(concat!("../data/", $stem, ".csv"))),)*];
    };
}

files! {
    "cna_lock2_x5_4",
    "cna_locktorture_x5_4",
    "hq_locktorture_epyc_fairness",
    "hq_locktorture_epyc_gain",
    "hq_locktorture_kunpeng_gain",
    "hq_memcached_epyc",
    "litl_kyotocabinet_i48",
    "pi_stress_rtmutex_topspinner_2016",
    "qrwlock_waiting_flag",
    "rwsem_01_remove_reader_spin_kops",
    "rwsem_02_reader_steal_events",
    "rwsem_06_timed_spin_loop_ns",
    "rwsem_07_timed_writer_spin_kops",
    "rwsem_08_timed_writer_spin_events",
    "rwsem_09_reader_spin_on_writer_kops",
    "rwsem_10_handoff_240_writers",
    "rwsem_12_code_size",
    "rwsem_13_boot_events",
    "semaphore_01_aim7",
    "semaphore_02_code_size",
}

/// The stems of all data files.
pub fn stems() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|file| file.0)
}

/// One published table.
#[derive(Debug, Clone)]
pub struct Table {
    /// The file's stem.
    pub id: &'static str,
    /// The head: names and texts.
    pub head: Vec<(&'static str, &'static str)>,
    /// Names of the columns.
    pub columns: Vec<&'static str>,
    /// The fields, row by row.
    pub rows: Vec<Vec<&'static str>>,
}

impl Table {
    /// The table in the file `id`.
    ///
    /// # Errors
    /// No such file, or one that is malformed.
    pub fn read(id: &str) -> Result<Self, Error> {
        let file = FILES.iter().find(|file| file.0 == id);
        let (stem, text) = file.ok_or_else(|| Error::Data(format!("no published table '{id}'")))?;
        Self::parse(stem, text)
    }

    fn parse(id: &'static str, text: &'static str) -> Result<Self, Error> {
        let mut table = Self { id, head: Vec::new(), columns: Vec::new(), rows: Vec::new() };
        for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
            let complain = |why: String| Error::Data(format!("{id}.csv:{number}: {why}"));
            if let Some(comment) = line.strip_prefix('#') {
                let pair =
                    comment.split_once(": ").ok_or_else(|| complain("a comment is '# name: text'".to_owned()))?;
                table.head.push((pair.0.trim(), pair.1.trim()));
                continue;
            }
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            if table.columns.is_empty() {
                table.columns = fields;
            } else if fields.len() == table.columns.len() {
                table.rows.push(fields);
            } else {
                return Err(complain(format!("{} fields under {} columns", fields.len(), table.columns.len())));
            }
        }
        if table.rows.is_empty() {
            return Err(Error::Data(format!("{id}.csv: no rows")));
        }
        Ok(table)
    }

    /// The text of the head called `name`; empty if there is none.
    pub fn about(&self, name: &str) -> &'static str {
        self.head.iter().find(|line| line.0 == name).map_or("", |line| line.1)
    }

    /// The position of a column.
    ///
    /// # Errors
    /// There is no such column.
    pub fn column(&self, name: &str) -> Result<usize, Error> {
        let found = self.columns.iter().position(|column| *column == name);
        found.ok_or_else(|| Error::Data(format!("{}.csv has no column '{name}'", self.id)))
    }

    /// The text in row `row` under `column`.
    ///
    /// # Errors
    /// There is no such column or row.
    pub fn text(&self, row: usize, column: &str) -> Result<&'static str, Error> {
        let column = self.column(column)?;
        let row = self.rows.get(row).ok_or_else(|| Error::Data(format!("{}.csv has no row {}", self.id, row + 1)))?;
        Ok(row[column])
    }

    /// The number in row `row` under `column`.
    ///
    /// # Errors
    /// There is no such column or row, or no number in it.
    pub fn number(&self, row: usize, column: &str) -> Result<f64, Error> {
        let text = self.text(row, column)?;
        let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
        number.ok_or_else(|| Error::Data(format!("{}.csv: '{text}' under '{column}' is not a number", self.id)))
    }

    /// The ratio that row `row` under `column` gives as a change in per cent: 0.99 where it says
    /// -1.
    ///
    /// # Errors
    /// There is no such column or row, or no change above -100 % in it.
    pub fn ratio(&self, row: usize, column: &str) -> Result<f64, Error> {
        let text = self.text(row, column)?;
        let percent = text.parse().ok().filter(|change: &f64| change.is_finite() && *change > -100.0);
        let refuse = || Error::Data(format!("{}.csv: '{text}' under '{column}' is not a change in per cent", self.id));
        Ok(1.0 + percent.ok_or_else(refuse)? / 100.0)
    }

    /// The number that stands before `words` in the head's text `name`: 240 in "240 writers" before
    /// " writers".
    ///
    /// # Errors
    /// There is no such text, or no number before the words.
    pub fn stated(&self, name: &str, words: &str) -> Result<f64, Error> {
        let before = self.about(name).split_once(words).map(|parts| parts.0);
        let number = before.and_then(|text| text.rsplit(|c: char| !c.is_ascii_digit() && c != '.').next());
        let number = number.and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| Error::Data(format!("{}.csv: no number before '{words}' in '{name}'", self.id)))
    }

    /// The row whose first field is `name`.
    ///
    /// # Errors
    /// There is no such row.
    pub fn row(&self, name: &str) -> Result<usize, Error> {
        let found = self.rows.iter().position(|row| row[0] == name);
        found.ok_or_else(|| Error::Data(format!("{}.csv has no row '{name}'", self.id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_parses_and_says_where_it_comes_from() {
        for stem in stems() {
            let table = Table::read(stem).unwrap_or_else(|error| panic!("{error}"));
            for name in ["commit subject", "machine", "workload", "unit", "origin"] {
                assert!(!table.about(name).is_empty(), "{stem}: {name}");
            }
        }
    }

    #[test]
    fn every_data_file_is_listed() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/data");
        let mut found: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter_map(|name| name.strip_suffix(".csv").map(str::to_owned))
            .collect();
        found.sort();
        assert_eq!(found, stems().collect::<Vec<_>>());
    }

    #[test]
    fn malformed_tables_are_refused_with_file_and_line() {
        for (text, line) in [
            ("# a\nx\n1\n", "t.csv:1: a comment is '# name: text'"),
            ("x,y\n1\n", "t.csv:2: 1 fields under 2 columns"),
            ("x,y\n", "t.csv: no rows"),
        ] {
            assert_eq!(Table::parse("t", text).unwrap_err().to_string(), line);
        }
        let table = Table::parse("t", "x,y\n1,-\n").unwrap();
        assert_eq!(table.number(0, "x"), Ok(1.0));
        assert_eq!(table.number(0, "y").unwrap_err().to_string(), "t.csv: '-' under 'y' is not a number");
        let stated = Table::parse("t", "# workload: 5 second run, 240 threads\nx\n1\n").unwrap();
        assert_eq!(stated.stated("workload", " threads"), Ok(240.0));
        assert_eq!(stated.stated("workload", " second"), Ok(5.0));
        assert!(stated.stated("workload", " writers").is_err() && stated.stated("unit", " threads").is_err());
        let changes = Table::parse("t", "x,y\n-25,-100\n").unwrap();
        assert_eq!(changes.ratio(0, "x"), Ok(0.75));
        assert_eq!(
            changes.ratio(0, "y").unwrap_err().to_string(),
            "t.csv: '-100' under 'y' is not a change in per cent"
        );
        assert!(table.number(1, "x").is_err() && table.number(0, "z").is_err() && table.row("2").is_err());
    }

    #[test]
    fn the_series_agree_where_they_overlap() {
        // What one patch measured after itself, the next one measured before itself.
        let (earlier, later) = ("rwsem_09_reader_spin_on_writer_kops", "rwsem_07_timed_writer_spin_kops");
        let (earlier, later) = (Table::read(earlier).unwrap(), Table::read(later).unwrap());
        for row in 0..earlier.rows.len() {
            let same = later.row(earlier.rows[row][0]).unwrap();
            assert_eq!(earlier.number(row, "post_patch"), later.number(same, "pre_patch"));
        }
    }
}
