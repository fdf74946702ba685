//! Loops that compute two steps at once: arithmetic behind arithmetic, and a selection by a comparison. What is between
//! the steps stays in registers, and one loop takes less time to start than two.
//!
//! The operands of a loop have fixed places: x, y and z of `g(f(x, y), z)`; a, b, x and y of a selection of x or y by
//! the comparison of a with b. All but the first may be uniform. Invariant: each of the two steps rounds on its own, so
//! a pair has the bits of its steps. Only the sign and the payload of a NaN, which are not defined, may differ.

use super::element_loops::*;
use super::program::TileStep;
use super::step_code::{StepCode, StepLoop};
use super::step_loops::{Operand, StepBody, StepForm, compiled, first_float};
use super::tile_op::TileOp as Op;
use super::tile_table::TileBytes;
use arenagrad_arena::DType;
use bytemuck::cast_slice;
use std::marker::PhantomData;

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
    /// 1 / x, whatever the other is.
    Recip,
}

/// The form of `first` and `second`, whose operand `k` is the result of `first`, if a loop computes both. `uniform`
/// says whether a value is one number everywhere.
pub(super) fn paired_step(
    first: &TileStep,
    second: &TileStep,
    k: usize,
    uniform: &impl Fn(u16) -> bool,
) -> Option<StepForm> {
    if first.elem != DType::F32 || second.elem != DType::F32 {
        return None;
    }
    let operand = |v: u16| if uniform(v) { Operand::Uniform(v) } else { Operand::Values(v) };
    match second.op {
        Op::Select if k == 0 => paired_selection(first, second, &operand),
        _ => paired_sums(first, second, k, &operand),
    }
}

/// `step` as arithmetic on a value.
fn first_sum(step: &TileStep, operand: &impl Fn(u16) -> Operand) -> Option<(Sum, u16, Operand)> {
    use Operand::{Nothing, Uniform, Values};
    let [a, b, _] = step.args;
    Some(match (step.op, operand(a), operand(b)) {
        (Op::Neg, ..) => (Sum::Neg, a, Nothing),
        (Op::Recip, ..) => (Sum::Recip, a, Nothing),
        (Op::Add, c @ Uniform(_), Values(_)) => (Sum::Add, b, c),
        (Op::Mul, c @ Uniform(_), Values(_)) => (Sum::Mul, b, c),
        (Op::Sub, c @ Uniform(_), Values(_)) => (Sum::SubFrom, b, c),
        (Op::Div, c @ Uniform(_), Values(_)) => (Sum::DivFrom, b, c),
        (Op::Add, _, y) => (Sum::Add, a, y),
        (Op::Mul, _, y) => (Sum::Mul, a, y),
        (Op::Sub, _, y) => (Sum::Sub, a, y),
        (Op::Div, _, y) => (Sum::Div, a, y),
        _ => return None,
    })
}

/// `step` as arithmetic on its operand `k`.
fn second_sum(step: &TileStep, k: usize, operand: &impl Fn(u16) -> Operand) -> Option<(Sum, Operand)> {
    let other = step.args[1 - k.min(1)];
    let z = operand(other);
    Some(match (step.op, k) {
        (Op::Neg, _) => (Sum::Neg, Operand::Nothing),
        (Op::Add, _) => (Sum::Add, z),
        (Op::Mul, _) => (Sum::Mul, z),
        (Op::Sub, 0) => (Sum::Sub, z),
        (Op::Sub, _) => (Sum::SubFrom, z),
        // These have no loop for a uniform operand.
        (Op::Max, _) => (Sum::Max, Operand::Values(other)),
        (Op::Min, _) => (Sum::Min, Operand::Values(other)),
        _ => return None,
    })
}

fn paired_sums(first: &TileStep, second: &TileStep, k: usize, operand: &impl Fn(u16) -> Operand) -> Option<StepForm> {
    let (f, x, y) = first_sum(first, operand)?;
    let (g, z) = second_sum(second, k, operand)?;
    let run = match (f, y) {
        (Sum::Add, Operand::Values(_)) => sums_behind::<Add, Values>(g, z),
        (Sum::Sub, Operand::Values(_)) => sums_behind::<Sub, Values>(g, z),
        (Sum::Mul, Operand::Values(_)) => sums_behind::<Mul, Values>(g, z),
        (Sum::Div, Operand::Values(_)) => sums_behind::<Div, Values>(g, z),
        (Sum::Add, _) => sums_behind::<Add, Uniform>(g, z),
        (Sum::Sub, _) => sums_behind::<Sub, Uniform>(g, z),
        (Sum::SubFrom, _) => sums_behind::<SubFrom, Uniform>(g, z),
        (Sum::Mul, _) => sums_behind::<Mul, Uniform>(g, z),
        (Sum::Div, _) => sums_behind::<Div, Uniform>(g, z),
        (Sum::DivFrom, _) => sums_behind::<DivFrom, Uniform>(g, z),
        (Sum::Neg, _) => sums_behind::<NegFirst, Uniform>(g, z),
        (Sum::Recip, _) => sums_behind::<RecipFirst, Uniform>(g, z),
        _ => None,
    };
    let addend = match (g, z) {
        (Sum::Add | Sum::SubFrom, Operand::Values(v)) => Some(v),
        _ => None,
    };
    Some(StepForm { run: run?, args: [Operand::Values(x), y, z, Operand::Nothing], addends: [addend, None] })
}

