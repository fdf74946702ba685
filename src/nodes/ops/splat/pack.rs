//! The pack of splats: `splat_prepare` and the `splat_rasterize` that reads its results become `splat_render`, which
//! has derivatives and keeps nothing between the two.

use super::attrs::SplatAttrs;
use crate::arena::{Node, Value, ids::Id};
use crate::kernels::cost_model::CostClass;
use crate::nodes::ir::graph::Graph;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ir::pack::Pack;
use crate::nodes::ir::pattern::{Found, Match, Pattern, PatternFacts, Roots};

/// What the engine knows of splats beside their definitions.
pub static PACK: Pack = Pack::new("splat")
    .patterns(&[Pattern { name: "splat-render", roots: STAGES, find: find_alone }])
    .before_ad(&[Pattern { name: "splat-render", roots: STAGES, find: find_stages }])
    .costs(&[("SPLAT", IMAGE)]);

const STAGES: Roots = Roots::Named(&["splat_rasterize"]);

/// Images of splats. An estimate: the rate of attention.
pub const IMAGE: CostClass = CostClass::new(300, 53_000, 30_000);

/// The operands of the `splat_prepare` whose results and view the `splat_rasterize` `n` reads as they are.
fn operands_of_stages(g: Graph<'_>, n: Node) -> Option<&[Value]> {
    let args = g.args_of(n);
    let first = g.def[args[0].at()];
    let split = g.op[first.at()] == Op::SPLAT_PREPARE
        && g.outs_of(first).eq(args[..3].iter().copied())
        && g.args_of(first).last() == args.last()
        && SplatAttrs::of(&g.attrs(first)) == SplatAttrs::of(&g.attrs(n));
    split.then(|| g.args_of(first))
}

/// `splat_rasterize` on what `splat_prepare` gives.
fn find_stages(f: &PatternFacts<'_>, root: Node) -> Found {
    let Some(operands) = operands_of_stages(f.g, root) else { return Found::No };
    let (attrs, gives) = (SplatAttrs::of(&f.attrs(root)), f.g.outs_of(root).zip(0..).collect());
    let make =
        Match::new(operands.to_vec(), gives, Vec::new(), move |g, a| g.emit(Op::SPLAT_RENDER, a, &attrs.list()).into());
    Found::Fired(make)
}

/// The same, if nothing else reads what `splat_prepare` gives.
fn find_alone(f: &PatternFacts<'_>, root: Node) -> Found {
    let found = find_stages(f, root);
    let Found::Fired(m) = found else { return found };
    let between = &f.args(root)[..3];
    match between.iter().find(|&&v| !f.alone(v)) {
        Some(&v) => Found::Missed(f.reads_of("what rays need of splats", v)),
        None => Found::Fired(Match { inner: vec![f.node(between[0])], ..m }),
    }
}
