//! A recording written while the program runs.

use std::io::{self, Write};

use super::{Class, Window, bytes};

/// Writes a recording block by block: what was written is readable whatever becomes of the rest.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    classes: usize,
    locks: usize,
    /// Locks that are not in the file yet, by their classes.
    new: Vec<u32>,
}

impl<W: Write> Writer<W> {
    /// Begins a file. `event_ns`: what an event costs the program.
    ///
    /// # Errors
    /// As `out`'s.
    pub fn new(mut out: W, program: &str, machine: &str, event_ns: u64) -> io::Result<Self> {
        out.write_all(&bytes::head(&line(program), &line(machine), event_ns))?;
        Ok(Self { out, classes: 0, locks: 0, new: Vec::new() })
    }

    /// Adds a class, and returns its number.
    ///
    /// # Errors
    /// As `out`'s.
    pub fn class(&mut self, class: &Class) -> io::Result<u32> {
        let mut block = Vec::new();
        bytes::class(&mut block, &Class { name: line(&class.name), sort: class.sort });
        self.out.write_all(&block)?;
        self.classes += 1;
        Ok(self.classes as u32 - 1)
    }

    /// Adds a lock of the class with number `class`, and returns its number.
    pub fn lock(&mut self, class: u32) -> u32 {
        self.new.push(class);
        self.locks += 1;
        self.locks as u32 - 1
    }

    /// Adds a window.
    ///
    /// # Errors
    /// As `out`'s.
    pub fn window(&mut self, window: &Window) -> io::Result<()> {
        let mut block = self.new_locks();
        bytes::window(&mut block, window);
        self.out.write_all(&block)
    }

    fn new_locks(&mut self) -> Vec<u8> {
        let mut block = Vec::new();
        if !self.new.is_empty() {
            bytes::locks(&mut block, &self.new);
            self.new.clear();
        }
        block
    }

    /// `lock` is of `class`, in what was written before, too.
    ///
    /// # Errors
    /// Of writing.
    pub fn moves(&mut self, lock: u32, class: u32) -> io::Result<()> {
        let mut block = self.new_locks();
        bytes::moved(&mut block, lock, class);
        self.out.write_all(&block)
    }

    /// Gives the class with number `class` another name.
    ///
    /// # Errors
    /// As `out`'s.
    pub fn name(&mut self, class: u32, name: &str) -> io::Result<()> {
        let mut block = Vec::new();
        bytes::name(&mut block, class as usize, &line(name));
        self.out.write_all(&block)
    }

    /// Gives a thread its name.
    ///
    /// # Errors
    /// As `out`'s.
    pub fn thread(&mut self, thread: u32, name: &str) -> io::Result<()> {
        let mut block = Vec::new();
        bytes::thread(&mut block, thread, &line(name));
        self.out.write_all(&block)
    }

    /// Says that so many threads were not recorded.
    ///
    /// # Errors
    /// As `out`'s.
    pub fn missing(&mut self, threads: u64) -> io::Result<()> {
        let mut block = Vec::new();
        bytes::missing(&mut block, threads);
        self.out.write_all(&block)
    }

    /// What was written so far is in the file, whatever becomes of the writer.
    ///
    /// # Errors
    /// As `out`'s.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the file: so many windows were `dropped`.
    ///
    /// # Errors
    /// As `out`'s.
    pub fn end(&mut self, dropped: u64) -> io::Result<()> {
        let mut block = Vec::new();
        bytes::end(&mut block, dropped);
        self.out.write_all(&block)?;
        self.out.flush()
    }

    /// What it was written to. Without its [end](Self::end) a file can be read as well.
    pub fn into_inner(self) -> W {
        self.out
    }
}

/// A text of one line: others would be none in the recording's lines.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Recording;
    use crate::model::Kind;
    use crate::recording::{Event, Mode, Sort, What};

    #[test]
    fn what_is_written_bit_by_bit_is_read_whole_and_up_to_any_cut() {
        let class = |name: &str| Class { name: name.to_owned(), sort: Sort::Lock(Kind::Mutex) };
        let window = |thread, lock| Window {
            thread,
            begin: 5,
            end: (thread == 2).then_some(12),
            events: vec![Event { at: 9, what: What::Request(Mode::Write), lock }],
        };
        let mut writer = Writer::new(Vec::new(), "two\nlines", "here", 40).unwrap();
        let a = writer.class(&class("0x17")).unwrap();
        let first = writer.lock(a);
        writer.window(&window(1, first)).unwrap();
        let b = writer.class(&class("b")).unwrap();
        let second = writer.lock(b);
        writer.window(&window(2, second)).unwrap();
        writer.name(a, "store.c:88").unwrap();
        let third = writer.lock(a);
        writer.moves(third, b).unwrap();
        writer.thread(2, "flusher").unwrap();
        writer.missing(4).unwrap();
        writer.end(3).unwrap();
        let bytes = writer.into_inner();
        let (read, damage) = Recording::from_bytes("a", &bytes).unwrap();
        let expected = Recording {
            program: "two lines".to_owned(),
            machine: "here".to_owned(),
            event_ns: 40,
            classes: vec![class("store.c:88"), class("b")],
            locks: vec![0, 1, 1],
            windows: vec![window(1, 0), window(2, 1)],
            dropped: 3,
            missing: 4,
            names: [(2, "flusher".to_owned())].into(),
        };
        assert_eq!((&read, damage), (&expected, None));
        for cut in 0..bytes.len() {
            let Ok((read, damage)) = Recording::from_bytes("a", &bytes[..cut]) else { continue };
            assert!(damage.is_some() && expected.windows.starts_with(&read.windows), "cut at {cut}");
        }
    }
}
