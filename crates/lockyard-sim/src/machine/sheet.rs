//! A data file of the simulator, read: every number with its range, its confidence letter and the
//! line it stands on.
//!
//! The files are TOML. A number is an inline table `{ v, lo, hi, u, c, s, note }`: value, plausible
//! range, unit, confidence letter (M N P R D E), source names, remark. Everything else is text,
//! integers or lists. Reading is generic; what must be there, and which unit it must have, is the
//! business of `schema`.
//!
//! A complaint is one line: `file:line: reason`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::Error;

/// A number with its pedigree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quantity {
    /// The value in use.
    pub value: f64,
    /// Plausible range.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// Its unit: the first word of `u`.
    pub unit: String,
    /// Confidence letter: M, N, P, R, D or E.
    pub letter: char,
    /// Names of sources.
    pub sources: Vec<String>,
    /// Remark.
    pub note: String,
    /// Line in its file.
    pub line: usize,
}

impl Quantity {
    /// Whether calibration and sensitivity runs may move it: only what was derived or estimated.
    pub fn movable(&self) -> bool {
        matches!(self.letter, 'D' | 'E')
    }
}

/// Any other value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plain {
    Text(String),
    Integer(i64),
    Float(f64),
    Flag(bool),
    List(Vec<Plain>),
}

/// A file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sheet {
    pub(crate) file: String,
    /// By dotted path.
    pub(crate) quantities: BTreeMap<String, Quantity>,
    /// By dotted path, with the line.
    pub(crate) plain: BTreeMap<String, (Plain, usize)>,
    /// Lines of the sections.
    sections: BTreeMap<String, usize>,
}

/// Finds lines.
struct Lines<'a> {
    file: &'a str,
    text: &'a str,
}

impl Lines<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        self.text[..span.start.min(self.text.len())].matches('\n').count() + 1
    }

    fn complain(&self, span: &Range<usize>, why: impl std::fmt::Display) -> Error {
        Error::Machine(format!("{}:{}: {why}", self.file, self.line(span)))
    }
}

impl Sheet {
    /// Reads `text`; `file` is what complaints call it.
    pub(crate) fn read(file: &str, text: &str) -> Result<Self, Error> {
        let lines = Lines { file, text };
        let table = DeTable::parse(text).map_err(|error| {
            let why = error.message().lines().next().unwrap_or("not TOML").to_owned();
            lines.complain(&error.span().unwrap_or(0..0), why)
        })?;
        let mut sheet = Self { file: file.to_owned(), ..Self::default() };
        sheet.walk(&lines, "", table.get_ref())?;
        Ok(sheet)
    }

    fn walk(&mut self, lines: &Lines<'_>, path: &str, table: &DeTable<'_>) -> Result<(), Error> {
        for (key, value) in table.iter() {
            let path = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
            let line = lines.line(&key.span());
            match value.get_ref() {
                DeValue::Table(inner) if inner.contains_key("v") => {
                    let quantity = quantity(lines, &path, line, inner)?;
                    self.quantities.insert(path, quantity);
                }
                DeValue::Table(inner) => {
                    self.sections.insert(path.clone(), line);
                    self.walk(lines, &path, inner)?;
                }
                _ => {
                    self.plain.insert(path, (plain(lines, value)?, line));
                }
            }
        }
        Ok(())
    }

    /// A complaint about line `line`.
    pub(crate) fn complain(&self, line: usize, why: impl std::fmt::Display) -> Error {
        Error::Machine(format!("{}:{line}: {why}", self.file))
    }

    /// The line where `path` stands, or its section begins, or 1.
    pub(crate) fn line_of(&self, path: &str) -> usize {
        let own = self.quantities.get(path).map(|q| q.line).or_else(|| self.plain.get(path).map(|p| p.1));
        let section = || path.rsplit_once('.').and_then(|(section, _)| self.sections.get(section).copied());
        own.or_else(|| self.sections.get(path).copied()).or_else(section).unwrap_or(1)
    }

    fn missing(&self, path: &str) -> Error {
        self.complain(self.line_of(path), format_args!("missing field '{path}'"))
    }

    fn wrong(&self, path: &str, wanted: &str) -> Error {
        self.complain(self.line_of(path), format_args!("'{path}' must be {wanted}"))
    }

