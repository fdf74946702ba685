//! Conversions between any two element types.
//!
//! * Float to integer truncates toward zero and saturates; NaN gives 0. Integer to integer saturates.
//! * A conversion to a narrower float rounds to nearest, half to even. Between a half float and a type other than `f32`
//!   the value goes through `f64`, which represents every other type exactly except large `i64` and `u64` (rounded
//!   twice).
//! * A conversion to Bool is x ≠ 0 (true for NaN). One from Bool gives 0 or 1.
//!
//! Invariant: the bits do not depend on the instruction set. The hardware and software paths of the `half` crate agree,
//! and the loops between `f32` and `bf16` have its bits.

use crate::simd;
use arenagrad_arena::DType;
use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// A Bool as it is stored.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(transparent)]
struct Truth(u8);

/// A type that converts to `D`.
trait To<D>: Pod {
    fn to(self) -> D;
}

simd! {
    fn cast_elements[S: To<D>, D: Pod](dst: &mut [D], src: &[S]) {
        for (d, s) in dst.iter_mut().zip(src) {
            *d = s.to();
        }
    }
}

simd! {
    /// As `bf16::from_f32`, without branches: rounds to nearest, half to even; a NaN stays one and becomes quiet.
    fn cast_round_to_bf16(dst: &mut [u16], src: &[u32]) {
        for (d, &x) in dst.iter_mut().zip(src) {
            let rounded = x.wrapping_add(0x7fff + ((x >> 16) & 1)) >> 16;
            let nan = (x & 0x7fff_ffff) > 0x7f80_0000;
            *d = if nan { (x >> 16) | 0x40 } else { rounded } as u16;
        }
    }
}

simd! {
    /// As `bf16::to_f32`, without branches.
    fn cast_widen_bf16(dst: &mut [u32], src: &[u16]) {
        for (d, &x) in dst.iter_mut().zip(src) {
            let x = u32::from(x) << 16;
            *d = if (x & 0x7fff_ffff) > 0x7f80_0000 { x | 0x40_0000 } else { x };
        }
    }
}

/// Expands to `impl To` for a pair of types, by their kinds.
macro_rules! pair {
    ($s:ident => $d:ident: $x:ident $e:expr) => {
        impl To<$d> for $s {
            #[inline(always)]
            fn to(self) -> $d {
                let $x = self;
                $e
            }
        }
    };
}

macro_rules! from_number {
    ($($s:ident)*) => {$(
        pair!($s => f32: x x as f32);
        pair!($s => f64: x x as f64);
        pair!($s => f16: x f16::from_f64(x as f64));
        pair!($s => bf16: x bf16::from_f64(x as f64));
        pair!($s => Truth: x Truth((x != (0 as $s)) as u8));
        pair!(Truth => $s: x (x.0 != 0) as u8 as $s);
        pair!(f16 => $s: x x.to_f64() as $s);
        pair!(bf16 => $s: x x.to_f64() as $s);
    )*};
}

macro_rules! float_to_int {
    ($($s:ident: $($d:ident)*;)*) => {$($(pair!($s => $d: x x as $d);)*)*};
}

macro_rules! int_to_int {
    ($($s:ident: $($d:ident)*;)*) => {$($(
        // Every integer type but `u64` fits `i64`, so the comparison is exact.
        pair!($s => $d: x (x as i64).clamp($d::MIN as i64, $d::MAX as i64) as $d);
    )*)*};
}

macro_rules! with_u64 {
    ($($s:ident)*) => {$(
        // The upper end of each signed type fits `u64`, and so does that of each unsigned one.
        pair!(u64 => $s: x x.min($s::MAX as u64) as $s);
        pair!($s => u64: x x.max(0) as u64);
    )*};
}

from_number! { f32 f64 i8 u8 i16 u16 i32 i64 u32 u64 }
float_to_int! { f32: i8 u8 i16 u16 i32 i64 u32 u64; f64: i8 u8 i16 u16 i32 i64 u32 u64; }
int_to_int! {
    i8: i8 u8 i16 u16 i32 i64 u32;
    u8: i8 u8 i16 u16 i32 i64 u32;
    i16: i8 u8 i16 u16 i32 i64 u32;
    u16: i8 u8 i16 u16 i32 i64 u32;
    i32: i8 u8 i16 u16 i32 i64 u32;
    i64: i8 u8 i16 u16 i32 i64 u32;
    u32: i8 u8 i16 u16 i32 i64 u32;
}
with_u64! { i8 u8 i16 u16 i32 i64 u32 }
pair!(u64 => u64: x x);
pair!(f16 => f16: x x);
pair!(bf16 => bf16: x x);
pair!(f16 => bf16: x bf16::from_f32(x.to_f32()));
pair!(bf16 => f16: x f16::from_f32(x.to_f32()));
pair!(f16 => Truth: x Truth((x.to_bits() & 0x7fff != 0) as u8));
pair!(bf16 => Truth: x Truth((x.to_bits() & 0x7fff != 0) as u8));
pair!(Truth => f16: x if x.0 != 0 { f16::ONE } else { f16::ZERO });
pair!(Truth => bf16: x if x.0 != 0 { bf16::ONE } else { bf16::ZERO });
pair!(Truth => Truth: x Truth((x.0 != 0) as u8));

