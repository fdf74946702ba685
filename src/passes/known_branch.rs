//! Choices whose branch is known when the graph is compiled: those with a constant predicate, and those whose branches
//! are equal. The branch replaces the choice, unless the predicate may stop the step.

use super::fold::known_bytes;
use super::inline::{InlineCalls, write_region_in_place};
use super::rebuild::rebuild;
use super::simplify::Hits;
use crate::arena::{Node, Region, Value, ids::Id};
use crate::error::Result;
use crate::nodes::ir::attrs::Owned;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::{Graph, Op};
use bumpalo::Bump;
use hashbrown::HashSet;

/// Replaces the choices of `g` whose branch is known. Counts them in `hits`.
pub fn known_branches<'b>(g: Graph<'_>, bump: &'b Bump, hits: &mut Hits) -> Result<Graph<'b>> {
    rebuild(g, bump, &mut |v| {
        if !matches!(v.def.lower, Lower::Choice) {
            return None;
        }
        let IfAttrs { then, otherwise } = IfAttrs::of(&g.attrs(v.node));
        let predicate = known_bytes(v.args[0]).and_then(|known| known.bytes.first().copied());
        let (branch, name) = match predicate {
            Some(0) => (otherwise, "choice-known"),
            Some(_) => (then, "choice-known"),
            None if cannot_stop_step(g, v.node) && bodies_are_equal(g, then, otherwise) => (then, "choice-equal"),
            None => return None,
        };
        *hits.entry(name).or_default() += 1;
        Some(write_region_in_place(v, branch, &v.args[1..], InlineCalls::All))
    })
}

/// True if the predicate of the choice `n` is a leaf, an argument, or point-wise in such values. Others may stop the
/// step, as the number of a switch does; then the predicate must be computed although both branches are equal.
fn cannot_stop_step(g: Graph<'_>, n: Node) -> bool {
    let mut todo = vec![g.args_of(n)[0]];
    let mut seen = HashSet::new();
    while let Some(v) = todo.pop() {
        let n = g.def[v.at()];
        if !seen.insert(n) || g.def_of(n).is_leaf() || g.op[n.at()] == Op::ARG {
            continue;
        }
        match g.def_of(n).lower {
            Lower::Tile(op, _) if op.cause().is_none() => todo.extend(g.args_of(n)),
            _ => return false,
        }
    }
    true
}

/// True if regions `a` and `b` compute the same from their arguments by the same nodes. Regions with regions of their
/// own count as different, unless they share them.
fn bodies_are_equal(g: Graph<'_>, a: Region, b: Region) -> bool {
    let (first, second) = (g.region_values(a).start, g.region_values(b).start);
    let same = |x: Value, y: Value| x.0 - first == y.0 - second;
    let all = |xs: &[Value], ys: &[Value]| xs.len() == ys.len() && xs.iter().zip(ys).all(|(&x, &y)| same(x, y));
    let nodes = || g.region_nodes(a).zip(g.region_nodes(b));
    g.region_nodes(a).len() == g.region_nodes(b).len()
        && all(g.region_yields(a), g.region_yields(b))
        && nodes().all(|(m, n)| {
            let attrs = || g.attrs(m).iter().zip(g.attrs(n).iter()).all(|(x, y)| attrs_are_equal(&x.1, &y.1));
            g.op[m.at()] == g.op[n.at()] && all(g.args_of(m), g.args_of(n)) && attrs()
        })
}

/// True if two attributes of one field are the same, bit by bit: 0 is not −0.
fn attrs_are_equal(a: &Owned, b: &Owned) -> bool {
    let bits = |xs: &[f64]| xs.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    match (a, b) {
        (Owned::F64(a), Owned::F64(b)) => a.to_bits() == b.to_bits(),
        (Owned::Floats(a), Owned::Floats(b)) => bits(a) == bits(b),
        (a, b) => a == b,
    }
}
