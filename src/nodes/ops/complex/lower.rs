//! Kernel calls of `complex`, `real` and `imag`.

use crate::kernels::elementwise::complex::{self, complex_kernel_for, complex_part_kernel_for};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;

/// `complex`.
pub fn emit_complex(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let p = complex::Parts { len: cx.out_dims(0).numel(), part: 0 };
    let call = Call::new(complex_kernel_for(cx.dtype(0))?, p.to_words(), p.units());
    cx.call(call.reads_args(2).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

/// `real`.
pub fn emit_real(cx: &mut LowerCx<'_>) -> Result<(), String> {
    emit_part(cx, 0)
}

/// `imag`.
pub fn emit_imag(cx: &mut LowerCx<'_>) -> Result<(), String> {
    emit_part(cx, 1)
}

fn emit_part(cx: &mut LowerCx<'_>, part: usize) -> Result<(), String> {
    let p = complex::Parts { len: cx.out_dims(0).numel(), part };
    let call = Call::new(complex_part_kernel_for(cx.out(0).dtype)?, p.to_words(), p.units());
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}
