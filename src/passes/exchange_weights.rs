//! Products of a few rows with small weights in loops read the weights in the order of their terms.
//!
//! `x·Wᵀ` with few rows is computed as dot products, because copying Wᵀ would cost as much as the sums. Where a loop
//! has W as a constant, its axes are exchanged once, before the loop, and register tiles read it in place. The order of
//! each sum changes: it is one chain, as in a product with more rows, and no longer a sum of partial sums. The choice
//! follows from shapes alone, never from the number of iterations, so a loop in stretches has the bits of the whole
//! loop.

use crate::arena::{Node, Region, Value, Window, ids::Id};
use crate::kernels::gemm::Gemm;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::{Graph, Op};

/// The most rows. Dot products of more rows are as fast.
const MOST_ROWS: usize = 8;
/// The most bytes of a weight: a larger one is read faster row by row.
const MOST_BYTES: usize = 256 << 10;
/// The least columns: with fewer, lanes of a tile are idle.
const LEAST_COLUMNS: usize = 32;

/// The weight of product `n`, if its axes are to be exchanged before the loop. `fixed` are the values
/// that no iteration changes.
fn exchanged_weight(g: Graph<'_>, n: Node, fixed: &Window<Value, bool>) -> Option<Value> {
    if g.op[n.at()] != Op::MATMUL || MatmulAttrs::of(&g.attrs(n)) != (MatmulAttrs { ta: false, tb: true }) {
        return None;
    }
    let &[x, w] = g.args_of(n) else { return None };
    let d = g.dims(w);
    let (true, &[columns, terms]) = (fixed[w] && !fixed[x], &d[..]) else { return None };
    let rows = g.numel(x).checked_div(terms)?;
    let fits = (2..=MOST_ROWS).contains(&rows) && columns >= LEAST_COLUMNS && g.bytes(w) <= MOST_BYTES;
    let product = Gemm::new(rows, columns, terms).with_b_transposed();
    (fits && product.sum_lanes_for(g.dtype[w.at()]).is_some()).then_some(w)
}

/// The products of region `r`, the body of a loop, that are to read their weights with exchanged axes.
pub(super) fn find_exchanged_weights(g: Graph<'_>, r: Region, fixed: &Window<Value, bool>) -> Vec<(Node, Value)> {
    g.region_nodes(r).filter_map(|n| Some((n, exchanged_weight(g, n, fixed)?))).collect()
}

/// The matrices of region `r` with exchanged axes that loops in it have as constants: they leave the loop around, too.
pub(super) fn exchanged_for_loops(g: Graph<'_>, r: Region) -> Window<Value, bool> {
    let mut found = Window::filled(g.region_values(r), false);
    for n in g.region_nodes(r).filter(|&n| matches!(g.def_of(n).lower, Lower::Loop)) {
        let scan = Scan::of(&g.attrs(n));
        for &a in &g.args_of(n)[scan.carries..scan.xs()] {
            found[a] |= g.op[g.def[a.at()].at()] == Op::TRANSPOSE && g.dims(a).len() == 2 && g.bytes(a) <= MOST_BYTES;
        }
    }
    found
}
