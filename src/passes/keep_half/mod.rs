//! Half precision for what is kept: values that the backward half reads are kept as `bf16` or `f16`, and computed with
//! in `f32`.
//!
//! [`facts`] says which values of the forward half these are. Each is rounded after its last reader in the forward
//! half, and widened before its readers in the backward half. Readers that are near one another share one widening, so
//! that no `f32` copy lives long. Each widening reads an `optimization_barrier` of its own, so that no pass merges two
//! of them. A value that is a move, a shift or a scaling of a kept value is recomputed from it. [`loops`]: loops stack
//! rounded slices, and widen slices as they read them.
//!
//! Runs between patterns and pointwise fusion. At this point it is known which values fused ops keep, and a widening
//! can still become a step of the region that reads it.

mod facts;
mod loops;
#[cfg(test)]
mod tests;

use super::rebuild::{RebuildVisit, rebuild_buf};
use crate::arena::{DType, Node, Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::{Graph, GraphBuf, Op, Var};
use facts::{HalfFacts, Kept};

/// The most nodes between two readers that share one widened copy.
const NEAR: usize = 8;

/// The type in which a step keeps `f32` values from the forward to the backward half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// As they are.
    #[default]
    F32,
    /// `bf16`: 8 bits of precision, and the range of `f32`.
    Bf16,
    /// `f16`: 11 bits of precision; numbers beyond 65504 become infinite, those below 6e-8 zero.
    F16,
}

impl Keep {
    /// Each choice and its name.
    pub const ALL: &[(Keep, &'static str)] = &[(Keep::F32, "f32"), (Keep::Bf16, "bf16"), (Keep::F16, "f16")];

    /// The choice called `name`.
    pub fn named(name: &str) -> Option<Keep> {
        Keep::ALL.iter().find(|k| k.1 == name).map(|k| k.0)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        Keep::ALL[self as usize].1
    }

    /// The half type; `None` for `f32`.
    fn half_type(self) -> Option<DType> {
        match self {
            Keep::F32 => None,
            Keep::Bf16 => Some(DType::BF16),
            Keep::F16 => Some(DType::F16),
        }
    }
}

/// What a step keeps in half precision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeptHalf {
    /// The type.
    pub keep: Keep,
    /// Number of values that are kept in this type.
    pub values: usize,
    /// Their bytes in this type. In `f32` they would take twice as many.
    pub bytes: u64,
}

/// `g` with the values that its backward half reads kept in `keep`, and what these are. A graph without a backward half
/// stays as it is; so do values of other types than `f32`.
///
/// # Errors
/// Those of writing a graph.
pub fn keep_half(g: Graph<'_>, keep: Keep) -> Result<(GraphBuf, KeptHalf)> {
    // Dead nodes are no readers.
    let buf = rebuild_buf(g, &mut |_| None)?;
    let g = buf.view();
    let (Some(half_type), Some(facts)) = (keep.half_type(), HalfFacts::of(g)) else {
        return Ok((buf, KeptHalf { keep, ..KeptHalf::default() }));
    };
    let halves: Vec<Value> = (0..g.values()).map(Value::new).filter(|&v| facts.kept[v] == Kept::Half).collect();
    let bytes = halves.iter().map(|&v| (g.numel(v) * half_type.size()) as u64).sum();
    let kept = KeptHalf { keep, values: halves.len(), bytes };
    if halves.is_empty() {
        return Ok((buf, kept));
    }
    let mut round_after = Side::<Node, Vec<Value>>::filled(g.nodes(), Vec::new());
    for &v in &halves {
        round_after[facts.last_forward[v]].push(v);
    }
    let mut writer = HalfWriter {
        half_type,
        facts: &facts,
        round_after,
        half: Side::filled(g.values(), Value::NONE),
        wide: Side::filled(g.values(), None),
    };
    let written = rebuild_buf(g, &mut |v| writer.node(v))?;
    // Barriers that nothing reads any more, and stacks in `f32`.
    Ok((rebuild_buf(written.view(), &mut |_| None)?, kept))
}

/// The rule that writes the graph.
struct HalfWriter<'f> {
    half_type: DType,
    facts: &'f HalfFacts,
    /// By node of the forward half: the values that are rounded behind it.
    round_after: Side<Node, Vec<Value>>,
    /// Value of the source → its rounded copy. Each further widening reads a barrier on the one before.
    half: Side<Value, Value>,
    /// Value of the source → its last widened copy, and the last node that reads this one.
    wide: Side<Value, Option<(Value, Node)>>,
}

