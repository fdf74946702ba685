//! From nodes to kernel calls: the entry point, tile calls, and helpers for the `lower.rs` of each family.
//!
//! Invariant: a call's parameters and splits follow from shapes, types and attributes alone, or from the number of
//! threads where that changes no bit. Shape inference has checked everything that kernels rely on.

/// Lowers `cx.node`: runs the `lower` of its op definition, or writes the one-step tile program of a pointwise op.
pub fn lower_any_op(cx: &mut LowerCx<'_>) -> Result<(), String> {
    if cx.graph.outs_of(cx.node).all(|v| cx.graph.numel(v) == 0) {
        // Kernels may rely on results with at least one element.
        return Ok(());
    }
    match cx.graph.def_of(cx.node).lower {
        Lower::Kernel(lower) => lower(cx),
        Lower::Tile(..) => emit_tile_call(cx),
        Lower::Leaf => Err("a leaf computes nothing".to_string()),
        Lower::Expand => Err("the op has no kernel; a pass replaces it by its decomposition first".to_string()),
        Lower::Choice => Err("a choice is lowered with its branches, not alone".to_string()),
        Lower::Loop => Err("a loop is lowered with its body, not alone".to_string()),
        Lower::Control => Err("the op runs a region; a pass inlines it first".to_string()),
    }
}

use crate::arena::tensor::LINE;
use crate::kernels::cost_model::{self, CostClass};
use crate::kernels::tile::{self, Access, Input, TileCode, TileOp, TileProgram, TileStep, program_scratch_len};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::Lower;
use std::sync::Arc;

/// `dtype` if kernels compute in it.
pub fn kernel_dtype(dtype: DType) -> Result<DType, String> {
    if dtype.is_complex() { Err(format!("no kernel for {dtype}")) } else { Ok(dtype) }
}

/// The program of one pointwise node, and which operand each of its inputs is. An operand that is named twice is one
/// input, so that it may still be overwritten.
pub fn one_step_program(cx: &LowerCx<'_>) -> Result<(TileProgram, Vec<usize>), String> {
    let Lower::Tile(op, imm) = cx.graph.def_of(cx.node).lower else {
        return Err("not a pointwise op".to_string());
    };
    let args = cx.graph.args_of(cx.node);
    let (mut operands, mut ids) = (Vec::new(), Vec::new());
    for (i, a) in args.iter().enumerate() {
        let seen = operands.iter().position(|&k: &usize| args[k] == *a).unwrap_or(operands.len());
        if seen == operands.len() {
            operands.push(i);
        }
        ids.push(seen as u16);
    }
    let of = |i: usize| kernel_dtype(cx.dtype(i));
    let step = match op {
        TileOp::Cast => TileStep::cast(of(0)?, kernel_dtype(cx.out(0).dtype)?, ids[0]),
        // The type of a selection is that of its values.
        TileOp::Select => TileStep::new(op, of(1)?, &ids, [0.0; 2]),
        _ => TileStep::new(op, of(0)?, &ids, imm(&cx.attrs())),
    };
    let inputs: Result<Vec<Input>, String> =
        operands.iter().map(|&i| Ok(Input { elem: of(i)?, access: Access::Full })).collect();
    let inputs = inputs?;
    let last = inputs.len() as u16;
    let program = TileProgram { inputs, steps: vec![step], outputs: vec![last], len: cx.out_dims(0).numel() };
    program.check()?;
    Ok((program, operands))
}

/// Femtoseconds of a term that is reduced where it was computed: as measured for sums of rows of 8.
const REDUCED: u64 = 100_000;

