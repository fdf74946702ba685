//! Reference values: numbers of twice the precision of `f64`, as unevaluated sums of two.
//!
//! Invariant: relative errors stay below 2^-80, far below the tolerances of the tests. Products and sums are Dekker's
//! and Knuth's; functions are Taylor series and continued fractions.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// `hi + lo` with |lo| at most half an ulp of hi.
#[derive(Clone, Copy, Debug)]
pub struct Wide(pub f64, pub f64);

const LN_2: [f64; 3] = [std::f64::consts::LN_2, 2.3190468138462996e-17, 5.707708438416212e-34];
const PI_2: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123233995736766e-17, -1.4973849048591698e-33];
const TWO_OVER_ROOT_PI: Wide = Wide(std::f64::consts::FRAC_2_SQRT_PI, 1.533545961316588e-17);
const ROOT_TAU_INVERSE: Wide = Wide(0.3989422804014327, -2.49232720227773e-17);
const TWO_ROOT_2_OVER_PI: Wide = Wide(1.5957691216057308, -9.96930880911092e-17);
const CUBIC: Wide = Wide(0.044715, 2.1960211427085595e-18);

impl From<f64> for Wide {
    fn from(x: f64) -> Wide {
        Wide(x, 0.0)
    }
}

fn sum(a: f64, b: f64) -> Wide {
    let s = a + b;
    let v = s - a;
    Wide(s, (a - (s - v)) + (b - v))
}

impl Add for Wide {
    type Output = Wide;
    fn add(self, b: Wide) -> Wide {
        let (s, t) = (sum(self.0, b.0), sum(self.1, b.1));
        let s = sum(s.0, s.1 + t.0);
        sum(s.0, s.1 + t.1)
    }
}

impl Neg for Wide {
    type Output = Wide;
    fn neg(self) -> Wide {
        Wide(-self.0, -self.1)
    }
}

impl Sub for Wide {
    type Output = Wide;
    fn sub(self, b: Wide) -> Wide {
        self + -b
    }
}

impl Mul for Wide {
    type Output = Wide;
    fn mul(self, b: Wide) -> Wide {
        let p = self.0 * b.0;
        sum(p, self.0.mul_add(b.0, -p) + self.0.mul_add(b.1, self.1 * b.0))
    }
}

impl Div for Wide {
    type Output = Wide;
    fn div(self, b: Wide) -> Wide {
        let q = Wide::from(self.0 / b.0);
        let r = self - q * b;
        let s = Wide::from(r.0 / b.0);
        q + s + Wide::from((r - s * b).0 / b.0)
    }
}

fn whole(i: usize) -> Wide {
    Wide::from(i as f64)
}

const ONE: Wide = Wide(1.0, 0.0);

/// x − n·(the sum of `of`).
fn less(x: Wide, n: f64, of: [f64; 3]) -> Wide {
    of.iter().fold(x, |x, c| x - Wide::from(n) * Wide::from(*c))
}

/// Σ xᵏ/k! over k = from, from + step, … with signs of `sign`.
fn series(x: Wide, from: usize, step: usize, sign: f64) -> Wide {
    let mut term = (1..=from).fold(ONE, |t, k| t * x / whole(k));
    let mut total = Wide::from(0.0);
    let mut k = from;
    while k < 60 {
        total = total + term;
        term = (k + 1..=k + step).fold(term, |t, k| t * x / whole(k)) * Wide::from(sign);
        k += step;
    }
    total
}

impl Wide {
    fn scaled(self, n: f64) -> Wide {
        let (half, rest) = ((n / 2.0).floor(), n - (n / 2.0).floor());
        let by = |x: f64| x * 2f64.powf(half) * 2f64.powf(rest);
        Wide(by(self.0), by(self.1))
    }

    /// eˣ as a mantissa and a power of two.
    pub fn exp_parts(self) -> (Wide, f64) {
        let n = (self.0 * std::f64::consts::LOG2_E).round();
        (series(less(self, n, LN_2), 0, 1, 1.0), n)
    }

    pub fn exp(self) -> Wide {
        let (m, n) = self.exp_parts();
        m.scaled(n)
    }

    pub fn expm1(self) -> Wide {
        if self.0.abs() < 0.4 { series(self, 1, 1, 1.0) } else { self.exp() - ONE }
    }

