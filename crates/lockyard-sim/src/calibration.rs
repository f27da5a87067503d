//! Fitted parameters: all of them, in one file, `calibration.toml`.
//!
//! The rule that makes a prediction worth something: **no parameter depends on a lock, a policy, a
//! workload or a table.** At most six numbers are fitted for all machines together, and at most one
//! for each machine; only numbers that were derived or estimated (D, E) may be moved, and only
//! inside their range. Fitted once, on the rows that the file names; every other row is a
//! prediction.

use super::machine::sheet::{Plain, Quantity, Sheet};
use crate::error::Error;

const FILE: &str = include_str!("../calibration.toml");

/// The most numbers fitted for all machines together.
pub const MOST_GLOBAL: usize = 6;
/// The most numbers fitted for one machine.
pub const MOST_PER_MACHINE: usize = 1;

/// The fitted parameters.
#[derive(Debug)]
pub struct Calibration {
    sheet: Sheet,
}

/// Reads and checks the file.
///
/// # Errors
/// It is malformed, or fits more than the rule allows.
pub fn read() -> Result<Calibration, Error> {
    check(Sheet::read("calibration.toml", FILE)?)
}

fn check(sheet: Sheet) -> Result<Calibration, Error> {
    let mut machines = std::collections::BTreeMap::<&str, usize>::new();
    let mut global = 0;
    for (path, quantity) in &sheet.quantities {
        let limit = match path.split('.').collect::<Vec<_>>().as_slice() {
            ["global", _, _] => {
                global += 1;
                global <= MOST_GLOBAL
            }
            ["machine", id, _, _] => {
                let count = machines.entry(id).or_default();
                *count += 1;
                *count <= MOST_PER_MACHINE
            }
            _ => return Err(sheet.complain(quantity.line, format_args!("'{path}' is neither global nor of a machine"))),
        };
        if !limit {
            let rule = format!("more than {MOST_GLOBAL} global parameters or {MOST_PER_MACHINE} per machine");
            return Err(sheet.complain(quantity.line, rule));
        }
    }
    Ok(Calibration { sheet })
}

impl Calibration {
    /// Everything that is fitted, by path: `global.model.occupancy_ratio`,
    /// `machine.ivb_ex_8s.transfer.hop2`.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.sheet.quantities.iter().map(|(path, quantity)| (path.as_str(), quantity))
    }

    /// The published rows that the numbers were fitted on.
    pub fn rows(&self) -> Vec<String> {
        match self.sheet.plain.get("rows") {
            Some((Plain::List(rows), _)) => rows
                .iter()
                .filter_map(|row| if let Plain::Text(row) = row { Some(row.clone()) } else { None })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Moves the numbers of a machine and of what all machines share.
    pub(crate) fn apply(&self, id: &str, machine: &mut Sheet, common: &mut Sheet) -> Result<(), Error> {
        for (path, quantity) in &self.sheet.quantities {
            // A machine that has a number of its own keeps it: what is fitted is what all others
            // share.
            if let Some(path) = path.strip_prefix("global.").filter(|path| !machine.quantities.contains_key(*path)) {
                change(machine, common, path, quantity.value)?;
            }
        }
        let own = format!("machine.{id}.");
        for (path, quantity) in &self.sheet.quantities {
            if let Some(path) = path.strip_prefix(&own) {
                change(machine, common, path, quantity.value)?;
            }
        }
        Ok(())
    }
}

/// Gives the number at `path` another value.
pub(crate) fn change(machine: &mut Sheet, common: &mut Sheet, path: &str, value: f64) -> Result<(), Error> {
    let quantity = machine.quantities.get_mut(path).or_else(|| common.quantities.get_mut(path));
    let quantity = quantity.ok_or_else(|| Error::Machine(format!("unknown number '{path}'")))?;
    if !quantity.movable() {
        return Err(Error::Machine(format!("'{path}' has confidence {} and must not move", quantity.letter)));
    }
    if !(quantity.low <= value && value <= quantity.high) {
        let (low, high) = (quantity.low, quantity.high);
        return Err(Error::Machine(format!("'{path}': {value} is outside its range {low} to {high}")));
    }
    quantity.value = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_obeys_the_rule() {
        let calibration = read().unwrap();
        assert!(calibration.parameters().all(|(_, quantity)| quantity.movable()));
    }

    #[test]
    fn too_many_parameters_are_refused() {
        let one = |n: usize| format!("p{n} = {{ v = 1, u = \"x\", c = \"E\" }}\n");
        let seven: String = (0..7).map(one).collect();
        let error = check(Sheet::read("c.toml", &format!("[global.model]\n{seven}")).unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("c.toml:8: more than 6"), "{error}");
        let two = format!("[machine.m.transfer]\n{}{}", one(0), one(1));
        assert!(check(Sheet::read("c.toml", &two).unwrap()).is_err());
        assert!(check(Sheet::read("c.toml", &format!("[other]\n{}", one(0))).unwrap()).is_err());
    }
}