    pub(crate) fn text(&self, path: &str) -> Result<&str, Error> {
        self.text_if(path)?.ok_or_else(|| self.missing(path))
    }

    pub(crate) fn text_if(&self, path: &str) -> Result<Option<&str>, Error> {
        match self.plain.get(path) {
            None => Ok(None),
            Some((Plain::Text(text), _)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(path, "a text")),
        }
    }

    pub(crate) fn flag(&self, path: &str) -> Result<bool, Error> {
        match self.plain.get(path) {
            None => Ok(false),
            Some((Plain::Flag(flag), _)) => Ok(*flag),
            Some(_) => Err(self.wrong(path, "true or false")),
        }
    }

    /// An integer in `range`.
    pub(crate) fn integer(&self, path: &str, range: Range<usize>) -> Result<usize, Error> {
        match self.plain.get(path) {
            None => Err(self.missing(path)),
            Some((Plain::Integer(number), _)) if usize::try_from(*number).is_ok_and(|n| range.contains(&n)) => {
                Ok(*number as usize)
            }
            Some(_) => Err(self.wrong(path, &format!("an integer from {} to {}", range.start, range.end - 1))),
        }
    }

    /// An integer in `range`, or `default`.
    pub(crate) fn integer_or(&self, path: &str, range: Range<usize>, default: usize) -> Result<usize, Error> {
        if self.plain.contains_key(path) { self.integer(path, range) } else { Ok(default) }
    }

    /// A list, each item made by `item`.
    pub(crate) fn list<T>(
        &self,
        path: &str,
        wanted: &str,
        item: impl Fn(&Plain) -> Option<T>,
    ) -> Result<Option<Vec<T>>, Error> {
        match self.plain.get(path) {
            None => Ok(None),
            Some((Plain::List(items), _)) => {
                let made: Option<Vec<T>> = items.iter().map(item).collect();
                made.map(Some).ok_or_else(|| self.wrong(path, wanted))
            }
            Some(_) => Err(self.wrong(path, wanted)),
        }
    }

    /// The tables one level below `section`: `modes.nps4` gives `nps4`.
    pub(crate) fn names_below(&self, section: &str) -> Vec<String> {
        let prefix = format!("{section}.");
        let names = self.plain.keys().filter_map(|path| path.strip_prefix(&prefix)).filter(|name| !name.contains('.'));
        names.map(str::to_owned).collect()
    }

    pub(crate) fn quantity(&self, path: &str) -> Result<&Quantity, Error> {
        self.quantities.get(path).ok_or_else(|| match self.plain.get(path) {
            Some(_) => self.wrong(path, "a quantity: { v = …, u = \"…\", c = \"…\" }"),
            None => self.missing(path),
        })
    }
}

