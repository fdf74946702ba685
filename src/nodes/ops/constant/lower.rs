//! Kernel calls that fill.

use crate::kernels::copy;
use crate::kernels::copy::{Fill, Iota};
use crate::nodes::arguments::axes::{AxisSplit, split_at_axis};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::common::lowering::element_bits;
use crate::nodes::ops::constant::attrs::{FullAttrs, IotaAttrs};

/// `full`.
pub fn emit_full(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let dtype = cx.out(0).dtype;
    let p = Fill { len: cx.out_dims(0).numel(), value: element_bits(FullAttrs::of(&cx.attrs()).value, dtype) };
    let call = Call::new(copy::fill_kernel_for(dtype), p.to_words(), p.units()).writes(Buf::Out(0), p.per_unit());
    cx.call(call);
    Ok(())
}

/// `iota`.
pub fn emit_iota(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let AxisSplit { outer, n, inner } = split_at_axis(&cx.out_dims(0), IotaAttrs::of(&cx.attrs()).axis as usize);
    let p = Iota { outer, n, inner };
    let kernel = copy::iota_kernel_for(cx.out(0).dtype)?;
    cx.call(Call::new(kernel, p.to_words(), p.units()).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}
