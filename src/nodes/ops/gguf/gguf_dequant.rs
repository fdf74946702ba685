//! All elements of a matrix of blocks.

use super::attrs::GgufDequantAttrs;
use super::block_operand::PACK;
use crate::arena::dims::MAX_RANK;
use crate::ensure;
use crate::kernels::gguf::{GgufDequant, gguf_dequant_kernel};
use crate::nodes::arguments::size_attrs::{check_size_attrs, size_attr_to_i64};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ops::gguf::block_operand::check_gguf_blocks;
use Domain::Index;

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let a = GgufDequantAttrs::of(&cx.attrs);
    let dims = check_size_attrs("dims", &a.dims)?;
    let (&k, lead) = dims.split_last().ok_or("dims is empty; blocks run along the last axis")?;
    let rows = lead.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).ok_or("dims are too large")?;
    ensure!(dims.len() <= MAX_RANK, "dims has {} entries; at most {MAX_RANK} are possible", dims.len());
    check_gguf_blocks(cx, 0, a.block_type, rows, k)?;
    cx.result(DType::F32, &dims)
}

fn lower_node(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let block_type = GgufDequantAttrs::of(&cx.attrs()).block_type;
    let p = GgufDequant { block_type: block_type as usize, len: cx.out_dims(0).numel() };
    let call = Call::new(gguf_dequant_kernel, p.to_words(), p.units()).flops(cx.flops());
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

/// The blocks of all members, one after the other.
fn batch_node<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let mut a = GgufDequantAttrs::of(&s.site.attrs);
    if a.dims.len() >= MAX_RANK {
        return None;
    }
    a.dims.insert(0, size_attr_to_i64(s.size));
    let blocks = s.arg(0);
    s.emit(&[blocks.reshape([blocks.numel()])], &a.list())
}

/// The elements of blocks.
pub const GGUF_DEQUANT: OpDef = OpDef {
    name: "gguf_dequant",
    doc: "the elements of blocks of `block_type` as f32 of shape `dims`, whose last axis is whole blocks",
    arity: Arity::Exactly(1),
    attrs: GgufDequantAttrs::FIELDS,
    flags: Flags::PURE,
    infer: infer_types,
    deriv: Deriv::Zero,
    batch: Batch::Rule(batch_node),
    lower: Lower::Kernel(lower_node),
    cost: |cx| 2 * cx.out(),
    // Bytes below 64 make no scale of half precision infinite.
    cases: &[
        Case { args: "u8[54]", attrs: "block_type=Q4_0 dims=[3,32]", domains: &[Index(64)] },
        Case { args: "u8[288]", attrs: "block_type=Q4_K dims=[2,256]", domains: &[Index(64)] },
        Case { args: "u8[210]", attrs: "block_type=Q6_K dims=[1,1,256]", domains: &[Index(64)] },
        Case { args: "u8[17000]", attrs: "block_type=Q8_0 dims=[250,64]", domains: &[Index(64)] },
        Case { args: "u8[0]", attrs: "block_type=Q2_K dims=[0,256]", domains: &[Index(64)] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
