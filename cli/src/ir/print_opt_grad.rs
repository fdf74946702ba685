//! The commands `print`, `opt` and `grad`: from a graph's text to a graph's text.
//!
//! Invariant: standard output holds one graph, or the report that replaces it, and nothing else. Traces go to standard
//! error.

use super::{fusion, ir_failure, load_graph};
use crate::args::{GradArgs, OptArgs, PrintArgs};
use crate::fail::{Run, fail_bad_input};
use crate::stdout_stderr::{emit_stdout, note_stderr};
use arenagrad::graph::Graph;
use arenagrad::graph::{GradOptions, Missing, grad};
use arenagrad::tools::ir::text::{PrintOptions, print_with};
use arenagrad::tools::passes::ad::grad;
use arenagrad::tools::passes::fusion_notes::order_outcomes;
use arenagrad::tools::passes::{fusion_notes::Trace, pipeline};
use std::path::Path;

/// Runs `print`.
pub fn print_command(a: &PrintArgs) -> Run {
    emit_stdout(print_command_text(&a.graph.file, load_graph(&a.graph)?.view(), a.locations))
}

/// The text of a graph that came from `file`.
pub fn print_command_text(file: &Path, g: Graph<'_>, locations: bool) -> String {
    print_with(g, PrintOptions { locations, file: Some(&file.display().to_string()) })
}

/// Runs `opt`.
pub fn opt_command(a: &OptArgs) -> Run {
    let graph = load_graph(&a.graph)?;
    let names = match a.passes.is_empty() {
        true => pipeline::pipeline_passes(),
        false => a.passes.iter().map(String::as_str).collect(),
    };
    let (done, traces) = pipeline::run_pipeline(&graph, &names, true).map_err(ir_failure(&a.graph.file))?;
    if a.trace {
        print_opt_trace(&traces);
    }
    if a.report {
        let fusions = order_outcomes(traces.into_iter().map(|t| t.fusions));
        return emit_stdout(if a.json { fusion::fusion_json(&fusions) } else { fusion::fusion_table(&fusions) });
    }
    emit_stdout(print_command_text(&a.graph.file, done.view(), a.locations))
}

/// Runs `grad`.
pub fn grad_command(a: &GradArgs) -> Run {
    let graph = load_graph(&a.graph)?;
    let g = graph.view();
    let output = grad_command_output(&a.graph.file, g, a.output.as_deref())?;
    let missing = if a.zero_missing { Missing::Zero } else { Missing::Error };
    let options = GradOptions::wrt(&a.wrt).missing(missing);
    let done = grad(g, &output, &options).map_err(ir_failure(&a.graph.file))?;
    if a.trace {
        print_opt_trace(&grad::trace_preparation(g, &output, &options).map_err(ir_failure(&a.graph.file))?);
        note_stderr(format!("grad: {} -> {} nodes", g.nodes(), done.view().nodes()));
        let (_, traces) = pipeline::run_pipeline(&done, &["simplify"], true).map_err(ir_failure(&a.graph.file))?;
        print_opt_trace(&traces);
    }
    emit_stdout(print_command_text(&a.graph.file, done.view(), a.locations))
}

/// `given`, or the name of the only output, or an error that lists all of them.
pub fn grad_command_output(path: &Path, g: Graph<'_>, given: Option<&str>) -> Run<String> {
    let names: Vec<&str> = given.map_or_else(|| g.output_names.iter().map(|&s| g.str(s)).collect(), |name| vec![name]);
    match names.as_slice() {
        [one] => Ok(one.to_string()),
        all => Err(fail_bad_input(format!(
            "{}: there are {} outputs ({}); choose one with --output",
            path.display(),
            all.len(),
            all.join(", ")
        ))),
    }
}

/// Prints a line for each pass on standard error: node counts, time, how often each rule applied. The steps of a pass
/// stand before it.
fn print_opt_trace(traces: &[Trace]) {
    for t in traces {
        print_opt_trace(&t.parts);
        let mut hits: Vec<_> = t.hits.iter().map(|(rule, n)| format!("{rule} {n}")).collect();
        hits.sort();
        let hits = if hits.is_empty() { String::new() } else { format!("; {}", hits.join(", ")) };
        let us = t.time.as_nanos() as f64 / 1e3;
        note_stderr(format!("{}: {} -> {} nodes, {us:.0} us{hits}", t.pass, t.nodes.0, t.nodes.1));
    }
}
