//! Gradient accumulation: a step runs `k` micro-batches in sequence and updates once.
//!
//! The forward and backward computation becomes the body of a counted loop, whose carries are the sums of the
//! gradients. Those of tables that are updated by rows are stacks of the rows instead. So there is one program, and
//! activations take the memory of one micro-batch. The update follows the loop and runs once; inside the loop, under a
//! mask, it would be computed `k` times. States that the graph updates (running statistics) are carries too. Each
//! iteration has a random key of its own.

use super::super::copier::Copier;
use super::super::signature::Signature;
use crate::arena::{Side, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::leaf::InputAttrs;
use crate::nodes::ops::control::scan::{Loop, ScanEnd};
use crate::nodes::{Builder, DType, Graph, Leaf, LeafKind, Op, Var};
use crate::passes::optimiser::Optimiser;
use crate::passes::optimiser::rows::rows_of_micro_batch;
use crate::passes::optimiser::rule::Rule;

/// The name of the body of the loop over micro-batches, by which the warnings of a graph find it.
pub const ACCUMULATION: &str = "accumulate";
/// The most micro-batches of a step. A larger number is taken for a mistake.
pub(super) const MAX: usize = 1 << 20;

/// A leaf of the graph of one micro-batch, and its value in the step.
struct StepLeaf<'g> {
    old: Value,
    kind: LeafKind,
    new: Var<'g>,
    /// Its next value after a micro-batch, if the graph updates it.
    next: Option<Value>,
}

/// Writes the step over `k` micro-batches to `b`. `g` is the graph of one micro-batch; its last outputs are the
/// gradients of the params `names`, which `rules` update, if they are given. Returns the params and the means of their
/// gradients, weighted if `opt` says by what.
pub(super) fn accumulate_grads<'g>(
    g: Graph<'_>,
    b: &'g Builder,
    loss: &str,
    names: &[&str],
    (opt, rules): (&Optimiser, &[Rule]),
) -> Result<(Vec<Var<'g>>, Vec<Var<'g>>)> {
    let (results, grads) = g.outputs().split_at(g.outputs().len() - names.len());
    let mut c = Copier::new(g, b);
    let weight = opt.accumulate_by.as_deref().map(|name| accumulation_weight(g, name)).transpose()?;
    let leaves = accumulation_leaves(g, b, &mut c, opt.accumulate);
    let moves = |l: &&StepLeaf<'g>| l.next.is_some() && !is_accumulation_key(g, l);
    let inputs: Vec<&StepLeaf<'g>> = leaves.iter().filter(|l| l.kind == LeafKind::Input).collect();
    let states: Vec<&StepLeaf<'g>> = leaves.iter().filter(moves).collect();
    if inputs.is_empty() {
        return Err(Error::new(Kind::Shape, "accumulation: the graph has no input, so there are no micro-batches"));
    }
    let rows_of = |(i, &v): (usize, &Value)| rows_of_micro_batch(g, v, rules.get(i)?, opt.accumulate);
    let rows: Vec<_> = grads.iter().enumerate().map(rows_of).collect();
    let sums: Vec<Value> = grads.iter().zip(&rows).filter(|x| x.1.is_none()).map(|x| *x.0).collect();
    let zeros = sums.iter().map(|&v| b.full(0.0, g.dims(v), g.dtype[v.at()]));
    let carries: Vec<Var<'g>> = zeros.chain(states.iter().map(|l| l.new)).collect();
    let stacked: Vec<Var<'g>> = inputs.iter().map(|l| l.new).collect();
    let entry = b.with(|e| e.region_scope());
    let (all, how) = (ScanEnd::Length, Loop::default());
    let (after, ys) = b.scan_until(ACCUMULATION, all, how, &carries, &stacked, |now, slices| {
        for (l, &x) in states.iter().zip(&now[sums.len()..]).chain(inputs.iter().zip(slices)) {
            c.map[l.old] = x;
        }
        for l in leaves.iter().filter(|l| l.kind != LeafKind::Input && !moves(l)) {
            c.map[l.old] = match is_accumulation_key(g, l) {
                true => b.rng(),
                false => b.var(b.with(|e| e.import_captured(l.new.v, entry))),
            };
        }
        c.run(&mut |_| None);
        let weight = weight.map(|(_, w)| c.map[w]);
        let sums = sums.iter().zip(now).map(|(&v, &sum)| sum + accumulation_part(c.map[v], weight));
        let nexts = states.iter().filter_map(|l| l.next).map(|v| c.map[v]);
        let rows = rows.iter().flatten().flatten();
        let rows = rows.flat_map(|&[g, idx]| [accumulation_part(c.map[g], weight), c.map[idx]]);
        (sums.chain(nexts).collect(), results.iter().map(|&v| c.map[v]).chain(rows).collect())
    });
    for (l, &next) in states.iter().zip(&after[sums.len()..]) {
        b.update(l.new, next);
    }
    for l in leaves.iter().filter(|l| is_accumulation_key(g, l)) {
        b.update(l.new, b.emit1(Op::RNG_NEXT, &[l.new], &[]));
    }
    let weights = weight.map_or(b.full(1.0, [opt.accumulate], DType::F64), |(i, _)| ys[i]);
    let mean = |sum: Var<'g>| sum / weights.cast(sum.dtype()).sum(..);
    for (&y, &name) in ys.iter().take(results.len()).zip(g.output_names) {
        // The loss of the step is the mean. Other outputs of the micro-batches are stacked.
        let loss_of = || match weight {
            Some(_) => mean(accumulation_part(y, Some(weights)).sum(..)),
            None => y.mean(..),
        };
        b.output(g.str(name), if g.str(name) == loss { loss_of().named(loss) } else { y });
    }
    let mean = |s| if weight.is_some() { mean(s) } else { s * (1.0 / opt.accumulate as f64) };
    let (mut sums, mut stacks) = (after.into_iter(), ys.into_iter().skip(results.len()));
    // A sum of scatters, as that of one micro-batch: the rows of all micro-batches.
    let mut scatter = |n: usize| Some(mean(stacks.next()?).scatter_add(stacks.next()?, 0, n));
    let means = grads.iter().zip(&rows).map(|(&v, rows)| match rows {
        None => sums.next().map(mean),
        Some(parts) => parts.iter().filter_map(|_| scatter(g.dims(v)[0])).reduce(|a, b| a + b),
    });
    let means = means.map(|m| m.unwrap_or(b.var(Value::NONE))).collect();
    Ok((accumulation_params(g, b, &leaves, names)?, means))
}

