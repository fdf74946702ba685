//! Kernel calls of grouped products: sort the rows by group, multiply, put the rows back.

use crate::kernels::abi::Split;
use crate::kernels::cost_model::CostClass;
use crate::kernels::grouped::group_rows::{GroupRows, group_rows_kernel_for, group_starts_kernel_for};
use crate::kernels::grouped::outer::{GroupedOuter, grouped_outer_kernel_for};
use crate::kernels::grouped::product::{GroupedProduct, grouped_product_kernel_for};
use crate::kernels::index::{Indexed, gather_kernel_for};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ops::grouped::attrs::{GroupedMatmulAttrs, GroupedOuterAttrs};

/// Where the rows of each group are.
pub struct LoweredGroups {
    /// The first row of each group, then the number of rows: `i32[groups + 1]`.
    pub starts: Buf,
    /// The row at each place, and the place of each row, `i32[rows]`; `None` if rows are in their places.
    order: Option<(Buf, Buf)>,
    rows: usize,
}

impl LoweredGroups {
    /// The call that finds the rows of each group. `groups` is operand `arg`: the group of each row or, if `by_size`,
    /// the size of each group.
    pub fn lower(cx: &mut LowerCx<'_>, arg: usize, p: GroupRows, by_size: bool) -> Result<LoweredGroups, String> {
        let (dtype, word) = (cx.dtype(arg), size_of::<i32>());
        let starts = cx.temp(word, p.groups + 1);
        if by_size {
            let call = Call::new(group_starts_kernel_for(dtype)?, p.to_words(), 1).reads(&[Buf::Arg(arg)]).faults();
            cx.call(call.divided(starts, Split::Whole).cost_class(CostClass::INDEX));
            return Ok(LoweredGroups { starts, order: None, rows: p.rows });
        }
        let (order, places) = (cx.temp(word, p.rows), cx.temp(word, p.rows));
        let call = Call::new(group_rows_kernel_for(dtype)?, p.to_words(), 1).reads(&[Buf::Arg(arg)]);
        let call = call.looks(0, p.groups).early().cost_class(CostClass::INDEX);
        cx.call([order, places, starts].iter().fold(call, |call, &to| call.divided(to, Split::Whole)));
        Ok(LoweredGroups { starts, order: Some((order, places)), rows: p.rows })
    }

    /// The rows of `from`, of `n` elements of type `dtype`, in the order of their groups.
    pub fn sorted(&self, cx: &mut LowerCx<'_>, dtype: DType, from: Buf, n: usize) -> Buf {
        let Some((order, _)) = self.order.filter(|_| self.rows * n > 0) else { return from };
        let to = cx.temp(dtype.size(), self.rows * n);
        self.lower_moved_rows(cx, dtype, (from, order), (to, n));
        to
    }

    /// Puts sorted rows of `n` elements of type `dtype` back into `to`.
    pub fn put_back(&self, cx: &mut LowerCx<'_>, dtype: DType, from: Buf, (to, n): (Buf, usize)) {
        if let Some((_, places)) = self.order {
            self.lower_moved_rows(cx, dtype, (from, places), (to, n));
        }
    }

    /// Where the product of sorted rows goes if its rows, of `n` elements of type `dtype`, end up in `to`.
    pub fn unsorted_target(&self, cx: &mut LowerCx<'_>, dtype: DType, (to, n): (Buf, usize)) -> Buf {
        if self.order.is_some() { cx.temp(dtype.size(), self.rows * n) } else { to }
    }

    /// Row `i` of `to` is row `at[i]` of `from`.
    fn lower_moved_rows(&self, cx: &mut LowerCx<'_>, dtype: DType, (from, at): (Buf, Buf), (to, n): (Buf, usize)) {
        let p = Indexed { outer: 1, n: self.rows, k: self.rows, inner: n };
        let call = Call::new(gather_kernel_for(dtype, DType::I32), p.to_words(), p.units()).reads(&[from, at]);
        cx.call(call.whole(1).writes(to, p.per_unit()).cost_class(CostClass::INDEX));
    }
}

