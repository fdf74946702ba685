//! Activity analysis: a derivative passes through the values that depend on the chosen leaves and on which the chosen
//! results depend, both along differentiable edges. One region at a time; a loop counts as one op.

use crate::arena::{Region, Value, Window, ids::Id};
use crate::nodes::ir::opdef::Deriv;
use crate::nodes::{Graph, OpDef};

/// True if a derivative can pass through the op. An op of [`Deriv::Error`] passes too: it becomes an error later, not a
/// silent zero.
pub fn passes(def: &OpDef) -> bool {
    !matches!(def.deriv, Deriv::Zero)
}

/// The values of region `r` that depend differentiably on `roots`, values of `r`.
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

/// The values of region `r` on which `results`, values of `r`, depend differentiably.
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
