//! Derivatives: ⟨J·v, w⟩ = ⟨v, Jᵀ·w⟩ for forward and reverse mode, and for the second derivative, ⟨H·v, w⟩ = ⟨v, H·w⟩,
//! by the oracle; and what the engine makes of the graphs of derivatives.

use super::pipeline::assert_agrees;
use super::{GRAPHS, Target, scripts};
use crate::engine::drawn_graph_with;
use crate::script::Script;
use arenagrad::error::{Error, Kind};
use arenagrad::graph::{DType, Graph, GraphBuf, LeafKind, Missing, hvp, jvp, vjp};
use arenagrad::tools::fuzz::{Array, LeafValues, Reference, RunOptions, interpret};
use arenagrad::tools::passes::promote_f64::promote_f64;

pub const TARGET: Target = Target {
    name: "derive",
    about: "forward and reverse mode are transposes of one another, Hessians are symmetric, by the oracle",
    run,
    seeds: scripts,
    words: &[],
    max_len: 320,
    memory: GRAPHS,
};

/// A transform may refuse a graph for what it derives; it breaks none.
fn refused(e: &Error, g: &GraphBuf) {
    assert!(!matches!(e.kind, Kind::Verify | Kind::Plan), "{e:?}\n{g:?}");
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let (seed, second, by_engine) = (script.seed(), script.below(4) == 0, script.below(4) == 0);
    let g = drawn_graph_with(&mut script, 5, |o| o.dtypes(&[DType::F32, DType::F64, DType::I32, DType::Bool]));
    let Ok(g) = promote_f64(g.view()) else { return };
    let v = g.view();
    let float = |x| matches!(v.ty(x).dtype, DType::F64);
    let wrt: Vec<String> = v.leaves().filter(|l| float(l.value)).map(|l| l.name.to_string()).collect();
    let wrt: Vec<&str> = wrt.iter().map(String::as_str).take(3).collect();
    let outputs: Vec<&str> =
        v.outputs().iter().zip(v.output_names).filter(|(o, _)| float(**o)).map(|(_, &name)| v.str(name)).collect();
    if wrt.is_empty() || outputs.is_empty() {
        return;
    }
    let scalar = v.outputs().iter().zip(v.output_names).find(|(o, _)| float(**o) && v.dims(**o).is_empty());
    if let (true, Some((_, &loss))) = (second, scalar) {
        return second_order(&g, v.str(loss), &wrt, seed);
    }
    match (jvp(&g, &outputs, &wrt), vjp(&g, &outputs, &wrt, Missing::Zero)) {
        (Ok(forward), Ok(reverse)) => {
            transposes(&g, &forward, &reverse, (&outputs, &wrt), seed);
            if by_engine {
                assert_agrees(&forward, seed, &RunOptions::default());
                assert_agrees(&reverse, seed, &RunOptions::default());
            }
        }
        (a, b) => [a, b].iter().filter_map(|r| r.as_ref().err()).for_each(|e| refused(e, &g)),
    }
}

/// A number and the most that it may be off.
#[derive(Clone, Copy, Default)]
struct Sum {
    value: f64,
    bound: f64,
}

impl Sum {
    /// Adds the inner product of two arrays.
    fn add(&mut self, a: &Array, b: &Array) {
        for i in 0..a.len() {
            let (x, y) = (a.number(i), b.number(i));
            let (dx, dy) = (a.bounds().get(i).copied().unwrap_or(0.0), b.bounds().get(i).copied().unwrap_or(0.0));
            self.value += x * y;
            self.bound += x.abs() * dy + y.abs() * dx + dx * dy + 1e-13 * (x * y).abs();
        }
    }

    /// Whether two sums differ by more than their bounds. A sum that is not finite, or not known, says nothing.
    fn apart(self, other: Sum) -> bool {
        let bound = self.bound + other.bound;
        bound.is_finite()
            && self.value.is_finite()
            && other.value.is_finite()
            && (self.value - other.value).abs() > bound
    }
}

/// The output called `name`.
fn output<'r>(r: &'r Reference, name: &str) -> Option<&'r Array> {
    r.outputs.iter().find(|o| o.name == name).map(|o| &*o.array)
}

