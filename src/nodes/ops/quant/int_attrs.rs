//! Attributes of products of codes.

use crate::ensure;
use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ops::conv::attrs::ConvAttrs;

choice! {
    /// The derivative of a product of codes.
    #[derive(Default)]
    #[non_exhaustive]
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
        /// The zero point of w; 0 if each column has one.
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
        /// Whether an operand behind the bias is a zero point for each column of w.
        zeros: bool,
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
        /// Whether an operand behind the bias is a zero point for each channel of the result.
        zeros: bool,
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
        let QConvAttrs { x_zp, w_zp, out_zp, s_x, s_w, s_out, to, zeros, scales, ste, .. } = *self;
        QMatmulAttrs { x_zp, w_zp, out_zp, s_x, s_w, s_out, to, zeros, scales, ste }
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

    /// The number of operands of a product without a bias.
    fn least(&self) -> usize {
        2 + usize::from(self.zeros) + usize::from(self.scales)
    }

    /// The bias among the operands, and the scales.
    pub fn places(&self, operands: usize) -> (Option<usize>, Option<usize>) {
        ((operands > self.least()).then_some(2), self.scales.then(|| operands - 1))
    }

    /// The zero points of the columns among the operands.
    pub fn zeros_place(&self, operands: usize) -> Option<usize> {
        self.zeros.then(|| operands - 1 - usize::from(self.scales))
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
        ensure!(!self.zeros || self.w_zp == 0, "w_zp is {} beside zeros of columns; it must be 0 then", self.w_zp);
        let least = self.least();
        let given = if self.zeros { ", with zeros" } else { "" };
        ensure!(
            !self.scales || operands >= least,
            "{operands} operands{given}; scales are the last of {least} or {}",
            least + 1
        );
        ensure!(operands >= least, "{operands} operands; zeros are the last of {least} or {}", least + 1);
        let without = if self.scales { "" } else { ", without scales" };
        ensure!(operands <= least + 1, "{operands} operands{given}{without}; there are at most {}", least + 1);
        ensure!(terms <= MOST_TERMS, "a sum has {terms} terms; more than {MOST_TERMS} may overflow 32 bits");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODES: QMatmulAttrs = QMatmulAttrs {
        x_zp: 3,
        w_zp: -1,
        out_zp: 5,
        s_x: 0.5,
        s_w: 0.25,
        s_out: 4.0,
        to: DType::I8,
        zeros: false,
        scales: false,
        ste: ProductSte::Plain,
    };

    /// Why two terms of `i8` codes with `operands` operands are refused.
    fn refused(a: QMatmulAttrs, operands: usize) -> String {
        a.check(DType::I8, operands, 2).unwrap_err()
    }

    #[test]
    fn sums_have_neither_scale_nor_zero_point_of_a_result() {
        let sums = CODES.sums();
        let want = QMatmulAttrs { out_zp: 0, s_w: 1.0, s_out: 1.0, to: DType::I32, ..CODES };
        assert_eq!(sums, want);
        assert_eq!(QMatmulAttrs { scales: true, s_w: 1.0, ..CODES }.sums(), want);
        assert_eq!((CODES.multiplier(), sums.multiplier()), (0.03125, 1.0));
    }

    #[test]
    fn a_bias_stands_before_scales() {
        let with = QMatmulAttrs { scales: true, ..CODES };
        assert_eq!([2, 3].map(|n| CODES.places(n)), [(None, None), (Some(2), None)]);
        assert_eq!([3, 4].map(|n| with.places(n)), [(None, Some(2)), (Some(2), Some(3))]);
        let zeros = QMatmulAttrs { zeros: true, ..with };
        assert_eq!([4, 5].map(|n| zeros.places(n)), [(None, Some(3)), (Some(2), Some(4))]);
        assert_eq!([4, 5].map(|n| zeros.zeros_place(n)), [Some(2), Some(3)]);
        assert_eq!(QMatmulAttrs { scales: false, ..zeros }.zeros_place(3), Some(2));
    }

    #[test]
    fn what_fits_is_accepted_to_the_limit() {
        let scaled = QMatmulAttrs { scales: true, s_w: 1.0, ..CODES };
        let floats = QMatmulAttrs { out_zp: 0, s_out: 1.0, to: DType::F32, ..CODES };
        for (a, operands) in [(&CODES, 2), (&CODES, 3), (&scaled, 3), (&scaled, 4), (&floats, 2), (&CODES.sums(), 2)] {
            assert_eq!(a.check(DType::I8, operands, MOST_TERMS), Ok(()), "{a:?}");
        }
        let unsigned = QMatmulAttrs { x_zp: 255, w_zp: -128, out_zp: 127, s_x: 1e-30, s_out: 1e-30, ..CODES };
        assert_eq!(unsigned.check(DType::U8, 2, 1), Ok(()));
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        for (a, why) in [
            (QMatmulAttrs { x_zp: 128, ..CODES }, "x_zp is 128, which is no i8"),
            (QMatmulAttrs { w_zp: -129, ..CODES }, "w_zp is -129, which is no i8"),
            (QMatmulAttrs { out_zp: 128, ..CODES }, "out_zp is 128, which is no i8"),
            (QMatmulAttrs { to: DType::F64, ..CODES }, "the result is i8, i32 or f32, not f64"),
            (QMatmulAttrs { s_x: 0.0, ..CODES }, "s_x is 0; it must be above 0 and finite, in f32"),
            (QMatmulAttrs { s_x: 1e-46, ..CODES }, "it must be above 0 and finite, in f32"),
            (QMatmulAttrs { s_w: 1e39, ..CODES }, "it must be above 0 and finite, in f32"),
            (QMatmulAttrs { s_out: -1.0, ..CODES }, "s_out is -1; it must be above 0 and finite, in f32"),
            (QMatmulAttrs { s_out: 1.0, to: DType::I32, ..CODES }, "out_zp is 5 and s_out 1; a result that is i32"),
            (QMatmulAttrs { out_zp: 0, to: DType::F32, ..CODES }, "out_zp is 0 and s_out 4; a result that is f32"),
        ] {
            let e = refused(a, 2);
            assert!(e.contains(why), "{e}");
        }
        let scaled = QMatmulAttrs { scales: true, s_w: 1.0, ..CODES };
        assert!(refused(QMatmulAttrs { scales: true, ..CODES }, 3).contains("s_w is 0.25 beside scales of columns"));
        assert!(refused(scaled, 2).contains("2 operands; scales are the last of 3 or 4"));
        assert!(refused(CODES, 4).contains("4 operands, without scales; there are at most 3"));
        let zeros = QMatmulAttrs { zeros: true, w_zp: 0, ..CODES };
        assert!(refused(QMatmulAttrs { w_zp: 2, ..zeros.clone() }, 3).contains("w_zp is 2 beside zeros of columns"));
        assert!(refused(zeros.clone(), 2).contains("2 operands; zeros are the last of 3 or 4"));
        assert!(refused(zeros, 5).contains("5 operands, with zeros, without scales; there are at most 4"));
        let many = CODES.check(DType::I8, 2, MOST_TERMS + 1).unwrap_err();
        assert_eq!(many, "a sum has 33001 terms; more than 33000 may overflow 32 bits");
    }
}
