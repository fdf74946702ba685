//! Dispatches an operation and an element type to a loop.
//!
//! Invariant: there is an arm for every pair that [`supports_operand_type`](super::supports_operand_type) allows.
//! A program with another pair fails its check, so the default arms are unreachable.

use super::cast;
use super::element_loops::*;
use super::special;
use super::step_code::StepCode;
use super::tile_op::TileOp as Op;
use super::tile_table::TileBytes;
use crate::float::Float;
use crate::vmath;
use arenagrad_arena::DType;
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use half::{bf16, f16};

/// Applies `step` to tiles in bytes. The operands have at least as many elements as `dst`. Returns the first bad
/// element.
#[inline]
pub(super) fn run_step(step: &StepCode, dst: &mut [u8], table: &[TileBytes<'_>]) -> Option<usize> {
    let [a, b, c] = step.operands(table);
    match (step.op, step.elem) {
        (Op::Copy, _) => {
            let n = dst.len();
            dst.copy_from_slice(&a[..n]);
        }
        (Op::Fill, elem) => fill_constant(elem, step.imm, dst),
        (Op::Cast, from) => cast::convert_tile(from, step.out, dst, a),
        (Op::Select, elem) => match elem.size() {
            1 => choose_elements::<u8>(dst, a, b, c),
            2 => choose_elements::<u16>(dst, a, b, c),
            4 => choose_elements::<u32>(dst, a, b, c),
            _ => choose_elements::<u64>(dst, a, b, c),
        },
        (_, DType::F32) => compute_float::<f32>(step, dst, a, b),
        (_, DType::F64) => compute_float::<f64>(step, dst, a, b),
        (_, DType::I8) => return compute_int::<i8>(step, dst, a, b),
        (_, DType::U8) => return compute_int::<u8>(step, dst, a, b),
        (_, DType::I32) => return compute_int::<i32>(step, dst, a, b),
        (_, DType::I64) => return compute_int::<i64>(step, dst, a, b),
        (_, DType::U32) => return compute_int::<u32>(step, dst, a, b),
        (_, DType::Bool) => compute_bool(step.op, dst, a, b),
        (op, elem) => unreachable!("{op:?} on {elem}"),
    }
    None
}

/// Fills a tile with a constant.
pub(super) fn fill_constant(elem: DType, [x, y]: [f64; 2], dst: &mut [u8]) {
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
        DType::I16 => cast_slice_mut(dst).fill((x as i64).saturating_add(y as i64).clamp(-32768, 32767) as i16),
        DType::U16 => cast_slice_mut(dst).fill((x as i64).saturating_add(y as i64).clamp(0, 65535) as u16),
        DType::U64 => {
            cast_slice_mut(dst).fill((x as i128).saturating_add(y as i128).clamp(0, i128::from(u64::MAX)) as u64)
        }
        DType::Bool => dst.fill((x + y != 0.0) as u8),
        _ => unreachable!("a constant of {elem}"),
    }
}

/// The elements of a tile. A missing operand is empty and need not be aligned.
#[inline]
fn view_elements<T: Pod>(bytes: &[u8]) -> &[T] {
    if bytes.is_empty() { &[] } else { cast_slice(bytes) }
}

fn choose_elements<T: Pod>(dst: &mut [u8], a: &[u8], b: &[u8], c: &[u8]) {
    select_elements::<T>(cast_slice_mut(dst), a, cast_slice(b), cast_slice(c));
}

fn compare_elements<T: ElementNumber>(op: Op, dst: &mut [u8], a: &[T], b: &[T]) {
    match op {
        Op::Eq => zip_elements(Equal, dst, a, b),
        Op::Ne => zip_elements(Differ, dst, a, b),
        Op::Lt => zip_elements(Less, dst, a, b),
        Op::Le => zip_elements(LessEqual, dst, a, b),
        Op::Gt => zip_elements(Less, dst, b, a),
        _ => zip_elements(LessEqual, dst, b, a),
    }
}