/// The call of a program that reads `reads` and writes `outs`. An input that is read in order may be overwritten by
/// a result of its element size.
pub fn push_tile_program(cx: &mut LowerCx<'_>, p: &TileProgram, reads: &[Buf], outs: &[Buf], flops: u64) {
    let mut pairs = Vec::new();
    for (i, input) in p.inputs.iter().enumerate().filter(|(_, input)| input.access == Access::Full) {
        let same = |o: &u16| p.elem(*o).map(DType::size) == Some(input.elem.size());
        pairs.extend((0..outs.len()).filter(|&j| same(&p.outputs[j])).map(|j| (i, j)));
    }
    let ops = cost_model::tile_operations(&p.steps, p.len);
    let call = Call::new(tile::tile_kernel, Vec::new(), tile::count_units(p.len))
        .prepared(Arc::new(TileCode::new(p)))
        .flops(flops)
        .cost_class(CostClass::TILE)
        .ops(ops);
    let call = outs.iter().fold(call.reads(reads), |call, &o| call.writes(o, tile::UNIT));
    let call = with_slots(cx, call, p);
    cx.call(call.inplace(&pairs));
}

/// `call` with the scratch and the check of `p`.
fn with_slots(cx: &mut LowerCx<'_>, call: Call, p: &TileProgram) -> Call {
    let lines = program_scratch_len(p) / LINE;
    let call = if lines > 0 { call.scratch(cx.scratch(LINE, lines)) } else { call };
    if steps_may_fault(p) { call.faults() } else { call }
}

/// The call of a kernel that reduces the result of `p`, which reads `reads`, with scratch for `terms` elements of it.
pub fn reduce_tile_program(cx: &mut LowerCx<'_>, call: Call, p: &TileProgram, reads: &[Buf], terms: usize) -> Call {
    let size = p.outputs.first().and_then(|&o| p.elem(o)).map_or(1, DType::size);
    let call = call
        .prepared(Arc::new(TileCode::new(p)))
        .flops((p.len * (p.steps.len() + 1)) as u64)
        .cost_class(CostClass::TILE)
        .ops(cost_model::tile_operations(&p.steps, p.len).saturating_add(REDUCED.saturating_mul(p.len as u64)))
        .reads(reads)
        .scratch(cx.scratch(size, terms));
    with_slots(cx, call, p)
}

/// True if a step of `p` has integers for divisors or exponents that may be at fault.
fn steps_may_fault(p: &TileProgram) -> bool {
    let fill = |v: u16| p.steps.get(usize::from(v).checked_sub(p.inputs.len())?).filter(|s| s.op == TileOp::Fill);
    let known = |s: &TileStep, fits: fn(&TileStep) -> bool| fill(s.args[1]).is_some_and(fits);
    let bad = |s: &TileStep| match s.op {
        TileOp::Pow => s.elem.holds(-1.0) && !known(s, |f| f.imm[0] >= 0.0),
        op if op.cause().is_some() => !known(s, |f| element_bits(f.imm[0], f.elem) != 0),
        _ => false,
    };
    p.steps.iter().any(|s| !s.elem.is_float() && bad(s))
}

/// Lowers a pointwise node to a tile program of one step.
pub fn emit_tile_call(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (program, operands) = one_step_program(cx)?;
    let reads: Vec<Buf> = operands.iter().map(|&i| Buf::Arg(i)).collect();
    push_tile_program(cx, &program, &reads, &[Buf::Out(0)], cx.flops());
    Ok(())
}

/// A numeric attribute as the bits of an element.
pub fn element_bits(value: f64, dtype: DType) -> u64 {
    match dtype {
        // A complex element is this real part and, behind it, an imaginary part of +0.
        DType::F32 | DType::C64 => u64::from((value as f32).to_bits()),
        DType::F64 | DType::C128 => value.to_bits(),
        DType::F16 => u64::from(half::f16::from_f64(value).to_bits()),
        DType::BF16 => u64::from(half::bf16::from_f64(value).to_bits()),
        // Saturating, as casts are; the kernel keeps the low bytes.
        DType::I8 => value as i8 as u64,
        DType::U8 => u64::from(value as u8),
        DType::I32 => value as i32 as u64,
        DType::I64 => value as i64 as u64,
        DType::U32 => u64::from(value as u32),
        DType::I16 => value as i16 as u64,
        DType::U16 => u64::from(value as u16),
        DType::U64 => value as u64,
        DType::Bool => u64::from(value != 0.0),
        _ => unreachable!("an element of {dtype}"),
    }
}
