//! Codes of quantised numbers.

use super::conv::{Windows, centred, convolve};
use super::norm::per_channel;
use super::reduce::product;
use super::{Entry, from_left, own};
use crate::error::Result;
use crate::import::{Cx, Out, one};
use arenagrad::graph::{DType, Var};

pub const OPS: &[Entry] = &[
    own("QuantizeLinear", quantize),
    own("DequantizeLinear", dequantize),
    own("DynamicQuantizeLinear", |c| {
        let x = c.x(0)?;
        let (low, high) = (x.amin(..).minimum(0.0), x.amax(..).maximum(0.0));
        let scale = (high - low) / 255.0;
        let zero = (-low / scale).clamp(0.0, 255.0).round();
        let y = ((x / scale).round() + zero).clamp(0.0, 255.0);
        Ok(vec![y.cast(DType::U8), scale, zero.cast(DType::U8)])
    }),
    own("MatMulInteger", |c| {
        let (a, b) = (matrix(c, 0, 2, true)?, matrix(c, 1, 3, false)?);
        one(product(a, b).cast(DType::I32))
    }),
    own("QLinearMatMul", |c| {
        let (a, b) = (matrix(c, 0, 2, true)?, matrix(c, 3, 5, false)?);
        let (sa, sb) = (scale(c, 1, a.rank(), true)?, scale(c, 4, b.rank(), false)?);
        codes(c, product(a, b), sa * sb, 6)
    }),
    own("QLinearConv", |c| {
        let (x, w) = (centred(c, 0, 2, None)?, centred(c, 3, 5, Some(0))?);
        let windows = Windows::of(c, &x.dims(), &w.dims()[2..])?;
        let mut y = convolve(x, w, &windows, c.int("group", 1))?;
        if c.has(8) {
            y = y + per_channel(c.stored(8)?.cast(DType::F64), y.rank());
        }
        let of_w = c.x(4)?.cast(DType::F64);
        let of_w = if of_w.numel() == 1 { of_w.reshape([]) } else { per_channel(of_w, y.rank()) };
        codes(c, y, c.x(1)?.cast(DType::F64).reshape([]) * of_w, 6)
    }),
];

/// The lowest and the highest number of an integer type.
fn range(dtype: DType) -> Option<(f64, f64)> {
    Some(match dtype {
        DType::I8 => (-128.0, 127.0),
        DType::U8 => (0.0, 255.0),
        DType::I16 => (-32768.0, 32767.0),
        DType::U16 => (0.0, 65535.0),
        DType::I32 => (-2_147_483_648.0, 2_147_483_647.0),
        _ => return None,
    })
}

/// Codes of a matrix without zero points, of which there may be one for each row, or each column.
fn matrix<'g>(c: &Cx<'_, 'g>, x: usize, zero: usize, rows: bool) -> Result<Var<'g>> {
    let codes = c.stored(x)?.cast(DType::F64);
    if !c.has(zero) {
        return Ok(codes);
    }
    let zero = c.stored(zero)?.cast(DType::F64);
    Ok(codes - aligned(zero, codes.rank(), rows))
}

/// One number, or a vector with one for each row or each column.
fn aligned<'g>(v: Var<'g>, rank: usize, rows: bool) -> Var<'g> {
    match (v.numel(), v.rank()) {
        (1, _) => v.reshape([]),
        (_, 1) if rows && rank > 1 => v.unsqueeze(-1),
        _ => v,
    }
}

fn scale<'g>(c: &Cx<'_, 'g>, i: usize, rank: usize, rows: bool) -> Result<Var<'g>> {
    Ok(aligned(c.x(i)?.cast(DType::F64), rank, rows))
}

/// Sums that stand for `sum·scale`, as codes with scale `i` and zero point `i + 1`.
fn codes<'g>(c: &Cx<'_, 'g>, sum: Var<'g>, scale: Var<'g>, i: usize) -> Out<'g> {
    let to = c.dtype(i + 1)?;
    let Some((lo, hi)) = range(to) else { return c.refuse(format!("codes of {to} are not supported")) };
    let (out, zero) = (c.x(i)?.cast(DType::F64), c.stored(i + 1)?.cast(DType::F64));
    let (out, zero) = (aligned(out, sum.rank(), true), aligned(zero, sum.rank(), true));
    one(((sum * scale / out).round() + zero).clamp(lo, hi).cast(to))
}

/// A scale or zero point, so that it broadcasts over x: one number, one for each element of an axis, or one for each
/// block along it.
fn spread<'g>(c: &Cx<'_, 'g>, v: Var<'g>, dims: &[usize]) -> Result<Var<'g>> {
    if v.numel() == 1 && v.rank() <= 1 {
        return Ok(v.reshape([]));
    }
    let axis = c.axis(c.int("axis", 1), dims.len())?;
    match c.int("block_size", 0) {
        0 => Ok(from_left(v, axis, dims.len())),
        block if block > 0 => {
            let wide = v.repeat_interleave(block as usize, axis as i64);
            Ok(wide.narrow(axis as i64, 0, dims[axis].min(wide.dims()[axis])))
        }
        block => c.wrong(format!("block_size is {block}")),
    }
}

fn quantize<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, d) = (c.x(0)?, c.dims(0)?);
    let x = if x.dtype().is_float() { x } else { x.cast(DType::F32) };
    let asked = c.dtype_attr("output_dtype");
    let to = if c.has(2) { c.dtype(2)? } else { asked?.unwrap_or(DType::U8) };
    let Some((lo, hi)) = range(to) else { return c.refuse(format!("codes of {to} are not supported")) };
    let scale = spread(c, c.x(1)?.cast(x.dtype()), &d)?;
    let code = (x / scale).round();
    let code = match c.has(2) {
        true => code + spread(c, c.stored(2)?.cast(x.dtype()), &d)?,
        false => code,
    };
    one(code.clamp(lo, hi).cast(to))
}

fn dequantize<'g>(c: &Cx<'_, 'g>) -> Out<'g> {
    let (x, d, to) = (c.stored(0)?, c.dims(0)?, c.dtype_attr("output_dtype")?.unwrap_or(c.dtype(1)?));
    if range(x.dtype()).is_none() {
        return c.refuse(format!("codes of {} are not supported", x.dtype()));
    }
    let mut code = x.cast(DType::I32);
    if c.has(2) {
        code = code - spread(c, c.stored(2)?.cast(DType::I32), &d)?;
    }
    let scale = spread(c, c.x(1)?, &d)?;
    one((code.cast(scale.dtype()) * scale).cast(to))
}
