//! Loops that compute two steps at once: arithmetic behind arithmetic, and a selection by a comparison. What is between
//! the steps stays in registers, and one loop takes less time to start than two.
//!
//! Invariant: each of the two steps rounds on its own, so a pair has the bits of its steps. Only the sign and the
//! payload of a NaN, which are not defined, may differ.

use super::element_loops::*;
use super::program::TileStep;
use super::step_loops::{StepBody, StepLoop, compiled};
use super::tile_code::StepCode;
use super::tile_op::TileOp as Op;
use arenagrad_arena::DType;
use bytemuck::cast_slice;
use std::marker::PhantomData;

/// Two steps that one loop computes.
#[derive(Clone, Copy)]
pub(super) struct PairedStep {
    pub run: StepLoop,
    /// What they read, `count` values.
    pub args: [u16; 4],
    pub count: usize,
    /// The constant operands of the first step and of the second.
    pub constants: [f64; 2],
    /// The value to which the second step adds, or from which it subtracts: the result may be in place of it.
    pub addend: Option<u16>,
}

/// An operand beside the first.
#[derive(Clone, Copy)]
enum Other {
    Value(u16),
    Constant(f32),
}

/// Arithmetic in the form `op(x, other)`.
#[derive(Clone, Copy)]
enum Sum {
    Add,
    Sub,
    /// other − x.
    SubFrom,
    Mul,
    Div,
    /// other / x.
    DivFrom,
    Max,
    Min,
    /// −x, whatever the other is.
    Neg,
}

/// A pair as it is found: its loop, and what it reads behind the first operand.
struct Found {
    run: Option<StepLoop>,
    first: u16,
    others: [Option<Other>; 3],
    addend: Option<u16>,
}

/// The pair of `first` and `second`, whose operand `k` is the result of `first`, if a loop computes both. `constant`
/// gives what a value is everywhere.
pub(super) fn paired_step(
    first: &TileStep,
    second: &TileStep,
    k: usize,
    constant: &impl Fn(u16) -> Option<f32>,
) -> Option<PairedStep> {
    if first.elem != DType::F32 || second.elem != DType::F32 {
        return None;
    }
    let other = |v: u16| constant(v).filter(|c| !c.is_nan()).map_or(Other::Value(v), Other::Constant);
    let found = match second.op {
        Op::Select if k == 0 => paired_selection(first, second, &other)?,
        _ => paired_sums(first, second, k, &other)?,
    };
    let mut pair = PairedStep {
        run: found.run?,
        args: [found.first, 0, 0, 0],
        count: 1,
        constants: [0.0; 2],
        addend: found.addend,
    };
    for (i, other) in found.others.into_iter().enumerate() {
        match other {
            None => {}
            Some(Other::Value(v)) => {
                pair.args[pair.count] = v;
                pair.count += 1;
            }
            Some(Other::Constant(c)) => pair.constants[i.min(1)] = f64::from(c),
        }
    }
    Some(pair)
}

/// `step` as arithmetic on a value.
fn first_sum(step: &TileStep, other: &impl Fn(u16) -> Other) -> Option<(Sum, u16, Other)> {
    let [a, b, _] = step.args;
    Some(match (step.op, other(a), other(b)) {
        (Op::Neg, ..) => (Sum::Neg, a, Other::Constant(0.0)),
        (Op::Recip, ..) => (Sum::DivFrom, a, Other::Constant(1.0)),
        (Op::Add, c @ Other::Constant(_), Other::Value(_)) => (Sum::Add, b, c),
        (Op::Mul, c @ Other::Constant(_), Other::Value(_)) => (Sum::Mul, b, c),
        (Op::Sub, c @ Other::Constant(_), Other::Value(_)) => (Sum::SubFrom, b, c),
        (Op::Div, c @ Other::Constant(_), Other::Value(_)) => (Sum::DivFrom, b, c),
        (Op::Add, _, y) => (Sum::Add, a, y),
        (Op::Mul, _, y) => (Sum::Mul, a, y),
        (Op::Sub, _, Other::Constant(c)) => (Sum::Add, a, Other::Constant(-c)),
        (Op::Sub, _, y) => (Sum::Sub, a, y),
        (Op::Div, _, y @ Other::Value(_)) => (Sum::Div, a, y),
        _ => return None,
    })
}