/// The conversion of types that few graphs have: one loop, whatever the instruction set.
fn convert_rare<S: To<D>, D: Pod>(dst: &mut [D], src: &[S]) {
    for (d, s) in dst.iter_mut().zip(src) {
        *d = s.to();
    }
}

/// Declares conversions from any type `S`: for each target the function that runs its loop.
macro_rules! casts_from {
    ($(#[$doc:meta])* $name:ident: $($to:ident $t:ty, $cast:ident;)*) => {
        $(#[$doc])*
        fn $name<S>(to: DType, dst: &mut [u8], src: &[u8])
        where
            S: Pod $(+ To<$t>)*,
        {
            let src = cast_slice::<u8, S>(src);
            match to {
                $(DType::$to => $cast::<S, $t>(cast_slice_mut(dst), src),)*
                _ => unreachable!("a cast to {to}"),
            }
        }
    };
}

casts_from! {
    /// From a type that is common itself.
    cast_from:
    F32 f32, cast_elements; F64 f64, cast_elements; F16 f16, cast_elements; BF16 bf16, cast_elements;
    I8 i8, cast_elements; U8 u8, cast_elements; I32 i32, cast_elements; I64 i64, cast_elements;
    Bool Truth, cast_elements;
    U32 u32, convert_rare; I16 i16, convert_rare; U16 u16, convert_rare; U64 u64, convert_rare;
}

casts_from! {
    /// From a rare type.
    cast_from_rare:
    F32 f32, convert_rare; F64 f64, convert_rare; F16 f16, convert_rare;
    BF16 bf16, convert_rare; I8 i8, convert_rare; U8 u8, convert_rare;
    I32 i32, convert_rare; I64 i64, convert_rare; Bool Truth, convert_rare;
    U32 u32, convert_rare; I16 i16, convert_rare; U16 u16, convert_rare; U64 u64, convert_rare;
}

/// Converts `dst.len()` elements.
pub(super) fn convert_tile(elem: DType, to: DType, dst: &mut [u8], src: &[u8]) {
    let n = dst.len() / to.size();
    let src = &src[..n * elem.size()];
    match (elem, to) {
        (DType::BF16, DType::F32) => cast_widen_bf16(cast_slice_mut(dst), cast_slice(src)),
        (DType::F32, DType::BF16) => cast_round_to_bf16(cast_slice_mut(dst), cast_slice(src)),
        // The `half` crate has vector instructions for these two.
        (DType::F16, DType::F32) => cast_slice::<u8, f16>(src).convert_to_f32_slice(cast_slice_mut(dst)),
        (DType::F32, DType::F16) => cast_slice_mut::<u8, f16>(dst).convert_from_f32_slice(cast_slice(src)),
        (DType::F32, _) => cast_from::<f32>(to, dst, src),
        (DType::F64, _) => cast_from::<f64>(to, dst, src),
        (DType::F16, _) => cast_from::<f16>(to, dst, src),
        (DType::BF16, _) => cast_from::<bf16>(to, dst, src),
        (DType::I8, _) => cast_from::<i8>(to, dst, src),
        (DType::U8, _) => cast_from::<u8>(to, dst, src),
        (DType::I32, _) => cast_from::<i32>(to, dst, src),
        (DType::I64, _) => cast_from::<i64>(to, dst, src),
        (DType::U32, _) => cast_from_rare::<u32>(to, dst, src),
        (DType::I16, _) => cast_from_rare::<i16>(to, dst, src),
        (DType::U16, _) => cast_from_rare::<u16>(to, dst, src),
        (DType::U64, _) => cast_from_rare::<u64>(to, dst, src),
        (DType::Bool, _) => cast_from::<Truth>(to, dst, src),
        _ => unreachable!("a cast from {elem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_of_bf16_have_the_bits_of_the_half_crate() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        let mut wide = vec![0u32; all.len()];
        cast_widen_bf16(&mut wide, &all);
        for (&x, &y) in all.iter().zip(&wide) {
            assert_eq!(bf16::from_bits(x).to_f32().to_bits(), y, "{x:#x}");
        }
        // Around every number and every middle between two.
        for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
            let near: Vec<u32> = wide.iter().map(|x| x | low).collect();
            let mut rounded = vec![0u16; near.len()];
            cast_round_to_bf16(&mut rounded, &near);
            for (&x, &y) in near.iter().zip(&rounded) {
                assert_eq!(bf16::from_f32(f32::from_bits(x)).to_bits(), y, "{x:#x}");
            }
        }
    }
}
