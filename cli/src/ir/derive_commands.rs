//! The commands `jvp`, `vjp`, `hvp`, `jacobian`, `nth` and `vmap`: from a graph's text to the text of a graph with
//! derivatives, or for a batch.
//!
//! Invariant: standard output holds one graph, or the report that replaces it, and nothing else.

use super::print_opt_grad::{grad_command_output, print_command_text};
use super::{ir_failure, load_graph};
use crate::args::{Draws, HvpArgs, JacobianArgs, JvpArgs, NthArgs, VjpArgs, VmapArgs};
use crate::fail::{Run, fail_bad_input};
use crate::stdout_stderr::emit_stdout;
use arenagrad::graph::{GradOptions, Graph, Missing, OneByOne, Randomness, Vmap, one_by_one_ops};
use std::path::Path;

/// Runs `jvp`.
pub fn jvp_command(a: &JvpArgs) -> Run {
    let graph = load_graph(&a.graph)?;
    let (wrt, outputs) = (
        derive_command_leaves(&a.graph.file, graph.view(), &a.wrt)?,
        derive_command_outputs(&a.graph.file, graph.view(), &a.outputs)?,
    );
    let done =
        graph.jvp(&derive_command_names(&outputs), &derive_command_names(&wrt)).map_err(ir_failure(&a.graph.file))?;
    emit_stdout(print_command_text(&a.graph.file, done.view(), a.locations))
}

/// Runs `vjp`.
pub fn vjp_command(a: &VjpArgs) -> Run {
    let graph = load_graph(&a.graph)?;
    let (wrt, outputs) = (
        derive_command_leaves(&a.graph.file, graph.view(), &a.wrt)?,
        derive_command_outputs(&a.graph.file, graph.view(), &a.outputs)?,
    );
    let missing = if a.zero_missing { Missing::Zero } else { Missing::Error };
    let done = graph
        .vjp(&derive_command_names(&outputs), &derive_command_names(&wrt), missing)
        .map_err(ir_failure(&a.graph.file))?;
    emit_stdout(print_command_text(&a.graph.file, done.view(), a.locations))
}

/// Runs `hvp`.
pub fn hvp_command(a: &HvpArgs) -> Run {
    let graph = load_graph(&a.graph)?;
    let (wrt, loss) = (
        derive_command_leaves(&a.graph.file, graph.view(), &a.wrt)?,
        grad_command_output(&a.graph.file, graph.view(), a.output.as_deref())?,
    );
    let done = graph.hvp(&loss, &derive_command_names(&wrt)).map_err(ir_failure(&a.graph.file))?;
    emit_stdout(print_command_text(&a.graph.file, done.view(), a.locations))
}

/// Runs `jacobian`.
pub fn jacobian_command(a: &JacobianArgs) -> Run {
    let graph = load_graph(&a.graph)?;
    let output = grad_command_output(&a.graph.file, graph.view(), a.output.as_deref())?;
    let leaf = derive_command_leaf(&a.graph.file, graph.view(), a.wrt.as_deref())?;
    let done = graph.jacobian(&output, &leaf).map_err(ir_failure(&a.graph.file))?;
    emit_stdout(print_command_text(&a.graph.file, done.view(), a.locations))
}

/// Runs `nth`.
pub fn nth_command(a: &NthArgs) -> Run {
    let graph = load_graph(&a.graph)?;
    let output = grad_command_output(&a.graph.file, graph.view(), a.output.as_deref())?;
    let leaf = derive_command_leaf(&a.graph.file, graph.view(), a.wrt.as_deref())?;
    let done = match a.directions {
        true => graph.directional_nth_grad(&output, &leaf, a.order),
        false => graph.nth_grad(&output, &leaf, a.order),
    };
    emit_stdout(print_command_text(&a.graph.file, done.map_err(ir_failure(&a.graph.file))?.view(), a.locations))
}

/// Runs `vmap`.
pub fn vmap_command(a: &VmapArgs) -> Run {
    let graph = load_graph(&a.graph)?;
    let draws = match a.draws {
        None => Randomness::Error,
        Some(Draws::Same) => Randomness::Same,
        Some(Draws::Different) => Randomness::Different,
    };
    let map = Vmap::new(a.members).randomness(draws);
    let map = a.leaves.iter().fold(map, |map, l| map.leaf(&l.name, l.axis));
    let map = a.outputs.iter().fold(map, |map, o| map.output(&o.name, o.axis));
    let done = graph.vmap(&map).map_err(ir_failure(&a.graph.file))?;
    if !a.report {
        return emit_stdout(print_command_text(&a.graph.file, done.view(), a.locations));
    }
    let all = one_by_one_ops(&done);
    let line = |o: &OneByOne| format!("{:<20} {}: one member after another\n", o.op, o.location);
    let lines: String = all.iter().map(line).collect();
    let ops = if all.len() == 1 { "op runs" } else { "ops run" };
    emit_stdout(format!("{lines}{} {ops} one member after another\n", all.len()))
}

fn derive_command_names(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// `given`, or all params that are not frozen.
fn derive_command_leaves(file: &Path, g: Graph<'_>, given: &[String]) -> Run<Vec<String>> {
    match given.is_empty() {
        true => GradOptions::default().leaves(g).map_err(ir_failure(file)),
        false => Ok(given.to_vec()),
    }
}

/// `given`, or all outputs that are floats.
fn derive_command_outputs(file: &Path, g: Graph<'_>, given: &[String]) -> Run<Vec<String>> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let outputs = g.outputs().iter().zip(g.output_names).filter(|(v, _)| g.ty(**v).dtype.is_real_float());
    let names: Vec<String> = outputs.map(|(_, &name)| g.str(name).to_string()).collect();
    match names.is_empty() {
        true => Err(fail_bad_input(format!("{}: no output is a float", file.display()))),
        false => Ok(names),
    }
}

/// `given`, or the only param that is not frozen, or, where there is no param, the only float leaf.
fn derive_command_leaf(file: &Path, g: Graph<'_>, given: Option<&str>) -> Run<String> {
    let floats = || g.leaves().filter(|l| g.ty(l.value).dtype.is_real_float()).map(|l| l.name.to_string()).collect();
    let known: Vec<String> = match given {
        Some(name) => return Ok(name.to_string()),
        None => GradOptions::default().leaves(g).unwrap_or_else(|_| floats()),
    };
    match known.as_slice() {
        [one] => Ok(one.clone()),
        all => {
            let (count, names) = (all.len(), all.join(", "));
            Err(fail_bad_input(format!(
                "{}: there are {count} leaves ({names}); choose one with --wrt",
                file.display()
            )))
        }
    }
}
