//! Kernel calls of Fourier transforms. The tables of a length are made here, once for a program.

use super::TRANSFORM;
use super::attrs::{FftAttrs, IrfftAttrs, RfftAttrs};
use crate::kernels::signal::fft::{self, FftRows, transform_kernel_for};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;

/// `fft`.
pub fn emit_fft(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let FftAttrs { inverse, scale } = FftAttrs::of(&cx.attrs());
    emit_transform(cx, if inverse { fft::Kind::Inverse } else { fft::Kind::Forward }, scale)
}

/// `rfft`.
pub fn emit_rfft(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let scale = RfftAttrs::of(&cx.attrs()).scale;
    emit_transform(cx, fft::Kind::Real, scale)
}

/// `irfft`.
pub fn emit_irfft(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let scale = IrfftAttrs::of(&cx.attrs()).scale;
    emit_transform(cx, fft::Kind::RealInverse, scale)
}

fn emit_transform(cx: &mut LowerCx<'_>, kind: fft::Kind, scale: f64) -> Result<(), String> {
    let (from, to) = (cx.arg_dims(0), cx.out_dims(0));
    let (read, written) = (from.last().copied().unwrap_or(1), to.last().copied().unwrap_or(1));
    let n = if kind == fft::Kind::Real { read } else { written };
    let (float, p) = (cx.dtype(0).part(), FftRows { rows: to.numel() / written, n, scale });
    let (kernel, tables, scratch) = transform_kernel_for(kind, n, float)?;
    let scratch = cx.scratch(float.size(), scratch);
    let call = Call::new(kernel, p.to_words(), p.units()).prepared(tables);
    let call = call.flops(cx.flops()).cost_class(TRANSFORM).reads_args(1);
    cx.call(call.writes(Buf::Out(0), p.rows_per_unit() * written).scratch(scratch));
    Ok(())
}
