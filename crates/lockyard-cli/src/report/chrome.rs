//! Slices on tracks, as Perfetto (<https://ui.perfetto.dev>) and `chrome://tracing` show them.
//!
//! The format: "Trace Event Format", complete events (`X`) with times in microseconds, flow events
//! (`s`, `f`), metadata (`M`).

/// Tracks in groups, and what is on them. Times in nanoseconds from the beginning.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    events: Vec<String>,
}

fn us(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// `text` as JSON has it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

impl Tracks {
    /// Names a group.
    pub(crate) fn group(&mut self, group: u32, name: &str) {
        let name = quoted(name);
        self.events.push(format!(r#"{{"ph":"M","pid":{group},"name":"process_name","args":{{"name":{name}}}}}"#));
    }

    /// Names a track.
    pub(crate) fn track(&mut self, group: u32, track: u32, name: &str) {
        let name = quoted(name);
        self.events
            .push(format!(r#"{{"ph":"M","pid":{group},"tid":{track},"name":"thread_name","args":{{"name":{name}}}}}"#));
    }

    /// A slice of a track, unless it is empty. One may lie in another; if two overlap otherwise,
    /// readers drop them.
    pub(crate) fn slice(&mut self, group: u32, track: u32, name: &str, begin: u64, end: u64) {
        if end > begin {
            let (name, at, length) = (quoted(name), us(begin), us(end - begin));
            self.events
                .push(format!(r#"{{"ph":"X","pid":{group},"tid":{track},"name":{name},"ts":{at},"dur":{length}}}"#));
        }
    }

    /// An arrow from the end of a slice to the beginning of another of the group. Each has a number
    /// of its own.
    pub(crate) fn arrow(&mut self, number: u32, group: u32, name: &str, from: (u32, u64), to: (u32, u64)) {
        // Arrows begin within the slice that they leave: a moment before its end.
        let from = (from.0, from.1.saturating_sub(1));
        let name = quoted(name);
        for (ph, (track, at)) in [(r#""s""#, from), (r#""f","bp":"e""#, to)] {
            let at = us(at);
            self.events.push(format!(
                r#"{{"ph":{ph},"id":{number},"pid":{group},"tid":{track},"name":{name},"cat":"lock","ts":{at}}}"#
            ));
        }
    }

    /// How much there is to show.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// One JSON document.
    pub(crate) fn document(&self, title: &str) -> String {
        let title = quoted(title);
        let events = self.events.join(",\n");
        format!("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"title\":{title}}},\"traceEvents\":[\n{events}\n]}}\n")
    }
}
