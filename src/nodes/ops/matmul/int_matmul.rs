//! Products of integer matrices.

use super::matmul_dims::matmul_dims;
use super::product_flops;
use crate::ensure;
use crate::kernels::cost_model::CostClass;
use crate::kernels::int_gemm::int_matmul::{IntMatmul, int_matmul_kernel_for};
use crate::kernels::int_gemm::{IntGemm, int_gemm_kernel};
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use Domain::{Code, Index};

/// The type of a product of matrices of `dtype`: sums of `i8` and `u8` are `i32`.
pub fn product_dtype(dtype: DType) -> Result<DType, String> {
    match dtype {
        DType::I8 | DType::U8 | DType::I32 => Ok(DType::I32),
        DType::I64 => Ok(DType::I64),
        d => Err(format!("no product of {d}; f32, f64, i8, u8, i32 or i64 is needed")),
    }
}

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = product_dtype(cx.dtype(0))?;
    cx.same_dtype(0, 1)?;
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&cx.attrs);
    let (a, b) = (cx.dims(0), cx.dims(1));
    let dims = matmul_dims(&a, &b, ta, tb)?;
    ensure!(a.len() == 3 && b.len() == 3 && a[0] == b[0], "both operands need rank 3 and equal first axes");
    cx.result(dtype, &dims)
}

fn lower_node(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (a, y) = (cx.arg_dims(0), cx.out_dims(0));
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&cx.attrs());
    let (batch, m, n, k) = (y[0], y[1], y[2], a[if ta { 1 } else { 2 }]);
    let signed = cx.dtype(0) == DType::I8;
    if signed || cx.dtype(0) == DType::U8 {
        let p = IntGemm { batch, m, n, k, ta, tb, a_signed: signed, b_signed: signed, a_zero: 0, b_zero: 0 };
        let ((split, units), scratch) = (p.division(), cx.scratch(4, p.scratch()));
        let call = Call::new(int_gemm_kernel, p.to_words(), units).flops(cx.flops()).cost_class(CostClass::PRODUCT_I8);
        cx.call(call.reads_args(2).divided(Buf::Out(0), split).scratch(scratch));
        return Ok(());
    }
    let p = IntMatmul { batch, m, n, k, ta, tb };
    let kernel = int_matmul_kernel_for(cx.dtype(0))?;
    let call = Call::new(kernel, p.to_words(), p.units()).flops(cx.flops()).cost_class(CostClass::PRODUCT_F64);
    cx.call(call.reads_args(2).writes(Buf::Out(0), p.per_unit()));
    Ok(())
}

/// Products of integer matrices.
pub const INT_MATMUL: OpDef = OpDef {
    name: "int_matmul",
    doc: "y[s, i, j] = Σₖ a[s, i, k]·b[s, k, j], with either operand's last two axes exchanged first; i8 and u8 give \
        i32; sums wrap",
    arity: Arity::Exactly(2),
    attrs: MatmulAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY),
    infer: infer_types,
    deriv: Deriv::Zero,
    batch: Batch::Rule(|s| s.merged()),
    lower: Lower::Kernel(lower_node),
    cost: product_flops,
    cases: &[
        Case { args: "u8[2,3,4] u8[2,4,5]", attrs: "ta=false tb=false", domains: &[Index(256)] },
        Case { args: "i8[1,70,33] i8[1,90,33]", attrs: "ta=false tb=true", domains: &[Code] },
        Case { args: "i32[2,4,3] i32[2,4,5]", attrs: "ta=true tb=false", domains: &[Index(99)] },
        Case { args: "i64[1,3,4] i64[1,5,4]", attrs: "ta=false tb=true", domains: &[Index(99)] },
        Case { args: "i32[1,90,30] i32[1,30,40]", attrs: "ta=false tb=false", domains: &[Index(99)] },
        Case { args: "i32[1,3,0] i32[1,0,4]", attrs: "ta=false tb=false", domains: &[Index(99)] },
    ],
    ..OpDef::BLANK
};
