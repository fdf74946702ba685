//! Derivatives, by the engine and the oracle: forward and reverse mode are transposes of one another and agree with
//! differences, in first and second order; and Hessians are symmetric: ⟨H·v, w⟩ = ⟨v, H·w⟩.

use super::{GRAPHS, Target, scripts};
use crate::engine::{drawn_graph_with, with_loss};
use crate::script::Script;
use arenagrad::error::Kind;
use arenagrad::graph::{DType, Graph, GraphBuf, hvp};
use arenagrad::tools::fuzz::{Array, InnerProduct, LeafValues, Reference, check_transform, interpret};
use arenagrad::tools::ir::opdef::Flags;
use arenagrad::tools::passes::promote_f64::promote_f64;

pub const TARGET: Target = Target {
    name: "derive",
    about: "forward and reverse mode are transposes and agree with differences, Hessians are symmetric",
    run,
    seeds: scripts,
    words: &[],
    max_len: 320,
    memory: GRAPHS,
};

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut script = Script::new(data);
    let (seed, kind) = (script.seed(), script.below(8));
    let g = drawn_graph_with(&mut script, 4, |o| o.dtypes(&[DType::F32, DType::F64, DType::I32, DType::Bool]));
    match kind {
        0 | 1 => symmetric(&g, seed),
        _ => {
            if let Err(found) = check_transform(&g, seed, if kind == 2 { 2 } else { 1 }) {
                // Findings whose first lines agree count as one defect.
                let what = found.difference.as_ref().map_or(&found.what, |d| &d.name);
                panic!("{}: {what}\n{found}", found.check);
            }
        }
    }
}

/// The names of some float leaves.
fn float_leaves(g: Graph<'_>) -> Vec<&str> {
    g.leaves().filter(|l| g.ty(l.value).dtype == DType::F64).map(|l| l.name).take(3).collect()
}

fn output<'r>(r: &'r Reference, name: &str) -> Option<&'r Array> {
    r.outputs.iter().find(|o| o.name == name).map(|o| &*o.array)
}

/// ⟨H·v, w⟩ = ⟨v, H·w⟩ for the Hessian of a loss, by the oracle: one graph, with v or w as the tangent.
fn symmetric(g: &GraphBuf, seed: u64) {
    let wide = promote_f64(g.view()).unwrap_or_else(|e| panic!("{e}\n{g:?}"));
    let Some((wide, loss)) = with_loss(&wide) else { return };
    let wrt = float_leaves(wide.view());
    if wrt.is_empty() {
        return;
    }
    let h = match hvp(&wide, &loss, &wrt) {
        Ok(h) => h,
        Err(e) => return assert!(e.kind == Kind::Derivative, "{e:?}\n{wide:?}"),
    };
    let tangents: Vec<String> = wrt.iter().map(|name| format!("tangent.{name}")).collect();
    let draw = |seed| LeafValues::draw(h.view(), seed);
    let (Ok(at), Ok(with)) = (draw(seed), draw(seed + 0x1_0000)) else { return };
    let mut other = at.clone();
    for leaf in other.leaves.iter_mut().filter(|leaf| tangents.contains(&leaf.name)) {
        leaf.array = with.find(&leaf.name).unwrap_or(&leaf.array).clone();
    }
    let (Ok(a), Ok(b)) = (interpret(h.view(), &at), interpret(h.view(), &other)) else { return };
    let (mut left, mut right) = (InnerProduct::default(), InnerProduct::default());
    for (name, tangent) in wrt.iter().zip(&tangents) {
        let product = format!("tangent.grad.{name}");
        // A name that was taken is another one in the graph of derivatives.
        let (Some(hv), Some(hw)) = (output(&a, &product), output(&b, &product)) else { return };
        let (Some(v), Some(w)) = (at.find(tangent), other.find(tangent)) else { return };
        left.add(hv, w);
        right.add(hw, v);
    }
    // Rules that users give need not be those of a function, nor those of rounding.
    let own = (0..wide.view().nodes()).any(|n| {
        let def = wide.view().def_of(arenagrad::tools::arena::Node(n as u32));
        def.name == "custom_fn" || def.flags.has(Flags::QUANT) || def.flags.has(Flags::STRAIGHT)
    });
    assert!(own || !left.differs(right), "⟨Hv, w⟩ is {left:?}, ⟨v, Hw⟩ is {right:?}, seed {seed}\n{wide:?}");
}
