//! Constant folding: pointwise ops on constants are computed at compile time. Invariant: the kernel that would run the
//! op computes it, so folding changes no bit.

use super::rebuild::{RebuildVisit, rebuild};
use crate::error::Result;
use crate::kernels::tile::{self, Access, Input, TileOp, TileProgram, TileStep};
use crate::nodes::ir::emit::Definition;
use crate::nodes::ir::opdef::{Flags, Lower};
use crate::nodes::ops::common::lowering::kernel_dtype;
use crate::nodes::ops::constant::attrs::{ConstantAttrs, FullAttrs};
use crate::nodes::{DType, Graph, Op, Var};
use bumpalo::Bump;

/// The most elements of a folded constant. Larger ones would trade memory for time.
const MAX_ELEMENTS: usize = 4096;

/// Folds the constants of `g`.
pub fn evaluate_constants<'b>(g: Graph<'_>, bump: &'b Bump) -> Result<Graph<'b>> {
    rebuild(g, bump, &mut |v| match v.def.lower {
        Lower::Tile(op, imm) => evaluate_pointwise(v, op, imm(&v.src.attrs(v.node))).map(|x| vec![x]),
        _ => move_fill(v).map(|x| vec![x]),
    })
}

/// The bytes of a constant operand.
pub(super) struct Known {
    /// All elements of a constant, or one element of a fill.
    pub(super) bytes: Vec<u8>,
    is_fill: bool,
}

/// The bytes of `x`, if it is a constant or a fill.
pub(super) fn known_bytes(x: Var<'_>) -> Option<Known> {
    x.g.with(|e| match e.def(x.v)? {
        Definition { op: Op::FULL, attrs, .. } => {
            let full = FullAttrs::of(&attrs);
            Some(Known { bytes: folded_bytes(full.value, full.dtype)?, is_fill: true })
        }
        Definition { op: Op::CONSTANT, attrs, .. } => {
            Some(Known { bytes: ConstantAttrs::of(&attrs).data, is_fill: false })
        }
        _ => None,
    })
}

/// The bytes of `value` as one element of `dtype`, rounded as the fill kernel rounds. `None` if no kernel has the
/// dtype.
pub fn folded_bytes(value: f64, dtype: DType) -> Option<Vec<u8>> {
    let to = kernel_dtype(dtype).ok()?;
    let program = TileProgram { inputs: vec![], steps: vec![TileStep::fill(to, value)], outputs: vec![0], len: 1 };
    let mut out = vec![0; dtype.size()];
    tile::evaluate_program(&program, &[], &mut [&mut out]).ok()?;
    Some(out)
}

/// The element of `dtype` with these bytes as an `f64`, if the conversion is exact.
fn exact_element(bytes: &[u8], dtype: DType) -> Option<f64> {
    let from = kernel_dtype(dtype).ok()?;
    let program = TileProgram {
        inputs: vec![Input { elem: from, access: Access::Full }],
        steps: vec![TileStep::cast(from, DType::F64, 0)],
        outputs: vec![1],
        len: 1,
    };
    let mut out = [0u8; 8];
    tile::evaluate_program(&program, &[bytes], &mut [&mut out]).ok()?;
    let x = f64::from_le_bytes(out);
    // A round trip that changes a bit (a large integer, a NaN's payload) is not exact. 2⁶³ saturates to the largest
    // `i64`, which an `f64` does not hold.
    (dtype.holds(x) && folded_bytes(x, dtype)? == bytes).then_some(x)
}

/// The result of a pointwise op on constants: a fill if all operands are fills.
fn evaluate_pointwise<'g>(v: &RebuildVisit<'_, 'g>, op: TileOp, imm: [f64; 2]) -> Option<Var<'g>> {
    let out = v.src.out(v.node);
    let (dims, dtype) = (v.src.dims(out), v.src.ty(out).dtype);
    let operands: Vec<Known> = v.args.iter().map(|&a| known_bytes(a)).collect::<Option<_>>()?;
    let fills = operands.iter().all(|o| o.is_fill);
    let len = if fills { 1 } else { dims.numel() };
    // What an integer is at fault for, such as a divisor of 0, is an error at run time, which folding must not drop.
    if len == 0 || len > MAX_ELEMENTS || (op.cause().is_some() && !dtype.is_float()) {
        return None;
    }
    let from = kernel_dtype(v.args.last()?.dtype()).ok()?;
    let to = kernel_dtype(dtype).ok()?;
    let inputs = v.args.iter().zip(&operands).map(|(a, o)| {
        let access = if o.is_fill { Access::Scalar } else { Access::Full };
        Some(Input { elem: kernel_dtype(a.dtype()).ok()?, access })
    });
    let codes: Vec<u16> = (0..v.args.len() as u16).collect();
    let mut step = match op {
        TileOp::Cast => TileStep::cast(from, to, 0),
        _ => TileStep::new(op, from, &codes, imm),
    };
    step.out = to;
    let program = TileProgram {
        inputs: inputs.collect::<Option<_>>()?,
        steps: vec![step],
        outputs: vec![v.args.len() as u16],
        len,
    };
    program.check().ok()?;
    let mut bytes = vec![0; len * dtype.size()];
    let views: Vec<&[u8]> = operands.iter().map(|o| &o.bytes[..]).collect();
    tile::evaluate_program(&program, &views, &mut [&mut bytes]).ok()?;
    match fills {
        true => exact_element(&bytes, dtype).map(|x| v.g.full(x, dims, dtype)),
        false => Some(v.g.constant_bytes(&bytes, dims, dtype)),
    }
}

/// The result of an op that only moves elements, if its operand is a fill: the same fill in the result's shape.
fn move_fill<'g>(v: &RebuildVisit<'_, 'g>) -> Option<Var<'g>> {
    let [x] = *v.args else { return None };
    if !v.def.flags.has(Flags::MOVE) || v.src.ty(v.src.out(v.node)).dtype != x.dtype() {
        return None;
    }
    let value = x.g.with(|e| match e.def(x.v)? {
        Definition { op: Op::FULL, attrs, .. } => Some(FullAttrs::of(&attrs).value),
        _ => None,
    })?;
    Some(v.g.full(value, v.src.dims(v.src.out(v.node)), x.dtype()))
}
