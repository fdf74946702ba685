//! Splats that are prepared and rasterised by two ops.

use super::facts::PatternFacts;
use super::matches::{Found, Match};
use crate::arena::Node;
use crate::nodes::Op;
use crate::nodes::ops::splat::attrs::SplatAttrs;
use crate::passes::join_splats::operands_of_join_splats;

/// `splat_rasterize` on what `splat_prepare` gives, if nothing else reads that.
pub fn match_split_splat_render(f: &PatternFacts<'_>, root: Node) -> Found {
    let Some(operands) = operands_of_join_splats(f.g, root) else { return Found::No };
    let between = &f.args(root)[..3];
    if let Some(&v) = between.iter().find(|&&v| !f.alone(v)) {
        return Found::Missed(f.reads_of("what rays need of splats", v));
    }
    let (first, attrs) = (f.node(between[0]), SplatAttrs::of(&f.attrs(root)));
    let gives = f.g.outs_of(root).zip(0..).collect();
    Found::Fired(Match::new(operands.to_vec(), gives, vec![first], move |g, a| {
        g.emit(Op::SPLAT_RENDER, a, &attrs.list()).into()
    }))
}
