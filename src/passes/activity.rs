//! Which values a derivative passes through: those that depend on the asked-for leaves and on which the asked-for
//! results depend, both along differentiable edges only.

use crate::arena::{Side, Value, ids::Id};
use crate::nodes::opdef::Deriv;
use crate::nodes::{Graph, OpDef};

/// Whether a derivative can pass through an op at all. An op without one counts as passing: it is an error later,
/// not a silent zero.
pub fn passes(def: &OpDef) -> bool {
    !matches!(def.deriv, Deriv::Zero)
}

/// Values that depend differentiably on `roots`.
pub fn depends(g: Graph<'_>, roots: &[Value]) -> Side<Value, bool> {
    let mut d = Side::filled(g.values(), false);
    for &r in roots {
        d[r] = true;
    }
    for n in g.region_nodes(g.entry()) {
        if passes(g.def_of(n)) && g.args_of(n).iter().any(|&a| d[a]) {
            for v in g.outs_of(n) {
                d[v] = g.dtype[v.at()].is_differentiable();
            }
        }
    }
    d
}

/// Values on which `results` depend differentiably.
pub fn reaches(g: Graph<'_>, results: &[Value]) -> Side<Value, bool> {
    let mut d = Side::filled(g.values(), false);
    for &r in results {
        d[r] = true;
    }
    for n in g.region_nodes(g.entry()).rev() {
        if passes(g.def_of(n)) && g.outs_of(n).any(|v| d[v]) {
            for &a in g.args_of(n) {
                if g.dtype[a.at()].is_differentiable() {
                    d[a] = true;
                }
            }
        }
    }
    d
}
