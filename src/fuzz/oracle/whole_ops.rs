//! Arithmetic of integers and bools, which wraps, and casts between all types.

use super::array::Array;
use super::rounding::{Rounding, nearest_element, spread_of_ends};
use super::stop::Stop;
use crate::nodes::ops::pointwise::attrs::ClampAttrs;
use crate::nodes::{Attrs, DType, Op};

/// The range of a type of whole numbers.
pub(super) fn whole_range(dtype: DType) -> (i128, i128) {
    let bits = 8 * dtype.size() as u32;
    match dtype {
        DType::Bool => (0, 1),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        _ => (0, (1 << bits) - 1),
    }
}

/// `x` with the bits that the type has.
pub(super) fn wrap_whole(dtype: DType, x: i128) -> i128 {
    let (low, high) = whole_range(dtype);
    let span = high - low + 1;
    (x - low).rem_euclid(span) + low
}

fn divides_whole_numbers(op: Op) -> bool {
    matches!(op, Op::DIV | Op::FMOD | Op::REMAINDER | Op::FLOOR_DIVIDE)
}

/// The number of an op on two whole numbers; the divisor is not 0, the exponent not below 0.
fn whole_result(op: Op, dtype: DType, a: i128, b: i128) -> Option<i128> {
    let bits = 8 * dtype.size() as i128;
    let shifts = (0..bits).contains(&b);
    Some(match op {
        Op::ADD => a + b,
        Op::SUB => a - b,
        Op::MUL => a * b,
        Op::DIV => a / b,
        Op::FMOD => a % b,
        Op::REMAINDER => a - b * whole_floor_quotient(a, b),
        Op::FLOOR_DIVIDE => whole_floor_quotient(a, b),
        Op::POW => whole_power(dtype, a, b),
        Op::MAX => a.max(b),
        Op::MIN => a.min(b),
        Op::AND | Op::BITWISE_AND => a & b,
        Op::OR | Op::BITWISE_OR => a | b,
        Op::BITWISE_XOR => a ^ b,
        // A product, because a negative number has no bits to shift out of an i128.
        Op::BITWISE_LEFT_SHIFT => {
            if shifts {
                wrap_whole(dtype, a.wrapping_mul(1 << b))
            } else {
                0
            }
        }
        Op::BITWISE_RIGHT_SHIFT => {
            if shifts {
                a >> b
            } else {
                -i128::from(a < 0)
            }
        }
        _ => return None,
    })
}

/// The power from the exponent's highest bit on; the engine's goes from the lowest.
fn whole_power(dtype: DType, a: i128, b: i128) -> i128 {
    let bits = (0..128 - b.leading_zeros()).rev();
    bits.fold(1, |y, bit| wrap_whole(dtype, wrap_whole(dtype, y * y) * if b >> bit & 1 == 1 { a } else { 1 }))
}