impl HalfWriter<'_> {
    fn node<'g>(&mut self, v: &RebuildVisit<'_, 'g>) -> Option<Vec<Var<'g>>> {
        if v.node <= self.facts.boundary {
            return self.forward_node(v);
        }
        // Bodies of loops stand before the entry, and their nodes before the boundary.
        if !self.facts.gradient[v.node] || v.op() == Op::OPTIMIZATION_BARRIER {
            return None;
        }
        self.backward_node(v)
    }

    /// Writes a node of the forward half, and rounds the values for which it is the last reader.
    fn forward_node<'g>(&mut self, v: &RebuildVisit<'_, 'g>) -> Option<Vec<Var<'g>>> {
        if self.round_after[v.node].is_empty() {
            return None;
        }
        let stacks = loops::stacks_in_half(v.src, self.facts, v.node);
        let mut outs = match stacks.is_empty() {
            true => copy_node(v, v.args),
            false => self.half_loop(v, v.args, &[], &stacks),
        };
        for (i, o) in v.src.outs_of(v.node).enumerate().filter(|(i, _)| stacks.get(*i) == Some(&true)) {
            self.half[o] = outs[i].v;
            // Nothing reads it: all readers are in the backward half.
            outs[i] = outs[i].cast(DType::F32);
        }
        for &x in &self.round_after[v.node] {
            if self.half[x] == Value::NONE {
                let own = v.src.outs_of(v.node).position(|o| o == x);
                self.half[x] = own.map_or(v.map[x], |i| outs[i]).cast(self.half_type).v;
            }
        }
        Some(outs)
    }

    /// Writes a node of the backward half so that it reads widened copies.
    fn backward_node<'g>(&mut self, v: &RebuildVisit<'_, 'g>) -> Option<Vec<Var<'g>>> {
        let src = v.src;
        if !src.args_of(v.node).iter().any(|&a| self.facts.kept[half_behind_barriers(src, self.facts, a)] != Kept::Full)
        {
            return None;
        }
        let slices = loops::loop_slices_in_half(src, self.facts, v.node);
        let mut args = Vec::with_capacity(v.args.len());
        for (i, &a) in src.args_of(v.node).iter().enumerate() {
            args.push(match slices.get(i) {
                Some(true) => v.g.var(self.half[a]),
                _ => self.widened(v, a),
            });
        }
        v.g.with(|e| e.set_loc(src.loc[v.node.at()]));
        Some(match slices.is_empty() {
            true => copy_node(v, &args),
            false => self.half_loop(v, &args, &slices, &[]),
        })
    }

    /// What node `v` of the backward half reads instead of `a`.
    fn widened<'g>(&mut self, v: &RebuildVisit<'_, 'g>, a: Value) -> Var<'g> {
        let (src, g) = (v.src, v.g);
        let x = half_behind_barriers(src, self.facts, a);
        let kept = self.facts.kept[x];
        if kept == Kept::Full {
            return v.map[a];
        }
        if let Some((copy, reader)) = self.wide[x].filter(|w| v.node.at() - w.1.at() <= NEAR) {
            self.wide[x] = Some((copy, reader.max(v.node)));
            return g.var(copy);
        }
        let maker = src.def[x.at()];
        let copy = if kept == Kept::Half {
            g.with(|e| e.set_loc(src.loc[maker.at()]));
            self.half[x] = g.emit1(Op::OPTIMIZATION_BARRIER, &[g.var(self.half[x])], &[]).v;
            g.var(self.half[x]).cast(DType::F32)
        } else {
            let args: Vec<Value> = src.args_of(maker).iter().map(|&b| self.widened(v, b).v).collect();
            let out = g.with(|e| {
                e.set_loc(src.loc[maker.at()]);
                e.copy(&src, maker, &args, v.regions).at(0)
            });
            g.var(out)
        };
        self.wide[x] = Some((copy.v, v.node));
        copy
    }
}

/// Copies node `v` with operands `args`.
fn copy_node<'g>(v: &RebuildVisit<'_, 'g>, args: &[Var<'g>]) -> Vec<Var<'g>> {
    let args: Vec<Value> = args.iter().map(|a| a.v).collect();
    let outs: Vec<Value> = v.g.with(|e| e.copy(&v.src, v.node, &args, v.regions).iter().collect());
    outs.into_iter().map(|o| v.g.var(o)).collect()
}

/// The value that is `a` before barriers of the backward half, through which copies read kept values. A widening has a
/// barrier of its own.
fn half_behind_barriers(g: Graph<'_>, f: &HalfFacts, mut a: Value) -> Value {
    loop {
        let n = g.def[a.at()];
        if n <= f.boundary || g.op[n.at()] != Op::OPTIMIZATION_BARRIER {
            return a;
        }
        a = g.args_of(n)[0];
    }
}
