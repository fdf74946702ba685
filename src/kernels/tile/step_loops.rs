//! The loop of each step, as a function over bytes: it is looked up once, when a program is compiled, for the best
//! instruction set.
//!
//! Frequent operations have loops of their own; [`run_step`] dispatches the others when it runs. A uniform operand is
//! one number for all elements: a loop for it reads that number before it starts. Invariant: a loop computes what
//! `run_step` does, bit for bit.

use super::apply::run_step;
use super::element_loops::*;
use super::program::TileStep;
use super::step_code::{StepCode, StepLoop};
use super::tile_op::TileOp as Op;
use super::tile_table::TileBytes;
use crate::float::Float;
use crate::simd::{ByteLoop, byte_loop};
use crate::vmath;
use arenagrad_arena::DType;
use bytemuck::{Pod, cast_slice};
use std::marker::PhantomData;

/// An operand of a loop, at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Nothing,
    /// Value `v`, read element by element.
    Values(u16),
    /// Value `v`, which is one number everywhere.
    Uniform(u16),
}

/// How a step is computed, alone or together with the one before it.
#[derive(Clone, Copy)]
pub(super) struct StepForm {
    pub run: StepLoop,
    pub args: [Operand; 4],
    /// The values to which the step adds, or from or to which it subtracts: its loop can write its result in place of
    /// one.
    pub addends: [Option<u16>; 2],
}

impl StepForm {
    /// The form of `step` alone. `uniform` says whether a value is one number everywhere.
    pub(super) fn new(step: &TileStep, uniform: &impl Fn(u16) -> bool) -> StepForm {
        let operands = &step.args[..step.op.arity()];
        let one = |(k, &v): (usize, &u16)| Some((k, loop_with_uniform(step.op, step.elem, k).filter(|_| uniform(v))?));
        let with = operands.iter().enumerate().find_map(one);
        let mut args = [Operand::Nothing; 4];
        for (k, (arg, &v)) in args.iter_mut().zip(operands).enumerate() {
            let number = with.is_some_and(|(place, _)| place == k);
            *arg = if number { Operand::Uniform(v) } else { Operand::Values(v) };
        }
        let adds = matches!(step.op, Op::Add | Op::Sub) && matches!(step.elem, DType::F32 | DType::F64);
        let addend = |k: usize| match args[k] {
            Operand::Values(v) if adds => Some(v),
            _ => None,
        };
        let run = with.map_or_else(|| step_loop(step.op, step.elem), |(_, run)| run);
        StepForm { run, args, addends: [addend(0), addend(1)] }
    }

    /// The values that the step reads.
    pub(super) fn reads(&self) -> impl Iterator<Item = u16> + '_ {
        self.args.iter().filter_map(|arg| match arg {
            Operand::Nothing => None,
            Operand::Values(v) | Operand::Uniform(v) => Some(*v),
        })
    }
}

/// The number that a uniform operand is. 0 if there is no operand.
#[inline(always)]
pub(super) fn first_float(bytes: &[u8]) -> f32 {
    bytes.first_chunk().map_or(0.0, |number| f32::from_ne_bytes(*number))
}