/// The loop of `F` with an operand of the kind `A`, and `g` behind it.
fn sums_behind<F: Arithmetic, A: OperandKind>(g: Sum, z: Operand) -> Option<StepLoop> {
    Some(match (g, z) {
        (Sum::Add, Operand::Values(_)) => compiled::<SumsOnto<F, A, Add>>(),
        (Sum::Sub, Operand::Values(_)) => compiled::<Sums<F, A, Sub, Values>>(),
        (Sum::SubFrom, Operand::Values(_)) => compiled::<SumsOnto<F, A, SubFrom>>(),
        (Sum::Mul, Operand::Values(_)) => compiled::<Sums<F, A, Mul, Values>>(),
        (Sum::Max, Operand::Values(_)) => compiled::<Sums<F, A, Max, Values>>(),
        (Sum::Min, Operand::Values(_)) => compiled::<Sums<F, A, Min, Values>>(),
        (Sum::Add, _) => compiled::<Sums<F, A, Add, Uniform>>(),
        (Sum::Sub, _) => compiled::<Sums<F, A, Sub, Uniform>>(),
        (Sum::SubFrom, _) => compiled::<Sums<F, A, SubFrom, Uniform>>(),
        (Sum::Mul, _) => compiled::<Sums<F, A, Mul, Uniform>>(),
        (Sum::Neg, _) => compiled::<Sums<F, A, NegFirst, Uniform>>(),
        _ => return None,
    })
}

fn paired_selection(first: &TileStep, second: &TileStep, operand: &impl Fn(u16) -> Operand) -> Option<StepForm> {
    use Operand::{Uniform as One, Values as Many};
    let [a, b, _] = first.args;
    let [_, x, y] = second.args;
    let (x, y) = (operand(x), operand(y));
    // A uniform operand is behind. Without one, the lesser operand is before.
    let (op, a, b) = match (first.op, operand(a), operand(b)) {
        (Op::Gt, Many(_), Many(_)) => (Op::Lt, b, Many(a)),
        (Op::Ge, Many(_), Many(_)) => (Op::Le, b, Many(a)),
        (Op::Eq | Op::Ne, c @ One(_), Many(_)) => (first.op, b, c),
        (Op::Lt, c @ One(_), Many(_)) => (Op::Gt, b, c),
        (Op::Le, c @ One(_), Many(_)) => (Op::Ge, b, c),
        (Op::Gt, c @ One(_), Many(_)) => (Op::Lt, b, c),
        (Op::Ge, c @ One(_), Many(_)) => (Op::Le, b, c),
        (op, _, b) => (op, a, b),
    };
    let run = match (op, b) {
        (Op::Eq, Many(_)) => selections_by::<Equal, Values>(x, y),
        (Op::Ne, Many(_)) => selections_by::<Differ, Values>(x, y),
        (Op::Lt, Many(_)) => selections_by::<Less, Values>(x, y),
        (Op::Le, Many(_)) => selections_by::<LessEqual, Values>(x, y),
        (Op::Eq, One(_)) => selections_by::<Equal, Uniform>(x, y),
        (Op::Ne, One(_)) => selections_by::<Differ, Uniform>(x, y),
        (Op::Lt, One(_)) => selections_by::<Less, Uniform>(x, y),
        (Op::Le, One(_)) => selections_by::<LessEqual, Uniform>(x, y),
        (Op::Gt, One(_)) => selections_by::<Greater, Uniform>(x, y),
        (Op::Ge, One(_)) => selections_by::<GreaterEqual, Uniform>(x, y),
        _ => return None,
    };
    Some(StepForm { run, args: [Many(a), b, x, y], addends: [None; 2] })
}

/// The loop that selects by the comparison `C` with an operand of the kind `A`.
fn selections_by<C: Comparison, A: OperandKind>(x: Operand, y: Operand) -> StepLoop {
    match (x, y) {
        (Operand::Values(_), Operand::Values(_)) => compiled::<Selection<C, A, Values, Values>>(),
        (Operand::Values(_), _) => compiled::<Selection<C, A, Values, Uniform>>(),
        (_, Operand::Values(_)) => compiled::<Selection<C, A, Uniform, Values>>(),
        _ => compiled::<Selection<C, A, Uniform, Uniform>>(),
    }
}

/// Operations of two numbers.
trait Arithmetic: ElementZip<f32, Out = f32> + Default {}
impl<O: ElementZip<f32, Out = f32> + Default> Arithmetic for O {}

