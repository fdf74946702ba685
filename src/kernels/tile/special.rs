//! Loops of the functions that compute in `f64` for both float types, and of those that look at bits.

use super::element_loops::{ElementMap, ElementZip, map_elements, zip_elements};
use super::step_code::StepCode;
use super::tile_op::TileOp as Op;
use crate::float::Float;
use crate::vmath;

/// Rounds toward zero.
#[derive(Clone, Copy)]
struct SpecialTrunc;

impl<T: Float> ElementMap<T> for SpecialTrunc {
    #[inline(always)]
    fn at(self, x: T) -> T {
        x.abs().floor().with_sign(x)
    }
}

/// The magnitude of a with the sign of b.
#[derive(Clone, Copy)]
struct SpecialCopysign;

impl<T: Float> ElementZip<T> for SpecialCopysign {
    type Out = T;
    #[inline(always)]
    fn at(self, x: T, y: T) -> T {
        x.with_sign(y)
    }
}

/// The next number towards b.
#[derive(Clone, Copy)]
struct SpecialNextafter;

impl<T: Float> ElementZip<T> for SpecialNextafter {
    type Out = T;
    #[inline(always)]
    fn at(self, x: T, y: T) -> T {
        x.next_towards(y)
    }
}

/// Applies a step that `apply::compute_float` does not name.
pub(super) fn compute_step<T: Float>(step: &StepCode, dst: &mut [T], a: &[T], b: &[T]) {
    match step.op {
        Op::Trunc => map_elements(SpecialTrunc, dst, a),
        Op::Asin => vmath::asin_slice(dst, a),
        Op::Acos => vmath::acos_slice(dst, a),
        Op::Sinh => vmath::sinh_slice(dst, a),
        Op::Cosh => vmath::cosh_slice(dst, a),
        Op::Asinh => vmath::asinh_slice(dst, a),
        Op::Acosh => vmath::acosh_slice(dst, a),
        Op::Atanh => vmath::atanh_slice(dst, a),
        Op::Exp2 => vmath::exp2_slice(dst, a),
        Op::Log2 => vmath::log2_slice(dst, a),
        Op::Log10 => vmath::log10_slice(dst, a),
        Op::Erfc => vmath::erfc_slice(dst, a),
        Op::Erfinv => vmath::erfinv_slice(dst, a),
        Op::Erfcinv => vmath::erfcinv_slice(dst, a),
        Op::Lgamma => vmath::lgamma_slice(dst, a),
        Op::Digamma => vmath::digamma_slice(dst, a),
        Op::Polygamma => vmath::polygamma_slice(dst, a, step.imm[0] as usize),
        Op::Atan2 => vmath::atan2_slice(dst, a, b),
        Op::Hypot => vmath::hypot_slice(dst, a, b),
        Op::Copysign => zip_elements(SpecialCopysign, dst, a, b),
        Op::Nextafter => zip_elements(SpecialNextafter, dst, a, b),
        Op::Fmod => vmath::fmod_slice(dst, a, b),
        Op::Remainder => vmath::remainder_slice(dst, a, b),
        Op::FloorDivide => vmath::floor_divide_slice(dst, a, b),
        op => unreachable!("{op:?} on floats"),
    }
}
