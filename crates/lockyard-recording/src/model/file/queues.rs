//! The fields of a model's file about queues.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{Bounded, Positive, Source};
use crate::error::Error;
use crate::model::{Get, MOST_START, Model, Put, Queue};
use crate::time::Times;

/// How long a get lasts where all threads would wait, if the model does not say it, ns.
const LASTS: u64 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueFields {
    start: Option<Bounded<0, { MOST_START as u64 }>>,
    #[serde(default)]
    condition: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GetFields {
    queue: Spanned<String>,
    count: Option<Positive>,
    lasts: Option<Times>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PutFields {
    queue: Spanned<String>,
    count: Option<Positive>,
    #[serde(default)]
    all: bool,
}

pub(super) fn read(source: &Source<'_>, queues: BTreeMap<String, Spanned<QueueFields>>) -> Result<Vec<Queue>, Error> {
    let queue = |(name, fields): (String, Spanned<QueueFields>)| {
        source.check_name("queue", &name, fields.span())?;
        let QueueFields { start, condition } = fields.into_inner();
        Ok(Queue { name, start: start.map_or(0, |start| start.0), condition })
    };
    queues.into_iter().map(queue).collect()
}

fn find(source: &Source<'_>, name: &Spanned<String>, queues: &[Queue]) -> Result<usize, Error> {
    source.find("queue", name, queues.iter().map(|queue| queue.name.as_str()))
}

pub(super) fn gets(source: &Source<'_>, gets: Vec<GetFields>, queues: &[Queue]) -> Result<Vec<Get>, Error> {
    let get = |fields: GetFields| {
        let queue = find(source, &fields.queue, queues)?;
        let lasts = fields.lasts.map_or(LASTS, |lasts| lasts.mean() as u64);
        Ok(Get { queue, count: fields.count.map_or(1.0, |count| count.0), lasts })
    };
    gets.into_iter().map(get).collect()
}

pub(super) fn puts(source: &Source<'_>, puts: Vec<PutFields>, queues: &[Queue]) -> Result<Vec<Put>, Error> {
    let put = |fields: PutFields| {
        let queue = find(source, &fields.queue, queues)?;
        Ok(Put { queue, count: fields.count.map_or(1.0, |count| count.0), all: fields.all })
    };
    puts.into_iter().map(put).collect()
}

/// Refuses a queue that is waited for and never signalled.
pub(super) fn check(source: &Source<'_>, model: &Model) -> Result<(), Error> {
    let put = |queue| model.roles.iter().flat_map(|role| &role.puts).any(|put| put.queue == queue);
    let mut got = model.roles.iter().flat_map(|role| &role.gets).map(|get| get.queue);
    match got.find(|queue| !put(*queue)) {
        Some(queue) => {
            let name = &model.queues[queue].name;
            Err(source.refuse(0..0, format_args!("queue {name} is waited for, and no role puts into it")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[queue.ITEMS]
[queue.PLACES]
start = 64
condition = true
[[role]]
cpu = "4us"
gets = [{ queue = "PLACES" }]
puts = [{ queue = "ITEMS", count = 2 }]
early = 5
[[role]]
cpu = "2us"
gets = [{ queue = "ITEMS", lasts = "20us" }]
puts = [{ queue = "PLACES", all = true }]
"#;

    #[test]
    fn queues_are_read_and_written() {
        let model = Model::read("app.toml", GOOD).unwrap();
        assert_eq!(model.queues[1], Queue { name: "PLACES".to_owned(), start: 64, condition: true });
        assert_eq!(model.roles[0].gets, [Get { queue: 1, count: 1.0, lasts: LASTS }]);
        assert_eq!(model.roles[0].puts, [Put { queue: 0, count: 2.0, all: false }]);
        assert_eq!((model.roles[0].early, model.roles[1].early), (5.0, 100.0));
        assert_eq!(model.roles[1].gets, [Get { queue: 0, count: 1.0, lasts: 20_000 }]);
        assert_eq!(model.roles[1].puts, [Put { queue: 1, count: 1.0, all: true }]);
        assert_eq!(Model::read("again.toml", &model.to_string()).unwrap(), model);
    }

    #[test]
    fn wrong_queues_are_refused_with_file_line_and_reason() {
        let role = "[[role]]\ncpu = \"1us\"\n";
        let cases = [
            (format!("[queue.Q]\nstart = -1\n{role}"), "app.toml:2: -1 is out of bounds"),
            (format!("[queue.Q]\nplaces = 1\n{role}"), "app.toml:2: unknown field `places`"),
            (format!("[queue.\"\"]\n{role}"), "app.toml:1: a queue's name has 1 to 200"),
            (format!("{role}gets = [{{ queue = \"Q\" }}]\n"), "app.toml:3: unknown queue 'Q'; known are none"),
            (format!("[queue.Q]\n{role}puts = [{{ queue = \"Q\", lasts = \"1ns\" }}]\n"), "app.toml:4: unknown field"),
            (format!("[queue.Q]\n{role}puts = [{{ queue = \"Q\", count = 0 }}]\n"), "app.toml:4: 0 is out of bounds"),
            (format!("[queue.Q]\n{role}gets = [{{ queue = \"Q\" }}]\n"), "app.toml:1: queue Q is waited for"),
        ];
        for (text, start) in cases {
            let message = Model::read("app.toml", &text).expect_err(&text).to_string();
            assert!(message.starts_with(start) && !message.contains('\n'), "{message}, not {start}");
        }
    }
}
