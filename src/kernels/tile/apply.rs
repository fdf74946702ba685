//! Dispatches an operation and an element type to a loop.
//!
//! Invariant: there is an arm for every pair that [`supports`](super::supports) allows. A program with another pair
//! fails its check, so the default arms are unreachable.

use super::cast::cast;
use super::code::StepCode;
use super::loops::*;
use super::op::TileOp as Op;
use super::special::special;
use crate::arena::DType;
use crate::kernels::float::Float;
use crate::kernels::vmath;
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use half::{bf16, f16};

/// Applies `step` to tiles in bytes. The operands have at least as many elements as `dst`. Returns the first bad
/// element.
#[inline]
pub(super) fn apply(step: &StepCode, dst: &mut [u8], a: &[u8], b: &[u8], c: &[u8]) -> Option<usize> {
    match (step.op, step.elem) {
        (Op::Copy, _) => {
            let n = dst.len();
            dst.copy_from_slice(&a[..n]);
        }
        (Op::Fill, elem) => fill(elem, step.imm, dst),
        (Op::Cast, from) => cast(from, step.out, dst, a),
        (Op::Select, elem) => match elem.size() {
            1 => choose::<u8>(dst, a, b, c),
            2 => choose::<u16>(dst, a, b, c),
            4 => choose::<u32>(dst, a, b, c),
            _ => choose::<u64>(dst, a, b, c),
        },
        (_, DType::F32) => float::<f32>(step, dst, a, b),
        (_, DType::F64) => float::<f64>(step, dst, a, b),
        (_, DType::I8) => return int::<i8>(step, dst, a, b),
        (_, DType::U8) => return int::<u8>(step, dst, a, b),
        (_, DType::I32) => return int::<i32>(step, dst, a, b),
        (_, DType::I64) => return int::<i64>(step, dst, a, b),
        (_, DType::U32) => return int::<u32>(step, dst, a, b),
        (_, DType::Bool) => truth(step.op, dst, a, b),
        (op, DType::F16 | DType::BF16 | DType::C64) => unreachable!("{op:?} on {:?}", step.elem),
    }
    None
}

/// Fills a tile with a constant.
pub(super) fn fill(elem: DType, [x, y]: [f64; 2], dst: &mut [u8]) {
    match elem {
        DType::F32 => cast_slice_mut(dst).fill(f32::imm(x, y)),
        DType::F64 => cast_slice_mut(dst).fill(f64::imm(x, y)),
        DType::F16 => cast_slice_mut(dst).fill(f16::from_f64(x + y)),
        DType::BF16 => cast_slice_mut(dst).fill(bf16::from_f64(x + y)),
        DType::I8 => cast_slice_mut(dst).fill(i8::imm(x, y)),
        DType::U8 => dst.fill(u8::imm(x, y)),
        DType::I32 => cast_slice_mut(dst).fill(i32::imm(x, y)),
        DType::I64 => cast_slice_mut(dst).fill(i64::imm(x, y)),
        DType::U32 => cast_slice_mut(dst).fill(u32::imm(x, y)),
        DType::Bool => dst.fill((x + y != 0.0) as u8),
        DType::C64 => unreachable!("a constant of c64"),
    }
}

/// The elements of a tile. A missing operand is empty and need not be aligned.
#[inline]
fn view<T: Pod>(bytes: &[u8]) -> &[T] {
    if bytes.is_empty() { &[] } else { cast_slice(bytes) }
}

fn choose<T: Pod>(dst: &mut [u8], a: &[u8], b: &[u8], c: &[u8]) {
    select::<T>(cast_slice_mut(dst), a, cast_slice(b), cast_slice(c));
}

fn compare<T: Number>(op: Op, dst: &mut [u8], a: &[T], b: &[T]) {
    match op {
        Op::Eq => zip(Equal, dst, a, b),
        Op::Ne => zip(Differ, dst, a, b),
        Op::Lt => zip(Less, dst, a, b),
        Op::Le => zip(LessEqual, dst, a, b),
        Op::Gt => zip(Less, dst, b, a),
        _ => zip(LessEqual, dst, b, a),
    }
}

