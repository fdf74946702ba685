//! Products of codes in place of products of rounded numbers.

use super::Int8ExportCodes;
use crate::nodes::ops::conv::attrs::ConvAttrs;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::ops::quant::int_attrs::{MOST_TERMS, ProductSte, QConvAttrs, QMatmulAttrs};
use crate::nodes::{DType, Op, Var};
use crate::passes::rebuild::RebuildVisit;

impl Int8ExportCodes {
    /// The zero point, if there is one and it is one of `i8`, as products of codes need.
    fn product_zero_point(&self) -> Option<i32> {
        self.zero.filter(|z| (-128..=127).contains(z))
    }
}

/// The product `op` of the node `v` on codes, as real numbers. `None` if there is no such product: then the product of
/// rounded numbers stays.
pub(super) fn export_product<'g>(
    v: &RebuildVisit<'_, 'g>,
    op: Op,
    a: Int8ExportCodes,
    b: Int8ExportCodes,
) -> Option<Var<'g>> {
    match op {
        Op::MATMUL => export_matmul_product(v, a, b),
        Op::CONV2D => export_conv2d_product(v, a, b),
        _ => None,
    }
}

/// The attributes of sums of products of codes with these zero points.
fn export_product_attrs(x_zp: i32, w_zp: i32) -> QMatmulAttrs {
    let (s_x, s_w, s_out) = (1.0, 1.0, 1.0);
    let (x_zp, w_zp, ste) = (i64::from(x_zp), i64::from(w_zp), ProductSte::Masked);
    QMatmulAttrs { x_zp, w_zp, out_zp: 0, s_x, s_w, s_out, to: DType::I32, zeros: false, scales: false, ste }
}

/// Sums of products of codes as real numbers: each position of `sums` along `axis` has the scale of a times that of b.
fn export_product_in_reals<'g>(sums: Var<'g>, a: Int8ExportCodes, b: Int8ExportCodes, axis: usize) -> Var<'g> {
    let scale = sums.g.var(a.scale) * sums.g.var(b.scale);
    sums.dequantize(scale, None, (scale.rank() == 1).then_some(axis as i64))
}

fn export_matmul_product<'g>(v: &RebuildVisit<'_, 'g>, a: Int8ExportCodes, b: Int8ExportCodes) -> Option<Var<'g>> {
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&v.src.attrs(v.node));
    let (x, w) = (v.g.var(a.codes), v.g.var(b.codes));
    let columns = if tb { 0 } else { 1 };
    let fits = a.axis.is_none() && x.rank() >= 2 && w.rank() == 2 && b.axis.is_none_or(|axis| axis == columns);
    if !fits || w.dims()[1 - columns] > MOST_TERMS {
        return None;
    }
    let swapped = |x: Var<'g>, swap: bool| if swap { x.movedim(&[-1], &[-2]) } else { x };
    let (x, w) = (swapped(x, ta), swapped(w, tb));
    let sums = v.g.emit1(
        Op::Q_MATMUL,
        &[x, w],
        &export_product_attrs(a.product_zero_point()?, b.product_zero_point()?).list(),
    );
    Some(export_product_in_reals(sums, a, b, sums.rank() - 1))
}

fn export_conv2d_product<'g>(v: &RebuildVisit<'_, 'g>, a: Int8ExportCodes, b: Int8ExportCodes) -> Option<Var<'g>> {
    let (x, w) = (v.g.var(a.codes), v.g.var(b.codes));
    let fits = a.axis.is_none() && b.axis.is_none_or(|axis| axis == 0);
    if !fits || w.dims().iter().skip(1).product::<usize>() > MOST_TERMS {
        return None;
    }
    let ConvAttrs { stride, pad, dilation, groups } = ConvAttrs::of(&v.src.attrs(v.node));
    let QMatmulAttrs { x_zp, w_zp, out_zp, s_x, s_w, s_out, to, zeros, scales, ste } =
        export_product_attrs(a.product_zero_point()?, b.product_zero_point()?);
    let attrs =
        QConvAttrs { stride, pad, dilation, groups, x_zp, w_zp, out_zp, s_x, s_w, s_out, to, zeros, scales, ste };
    let sums = v.g.emit1(Op::Q_CONV2D, &[x, w], &attrs.list());
    Some(export_product_in_reals(sums, a, b, 1))
}
