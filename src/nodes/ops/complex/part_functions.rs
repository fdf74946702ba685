//! Functions of complex numbers in real ops on their parts. Values are principal; cuts are those of C99: they lie on
//! the negative real axis, and the sign of the imaginary part says from which side.
//!
//! Invariant: the side of a select that is not taken is computed at numbers at which it is finite, so that it makes no
//! NaN in a derivative.

use super::parts::Parts;
use crate::nodes::ir::builder::Var;

/// The largest integer exponent that is a product of factors.
const MOST_FACTORS: f64 = 16.0;

/// −x where x is below 0. The derivative at 0 is 1, so that no formula that reads it has a kink there.
fn part_magnitude(x: Var<'_>) -> Var<'_> {
    x.less(0.0).select(-x, x)
}

impl<'g> Parts<'g> {
    /// The product.
    pub(super) fn times(self, b: Parts<'g>) -> Parts<'g> {
        Parts { re: self.re * b.re - self.im * b.im, im: self.re * b.im + self.im * b.re }
    }

    /// The quotient, in Smith's scaled form: no square is taken, so nothing overflows unless the result does. x/0 is
    /// NaN.
    pub(super) fn over(self, b: Parts<'g>) -> Parts<'g> {
        // p is the larger part of the divisor, q the other one.
        let wide = b.re.abs().greater_equal(b.im.abs());
        let (p, q) = (wide.select(b.re, b.im), wide.select(b.im, b.re));
        let (first, second) = (wide.select(self.re, self.im) / p, wide.select(self.im, self.re) / p);
        let r = q / p;
        let k = r * r + 1.0;
        let (re, im) = ((first + second * r) / k, (second - first * r) / k);
        Parts { re, im: wide.select(im, -im) }
    }

    /// 1/z, as [`Parts::over`].
    pub(super) fn recip(self) -> Parts<'g> {
        let wide = self.re.abs().greater_equal(self.im.abs());
        let (p, q) = (wide.select(self.re, self.im), wide.select(self.im, self.re));
        let r = q / p;
        let first = 1.0 / p / (r * r + 1.0);
        let second = first * r;
        Parts { re: wide.select(first, second), im: -wide.select(second, first) }
    }

    /// |z|, without overflow in between. The derivative at 0 is 0.
    pub(super) fn modulus(self) -> Var<'g> {
        self.re.hypot(self.im)
    }

    /// The angle, in (−π, π]. The derivative at 0 is 0.
    pub(super) fn angle(self) -> Var<'g> {
        self.im.atan2(self.re)
    }

    /// eᶻ.
    pub(super) fn exp(self) -> Parts<'g> {
        let size = self.re.exp();
        Parts { re: size * self.im.cos(), im: size * self.im.sin() }
    }

    /// ln z.
    pub(super) fn log(self) -> Parts<'g> {
        Parts { re: self.modulus().log(), im: self.angle() }
    }

    /// √z, with the real part not below 0. The derivative at 0 is 0.
    pub(super) fn sqrt(self) -> Parts<'g> {
        let zero = self.is_zero();
        let z = Parts::chosen(zero, self.full(1.0, 0.0), self);
        // Halves first: the sum of both could overflow.
        let root = (part_magnitude(z.re) * 0.5 + z.modulus() * 0.5).sqrt();
        let side = z.im.full_like(1.0).copysign(z.im);
        let other = z.im / (root * 2.0);
        let left = z.re.less(0.0);
        let y = Parts { re: left.select(side * other, root), im: left.select(side * root, other) };
        // √(0 ± 0i) keeps the sign of its imaginary part.
        Parts::chosen(zero, Parts { re: self.re.full_like(0.0), im: self.im.stop_gradient() }, y)
    }

    /// sin z.
    pub(super) fn sin(self) -> Parts<'g> {
        Parts { re: self.re.sin() * self.im.cosh(), im: self.re.cos() * self.im.sinh() }
    }

    /// cos z.
    pub(super) fn cos(self) -> Parts<'g> {
        Parts { re: self.re.cos() * self.im.cosh(), im: -(self.re.sin() * self.im.sinh()) }
    }

    /// sinh z.
    pub(super) fn sinh(self) -> Parts<'g> {
        Parts { re: self.re.sinh() * self.im.cos(), im: self.re.cosh() * self.im.sin() }
    }

    /// cosh z.
    pub(super) fn cosh(self) -> Parts<'g> {
        Parts { re: self.re.cosh() * self.im.cos(), im: self.re.sinh() * self.im.sin() }
    }

    /// tanh z = (u + it) / (1 + iut), where u = tanh Re z and t = tan Im z. Nothing overflows for a large real part.
    pub(super) fn tanh(self) -> Parts<'g> {
        let (u, t) = (self.re.tanh(), self.im.tan());
        let q = (part_magnitude(self.re) * -2.0).exp();
        // 1 − u², without cancellation.
        let rest = q * 4.0 / (q + 1.0).square();
        let below = (u * t).square() + 1.0;
        Parts { re: u * (t.square() + 1.0) / below, im: t * rest / below }
    }

    /// tan z = −i·tanh(iz).
    pub(super) fn tan(self) -> Parts<'g> {
        let y = Parts { re: -self.im, im: self.re }.tanh();
        Parts { re: y.im, im: -y.re }
    }

    /// zⁿ by squaring.
    fn power_of_factors(self, n: u32) -> Parts<'g> {
        let (mut square, mut rest, mut y) = (self, n, None);
        while rest > 0 {
            if rest % 2 == 1 {
                y = Some(y.map_or(square, |y: Parts<'g>| y.times(square)));
            }
            rest /= 2;
            if rest > 0 {
                square = square.times(square);
            }
        }
        y.unwrap_or_else(|| self.full(1.0, 0.0))
    }

    /// zʷ = e^(w·ln z). An integer `number` up to 16 is a product instead. 0ʷ is 0 for Re w > 0, 1 for w = 0, and NaN
    /// otherwise.
    pub(super) fn pow(self, w: Parts<'g>, number: Option<f64>) -> Parts<'g> {
        if let Some(n) = number.filter(|n| n.fract() == 0.0 && n.abs() <= MOST_FACTORS) {
            let y = self.power_of_factors(n.abs() as u32);
            return if n < 0.0 { y.recip() } else { y };
        }
        let zero = self.is_zero();
        let safe = Parts::chosen(zero, self.full(1.0, 0.0), self);
        let y = w.times(safe.log()).exp();
        let (none, some) = (w.is_zero(), w.re.greater(0.0));
        let nan = |x: Var<'g>| x.full_like(f64::NAN);
        let re = none.select(1.0, some.select(0.0, nan(w.re)));
        let im = none.logical_or(some).select(0.0, nan(w.im));
        Parts::chosen(zero, Parts { re, im }, y)
    }
}
