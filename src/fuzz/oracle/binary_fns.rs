//! Ops on each pair of elements of two float tensors, comparisons, and selection.

use super::array::Array;
use super::rounding::{Rounding, nearest_element, spread_of_ends};
use crate::nodes::{DType, Op};

/// a − ⌊a/b⌋·b of the exact quotient, with the sign of b.
fn binary_remainder(a: f64, b: f64) -> f64 {
    let r = libm::fmod(a, b);
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

/// ⌊a/b⌋ of the exact quotient; NaN for an infinite a, as in Python.
fn binary_floor_divide(a: f64, b: f64) -> f64 {
    let r = libm::fmod(a, b);
    if b == 0.0 {
        return a / b;
    }
    let q = libm::round((a - r) / b);
    if r != 0.0 && (r < 0.0) != (b < 0.0) { q - 1.0 } else { q }
}

fn binary_larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

fn binary_smaller(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}

/// The function of an op on two floats, and its error in units in the last place, of f32 and of f64.
fn binary_fn(op: Op, dtype: DType) -> Option<(fn(f64, f64) -> f64, [f64; 2])> {
    Some(match op {
        Op::ADD => (|a, b| a + b, [0.5; 2]),
        Op::SUB => (|a, b| a - b, [0.5; 2]),
        Op::MUL => (|a, b| a * b, [0.5; 2]),
        Op::DIV => (|a, b| a / b, [0.5; 2]),
        Op::MAX => (binary_larger, [0.0; 2]),
        Op::MIN => (binary_smaller, [0.0; 2]),
        Op::POW => (libm::pow, [1.0, 4.0]),
        Op::ATAN2 => (libm::atan2, [1.0, 500.0]),
        Op::HYPOT => (libm::hypot, [1.0, 500.0]),
        Op::COPYSIGN => (libm::copysign, [0.0; 2]),
        Op::NEXTAFTER if dtype == DType::F32 => (|a, b| f64::from(libm::nextafterf(a as f32, b as f32)), [0.0; 2]),
        Op::NEXTAFTER => (libm::nextafter, [0.0; 2]),
        Op::FMOD => (libm::fmod, [0.0; 2]),
        Op::REMAINDER => (binary_remainder, [0.5; 2]),
        Op::FLOOR_DIVIDE => (binary_floor_divide, [0.0; 2]),
        _ => return None,
    })
}

/// The four corners of a pair's box.
fn binary_corners(a: (f64, f64), b: (f64, f64)) -> [(f64, f64); 4] {
    let ([al, ah], [bl, bh]) = ([a.0 - a.1, a.0 + a.1], [b.0 - b.1, b.0 + b.1]);
    [(al, bl), (al, bh), (ah, bl), (ah, bh)]
}

/// Whether the sign of a zero decides the result, or a jump is within the bounds.
fn is_fragile_binary(op: Op, a: (f64, f64), b: (f64, f64)) -> bool {
    // An exact zero has a sign, which decides.
    let near_zero = |x: (f64, f64)| x.1 > 0.0 && x.0.abs() <= x.1;
    match op {
        Op::DIV => near_zero(b),
        // No rule says which sign a NaN has.
        Op::COPYSIGN => near_zero(b) || b.0.is_nan(),
        Op::ATAN2 => near_zero(a) && b.0 - b.1 <= 0.0,
        Op::FMOD | Op::REMAINDER | Op::FLOOR_DIVIDE if near_zero(b) => true,
        Op::FMOD => binary_corners(a, b).iter().any(|&(x, y)| (x / y).trunc() != (a.0 / b.0).trunc()),
        Op::REMAINDER => {
            binary_corners(a, b).iter().any(|&(x, y)| binary_floor_divide(x, y) != binary_floor_divide(a.0, b.0))
        }
        _ => false,
    }
}

/// Whether `y` is the result of an op without rounding.
fn is_exact_binary(op: Op, a: f64, b: f64, y: f64) -> bool {
    let sum = |a: f64, b: f64| {
        // What a sum loses (Knuth).
        let c = y - a;
        (a - (y - c)) + (b - c) == 0.0
    };
    match op {
        Op::ADD => sum(a, b),
        Op::SUB => sum(a, -b),
        Op::MUL => libm::fma(a, b, -y) == 0.0,
        Op::DIV => libm::fma(y, b, -a) == 0.0,
        _ => false,
    }
}

/// The result of an op on each pair of elements of two float tensors, if it is one that this file has.
pub(super) fn map_oracle_binary_fn(op: Op, a: &Array, b: &Array) -> Option<Array> {
    let (f, ulps) = binary_fn(op, a.dtype)?;
    let (r, dtype) = (Rounding::of(a.dtype), a.dtype);
    let ulps = ulps[usize::from(a.dtype == DType::F64)];
    let one = |(a, b): ((f64, f64), (f64, f64))| {
        let y = f(a.0, b.0);
        if a.1 == f64::INFINITY || b.1 == f64::INFINITY || is_fragile_binary(op, a, b) {
            return (y, f64::INFINITY);
        }
        let moved = match op {
            _ if a.1 == 0.0 && b.1 == 0.0 => 0.0,
            // A step more or less on either side.
            Op::NEXTAFTER => a.1 + r.ulps(a.0, 3.0),
            _ => spread_of_ends(y, &binary_corners(a, b).map(|(a, b)| f(a, b))),
        };
        let pole = matches!(op, Op::DIV | Op::POW) && (b.0 == 0.0 || a.0 == 0.0);
        if y.is_infinite() && a.0.is_finite() && b.0.is_finite() && !pole {
            // An overflow, which another order of operations may not have.
            return (y, f64::INFINITY);
        }
        let exact =
            ulps == 0.0 || (a.1 + b.1 == 0.0 && is_exact_binary(op, a.0, b.0, y) && nearest_element(dtype, y) == y);
        r.settled(y, moved + if exact { 0.0 } else { r.ulps(y.abs() + moved, ulps) })
    };
    Some(Array::reals(a.dtype, &a.dims, a.each_real().zip(b.each_real()).map(one)))
}

/// A comparison of two tensors of any one type.
pub(super) fn compare_oracle_binary_fn(op: Op, a: &Array, b: &Array) -> Option<Array> {
    let holds = |o: Option<std::cmp::Ordering>| {
        Some(match op {
            Op::EQ => o.is_some_and(|o| o.is_eq()),
            Op::NE => o.is_none_or(|o| o.is_ne()),
            Op::LT => o.is_some_and(|o| o.is_lt()),
            Op::LE => o.is_some_and(|o| o.is_le()),
            Op::GT => o.is_some_and(|o| o.is_gt()),
            Op::GE => o.is_some_and(|o| o.is_ge()),
            _ => return None,
        })
    };
    holds(None)?;
    // A number equals itself, unless it is NaN.
    let same = std::ptr::eq(a, b);
    let one = |i: usize| {
        if same && (!a.is_real() || (a.bound[i] < f64::INFINITY && !a.number(i).is_nan())) {
            return holds(Some(std::cmp::Ordering::Equal)).map(i128::from);
        }
        if !a.is_real() {
            return holds(a.whole(i)?.partial_cmp(&b.whole(i)?)).map(i128::from);
        }
        let ((x, bx), (y, by)) = (a.real(i), b.real(i));
        let bounds = bx + by;
        let sure = bounds == 0.0
            || bounds < f64::INFINITY && (x.is_nan() || y.is_nan() || (x - y).abs() > bounds || x.is_infinite());
        if sure { holds(x.partial_cmp(&y)).map(i128::from) } else { None }
    };
    Some(Array::wholes(DType::Bool, &a.dims, (0..a.len()).map(one)))
}

/// `a` where `c` is true, `b` elsewhere. Where `c` is unknown, the bound covers both.
pub(super) fn select_oracle_binary_fn(c: &Array, a: &Array, b: &Array) -> Array {
    let mut y = a.clone();
    for i in 0..c.len() {
        match c.whole(i) {
            Some(0) => y.put(i, b, i),
            Some(_) => {}
            None if a.is_real() => {
                let ((x, bx), (z, bz)) = (a.real(i), b.real(i));
                let apart = (x - z).abs();
                let apart = if apart.is_nan() { f64::INFINITY } else { bx.max(apart + bz) };
                // Equal infinities, and NaN on both sides, are the same whatever the choice is.
                let same = bx.max(bz) == 0.0 && (x == z || (x.is_nan() && z.is_nan()));
                y.bound[i] = if same { 0.0 } else { apart };
            }
            None if a.whole(i).is_some() && a.whole(i) == b.whole(i) => {}
            None => y.bound[i] = f64::INFINITY,
        }
    }
    y
}
