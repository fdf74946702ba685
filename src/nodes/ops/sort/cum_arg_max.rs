//! Positions of running maxima and minima: the op, its kernel call, and the methods of [`Var`].

use crate::ensure;
use crate::error::Kind;
use crate::kernels::cost_model::CostClass;
use crate::kernels::sort::cum_arg_max;
use crate::kernels::sort::cum_arg_max::CumArgMax;
use crate::nodes::arguments::axes::{AxisSplit, check_axis, split_at_axis};
use crate::nodes::arguments::size_attrs::to_size_attr;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ops::sort::POSITIONS;
use crate::nodes::ops::sort::attrs::CumArgMaxAttrs;

fn batch_node<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let a = CumArgMaxAttrs::of(&s.site.attrs);
    s.emit(s.site.args, &CumArgMaxAttrs { axis: a.axis + 1, ..a }.list())
}

/// The position of the running maximum or minimum along an axis.
pub const CUM_ARG_MAX: OpDef = OpDef {
    name: "cum_arg_max",
    doc: "position (i32) of the largest (or, if `smallest`, smallest) element so far along `axis`: the last of equals, \
          the last NaN once there is one",
    arity: Arity::Exactly(1),
    attrs: CumArgMaxAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::STEP),
    infer: |cx| {
        let (d, dtype) = (cx.dims(0), cx.dtype(0));
        ensure!(dtype.is_float() || dtype.is_index(), "no order of {dtype}; cast it");
        let axis = check_axis(CumArgMaxAttrs::of(&cx.attrs).axis, d.len())?;
        ensure!(d[axis] <= POSITIONS, "axis {axis} of {d} is too long for i32 positions");
        cx.result(DType::I32, &d)
    },
    deriv: Deriv::Zero,
    batch: Batch::Rule(batch_node),
    lower: Lower::Kernel(lower_node),
    cost: |cx| cx.arg(0),
    cases: &[
        Case { args: "f[3,17]", attrs: "axis=1 smallest=false", domains: &[Domain::Distinct] },
        Case { args: "f[4,6,5]", attrs: "axis=1 smallest=true", domains: &[Domain::Distinct] },
        Case { args: "i64[9,2]", attrs: "axis=0 smallest=false", domains: &[Domain::Index(4)] },
    ],
    ..OpDef::BLANK
};

/// `cum_arg_max`.
fn lower_node(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let CumArgMaxAttrs { axis, smallest } = CumArgMaxAttrs::of(&cx.attrs());
    let AxisSplit { outer, n, inner } = split_at_axis(&cx.arg_dims(0), to_size_attr(axis));
    let p = CumArgMax { outer, n, inner, smallest };
    let kernel = cum_arg_max::cum_arg_max_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::RUNNING);
    cx.call(call.reads_args(1).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

impl<'g> Var<'g> {
    /// The largest element so far along `axis`, and its position (i32), as in `torch.cummax`. Of equal elements the
    /// last counts. From the first NaN on, the result is NaN, at the position of the last NaN so far. Gradients go back
    /// to where the values were.
    #[track_caller]
    pub fn cummax(self, axis: i64) -> (Var<'g>, Var<'g>) {
        self.running_sort_extreme("cummax", axis, false)
    }

    /// The smallest element so far along `axis`, and its position (i32); see [`Var::cummax`].
    #[track_caller]
    pub fn cummin(self, axis: i64) -> (Var<'g>, Var<'g>) {
        self.running_sort_extreme("cummin", axis, true)
    }

    #[track_caller]
    fn running_sort_extreme(self, name: &str, axis: i64, smallest: bool) -> (Var<'g>, Var<'g>) {
        let rank = self.rank() as i64;
        let at = if axis < 0 { axis.saturating_add(rank) } else { axis };
        if self.is_some() && !(0..rank).contains(&at) {
            let none = self.g.fail(Kind::Shape, format!("{name}({self:?}): axis {axis} is outside rank {rank}"));
            return (none, none);
        }
        let positions = self.g.emit1(Op::CUM_ARG_MAX, &[self], &CumArgMaxAttrs { axis: at, smallest }.list());
        (self.take_along_axis(positions, axis), positions)
    }
}
