//! Little-endian floats of any type, read and written one by one as `f64`.

use crate::nodes::DType;

/// The little-endian float `x`. Every float of at most 64 bits is an `f64`.
pub(in crate::train) fn read_checkpoint_float(dtype: DType, x: &[u8]) -> f64 {
    match dtype {
        DType::F16 => x.first_chunk().map_or(0.0, |b| half::f16::from_le_bytes(*b).to_f64()),
        DType::BF16 => x.first_chunk().map_or(0.0, |b| half::bf16::from_le_bytes(*b).to_f64()),
        DType::F32 => x.first_chunk().map_or(0.0, |b| f64::from(f32::from_le_bytes(*b))),
        _ => x.first_chunk().map_or(0.0, |b| f64::from_le_bytes(*b)),
    }
}

/// Writes `x` to `out`, rounded once to `dtype`.
pub(in crate::train) fn write_checkpoint_float(dtype: DType, out: &mut [u8], x: f64) {
    match dtype {
        DType::F16 => out.copy_from_slice(&half::f16::from_f64(x).to_le_bytes()),
        DType::BF16 => out.copy_from_slice(&half::bf16::from_f64(x).to_le_bytes()),
        DType::F32 => out.copy_from_slice(&(x as f32).to_le_bytes()),
        _ => out.copy_from_slice(&x.to_le_bytes()),
    }
}