/// The params `names` in the step.
fn accumulation_params<'g>(
    g: Graph<'_>,
    b: &'g Builder,
    leaves: &[StepLeaf<'g>],
    names: &[&str],
) -> Result<Vec<Var<'g>>> {
    let mut new = Side::filled(g.values(), b.var(Value::NONE));
    leaves.iter().for_each(|l| new[l.old] = l.new);
    let signature = Signature::new(g);
    names.iter().map(|n| signature.leaf(n).map(|v| new[v])).collect()
}

/// The output `name` by its place, and its value: the weight of a micro-batch.
fn accumulation_weight(g: Graph<'_>, name: &str) -> Result<(usize, Value)> {
    let refused = |why: String| Err(Error::new(Kind::Name, format!("accumulation: the weight {name:?} {why}")));
    let Some(i) = g.output_names.iter().position(|&n| g.str(n) == name) else {
        return refused("is no output".to_string());
    };
    let v = g.outputs()[i];
    match g.dtype[v.at()].is_float() && g.dims(v).is_empty() {
        true => Ok((i, v)),
        false => refused(format!("is {}{}; a scalar of a float type is needed", g.dtype[v.at()], g.dims(v))),
    }
}

/// `x`·weight, and 0 where the weight is 0, also if `x` is NaN.
fn accumulation_part<'g>(x: Var<'g>, weight: Option<Var<'g>>) -> Var<'g> {
    let Some(w) = weight else { return x };
    let w = w.cast(x.dtype());
    w.equal(0.0).select(x.full_like(0.0), x * w)
}

/// True if `l` is the random key. It advances once a step, and each iteration draws under a separate key.
fn is_accumulation_key(g: Graph<'_>, l: &StepLeaf<'_>) -> bool {
    l.next.is_some_and(|v| g.op[g.def[v.at()].at()] == Op::RNG_NEXT)
}

/// The leaves of the step: inputs have one more axis of `k` in front, other leaves are as in `g`.
fn accumulation_leaves<'g>(g: Graph<'_>, b: &'g Builder, c: &mut Copier<'_, 'g>, k: usize) -> Vec<StepLeaf<'g>> {
    let mut next = Side::filled(g.values(), None);
    g.updates.iter().for_each(|&(leaf, v)| next[leaf] = Some(v));
    let leaf = |Leaf { value: old, kind, name }: Leaf<'_>| {
        let new = match kind {
            LeafKind::Input => {
                let (dims, dtype) = ([&[k], &g.dims(old)[..]].concat(), g.dtype[old.at()]);
                match InputAttrs::of(&g.attrs(g.def[old.at()])).default {
                    Some(default) => b.input_or(name, dims, dtype, default),
                    None => b.input(name, dims, dtype),
                }
            }
            LeafKind::Param | LeafKind::State => c.leaf(old),
        };
        StepLeaf { old, kind, new, next: next[old] }
    };
    g.leaves().map(leaf).collect()
}