fn whole_floor_quotient(a: i128, b: i128) -> i128 {
    let q = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

/// The result of an op on each element of one or two tensors of whole numbers, if it is one that this file has. A
/// division by 0 stops.
pub(super) fn map_whole(
    op: Op,
    attrs: &Attrs<'_>,
    args: &[&Array],
    may_fault: &mut bool,
) -> Result<Option<Array>, Stop> {
    let Some(&a) = args.first() else { return Ok(None) };
    let dtype = a.dtype;
    if let &[_, b] = args {
        if whole_result(op, dtype, 1, 1).is_none() {
            return Ok(None);
        }
        if divides_whole_numbers(op) {
            *may_fault |= b.each_whole().any(|x| x.is_none());
            if b.each_whole().any(|x| x == Some(0)) {
                return Err(Stop::fault("division of an integer by 0"));
            }
        }
        if op == Op::POW {
            *may_fault |= b.each_whole().any(|x| x.is_none());
            if b.each_whole().any(|x| x.is_some_and(|x| x < 0)) {
                return Err(Stop::fault("an exponent of an integer below 0"));
            }
        }
        let one = |(a, b): (Option<i128>, Option<i128>)| match (op, a, b) {
            // One side decides, whatever the other is.
            (Op::AND, Some(0), _) | (Op::AND, _, Some(0)) => Some(0),
            (Op::OR, Some(1), _) | (Op::OR, _, Some(1)) => Some(1),
            _ => whole_result(op, dtype, a?, b?).map(|y| wrap_whole(dtype, y)),
        };
        return Ok(Some(Array::wholes(dtype, &a.dims, a.each_whole().zip(b.each_whole()).map(one))));
    }
    let one: Box<dyn Fn(i128) -> i128> = match op {
        Op::NEG => Box::new(|x| -x),
        Op::ABS => Box::new(i128::abs),
        Op::SIGN => Box::new(i128::signum),
        Op::NOT => Box::new(|x| 1 - x),
        Op::BITWISE_NOT => Box::new(|x| -1 - x),
        Op::CLAMP => {
            let ClampAttrs { lo, hi } = ClampAttrs::of(attrs);
            let (low, high) = whole_range(dtype);
            let bound = move |x: f64| (x as i128).clamp(low, high);
            Box::new(move |x| x.min(bound(hi)).max(bound(lo)))
        }
        _ => return Ok(None),
    };
    Ok(Some(Array::wholes(dtype, &a.dims, a.each_whole().map(|x| x.map(|x| wrap_whole(dtype, one(x)))))))
}

/// `x` in another type.
pub(super) fn cast_to_whole_or_real(x: &Array, to: DType) -> Array {
    match (x.is_real(), to.is_real_float()) {
        (true, true) => real_or_whole_to_real(x, to),
        (true, false) => real_to_whole(x, to),
        (false, true) => whole_to_real(x, to),
        (false, false) => {
            let (low, high) = whole_range(to);
            let one = |v: i128| if to == DType::Bool { i128::from(v != 0) } else { v.clamp(low, high) };
            Array::wholes(to, &x.dims, x.each_whole().map(|v| v.map(one)))
        }
    }
}

fn real_or_whole_to_real(x: &Array, to: DType) -> Array {
    let (from, r) = (Rounding::of(x.dtype), Rounding::of(to));
    let widens = r.unit <= from.unit && r.most >= from.most && to != DType::F16;
    let one = |(v, b): (f64, f64)| {
        let exact = widens || (b == 0.0 && nearest_element(to, v) == v);
        // From f64 to a half float a number is rounded once, from f64 through f32 it may be twice.
        r.settled(v, if exact { b } else { b + r.ulps(v, 0.75) })
    };
    Array::reals(to, &x.dims, x.each_real().map(one))
}

fn real_to_whole(x: &Array, to: DType) -> Array {
    let (low, high) = whole_range(to);
    let whole = |v: f64| match to {
        DType::Bool => i128::from(v != 0.0),
        _ if v.is_nan() => 0,
        _ => (v.trunc() as i128).clamp(low, high),
    };
    let one = |(v, b): (f64, f64)| {
        let y = whole(v);
        let sure = b == 0.0
            || (b < f64::INFINITY && whole(v - b) == y && whole(v + b) == y && (to != DType::Bool || v.abs() > b));
        sure.then_some(y)
    };
    Array::wholes(to, &x.dims, x.each_real().map(one))
}

fn whole_to_real(x: &Array, to: DType) -> Array {
    let r = Rounding::of(to);
    let one = |v: Option<i128>| match v {
        Some(v) => {
            let exact = nearest_element(to, v as f64) as i128 == v;
            r.settled(v as f64, if exact { 0.0 } else { r.ulps(v as f64, 0.75) })
        }
        // A bool is 0 or 1.
        None if x.dtype == DType::Bool => (0.0, spread_of_ends(0.0, &[1.0])),
        None => (0.0, f64::INFINITY),
    };
    Array::reals(to, &x.dims, x.each_whole().map(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_wrap_as_the_types_do() {
        for (a, b) in [(127i8, 1i8), (-128, -1), (100, 100), (-7, 3), (7, -3)] {
            let op = |op| whole_result(op, DType::I8, a.into(), b.into()).map(|y| wrap_whole(DType::I8, y) as i8);
            assert_eq!(op(Op::ADD), Some(a.wrapping_add(b)));
            assert_eq!(op(Op::MUL), Some(a.wrapping_mul(b)));
            assert_eq!(op(Op::DIV), Some(a.wrapping_div(b)));
            assert_eq!(op(Op::REMAINDER).map(|r| (r as i32 - a as i32).rem_euclid(b as i32)), Some(0));
        }
        assert_eq!(wrap_whole(DType::U64, -1), u64::MAX.into());
        assert_eq!(whole_result(Op::BITWISE_RIGHT_SHIFT, DType::I32, -5, 40), Some(-1));
    }

    #[test]
    fn casts_saturate_and_know_when_they_do_not_know() {
        let x = Array::reals(DType::F32, &[4], [(3.7, 0.1), (3.95, 0.1), (-1e9, 0.0), (f64::NAN, 0.0)].into_iter());
        let y: Vec<_> = cast_to_whole_or_real(&x, DType::I8).each_whole().collect();
        assert_eq!(y, [Some(3), None, Some(-128), Some(0)]);
    }
}
