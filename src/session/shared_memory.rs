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
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::{Graph, Leaf, LeafKind};
use crate::passes::product_precision::Precisions;
use crate::sched::areas::Frame;

/// What the optimiser of a step keeps for all params together, such as the count of steps, and the params that it
/// trains, sorted.
fn optimiser_of<'a>(g: Graph<'a>) -> (Vec<&'a str>, Vec<&'a str>) {
    let is_updated = |l: &Leaf<'_>| g.updates.iter().any(|u| u.0 == l.value);
    let of = |kind| g.leaves().filter(move |l| l.kind == kind).filter(is_updated).map(|l| l.name);
    let mut params: Vec<&str> = of(LeafKind::Param).collect();
    params.sort_unstable();
    // A moment of a param is called `opt.exp_avg.fc1.weight`.
    let of_all = |name: &&str| match name.strip_prefix("opt.").map(|rest| rest.split_once('.')) {
        Some(Some((_, param))) => params.binary_search(&param).is_err(),
        Some(None) => true,
        None => false,
    };
    (of(LeafKind::State).filter(of_all).collect(), params)
}

/// An error if two of `graphs` train other params with one count of steps: both would advance it.
fn refuse_shared_counts(graphs: &[(&str, Graph<'_>)]) -> Result<()> {
    let all: Vec<_> = graphs.iter().map(|&(name, g)| (name, optimiser_of(g))).collect();
    for (i, (second, (states, params))) in all.iter().enumerate() {
        for (first, (known, others)) in all[..i].iter().filter(|(_, (_, others))| others != params) {
            if let Some(state) = states.iter().find(|state| known.contains(state)) {
                let own = state.replacen("opt.", &format!("opt.{second}."), 1);
                let text = format!(
                    "methods {first:?} and {second:?} train other params ({} and {}), but both advance {state:?}; give \
                     one of the steps its own: graph.rename({state:?}, {own:?})",
                    some_of(others),
                    some_of(params)
                );
                return Err(Error::new(Kind::Name, text));
            }
        }
    }
    Ok(())
}

/// The first of `names`, for an error.
fn some_of(names: &[&str]) -> String {
    let more = if names.len() > 2 { ", …" } else { "" };
    format!("{}{more}", names[..names.len().min(2)].join(", "))
}

/// Readies `graphs` for one arena.
pub fn compile_into_one_arena(choices: &Choices, graphs: &[(&str, Graph<'_>)]) -> Result<Vec<CompiledGraph>> {
    refuse_shared_counts(graphs)?;
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
