//! A complex value as its two parts, and functions of complex numbers in real ops on them. All complex arithmetic is
//! written in them. Values are principal; cuts are those of C99: they lie on the negative real axis, and the sign of
//! the imaginary part says from which side.
//!
//! Invariant: the side of a select that is not taken is computed at numbers at which it is finite, so that it makes no
//! NaN in a derivative.

use crate::error::Kind;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::emit::Definition;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::constant::attrs::FullAttrs;

/// The real and the imaginary part of a complex value.
#[derive(Clone, Copy)]
pub(in crate::nodes) struct Parts<'g> {
    pub(in crate::nodes) re: Var<'g>,
    pub(in crate::nodes) im: Var<'g>,
}

/// What a complex value is known to be made of.
enum Known {
    Parts([crate::arena::Value; 2]),
    Fill(f64),
}

impl<'g> Parts<'g> {
    /// The parts of a complex value. Those of a value that was just joined are what it was joined of.
    #[track_caller]
    pub(in crate::nodes) fn of(z: Var<'g>) -> Parts<'g> {
        let here = z.g.local(z);
        let known = z.g.with(|e| match e.def(here)? {
            Definition { op: Op::COMPLEX, args, .. } => Some(Known::Parts([*args.first()?, *args.get(1)?])),
            Definition { op: Op::FULL, attrs, .. } => Some(Known::Fill(FullAttrs::of(&attrs).value)),
            _ => None,
        });
        match known {
            Some(Known::Parts([re, im])) => Parts { re: z.g.var(re), im: z.g.var(im) },
            Some(Known::Fill(x)) => {
                let part = |x: f64| z.g.full(x, z.dims(), z.dtype().part());
                Parts { re: part(x), im: part(0.0) }
            }
            None => Parts { re: z.g.emit1(Op::REAL, &[z], &[]), im: z.g.emit1(Op::IMAG, &[z], &[]) },
        }
    }

    /// The complex value.
    #[track_caller]
    pub(in crate::nodes) fn join(self) -> Var<'g> {
        self.re.complex(self.im)
    }

    /// `f` of each part.
    pub(in crate::nodes) fn each(self, f: impl Fn(Var<'g>) -> Var<'g>) -> Parts<'g> {
        Parts { re: f(self.re), im: f(self.im) }
    }

    /// `f` of each pair of parts of this and `b`.
    pub(in crate::nodes) fn both(self, b: Parts<'g>, f: impl Fn(Var<'g>, Var<'g>) -> Var<'g>) -> Parts<'g> {
        Parts { re: f(self.re, b.re), im: f(self.im, b.im) }
    }

    /// Whether both parts are 0.
    pub(in crate::nodes) fn is_zero(self) -> Var<'g> {
        self.re.equal(0.0).logical_and(self.im.equal(0.0))
    }

    /// This where `c` is true, `b` elsewhere.
    pub(in crate::nodes) fn chosen(c: Var<'g>, a: Parts<'g>, b: Parts<'g>) -> Parts<'g> {
        a.both(b, |a, b| c.select(a, b))
    }

    /// The number `re + i·im` in the shape of this.
    pub(in crate::nodes) fn full(self, re: f64, im: f64) -> Parts<'g> {
        Parts { re: self.re.full_like(re), im: self.im.full_like(im) }
    }
}

/// True if `z` is a complex value.
pub(in crate::nodes) fn is_complex_value(z: Var<'_>) -> bool {
    z.is_some() && z.dtype().is_complex()
}

/// The parts of two complex operands of `op`; an error if their types differ. If `mixed`, one of them may be real, in
/// the type of the other one's parts: it has the imaginary part 0. `None` if neither is complex, or after an error of
/// another builder.
#[track_caller]
pub(in crate::nodes) fn split_pair<'g>(
    op: Op,
    a: Var<'g>,
    b: Var<'g>,
    mixed: bool,
) -> Option<Result<[Parts<'g>; 2], Var<'g>>> {
    if !a.is_some() || !b.is_some() || !(is_complex_value(a) || is_complex_value(b)) || !a.g.owns(a.g.op_name(op), &[b])
    {
        return None;
    }
    let beside = is_complex_value(a) != is_complex_value(b) && a.dtype().part() == b.dtype().part();
    if a.dtype() != b.dtype() && !(mixed && beside) {
        let text = format!("{}({a:?}, {b:?}): operand types differ; cast one of them", a.g.op_name(op));
        return Some(Err(a.g.fail(Kind::Shape, text)));
    }
    let parts = |x: Var<'g>| if is_complex_value(x) { Parts::of(x) } else { Parts { re: x, im: x.full_like(0.0) } };
    Some(Ok([parts(a), parts(b)]))
}

/// The largest integer exponent that is a product of factors.
const MOST_FACTORS: f64 = 16.0;

/// −x where x is below 0. The derivative at 0 is 1, so that no formula that reads it has a kink there.
pub(super) fn part_magnitude(x: Var<'_>) -> Var<'_> {
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

    /// tanh z.
    pub(super) fn tanh(self) -> Parts<'g> {
        let outs = self.re.g.emit(Op::TANH_PARTS, &[self.re, self.im], &[]);
        Parts { re: outs[0], im: outs[1] }
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
