//! The ops that take complex operands, each written in real ops on their parts: pointwise ones, sums, products and
//! choices. A pointwise op that is not listed refuses complex numbers by its shape inference.

use super::parts::{Parts, is_complex_value, split_pair};
use crate::nodes::arguments::axes::dims_without_axes;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::emit::Definition;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::constant::attrs::FullAttrs;

/// `op` of a complex `z`. `None` if `z` is real, or the op has no complex form.
#[track_caller]
pub(in crate::nodes) fn complex_unary_form<'g>(op: Op, z: Var<'g>) -> Option<Var<'g>> {
    if !is_complex_value(z) {
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
fn complex_form_of_fill(z: Var<'_>, other: Var<'_>) -> Option<f64> {
    let same = z.dims() == other.dims();
    let here = z.g.local(z);
    z.g.with(|e| match e.def(here)? {
        Definition { op: Op::FULL, attrs, .. } if same => Some(FullAttrs::of(&attrs).value),
        _ => None,
    })
}

/// `op` of two operands, of which one is complex and the other one is, too, or is real in the type of its parts; both
/// broadcast. `None` if neither is, or the op has no complex form.
#[track_caller]
pub(in crate::nodes) fn complex_binary_form<'g>(op: Op, a: Var<'g>, b: Var<'g>) -> Option<Var<'g>> {
    let forms = [Op::ADD, Op::SUB, Op::MUL, Op::DIV, Op::POW, Op::EQ, Op::NE];
    if !forms.contains(&op) {
        return None;
    }
    let found = split_pair(op, a, b, true)?;
    Some(a.g.with_caller(|| {
        let [x, y] = match found {
            Ok(parts) => parts,
            Err(none) => return none,
        };
        // A real operand multiplies and divides each part alone.
        match op {
            Op::MUL if !is_complex_value(a) => return y.each(|y| a * y).join(),
            Op::MUL if !is_complex_value(b) => return x.each(|x| x * b).join(),
            Op::DIV if !is_complex_value(b) => return x.each(|x| x / b).join(),
            _ => {}
        }
        // A number next to a complex tensor is real: nothing is multiplied by its imaginary part.
        match (op, complex_form_of_fill(a, b), complex_form_of_fill(b, a)) {
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

/// `f` of each part of `z`. `None` if `z` is real.
#[track_caller]
pub(in crate::nodes) fn complex_form_by_parts<'g>(z: Var<'g>, f: impl Fn(Var<'g>) -> Var<'g>) -> Option<Var<'g>> {
    // No closure around `with_caller`: it would be the caller.
    if is_complex_value(z) { Some(z.g.with_caller(|| Parts::of(z).each(f).join())) } else { None }
}

/// `f` of each pair of parts of `a` and `b`. `None` if both are real.
#[track_caller]
pub(in crate::nodes) fn complex_form_by_pairs<'g>(
    op: Op,
    a: Var<'g>,
    b: Var<'g>,
    f: impl Fn(Var<'g>, Var<'g>) -> Var<'g>,
) -> Option<Var<'g>> {
    let found = split_pair(op, a, b, false)?;
    Some(a.g.with_caller(|| found.map_or_else(|none| none, |[x, y]| x.both(y, f).join())))
}

/// The bilinear `product` of complex operands: four real products. `None` if both are real.
#[track_caller]
pub(in crate::nodes) fn complex_product_form<'g>(
    op: Op,
    a: Var<'g>,
    b: Var<'g>,
    product: impl Fn(Var<'g>, Var<'g>) -> Var<'g>,
) -> Option<Var<'g>> {
    let found = split_pair(op, a, b, false)?;
    Some(a.g.with_caller(|| match found {
        Err(none) => none,
        Ok([x, y]) => {
            let re = product(x.re, y.re) - product(x.im, y.im);
            let im = product(x.re, y.im) + product(x.im, y.re);
            Parts { re, im }.join()
        }
    }))
}

/// The reduction `op` of a complex `z` over `axes`. `None` if `z` is real, or the op has no complex form.
#[track_caller]
pub(in crate::nodes) fn complex_reduced_form<'g>(op: Op, z: Var<'g>, axes: &[i64], keep: bool) -> Option<Var<'g>> {
    match op {
        Op::REDUCE_SUM | Op::REDUCE_MEAN => complex_form_by_parts(z, |x| x.reduce(op, axes, keep)),
        Op::REDUCE_PROD if is_complex_value(z) => Some(z.g.with_caller(|| complex_reduced_product(z, axes, keep))),
        _ => None,
    }
}

/// The product over `axes`: halves are multiplied with each other until one element is left.
fn complex_reduced_product<'g>(z: Var<'g>, axes: &[i64], keep: bool) -> Var<'g> {
    let d = z.dims();
    let axes = to_size_attrs(axes);
    let rest: Vec<usize> = (0..d.len()).filter(|i| !axes.contains(i)).collect();
    let kept: Vec<usize> = rest.iter().map(|&i| d[i]).collect();
    let mut n: usize = axes.iter().map(|&i| d[i]).product();
    let mut left = z.permute(&[&rest[..], &axes[..]].concat()).reshape([&kept[..], &[n]].concat());
    if n == 0 {
        left = z.g.full(1.0, [&kept[..], &[1]].concat(), z.dtype());
        n = 1;
    }
    while n > 1 && left.is_some() {
        let half = n / 2;
        let product = left.narrow(-1, 0, half) * left.narrow(-1, half, half);
        left = if n % 2 == 1 { product.concat(&[left.narrow(-1, n - 1, 1)], -1) } else { product };
        n = n.div_ceil(2);
    }
    left.reshape(dims_without_axes(&d, &axes, keep))
}

/// `a` where `c` is true, `b` elsewhere. `None` if both are real.
#[track_caller]
pub(in crate::nodes) fn complex_selected_form<'g>(c: Var<'g>, a: Var<'g>, b: Var<'g>) -> Option<Var<'g>> {
    let found = split_pair(Op::SELECT, a, b, true)?;
    Some(a.g.with_caller(|| found.map_or_else(|none| none, |[x, y]| x.both(y, |x, y| c.select(x, y)).join())))
}

/// The same numbers in type `to`. `None` between real types, and from a complex one to a real one, which `cast`
/// refuses.
#[track_caller]
pub(in crate::nodes) fn complex_cast_form<'g>(x: Var<'g>, to: DType) -> Option<Var<'g>> {
    if !to.is_complex() || !x.is_some() {
        return None;
    }
    match is_complex_value(x) {
        true => complex_form_by_parts(x, |x| x.cast(to.part())),
        false => Some(x.g.with_caller(|| {
            let re = x.cast(to.part());
            re.complex(re.full_like(0.0))
        })),
    }
}