/// Comparisons of two numbers.
trait Comparison: ElementZip<f32, Out = u8> + Default {}
impl<O: ElementZip<f32, Out = u8> + Default> Comparison for O {}

/// What an operand is: values, or one number everywhere.
trait OperandKind {
    const VALUES: bool;
}

struct Values;
struct Uniform;

impl OperandKind for Values {
    const VALUES: bool = true;
}

impl OperandKind for Uniform {
    const VALUES: bool = false;
}

/// `dst` = g(f(x, y), z). Each of y and z is values or uniform.
struct Sums<F, A, G, B>(PhantomData<(F, A, G, B)>);

impl<F: Arithmetic, A: OperandKind, G: Arithmetic, B: OperandKind> StepBody for Sums<F, A, G, B> {
    type To = f32;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [f32], table: &[TileBytes<'_>]) {
        let [x, y, z] = step.operands(table);
        let (f, g, c, d) = (F::default(), G::default(), first_float(y), first_float(z));
        let with_x = dst.iter_mut().zip(floats(x));
        match (A::VALUES, B::VALUES) {
            (true, true) => {
                for (((to, x), y), z) in with_x.zip(floats(y)).zip(floats(z)) {
                    *to = g.at(f.at(*x, *y), *z);
                }
            }
            (true, false) => with_x.zip(floats(y)).for_each(|((to, x), y)| *to = g.at(f.at(*x, *y), d)),
            (false, true) => with_x.zip(floats(z)).for_each(|((to, x), z)| *to = g.at(f.at(*x, c), *z)),
            (false, false) => with_x.for_each(|(to, x)| *to = g.at(f.at(*x, c), d)),
        }
    }
}

/// `dst` = g(f(x, y), z), or g(f(x, y), `dst`) if z is empty: the result is in place of it. y is values or uniform.
struct SumsOnto<F, A, G>(PhantomData<(F, A, G)>);

impl<F: Arithmetic, A: OperandKind, G: Arithmetic> StepBody for SumsOnto<F, A, G> {
    type To = f32;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [f32], table: &[TileBytes<'_>]) {
        let [x, y, z] = step.operands(table);
        let (f, g, c) = (F::default(), G::default(), first_float(y));
        match (A::VALUES, z.is_empty()) {
            (_, false) => Sums::<F, A, G, Values>::run(step, dst, table),
            (true, true) => {
                for ((to, x), y) in dst.iter_mut().zip(floats(x)).zip(floats(y)) {
                    *to = g.at(f.at(*x, *y), *to);
                }
            }
            (false, true) => dst.iter_mut().zip(floats(x)).for_each(|(to, x)| *to = g.at(f.at(*x, c), *to)),
        }
    }
}

/// `dst` = x where c(a, b), else y. Each of b, x and y is values or uniform.
struct Selection<C, B, X, Y>(PhantomData<(C, B, X, Y)>);

impl<C: Comparison, B: OperandKind, X: OperandKind, Y: OperandKind> StepBody for Selection<C, B, X, Y> {
    type To = f32;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [f32], table: &[TileBytes<'_>]) {
        let [a, b, x, y] = step.operands(table);
        let (compare, c, first, second) = (C::default(), first_float(b), first_float(x), first_float(y));
        // By bits, as `select_elements` does.
        let pick = |a: f32, b: f32, x: f32, y: f32| {
            let (x, y) = (x.to_bits(), y.to_bits());
            f32::from_bits(y ^ (x ^ y) & u32::mask(compare.at(a, b) != 0))
        };
        // The one that is values.
        let source = if X::VALUES { x } else { y };
        let either = |v: f32| if X::VALUES { (v, second) } else { (first, v) };
        let with_a = dst.iter_mut().zip(floats(a));
        match (B::VALUES, X::VALUES, Y::VALUES) {
            (true, true, true) => {
                for ((((to, a), b), x), y) in with_a.zip(floats(b)).zip(floats(x)).zip(floats(y)) {
                    *to = pick(*a, *b, *x, *y);
                }
            }
            (true, false, false) => {
                for ((to, a), b) in with_a.zip(floats(b)) {
                    *to = pick(*a, *b, first, second);
                }
            }
            (true, ..) => {
                for (((to, a), b), v) in with_a.zip(floats(b)).zip(floats(source)) {
                    let (x, y) = either(*v);
                    *to = pick(*a, *b, x, y);
                }
            }
            (false, true, true) => {
                for (((to, a), x), y) in with_a.zip(floats(x)).zip(floats(y)) {
                    *to = pick(*a, c, *x, *y);
                }
            }
            (false, false, false) => with_a.for_each(|(to, a)| *to = pick(*a, c, first, second)),
            (false, ..) => {
                for ((to, a), v) in with_a.zip(floats(source)) {
                    let (x, y) = either(*v);
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
