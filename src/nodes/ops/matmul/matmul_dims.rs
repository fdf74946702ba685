//! Shapes of matrix products.

use crate::ensure;
use crate::nodes::arguments::broadcast::broadcast_dims;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;

/// Result dimensions of a product with transpose flags, or the reason why there is none.
pub fn matmul_dims(a: &[usize], b: &[usize], ta: bool, tb: bool) -> Result<Vec<usize>, String> {
    ensure!(a.len() >= 2 && b.len() >= 2, "both operands need rank 2 or more");
    let (ra, rb) = (a.len() - 2, b.len() - 2);
    let (m, k) = if ta { (a[ra + 1], a[ra]) } else { (a[ra], a[ra + 1]) };
    let (l, n) = if tb { (b[rb + 1], b[rb]) } else { (b[rb], b[rb + 1]) };
    ensure!(k == l, "inner dimensions {k} and {l} differ");
    let batch = broadcast_dims(&a[..ra], &b[..rb]).ok_or("batch dimensions do not broadcast")?;
    Ok([&batch[..], &[m, n]].concat())
}

/// Result dimensions of the product of the first two operands.
pub fn matmul_operand_dims(cx: &Infer<'_>) -> Result<Vec<usize>, String> {
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&cx.attrs);
    matmul_dims(&cx.dims(0), &cx.dims(1), ta, tb)
}
