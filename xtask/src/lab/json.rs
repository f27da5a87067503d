//! JSON, as far as records need it: a reader of any document, a writer of flat objects.

use std::fmt::Write as _;

use crate::tools::Outcome;

/// One JSON value. Objects keep the order of their keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

impl Value {
    /// The member `path` of nested objects, its keys separated by dots; `Null` where there is none.
    pub(crate) fn get(&self, path: &str) -> &Value {
        path.split('.').fold(self, |value, key| match value {
            Value::Object(members) => {
                members.iter().find(|member| member.0 == key).map_or(&Value::Null, |member| &member.1)
            }
            _ => &Value::Null,
        })
    }

    /// The number at `path`.
    pub(crate) fn number(&self, path: &str) -> Option<f64> {
        match self.get(path) {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The string at `path`, empty where there is none.
    pub(crate) fn text(&self, path: &str) -> &str {
        match self.get(path) {
            Value::Text(text) => text,
            _ => "",
        }
    }

    /// The elements at `path`, none where there is no list.
    pub(crate) fn list(&self, path: &str) -> &[Value] {
        match self.get(path) {
            Value::List(list) => list,
            _ => &[],
        }
    }

    /// A new object of the members `(key here, path in self)`.
    pub(crate) fn pick(&self, members: &[(&str, &str)]) -> Value {
        Value::Object(members.iter().map(|(key, path)| ((*key).to_owned(), self.get(path).clone())).collect())
    }

    /// One line of JSON.
    pub(crate) fn line(&self) -> String {
        match self {
            Value::Null => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => number.to_string(),
            Value::Text(text) => quoted(text),
            Value::List(list) => format!("[{}]", list.iter().map(Value::line).collect::<Vec<_>>().join(",")),
            Value::Object(members) => {
                let members = members.iter().map(|(key, value)| format!("{}:{}", quoted(key), value.line()));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }
        }
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Reads one document.
pub(crate) fn parse(text: &str) -> Outcome<Value> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value()?;
    reader.blanks();
    if reader.at == text.len() { Ok(value) } else { reader.fail("the end") }
}

/// Reads one document per line.
pub(crate) fn lines(text: &str) -> Outcome<Vec<Value>> {
    let full = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    full.map(|(number, line)| parse(line).map_err(|reason| format!("line {}: {reason}", number + 1))).collect()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self) -> Outcome<Value> {
        self.blanks();
        match self.peek() {
            Some('{') => self.object(),
            Some('[') => self.array(),
            Some('"') => self.string().map(Value::Text),
            Some('t') => self.word("true", Value::Bool(true)),
            Some('f') => self.word("false", Value::Bool(false)),
            Some('n') => self.word("null", Value::Null),
            _ => self.numeral(),
        }
    }

    fn object(&mut self) -> Outcome<Value> {
        let mut members = Vec::new();
        self.expect('{')?;
        while !self.skip('}') {
            if !members.is_empty() {
                self.expect(',')?;
            }
            self.blanks();
            let key = self.string()?;
            self.expect(':')?;
            members.push((key, self.value()?));
        }
        Ok(Value::Object(members))
    }

    fn array(&mut self) -> Outcome<Value> {
        let mut list = Vec::new();
        self.expect('[')?;
        while !self.skip(']') {
            if !list.is_empty() {
                self.expect(',')?;
            }
            list.push(self.value()?);
        }
        Ok(Value::List(list))
    }

    fn string(&mut self) -> Outcome<String> {
        self.expect('"')?;
        let mut out = String::new();
        loop {
            let Some(c) = self.take() else { return self.fail("a closing quote") };
            match (c, if c == '\\' { self.take() } else { None }) {
                ('"', _) => return Ok(out),
                ('\\', Some('n')) => out.push('\n'),
                ('\\', Some('t')) => out.push('\t'),
                ('\\', Some('r')) => out.push('\r'),
                ('\\', Some('u')) => {
                    let code = self.text.get(self.at..self.at + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                    let Some(c) = code.and_then(char::from_u32) else { return self.fail("a character's code") };
                    self.at += 4;
                    out.push(c);
                }
                ('\\', Some(c @ ('"' | '\\' | '/'))) => out.push(c),
                ('\\', _) => return self.fail("a known escape"),
                (c, _) => out.push(c),
            }
        }
    }

    fn numeral(&mut self) -> Outcome<Value> {
        let rest = &self.text[self.at..];
        let length = rest.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c)).unwrap_or(rest.len());
        let Ok(number) = rest[..length].parse() else { return self.fail("a value") };
        self.at += length;
        Ok(Value::Number(number))
    }

    fn word(&mut self, word: &str, value: Value) -> Outcome<Value> {
        if !self.text[self.at..].starts_with(word) {
            return self.fail(word);
        }
        self.at += word.len();
        Ok(value)
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn blanks(&mut self) {
        self.at = self.text.len() - self.text[self.at..].trim_start().len();
    }

    fn skip(&mut self, wanted: char) -> bool {
        self.blanks();
        let found = self.peek() == Some(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    fn expect(&mut self, wanted: char) -> Outcome {
        if self.skip(wanted) { Ok(()) } else { self.fail(&format!("'{wanted}'")) }
    }

    fn fail<T>(&self, wanted: &str) -> Outcome<T> {
        let near: String = self.text[self.at..].chars().take(20).collect();
        Err(format!("{wanted} expected at byte {}, before '{near}'", self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_alike() {
        for text in [r#"{"a":1.5,"b":[true,null,-2],"c":{"d":"x\"\\y"}}"#, "[]", "{}", "1790", "\"µ\""] {
            assert_eq!(parse(text).unwrap().line(), text);
        }
        assert_eq!(parse(" { \"a\" : [ 1 , 2 ] }\n").unwrap().line(), r#"{"a":[1,2]}"#);
        assert_eq!(parse(r#""a\u00b5\n""#).unwrap(), Value::Text("aµ\n".to_owned()));
    }

    #[test]
    fn broken_documents_are_refused() {
        for text in ["", "{", "[1", "{\"a\"}", "\"a", "[1 2]", "tru", "1 2", "\"\\x\"", "nan"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(lines("{}\n\n[\n").unwrap_err().starts_with("line 3:"));
    }

    #[test]
    fn members_are_found_by_path() {
        let value = parse(r#"{"a":{"b":2,"c":["x"]},"d":"y"}"#).unwrap();
        assert_eq!((value.number("a.b"), value.text("d"), value.list("a.c").len()), (Some(2.0), "y", 1));
        assert_eq!((value.number("a.z"), value.text("a"), value.get("d.e")), (None, "", &Value::Null));
        assert_eq!(value.pick(&[("n", "a.b"), ("m", "q")]).line(), r#"{"n":2,"m":null}"#);
    }
}
