//! The fusion report of `opt --report`: where a rule applied, and where one almost applied and which condition failed.
//!
//! Invariant: there is one line, or one object, for each such place; places where a rule applied come first.

use arenagrad::tools::passes::{Fusion, Outcome};
use serde_json::{Value, json};
use std::fmt::Write;

/// The report as lines.
pub fn fusion_table(fusions: &[Fusion]) -> String {
    let mut s = String::new();
    for f in fusions {
        let at = &f.location;
        let _ = match &f.outcome {
            Outcome::Fired { saved } => writeln!(s, "fired   {:<20} {:<14} {at}: {saved} nodes saved", f.rule, f.op),
            Outcome::Missed { reason } => writeln!(s, "missed  {:<20} {:<14} {at}: {reason}", f.rule, f.op),
        };
    }
    let fired = fusions.iter().filter(|f| matches!(f.outcome, Outcome::Fired { .. })).count();
    let saved: usize = fusions.iter().map(|f| if let Outcome::Fired { saved } = f.outcome { saved } else { 0 }).sum();
    let _ = writeln!(s, "{fired} fired, {saved} nodes saved, {} just missed", fusions.len() - fired);
    s
}

/// The report as JSON.
pub fn fusion_json(fusions: &[Fusion]) -> String {
    let row = |f: &Fusion| {
        let (saved, reason) = match &f.outcome {
            Outcome::Fired { saved } => (Some(saved), None),
            Outcome::Missed { reason } => (None, Some(reason)),
        };
        let (fired, place) = (saved.is_some(), f.location.to_string());
        json!({ "rule": f.rule, "op": f.op, "place": place, "fired": fired, "saved": saved, "reason": reason })
    };
    Value::from(fusions.iter().map(row).collect::<Vec<_>>()).to_string()
}
