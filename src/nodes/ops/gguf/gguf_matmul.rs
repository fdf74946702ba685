//! Products with a matrix of blocks, which is decoded part by part while it is read.

use super::DECODING;
use super::attrs::GgufMatmulAttrs;
use super::block_operand::PACK;
use crate::ensure;
use crate::kernels::cost_model::CostClass;
use crate::kernels::gguf::{GgufMatmul, gguf_matmul_kernel_for};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::gguf::block_operand::check_gguf_blocks;
use Domain::{Index, Real};

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    let a = GgufMatmulAttrs::of(&cx.attrs);
    let size = |what: &str, x: i64| usize::try_from(x).map_err(|_| format!("{what} is {x}; it must not be negative"));
    let (n, k) = (size("n", a.n)?, size("k", a.k)?);
    check_gguf_blocks(cx, 1, a.block_type, n, k)?;
    let mut dims = cx.dims(0);
    let (terms, columns) = if a.back { (n, k) } else { (k, n) };
    let x = dims;
    let last = dims.make_mut().last_mut().ok_or("x is a scalar; its last axis is multiplied")?;
    ensure!(*last == terms, "x has shape {x}; its last axis must be {terms}");
    *last = columns;
    cx.result(dtype, &dims)
}

/// The cotangent of x: the product with the transpose of what x was multiplied by.
fn transpose_product<'g>(s: &Site<'_, 'g>, i: usize, ct: Var<'g>) -> Option<Var<'g>> {
    let a = GgufMatmulAttrs::of(&s.attrs);
    let back = GgufMatmulAttrs { back: !a.back, ..a };
    (i == 0).then(|| s.g.emit1(Op::GGUF_MATMUL, &[ct, s.args[1]], &back.list()))
}

/// The members' x as further rows. Members with blocks of their own are left to the loop.
fn batch_node<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let fits = !s.batched[1] && s.rank(0) < crate::arena::dims::MAX_RANK;
    if fits { s.emit(&[s.arg(0), s.site.args[1]], &GgufMatmulAttrs::of(&s.site.attrs).list()) } else { None }
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let GgufMatmulAttrs { block_type, n, k, back } = GgufMatmulAttrs::of(&s.attrs);
    let x = s.args[0];
    let d = s.args[1].gguf_dequant(block_type, [n, k].map(|x| x as usize)).cast(x.dtype());
    let dims = x.dims();
    let (rows, columns) = (dims[..dims.len() - 1].iter().product(), if back { k } else { n } as usize);
    let y = x.reshape([rows, dims[dims.len() - 1]]).matmul_t(d, false, !back);
    vec![y.reshape([&dims[..dims.len() - 1], &[columns]].concat())]
}

fn lower_node(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let a = GgufMatmulAttrs::of(&cx.attrs());
    let (n, k, columns) = (a.n as usize, a.k as usize, if a.back { a.k } else { a.n } as usize);
    let (m, dtype) = (cx.out_dims(0).numel() / columns.max(1), cx.dtype(0));
    let p = GgufMatmul { block_type: a.block_type as usize, m, n, k, back: a.back };
    let ((split, units), len) = (p.division(dtype.size()), p.scratch(dtype.size()));
    let class = if dtype.size() == 4 { CostClass::PRODUCT } else { CostClass::PRODUCT_F64 };
    let call = Call::new(gguf_matmul_kernel_for(dtype)?, p.to_words(), units).flops(cx.flops());
    let call = call.ops(cx.flops().saturating_add(DECODING * (n as u64) * (k as u64))).cost_class(class);
    let scratch = cx.scratch(dtype.size(), len);
    cx.call(call.reads_args(2).divided(Buf::Out(0), split).scratch(scratch).whole(1));
    Ok(())
}

/// Products with a matrix of blocks.
pub const GGUF_MATMUL: OpDef = OpDef {
    name: "gguf_matmul",
    doc: "y = x·Dᵀ along the last axis of x, where the blocks hold D [n, k] row by row; y = x·D if `back`; D never \
        exists as numbers. Up to 4 rows of f32 are multiplied by codes, scale·Σ code·x − min·Σ x, whose rounding \
        differs from that of x·Dᵀ",
    arity: Arity::Exactly(2),
    attrs: GgufMatmulAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY),
    infer: infer_types,
    deriv: Deriv::Linear(transpose_product),
    batch: Batch::Rule(batch_node),
    decompose: Some(decompose_node),
    lower: Lower::Kernel(lower_node),
    cost: |cx| {
        let a = GgufMatmulAttrs::of(&cx.graph.attrs(cx.node));
        let terms = if a.back { a.n } else { a.k };
        2 * cx.out().saturating_mul(terms.unsigned_abs())
    },
    // Bytes below 64 make no scale of half precision infinite.
    cases: &[
        Case { args: "f[3,64] u8[180]", attrs: "block_type=Q4_0 n=5 k=64 back=false", domains: &[Real, Index(64)] },
        Case { args: "f[256] u8[432]", attrs: "block_type=Q4_K n=3 k=256 back=false", domains: &[Real, Index(64)] },
        Case { args: "f[2,3,32] u8[168]", attrs: "block_type=Q5_1 n=7 k=32 back=false", domains: &[Real, Index(64)] },
        Case { args: "f[9,256] u8[420]", attrs: "block_type=Q6_K n=2 k=256 back=false", domains: &[Real, Index(64)] },
        Case { args: "f[1,32] u8[10200]", attrs: "block_type=Q8_0 n=300 k=32 back=false", domains: &[Real, Index(64)] },
        Case { args: "f[4,5] u8[180]", attrs: "block_type=Q4_0 n=5 k=64 back=true", domains: &[Real, Index(64)] },
        Case { args: "f[2,3] u8[252]", attrs: "block_type=Q2_K n=3 k=256 back=true", domains: &[Real, Index(64)] },
        Case { args: "f[0,32] u8[90]", attrs: "block_type=Q4_0 n=5 k=32 back=false", domains: &[Real, Index(64)] },
        Case { args: "f[2,0] u8[0]", attrs: "block_type=Q4_0 n=5 k=0 back=false", domains: &[Real, Index(64)] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
