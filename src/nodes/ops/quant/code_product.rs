//! Options of products of codes.

use super::int_attrs::{ProductSte, QMatmulAttrs};
use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;

/// Options of [`Var::q_matmul`](crate::graph::Var::q_matmul) and [`Var::q_conv2d`](crate::graph::Var::q_conv2d). A code
/// q of x stands for s_x·(q − x_zp), one of w for s_w·(q − w_zp), and one of the result for s_out·(q − out_zp).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CodeProduct<'g> {
    /// The zero point of x.
    pub x_zp: i64,
    /// The zero point of w. It stays 0 if each column of w has one.
    pub w_zp: i64,
    /// A zero point for each column of w, `i8[n]`; for each channel of the result of a convolution.
    pub w_zps: Option<Var<'g>>,
    /// The zero point of the result's codes.
    pub out_zp: i64,
    /// The scale of x.
    pub s_x: f64,
    /// The scale of w. It stays 1 if each column of w has a scale.
    pub s_w: f64,
    /// The scale of the result's codes.
    pub s_out: f64,
    /// The type of the result: `i8` codes, `i32` sums without scales, or `f32` numbers.
    pub to: DType,
    /// The derivative.
    pub ste: ProductSte,
}

impl<'g> CodeProduct<'g> {
    fn new(to: DType) -> Self {
        let (s_x, s_w, s_out) = (1.0, 1.0, 1.0);
        CodeProduct { x_zp: 0, w_zp: 0, w_zps: None, out_zp: 0, s_x, s_w, s_out, to, ste: ProductSte::Masked }
    }

    /// Results as `i8` codes: clamp(round(sum·s_x·s_w/s_out) + out_zp, −128, 127). Zero points are 0 and scales 1.
    pub fn to_i8() -> Self {
        CodeProduct::new(DType::I8)
    }

    /// Results as `i32` sums, which stand for s_x·s_w·sum.
    pub fn to_i32() -> Self {
        CodeProduct::new(DType::I32)
    }

    /// Results as numbers, sum·s_x·s_w.
    pub fn to_f32() -> Self {
        CodeProduct::new(DType::F32)
    }

    pub(super) fn attrs(self, scales: bool) -> QMatmulAttrs {
        let CodeProduct { x_zp, w_zp, w_zps, out_zp, s_x, s_w, s_out, to, ste } = self;
        QMatmulAttrs { x_zp, w_zp, out_zp, s_x, s_w, s_out, to, zeros: w_zps.is_some(), scales, ste }
    }
}

setters! {
    ['g] CodeProduct<'g> {
        x_zp: i64,
        w_zp: i64,
        w_zps: Option<Var<'g>>,
        out_zp: i64,
        s_x: f64,
        s_w: f64,
        s_out: f64,
        ste: ProductSte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_begins_without_zero_points_and_with_scales_of_one() {
        let none = QMatmulAttrs {
            x_zp: 0,
            w_zp: 0,
            out_zp: 0,
            s_x: 1.0,
            s_w: 1.0,
            s_out: 1.0,
            to: DType::I8,
            zeros: false,
            scales: false,
            ste: ProductSte::Masked,
        };
        assert_eq!(CodeProduct::to_i8().attrs(false), none);
        assert_eq!(CodeProduct::to_i32().attrs(true), QMatmulAttrs { to: DType::I32, scales: true, ..none.clone() });
        assert_eq!(CodeProduct::to_f32().s_x(2.0).attrs(false), QMatmulAttrs { to: DType::F32, s_x: 2.0, ..none });
    }
}
