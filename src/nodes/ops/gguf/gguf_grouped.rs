//! Products of rows by the matrix of their group, where matrices are blocks: tokens by the weights of their experts.
//! Blocks hold the matrices `[n, k]` of all groups, one after the other.

use super::DECODING;
use super::attrs::{GgufExpertsAttrs, GgufGroupedAttrs};
use super::block_operand::PACK;
use crate::ensure;
use crate::kernels::cost_model::CostClass;
use crate::kernels::gguf::{BlockType, GgufGrouped, gguf_grouped_kernel_for};
use crate::kernels::grouped::group_rows::GroupRows;
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, to_size_attr};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::gguf::block_operand::check_gguf_blocks;
use crate::nodes::ops::grouped::check_groups;
use crate::nodes::ops::grouped::lower::LoweredGroups;
use crate::nodes::ops::index::batch::flatten_member_indices;
use Domain::{Count, Index, Real};

/// Checks that operand `i` is the blocks of the matrices of all groups. Their number, rows and columns.
fn check_blocks(
    cx: &Infer<'_>,
    i: usize,
    block_type: BlockType,
    sizes: [(&str, i64); 3],
) -> Result<[usize; 3], String> {
    let size = |(what, x): (&str, i64)| usize::try_from(x).map_err(|_| format!("{what} is {x}; it must be 0 or more"));
    let [groups, n, k] = [size(sizes[0])?, size(sizes[1])?, size(sizes[2])?];
    let rows = groups.checked_mul(n).ok_or_else(|| format!("{groups} matrices of {n} rows are too many"))?;
    check_gguf_blocks(cx, i, block_type, rows, k)?;
    ensure!(i32::try_from(groups).is_ok(), "{} is {groups}; it must be below 2³¹", sizes[0].0);
    Ok([groups, n, k])
}

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    let a = GgufGroupedAttrs::of(&cx.attrs);
    let sizes = [("groups", a.groups), ("n", a.n), ("k", a.k)];
    let [groups, n, k] = check_blocks(cx, 1, a.block_type, sizes)?;
    let x = cx.rank(0, "x", 2)?;
    let (terms, columns) = if a.back { (n, k) } else { (k, n) };
    ensure!(x[1] == terms, "rows of {} elements and matrices of {terms} terms do not fit", x[1]);
    check_groups(cx, x[0], groups, a.by_size)?;
    cx.result(dtype, &[x[0], columns])
}

/// The cotangent of x: the product with the transpose of what x was multiplied by.
fn transpose_product<'g>(s: &Site<'_, 'g>, i: usize, ct: Var<'g>) -> Option<Var<'g>> {
    let a = GgufGroupedAttrs::of(&s.attrs);
    let back = GgufGroupedAttrs { back: !a.back, ..a };
    (i == 0).then(|| s.g.emit1(Op::GGUF_GROUPED_MATMUL, &[ct, s.args[1], s.args[2]], &back.list()))
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let a = GgufGroupedAttrs::of(&s.attrs);
    let x = s.args[0];
    let w = s.args[1].gguf_dequant(a.block_type, [a.groups, a.n, a.k].map(to_size_attr)).cast(x.dtype());
    vec![match a.by_size {
        true => x.sorted_grouped_matmul(w, s.args[2], !a.back),
        false => x.grouped_matmul_t(w, s.args[2], !a.back),
    }]
}

/// The rows of all members; a member with blocks of its own has groups of its own. Sizes of groups are left to the
/// loop: merged, those of one member could make up for those of another.
fn batch_node<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let a = GgufGroupedAttrs::of(&s.site.attrs);
    if a.by_size {
        return None;
    }
    let (x, groups, blocks) = (s.arg(0), s.arg(2), s.site.args[1]);
    let (rows, count) = (x.axis_len(1)?, to_size_attr(a.groups));
    let (blocks, groups, all) = match s.batched[1] {
        false => (blocks, groups, count),
        true => {
            let of = flatten_member_indices(groups, s.size, count);
            (blocks.reshape([blocks.numel()]), of, s.size.checked_mul(count)?)
        }
    };
    let attrs = GgufGroupedAttrs { groups: size_attr_to_i64(all), ..a };
    let y = s.emit(&[x.flatten(0, 1), blocks, groups.flatten(0, 1)], &attrs.list())?;
    Some(y.into_iter().map(|y| y.unflatten(0, &[s.size, rows])).collect())
}

fn lower_node(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (a, dtype) = (GgufGroupedAttrs::of(&cx.attrs()), cx.dtype(0));
    let (rows, terms, columns) = (cx.arg_dims(0)[0], cx.arg_dims(0)[1], cx.out_dims(0)[1]);
    let [groups, n, k] = [a.groups, a.n, a.k].map(to_size_attr);
    let p = GgufGrouped { block_type: a.block_type as usize, rows, n, k, groups, back: a.back };
    let of = LoweredGroups::lower(cx, 2, GroupRows { rows, groups }, a.by_size)?;
    let x = of.sorted(cx, dtype, Buf::Arg(0), terms);
    let to = of.unsorted_target(cx, dtype, (Buf::Out(0), columns));
    let ((split, units), len) = (p.division(dtype.size()), p.scratch(dtype.size()));
    let class = if dtype == DType::F32 { CostClass::PRODUCT } else { CostClass::PRODUCT_F64 };
    let decoded = DECODING.saturating_mul((groups.min(rows) * n) as u64).saturating_mul(k as u64);
    let call = Call::new(gguf_grouped_kernel_for(dtype)?, p.to_words(), units)
        .reads(&[x, Buf::Arg(1), of.starts])
        .divided(to, split)
        .flops(cx.flops())
        .ops(cx.flops().saturating_add(decoded))
        .cost_class(class)
        .whole(1 | 4);
    let scratch = cx.scratch(dtype.size(), len);
    cx.call(call.scratch(scratch));
    of.put_back(cx, dtype, to, (Buf::Out(0), columns));
    Ok(())
}