/// `step` as arithmetic on its operand `k`.
fn second_sum(step: &TileStep, k: usize, other: &impl Fn(u16) -> Other) -> Option<(Sum, Other)> {
    let y = other(step.args[1 - k.min(1)]);
    Some(match (step.op, k, y) {
        (Op::Neg, ..) => (Sum::Neg, Other::Constant(0.0)),
        (Op::Add, ..) => (Sum::Add, y),
        (Op::Mul, ..) => (Sum::Mul, y),
        (Op::Sub, 0, Other::Constant(c)) => (Sum::Add, Other::Constant(-c)),
        (Op::Sub, 0, _) => (Sum::Sub, y),
        (Op::Sub, ..) => (Sum::SubFrom, y),
        (Op::Max, ..) => (Sum::Max, y),
        (Op::Min, ..) => (Sum::Min, y),
        _ => return None,
    })
}

fn paired_sums(first: &TileStep, second: &TileStep, k: usize, other: &impl Fn(u16) -> Other) -> Option<Found> {
    let (f, x, y) = first_sum(first, other)?;
    let (g, z) = second_sum(second, k, other)?;
    let run = match (f, y) {
        (Sum::Add, Other::Value(_)) => sums_behind::<Add, Values>(g, z),
        (Sum::Sub, Other::Value(_)) => sums_behind::<Sub, Values>(g, z),
        (Sum::Mul, Other::Value(_)) => sums_behind::<Mul, Values>(g, z),
        (Sum::Div, Other::Value(_)) => sums_behind::<Div, Values>(g, z),
        (Sum::Add, Other::Constant(_)) => sums_behind::<Add, Constant>(g, z),
        (Sum::SubFrom, Other::Constant(_)) => sums_behind::<SubFrom, Constant>(g, z),
        (Sum::Mul, Other::Constant(_)) => sums_behind::<Mul, Constant>(g, z),
        (Sum::DivFrom, Other::Constant(_)) => sums_behind::<DivFrom, Constant>(g, z),
        (Sum::Neg, Other::Constant(_)) => sums_behind::<NegFirst, Constant>(g, z),
        _ => None,
    };
    let addend = match (g, z) {
        (Sum::Add | Sum::SubFrom, Other::Value(v)) => Some(v),
        _ => None,
    };
    Some(Found { run, first: x, others: [Some(y), Some(z), None], addend })
}

/// The loop of `F` with an operand of the kind `A`, and `g` behind it.
fn sums_behind<F: Arithmetic, A: OperandKind>(g: Sum, z: Other) -> Option<StepLoop> {
    Some(match (g, z) {
        (Sum::Add, Other::Value(_)) => compiled::<SumsOnto<F, A, Add>>(),
        (Sum::Sub, Other::Value(_)) => compiled::<Sums<F, A, Sub, Values>>(),
        (Sum::SubFrom, Other::Value(_)) => compiled::<SumsOnto<F, A, SubFrom>>(),
        (Sum::Mul, Other::Value(_)) => compiled::<Sums<F, A, Mul, Values>>(),
        (Sum::Max, Other::Value(_)) => compiled::<Sums<F, A, Max, Values>>(),
        (Sum::Min, Other::Value(_)) => compiled::<Sums<F, A, Min, Values>>(),
        (Sum::Add, Other::Constant(_)) => compiled::<Sums<F, A, Add, Constant>>(),
        (Sum::SubFrom, Other::Constant(_)) => compiled::<Sums<F, A, SubFrom, Constant>>(),
        (Sum::Mul, Other::Constant(_)) => compiled::<Sums<F, A, Mul, Constant>>(),
        (Sum::Neg, Other::Constant(_)) => compiled::<Sums<F, A, NegFirst, Constant>>(),
        _ => return None,
    })
}