fn grouped_lowering_class(dtype: DType) -> CostClass {
    if dtype == DType::F32 { CostClass::PRODUCT } else { CostClass::PRODUCT_F64 }
}

/// `call` with scratch of `len` elements of `dtype` for each thread, if there are any.
fn add_scratch(cx: &mut LowerCx<'_>, dtype: DType, len: usize, call: Call) -> Call {
    if len > 0 { call.scratch(cx.scratch(dtype.size(), len)) } else { call }
}

/// `grouped_matmul`.
pub fn emit_grouped_matmul(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let GroupedMatmulAttrs { tw, by_size } = GroupedMatmulAttrs::of(&cx.attrs());
    let (x, w, n, dtype) = (cx.arg_dims(0), cx.arg_dims(1), cx.out_dims(0)[1], cx.dtype(0));
    let p = GroupedProduct { rows: x[0], k: x[1], n, groups: w[0], transposed: tw };
    let groups = LoweredGroups::lower(cx, 2, GroupRows { rows: p.rows, groups: p.groups }, by_size)?;
    let rows = groups.sorted(cx, dtype, Buf::Arg(0), p.k);
    let to = groups.unsorted_target(cx, dtype, (Buf::Out(0), n));
    let (split, units) = p.division();
    let call = Call::new(grouped_product_kernel_for(dtype)?, p.to_words(), units)
        .reads(&[rows, Buf::Arg(1), groups.starts])
        .divided(to, split)
        .flops(cx.flops())
        .cost_class(grouped_lowering_class(dtype))
        .whole(2);
    let call = add_scratch(cx, dtype, p.scratch(dtype), call);
    cx.call(call);
    groups.put_back(cx, dtype, to, (Buf::Out(0), n));
    Ok(())
}

