//! The machines there are.

use std::sync::Arc;

use super::model::Model;
use super::sheet::Sheet;
use crate::calibration;
use crate::error::Error;

macro_rules! built_in {
    ($($id:literal,)*) => {
        /// Ids and files of the built-in machines.
        const BUILT_IN: &[(&str, &str)] = &[$(($id, include_str!(concat!("../../machines/", $id, ".toml"))),)*];
    };
}

built_in! {
    "ivb_ex_8s",
    "wsm_ex_8s",
    "skx_2s_40c",
    "clx_2s_48c",
    "x86_4s_112t",
    "epyc9654_2s",
    "kunpeng920_2s_96c",
    "box32_pistress",
    "quad2008",
    "skx_1s",
    "tx2_2s",
    "hsw_ex_4s_144t",
    "hsw_ex_4s_48c",
}

const COMMON: &str = include_str!("../../machines/common.toml");

/// The id of the machine that is the running host.
pub const THIS: &str = "this";

/// Ids of the built-in machines.
pub fn ids() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|machine| machine.0)
}

/// The modes of a built-in machine; none if it has no choice.
pub fn modes(id: &str) -> Vec<String> {
    let file = BUILT_IN.iter().find(|machine| machine.0 == id);
    file.and_then(|(_, text)| Sheet::read(id, text).ok()).map_or_else(Vec::new, |sheet| {
        let modes = sheet.names_below("topology.modes");
        modes.into_iter().map(|mode| mode.to_string()).collect()
    })
}

/// The machine called `id`, `id:mode`, `this`, or a path to a machine file (anything with a slash
/// or ending in `.toml`, with a mode behind a colon or not).
///
/// # Errors
/// No such machine or mode; a file that cannot be read or is wrong.
pub fn machine(id: &str) -> Result<Arc<Model>, Error> {
    with(id, &[])
}

/// As [`machine`], with numbers changed: `(path, value)` pairs such as `("transfer.hop1", 200.0)`.
/// For sensitivity runs; only numbers with confidence D or E may change, and only inside their
/// range.
///
/// # Errors
/// As [`machine`]; an unknown path, a number that must not move, a value outside its range.
pub fn with(id: &str, changes: &[(&str, f64)]) -> Result<Arc<Model>, Error> {
    let (sheet, mode) = sheet(id)?;
    build(sheet, mode.as_deref(), changes)
}

/// The machine that `text` describes, as a machine file called `file` would; in its default mode.
///
/// # Errors
/// The text is wrong: file, line and reason.
pub fn read(file: &str, text: &str) -> Result<Arc<Model>, Error> {
    read_with(file, text, &[])
}

/// As [`read`], with numbers changed as [`with`] changes them.
///
/// # Errors
/// Those of both.
pub fn read_with(file: &str, text: &str, changes: &[(&str, f64)]) -> Result<Arc<Model>, Error> {
    build(Sheet::read(file, text)?, None, changes)
}

fn build(mut sheet: Sheet, mode: Option<&str>, changes: &[(&str, f64)]) -> Result<Arc<Model>, Error> {
    let mut common = Sheet::read("common.toml", COMMON)?;
    let calibration = calibration::read()?;
    let name = sheet.text_if("id")?.unwrap_or_default().to_owned();
    calibration.apply(&name, &mut sheet, &mut common)?;
    for (path, value) in changes {
        calibration::change(&mut sheet, &mut common, path, *value)?;
    }
    let mut model = Model::build(&sheet, &common, mode)?;
    model.changes = changes.iter().map(|&(path, value)| (path.to_owned(), value)).collect();
    Ok(Arc::new(model))
}

