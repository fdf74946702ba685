//! Products of a stack, added to a sum one after another, as a loop adds them to what it carries.

use super::lower::{product_cost_class, product_of_dims, whole_operands};
use super::matmul_dims::matmul_dims;
use crate::ensure;
use crate::kernels::gemm::{Gemm, StackedProduct, stacked_product_kernel_for};
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::matmul::product_flops;
use Domain::Real;

attrs! {
    /// Attributes of `matmul_add_stack`.
    pub struct MatmulAddStackAttrs {
        /// Whether a is transposed.
        ta: bool,
        /// Whether b is transposed.
        tb: bool,
        /// Whether the last product is added first.
        reverse: bool,
    }
}

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    cx.same_dtype(0, 1)?;
    cx.same_dtype(0, 2)?;
    let MatmulAddStackAttrs { ta, tb, .. } = MatmulAddStackAttrs::of(&cx.attrs);
    let (a, b) = (cx.dims(0), cx.dims(1));
    let (Some((count, a)), Some((others, b))) = (a.split_first(), b.split_first()) else {
        return Err("a and b need a stack's axis in front of those of a matrix".into());
    };
    ensure!(count == others, "stacks of {count} and of {others} matrices");
    let dims = matmul_dims(a, b, ta, tb)?;
    ensure!(*cx.dims(2) == *dims, "what is added to has shape {}, not that of a product, {dims:?}", cx.dims(2));
    cx.result(dtype, &dims)
}

/// The stack's axis in front of the summed axis, and the two as one.
fn side_by_side(x: Var<'_>, summed: usize) -> Var<'_> {
    let d = x.dims();
    let axes: Vec<usize> = (1..summed).chain([0]).chain(summed..d.len()).collect();
    let dims: Vec<usize> =
        d[1..summed].iter().copied().chain([d[0] * d[summed]]).chain(d[summed + 1..].to_vec()).collect();
    x.permute(&axes).reshape(dims)
}

fn decompose<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let MatmulAddStackAttrs { ta, tb, reverse } = MatmulAddStackAttrs::of(&s.attrs);
    let order = |x: Var<'g>| if reverse { x.flip([0]) } else { x };
    let (a, b) = (order(s.args[0]), order(s.args[1]));
    let a = side_by_side(a, a.rank() - if ta { 2 } else { 1 });
    let b = side_by_side(b, b.rank() - if tb { 1 } else { 2 });
    vec![s.args[2] + a.matmul_t(b, ta, tb)]
}

/// 2·m·n·k over the stack and the batch.
fn all_flops(cx: &CostCx<'_>) -> u64 {
    let stack = cx.graph.dims(cx.graph.args_of(cx.node)[0]).first().map_or(0, |&n| n as u64);
    product_flops(cx).saturating_mul(stack)
}

fn emit(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let MatmulAddStackAttrs { reverse, ta, tb } = MatmulAddStackAttrs::of(&cx.attrs());
    let (a, b, y) = (cx.arg_dims(0), cx.arg_dims(1), cx.out_dims(0));
    let one = product_of_dims([&a[1..], &b[1..], &y], ta, tb)?;
    let one = Gemm { accumulate: true, precision: cx.precision, ..one };
    let size = |d: &[usize]| d[1..].iter().product();
    let s = StackedProduct { one, count: a[0], a: size(&a), b: size(&b), reverse };
    let dtype = cx.dtype(0);
    let (split, units) = s.division();
    let call = Call::new(stacked_product_kernel_for(dtype)?, s.to_words(), units)
        .flops(cx.flops())
        .cost_class(product_cost_class(dtype, &one))
        .whole(whole_operands(&one))
        .reads_args(3)
        .inplace(&[(2, 0)])
        .divided(Buf::Out(0), split);
    let scratch = s.scratch_len_for(dtype);
    let call = if scratch > 0 { call.scratch(cx.scratch(dtype.size(), scratch)) } else { call };
    cx.call(call);
    Ok(())
}

/// The products of a stack, added to a sum.
pub const MATMUL_ADD_STACK: OpDef = OpDef {
    name: "matmul_add_stack",
    doc: "y = c + Σₜ a[t]·b[t], from (a, b, c); the sum of each element begins with c and goes through the stack from \
        the first product to the last, or backwards with `reverse`",
    arity: Arity::Exactly(3),
    attrs: MatmulAddStackAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED).and(Flags::PRODUCT),
    infer: infer_types,
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose),
    lower: Lower::Kernel(emit),
    cost: all_flops,
    cases: &[
        Case { args: "f[2,3,4] f[2,4,5] f[3,5]", attrs: "ta=false tb=false reverse=false", domains: &[Real] },
        Case { args: "f[40,8,60] f[40,8,70] f[60,70]", attrs: "ta=true tb=false reverse=true", domains: &[Real] },
        Case { args: "f[3,60,8] f[3,70,8] f[60,70]", attrs: "ta=false tb=true reverse=true", domains: &[Real] },
        Case { args: "f[5,2,1,7] f[5,2,1,9] f[2,7,9]", attrs: "ta=true tb=false reverse=true", domains: &[Real] },
        Case { args: "f[3,2,3,4] f[3,5,4] f[2,3,5]", attrs: "ta=false tb=true reverse=false", domains: &[Real] },
        Case { args: "f[3,1,40] f[3,33,40] f[1,33]", attrs: "ta=false tb=true reverse=true", domains: &[Real] },
        Case { args: "f[2,300,4] f[2,300,5] f[4,5]", attrs: "ta=true tb=false reverse=true", domains: &[Real] },
        Case { args: "f[0,3,4] f[0,4,5] f[3,5]", attrs: "ta=false tb=false reverse=false", domains: &[Real] },
        Case { args: "f[2,3,0] f[2,0,5] f[3,5]", attrs: "ta=false tb=false reverse=true", domains: &[Real] },
        Case { args: "f[2,4,0] f[2,4,5] f[0,5]", attrs: "ta=true tb=false reverse=true", domains: &[Real] },
    ],
    ..OpDef::BLANK
};