/// A loop that meets no bad element. `run` is inlined.
pub(super) trait StepBody {
    /// An element of the result.
    type To: Pod;
    fn run(step: &StepCode, dst: &mut [Self::To], table: &[TileBytes<'_>]);
}

/// A [`StepBody`] as a loop over bytes.
struct StepBytes<B>(PhantomData<B>);

impl<B: StepBody> ByteLoop for StepBytes<B> {
    type To = B::To;
    type Step = StepCode;
    type Operands<'a> = [TileBytes<'a>];
    type Out = Option<usize>;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [B::To], table: &[TileBytes<'_>]) -> Option<usize> {
        B::run(step, dst, table);
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
    fn run(step: &StepCode, dst: &mut [T], table: &[TileBytes<'_>]) {
        let [a] = step.operands(table);
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
    fn run(step: &StepCode, dst: &mut [O::Out], table: &[TileBytes<'_>]) {
        let [a, b] = step.operands(table);
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
    fn run(step: &StepCode, dst: &mut [T], table: &[TileBytes<'_>]) {
        let [a, b] = step.operands(table);
        let op = O::default();
        if a.is_empty() {
            dst.iter_mut().zip(cast_slice::<u8, T>(b)).for_each(|(d, y)| *d = op.at(*d, *y));
        } else if b.is_empty() {
            dst.iter_mut().zip(cast_slice::<u8, T>(a)).for_each(|(d, x)| *d = op.at(*x, *d));
        } else {
            Zipped::<T, O, false>::run(step, dst, table);
        }
    }
}

/// Two operands, of which the second is uniform; with `BEFORE`, the first.
struct WithUniform<O, const BEFORE: bool>(PhantomData<O>);

impl<O: ElementZip<f32> + Default, const BEFORE: bool> StepBody for WithUniform<O, BEFORE> {
    type To = O::Out;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [O::Out], table: &[TileBytes<'_>]) {
        let [a, b] = step.operands(table);
        let (x, c) = if BEFORE { (b, first_float(a)) } else { (a, first_float(b)) };
        for (d, x) in dst.iter_mut().zip(cast_slice::<u8, f32>(x)) {
            *d = if BEFORE { O::default().at(c, *x) } else { O::default().at(*x, c) };
        }
    }
}

/// [`WithUniform`]. If the other operand is empty, the result is in place of it.
struct OntoUniform<O, const BEFORE: bool>(PhantomData<O>);

impl<O: ElementZip<f32, Out = f32> + Default, const BEFORE: bool> StepBody for OntoUniform<O, BEFORE> {
    type To = f32;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [f32], table: &[TileBytes<'_>]) {
        let [a, b] = step.operands(table);
        let (x, c) = if BEFORE { (b, first_float(a)) } else { (a, first_float(b)) };
        if x.is_empty() {
            dst.iter_mut().for_each(|d| *d = if BEFORE { O::default().at(c, *d) } else { O::default().at(*d, c) });
        } else {
            WithUniform::<O, BEFORE>::run(step, dst, table);
        }
    }
}

/// The second operand where the first is true, else the third.
struct Chosen;

impl StepBody for Chosen {
    type To = u32;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [u32], table: &[TileBytes<'_>]) {
        let [cond, b, c] = step.operands(table);
        for (((d, k), x), y) in dst.iter_mut().zip(cond).zip(cast_slice::<u8, u32>(b)).zip(cast_slice::<u8, u32>(c)) {
            *d = *y ^ (*x ^ *y) & u32::mask(*k != 0);
        }
    }
}

/// The second operand where the first is true, else the third, which is uniform; with `BEFORE`, the second is.
struct ChosenOrUniform<const BEFORE: bool>;

impl<const BEFORE: bool> StepBody for ChosenOrUniform<BEFORE> {
    type To = u32;

    #[inline(always)]
    fn run(step: &StepCode, dst: &mut [u32], table: &[TileBytes<'_>]) {
        let [cond, b, c] = step.operands(table);
        let (x, number) = if BEFORE { (c, first_float(b)) } else { (b, first_float(c)) };
        let number = number.to_bits();
        for ((d, k), x) in dst.iter_mut().zip(cond).zip(cast_slice::<u8, u32>(x)) {
            *d = number ^ (*x ^ number) & u32::mask((*k != 0) != BEFORE);
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
            fn run(step: &StepCode, dst: &mut [T], table: &[TileBytes<'_>]) {
                let [a] = step.operands(table);
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
fn step_loop(op: Op, elem: DType) -> StepLoop {
    let own: Option<StepLoop> = match (op, elem) {
        (Op::Select, DType::F32) => Some(compiled::<Chosen>()),
        (_, DType::F32) => float_loop::<f32>(op),
        (_, DType::F64) => float_loop::<f64>(op),
        (Op::Not, DType::Bool) => Some(compiled::<Mapped<u8, Not>>()),
        (Op::And, DType::Bool) => Some(compiled::<Zipped<u8, And, false>>()),
        (Op::Or, DType::Bool) => Some(compiled::<Zipped<u8, Or, false>>()),
        _ => None,
    };
    own.unwrap_or(run_step)
}

/// The loop of `op` on operands of `elem` of which operand `k` is uniform, if there is one. It reads the operands in
/// their order.
fn loop_with_uniform(op: Op, elem: DType, k: usize) -> Option<StepLoop> {
    if elem != DType::F32 {
        return None;
    }
    Some(match (op, k) {
        (Op::Add, 0) => compiled::<OntoUniform<Add, true>>(),
        (Op::Add, _) => compiled::<OntoUniform<Add, false>>(),
        (Op::Sub, 0) => compiled::<OntoUniform<Sub, true>>(),
        (Op::Sub, _) => compiled::<OntoUniform<Sub, false>>(),
        (Op::Mul, _) => with_uniform::<Mul>(k),
        (Op::Div, _) => with_uniform::<Div>(k),
        (Op::Max, _) => with_uniform::<Max>(k),
        (Op::Min, _) => with_uniform::<Min>(k),
        (Op::Eq, _) => with_uniform::<Equal>(k),
        (Op::Ne, _) => with_uniform::<Differ>(k),
        (Op::Lt, _) => with_uniform::<Less>(k),
        (Op::Le, _) => with_uniform::<LessEqual>(k),
        (Op::Gt, _) => with_uniform::<Greater>(k),
        (Op::Ge, _) => with_uniform::<GreaterEqual>(k),
        (Op::Select, 1) => compiled::<ChosenOrUniform<true>>(),
        (Op::Select, 2) => compiled::<ChosenOrUniform<false>>(),
        _ => return None,
    })
}

/// The loop of `O` with a uniform operand `k`.
fn with_uniform<O: ElementZip<f32> + Default>(k: usize) -> StepLoop {
    if k == 0 { compiled::<WithUniform<O, true>>() } else { compiled::<WithUniform<O, false>>() }
}
