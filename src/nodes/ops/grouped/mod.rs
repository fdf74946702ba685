//! Products of rows by the matrix of their group: a token by the weight of its expert.
//!
//! There are two ops: `grouped_matmul`, and `grouped_outer`, which sums outer products by group. The transpose of
//! each with respect to either operand is one call of one of the two, so derivatives of any order need no other op.

pub mod attrs;
pub mod lower;
pub mod var;

use crate::ensure;
use crate::nodes::arguments::size_attrs::{size_attr_to_i64, to_size_attr};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::index::batch::flatten_member_indices;
use Domain::{Count, Index, Real};
use attrs::{GroupedMatmulAttrs, GroupedOuterAttrs};

/// Checks operand 2, the group of each of `rows` rows or the size of each of `groups` groups.
pub fn check_groups(cx: &Infer<'_>, rows: usize, groups: usize, by_size: bool) -> Result<(), String> {
    let d = cx.dtype(2);
    ensure!(d.is_index(), "the groups are {d}; i32 or i64 is needed");
    ensure!(i32::try_from(rows).is_ok(), "{rows} rows are too many for i32 positions");
    match by_size {
        true => cx.expect_dims(2, "the sizes of the groups", &[groups]),
        false => cx.expect_dims(2, "the groups of the rows", &[rows]),
    }
}

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let GroupedMatmulAttrs { tw, by_size } = GroupedMatmulAttrs::of(&cx.attrs);
    let dtype = cx.float(0)?;
    cx.same_dtype(0, 1)?;
    let (x, w) = (cx.rank(0, "x", 2)?, cx.rank(1, "w", 3)?);
    let (k, n) = if tw { (w[2], w[1]) } else { (w[1], w[2]) };
    ensure!(x[1] == k, "rows of {} elements and matrices of {k} rows do not fit", x[1]);
    check_groups(cx, x[0], w[0], by_size)?;
    cx.result(dtype, &[x[0], n])
}

fn infer_outer(cx: &mut Infer<'_>) -> Result<(), String> {
    let GroupedOuterAttrs { groups, by_size } = GroupedOuterAttrs::of(&cx.attrs);
    let dtype = cx.float(0)?;
    cx.same_dtype(0, 1)?;
    let (x, g) = (cx.rank(0, "x", 2)?, cx.rank(1, "g", 2)?);
    ensure!(x[0] == g[0], "x has {} rows and g has {}", x[0], g[0]);
    let groups = usize::try_from(groups).map_err(|_| format!("groups is {groups}; it must be 0 or more"))?;
    check_groups(cx, x[0], groups, by_size)?;
    cx.result(dtype, &[groups, x[1], g[1]])
}

/// The group of each of `rows` rows, from the sizes of the groups: the number of groups that end at the row or before.
fn expand_group_sizes<'g>(sizes: Var<'g>, rows: usize) -> Var<'g> {
    let (dtype, ends) = (sizes.dtype(), sizes.cumsum(0, false, false).unsqueeze(0));
    let row = sizes.g.iota(0, [rows], dtype).unsqueeze(1);
    ends.less_equal(row).cast(dtype).sum(1)
}

fn find_row_groups<'g>(s: &Site<'_, 'g>, rows: usize, by_size: bool) -> Var<'g> {
    if by_size { expand_group_sizes(s.args[2], rows) } else { s.args[2] }
}

/// The matrix of each row, and a product with it.
fn decompose_matmul<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let GroupedMatmulAttrs { tw, by_size } = GroupedMatmulAttrs::of(&s.attrs);
    let (x, w) = (s.args[0], s.args[1]);
    let own = w.gather(find_row_groups(s, x.dims()[0], by_size), 0);
    vec![x.unsqueeze(1).matmul_t(own, false, tw).squeeze(1)]
}

/// The outer product of each row, added to that of its group.
fn decompose_outer<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let GroupedOuterAttrs { groups, by_size } = GroupedOuterAttrs::of(&s.attrs);
    let (x, g) = (s.args[0], s.args[1]);
    let all = x.unsqueeze(2) * g.unsqueeze(1);
    vec![all.scatter_add(find_row_groups(s, x.dims()[0], by_size), 0, to_size_attr(groups))]
}

fn transpose_product<'g>(s: &Site<'_, 'g>, i: usize, ct: Var<'g>) -> Option<Var<'g>> {
    let a = GroupedMatmulAttrs::of(&s.attrs);
    let (x, w, groups) = (s.args[0], s.args[1], s.args[2]);
    if i == 0 {
        let attrs = GroupedMatmulAttrs { tw: !a.tw, ..a };
        return Some(s.g.emit1(Op::GROUPED_MATMUL, &[ct, w, groups], &attrs.list()));
    }
    let attrs = GroupedOuterAttrs { groups: size_attr_to_i64(w.dims()[0]), by_size: a.by_size };
    let (rows, columns) = if a.tw { (ct, x) } else { (x, ct) };
    Some(s.g.emit1(Op::GROUPED_OUTER, &[rows, columns, groups], &attrs.list()))
}

fn transpose_outer<'g>(s: &Site<'_, 'g>, i: usize, ct: Var<'g>) -> Option<Var<'g>> {
    let GroupedOuterAttrs { by_size, .. } = GroupedOuterAttrs::of(&s.attrs);
    let attrs = GroupedMatmulAttrs { tw: i == 0, by_size };
    Some(s.g.emit1(Op::GROUPED_MATMUL, &[s.args[1 - i], ct, s.args[2]], &attrs.list()))
}

