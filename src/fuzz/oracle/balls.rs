//! A number with a bound of how far the engine's number may be from it, and arithmetic on such pairs.

use super::rounding::{Rounding, Term};

/// A number and how far the engine's may be from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ball {
    pub(super) x: f64,
    pub(super) b: f64,
}

pub(super) const UNKNOWN: Ball = Ball { x: 0.0, b: f64::INFINITY };
pub(super) const ZERO: Ball = Ball { x: 0.0, b: 0.0 };
pub(super) const ONE: Ball = Ball { x: 1.0, b: 0.0 };

/// The operations of balls in the engine's type.
#[derive(Clone, Copy)]
pub(super) struct Balls(pub(super) Rounding);

impl Balls {
    pub(super) fn rounded(self, x: f64, b: f64) -> Ball {
        let (x, b) = self.0.settled(x, b + self.0.ulps(x, 1.0));
        if x.is_finite() { Ball { x, b } } else { UNKNOWN }
    }

    pub(super) fn times(self, p: Ball, q: Ball) -> Ball {
        self.rounded(p.x * q.x, product_bound(p, q))
    }

    pub(super) fn over(self, p: Ball, q: Ball) -> Ball {
        let least = q.x.abs() - q.b;
        if least > 0.0 { self.rounded(p.x / q.x, (p.b + (p.x / q.x).abs() * q.b) / least) } else { UNKNOWN }
    }

    pub(super) fn root(self, p: Ball) -> Ball {
        if p.x > p.b { self.rounded(p.x.sqrt(), p.b / p.x.sqrt()) } else { UNKNOWN }
    }

    /// `first` + `sign` · Σ p·q, added in any order.
    pub(super) fn sum(self, first: Ball, sign: f64, products: impl Iterator<Item = (Ball, Ball)>) -> Ball {
        let term = |(p, q): (Ball, Ball)| {
            let x = sign * p.x * q.x;
            Term { x, bound: product_bound(p, q) + self.0.ulps(x, 1.0) }
        };
        let (x, b) = self.0.sum(std::iter::once(Term { x: first.x, bound: first.b }).chain(products.map(term)));
        if x.is_finite() { Ball { x, b } } else { UNKNOWN }
    }
}

fn product_bound(p: Ball, q: Ball) -> f64 {
    let part = |x: f64, b: f64| {
        if b == 0.0 {
            0.0
        } else if b == f64::INFINITY {
            b
        } else {
            x.abs() * b
        }
    };
    part(p.x, q.b) + part(q.x, p.b) + part(p.b, q.b)
}