fn quantity(lines: &Lines<'_>, path: &str, line: usize, table: &DeTable<'_>) -> Result<Quantity, Error> {
    let mut fields: BTreeMap<&str, &Spanned<DeValue<'_>>> = BTreeMap::new();
    for (key, value) in table.iter() {
        let name: &str = key.get_ref();
        if !matches!(name, "v" | "lo" | "hi" | "u" | "c" | "s" | "note") {
            return Err(lines.complain(&key.span(), format_args!("'{path}' has an unknown field '{name}'")));
        }
        fields.insert(name, value);
    }
    let number = |name: &str| -> Result<Option<f64>, Error> {
        let Some(value) = fields.get(name) else { return Ok(None) };
        match plain(lines, value)? {
            Plain::Integer(number) => Ok(Some(number as f64)),
            Plain::Float(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(lines.complain(&value.span(), format_args!("'{path}.{name}' must be a number"))),
        }
    };
    let text = |name: &str| -> Result<Option<String>, Error> {
        let Some(value) = fields.get(name) else { return Ok(None) };
        match plain(lines, value)? {
            Plain::Text(text) => Ok(Some(text)),
            _ => Err(lines.complain(&value.span(), format_args!("'{path}.{name}' must be a text"))),
        }
    };
    let at = |why: String| Error::Machine(format!("{}:{line}: {why}", lines.file));
    let value = number("v")?.ok_or_else(|| at(format!("'{path}' has no value")))?;
    let (low, high) = (number("lo")?.unwrap_or(value), number("hi")?.unwrap_or(value));
    if !(low <= value && value <= high) {
        return Err(at(format!("'{path}': value {value} is outside its range {low} to {high}")));
    }
    let letter = text("c")?.ok_or_else(|| at(format!("'{path}' has no confidence letter 'c'")))?;
    let letter = match letter.as_str() {
        "M" | "N" | "P" | "R" | "D" | "E" => letter.chars().next().unwrap_or('E'),
        other => return Err(at(format!("'{path}': confidence letter '{other}' is none of M N P R D E"))),
    };
    let sources = match fields.get("s") {
        None => Vec::new(),
        Some(value) => match plain(lines, value)? {
            Plain::List(items) => {
                let names = items.into_iter().map(|item| if let Plain::Text(name) = item { Some(name) } else { None });
                names.collect::<Option<_>>().ok_or_else(|| at(format!("'{path}.s' must be a list of texts")))?
            }
            _ => return Err(at(format!("'{path}.s' must be a list of texts"))),
        },
    };
    let unit = text("u")?.ok_or_else(|| at(format!("'{path}' has no unit 'u'")))?;
    Ok(Quantity { value, low, high, unit, letter, sources, note: text("note")?.unwrap_or_default(), line })
}

fn plain(lines: &Lines<'_>, value: &Spanned<DeValue<'_>>) -> Result<Plain, Error> {
    let bad = |what: &str| lines.complain(&value.span(), format_args!("{what} cannot stand here"));
    Ok(match value.get_ref() {
        DeValue::String(text) => Plain::Text(text.to_string()),
        DeValue::Integer(number) => {
            Plain::Integer(i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| bad("so large a number"))?)
        }
        DeValue::Float(number) => Plain::Float(number.as_str().parse().map_err(|_| bad("this number"))?),
        DeValue::Boolean(flag) => Plain::Flag(*flag),
        DeValue::Datetime(_) => return Err(bad("a date")),
        DeValue::Array(items) => Plain::List(items.iter().map(|item| plain(lines, item)).collect::<Result<_, _>>()?),
        DeValue::Table(_) => return Err(bad("a table")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_their_lines() {
        let text = "[clock]\nghz = { v = 2.8, lo = 2, hi = 3.4, u = \"GHz\", c = \"E\", s = [\"own\"] }\n";
        let sheet = Sheet::read("a.toml", text).unwrap();
        let ghz = sheet.quantity("clock.ghz").unwrap();
        assert_eq!((ghz.value, ghz.low, ghz.line, ghz.letter, ghz.movable()), (2.8, 2.0, 2, 'E', true));
    }

    #[test]
    fn complaints_name_file_line_and_reason() {
        let cases = [
            ("a = [1\n", "a.toml:"),
            (
                "[x]\ny = { v = 1, u = \"ns\", c = \"Q\" }\n",
                "a.toml:2: 'x.y': confidence letter 'Q' is none of M N P R D E",
            ),
            ("[x]\n\ny = { v = 9, lo = 1, hi = 2, u = \"ns\", c = \"E\" }", "a.toml:3: 'x.y': value 9 is outside"),
            ("y = { v = 9, u = \"ns\" }", "a.toml:1: 'y' has no confidence letter"),
            ("y = { v = 9, c = \"E\" }", "a.toml:1: 'y' has no unit"),
            ("y = { v = 9, u = \"ns\", c = \"E\", z = 1 }", "a.toml:1: 'y' has an unknown field 'z'"),
            ("y = { v = \"x\", u = \"ns\", c = \"E\" }", "a.toml:1: 'y.v' must be a number"),
        ];
        for (text, start) in cases {
            let message = Sheet::read("a.toml", text).unwrap_err().to_string();
            assert!(message.starts_with(start) && !message.contains('\n'), "{message}");
        }
        let sheet = Sheet::read("a.toml", "x = 1\n[clock]\ny = \"2\"\n").unwrap();
        assert_eq!(sheet.quantity("clock.ghz").unwrap_err().to_string(), "a.toml:2: missing field 'clock.ghz'");
        assert_eq!(sheet.text("x").unwrap_err().to_string(), "a.toml:1: 'x' must be a text");
        assert!(sheet.integer("x", 2..9).unwrap_err().to_string().contains("from 2 to 8"));
    }
}
