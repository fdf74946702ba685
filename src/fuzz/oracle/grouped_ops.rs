//! Products of rows by the matrix of their group. A group that is unknown makes all results unknown.

use super::array::{Array, count_elements};
use super::index_ops::check_oracle_index_elements;
use super::layout_ops::oracle_zeros_layout;
use super::oracle_node::OracleOps;
use super::product_ops::oracle_sum_of_products;
use super::stop::Stop;
use crate::arena::{Node, ids::Id};
use crate::nodes::ir::opdef::Domain;
use crate::nodes::ops::grouped::attrs::{GroupedMatmulAttrs, GroupedOuterAttrs};
use crate::nodes::{Attrs, DType, Graph, Op};

/// Products of rows by the matrix of their group.
pub(super) const OPS: OracleOps = OracleOps {
    names: &["grouped_matmul", "grouped_outer"],
    run: |node| {
        let (args, dtype, to) = (node.args.clone(), node.dtypes[0], node.dims[0].clone());
        let terms = args[0].dims[usize::from(node.op == Op::GROUPED_MATMUL)];
        node.spend((count_elements(&to) as u64).saturating_mul(terms as u64))?;
        oracle_grouped_product(node.op, &node.attrs.clone(), &args, dtype, &to, node.may_fault()).map(|y| vec![y])
    },
};

/// The indices or sizes that operand `i` of a grouped product may hold; the bytes of blocks.
pub(super) fn leaf_domain_of_groups(g: Graph<'_>, n: Node, i: usize) -> Option<Domain> {
    let (args, attrs) = (g.args_of(n), g.attrs(n));
    Some(match (g.op[n.at()], i) {
        (Op::GROUPED_MATMUL, 2) if !GroupedMatmulAttrs::of(&attrs).by_size => {
            Domain::Index(g.dims(args[1]).first().copied().unwrap_or(1))
        }
        (Op::GROUPED_OUTER, 2) if !GroupedOuterAttrs::of(&attrs).by_size => {
            Domain::Index(GroupedOuterAttrs::of(&attrs).groups as usize)
        }
        // Sizes that sum to the number of rows, where there are as many groups.
        (Op::GROUPED_MATMUL | Op::GROUPED_OUTER, 2) => Domain::Count(1),
        // Bytes below 64 make no scale of half precision infinite.
        (Op::GGUF_DEQUANT, 0) | (Op::GGUF_MATMUL, 1) => Domain::Index(64),
        _ => return None,
    })
}

/// `grouped_matmul` or `grouped_outer` of type `dtype` and shape `to`.
fn oracle_grouped_product(
    op: Op,
    attrs: &Attrs<'_>,
    args: &[&Array],
    dtype: DType,
    to: &[usize],
    may_fault: &mut bool,
) -> Result<Array, Stop> {
    if count_elements(to) == 0 {
        return Ok(oracle_zeros_layout(dtype, to));
    }
    let (a, b, rows) = (args[0], args[1], args[0].dims[0]);
    let (by_size, groups) = match op {
        Op::GROUPED_MATMUL => (GroupedMatmulAttrs::of(attrs).by_size, b.dims[0]),
        _ => (GroupedOuterAttrs::of(attrs).by_size, to[0]),
    };
    let Some(group) = oracle_group_of_each_row(args[2], by_size, rows, groups, may_fault)? else {
        return Ok(oracle_zeros_layout(dtype, to).unknown());
    };
    let one = |e: usize| match op {
        Op::GROUPED_MATMUL => {
            let (n, k) = (to[1], a.dims[1]);
            let (i, j) = (e / n, e % n);
            let first = group[i] * k * n;
            let tw = GroupedMatmulAttrs::of(attrs).tw;
            let factor = |t: usize| (i * k + t, first + if tw { j * k + t } else { t * n + j });
            oracle_sum_of_products(dtype, (a, b), (0..k).map(factor))
        }
        _ => {
            let (k, n) = (to[1], to[2]);
            let (group_of, i, j) = (e / (k * n), e / n % k, e % n);
            let own = (0..rows).filter(|&r| group[r] == group_of);
            oracle_sum_of_products(dtype, (a, b), own.map(|r| (r * k + i, r * n + j)))
        }
    };
    Ok(Array::reals(dtype, to, (0..count_elements(to)).map(one)))
}

/// The group of each row; `None` if one is unknown, and then the step may fail.
pub(super) fn oracle_group_of_each_row(
    of: &Array,
    by_size: bool,
    rows: usize,
    groups: usize,
    may_fault: &mut bool,
) -> Result<Option<Vec<usize>>, Stop> {
    let known = if by_size { oracle_groups_of_sizes(of, rows)? } else { check_oracle_index_elements(of, groups)? };
    let known = known.into_iter().collect::<Option<Vec<usize>>>();
    *may_fault |= known.is_none();
    Ok(known)
}

/// The group of each row, from the sizes of the groups; all `None` if a size is unknown.
fn oracle_groups_of_sizes(sizes: &Array, rows: usize) -> Result<Vec<Option<usize>>, Stop> {
    let sizes = check_oracle_index_elements(sizes, rows + 1)?;
    let Some(sizes) = sizes.into_iter().collect::<Option<Vec<usize>>>() else { return Ok(vec![None; rows.max(1)]) };
    let sum = sizes.iter().fold(0, |sum: usize, n| sum.saturating_add(*n));
    if sum != rows {
        return Err(Stop::fault(format!("the sizes of the groups sum to {sum}, and there are {rows} rows")));
    }
    Ok(sizes.iter().enumerate().flat_map(|(e, &n)| std::iter::repeat_n(Some(e), n)).collect())
}
