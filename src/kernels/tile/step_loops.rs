//! The loop of each step, as a function over bytes: it is looked up once, when a program is compiled.
//!
//! Frequent operations have functions of their own; [`apply_step`] dispatches the others when it runs. Some loops read
//! one operand as a constant of the step. Invariant: a function computes what `apply_step` does, bit for bit.

use super::apply::apply_step;
use super::element_loops::*;
use super::tile_code::StepCode;
use super::tile_op::TileOp as Op;
use crate::float::Float;
use crate::vmath;
use arenagrad_arena::DType;
use bytemuck::{Pod, cast_slice, cast_slice_mut};

/// Computes a step on a tile: the step, the result, and the operands, which have at least as many elements. Returns the
/// first bad element.
pub(super) type StepLoop = fn(&StepCode, &mut [u8], &[u8], &[u8], &[u8]) -> Option<usize>;

fn map_loop<T: Pod, O: ElementMap<T> + Default>(
    _: &StepCode,
    dst: &mut [u8],
    a: &[u8],
    _: &[u8],
    _: &[u8],
) -> Option<usize> {
    map_elements(O::default(), cast_slice_mut(dst), cast_slice::<u8, T>(a));
    None
}

fn zip_loop<T: Pod, O: ElementZip<T> + Default>(
    _: &StepCode,
    dst: &mut [u8],
    a: &[u8],
    b: &[u8],
    _: &[u8],
) -> Option<usize> {
    zip_elements(O::default(), cast_slice_mut(dst), cast_slice::<u8, T>(a), cast_slice(b));
    None
}

/// As [`zip_loop`], with the operands exchanged.
fn swapped_loop<T: Pod, O: ElementZip<T> + Default>(
    s: &StepCode,
    dst: &mut [u8],
    a: &[u8],
    b: &[u8],
    c: &[u8],
) -> Option<usize> {
    zip_loop::<T, O>(s, dst, b, a, c)
}

/// One operand, the first or the second, and a constant behind it.
fn loop_constant_behind<O: ElementZip<f32> + Default>(
    s: &StepCode,
    dst: &mut [u8],
    a: &[u8],
    b: &[u8],
    _: &[u8],
) -> Option<usize> {
    let x = if a.is_empty() { b } else { a };
    zip_elements_with_constant(O::default(), cast_slice_mut(dst), cast_slice(x), f32::imm(s.imm[0], s.imm[1]));
    None
}

/// One operand, the first or the second, and a constant before it.
fn loop_constant_before<O: ElementZip<f32> + Default>(
    s: &StepCode,
    dst: &mut [u8],
    a: &[u8],
    b: &[u8],
    _: &[u8],
) -> Option<usize> {
    let y = if a.is_empty() { b } else { a };
    zip_constant_with_elements(O::default(), cast_slice_mut(dst), f32::imm(s.imm[0], s.imm[1]), cast_slice(y));
    None
}

fn select_loop(_: &StepCode, dst: &mut [u8], a: &[u8], b: &[u8], c: &[u8]) -> Option<usize> {
    select_elements::<u32>(cast_slice_mut(dst), a, cast_slice(b), cast_slice(c));
    None
}

fn select_loop_or_constant(s: &StepCode, dst: &mut [u8], a: &[u8], b: &[u8], _: &[u8]) -> Option<usize> {
    let constant = f32::imm(s.imm[0], s.imm[1]).to_bits();
    select_elements_with_constant(cast_slice_mut(dst), a, cast_slice(b), constant, false);
    None
}

fn select_loop_constant_or(s: &StepCode, dst: &mut [u8], a: &[u8], _: &[u8], c: &[u8]) -> Option<usize> {
    let constant = f32::imm(s.imm[0], s.imm[1]).to_bits();
    select_elements_with_constant(cast_slice_mut(dst), a, cast_slice(c), constant, true);
    None
}

/// Loops that call a function over slices.
macro_rules! slices {
    ($($name:ident $f:ident)*) => {$(
        fn $name<T: Float>(_: &StepCode, dst: &mut [u8], a: &[u8], _: &[u8], _: &[u8]) -> Option<usize> {
            vmath::$f(cast_slice_mut::<u8, T>(dst), cast_slice(a));
            None
        }
    )*};
}

slices! {
    exp_loop exp_slice
    log_loop log_slice
    recip_loop recip_slice
    tanh_loop tanh_slice
    sigmoid_loop sigmoid_slice
}

fn float_loop<T: Float + ElementNumber>(op: Op) -> Option<StepLoop> {
    Some(match op {
        Op::Neg => map_loop::<T, Neg>,
        Op::Relu => map_loop::<T, Relu>,
        Op::Exp => exp_loop::<T>,
        Op::Log => log_loop::<T>,
        Op::Recip => recip_loop::<T>,
        Op::Tanh => tanh_loop::<T>,
        Op::Sigmoid => sigmoid_loop::<T>,
        Op::Add => zip_loop::<T, Add>,
        Op::Sub => zip_loop::<T, Sub>,
        Op::Mul => zip_loop::<T, Mul>,
        Op::Div => zip_loop::<T, Div>,
        Op::Max => zip_loop::<T, Max>,
        Op::Min => zip_loop::<T, Min>,
        Op::Gate => zip_loop::<T, Gate>,
        Op::TanhGrad => zip_loop::<T, TanhGrad>,
        Op::SigmoidGrad => zip_loop::<T, SigmoidGrad>,
        Op::Eq => zip_loop::<T, Equal>,
        Op::Ne => zip_loop::<T, Differ>,
        Op::Lt => zip_loop::<T, Less>,
        Op::Le => zip_loop::<T, LessEqual>,
        Op::Gt => swapped_loop::<T, Less>,
        Op::Ge => swapped_loop::<T, LessEqual>,
        _ => return None,
    })
}

/// The loop of `op` on operands of `elem`.
pub(super) fn step_loop(op: Op, elem: DType) -> StepLoop {
    let own: Option<StepLoop> = match (op, elem) {
        (Op::Select, DType::F32) => Some(select_loop),
        (_, DType::F32) => float_loop::<f32>(op),
        (_, DType::F64) => float_loop::<f64>(op),
        (Op::Not, DType::Bool) => Some(map_loop::<u8, Not>),
        (Op::And, DType::Bool) => Some(zip_loop::<u8, And>),
        (Op::Or, DType::Bool) => Some(zip_loop::<u8, Or>),
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
        (Op::Add, _) => loop_constant_behind::<Add>,
        (Op::Mul, _) => loop_constant_behind::<Mul>,
        (Op::Sub, 1) => loop_constant_behind::<Sub>,
        (Op::Div, 1) => loop_constant_behind::<Div>,
        (Op::Max, 1) => loop_constant_behind::<Max>,
        (Op::Min, 1) => loop_constant_behind::<Min>,
        (Op::Eq, _) => loop_constant_behind::<Equal>,
        (Op::Ne, _) => loop_constant_behind::<Differ>,
        (Op::Lt, 1) | (Op::Gt, 0) => loop_constant_behind::<Less>,
        (Op::Le, 1) | (Op::Ge, 0) => loop_constant_behind::<LessEqual>,
        (Op::Sub, 0) => loop_constant_before::<Sub>,
        (Op::Div, 0) => loop_constant_before::<Div>,
        (Op::Lt, 0) | (Op::Gt, 1) => loop_constant_before::<Less>,
        (Op::Le, 0) | (Op::Ge, 1) => loop_constant_before::<LessEqual>,
        (Op::Select, 1) => select_loop_constant_or,
        (Op::Select, 2) => select_loop_or_constant,
        _ => return None,
    })
}
