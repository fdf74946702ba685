//! Kernel calls that fill.

use crate::kernels::abi::Kernel;
use crate::kernels::copy;
use crate::kernels::copy::{Fill, Iota};
use crate::nodes::build::axes::{AxisSplit, split_at_axis};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::common::lowering::{bits, by_size};
use crate::nodes::ops::constant::attrs::{FullAttrs, IotaAttrs};

/// `full`.
pub fn full(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let dtype = cx.out(0).dtype;
    let p = Fill { len: cx.out_dims(0).numel(), value: bits(FullAttrs::of(&cx.attrs()).value, dtype) };
    let call = Call::new(by_size!(dtype, copy::fill_kernel), p.to_words(), p.units()).writes(Buf::Out(0), p.per_unit());
    cx.call(call);
    Ok(())
}

/// `iota`.
pub fn iota(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let AxisSplit { outer, n, inner } = split_at_axis(&cx.out_dims(0), IotaAttrs::of(&cx.attrs()).axis as usize);
    let p = Iota { outer, n, inner };
    let kernel: Kernel = match cx.out(0).dtype {
        DType::F32 => copy::iota_kernel::<f32>,
        DType::F64 => copy::iota_kernel::<f64>,
        DType::I32 => copy::iota_kernel::<i32>,
        DType::I64 => copy::iota_kernel::<i64>,
        DType::U32 => copy::iota_kernel::<u32>,
        d => return Err(format!("no kernel for {d}")),
    };
    cx.call(Call::new(kernel, p.to_words(), p.units()).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}