fn float<T: Float + Number>(step: &StepCode, dst: &mut [u8], a: &[u8], b: &[u8]) {
    let (op, [p, q]) = (step.op, step.imm);
    let (a, b) = (view::<T>(a), view::<T>(b));
    if op.compares() {
        return compare(op, dst, a, b);
    }
    let dst = cast_slice_mut::<u8, T>(dst);
    match op {
        Op::Neg => map(Neg, dst, a),
        Op::Abs => map(Abs, dst, a),
        Op::Sign => map(Sign, dst, a),
        Op::Exp => vmath::exp_slice(dst, a),
        Op::Expm1 => vmath::expm1_slice(dst, a),
        Op::Log => vmath::log_slice(dst, a),
        Op::Log1p => vmath::log1p_slice(dst, a),
        Op::Sqrt => vmath::sqrt_slice(dst, a),
        Op::Rsqrt => vmath::rsqrt_slice(dst, a),
        Op::Recip => vmath::recip_slice(dst, a),
        Op::Sin => vmath::sin_slice(dst, a),
        Op::Cos => vmath::cos_slice(dst, a),
        Op::Tan => vmath::tan_slice(dst, a),
        Op::Atan => vmath::atan_slice(dst, a),
        Op::Tanh => vmath::tanh_slice(dst, a),
        Op::Sigmoid => vmath::sigmoid_slice(dst, a),
        Op::Erf => vmath::erf_slice(dst, a),
        Op::Floor => map(Floor, dst, a),
        Op::Ceil => map(Ceil, dst, a),
        Op::Round => map(Round, dst, a),
        Op::Relu => map(Relu, dst, a),
        Op::LeakyRelu => map(LeakyRelu(T::from_f64(p)), dst, a),
        Op::Elu => vmath::elu_slice(dst, a, T::from_f64(p)),
        Op::Gelu => vmath::gelu_slice(dst, a),
        Op::GeluGrad => vmath::gelu_grad_slice(dst, a),
        Op::GeluTanh => vmath::gelu_tanh_slice(dst, a),
        Op::GeluTanhGrad => vmath::gelu_tanh_grad_slice(dst, a),
        Op::Silu => vmath::silu_slice(dst, a),
        Op::SiluGrad => vmath::silu_grad_slice(dst, a),
        Op::Softplus => vmath::softplus_slice(dst, a),
        Op::Add => zip(Add, dst, a, b),
        Op::Sub => zip(Sub, dst, a, b),
        Op::Mul => zip(Mul, dst, a, b),
        Op::Div => zip(Div, dst, a, b),
        Op::Max => zip(Max, dst, a, b),
        Op::Min => zip(Min, dst, a, b),
        Op::Pow => vmath::pow_slice(dst, a, b),
        Op::Gate => zip(Gate, dst, a, b),
        Op::TanhGrad => zip(TanhGrad, dst, a, b),
        Op::SigmoidGrad => zip(SigmoidGrad, dst, a, b),
        Op::Clamp => map(Clamp(T::from_f64(p), T::from_f64(q)), dst, a),
        _ => special(step, dst, a, b),
    }
}

fn int<T: Int>(step: &StepCode, dst: &mut [u8], a: &[u8], b: &[u8]) -> Option<usize> {
    let (op, [p, q]) = (step.op, step.imm);
    let (a, b) = (view::<T>(a), view::<T>(b));
    if op.compares() {
        compare(op, dst, a, b);
        return None;
    }
    let dst = cast_slice_mut::<u8, T>(dst);
    match op {
        Op::Neg => map(Neg, dst, a),
        Op::Abs => map(Abs, dst, a),
        Op::Sign => map(Sign, dst, a),
        Op::Add => zip(Add, dst, a, b),
        Op::Sub => zip(Sub, dst, a, b),
        Op::Mul => zip(Mul, dst, a, b),
        Op::Div => return divide(dst, a, b, T::quotient),
        Op::Fmod => return divide(dst, a, b, T::rest),
        Op::Remainder => return divide(dst, a, b, T::modulus),
        Op::FloorDivide => return divide(dst, a, b, T::floor_quotient),
        Op::BitNot => map(BitNot, dst, a),
        Op::BitAnd => zip(BitAnd, dst, a, b),
        Op::BitOr => zip(BitOr, dst, a, b),
        Op::BitXor => zip(BitXor, dst, a, b),
        Op::ShiftLeft => zip(ShiftLeft, dst, a, b),
        Op::ShiftRight => zip(ShiftRight, dst, a, b),
        Op::Max => zip(Max, dst, a, b),
        Op::Min => zip(Min, dst, a, b),
        Op::Clamp => map(Clamp(T::imm(p, 0.0), T::imm(q, 0.0)), dst, a),
        _ => unreachable!("{op:?} on integers"),
    }
    None
}

fn truth(op: Op, dst: &mut [u8], a: &[u8], b: &[u8]) {
    match op {
        Op::Not => map(Not, dst, a),
        Op::And => zip(And, dst, a, b),
        Op::Or => zip(Or, dst, a, b),
        Op::Eq => zip(Same, dst, a, b),
        Op::Ne => zip(Xor, dst, a, b),
        _ => unreachable!("{op:?} on Bool"),
    }
}
