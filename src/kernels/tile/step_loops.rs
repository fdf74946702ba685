//! The loop of each step, as a function over bytes: it is looked up once, when a program is compiled, for the best
//! instruction set.
//!
//! Frequent operations have loops of their own; [`apply_step`] dispatches the others when it runs. A constant operand
//! may be part of the loop. Invariant: a loop computes what `apply_step` does, bit for bit.

use super::apply::apply_step;
use super::element_loops::*;
use super::tile_code::StepCode;
use super::tile_op::TileOp as Op;
use crate::float::Float;
use crate::simd::{ByteLoop, byte_loop};
use crate::vmath;
use arenagrad_arena::DType;
use bytemuck::{Pod, cast_slice};
use std::marker::PhantomData;

/// Computes a step on a tile: the step, the result, and the operands, which have at least as many elements. Returns the
/// first bad element.
pub(super) type StepLoop = fn(&StepCode, &mut [u8], &[&[u8]; 4]) -> Option<usize>;

/// A loop that meets no bad element. `run` is inlined.
pub(super) trait StepBody {
    /// An element of the result.
    type To: Pod;
    fn run(step: &StepCode, dst: &mut [Self::To], sources: &[&[u8]; 4]);
}

/// A [`StepBody`] as a loop over bytes.
struct StepBytes<B>(PhantomData<B>);

impl<B: StepBody> ByteLoop for StepBytes<B> {
    type To = B::To;
    type Step = StepCode;
    type Out = Option<usize>;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [B::To], sources: &[&[u8]; 4]) -> Option<usize> {
        B::run(step, dst, sources);
        None
    }
}

/// The loop `B` for the best instruction set.
pub(super) fn compiled<B: StepBody>() -> StepLoop {
    byte_loop::<StepBytes<B>>()
}

/// One operand.
struct Mapped<T, O>(PhantomData<(T, O)>);

impl<T: Pod, O: ElementMap<T> + Default> StepBody for Mapped<T, O> {
    type To = T;

    #[inline(always)]
    fn run(_: &StepCode, dst: &mut [T], &[a, ..]: &[&[u8]; 4]) {
        for (d, x) in dst.iter_mut().zip(cast_slice::<u8, T>(a)) {
            *d = O::default().at(*x);
        }
    }
}

/// Two operands; with `SWAPPED`, the second before the first.
struct Zipped<T, O, const SWAPPED: bool>(PhantomData<(T, O)>);

impl<T: Pod, O: ElementZip<T> + Default, const SWAPPED: bool> StepBody for Zipped<T, O, SWAPPED> {
    type To = O::Out;

    #[inline(always)]
    fn run(_: &StepCode, dst: &mut [O::Out], &[a, b, ..]: &[&[u8]; 4]) {
        let (a, b) = if SWAPPED { (b, a) } else { (a, b) };
        for ((d, x), y) in dst.iter_mut().zip(cast_slice::<u8, T>(a)).zip(cast_slice::<u8, T>(b)) {
            *d = O::default().at(*x, *y);
        }
    }
}

/// Two operands. One that is empty is what the result is in place of.
struct Onto<T, O>(PhantomData<(T, O)>);

impl<T: Pod, O: ElementZip<T, Out = T> + Default> StepBody for Onto<T, O> {
    type To = T;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [T], sources: &[&[u8]; 4]) {
        let &[a, b, ..] = sources;
        let op = O::default();
        if a.is_empty() {
            dst.iter_mut().zip(cast_slice::<u8, T>(b)).for_each(|(d, y)| *d = op.at(*d, *y));
        } else if b.is_empty() {
            dst.iter_mut().zip(cast_slice::<u8, T>(a)).for_each(|(d, x)| *d = op.at(*x, *d));
        } else {
            Zipped::<T, O, false>::run(step, dst, sources);
        }
    }
}

/// One operand, the first or the second, and a constant behind it; with `BEFORE`, before it.
struct WithConstant<O, const BEFORE: bool>(PhantomData<O>);

impl<O: ElementZip<f32> + Default, const BEFORE: bool> StepBody for WithConstant<O, BEFORE> {
    type To = O::Out;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [O::Out], &[a, b, ..]: &[&[u8]; 4]) {
        let (x, c) = (if a.is_empty() { b } else { a }, f32::imm(step.imm[0], step.imm[1]));
        for (d, x) in dst.iter_mut().zip(cast_slice::<u8, f32>(x)) {
            *d = if BEFORE { O::default().at(c, *x) } else { O::default().at(*x, c) };
        }
    }
}

/// The second operand where the first is true, else the third.
struct Chosen;

impl StepBody for Chosen {
    type To = u32;

    #[inline(always)]
    fn run(_: &StepCode, dst: &mut [u32], &[cond, b, c, _]: &[&[u8]; 4]) {
        for (((d, k), x), y) in dst.iter_mut().zip(cond).zip(cast_slice::<u8, u32>(b)).zip(cast_slice::<u8, u32>(c)) {
            *d = *y ^ (*x ^ *y) & u32::mask(*k != 0);
        }
    }
}

/// The second operand where the first is true, else a constant; with `FLIP`, the constant where it is true, else the
/// third operand.
struct ChosenOrConstant<const FLIP: bool>;

impl<const FLIP: bool> StepBody for ChosenOrConstant<FLIP> {
    type To = u32;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [u32], &[cond, b, c, _]: &[&[u8]; 4]) {
        let (x, constant) = (if FLIP { c } else { b }, f32::imm(step.imm[0], step.imm[1]).to_bits());
        for ((d, k), x) in dst.iter_mut().zip(cond).zip(cast_slice::<u8, u32>(x)) {
            *d = constant ^ (*x ^ constant) & u32::mask((*k != 0) != FLIP);
        }
    }
}