/// The rows of all members, each with a group of its own for each member that has matrices of its own. Sizes of groups
/// are left to the loop: merged, those of one member could make up for those of another.
fn batch_node<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let a = GroupedMatmulAttrs::of(&s.site.attrs);
    if a.by_size {
        return None;
    }
    let (x, groups) = (s.arg(0), s.arg(2));
    let rows = x.axis_len(1)?;
    let (w, groups) = match s.batched[1] {
        false => (s.site.args[1], groups),
        true => (s.site.args[1].flatten(0, 1), flatten_member_indices(groups, s.size, s.site.args[1].axis_len(1)?)),
    };
    let y = s.emit(&[x.flatten(0, 1), w, groups.flatten(0, 1)], &a.list())?;
    Some(y.into_iter().map(|y| y.unflatten(0, &[s.size, rows])).collect())
}

/// As [`batch_node`]; each member has groups of its own.
fn batch_outer<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let GroupedOuterAttrs { groups, by_size } = GroupedOuterAttrs::of(&s.site.attrs);
    if by_size {
        return None;
    }
    let count = to_size_attr(groups);
    let of = flatten_member_indices(s.arg(2), s.size, count).flatten(0, 1);
    let attrs = GroupedOuterAttrs { groups: size_attr_to_i64(s.size.checked_mul(count)?), by_size };
    let y = s.emit(&[s.arg(0).flatten(0, 1), s.arg(1).flatten(0, 1), of], &attrs.list())?;
    Some(y.into_iter().map(|y| y.unflatten(0, &[s.size, count])).collect())
}

/// 2·rows·k·n.
fn count_flops(cx: &CostCx<'_>) -> u64 {
    let args = cx.graph.args_of(cx.node);
    let (x, last) = (cx.graph.dims(args[0]), cx.graph.dims(args[1]));
    // The matrices have k·n elements each, and so has the outer product of two rows.
    let each = if last.len() == 3 { last[1].saturating_mul(last[2]) } else { x[1].saturating_mul(last[1]) };
    2u64.saturating_mul(x[0] as u64).saturating_mul(each as u64)
}

/// Each row times the matrix of its group.
pub const GROUPED_MATMUL: OpDef = OpDef {
    name: "grouped_matmul",
    doc: "yᵢ = xᵢ·w[gᵢ], or xᵢ·w[gᵢ]ᵀ if `tw`, for the group gᵢ of each row i; if `by_size`, the third operand is the \
          number of rows of each group, which are adjacent and in the order of the groups",
    arity: Arity::Exactly(3),
    attrs: GroupedMatmulAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY),
    infer: infer_types,
    deriv: Deriv::Multilinear(transpose_product),
    batch: Batch::Rule(batch_node),
    decompose: Some(decompose_matmul),
    lower: Lower::Kernel(lower::emit_grouped_matmul),
    cost: count_flops,
    cases: &[
        Case { args: "f[7,4] f[3,4,5] i32[7]", attrs: "tw=false by_size=false", domains: &[Real, Real, Index(3)] },
        Case { args: "f[7,4] f[3,5,4] i64[7]", attrs: "tw=true by_size=false", domains: &[Real, Real, Index(3)] },
        Case { args: "f[5,4] f[5,4,2] i32[5]", attrs: "tw=false by_size=true", domains: &[Real, Real, Count(1)] },
        Case { args: "f[4,3] f[4,2,3] i64[4]", attrs: "tw=true by_size=true", domains: &[Real, Real, Count(1)] },
        Case {
            args: "f[130,19] f[2,19,41] i32[130]",
            attrs: "tw=false by_size=false",
            domains: &[Real, Real, Index(2)],
        },
        Case { args: "f[0,4] f[3,4,5] i32[0]", attrs: "tw=false by_size=false", domains: &[Real, Real, Index(3)] },
        Case { args: "f[3,0] f[2,0,4] i32[3]", attrs: "tw=false by_size=false", domains: &[Real, Real, Index(2)] },
    ],
    ..OpDef::BLANK
};

/// The sum of the outer products of the rows of each group.
pub const GROUPED_OUTER: OpDef = OpDef {
    name: "grouped_outer",
    doc: "y[e] = Σ xᵢᵀ·gᵢ over the rows i of group e, an exact 0 for a group without rows; groups as those of \
          `grouped_matmul`",
    arity: Arity::Exactly(3),
    attrs: GroupedOuterAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY),
    infer: infer_outer,
    deriv: Deriv::Multilinear(transpose_outer),
    batch: Batch::Rule(batch_outer),
    decompose: Some(decompose_outer),
    lower: Lower::Kernel(lower::emit_grouped_outer),
    cost: count_flops,
    cases: &[
        Case { args: "f[7,4] f[7,5] i32[7]", attrs: "groups=3 by_size=false", domains: &[Real, Real, Index(3)] },
        Case { args: "f[6,4] f[6,3] i64[6]", attrs: "groups=4 by_size=false", domains: &[Real, Real, Index(2)] },
        Case { args: "f[5,4] f[5,2] i32[5]", attrs: "groups=5 by_size=true", domains: &[Real, Real, Count(1)] },
        Case {
            args: "f[130,19] f[130,41] i32[130]",
            attrs: "groups=2 by_size=false",
            domains: &[Real, Real, Index(2)],
        },
        Case { args: "f[0,4] f[0,5] i32[0]", attrs: "groups=3 by_size=false", domains: &[Real, Real, Index(3)] },
    ],
    ..OpDef::BLANK
};
