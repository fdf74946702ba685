//! Complex numbers as methods of [`Var`], with torch's names. Arithmetic, sums, products and functions are the methods
//! that real numbers have.
//!
//! `+ - * /`, `exp log sqrt rsqrt recip square sin cos tan sinh cosh tanh pow abs equal not_equal select cast sum mean
//! prod cumsum matmul dot_general scatter_add` take `c64` and `c128`, and so do all methods that only move elements.
//! Functions have their principal values, with C99's cuts. In `+ - * / pow equal not_equal`, one operand may be real:
//! an `f32` beside a `c64`, an `f64` beside a `c128`. Its gradient is real.

use super::parts::{Parts, is_complex_value};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;

impl<'g> Var<'g> {
    /// re + i·im of two tensors of one type and shape: `c64` of `f32`, `c128` of `f64`.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("energy");
    /// let z = g.param("z", [2], DType::C128, Init::Zeros);
    /// let graph = g.finish([z.abs2().sum(..).named("loss")])?;
    /// let mut p = Session::new().compile(&grad(&graph, "loss", &GradOptions::wrt(&["z"]))?)?;
    /// p.values_mut::<[f64; 2]>("z")?.copy_from_slice(&[[1.0, 2.0], [0.0, -3.0]]);
    /// p.step()?;
    /// assert_eq!(p.values::<f64>("loss")?, [14.0]);
    /// assert_eq!(p.values::<[f64; 2]>("grad.z")?, [[2.0, 4.0], [0.0, -6.0]]); // 2z
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn complex(self, im: Var<'g>) -> Var<'g> {
        self.pair(Op::COMPLEX, im)
    }

    /// Re z. A value that is not complex is its own real part.
    #[track_caller]
    pub fn real(self) -> Var<'g> {
        if is_complex_value(self) { Parts::of(self).re } else { self }
    }

    /// Im z of a complex value.
    #[track_caller]
    pub fn imag(self) -> Var<'g> {
        match is_complex_value(self) {
            true => Parts::of(self).im,
            false => self.g.emit1(Op::IMAG, &[self], &[]),
        }
    }

    /// Re z − i·Im z. A value that is not complex is its own conjugate.
    #[track_caller]
    pub fn conj(self) -> Var<'g> {
        match is_complex_value(self) {
            true => self.g.with_caller(|| {
                let z = Parts::of(self);
                z.re.complex(-z.im)
            }),
            false => self,
        }
    }

    /// |z|² = (Re z)² + (Im z)²; x² of a real value. The squares may overflow.
    #[track_caller]
    pub fn abs2(self) -> Var<'g> {
        match is_complex_value(self) {
            true => self.g.with_caller(|| {
                let z = Parts::of(self);
                z.re * z.re + z.im * z.im
            }),
            false => self.square(),
        }
    }

    /// The angle of z in radians, in (−π, π], as in `torch.angle`: 0 or π of a real value. The derivative at 0 is 0.
    #[track_caller]
    pub fn angle(self) -> Var<'g> {
        self.g.with_caller(|| match is_complex_value(self) {
            true => Parts::of(self).angle(),
            false => self.full_like(0.0).atan2(self),
        })
    }

    /// The parts of complex numbers along a new last axis of 2, as in `torch.view_as_real`. Real numbers stay as they
    /// are.
    #[track_caller]
    pub fn view_as_real(self) -> Var<'g> {
        match is_complex_value(self) {
            true => self.g.with_caller(|| {
                let z = Parts::of(self);
                z.re.stack(&[z.im], -1)
            }),
            false => self,
        }
    }

    /// The complex numbers whose parts lie along the last axis, which has length 2 and disappears, as in
    /// `torch.view_as_complex`.
    #[track_caller]
    pub fn view_as_complex(self) -> Var<'g> {
        let d = self.dims();
        if !self.is_some() {
            return self;
        }
        if d.last() != Some(&2) {
            return self.refuse("view_as_complex", "the last axis must hold two parts");
        }
        self.g.with_caller(|| {
            let part = |k| self.narrow(-1, k, 1).reshape(&d[..d.len() - 1]);
            part(0).complex(part(1))
        })
    }

    /// This, the [`Var::view_as_real`] of a value of `like`'s type, as a value of that type.
    #[track_caller]
    pub(crate) fn viewed_as_complex_like(self, like: Var<'g>) -> Var<'g> {
        if is_complex_value(like) { self.view_as_complex() } else { self }
    }

    /// abs·(cos angle + i·sin angle), as in `torch.polar`. This is the modulus.
    #[track_caller]
    pub fn polar(self, angle: Var<'g>) -> Var<'g> {
        self.g.with_caller(|| (self * angle.cos()).complex(self * angle.sin()))
    }
}