fn paired_selection(first: &TileStep, second: &TileStep, other: &impl Fn(u16) -> Other) -> Option<Found> {
    let [a, b, _] = first.args;
    let [_, x, y] = second.args;
    let (x, y) = match (other(x), other(y)) {
        (Other::Constant(_), y @ Other::Constant(_)) => (Other::Value(x), y),
        both => both,
    };
    // A constant is behind. Without one, the lesser operand is before.
    let (op, a, b) = match (first.op, other(a), other(b)) {
        (Op::Gt, Other::Value(_), Other::Value(_)) => (Op::Lt, b, Other::Value(a)),
        (Op::Ge, Other::Value(_), Other::Value(_)) => (Op::Le, b, Other::Value(a)),
        (Op::Eq | Op::Ne, c @ Other::Constant(_), Other::Value(_)) => (first.op, b, c),
        (Op::Lt, c @ Other::Constant(_), Other::Value(_)) => (Op::Gt, b, c),
        (Op::Le, c @ Other::Constant(_), Other::Value(_)) => (Op::Ge, b, c),
        (Op::Gt, c @ Other::Constant(_), Other::Value(_)) => (Op::Lt, b, c),
        (Op::Ge, c @ Other::Constant(_), Other::Value(_)) => (Op::Le, b, c),
        (op, _, b) => (op, a, b),
    };
    let run = match (op, b) {
        (Op::Eq, Other::Value(_)) => selections_by::<Equal, Values>(x, y),
        (Op::Ne, Other::Value(_)) => selections_by::<Differ, Values>(x, y),
        (Op::Lt, Other::Value(_)) => selections_by::<Less, Values>(x, y),
        (Op::Le, Other::Value(_)) => selections_by::<LessEqual, Values>(x, y),
        (Op::Eq, Other::Constant(_)) => selections_by::<Equal, Constant>(x, y),
        (Op::Ne, Other::Constant(_)) => selections_by::<Differ, Constant>(x, y),
        (Op::Lt, Other::Constant(_)) => selections_by::<Less, Constant>(x, y),
        (Op::Le, Other::Constant(_)) => selections_by::<LessEqual, Constant>(x, y),
        (Op::Gt, Other::Constant(_)) => selections_by::<Greater, Constant>(x, y),
        (Op::Ge, Other::Constant(_)) => selections_by::<GreaterEqual, Constant>(x, y),
        _ => None,
    };
    Some(Found { run, first: a, others: [Some(b), Some(x), Some(y)], addend: None })
}

/// The loop that selects by the comparison `C` with an operand of the kind `A`.
fn selections_by<C: Comparison, A: OperandKind>(x: Other, y: Other) -> Option<StepLoop> {
    Some(match (x, y) {
        (Other::Value(_), Other::Value(_)) => compiled::<Selection<C, A, Values, Values>>(),
        (Other::Value(_), Other::Constant(_)) => compiled::<Selection<C, A, Values, Constant>>(),
        (Other::Constant(_), Other::Value(_)) => compiled::<Selection<C, A, Constant, Values>>(),
        (Other::Constant(_), Other::Constant(_)) => return None,
    })
}

/// Operations of two numbers.
trait Arithmetic: ElementZip<f32, Out = f32> + Default {}
impl<O: ElementZip<f32, Out = f32> + Default> Arithmetic for O {}

/// Comparisons of two numbers.
trait Comparison: ElementZip<f32, Out = u8> + Default {}
impl<O: ElementZip<f32, Out = u8> + Default> Comparison for O {}

/// What an operand is: values or a constant.
trait OperandKind {
    const VALUES: bool;
}

struct Values;
struct Constant;

impl OperandKind for Values {
    const VALUES: bool = true;
}

impl OperandKind for Constant {
    const VALUES: bool = false;
}

/// `dst` = g(f(x, y), z). Each of y and z is values or a constant.
struct Sums<F, A, G, B>(PhantomData<(F, A, G, B)>);