/// Functions of `vmath` over slices.
macro_rules! slices {
    ($($name:ident $f:ident)*) => {$(
        struct $name<T>(PhantomData<T>);
        impl<T: Float> StepBody for $name<T> {
            type To = T;

            #[inline(always)]
            fn run(_: &StepCode, dst: &mut [T], &[a, ..]: &[&[u8]; 4]) {
                vmath::$f(dst, cast_slice(a));
            }
        }
    )*};
}

slices! {
    Exp exp_elements
    Log log_elements
}

/// Functions of `vmath` as operations on elements.
macro_rules! functions {
    ($($name:ident $f:ident)*) => {$(
        #[derive(Clone, Copy, Default)]
        struct $name;
        impl<T: Float> ElementMap<T> for $name {
            #[inline(always)]
            fn at(self, x: T) -> T { vmath::$f(x) }
        }
    )*};
}

functions! {
    Recip recip
    Tanh tanh
    Sigmoid sigmoid
}

fn float_loop<T: Float + ElementNumber>(op: Op) -> Option<StepLoop> {
    Some(match op {
        Op::Neg => compiled::<Mapped<T, Neg>>(),
        Op::Relu => compiled::<Mapped<T, Relu>>(),
        Op::Exp => compiled::<Exp<T>>(),
        Op::Log => compiled::<Log<T>>(),
        Op::Recip => compiled::<Mapped<T, Recip>>(),
        Op::Tanh => compiled::<Mapped<T, Tanh>>(),
        Op::Sigmoid => compiled::<Mapped<T, Sigmoid>>(),
        Op::Add => compiled::<Onto<T, Add>>(),
        Op::Sub => compiled::<Onto<T, Sub>>(),
        Op::Mul => compiled::<Zipped<T, Mul, false>>(),
        Op::Div => compiled::<Zipped<T, Div, false>>(),
        Op::Max => compiled::<Zipped<T, Max, false>>(),
        Op::Min => compiled::<Zipped<T, Min, false>>(),
        Op::Gate => compiled::<Zipped<T, Gate, false>>(),
        Op::TanhGrad => compiled::<Zipped<T, TanhGrad, false>>(),
        Op::SigmoidGrad => compiled::<Zipped<T, SigmoidGrad, false>>(),
        Op::Eq => compiled::<Zipped<T, Equal, false>>(),
        Op::Ne => compiled::<Zipped<T, Differ, false>>(),
        Op::Lt => compiled::<Zipped<T, Less, false>>(),
        Op::Le => compiled::<Zipped<T, LessEqual, false>>(),
        Op::Gt => compiled::<Zipped<T, Less, true>>(),
        Op::Ge => compiled::<Zipped<T, LessEqual, true>>(),
        _ => return None,
    })
}

/// The loop of `op` on operands of `elem`.
pub(super) fn step_loop(op: Op, elem: DType) -> StepLoop {
    let own: Option<StepLoop> = match (op, elem) {
        (Op::Select, DType::F32) => Some(compiled::<Chosen>()),
        (_, DType::F32) => float_loop::<f32>(op),
        (_, DType::F64) => float_loop::<f64>(op),
        (Op::Not, DType::Bool) => Some(compiled::<Mapped<u8, Not>>()),
        (Op::And, DType::Bool) => Some(compiled::<Zipped<u8, And, false>>()),
        (Op::Or, DType::Bool) => Some(compiled::<Zipped<u8, Or, false>>()),
        _ => None,
    };
    own.unwrap_or(apply_step)
}

/// The loop of `op` on operands of `elem` of which operand `k` is a constant, if there is one.
pub(super) fn loop_with_constant(op: Op, elem: DType, k: usize) -> Option<StepLoop> {
    if elem != DType::F32 {
        return None;
    }
    Some(match (op, k) {
        // Sums and products have the same bits in either order.
        (Op::Add, _) => compiled::<WithConstant<Add, false>>(),
        (Op::Mul, _) => compiled::<WithConstant<Mul, false>>(),
        (Op::Sub, 1) => compiled::<WithConstant<Sub, false>>(),
        (Op::Div, 1) => compiled::<WithConstant<Div, false>>(),
        (Op::Max, 1) => compiled::<WithConstant<Max, false>>(),
        (Op::Min, 1) => compiled::<WithConstant<Min, false>>(),
        (Op::Eq, _) => compiled::<WithConstant<Equal, false>>(),
        (Op::Ne, _) => compiled::<WithConstant<Differ, false>>(),
        (Op::Lt, 1) | (Op::Gt, 0) => compiled::<WithConstant<Less, false>>(),
        (Op::Le, 1) | (Op::Ge, 0) => compiled::<WithConstant<LessEqual, false>>(),
        (Op::Sub, 0) => compiled::<WithConstant<Sub, true>>(),
        (Op::Div, 0) => compiled::<WithConstant<Div, true>>(),
        (Op::Lt, 0) | (Op::Gt, 1) => compiled::<WithConstant<Less, true>>(),
        (Op::Le, 0) | (Op::Ge, 1) => compiled::<WithConstant<LessEqual, true>>(),
        (Op::Select, 1) => compiled::<ChosenOrConstant<true>>(),
        (Op::Select, 2) => compiled::<ChosenOrConstant<false>>(),
        _ => return None,
    })
}
