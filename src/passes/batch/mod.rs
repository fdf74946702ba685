//! `vmap`: a graph for one example becomes a graph for a batch of them, in one walk by the batch fact of each op
//! definition.
//!
//! [`batched_region`] holds the walk, [`batched_loop`] the loops, choices and custom functions, [`one_by_one`] the loop
//! over members of ops without a rule. Invariant: inside the new graph the batch's axis is the first one of each
//! batched value; leaves and outputs have it where the caller asks for it.

mod at_once;
mod batched_leaf;
mod batched_loop;
mod batched_region;
mod one_by_one;
mod selects;
mod vmap_options;

use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::Batch;
use crate::nodes::ops::common::batch_site::swap_axis_runs;
use crate::nodes::ops::control::custom_fn::has_derivative_rules;
use crate::nodes::{Builder, Emit, Graph, GraphBuf};
use crate::passes::decompose::expand_picked_nodes;
use crate::passes::expand_blocks::{expand_blocks, has_blocks_to_expand};
use crate::passes::fuse::FusionPolicy;
use crate::passes::inline::InlineCalls;
use crate::passes::rebuild::{finish_rebuild, rebuild_buf, rebuilt_by_pass};
use crate::passes::signature::Signature;
pub use at_once::{batch_independent_loops, has_independent_loops};
use batched_region::{
    BatchContext, BatchMember, batched_regions_that_draw, copy_plain_regions, find_batched_values,
    write_region_for_members,
};
pub use one_by_one::{OneByOne, one_by_one_ops};
pub use selects::{has_choices_of_members, select_for_members};
pub use vmap_options::{Randomness, Vmap};

/// A position that is asked for: of a leaf or an output.
#[derive(Clone, Copy)]
struct MappedAt {
    value: Value,
    axis: usize,
}

/// `g` for a batch: each leaf of `map` holds one value for each member, and each output that depends on them does too.
/// Leaves and outputs keep their names; so do updates.
///
/// * The graph of a gradient becomes that of the gradients of all examples, each alone.
/// * With params mapped, it becomes an ensemble: independent models in one program. Their start values are drawn as one
///   tensor, so the members differ.
///
/// Each op runs on all members at once by the fact `batch` of its definition; ops without one run in a loop over the
/// members, as do choices whose predicate differs between members.
///
/// ```
/// use arenagrad::graph::Vmap;
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("one example");
/// let w = g.param("w", [2], DType::F64, Init::Ones);
/// let x = g.input("x", [2], DType::F64);
/// let loss = (w * x).sum(..).square();
/// let one = g.finish([loss.named("loss")])?.grad("loss", &GradOptions::wrt(&["w"]))?;
/// // The gradient of each of three examples.
/// let all = one.vmap(&Vmap::new(3).leaf("x", 0))?;
/// let mut p = Session::new().compile(&all)?;
/// p.init(0)?;
/// p.values_mut::<f64>("x")?.copy_from_slice(&[1.0, 0.0, 0.0, 2.0, 1.0, 1.0]);
/// p.step()?;
/// assert_eq!(p.values::<f64>("grad.w")?, [2.0, 0.0, 0.0, 8.0, 4.0, 4.0]);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// An unknown name or one that is given twice; an axis outside the shape; a random op, unless
/// [`Vmap::randomness`] says what members draw; an update of a shared leaf by a value that differs between members; a
/// mapped param whose start values are those of one matrix (`eye`, `dirac`, `orthogonal`).
pub fn vmap<'a>(g: impl Into<Graph<'a>>, map: &Vmap<'_>) -> Result<GraphBuf> {
    let g = g.into();
    let mapped = vmap_mapped_leaves(g, map)?;
    let names: Vec<&str> = mapped.iter().filter_map(|m| g.leaf(m.value)).map(|l| l.1).collect();
    let prepared = prepare_for_vmap(g, &names, map.randomness)?;
    let g = prepared.view();
    refuse_random_ops(g, map.randomness)?;
    let (leaves, outputs) = (vmap_mapped_leaves(g, map)?, find_mapped_outputs(g, map)?);
    let written = rebuilt_by_pass("vmap", |bump| {
        let b = Builder::rewriting(Emit::like(&g));
        write_vmap(g, &b, map, &leaves, &outputs)?;
        finish_rebuild(b, bump)
    })?;
    // One more rebuild drops the copies of regions that have no user.
    rebuild_buf(written.view(), &mut |_| None)
}

/// `axis` of a shape that has one axis more than `rank`.
fn vmap_axis_of(what: &str, name: &str, axis: i64, rank: usize) -> Result<usize> {
    let all = rank as i64 + 1;
    let plain = if axis < 0 { axis + all } else { axis };
    let found = usize::try_from(plain).ok().filter(|&a| a <= rank);
    let text = || format!("vmap: axis {axis} of {what} {name:?} is outside its rank with the batch's axis, {all}");
    found.ok_or_else(|| Error::new(Kind::Shape, text()))
}