/// `grouped_outer`.
pub fn emit_grouped_outer(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let GroupedOuterAttrs { by_size, .. } = GroupedOuterAttrs::of(&cx.attrs());
    let (y, dtype) = (cx.out_dims(0), cx.dtype(0));
    let p = GroupedOuter { rows: cx.arg_dims(0)[0], groups: y[0], k: y[1], n: y[2] };
    let groups = LoweredGroups::lower(cx, 2, GroupRows { rows: p.rows, groups: p.groups }, by_size)?;
    let x = groups.sorted(cx, dtype, Buf::Arg(0), p.k);
    let g = groups.sorted(cx, dtype, Buf::Arg(1), p.n);
    let call = Call::new(grouped_outer_kernel_for(dtype)?, p.to_words(), p.units())
        .reads(&[x, g, groups.starts])
        .writes(Buf::Out(0), p.per_unit())
        .flops(cx.flops())
        .cost_class(grouped_lowering_class(dtype))
        .whole(3);
    let call = add_scratch(cx, dtype, p.scratch(dtype), call);
    cx.call(call);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::abi::Split::{PerUnit, Whole};
    use crate::nodes::ir::call::Looks;
    use crate::nodes::ir::opdef::Op;
    use crate::nodes::ops::common::lowered_in_tests::LoweredInTests;
    use Buf::{Arg, Out, Temp};

    /// The product of `rows` rows of `k` by matrices `[3, k, 5]`.
    fn product(dtype: DType, rows: usize, k: usize, by_size: bool) -> LoweredInTests {
        let (x, w, at) = ([rows, k], [3, k, 5], [if by_size { 3 } else { rows }]);
        let attrs = GroupedMatmulAttrs { tw: false, by_size };
        let args = [(&x[..], dtype), (&w[..], dtype), (&at[..], DType::I32)];
        LoweredInTests::of(Op::GROUPED_MATMUL, &args, &attrs.list(), &[true])
    }

    fn moved(rows: usize, inner: usize) -> Indexed {
        Indexed { outer: 1, n: rows, k: rows, inner }
    }

    #[test]
    fn rows_are_sorted_multiplied_and_put_back() {
        let l = product(DType::F32, 7, 4, false);
        let (there, back) = (moved(7, 4), moved(7, 5));
        let of_rows = [(Temp(1), Whole), (Temp(2), Whole), (Temp(0), Whole)];
        assert_eq!(l.operands()[0], (&[Arg(2)][..], &of_rows[..]));
        assert_eq!(l.calls[0].looks, Some(Looks { read: 0, below: Some(3), or: None, early: true }));
        assert_eq!((l.calls[0].units, l.calls[0].work), (1, CostClass::INDEX));
        assert_eq!(l.operands()[1], (&[Arg(0), Temp(1)][..], &[(Temp(3), PerUnit(there.per_unit()))][..]));
        assert_eq!((&l.calls[1].params, l.calls[1].units, l.calls[1].whole), (&there.to_words(), there.units(), 1));
        let p = GroupedProduct { rows: 7, k: 4, n: 5, groups: 3, transposed: false };
        let (split, units) = p.division();
        let call = &l.calls[2];
        assert_eq!((&call.reads[..], call.writes[0]), (&[Temp(3), Arg(1), Temp(0)][..], (Temp(4), split)));
        assert_eq!((&call.params, call.units, call.whole), (&p.to_words(), units, 2));
        assert_eq!((call.flops, call.work), (280, CostClass::PRODUCT));
        assert_eq!(l.operands()[3], (&[Temp(4), Temp(2)][..], &[(Out(0), PerUnit(back.per_unit()))][..]));
        assert_eq!((&l.calls[3].params, l.calls.len()), (&back.to_words(), 4));
        let sizes = [(4, 4, false), (4, 7, false), (4, 7, false), (4, 28, false), (4, 35, false)];
        assert_eq!(l.sizes()[..5], sizes);
        assert_eq!(l.temps.len(), 5 + usize::from(p.scratch(DType::F32) > 0));
        assert_eq!(product(DType::F64, 7, 4, false).calls[2].work, CostClass::PRODUCT_F64);
    }

    #[test]
    fn rows_in_the_order_of_their_groups_are_not_moved() {
        let l = product(DType::F32, 7, 4, true);
        assert_eq!(l.operands()[0], (&[Arg(2)][..], &[(Temp(0), Whole)][..]));
        assert_eq!(l.calls[0].looks, Some(Looks { read: 0, below: None, or: None, early: false }));
        assert_eq!((l.calls[0].units, l.calls[0].work, l.calls.len()), (1, CostClass::INDEX, 2));
        assert_eq!((&l.calls[1].reads[..], l.calls[1].writes[0].0), (&[Arg(0), Arg(1), Temp(0)][..], Out(0)));
        assert_eq!(l.sizes()[0], (4, 4, false));
        // Rows without elements are not moved either.
        let l = product(DType::F32, 7, 0, false);
        assert_eq!((l.calls.len(), &l.calls[1].reads[..]), (3, &[Arg(0), Arg(1), Temp(0)][..]));
    }

    #[test]
    fn both_operands_of_outer_products_are_sorted() {
        let attrs = GroupedOuterAttrs { groups: 3, by_size: false };
        let args = [(&[7, 4][..], DType::F32), (&[7, 5], DType::F32), (&[7], DType::I64)];
        let l = LoweredInTests::of(Op::GROUPED_OUTER, &args, &attrs.list(), &[true]);
        let p = GroupedOuter { rows: 7, groups: 3, k: 4, n: 5 };
        assert_eq!((&l.calls[1].reads[..], l.calls[1].writes[0].0), (&[Arg(0), Temp(1)][..], Temp(3)));
        assert_eq!((&l.calls[2].reads[..], l.calls[2].writes[0].0), (&[Arg(1), Temp(1)][..], Temp(4)));
        let call = &l.calls[3];
        assert_eq!(
            (&call.reads[..], call.writes[0]),
            (&[Temp(3), Temp(4), Temp(0)][..], (Out(0), PerUnit(p.per_unit())))
        );
        assert_eq!((&call.params, call.units, call.whole), (&p.to_words(), p.units(), 3));
        assert_eq!((call.flops, call.work, l.calls.len()), (280, CostClass::PRODUCT, 4));
        assert_eq!(l.sizes()[3..5], [(4, 28, false), (4, 35, false)]);
        assert_eq!(l.temps.len(), 5 + usize::from(p.scratch(DType::F32) > 0));
    }
}