    /// 2 atanh(x / (2 + x)) for small x, else two Newton steps from the logarithm of the leading part.
    pub fn log1p(self) -> Wide {
        if self.0.abs() < 0.3 {
            let s = self / (self + Wide::from(2.0));
            let z = s * s;
            let tail = (0..40).rev().fold(Wide::from(0.0), |t, k| t * z + ONE / whole(2 * k + 1));
            return s * tail * Wide::from(2.0);
        }
        (self + ONE).log()
    }

    pub fn log(self) -> Wide {
        if (self.0 - 1.0).abs() < 0.2 {
            return (self - ONE).log1p();
        }
        let step = |y: Wide| y + self * (-y).exp() - ONE;
        step(step(Wide::from(self.0.ln())))
    }

    pub fn tanh(self) -> Wide {
        let e = (self + self).expm1();
        if self.0 > 100.0 { ONE } else { e / (e + Wide::from(2.0)) }
    }

    pub fn sigmoid(self) -> Wide {
        if self.0 < 0.0 { self.exp() / (ONE + self.exp()) } else { ONE / (ONE + (-self).exp()) }
    }

    pub fn softplus(self) -> Wide {
        if self.0 > 0.0 { self + (-self).exp().log1p() } else { self.exp().log1p() }
    }

    pub fn sin_cos(self) -> (Wide, Wide) {
        let n = (self.0 * std::f64::consts::FRAC_2_PI).round();
        let r = less(self, n, PI_2);
        let (s, c) = (series(r, 1, 2, -1.0), series(r, 0, 2, -1.0));
        match n.rem_euclid(4.0) as u32 {
            0 => (s, c),
            1 => (c, -s),
            2 => (-s, -c),
            _ => (-c, s),
        }
    }

    pub fn atan(self) -> Wide {
        let step = |y: Wide| {
            let (s, c) = y.sin_cos();
            y + c * (self * c - s)
        };
        if self.0.abs() > 1e15 {
            return Wide(PI_2[0].copysign(self.0), PI_2[1].copysign(self.0)) - ONE / self;
        }
        step(step(Wide::from(self.0.atan())))
    }

    pub fn rsqrt(self) -> Wide {
        let step = |y: Wide| y + y * (ONE - self * y * y) / Wide::from(2.0);
        step(step(Wide::from(1.0 / self.0.sqrt())))
    }

    /// All terms positive: 2/√π · e^(−x²) · Σ 2ⁿ x^(2n+1) / (2n+1)!!.
    pub fn erf(self) -> Wide {
        if self.0.abs() > 9.0 {
            return Wide::from(1f64.copysign(self.0));
        }
        let z = self * self;
        let (mut term, mut total) = (self, Wide::from(0.0));
        for n in 1..400 {
            total = total + term;
            term = term * z * Wide::from(2.0) / whole(2 * n + 1);
        }
        total * (-z).exp() * TWO_OVER_ROOT_PI
    }

    /// x·Φ(x); below −4 by the continued fraction of Mills' ratio, times `by`: a power of two that keeps it normal.
    pub fn gelu(self, by: f64) -> Wide {
        if self.0 > -4.0 {
            let root_half = Wide(std::f64::consts::FRAC_1_SQRT_2, -4.833646656726457e-17);
            return self * (ONE + (self * root_half).erf()) * Wide::from(0.5 * by);
        }
        let a = -self;
        let ratio = (1..400).rev().fold(a, |t, k| a + whole(k) / t);
        let (m, n) = (-(a * a) / Wide::from(2.0)).exp_parts();
        let y = -(a * m * ROOT_TAU_INVERSE / ratio);
        y.scaled(n + by.log2())
    }

    /// x·sigmoid(u) times `by`, as above.
    fn weighted(self, u: Wide, by: f64) -> Wide {
        if u.0 > -40.0 {
            return self * u.sigmoid() * Wide::from(by);
        }
        let (m, n) = u.exp_parts();
        let m = m / (ONE + u.exp());
        (self * m).scaled(n + by.log2())
    }

    pub fn silu(self, by: f64) -> Wide {
        self.weighted(self, by)
    }

    pub fn gelu_tanh(self, by: f64) -> Wide {
        self.weighted(TWO_ROOT_2_OVER_PI * self * (ONE + CUBIC * self * self), by)
    }
}
