//! The machine of a record: its short name, and what `machine.json` says of it.

use std::process::Command;

use super::json::Value;
use crate::tools::{Outcome, capture};

/// Vendor, family and model of a CPU, and the name that its generation has in records.
const GENERATIONS: [(&str, &str, &str, &str); 9] = [
    ("GenuineIntel", "6", "85", "xeon-skx"),
    ("GenuineIntel", "6", "106", "xeon-icx"),
    ("GenuineIntel", "6", "143", "xeon-spr"),
    ("GenuineIntel", "6", "173", "xeon-gnr"),
    ("GenuineIntel", "6", "207", "xeon-emr"),
    ("AuthenticAMD", "23", "49", "epyc2"),
    ("AuthenticAMD", "25", "1", "epyc3"),
    ("AuthenticAMD", "25", "17", "epyc4"),
    ("AuthenticAMD", "26", "2", "epyc5"),
];

/// This machine.
pub(crate) struct Host {
    /// For example `xeon-emr-2cpu-kvm`.
    pub(crate) name: String,
    /// For example `2026-11-26`, UTC.
    pub(crate) date: String,
    /// The contents of `machine.json`.
    pub(crate) json: String,
}

/// Asks `lscpu`, `uname`, `date`, `rustc` and `git`; `name` overrides the machine's short name.
pub(crate) fn this(name: Option<&str>) -> Outcome<Host> {
    let lscpu = capture(Command::new("lscpu").env("LC_ALL", "C"))?;
    let name = name.map_or_else(|| short_name(&lscpu), str::to_owned);
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(format!("lab: '{name}' is no name for a host: letters, digits and '-'"));
    }
    let ask =
        |program: &str, words: &[&str]| capture(Command::new(program).args(words)).map(|text| text.trim().to_owned());
    let date = ask("date", &["--utc", "+%Y-%m-%d"])?;
    let members = [
        ("host", Value::Text(name.clone())),
        ("cpu", Value::Text(field(&lscpu, "Model name").to_owned())),
        ("family_model", Value::Text(format!("{}/{}", field(&lscpu, "CPU family"), field(&lscpu, "Model")))),
        ("cpus", Value::Number(field(&lscpu, "CPU(s)").parse().unwrap_or(0.0))),
        ("numa_nodes", Value::Number(field(&lscpu, "NUMA node(s)").parse().unwrap_or(1.0))),
        ("hypervisor", Value::Text(field(&lscpu, "Hypervisor vendor").to_owned())),
        ("kernel", Value::Text(ask("uname", &["-r"])?)),
        ("date", Value::Text(date.clone())),
        ("rustc", Value::Text(ask("rustc", &["--version"])?)),
        ("source", Value::Text(ask("git", &["describe", "--always", "--dirty"]).unwrap_or_default())),
    ];
    let json = Value::Object(members.map(|(key, value)| (key.to_owned(), value)).to_vec()).line();
    Ok(Host { name, date, json: json.replace(",\"", ",\n \"") + "\n" })
}

/// CPU generation, number of CPUs, hypervisor.
fn short_name(lscpu: &str) -> String {
    let of = |key| field(lscpu, key);
    let cpu = (of("Vendor ID"), of("CPU family"), of("Model"));
    let known = GENERATIONS.iter().find(|known| (known.0, known.1, known.2) == cpu);
    let architecture = of("Architecture").replace('_', "-");
    let mut name = format!("{}-{}cpu", known.map_or(architecture.as_str(), |known| known.3), of("CPU(s)"));
    if !of("Hypervisor vendor").is_empty() {
        name += &format!("-{}", of("Hypervisor vendor").to_lowercase());
    }
    name
}

fn field<'a>(lscpu: &'a str, key: &str) -> &'a str {
    let value = |line: &'a str| line.trim_start().strip_prefix(key)?.strip_prefix(':');
    lscpu.lines().find_map(value).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_named_by_generation_cpus_and_hypervisor() {
        let lscpu = "Architecture: x86_64\nCPU(s): 2\nVendor ID: AuthenticAMD\nCPU family: 25\nModel: 1\n";
        assert_eq!(short_name(lscpu), "epyc3-2cpu");
        let guest = format!("{}Hypervisor vendor:   KVM\n", lscpu.replace("25", "99"));
        assert_eq!(short_name(&guest), "x86-64-2cpu-kvm");
    }
}
