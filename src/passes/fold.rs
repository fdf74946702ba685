//! Constant folding: point-wise ops on constants are computed while compiling, by the kernel that would run them, so
//! that folding changes no bit.

use super::rebuild::{Visit, rebuild};
use crate::error::Result;
use crate::kernels::tile::{self, Access, Input, Program, Step, TileOp};
use crate::nodes::ir::opdef::{Flags, Lower};
use crate::nodes::ops::common::lowering::elem;
use crate::nodes::ops::constant::{ConstantAttrs, FullAttrs};
use crate::nodes::{DType, Graph, Op, Var};
use bumpalo::Bump;

/// Largest tensor that folding makes; larger ones would trade time for memory.
const MAX_ELEMENTS: usize = 4096;

/// Folds constants of `g`.
pub fn fold<'b>(g: Graph<'_>, bump: &'b Bump) -> Result<Graph<'b>> {
    rebuild(g, bump, &mut |v| match v.def.lower {
        Lower::Tile(op, imm) => pointwise(v, op, imm(&v.src.attrs(v.node))).map(|x| vec![x]),
        _ => moves_nothing(v).map(|x| vec![x]),
    })
}

/// The bytes of one operand: `n` elements of a constant, or 1 of a fill.
fn known(x: Var<'_>) -> Option<(Vec<u8>, bool)> {
    x.g.with(|e| match e.def(x.v)? {
        (Op::FULL, _, a) => {
            let full = FullAttrs::of(&a);
            Some((bytes_of(full.value, full.dtype)?, true))
        }
        (Op::CONSTANT, _, a) => Some((ConstantAttrs::of(&a).data, false)),
        _ => None,
    })
}

/// `value` as one element of `dtype`.
pub fn bytes_of(value: f64, dtype: DType) -> Option<Vec<u8>> {
    let to = elem(dtype).ok()?;
    let program = Program {
        inputs: vec![],
        // A fill is the sum of its immediates: x + −0 is x for every x, −0 included.
        steps: vec![Step::new(TileOp::Fill, to, &[], [value, -0.0])],
        outputs: vec![0],
        len: 1,
    };
    let mut out = vec![0; dtype.size()];
    tile::eval(&program, &[], &mut [&mut out]).ok()?;
    Some(out)
}

/// One element of `dtype` as an `f64`, if that holds it exactly.
fn exact(bytes: &[u8], dtype: DType) -> Option<f64> {
    let from = elem(dtype).ok()?;
    let program = Program {
        inputs: vec![Input { elem: from, access: Access::Full }],
        steps: vec![Step::cast(from, DType::F64, 0)],
        outputs: vec![1],
        len: 1,
    };
    let mut out = [0u8; 8];
    tile::eval(&program, &[bytes], &mut [&mut out]).ok()?;
    let x = f64::from_le_bytes(out);
    // A round trip that changes a bit (a large integer, a NaN's payload) is not exact.
    (bytes_of(x, dtype)? == bytes).then_some(x)
}

fn pointwise<'g>(v: &Visit<'_, 'g>, op: TileOp, imm: [f64; 2]) -> Option<Var<'g>> {
    let out = v.src.out(v.node);
    let (dims, dtype) = (v.src.dims(out), v.src.ty(out).dtype);
    let operands: Vec<(Vec<u8>, bool)> = v.args.iter().map(|&a| known(a)).collect::<Option<_>>()?;
    let fills = operands.iter().all(|o| o.1);
    let len = if fills { 1 } else { dims.numel() };
    // Integer division by 0 is an error of the step, which folding must not swallow.
    if len == 0 || len > MAX_ELEMENTS || (op == TileOp::Div && !dtype.is_float()) {
        return None;
    }
    let from = elem(v.args.last()?.dtype()).ok()?;
    let to = elem(dtype).ok()?;
    let inputs = v.args.iter().zip(&operands).map(|(a, o)| {
        let access = if o.1 { Access::Scalar } else { Access::Full };
        Some(Input { elem: elem(a.dtype()).ok()?, access })
    });
    let codes: Vec<u16> = (0..v.args.len() as u16).collect();
    let mut step = match op {
        TileOp::Cast => Step::cast(from, to, 0),
        _ => Step::new(op, from, &codes, imm),
    };
    step.out = to;
    let program =
        Program { inputs: inputs.collect::<Option<_>>()?, steps: vec![step], outputs: vec![v.args.len() as u16], len };
    program.check().ok()?;
    let mut bytes = vec![0; len * dtype.size()];
    let views: Vec<&[u8]> = operands.iter().map(|o| &o.0[..]).collect();
    tile::eval(&program, &views, &mut [&mut bytes]).ok()?;
    match fills {
        true => exact(&bytes, dtype).map(|x| v.g.full(x, dims, dtype)),
        false => Some(v.g.constant_bytes(&bytes, dims, dtype)),
    }
}

/// Ops that only move elements give a fill for a fill.
fn moves_nothing<'g>(v: &Visit<'_, 'g>) -> Option<Var<'g>> {
    let [x] = *v.args else { return None };
    if !v.def.flags.has(Flags::MOVE) || v.src.ty(v.src.out(v.node)).dtype != x.dtype() {
        return None;
    }
    let value = x.g.with(|e| match e.def(x.v)? {
        (Op::FULL, _, a) => Some(FullAttrs::of(&a).value),
        _ => None,
    })?;
    Some(v.g.full(value, v.src.dims(v.src.out(v.node)), x.dtype()))
}
