//! `lockyard report`, `model`, `script`, `import`: recordings of what programs do with their locks.

mod json;
mod page;
mod path;
mod report;
mod standstill;
mod told;

use crate::cli::{ImportArgs, ModelArgs, ScriptArgs};
use crate::failure::Failure;
use crate::output::Target;
use crate::programs::{self, recorded};
use crate::report::numbers;
use crate::timeline;

pub(crate) use report::report;

/// `lockyard model`: what is printed.
///
/// # Errors
/// One line for the first thing that is wrong.
pub(crate) fn model(args: &ModelArgs) -> Result<String, Failure> {
    let operation = args.op.as_deref().map(programs::operation).transpose()?;
    let target = args.out.as_deref().map(|path| Target::check("--out", path)).transpose()?;
    let model = recorded("model", &args.file)?.model(operation);
    let text = model.map_err(|error| Failure::usage(format!("model: {}: {error}", args.file)))?.to_string();
    match target {
        None => Ok(text),
        Some(target) => {
            target.write(&text)?;
            Ok(format!("wrote {}\n", target.path().display()))
        }
    }
}

/// `lockyard script`: what is printed.
///
/// # Errors
/// One line: the file cannot be read, or is no recording.
pub(crate) fn script(args: &ScriptArgs) -> Result<String, Failure> {
    let mut recording = recorded("script", &args.file)?;
    if args.trace {
        recording.tell_apart();
    }
    Ok(if args.trace { timeline::document(&recording) } else { recording.to_text() })
}

/// `lockyard import`: what is printed.
///
/// # Errors
/// One line: what is wrong in the text, or that the recording cannot be written.
pub(crate) fn import(args: &ImportArgs) -> Result<String, Failure> {
    let target = Target::check("--out", &args.out)?;
    let recording = recorded("import", &args.file)?;
    target.write(&recording.to_bytes())?;
    let events: usize = recording.windows.iter().map(|window| window.events.len()).sum();
    let windows = numbers::count(recording.windows.len(), "window");
    Ok(format!("wrote {}: {} in {windows}\n", target.path().display(), numbers::count(events, "event")))
}