fn compute_float<T: Float + ElementNumber>(step: &StepCode, dst: &mut [u8], a: &[u8], b: &[u8]) {
    let (op, [p, q]) = (step.op, step.imm);
    let (a, b) = (view_elements::<T>(a), view_elements::<T>(b));
    if op.compares() {
        return compare_elements(op, dst, a, b);
    }
    let dst = cast_slice_mut::<u8, T>(dst);
    match op {
        Op::Neg => map_elements(Neg, dst, a),
        Op::Abs => map_elements(Abs, dst, a),
        Op::Sign => map_elements(Sign, dst, a),
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
        Op::Floor => map_elements(Floor, dst, a),
        Op::Ceil => map_elements(Ceil, dst, a),
        Op::Round => map_elements(Round, dst, a),
        Op::Relu => map_elements(Relu, dst, a),
        Op::LeakyRelu => map_elements(LeakyRelu(T::from_f64(p)), dst, a),
        Op::Elu => vmath::elu_slice(dst, a, T::from_f64(p)),
        Op::Gelu => vmath::gelu_slice(dst, a),
        Op::GeluGrad => vmath::gelu_grad_slice(dst, a),
        Op::GeluTanh => vmath::gelu_tanh_slice(dst, a),
        Op::GeluTanhGrad => vmath::gelu_tanh_grad_slice(dst, a),
        Op::Silu => vmath::silu_slice(dst, a),
        Op::SiluGrad => vmath::silu_grad_slice(dst, a),
        Op::Softplus => vmath::softplus_slice(dst, a),
        Op::Add => zip_elements(Add, dst, a, b),
        Op::Sub => zip_elements(Sub, dst, a, b),
        Op::Mul => zip_elements(Mul, dst, a, b),
        Op::Div => zip_elements(Div, dst, a, b),
        Op::Max => zip_elements(Max, dst, a, b),
        Op::Min => zip_elements(Min, dst, a, b),
        Op::Pow => vmath::pow_slice(dst, a, b),
        Op::Gate => zip_elements(Gate, dst, a, b),
        Op::TanhGrad => zip_elements(TanhGrad, dst, a, b),
        Op::SigmoidGrad => zip_elements(SigmoidGrad, dst, a, b),
        Op::Clamp => map_elements(Clamp(T::from_f64(p), T::from_f64(q)), dst, a),
        _ => special::compute_step(step, dst, a, b),
    }
}

fn compute_int<T: ElementInt>(step: &StepCode, dst: &mut [u8], a: &[u8], b: &[u8]) -> Option<usize> {
    let (op, [p, q]) = (step.op, step.imm);
    let (a, b) = (view_elements::<T>(a), view_elements::<T>(b));
    if op.compares() {
        compare_elements(op, dst, a, b);
        return None;
    }
    let dst = cast_slice_mut::<u8, T>(dst);
    match op {
        Op::Neg => map_elements(Neg, dst, a),
        Op::Abs => map_elements(Abs, dst, a),
        Op::Sign => map_elements(Sign, dst, a),
        Op::Add => zip_elements(Add, dst, a, b),
        Op::Sub => zip_elements(Sub, dst, a, b),
        Op::Mul => zip_elements(Mul, dst, a, b),
        Op::Div => return divide_elements(dst, a, b, T::quotient),
        Op::Fmod => return divide_elements(dst, a, b, T::rest),
        Op::Remainder => return divide_elements(dst, a, b, T::modulus),
        Op::FloorDivide => return divide_elements(dst, a, b, T::floor_quotient),
        Op::Pow => return raise_elements(dst, a, b),
        Op::BitNot => map_elements(BitNot, dst, a),
        Op::BitAnd => zip_elements(BitAnd, dst, a, b),
        Op::BitOr => zip_elements(BitOr, dst, a, b),
        Op::BitXor => zip_elements(BitXor, dst, a, b),
        Op::ShiftLeft => zip_elements(ShiftLeft, dst, a, b),
        Op::ShiftRight => zip_elements(ShiftRight, dst, a, b),
        Op::Max => zip_elements(Max, dst, a, b),
        Op::Min => zip_elements(Min, dst, a, b),
        Op::Clamp => map_elements(Clamp(T::imm(p, 0.0), T::imm(q, 0.0)), dst, a),
        _ => unreachable!("{op:?} on integers"),
    }
    None
}

fn compute_bool(op: Op, dst: &mut [u8], a: &[u8], b: &[u8]) {
    match op {
        Op::Not => map_elements(Not, dst, a),
        Op::And => zip_elements(And, dst, a, b),
        Op::Or => zip_elements(Or, dst, a, b),
        Op::Eq => zip_elements(Same, dst, a, b),
        Op::Ne => zip_elements(Xor, dst, a, b),
        _ => unreachable!("{op:?} on Bool"),
    }
}
