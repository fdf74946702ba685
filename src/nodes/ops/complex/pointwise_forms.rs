//! The pointwise ops that take complex operands, each written in real ops. An op that is not listed refuses complex
//! numbers by its shape inference.

use super::parts::{Parts, has_parts, parts_of_pair};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::emit::Definition;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::constant::attrs::FullAttrs;

/// `op` of a complex `z`. `None` if `z` is real, or the op has no complex form.
#[track_caller]
pub(in crate::nodes) fn complex_unary_form<'g>(op: Op, z: Var<'g>) -> Option<Var<'g>> {
    if !has_parts(z) {
        return None;
    }
    let complex: fn(Parts<'g>) -> Parts<'g> = match op {
        Op::NEG => |z| z.each(|x| -x),
        Op::EXP => Parts::exp,
        Op::LOG => Parts::log,
        Op::SQRT => Parts::sqrt,
        Op::RSQRT => |z| z.sqrt().recip(),
        Op::RECIP => Parts::recip,
        Op::SIN => Parts::sin,
        Op::COS => Parts::cos,
        Op::TAN => Parts::tan,
        Op::SINH => Parts::sinh,
        Op::COSH => Parts::cosh,
        Op::TANH => Parts::tanh,
        _ => return complex_real_valued_form(op, z),
    };
    Some(z.g.with_caller(|| complex(Parts::of(z)).join()))
}

/// As [`complex_unary_form`], for functions whose values are no complex numbers.
#[track_caller]
fn complex_real_valued_form<'g>(op: Op, z: Var<'g>) -> Option<Var<'g>> {
    let real: fn(Parts<'g>) -> Var<'g> = match op {
        Op::ABS => Parts::modulus,
        Op::ISNAN => |z| z.re.isnan().logical_or(z.im.isnan()),
        Op::ISINF => |z| z.re.isinf().logical_or(z.im.isinf()),
        Op::ISFINITE => |z| z.re.isfinite().logical_and(z.im.isfinite()),
        _ => return None,
    };
    Some(z.g.with_caller(|| real(Parts::of(z))))
}

/// The number that a complex `z` is filled with, if it has the shape of `other`.
fn complex_fill(z: Var<'_>, other: Var<'_>) -> Option<f64> {
    let same = z.dims() == other.dims();
    let here = z.g.local(z);
    z.g.with(|e| match e.def(here)? {
        Definition { op: Op::FULL, attrs, .. } if same => Some(FullAttrs::of(&attrs).value),
        _ => None,
    })
}

/// `op` of two operands, of which one is complex; both broadcast. `None` if neither is, or the op has no complex form.
#[track_caller]
pub(in crate::nodes) fn complex_binary_form<'g>(op: Op, a: Var<'g>, b: Var<'g>) -> Option<Var<'g>> {
    let forms = [Op::ADD, Op::SUB, Op::MUL, Op::DIV, Op::POW, Op::EQ, Op::NE];
    if !forms.contains(&op) {
        return None;
    }
    let found = parts_of_pair(op, a, b)?;
    Some(a.g.with_caller(|| {
        let [x, y] = match found {
            Ok(parts) => parts,
            Err(none) => return none,
        };
        // A number next to a complex tensor is real: nothing is multiplied by its imaginary part.
        match (op, complex_fill(a, b), complex_fill(b, a)) {
            (Op::MUL, Some(k), _) => y.each(|y| y * k).join(),
            (Op::MUL, _, Some(k)) => x.each(|x| x * k).join(),
            (Op::DIV, _, Some(k)) => x.each(|x| x / k).join(),
            (Op::MUL, ..) => x.times(y).join(),
            (Op::DIV, ..) => x.over(y).join(),
            (Op::POW, _, number) => x.pow(y, number).join(),
            (Op::ADD, ..) => x.both(y, |x, y| x + y).join(),
            (Op::SUB, ..) => x.both(y, |x, y| x - y).join(),
            (Op::EQ, ..) => x.re.equal(y.re).logical_and(x.im.equal(y.im)),
            _ => x.re.not_equal(y.re).logical_or(x.im.not_equal(y.im)),
        }
    }))
}
