//! The machines that can be simulated: finding and listing them.

use std::sync::{Arc, OnceLock};

use lockyard_sim::machine::model::Model;
use lockyard_sim::machine::{catalog, host};

use crate::cli::SetArgs;
use crate::failure::Failure;
use crate::suggest;

/// The numbers given with `--set`.
///
/// # Errors
/// One line: not of the form PATH=NUMBER.
pub(crate) fn changes(args: &SetArgs) -> Result<Vec<(String, f64)>, Failure> {
    let one = |text: &String| {
        let parts =
            text.split_once('=').and_then(|(path, value)| Some((path.trim().to_owned(), value.trim().parse().ok()?)));
        let wanted = || Failure::usage(format!("--set: '{text}' is not PATH=NUMBER, as in model.occupancy_ratio=0.5"));
        parts.ok_or_else(wanted)
    };
    args.set.iter().map(one).collect()
}

/// The machines named in a list, with some numbers changed.
///
/// # Errors
/// One line: an unknown machine or mode, a file that cannot be read or is wrong.
pub(crate) fn chosen(flag: &str, text: &str, changes: &[(String, f64)]) -> Result<Vec<Arc<Model>>, Failure> {
    text.split(',').map(|name| one(flag, name.trim(), changes)).collect()
}

/// The machine of that name.
///
/// # Errors
/// As [`chosen`]; and, for `--set`, a number that it does not have, that must not move, or that
/// leaves its range.
pub(crate) fn one(flag: &str, name: &str, changes: &[(String, f64)]) -> Result<Arc<Model>, Failure> {
    let is_path = name.contains('/') || name.contains(".toml");
    if !is_path {
        let id = name.split(':').next().unwrap_or_default();
        let mut known: Vec<&str> = catalog::ids().collect();
        known.push(catalog::THIS);
        suggest::known("machine", flag, id, &known)?;
    }
    let as_it_is = catalog::machine(name).map_err(|error| Failure::usage(format!("{flag}: {error}")))?;
    if changes.is_empty() {
        return Ok(as_it_is);
    }
    let changes: Vec<(&str, f64)> = changes.iter().map(|(path, value)| (path.as_str(), *value)).collect();
    catalog::with(name, &changes).map_err(|error| Failure::usage(format!("--set: {error}")))
}

/// The machines named in a list, for a prediction: `this` is measured.
///
/// # Errors
/// As [`chosen`].
pub(crate) fn to_predict(flag: &str, text: &str, changes: &[(String, f64)]) -> Result<Vec<Arc<Model>>, Failure> {
    text.split(',').map(|name| one_to_predict(flag, name.trim(), changes)).collect()
}

/// The machine of that name, for a prediction.
///
/// # Errors
/// As [`one`].
pub(crate) fn one_to_predict(flag: &str, name: &str, changes: &[(String, f64)]) -> Result<Arc<Model>, Failure> {
    if name != catalog::THIS {
        return one(flag, name, changes);
    }
    let changes: Vec<(&str, f64)> = changes.iter().map(|(path, value)| (path.as_str(), *value)).collect();
    let flag = if changes.is_empty() { flag } else { "--set" };
    catalog::read_with(catalog::THIS, &this(), &changes).map_err(|error| Failure::usage(format!("{flag}: {error}")))
}

/// The file of this machine, measured once.
pub(crate) fn this() -> String {
    static MEASURED: OnceLock<String> = OnceLock::new();
    MEASURED.get_or_init(|| host::measured(&lockyard_work::machine::costs())).clone()
}

/// A line per machine: id, size, name.
pub(crate) fn listing() -> Vec<Vec<String>> {
    let line = |id: &str| {
        let Ok(model) = catalog::machine(id) else { return vec![id.to_owned()] };
        let topology = model.topology();
        let count = |number: usize, noun: &str| format!("{number} {noun}{}", if number == 1 { "" } else { "s" });
        let size = format!("{}, {}", count(topology.sockets, "socket"), count(topology.cpus(), "CPU"));
        vec![id.to_owned(), size, model.name().to_owned()]
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for id in catalog::ids() {
        rows.push(line(id));
        rows.extend(catalog::modes(id).into_iter().map(|mode| {
            let id = format!("{id}:{mode}");
            let nodes = catalog::machine(&id).map_or(0, |model| model.topology().nodes);
            vec![id, format!("{nodes} NUMA nodes"), "the same machine, other firmware setting".to_owned()]
        }));
    }
    rows.push(vec![
        catalog::THIS.to_owned(),
        String::new(),
        "the machine this runs on; `lockyard list this` measures it and prints its file".to_owned(),
    ]);
    rows
}
