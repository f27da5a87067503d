//! Names for lines: objects that were placed or registered, thread records, the simulated kernel.

use crate::engine::Engine;
use crate::engine::waits::Wanted;
use crate::machine::line::{KernelLine, Place};

/// What is where in the simulated memory.
#[derive(Debug)]
pub(crate) struct Names {
    base: usize,
    heads: usize,
    records: usize,
    threads: usize,
    record: usize,
    /// Address, size, name.
    objects: Vec<(usize, usize, String)>,
}

impl Names {
    pub(crate) fn new(base: usize, heads: usize, records: usize, threads: usize, record: usize) -> Self {
        Self { base, heads, records: records - base, threads, record, objects: Vec::new() }
    }

    pub(crate) fn add(&mut self, address: usize, size: usize, name: &str) {
        self.objects.push((address, size.max(1), name.to_owned()));
    }

    /// The objects on the line at `address`.
    fn objects(&self, address: usize) -> Option<String> {
        let on_line = self.objects.iter().filter(|(start, size, _)| *start < address + 64 && address < start + size);
        let names: Vec<&str> = on_line.map(|object| object.2.as_str()).collect();
        (!names.is_empty()).then(|| names.join(" + "))
    }

    /// The name of a line.
    pub(crate) fn line(&self, engine: &Engine, number: u32) -> String {
        match engine.lines[number].place {
            Place::Arena(line) => {
                let offset = line * 64;
                if offset < self.heads {
                    return format!("sleeping heads {line}");
                }
                if (self.records..self.records + self.threads * self.record).contains(&offset) {
                    return format!("thread {}", (offset - self.records) / self.record);
                }
                let place = self.base + offset;
                if let Some(thread) = engine.tasks.iter().position(|task| task.stack.contains(&place)) {
                    return format!("stack of thread {thread}");
                }
                self.objects(place).unwrap_or_else(|| format!("memory at {offset:#x}"))
            }
            Place::Outside(line) => self.objects(line * 64).unwrap_or_else(|| format!("object {number}")),
            Place::Kernel(KernelLine::RunQueue(cpu)) => format!("run queue of CPU {cpu}"),
            Place::Kernel(KernelLine::Bucket(bucket)) => format!("futex bucket {bucket}"),
            Place::Kernel(KernelLine::Task(task)) => format!("lock of thread {task}"),
            Place::Kernel(KernelLine::Node(task)) => format!("bucket lock node of thread {task}"),
            Place::Kernel(KernelLine::Timekeeping) => "timekeeping".to_owned(),
            Place::Kernel(KernelLine::Priorities) => "real-time priorities".to_owned(),
            Place::Kernel(KernelLine::Budget) => "real-time budget".to_owned(),
        }
    }

    /// The name of an address: the object there and the distance from its beginning.
    pub(crate) fn address(&self, engine: &Engine, address: usize) -> String {
        let held = |&&(start, size, _): &&(usize, usize, String)| (start..start + size).contains(&address);
        if let Some((start, _, name)) = self.objects.iter().find(held) {
            return format!("{name}+{:#x}", address - start);
        }
        if let Some(thread) = engine.tasks.iter().position(|task| task.stack.contains(&address)) {
            return format!("stack of thread {thread}");
        }
        let records = self.base + self.records;
        match address.checked_sub(records) {
            Some(offset) if offset < self.threads * self.record => {
                format!("record of thread {}+{:#x}", offset / self.record, offset % self.record)
            }
            _ if (self.base..records).contains(&address) => "sleeping heads".to_owned(),
            _ => "elsewhere".to_owned(),
        }
    }

    /// A name for a message.
    pub(crate) fn of(&self, engine: &Engine, wanted: Wanted) -> String {
        match wanted {
            Wanted::Line(line) => self.line(engine, line),
            Wanted::Key(key) if key >> 40 != 0 => self.line(engine, ((key & ((1 << 40) - 1)) / 64) as u32),
            Wanted::Key(key) => {
                let line =
                    (0..).zip(engine.lines.iter()).find(|(_, line)| line.place == Place::Arena(key as usize / 64));
                line.map_or_else(|| format!("{key:#x}"), |(number, _)| self.line(engine, number))
            }
        }
    }
}