/// The entries of `list` as values of `g`.
fn vmap_mapped_at(
    g: Graph<'_>,
    what: &str,
    list: &[(&str, i64)],
    find: impl Fn(&str) -> Result<Value>,
) -> Result<Vec<MappedAt>> {
    let one = |(i, &(name, axis)): (usize, &(&str, i64))| {
        if list[..i].iter().any(|l| l.0 == name) {
            return Err(Error::new(Kind::Name, format!("vmap: {what} {name:?} is given twice")));
        }
        let value = find(name)?;
        Ok(MappedAt { value, axis: vmap_axis_of(what, name, axis, g.dims(value).len())? })
    };
    list.iter().enumerate().map(one).collect()
}

fn vmap_mapped_leaves(g: Graph<'_>, map: &Vmap<'_>) -> Result<Vec<MappedAt>> {
    let signature = Signature::new(g);
    vmap_mapped_at(g, "leaf", &map.leaves, |name| signature.leaf(name))
}

fn find_mapped_outputs(g: Graph<'_>, map: &Vmap<'_>) -> Result<Vec<MappedAt>> {
    let signature = Signature::new(g);
    vmap_mapped_at(g, "output", &map.outputs, |name| signature.output(name))
}

/// The form that batching needs: ops that are batched through their decomposition are decomposed, and regions that run
/// once are written in place. If all members draw the same, the nodes of the entry that do not depend on the leaves
/// called `names` stay as they are; else all random ops must show.
fn prepare_for_vmap(g: Graph<'_>, names: &[&str], randomness: Randomness) -> Result<GraphBuf> {
    let written = has_blocks_to_expand(g).then(|| expand_blocks(g, FusionPolicy::for_autodiff())).transpose()?;
    expand_picked_nodes(written.as_ref().map_or(g, GraphBuf::view), InlineCalls::WithoutRules, |g| {
        let roots = g.leaves().filter(|l| names.contains(&l.name)).map(|l| l.value).collect::<Vec<_>>();
        let batched = find_batched_values(g, g.entry(), &roots, &Side::filled(g.regions(), false));
        let mut pick = Side::filled(g.nodes(), false);
        for r in (0..g.regions()).map(Region::new) {
            for n in g.region_nodes(r) {
                let def = g.def_of(n);
                let call = def.decompose.is_none() && def.is_inlined() && !has_derivative_rules(g, n);
                let through = call || (def.decompose.is_some() && def.batch.is_via_decompose(&g.attrs(n)));
                let all = r != g.entry() || randomness != Randomness::Same;
                pick[n] = through && (all || g.outs_of(n).any(|v| batched[v]));
            }
        }
        pick
    })
}

/// An error at the first random op, if `randomness` has not been chosen.
fn refuse_random_ops(g: Graph<'_>, randomness: Randomness) -> Result<()> {
    let draws = |n: &Node| matches!(g.def_of(*n).batch, Batch::Draws(_));
    let Some(n) = (0..g.nodes()).map(Node::new).find(draws).filter(|_| randomness == Randomness::Error) else {
        return Ok(());
    };
    let name = g.def_of(n).name;
    let text = format!("vmap: {name} draws random numbers; say whether members draw the same or different ones");
    Err(Error::new(Kind::Verify, text).at(g.location(n)))
}

/// Writes the batched graph of `g`, which is prepared, into `b`.
fn write_vmap(g: Graph<'_>, b: &Builder, map: &Vmap<'_>, leaves: &[MappedAt], outputs: &[MappedAt]) -> Result<()> {
    let (regions, draws) = (copy_plain_regions(g, b), batched_regions_that_draw(g, map.randomness));
    let context = BatchContext { src: g, g: b, regions: &regions, draws: &draws, size: map.size, selects: false };
    let axis_of = |v: Value| leaves.iter().find(|m| m.value == v).map(|m| m.axis);
    let mut written = Side::filled(g.values(), b.var(Value::NONE));
    for v in g.leaves().map(|l| l.value) {
        written[v] = batched_leaf::write_leaf_for_members(context, v, axis_of(v))?;
    }
    let mut known = Vec::new();
    for (v, leaf) in g.leaves().map(|l| (l.value, written[l.value])) {
        let axis = axis_of(v);
        let var = axis.map_or(leaf, |axis| swap_axis_runs(leaf, 0, axis, 1));
        known.push((v, BatchMember { var, batched: axis.is_some() }));
    }
    let values = write_region_for_members(context, g.entry(), &known)?;
    b.with(|e| e.set_loc(u32::MAX));
    for (&v, &name) in g.outputs().iter().zip(g.output_names) {
        let asked = map.outputs.iter().position(|o| o.0 == g.str(name));
        let var = match asked.map(|i| outputs[i].axis) {
            Some(axis) => swap_axis_runs(values[v].for_all(map.size), 0, 1, axis),
            None => values[v].var,
        };
        b.output(g.str(name), var);
    }
    for &(v, next) in g.updates {
        let leaf = written[v];
        match (axis_of(v), values[next]) {
            (Some(axis), next) => b.update(leaf, swap_axis_runs(next.for_all(map.size), 0, 1, axis)),
            (None, BatchMember { var, batched: false }) => b.update(leaf, var),
            (None, _) => {
                let name = g.leaf(v).map_or("", |l| l.1);
                let text = format!("vmap: all members share {name:?}, and its update differs between them; map it too");
                return Err(Error::new(Kind::Verify, text).at(g.location(g.def[next.at()])));
            }
        }
    }
    Ok(())
}
