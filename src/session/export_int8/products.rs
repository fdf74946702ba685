//! Products of codes in place of products of rounded numbers.

use super::Coded;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::{Op, Var};
use crate::passes::rebuild::RebuildVisit;

/// The product `op` of the node `v` on codes, as real numbers. `None` if there is no such product: then the product of
/// rounded numbers stays.
pub(super) fn integer_product<'g>(v: &RebuildVisit<'_, 'g>, op: Op, a: Coded, b: Coded) -> Option<Var<'g>> {
    match op {
        Op::MATMUL => integer_matmul(v, a, b),
        _ => None,
    }
}

/// Sums of products of codes as real numbers: each column of `sums` along `axis` has the scale a·b.
fn real_sums<'g>(sums: Var<'g>, a: Coded, b: Coded, axis: usize) -> Var<'g> {
    let scale = sums.g.var(a.scale) * sums.g.var(b.scale);
    sums.dequantize(scale, None, (scale.rank() == 1).then_some(axis as i64))
}

fn integer_matmul<'g>(v: &RebuildVisit<'_, 'g>, a: Coded, b: Coded) -> Option<Var<'g>> {
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&v.src.attrs(v.node));
    let (x, w) = (v.g.var(a.codes), v.g.var(b.codes));
    let columns = if tb { 0 } else { 1 };
    let fits = a.axis.is_none() && w.rank() == 2 && b.axis.is_none_or(|axis| axis == columns);
    if !fits || a.zero != Some(0) || b.zero != Some(0) {
        return None;
    }
    let sums = x.matmul_t(w, ta, tb);
    Some(real_sums(sums, a, b, sums.rank() - 1))
}