/// The names that `after` has and `before` has not, in order: leaves, then outputs.
fn added(before: Graph<'_>, after: Graph<'_>) -> (Vec<String>, Vec<String>) {
    let leaves = after.leaves().filter(|l| l.kind == LeafKind::Input).map(|l| l.name.to_string());
    let had: Vec<String> = before.leaves().map(|l| l.name.to_string()).collect();
    let outputs = after.output_names[before.output_names.len()..].iter().map(|&s| after.str(s).to_string());
    (leaves.filter(|name| !had.contains(name)).collect(), outputs.collect())
}

/// ⟨J·v, w⟩ = ⟨v, Jᵀ·w⟩.
fn transposes(g: &GraphBuf, forward: &GraphBuf, reverse: &GraphBuf, names: (&[&str], &[&str]), seed: u64) {
    let leaves = LeafValues::draw_for(&[forward.view(), reverse.view()], seed);
    let (Ok(a), Ok(b)) = (interpret(forward.view(), &leaves), interpret(reverse.view(), &leaves)) else { return };
    let ((tangents, jv), (cotangents, jtw)) = (added(g.view(), forward.view()), added(g.view(), reverse.view()));
    let fits = tangents.len() == names.1.len() && cotangents.len() == names.0.len();
    if !fits || jv.len() != cotangents.len() || jtw.len() != tangents.len() {
        panic!("{tangents:?} {jv:?} {cotangents:?} {jtw:?}\n{g:?}");
    }
    let (mut left, mut right) = (Sum::default(), Sum::default());
    for (out, w) in jv.iter().zip(&cotangents) {
        if let (Some(x), Some(w)) = (output(&a, out), leaves.find(w)) {
            left.add(x, w);
        }
    }
    for (out, v) in jtw.iter().zip(&tangents) {
        if let (Some(x), Some(v)) = (output(&b, out), leaves.find(v)) {
            right.add(x, v);
        }
    }
    assert!(
        !left.apart(right),
        "⟨Jv, w⟩ is {:e} ± {:e}, ⟨v, Jᵀw⟩ is {:e} ± {:e}, seed {seed}\n{g:?}",
        left.value,
        left.bound,
        right.value,
        right.bound
    );
}

/// ⟨H·v, w⟩ = ⟨v, H·w⟩: both sides are one graph with v and w exchanged.
fn second_order(g: &GraphBuf, loss: &str, wrt: &[&str], seed: u64) {
    let h = match hvp(g, loss, wrt) {
        Ok(h) => h,
        Err(e) => return refused(&e, g),
    };
    let (tangents, outputs) = added(g.view(), h.view());
    let products: Vec<&String> = outputs.iter().filter(|name| name.starts_with("tangent.grad.")).collect();
    if tangents.len() != wrt.len() || products.len() != wrt.len() {
        return;
    }
    // Two draws of the tangents at one point.
    let at = LeafValues::draw(h.view(), seed);
    let with = LeafValues::draw(h.view(), seed + 0x1_0000);
    let mut other = at.clone();
    for leaf in other.leaves.iter_mut().filter(|leaf| tangents.contains(&leaf.name)) {
        leaf.array = with.find(&leaf.name).unwrap_or(&leaf.array).clone();
    }
    let (Ok(a), Ok(b)) = (interpret(h.view(), &at), interpret(h.view(), &other)) else { return };
    let (mut left, mut right) = (Sum::default(), Sum::default());
    for (product, t) in products.iter().zip(&tangents) {
        let (Some(hv), Some(hw)) = (output(&a, product), output(&b, product)) else { return };
        let (Some(v), Some(w)) = (at.find(t), other.find(t)) else { return };
        left.add(hv, w);
        right.add(hw, v);
    }
    assert!(
        !left.apart(right),
        "⟨Hv, w⟩ is {:e} ± {:e}, ⟨v, Hw⟩ is {:e} ± {:e}, seed {seed}\n{g:?}",
        left.value,
        left.bound,
        right.value,
        right.bound
    );
}
