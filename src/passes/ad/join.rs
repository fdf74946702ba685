//! Cotangents of neighbouring slices: their sum is one concatenation.
//!
//! The cotangent of a slice is padded with zeros to the shape of the sliced value. If two such cotangents are adjacent
//! and do not overlap (queries, keys and values of one product), an addition would write and read tensors of zeros.

use crate::nodes::build::size_attrs::to_size_attrs;
use crate::nodes::ir::emit::Definition;
use crate::nodes::ops::layout::attrs::{ConcatAttrs, PadAttrs};
use crate::nodes::{Op, Var};

/// The most parts of one concatenation. Each sum writes a new concatenation, so the number of operands is quadratic in
/// the number of parts.
const MAX_PARTS: usize = 32;

/// A value padded with zeros: the inner value, and the padding at both ends of each axis.
struct Padded<'g> {
    inner: Var<'g>,
    low: Vec<usize>,
    high: Vec<usize>,
}

fn padded_for_join<'g>(x: Var<'g>) -> Option<Padded<'g>> {
    let (inner, a) = x.g.with(|e| match e.def(x.v)? {
        Definition { op: Op::PAD, args, attrs } => Some((args[0], PadAttrs::of(&attrs))),
        _ => None,
    })?;
    let zeros = a.value.to_bits() == 0;
    zeros.then(|| Padded { inner: x.g.var(inner), low: to_size_attrs(&a.low), high: to_size_attrs(&a.high) })
}

/// The operands of `x` if it is a concatenation along `axis`; else `x` alone.
fn ad_join_parts<'g>(x: Var<'g>, axis: usize) -> Vec<Var<'g>> {
    let joined = x.g.with(|e| match e.def(x.v)? {
        Definition { op: Op::CONCAT, args, attrs } if usize::try_from(ConcatAttrs::of(&attrs).axis) == Ok(axis) => {
            Some(args.to_vec())
        }
        _ => None,
    });
    joined.map_or_else(|| vec![x], |args| args.into_iter().map(|a| x.g.var(a)).collect())
}

/// `a + b` as one padded concatenation, if both are padded with zeros and adjacent along one axis; else `None`.
pub fn join_cotangents<'g>(a: Var<'g>, b: Var<'g>) -> Option<Var<'g>> {
    let (p, q) = (padded_for_join(a)?, padded_for_join(b)?);
    let mut apart = (0..p.low.len()).filter(|&k| p.low[k] != q.low[k] || p.high[k] != q.high[k]);
    let (axis, None) = (apart.next()?, apart.next()) else { return None };
    let n = *a.dims().get(axis)?;
    let (first, second) = if p.low[axis] < q.low[axis] { (p, q) } else { (q, p) };
    if n - first.high[axis] != second.low[axis] {
        return None;
    }
    let all = [ad_join_parts(first.inner, axis), ad_join_parts(second.inner, axis)].concat();
    if all.len() > MAX_PARTS {
        return None;
    }
    let joined = all[0].concat(&all[1..], i64::try_from(axis).ok()?);
    let mut high = first.high;
    high[axis] = second.high[axis];
    Some(if first.low.iter().chain(&high).all(|&n| n == 0) { joined } else { joined.pad(&first.low, &high, 0.0) })
}

#[cfg(test)]
mod tests {
    use crate::nodes::{Builder, DType, Op, Var};
    use crate::passes::{GradOptions, grad};

    /// The number of pads, concatenations and additions in a gradient of columns of `x`: the first, and their number.
    fn ops(parts: &[(usize, usize)]) -> (usize, usize, usize) {
        ops_of_pieces(9, |x| parts.iter().map(|&(at, n)| x.narrow(1, at, n)).collect())
    }

    /// The same for the pieces that `cut` makes of two rows of `width` elements.
    fn ops_of_pieces(width: usize, cut: impl for<'g> Fn(Var<'g>) -> Vec<Var<'g>>) -> (usize, usize, usize) {
        let g = Builder::new("g");
        let pieces = cut(g.input("x", [2, width], DType::F64));
        let loss = pieces.into_iter().map(|p| p.sin().sum(..)).reduce(|a, b| a + b).unwrap();
        let graph = g.finish([loss.named("loss")]).unwrap();
        let made = grad(graph.view(), "loss", &GradOptions::wrt(&["x"])).unwrap();
        // Values without a reader go.
        let (made, _) = crate::passes::pipeline::run_pipeline(made.view(), &["clean"], true).unwrap();
        let v = made.view();
        let count = |op| v.op.iter().filter(|&&o| o == op).count();
        (count(Op::PAD), count(Op::CONCAT), count(Op::ADD))
    }

    #[test]
    fn slices_that_tile_become_one_concatenation() {
        // Two additions of the loss, none of pads.
        assert_eq!(ops(&[(0, 3), (3, 2), (5, 4)]), (0, 1, 2));
        assert_eq!(ops(&[(5, 4), (3, 2), (0, 3)]), (0, 1, 2));
    }

    #[test]
    fn many_slices_are_several_concatenations() {
        let parts: Vec<(usize, usize)> = (0..9).map(|i| (i, 1)).collect();
        assert_eq!(ops(&parts), (0, 1, 8));
        let g = Builder::new("g");
        let x = g.input("x", [200], DType::F64);
        let loss = (0..200).map(|i| x.narrow(0, i, 1).sin().sum(..)).reduce(|a, b| a + b).unwrap();
        let graph = g.finish([loss.named("loss")]).unwrap();
        let made = grad(graph.view(), "loss", &GradOptions::wrt(&["x"])).unwrap();
        assert!(made.view().args.len() < 200 * 40);
    }

    #[test]
    fn a_concatenation_has_thirty_two_parts_at_most() {
        let columns = |n: usize| ops_of_pieces(n, |x| (0..n).map(|i| x.narrow(1, i, 1)).collect());
        assert_eq!(columns(32), (0, 1, 31));
        // The last part is added; the loss has 32 additions of its own.
        assert_eq!(columns(33), (2, 1, 33));
    }

    #[test]
    fn a_concatenation_along_another_axis_is_one_part() {
        // The left half in two rows, and the right half. The last cut is met first.
        let halves = ops_of_pieces(9, |x| {
            let row = |i: usize| x.slice(&[i, 0], &[i + 1, 3], &[1, 1]);
            vec![x.narrow(1, 3, 6), row(0), row(1)]
        });
        assert_eq!(halves, (0, 2, 2));
    }

    #[test]
    fn slices_that_leave_gaps_or_overlap_are_added() {
        assert_eq!(ops(&[(1, 3), (4, 2)]), (1, 1, 1));
        assert_eq!(ops(&[(0, 3), (4, 2)]), (2, 0, 2));
        assert_eq!(ops(&[(0, 5), (4, 2)]), (2, 0, 2));
    }

    #[test]
    fn neighbouring_columns_of_other_rows_are_added() {
        // The first three columns of one row, and the others of both.
        let apart = ops_of_pieces(9, |x| vec![x.slice(&[0, 0], &[1, 3], &[1, 1]), x.slice(&[0, 3], &[2, 9], &[1, 1])]);
        assert_eq!(apart, (2, 0, 2));
    }
}
