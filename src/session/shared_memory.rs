//! Several graphs in one arena: params and states are matched by name and live once; activations share bytes.
//!
//! Invariant: equal names mean equal leaves (`leaves_by_name`). Each plan is proved in the arena that all of them
//! share, and proved not to touch the own areas of the others. Only
//! [`Session::compile_all`](super::Session::compile_all) uses this.

use super::Keep;
use super::budget::{self, Fit};
use super::choices::Choices;
use super::compile;
use super::compiled_graph::CompiledGraph;
use super::divided::Divided;
use super::leaves_by_name::LeafTable;
use crate::arena::tensor::LINE;
use crate::error::Result;
use crate::names;
use crate::nodes::{Graph, LeafKind};
use crate::passes::product_precision::Precisions;
use crate::sched::areas::Frame;

/// Readies `graphs` for one arena.
pub fn compile_into_one_arena(choices: &Choices, graphs: &[(&str, Graph<'_>)]) -> Result<Vec<CompiledGraph>> {
    let of_method = |g: Graph<'_>| {
        let precision = own_precisions(g, graphs, &choices.precision);
        Choices { budget: None, precision, ..choices.clone() }
    };
    let of = |&(name, g): &(&str, Graph<'_>)| {
        compile::graph(g, &of_method(g)).map_err(|e| e.context(format!("method {name:?}")))
    };
    let ready = graphs.iter().map(of).collect::<Result<Vec<_>>>()?;
    let names: Vec<String> = graphs.iter().map(|(name, _)| format!("method {name:?}")).collect();
    let mut leaves = LeafTable::default();
    leaves.add(&names.iter().map(String::as_str).zip(ready.iter().map(|r| r.graph.view())).collect::<Vec<_>>())?;
    let divided = ready.into_iter().map(|r| Divided::new(r, choices));
    let mut divided = divided.collect::<Result<Vec<_>>>()?;
    if let Some(bytes) = choices.budget {
        let mut least = 0;
        for (i, &(_, g)) in graphs.iter().enumerate() {
            let others = leaves.lines() + divided.iter().map(|d| d.areas.own).sum::<u64>() - divided[i].areas.own;
            // In half precision, what is computed again must not depend on the scratch of this number of threads.
            if divided[i].bytes_beside(others) <= bytes && choices.keep == Keep::F32 {
                continue;
            }
            match Divided::within(g, &of_method(g), bytes, others).map_err(|e| e.context(&names[i]))? {
                Fit::Fits(fitted) => divided[i] = fitted,
                Fit::Needs(bytes) => least = least.max(bytes),
            }
        }
        if least > 0 {
            return Err(budget::too_small_error(bytes, least));
        }
    }
    let workspace = leaves.lines() + divided.iter().map(|d| d.areas.own).sum::<u64>();
    let lines = workspace + divided.iter().map(|d| d.areas.workspace).max().unwrap_or(0);
    let mut own = leaves.lines();
    let mut placed = Vec::new();
    for d in divided {
        let places = leaves.places(&d.ready);
        let frame = Frame { leaves: &places, own, workspace, lines };
        own += d.areas.own;
        placed.push(d.place(&frame, choices)?.ready);
    }
    let bytes = lines as usize * LINE;
    match choices.budget.filter(|&most| bytes > most) {
        Some(most) => Err(budget::too_small_error(most, bytes)),
        None => Ok(placed),
    }
}

/// The choice for `g`, one of `all`: without the patterns that match params of other graphs only.
fn own_precisions(g: Graph<'_>, all: &[(&str, Graph<'_>)], choice: &Precisions) -> Precisions {
    let matches = |g: Graph<'_>, pattern: &str| {
        g.leaves().any(|l| l.kind == LeafKind::Param && names::matches_name(pattern, l.name))
    };
    let mut of = choice.clone();
    of.groups.retain(|(p, _)| matches(g, p) || !all.iter().any(|(_, other)| matches(*other, p)));
    of
}
