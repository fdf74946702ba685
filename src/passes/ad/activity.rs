//! Which values a derivative passes through: those that depend on the asked-for leaves and on which the asked-for
//! results depend, both along differentiable edges only. One region at a time: a loop counts as one op.

use crate::arena::{Region, Value, Window, ids::Id};
use crate::nodes::ir::opdef::Deriv;
use crate::nodes::{Graph, OpDef};

/// Whether a derivative can pass through an op at all. An op without one counts as passing: it is an error later,
/// not a silent zero.
pub fn passes(def: &OpDef) -> bool {
    !matches!(def.deriv, Deriv::Zero)
}

/// Values of `r` that depend differentiably on `roots`, which are values of it.
pub fn depends(g: Graph<'_>, r: Region, roots: &[Value]) -> Window<Value, bool> {
    let mut d = Window::filled(g.region_values(r), false);
    for &root in roots {
        d[root] = true;
    }
    for n in g.region_nodes(r) {
        if passes(g.def_of(n)) && g.args_of(n).iter().any(|&a| d[a]) {
            for v in g.outs_of(n) {
                d[v] = g.dtype[v.at()].is_differentiable();
            }
        }
    }
    d
}

/// Values of `r` on which `results`, values of it, depend differentiably.
pub fn reaches(g: Graph<'_>, r: Region, results: &[Value]) -> Window<Value, bool> {
    let mut d = Window::filled(g.region_values(r), false);
    for &result in results {
        d[result] = true;
    }
    for n in g.region_nodes(r).rev() {
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