/// Each row times the matrix of its group, which is kept as blocks.
pub const GGUF_GROUPED_MATMUL: OpDef = OpDef {
    name: "gguf_grouped_matmul",
    doc: "yᵢ = xᵢ·D[gᵢ]ᵀ for the group gᵢ of each row i, where the blocks hold D [groups, n, k] row by row; yᵢ = \
        xᵢ·D[gᵢ] if `back`; groups and `by_size` as those of `grouped_matmul`; D never exists as numbers. Few rows of \
        f32 are multiplied by codes, as in `gguf_matmul`",
    arity: Arity::Exactly(3),
    attrs: GgufGroupedAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY),
    infer: infer_types,
    deriv: Deriv::Linear(transpose_product),
    batch: Batch::Rule(batch_node),
    decompose: Some(decompose_node),
    lower: Lower::Kernel(lower_node),
    cost: |cx| {
        let a = GgufGroupedAttrs::of(&cx.graph.attrs(cx.node));
        let terms = if a.back { a.n } else { a.k };
        2 * cx.out().saturating_mul(terms.unsigned_abs())
    },
    cases: GROUPED_CASES,
    pack: Some(&PACK),
    ..OpDef::BLANK
};

/// Cases of [`GGUF_GROUPED_MATMUL`]: few rows and many, units of rows and of columns, both directions, sizes of groups.
/// Bytes below 64 make no scale of half precision infinite; with bytes below 32, scales are small, so that many sums
/// have no large terms that cancel.
const GROUPED_CASES: &[Case] = &[
    Case {
        args: "f[7,32] u8[270] i32[7]",
        attrs: "block_type=Q4_0 groups=3 n=5 k=32 back=false by_size=false",
        domains: &[Real, Index(64), Index(3)],
    },
    Case {
        args: "f[40,256] u8[864] i64[40]",
        attrs: "block_type=Q4_K groups=2 n=3 k=256 back=false by_size=false",
        domains: &[Real, Index(32), Index(2)],
    },
    Case {
        args: "f[20,32] u8[20400] i32[20]",
        attrs: "block_type=Q8_0 groups=2 n=300 k=32 back=false by_size=false",
        domains: &[Real, Index(32), Index(2)],
    },
    Case {
        args: "f[9,5] u8[270] i32[9]",
        attrs: "block_type=Q4_0 groups=3 n=5 k=32 back=true by_size=false",
        domains: &[Real, Index(64), Index(3)],
    },
    Case {
        args: "f[4,2] u8[1680] i64[4]",
        attrs: "block_type=Q6_K groups=4 n=2 k=256 back=true by_size=true",
        domains: &[Real, Index(64), Count(1)],
    },
    Case {
        args: "f[5,64] u8[540] i32[5]",
        attrs: "block_type=Q4_0 groups=5 n=3 k=64 back=false by_size=true",
        domains: &[Real, Index(64), Count(1)],
    },
    Case {
        args: "f[0,32] u8[108] i32[0]",
        attrs: "block_type=Q4_0 groups=2 n=3 k=32 back=false by_size=false",
        domains: &[Real, Index(64), Index(2)],
    },
    Case {
        args: "f[3,0] u8[0] i32[3]",
        attrs: "block_type=Q4_0 groups=2 n=3 k=0 back=false by_size=false",
        domains: &[Real, Index(64), Index(2)],
    },
];

fn infer_gguf_experts(cx: &mut Infer<'_>) -> Result<(), String> {
    let a = GgufExpertsAttrs::of(&cx.attrs);
    let sizes = [("experts", a.experts), ("n", a.n), ("k", a.k)];
    let [experts, n, k] = check_blocks(cx, 0, a.block_type, sizes)?;
    cx.result(DType::F32, &[experts, k, n])
}

/// The matrices of all experts as numbers, in the layout of `grouped_matmul`.
pub const GGUF_DEQUANT_EXPERTS: OpDef = OpDef {
    name: "gguf_dequant_experts",
    doc: "the elements of blocks of `block_type` that hold D [experts, n, k] row by row, as f32 of shape [experts, k, \
        n]: each matrix transposed, as `grouped_matmul` reads it",
    arity: Arity::Exactly(1),
    attrs: GgufExpertsAttrs::FIELDS,
    flags: Flags::PURE,
    infer: infer_gguf_experts,
    deriv: Deriv::Zero,
    batch: Batch::ViaDecompose,
    decompose: Some(|s| {
        let a = GgufExpertsAttrs::of(&s.attrs);
        vec![s.args[0].gguf_dequant(a.block_type, [a.experts, a.n, a.k].map(to_size_attr)).transpose(&[0, 2, 1])]
    }),
    lower: Lower::Expand,
    cost: |cx| 2 * cx.out(),
    cases: &[
        Case { args: "u8[108]", attrs: "block_type=Q4_0 experts=2 n=3 k=32", domains: &[Index(64)] },
        Case { args: "u8[432]", attrs: "block_type=Q4_K experts=3 n=1 k=256", domains: &[Index(64)] },
        Case { args: "u8[0]", attrs: "block_type=Q8_0 experts=0 n=4 k=64", domains: &[Index(64)] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
