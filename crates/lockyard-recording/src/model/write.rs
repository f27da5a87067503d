//! A model written as the file that [`Model::read`] reads.

use std::fmt::{self, Write};

use crate::time::Times;

use super::{Get, Kind, Lock, Model, Popularity, Put, Role, Take};

/// The whole file.
impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for lock in &self.locks {
            writeln!(f, "{}", table(lock)?)?;
        }
        for queue in &self.queues {
            writeln!(f, "[queue.{}]", quoted(&queue.name))?;
            if queue.start > 0 {
                writeln!(f, "start = {}", queue.start)?;
            }
            if queue.condition {
                writeln!(f, "condition = true")?;
            }
            writeln!(f)?;
        }
        for role in &self.roles {
            writeln!(f, "{}", self.role(role)?)?;
        }
        Ok(())
    }
}

fn table(lock: &Lock) -> Result<String, fmt::Error> {
    let usual = Lock::new("");
    let mut out = format!("[lock.{}]\n", quoted(&lock.name));
    if lock.kind != Kind::Mutex {
        writeln!(out, "kind = \"{}\"", lock.kind.name())?;
    }
    if lock.units != 1 {
        writeln!(out, "units = {}", lock.units)?;
    }
    match &lock.popularity {
        Popularity::Weights(weights) => {
            let weights: Vec<String> = weights.iter().map(f64::to_string).collect();
            writeln!(out, "popularity = [{}]", weights.join(", "))?;
        }
        Popularity::Zipf(exponent) => {
            if lock.objects != 1 {
                writeln!(out, "objects = {}", lock.objects)?;
            }
            if *exponent != 0.0 {
                writeln!(out, "popularity = {exponent}")?;
            }
        }
    }
    if lock.private {
        out.push_str("private = true\n");
    }
    match lock.lines {
        lines if lines == usual.lines || lock.kind == Kind::Semaphore => {}
        (least, most) if least == most => writeln!(out, "lines = {least}")?,
        (least, most) => writeln!(out, "lines = [{least}, {most}]")?,
    }
    Ok(out)
}

impl Model {
    fn role(&self, role: &Role) -> Result<String, fmt::Error> {
        let mut out = format!("[[role]]\nname = {}\n", quoted(&role.name));
        if role.threads != 1.0 {
            writeln!(out, "threads = {}", role.threads)?;
        }
        if !role.counted {
            writeln!(out, "counted = false")?;
        }
        writeln!(out, "cpu = {}", role.cpu)?;
        if !role.wait.is_zero() {
            writeln!(out, "wait = {}", role.wait)?;
        }
        let gets = role.gets.iter().map(|get| self.get(get));
        list(&mut out, "gets", gets.collect::<Result<_, _>>()?)?;
        let takes = role.takes.iter().map(|take| self.take(role, take));
        list(&mut out, "takes", takes.collect::<Result<_, _>>()?)?;
        let puts = role.puts.iter().map(|put| self.put(put));
        list(&mut out, "puts", puts.collect::<Result<_, _>>()?)?;
        if role.early != 100.0 {
            writeln!(out, "early = {}", role.early)?;
        }
        Ok(out)
    }

    fn get(&self, get: &Get) -> Result<String, fmt::Error> {
        let mut out = format!("{{ queue = {}", quoted(&self.queues[get.queue].name));
        if get.count != 1.0 {
            write!(out, ", count = {}", get.count)?;
        }
        write!(out, ", lasts = {} }}", Times::one(get.lasts))?;
        Ok(out)
    }

    fn put(&self, put: &Put) -> Result<String, fmt::Error> {
        let mut out = format!("{{ queue = {}", quoted(&self.queues[put.queue].name));
        if put.count != 1.0 {
            write!(out, ", count = {}", put.count)?;
        }
        out.push_str(if put.all { ", all = true }" } else { " }" });
        Ok(out)
    }

    fn take(&self, role: &Role, take: &Take) -> Result<String, fmt::Error> {
        let mut out = format!("{{ lock = {}, hold = {}", quoted(&self.locks[take.lock].name), take.hold);
        if take.count != 1.0 {
            write!(out, ", count = {}", take.count)?;
        }
        if take.reads != 0.0 {
            write!(out, ", reads = {}", take.reads)?;
        }
        if take.tries != 0.0 {
            write!(out, ", tries = {}", take.tries)?;
        }
        if !take.sleep.is_zero() {
            write!(out, ", sleep = {}", take.sleep)?;
            if take.sleeps != 100.0 {
                write!(out, ", sleeps = {}", take.sleeps)?;
            }
        }
        if let Some(before) = take.before {
            write!(out, ", before = {before}")?;
        }
        if let Some(outer) = take.within {
            write!(out, ", within = {}", quoted(&self.locks[role.takes[outer].lock].name))?;
        }
        out.push_str(" }");
        Ok(out)
    }
}

/// A field that is a list of tables, if there are any.
fn list(out: &mut String, field: &str, tables: Vec<String>) -> fmt::Result {
    if tables.is_empty() {
        return Ok(());
    }
    writeln!(out, "{field} = [")?;
    for table in tables {
        writeln!(out, "  {table},")?;
    }
    out.push_str("]\n");
    Ok(())
}

/// A TOML text.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => out.push_str(&format!("\\u{:04X}", letter as u32)),
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use crate::Model;

    #[test]
    fn what_is_written_is_read_back() {
        let text = r#"
[lock."a \"b\" \\ c.cc:12"]
objects = 12
popularity = 1.5
[lock.B]
kind = "spin"
private = true
lines = 3
[lock.C]
kind = "rwlock"
popularity = [1, 2.5]
lines = [0, 9]
[lock.D]
kind = "semaphore"
units = 4
[[role]]
name = "x\ty"
threads = 0.25
cpu = ["1ns", "2.5us"]
wait = "1ms"
takes = [
  { lock = "B", hold = "1ns", count = 0.125, tries = 40, sleep = "3us", sleeps = 0.5 },
  { lock = "C", hold = ["1ns", "7ns"], reads = 12.5, within = "B" },
]
[[role]]
cpu = "1s"
"#;
        let model = Model::read("a", text).unwrap();
        assert_eq!(Model::read("b", &model.to_string()).unwrap(), model);
    }
}
