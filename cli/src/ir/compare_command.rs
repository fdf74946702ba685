//! The command `compare`: runs two graphs on the same draws and tells how far their outputs are apart.
//!
//! Invariant: exit code 0 says that for no seed an element differs by more than rounding explains, and that at least
//! one element was compared, unless the outputs have no elements.

use super::{ir_failure, load_ir};
use crate::args::CompareArgs;
use crate::fail::{Run, fail_bad_input, fail_expectation};
use crate::stdout_stderr::emit_stdout;
use arenagrad::tools::fuzz::{
    GraphComparison, OutputComparison, RunOptions, compare_graph_signatures, compare_with_options,
};
use serde_json::{Value, json};
use std::fmt::Write;

/// Runs the command.
pub fn compare_command(a: &CompareArgs) -> Run {
    let (left, right) = (load_ir(&a.first, &a.sizes)?, load_ir(&a.second, &a.sizes)?);
    let names = [a.first.display().to_string(), a.second.display().to_string()];
    let mismatches = compare_graph_signatures(left.view(), right.view());
    if !mismatches.is_empty() {
        let lines: Vec<String> = mismatches.iter().map(|m| m.describe([&names[0], &names[1]])).collect();
        return Err(fail_bad_input(lines.join("; ")));
    }
    if a.seeds == 0 {
        return Err(fail_bad_input("--seeds is 0; it must be at least 1"));
    }
    let how = RunOptions { threads: a.threads, ..RunOptions::default() };
    let (mut different, mut compared, mut open) = (0, 0, 0);
    for seed in (0..a.seeds).map(|k| a.seed.wrapping_add(k)) {
        let found = compare_with_options(left.view(), right.view(), seed, how).map_err(ir_failure(&a.second))?;
        different += found.outputs.iter().filter(|o| o.different > 0).count();
        compared += found.outputs.iter().map(|o| o.elements - o.unknown).sum::<usize>();
        open += found.outputs.iter().map(|o| o.unknown).sum::<usize>() + usize::from(found.fault.is_some());
        match a.json {
            true => emit_stdout(comparison_json(seed, &found))?,
            false => emit_stdout(comparison_table(seed, &found))?,
        }
    }
    match different {
        0 if compared == 0 && open > 0 => {
            let why = "no element was compared: both steps fail, or rounding leaves all elements open";
            Err(fail_bad_input(format!("{} and {}: {why}; try other seeds", names[0], names[1])))
        }
        0 => Ok(()),
        n => Err(fail_expectation(format!("{} and {}: {n} outputs differ", names[0], names[1]))),
    }
}

/// A comparison as lines.
fn comparison_table(seed: u64, c: &GraphComparison) -> String {
    let mut s = format!("seed {seed}\n");
    if let Some(why) = &c.fault {
        let _ = writeln!(s, "  both steps fail: {why}");
    }
    if let Some(why) = &c.no_reference {
        let _ = writeln!(s, "  bounds are 1024 units in the last place: {why}");
    }
    for o in &c.outputs {
        let verdict = if o.different == 0 { "equal" } else { "DIFFERS" };
        let _ = write!(s, "  {verdict:<8} {:?}: {} elements", o.name, o.elements);
        let _ = match &o.worst {
            Some(d) => write!(
                s,
                ", largest difference {:e} (bound {:e}) at element {}: {:e} and {:e}",
                (d.left - d.right).abs(),
                d.bound,
                d.element,
                d.left,
                d.right
            ),
            None => write!(s, ", no difference"),
        };
        let _ = match o.unknown {
            0 => writeln!(s),
            n => writeln!(s, ", {n} left open by rounding"),
        };
    }
    s
}

/// A comparison as JSON. Numbers that JSON does not have are strings.
fn comparison_json(seed: u64, c: &GraphComparison) -> Value {
    let number = |x: f64| if x.is_finite() { json!(x) } else { json!(x.to_string()) };
    let output = |o: &OutputComparison| {
        let worst = o.worst.as_ref().map(|d| {
            json!({
                "element": d.element, "left": number(d.left), "right": number(d.right), "bound": number(d.bound),
            })
        });
        json!({
            "name": o.name, "elements": o.elements, "unknown": o.unknown, "different": o.different, "worst": worst,
            "equal": o.different == 0,
        })
    };
    json!({
        "seed": seed,
        "equal": c.agrees(),
        "fault": c.fault,
        "no_reference": c.no_reference,
        "outputs": c.outputs.iter().map(output).collect::<Vec<_>>(),
    })
}
