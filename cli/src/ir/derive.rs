//! The commands `jvp`, `vjp`, `hvp`, `jacobian` and `nth`: from a graph's text to the text of a graph with derivatives.
//!
//! Invariant: standard output holds one graph and nothing else.

use super::show::{only_output, text};
use super::{load, of};
use crate::args::{HvpArgs, JacobianArgs, JvpArgs, NthArgs, VjpArgs};
use crate::fail::{Run, bad};
use crate::out::emit;
use arenagrad::graph::{DType, GradOptions, Graph, Missing};
use std::path::Path;

/// Runs `jvp`.
pub fn jvp(a: &JvpArgs) -> Run {
    let graph = load(&a.file)?;
    let (wrt, outputs) = (leaves(&a.file, graph.view(), &a.wrt)?, floats(&a.file, graph.view(), &a.outputs)?);
    let done = graph.jvp(&strs(&outputs), &strs(&wrt)).map_err(of(&a.file))?;
    emit(text(&a.file, done.view(), a.locations))
}

/// Runs `vjp`.
pub fn vjp(a: &VjpArgs) -> Run {
    let graph = load(&a.file)?;
    let (wrt, outputs) = (leaves(&a.file, graph.view(), &a.wrt)?, floats(&a.file, graph.view(), &a.outputs)?);
    let missing = if a.zero_missing { Missing::Zero } else { Missing::Error };
    let done = graph.vjp(&strs(&outputs), &strs(&wrt), missing).map_err(of(&a.file))?;
    emit(text(&a.file, done.view(), a.locations))
}

/// Runs `hvp`.
pub fn hvp(a: &HvpArgs) -> Run {
    let graph = load(&a.file)?;
    let (wrt, loss) = (leaves(&a.file, graph.view(), &a.wrt)?, only_output(&a.file, graph.view(), a.output.as_deref())?);
    let done = graph.hvp(&loss, &strs(&wrt)).map_err(of(&a.file))?;
    emit(text(&a.file, done.view(), a.locations))
}

/// Runs `jacobian`.
pub fn jacobian(a: &JacobianArgs) -> Run {
    let graph = load(&a.file)?;
    let output = only_output(&a.file, graph.view(), a.output.as_deref())?;
    let leaf = only_leaf(&a.file, graph.view(), a.wrt.as_deref())?;
    let done = graph.jacobian(&output, &leaf).map_err(of(&a.file))?;
    emit(text(&a.file, done.view(), a.locations))
}

/// Runs `nth`.
pub fn nth(a: &NthArgs) -> Run {
    let graph = load(&a.file)?;
    let output = only_output(&a.file, graph.view(), a.output.as_deref())?;
    let leaf = only_leaf(&a.file, graph.view(), a.wrt.as_deref())?;
    let done = match a.directions {
        true => graph.directional_nth_grad(&output, &leaf, a.order),
        false => graph.nth_grad(&output, &leaf, a.order),
    };
    emit(text(&a.file, done.map_err(of(&a.file))?.view(), a.locations))
}

fn strs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// `given`, or all params that are not frozen.
fn leaves(file: &Path, g: Graph<'_>, given: &[String]) -> Run<Vec<String>> {
    match given.is_empty() {
        true => GradOptions::default().leaves(g).map_err(of(file)),
        false => Ok(given.to_vec()),
    }
}

fn is_float(d: DType) -> bool {
    matches!(d, DType::F32 | DType::F64 | DType::F16 | DType::BF16)
}

/// `given`, or all outputs that are floats.
fn floats(file: &Path, g: Graph<'_>, given: &[String]) -> Run<Vec<String>> {
    if !given.is_empty() {
        return Ok(given.to_vec());
    }
    let outputs = g.outputs().iter().zip(g.output_names).filter(|(v, _)| is_float(g.ty(**v).dtype));
    let names: Vec<String> = outputs.map(|(_, &name)| g.str(name).to_string()).collect();
    match names.is_empty() {
        true => Err(bad(format!("{}: no output is a float", file.display()))),
        false => Ok(names),
    }
}

/// `given`, or the only param that is not frozen, or, where there is no param, the only float leaf.
fn only_leaf(file: &Path, g: Graph<'_>, given: Option<&str>) -> Run<String> {
    let floats = || g.leaves().filter(|l| is_float(g.ty(l.value).dtype)).map(|l| l.name.to_string()).collect();
    let known: Vec<String> = match given {
        Some(name) => return Ok(name.to_string()),
        None => GradOptions::default().leaves(g).unwrap_or_else(|_| floats()),
    };
    match known.as_slice() {
        [one] => Ok(one.clone()),
        all => {
            let (count, names) = (all.len(), all.join(", "));
            Err(bad(format!("{}: there are {count} leaves ({names}); choose one with --wrt", file.display())))
        }
    }
}
