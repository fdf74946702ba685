//! Attributes of products of codes.

use crate::ensure;
use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ops::conv::attrs::ConvAttrs;

choice! {
    /// The derivative of a product of codes.
    #[derive(Default)]
    pub enum ProductSte {
        /// That of the real numbers that codes stand for, 0 where a code of the result is cut off.
        #[default]
        Masked = "masked",
        /// That of the real numbers, cut off or not.
        Plain = "plain",
        /// That of the codes as numbers: for parity with engines that read cotangents so. It is no derivative of the
        /// chain from real numbers to real numbers, unless all scales are 1.
        Codes = "codes",
    }
}

attrs! {
    /// Attributes of `q_matmul`.
    pub struct QMatmulAttrs {
        /// The zero point of x.
        x_zp: i64,
        /// The zero point of w.
        w_zp: i64,
        /// The zero point of the result's codes; 0 if it has none.
        out_zp: i64,
        /// The scale of x.
        s_x: f64,
        /// The scale of w; 1 if each column has one.
        s_w: f64,
        /// The scale of the result's codes; 1 if it has none.
        s_out: f64,
        /// The type of the result: `i8` codes, `i32` sums, or `f32` numbers.
        to: DType,
        /// Whether the last operand is a scale for each column of w.
        scales: bool,
        /// The derivative.
        ste: ProductSte,
    }
}

attrs! {
    /// Attributes of `q_conv2d`.
    pub struct QConvAttrs {
        /// As in [`ConvAttrs`].
        stride: Vec<i64>,
        /// Zeros (codes of `x_zp`) before and after each axis, the first axis first.
        pad: Vec<i64>,
        /// As in [`ConvAttrs`].
        dilation: Vec<i64>,
        /// As in [`ConvAttrs`].
        groups: i64,
        /// As in [`QMatmulAttrs`].
        x_zp: i64,
        /// As in [`QMatmulAttrs`].
        w_zp: i64,
        /// As in [`QMatmulAttrs`].
        out_zp: i64,
        /// As in [`QMatmulAttrs`].
        s_x: f64,
        /// The scale of w; 1 if each channel of the result has one.
        s_w: f64,
        /// As in [`QMatmulAttrs`].
        s_out: f64,
        /// As in [`QMatmulAttrs`].
        to: DType,
        /// Whether the last operand is a scale for each channel of the result.
        scales: bool,
        /// As in [`QMatmulAttrs`].
        ste: ProductSte,
    }
}

impl QConvAttrs {
    /// The convolution.
    pub fn conv(&self) -> ConvAttrs {
        ConvAttrs {
            stride: self.stride.clone(),
            pad: self.pad.clone(),
            dilation: self.dilation.clone(),
            groups: self.groups,
        }
    }

    /// What it shares with a matrix product.
    pub fn product(&self) -> QMatmulAttrs {
        let QConvAttrs { x_zp, w_zp, out_zp, s_x, s_w, s_out, to, scales, ste, .. } = *self;
        QMatmulAttrs { x_zp, w_zp, out_zp, s_x, s_w, s_out, to, scales, ste }
    }

    /// The same convolution with the result in another type.
    pub fn sums(self) -> QConvAttrs {
        let QMatmulAttrs { out_zp, s_out, to, scales, .. } = self.product().sums();
        QConvAttrs { out_zp, s_out, to, scales, ..self }
    }
}

/// The most terms of a sum whose codes have any zero points: 255²·33000 is below 2³¹.
pub const MOST_TERMS: usize = 33_000;

impl QMatmulAttrs {
    /// What multiplies a sum, beside the scale of its column.
    pub fn multiplier(&self) -> f64 {
        match self.to {
            DType::I32 => 1.0,
            _ => self.s_x * self.s_w / self.s_out,
        }
    }

    /// The attributes of the product's sums.
    pub fn sums(&self) -> QMatmulAttrs {
        QMatmulAttrs { out_zp: 0, s_out: 1.0, to: DType::I32, scales: false, s_w: 1.0, ..self.clone() }
    }

    /// The bias among the operands, and the scales.
    pub fn places(&self, operands: usize) -> (Option<usize>, Option<usize>) {
        let bias = operands == if self.scales { 4 } else { 3 };
        (bias.then_some(2), self.scales.then(|| operands - 1))
    }

    /// Checks the attributes for codes of x of type `x` and sums of `terms` terms.
    pub fn check(&self, x: DType, operands: usize, terms: usize) -> Result<(), String> {
        let codes = |what: &str, zero: i64, dtype: DType| -> Result<(), String> {
            ensure!(dtype.holds(zero as f64), "{what} is {zero}, which is no {dtype}");
            Ok(())
        };
        codes("x_zp", self.x_zp, x)?;
        codes("w_zp", self.w_zp, DType::I8)?;
        ensure!(
            matches!(self.to, DType::I8 | DType::I32 | DType::F32),
            "the result is i8, i32 or f32, not {}",
            self.to
        );
        for (what, scale) in [("s_x", self.s_x), ("s_w", self.s_w), ("s_out", self.s_out)] {
            // Gradients are computed in f32.
            let held = (scale as f32) > 0.0 && (scale as f32).is_finite();
            ensure!(held, "{what} is {scale}; it must be above 0 and finite, in f32");
        }
        if self.to == DType::I8 {
            codes("out_zp", self.out_zp, DType::I8)?;
        } else {
            let none = self.out_zp == 0 && self.s_out == 1.0;
            ensure!(
                none,
                "out_zp is {} and s_out {}; a result that is {} has neither",
                self.out_zp,
                self.s_out,
                self.to
            );
        }
        ensure!(!self.scales || self.s_w == 1.0, "s_w is {} beside scales of columns; it must be 1 then", self.s_w);
        ensure!(!self.scales || operands >= 3, "{operands} operands; scales are the last of 3 or 4");
        ensure!(self.scales || operands <= 3, "{operands} operands; without scales there are at most 3");
        let multiplier = self.multiplier();
        ensure!(
            multiplier.is_finite() && multiplier > 0.0,
            "s_x·s_w/s_out is {multiplier}; it must be above 0 and finite"
        );
        ensure!(terms <= MOST_TERMS, "a sum has {terms} terms; more than {MOST_TERMS} may overflow 32 bits");
        Ok(())
    }
}
