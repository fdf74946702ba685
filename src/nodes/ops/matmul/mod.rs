//! Matrix products.

pub mod activation;
pub mod attrs;
pub mod dot_general;
pub mod einsum;
pub mod epilogue;
pub mod int_matmul;
pub mod lora;
pub mod lower;
pub mod matmul_dims;
pub mod stacked;
pub mod var;

use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, BatchSite, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Real;
use attrs::MatmulAttrs;
use matmul_dims::matmul_operand_dims;

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let dtype = cx.float(0)?;
    cx.same_dtype(0, 1)?;
    let dims = matmul_operand_dims(cx)?;
    cx.result(dtype, &dims)
}

/// The product with the batch's axis before all axes that the operands broadcast.
fn batch_node<'g>(s: &BatchSite<'_, 'g>) -> Option<Vec<Var<'g>>> {
    let rank = s.rank(0).max(s.rank(1));
    Some(s.site.rebuild_with(&[s.aligned(0, rank), s.aligned(1, rank)]))
}

/// ā and b̄ are products again, in the layout that needs no transposed copy; broadcast batch axes are summed.
fn transpose_product<'g>(s: &Site<'_, 'g>, i: usize, g: Var<'g>) -> Option<Var<'g>> {
    let MatmulAttrs { ta, tb } = MatmulAttrs::of(&s.attrs);
    let (a, b) = (s.args[0], s.args[1]);
    let full = match (i, ta, tb) {
        (0, false, _) => g.matmul_t(b, false, !tb),
        (0, true, _) => b.matmul_t(g, tb, true),
        (_, _, false) => a.matmul_t(g, !ta, false),
        (_, _, true) => g.matmul_t(a, true, ta),
    };
    Some(full.unbroadcast(&s.args[i].dims()))
}

/// 2·m·n·k over the batch.
pub fn product_flops(cx: &CostCx<'_>) -> u64 {
    let a = cx.graph.dims(cx.graph.args_of(cx.node)[0]);
    let MatmulAttrs { ta, .. } = MatmulAttrs::of(&cx.graph.attrs(cx.node));
    let k = a.len().checked_sub(if ta { 2 } else { 1 }).map_or(0, |i| a[i]);
    cx.out().saturating_mul(2).saturating_mul(k as u64)
}

/// The matrix product.
pub const MATMUL: OpDef = OpDef {
    name: "matmul",
    doc: "y[.., i, j] = Σₖ a[.., i, k]·b[.., k, j], with either operand's last two axes exchanged first; leading axes \
        broadcast",
    arity: Arity::Exactly(2),
    attrs: MatmulAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::PRODUCT),
    infer: infer_types,
    deriv: Deriv::Multilinear(transpose_product),
    batch: Batch::Rule(batch_node),
    lower: Lower::Kernel(lower::emit_matmul),
    cost: product_flops,
    cases: &[
        Case { args: "f[3,4] f[4,5]", attrs: "ta=false tb=false", domains: &[Real] },
        Case { args: "f[4,3] f[4,5]", attrs: "ta=true tb=false", domains: &[Real] },
        Case { args: "f[3,4] f[5,4]", attrs: "ta=false tb=true", domains: &[Real] },
        Case { args: "f[4,3] f[5,4]", attrs: "ta=true tb=true", domains: &[Real] },
        Case { args: "f[2,1,3,4] f[5,4,2]", attrs: "ta=false tb=false", domains: &[Real] },
        Case { args: "f[2,3,4] f[4,6]", attrs: "ta=false tb=false", domains: &[Real] },
        Case { args: "f[1,17] f[17,33]", attrs: "ta=false tb=false", domains: &[Real] },
        Case { args: "f[3,0] f[0,2]", attrs: "ta=false tb=false", domains: &[Real] },
        Case { args: "f[37,19] f[19,41]", attrs: "ta=false tb=false", domains: &[Real] },
    ],
    ..OpDef::BLANK
};