impl<F: Arithmetic, A: OperandKind, G: Arithmetic, B: OperandKind> StepBody for Sums<F, A, G, B> {
    type To = f32;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [f32], &[x, y, z, _]: &[&[u8]; 4]) {
        let (f, g, [c, d]) = (F::default(), G::default(), step.imm.map(|c| c as f32));
        let with_x = dst.iter_mut().zip(floats(x));
        match (A::VALUES, B::VALUES) {
            (true, true) => {
                for (((to, x), y), z) in with_x.zip(floats(y)).zip(floats(z)) {
                    *to = g.at(f.at(*x, *y), *z);
                }
            }
            (true, false) => with_x.zip(floats(y)).for_each(|((to, x), y)| *to = g.at(f.at(*x, *y), d)),
            (false, true) => with_x.zip(floats(y)).for_each(|((to, x), z)| *to = g.at(f.at(*x, c), *z)),
            (false, false) => with_x.for_each(|(to, x)| *to = g.at(f.at(*x, c), d)),
        }
    }
}

/// `dst` = g(f(x, y), z), or g(f(x, y), `dst`) if z is empty: the result is in place of it. y is values or a constant.
struct SumsOnto<F, A, G>(PhantomData<(F, A, G)>);

impl<F: Arithmetic, A: OperandKind, G: Arithmetic> StepBody for SumsOnto<F, A, G> {
    type To = f32;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [f32], sources: &[&[u8]; 4]) {
        let &[x, y, z, _] = sources;
        let (f, g, c) = (F::default(), G::default(), step.imm[0] as f32);
        match (A::VALUES, if A::VALUES { z } else { y }.is_empty()) {
            (_, false) => Sums::<F, A, G, Values>::run(step, dst, sources),
            (true, true) => {
                for ((to, x), y) in dst.iter_mut().zip(floats(x)).zip(floats(y)) {
                    *to = g.at(f.at(*x, *y), *to);
                }
            }
            (false, true) => dst.iter_mut().zip(floats(x)).for_each(|(to, x)| *to = g.at(f.at(*x, c), *to)),
        }
    }
}

/// `dst` = x where c(a, b), else y. Each of b, x and y is values or a constant.
struct Selection<C, B, X, Y>(PhantomData<(C, B, X, Y)>);

impl<C: Comparison, B: OperandKind, X: OperandKind, Y: OperandKind> StepBody for Selection<C, B, X, Y> {
    type To = f32;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [f32], &[a, b, x, y]: &[&[u8]; 4]) {
        let (compare, [c, d]) = (C::default(), step.imm.map(|c| c as f32));
        // By bits, as `select_elements` does.
        let pick = |a: f32, b: f32, x: f32, y: f32| {
            let (x, y) = (x.to_bits(), y.to_bits());
            f32::from_bits(y ^ (x ^ y) & u32::mask(compare.at(a, b) != 0))
        };
        let either = |x: f32| if X::VALUES { (x, d) } else { (d, x) };
        let with_a = dst.iter_mut().zip(floats(a));
        match (B::VALUES, X::VALUES && Y::VALUES) {
            (true, true) => {
                for ((((to, a), b), x), y) in with_a.zip(floats(b)).zip(floats(x)).zip(floats(y)) {
                    *to = pick(*a, *b, *x, *y);
                }
            }
            (true, false) => {
                for (((to, a), b), x) in with_a.zip(floats(b)).zip(floats(x)) {
                    let (x, y) = either(*x);
                    *to = pick(*a, *b, x, y);
                }
            }
            (false, true) => {
                for (((to, a), x), y) in with_a.zip(floats(b)).zip(floats(x)) {
                    *to = pick(*a, c, *x, *y);
                }
            }
            (false, false) => {
                for ((to, a), x) in with_a.zip(floats(b)) {
                    let (x, y) = either(*x);
                    *to = pick(*a, c, x, y);
                }
            }
        }
    }
}

#[inline(always)]
fn floats(bytes: &[u8]) -> &[f32] {
    cast_slice(bytes)
}
