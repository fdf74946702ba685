//! A vector-Jacobian product as two programs: the forward one hands over the values that the backward one reads.
//!
//! Invariant: both halves are nodes of the graph that [`vjp`] writes, so their results have its bits. Both compute the
//! values that depend on no leaf.

use super::grad::{Missing, vjp};
use crate::arena::{Node, Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::ir::leaf::is_leaf_name;
use crate::nodes::{Builder, Emit, Graph, GraphBuf, Init};
use crate::passes::copier::Copier;
use crate::passes::rebuild::{finish_rebuild, rebuild_buf, rebuilt_by_pass};
use crate::passes::signature::Signature;

/// The two halves of [`split_vjp`].
#[derive(Debug)]
#[non_exhaustive]
pub struct SplitVjp {
    /// The graph with its outputs and updates, and one more output for each saved value.
    pub forward: GraphBuf,
    /// Inputs `cotangent.<output>` and states for the saved values; outputs `grad.<leaf>`.
    pub backward: GraphBuf,
    /// Names of the saved values: outputs of `forward`, states of `backward`.
    pub saved: Vec<String>,
}

/// The vector-Jacobian product of `outputs` by `wrt` as two graphs, for many cotangents on one forward computation.
/// Step the program of `forward` once, hand its saved values over with
/// [`Program::take_saved`](crate::session::Program::take_saved), and step the program of `backward` for each cotangent.
///
/// # Errors
/// Those of [`vjp`].
///
/// ```
/// use arenagrad::graph::Missing;
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("squares");
/// let x = g.input("x", [3], DType::F64);
/// let graph = g.finish([(x * x).named("y")])?;
/// let halves = graph.split_vjp(&["y"], &["x"], Missing::Error)?;
/// let mut a = Session::new().compile(&halves.forward)?;
/// let mut b = Session::new().compile(&halves.backward)?;
/// a.values_mut::<f64>("x")?.copy_from_slice(&[1.0, 2.0, 3.0]);
/// a.step()?;
/// b.take_saved(&a)?;
/// for row in 0..3 {
///     let seed = b.values_mut::<f64>("cotangent.y")?;
///     seed.fill(0.0);
///     seed[row] = 1.0;
///     b.step()?; // a row of the Jacobian
///     assert_eq!(b.values::<f64>("grad.x")?[row], 2.0 * (row + 1) as f64);
/// }
/// # Ok(())
/// # }
/// ```
pub fn split_vjp<'a>(g: impl Into<Graph<'a>>, outputs: &[&str], wrt: &[&str], missing: Missing) -> Result<SplitVjp> {
    let g = g.into();
    let whole = vjp(g, outputs, wrt, missing)?;
    let halves = VjpHalves::new(whole.view(), g);
    let saved: Vec<String> = halves.saved.iter().map(|s| s.0.clone()).collect();
    Ok(SplitVjp { forward: halves.forward()?, backward: halves.backward()?, saved })
}

/// The graph of a vector-Jacobian product, and which of its nodes belong to which half.
struct VjpHalves<'x> {
    g: Graph<'x>,
    /// Number of outputs of the forward half.
    outputs: usize,
    /// Nodes that depend on a cotangent, and the cotangents.
    back: Side<Node, bool>,
    /// Nodes that depend on no leaf.
    free: Side<Node, bool>,
    /// Values of the forward half that the backward half reads, with their names.
    saved: Vec<(String, Value)>,
}

impl<'x> VjpHalves<'x> {
    /// The halves of `g`, the vector-Jacobian product of `before`.
    fn new(g: Graph<'x>, before: Graph<'_>) -> VjpHalves<'x> {
        let known = Signature::new(before);
        let (mut back, mut free) = (Side::filled(g.nodes(), false), Side::filled(g.nodes(), false));
        for l in g.leaves().filter(|l| !known.has_leaf(l.name)) {
            back[g.def[l.value.at()]] = true;
        }
        for n in g.region_nodes(g.entry()) {
            let args = || g.args_of(n).iter().map(|a| g.def[a.at()]);
            back[n] |= args().any(|a| back[a]);
            free[n] = g.def_of(n).is_pure() && args().all(|a| free[a]);
        }
        let outputs = before.outputs().len();
        let read = g.region_nodes(g.entry()).filter(|&n| back[n]).flat_map(|n| g.args_of(n));
        let mut seen = Side::filled(g.values(), false);
        let (mut names, mut saved) = (Signature::new(g), Vec::new());
        for &v in read.chain(&g.outputs()[outputs..]) {
            let n = g.def[v.at()];
            if !back[n] && !free[n] && !std::mem::replace(&mut seen[v], true) {
                let named = Some(g.names[v.at()]).filter(|s| s.is_some()).map(|s| g.str(s));
                let name = match named.filter(|s| is_leaf_name(s)) {
                    Some(s) => format!("saved.{s}"),
                    None => format!("saved.{}", saved.len()),
                };
                saved.push((names.unused(&name), v));
            }
        }
        VjpHalves { g, outputs, back, free, saved }
    }

    fn forward(&self) -> Result<GraphBuf> {
        let g = self.g;
        let all = rebuilt_by_pass("split_vjp", |bump| {
            let b = Builder::rewriting(Emit::like(&g));
            let mut c = Copier::new(g, &b).without(|n| self.back[n]);
            c.run(&mut |_| None);
            for (&v, &name) in g.outputs().iter().zip(g.output_names).take(self.outputs) {
                b.output(g.str(name), c.map[v]);
            }
            for (name, v) in &self.saved {
                b.output(name, c.map[*v]);
            }
            c.updates();
            drop(c);
            finish_rebuild(b, bump)
        })?;
        rebuild_buf(all.view(), &mut |_| None)
    }

    fn backward(&self) -> Result<GraphBuf> {
        let g = self.g;
        let first = g.nodes_at[g.entry().at()];
        let in_entry = |n: Node| n.at() >= first as usize;
        let all = rebuilt_by_pass("split_vjp", |bump| {
            let b = Builder::rewriting(Emit::like(&g));
            let mut c = Copier::new(g, &b).without(|n| in_entry(n) && !self.back[n] && !self.free[n]);
            for (name, v) in &self.saved {
                // A state of zeros would do without a value. This one must be handed over before a step.
                c.map[*v] = b.state(name, g.dims(*v), g.dtype[v.at()], Init::Ones);
            }
            c.run(&mut |_| None);
            for (&v, &name) in g.outputs().iter().zip(g.output_names).skip(self.outputs) {
                b.output(g.str(name), c.map[v]);
            }
            drop(c);
            finish_rebuild(b, bump)
        })?;
        rebuild_buf(all.view(), &mut |_| None)
    }
}
