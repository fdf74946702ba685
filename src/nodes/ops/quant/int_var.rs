//! Products of codes as methods of [`Var`].

use super::int_attrs::{ProductSte, QConvAttrs, QMatmulAttrs};
use crate::nodes::build::setters::setters;
use crate::nodes::build::size_attrs::{size_attr_to_i64, size_attrs_to_i64};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::conv::var::Conv2d;

/// Options of [`Var::q_matmul`] and [`Var::q_conv2d`]. A code q of x stands for s_x·(q − x_zp), and so on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodeProduct {
    /// The zero point of x.
    pub x_zp: i64,
    /// The zero point of w.
    pub w_zp: i64,
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

impl CodeProduct {
    fn new(to: DType) -> CodeProduct {
        let (s_x, s_w, s_out) = (1.0, 1.0, 1.0);
        CodeProduct { x_zp: 0, w_zp: 0, out_zp: 0, s_x, s_w, s_out, to, ste: ProductSte::Masked }
    }

    /// Results as `i8` codes: clamp(round(sum·s_x·s_w/s_out) + out_zp, −128, 127). Zero points are 0 and scales 1.
    pub fn to_i8() -> CodeProduct {
        CodeProduct::new(DType::I8)
    }

    /// Results as `i32` sums, which stand for s_x·s_w·sum.
    pub fn to_i32() -> CodeProduct {
        CodeProduct::new(DType::I32)
    }

    /// Results as numbers, sum·s_x·s_w.
    pub fn to_f32() -> CodeProduct {
        CodeProduct::new(DType::F32)
    }

    fn attrs(self, scales: bool) -> QMatmulAttrs {
        let CodeProduct { x_zp, w_zp, out_zp, s_x, s_w, s_out, to, ste } = self;
        QMatmulAttrs { x_zp, w_zp, out_zp, s_x, s_w, s_out, to, scales, ste }
    }
}

setters! {
    [] CodeProduct { x_zp: i64, w_zp: i64, out_zp: i64, s_x: f64, s_w: f64, s_out: f64, ste: ProductSte }
}

impl<'g> Var<'g> {
    /// The product of codes x `[.., k]` (`i8` or `u8`) with codes w `[k, n]` (`i8`): sums of (x − x_zp)·(w − w_zp) plus
    /// `bias`, computed exactly, as codes, sums or numbers ([`CodeProduct`]). Sums as `i32` wrap around if the bias
    /// makes them too large. `bias` is `i32[n]` and counts in steps of s_x·s_w; `scales` is `f32[n]`, the scale of each
    /// column of w in the place of s_w. An element of `scales` that is not above 0 and finite ends the step.
    ///
    /// Derivatives pass through codes as through the real numbers that they stand for, as in [`Var::quantize`]: those
    /// by x, w and `bias` are `f32`. They are 0 where a code of the result is cut off, unless [`ProductSte`] says
    /// otherwise. Scales have none.
    ///
    /// # Errors
    /// Those of [`Builder::finish`](crate::graph::Builder::finish): other types or shapes; a zero point that is no
    /// code; a scale that is not above 0 and finite; more than 33,000 terms of a sum, which could overflow; a zero
    /// point or scale of a result that has none.
    ///
    /// ```
    /// use arenagrad::graph::{CodeProduct, Quantize};
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("codes");
    /// let (x, w) = (g.input("x", [2, 3], DType::F32), g.input("w", [3, 2], DType::F32));
    /// let (a, b) = (g.constant(&[0.01f32], []), g.constant(&[0.02f32], []));
    /// let (x, w) = (x.quantize(a, None, Quantize::i8()), w.quantize(b, None, Quantize::i8()));
    /// let options = CodeProduct::to_f32().s_x(0.01).s_w(0.02);
    /// let y = x.q_matmul(w, None, None, options).named("y");
    /// let mut p = Session::new().compile(&g.finish([y])?)?;
    /// p.values_mut::<f32>("x")?.copy_from_slice(&[0.5, -1.0, 0.25, 1.0, 0.0, -0.5]);
    /// p.values_mut::<f32>("w")?.copy_from_slice(&[1.0, 2.0, -1.0, 0.5, 0.0, -2.0]);
    /// p.step()?;
    /// assert_eq!(p.values::<f32>("y")?, [1.5, 0.0, 1.0, 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn q_matmul(
        self,
        w: Var<'g>,
        bias: impl Into<Option<Var<'g>>>,
        scales: impl Into<Option<Var<'g>>>,
        options: CodeProduct,
    ) -> Var<'g> {
        let scales = scales.into();
        let args: Vec<Var<'g>> = [self, w].into_iter().chain(bias.into()).chain(scales).collect();
        self.g.emit1(Op::Q_MATMUL, &args, &options.attrs(scales.is_some()).list())
    }

    /// The convolution of codes x `[N, C, H, W]` with codes w `[O, C/groups, kh, kw]`: as [`Var::q_matmul`] over the
    /// windows of [`Var::conv2d`], with `bias` and `scales` for each channel of the result. Padding has the code x_zp,
    /// so it counts as 0.
    #[track_caller]
    pub fn q_conv2d(
        self,
        w: Var<'g>,
        bias: impl Into<Option<Var<'g>>>,
        scales: impl Into<Option<Var<'g>>>,
        windows: Conv2d,
        options: CodeProduct,
    ) -> Var<'g> {
        let scales = scales.into();
        let args: Vec<Var<'g>> = [self, w].into_iter().chain(bias.into()).chain(scales).collect();
        let QMatmulAttrs { x_zp, w_zp, out_zp, s_x, s_w, s_out, to, scales, ste } = options.attrs(scales.is_some());
        let attrs = QConvAttrs {
            stride: size_attrs_to_i64(&windows.stride),
            pad: size_attrs_to_i64(&windows.pad),
            dilation: size_attrs_to_i64(&windows.dilation),
            groups: size_attr_to_i64(windows.groups),
            x_zp,
            w_zp,
            out_zp,
            s_x,
            s_w,
            s_out,
            to,
            scales,
            ste,
        };
        self.g.emit1(Op::Q_CONV2D, &args, &attrs.list())
    }
}