fn sheet(id: &str) -> Result<(Sheet, Option<String>), Error> {
    let is_path = id.contains('/') || id.contains(".toml");
    let (name, mode) = match id.rsplit_once(':') {
        Some((name, mode)) => (name, Some(mode.to_owned())),
        None => (id, None),
    };
    if is_path {
        let text = std::fs::read_to_string(name).map_err(|error| Error::Machine(format!("{name}: {error}")))?;
        return Ok((Sheet::read(name, &text)?, mode));
    }
    if name == THIS {
        return Ok((super::host::sheet()?, mode));
    }
    let found = BUILT_IN.iter().find(|machine| machine.0 == name).ok_or_else(|| {
        let known: Vec<&str> = ids().collect();
        Error::Machine(format!("unknown machine '{name}'; known are {}, {THIS}, or a path to a file", known.join(", ")))
    })?;
    Ok((Sheet::read(&format!("{name}.toml"), found.1)?, mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_builds_in_every_mode() {
        for id in ids() {
            let model = machine(id).unwrap_or_else(|error| panic!("{error}"));
            assert!(model.label().starts_with(id));
            assert!(model.quantities().values().all(|quantity| "MNPRDE".contains(quantity.letter)));
        }
        for (mode, nodes) in [("nps1", 2), ("nps2", 4), ("nps4", 8), ("nps12", 24)] {
            assert_eq!(machine(&format!("epyc9654_2s:{mode}")).unwrap().topology().nodes, nodes);
        }
        assert!(machine(THIS).unwrap().topology().cpus() >= 1);
    }

    #[test]
    fn shapes_are_those_of_the_published_machines() {
        let cpus = |id| machine(id).unwrap().topology().cpus();
        let expected = [
            ("ivb_ex_8s", 240),
            ("wsm_ex_8s", 160),
            ("skx_2s_40c", 80),
            ("clx_2s_48c", 96),
            ("x86_4s_112t", 112),
            ("epyc9654_2s", 384),
        ];
        for (id, n) in expected {
            assert_eq!(cpus(id), n, "{id}");
        }
        let expected = [
            ("kunpeng920_2s_96c", 96),
            ("box32_pistress", 32),
            ("quad2008", 4),
            ("skx_1s", 40),
            ("tx2_2s", 256),
            ("hsw_ex_4s_144t", 144),
            ("hsw_ex_4s_48c", 48),
        ];
        for (id, n) in expected {
            assert_eq!(cpus(id), n, "{id}");
        }
    }

    #[test]
    fn mean_distances_of_the_epyc_are_those_of_the_survey() {
        // machines.md: NPS1 93.0, NPS2 84.4, NPS4 71.2, NPS12 27.6; any pair 142.5 ns.
        let mean = |model: &Model, same: &dyn Fn(usize, usize) -> bool| {
            let cores = model.topology().cores();
            let pairs = (0..cores).flat_map(|a| (0..cores).map(move |b| (a, b))).filter(|&(a, b)| a != b && same(a, b));
            let (sum, count) = pairs.fold((0.0, 0), |(sum, count), (a, b)| (sum + model.transfer_ns(a, b), count + 1));
            sum / f64::from(count)
        };
        for (mode, expected) in [("nps1", 93.0), ("nps2", 84.4), ("nps4", 71.2), ("nps12", 27.6)] {
            let model = machine(&format!("epyc9654_2s:{mode}")).unwrap();
            let found = mean(&model, &|a, b| model.topology().node_of(a) == model.topology().node_of(b));
            assert!((found - expected).abs() < 0.3, "{mode}: {found}");
        }
        let model = machine("epyc9654_2s").unwrap();
        let found = mean(&model, &|_, _| true);
        assert!((found - 142.5).abs() < 0.5, "{found}");
    }

    #[test]
    fn fingerprints_tell_files_apart_and_changes_are_known() {
        let text = BUILT_IN.iter().find(|(id, _)| *id == "skx_1s").expect("built in").1;
        let fingerprint = |text: &str| read("a.toml", text).unwrap().fingerprint();
        assert_eq!(fingerprint(text), machine("skx_1s").unwrap().fingerprint());
        for (old, new) in [("protocol = \"mesif\"", "protocol = \"moesi\""), ("isa = \"x86_64\"", "isa = \"aarch64\"")]
        {
            assert!(text.contains(old) && fingerprint(&text.replace(old, new)) != fingerprint(text), "{old}");
        }
        let change = ("model.occupancy_ratio", 0.5);
        let changed = with("skx_1s", &[change]).unwrap();
        assert_eq!(changed.changes().get(change.0), Some(&change.1));
        assert!(machine("skx_1s").unwrap().changes().is_empty() && changed.fingerprint() != fingerprint(text));
    }

    #[test]
    fn bad_names_and_changes_are_refused_in_one_line() {
        let cases = [
            ("epyc", "unknown machine 'epyc'"),
            ("epyc9654_2s:nps3", "epyc9654_2s has no mode 'nps3'; modes are"),
            ("quad2008:nps1", "quad2008 has no modes"),
            ("/nowhere/x.toml", "/nowhere/x.toml: "),
        ];
        for (id, start) in cases {
            let message = machine(id).unwrap_err().to_string();
            assert!(message.starts_with(start) && !message.contains('\n'), "{message}");
        }
        assert!(with("ivb_ex_8s", &[("transfer.hop2", 250.0)]).is_ok());
        for (change, part) in [
            (("transfer.hop2", 900.0), "outside its range"),
            (("transfer.hop1", 170.0), "must not move"),
            (("transfer.hop9", 1.0), "unknown"),
        ] {
            let message = with("ivb_ex_8s", &[change]).unwrap_err().to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}
