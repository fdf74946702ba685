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
