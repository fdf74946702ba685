//! Regions without the parts that nothing reads.

use super::rebuild::RebuildVisit;
use crate::arena::{Node, Region, Value, Window, ids::Id};
use crate::nodes::{Graph, Op, Ty};

/// The values of region `r` on which those of its yields depend that are true in `yields`.
pub fn live_in_trimmed_region(g: Graph<'_>, r: Region, yields: &[bool]) -> Window<Value, bool> {
    let mut live = Window::filled(g.region_values(r), false);
    g.region_yields(r).iter().zip(yields).filter(|y| *y.1).for_each(|(&y, _)| live[y] = true);
    for n in g.region_nodes(r).rev() {
        if g.outs_of(n).any(|v| live[v]) {
            g.args_of(n).iter().for_each(|&a| live[a] = true);
        }
    }
    live
}

/// Copies the nodes of region `r` of the source that `takes` accepts into the open region. `map` has the new arguments,
/// and gets the results.
pub fn copy_trimmed_region_nodes(
    v: &RebuildVisit<'_, '_>,
    r: Region,
    map: &mut Window<Value, Value>,
    takes: impl Fn(Node) -> bool,
) {
    let (src, g) = (v.src, v.g);
    for n in src.region_nodes(r).filter(|&n| src.op[n.at()] != Op::ARG && takes(n)) {
        g.with(|e| e.set_loc(src.loc[n.at()]));
        let ops: Vec<Value> = src.args_of(n).iter().map(|&a| map[a]).collect();
        let outs = g.with(|e| e.copy(&src, n, &ops, v.regions));
        src.outs_of(n).zip(outs.iter()).for_each(|(o, new)| map[o] = new);
    }
}

/// Writes region `r` of the source with the arguments and the yields that are true in `args` and `yields`, and with the
/// nodes of `live` values. The new region.
pub fn trimmed_region(
    v: &RebuildVisit<'_, '_>,
    r: Region,
    args: &[bool],
    yields: &[bool],
    live: &Window<Value, bool>,
) -> Region {
    let (src, g) = (v.src, v.g);
    let kept: Vec<Value> = src.region_args(r).zip(args).filter(|a| *a.1).map(|a| a.0).collect();
    let tys: Vec<Ty> = kept.iter().map(|&a| src.ty(a)).collect();
    let body = g.region(src.str(src.region_names[r.at()]), &tys, |args| {
        let mut map = Window::filled(src.region_values(r), Value::NONE);
        kept.iter().zip(args).for_each(|(&a, x)| map[a] = x.v);
        copy_trimmed_region_nodes(v, r, &mut map, |n| src.outs_of(n).any(|v| live[v]));
        let kept = src.region_yields(r).iter().zip(yields).filter(|y| *y.1);
        kept.map(|(&y, _)| g.var(map[y])).collect()
    });
    body.region
}
