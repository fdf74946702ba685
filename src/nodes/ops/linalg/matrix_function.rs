//! Functions of symmetric matrices: f(A) = U·diag(f(w))·Uᵀ.
//!
//! Their derivative in a direction is made of divided differences of f (`matrix_function_slope`), which are defined at
//! equal eigenvalues. That of the root is a Sylvester equation in the root. Both maps are their own transposes.

use super::PACK;
use super::eigh::{spectral_cotangent, spectral_tangents};
use super::sylvester::sylvester;
use super::{check_square_dims, cubic_cost, rounding_noise, sum_present, symmetric_part, unary_results};
use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Dominant;

choice! {
    /// A function of symmetric matrices.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum MatrixFunction {
        /// e^A.
        #[default]
        Exp = "exp",
        /// ln A, for positive definite A.
        Log = "log",
        /// √A, for positive semidefinite A.
        Sqrt = "sqrt",
        /// (√A)⁻¹, for positive definite A.
        InverseSqrt = "inverse_sqrt",
    }
}

attrs! {
    /// Attributes of [`MATRIX_FUNCTION`].
    pub struct MatrixFunctionAttrs {
        /// The function f.
        function: MatrixFunction,
    }
}

/// The derivative of f(A) in the direction of the symmetric part of `e`.
pub(super) fn matrix_function_slope<'g>(a: Var<'g>, e: Var<'g>, function: MatrixFunction) -> Var<'g> {
    a.g.emit1(Op::MATRIX_FUNCTION_SLOPE, &[a, e], &MatrixFunctionAttrs { function }.list())
}

/// f of eigenvalues `w`. Eigenvalues below 0 that rounding does not tell from 0 have the root 0.
fn apply_to_eigenvalues<'g>(w: Var<'g>, f: MatrixFunction) -> Var<'g> {
    match f {
        MatrixFunction::Exp => w.exp(),
        MatrixFunction::Log => w.log(),
        MatrixFunction::InverseSqrt => w.rsqrt(),
        MatrixFunction::Sqrt if w.numel() == 0 => w,
        MatrixFunction::Sqrt => {
            let noise = rounding_noise(w.abs().reduce(Op::REDUCE_MAX, -1, true));
            let rounded = w.less(0.0).logical_and(w.abs().less_equal(noise));
            rounded.select(0.0, w).sqrt()
        }
    }
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let [w, u] = unary_results(s.args[0], Op::EIGH);
    let values = apply_to_eigenvalues(w, MatrixFunctionAttrs::of(&s.attrs).function);
    let y = (u * values.unsqueeze(-2)).matmul_t(u, false, true);
    vec![symmetric_part(y), w, u]
}

/// The derivative of f(A) in the direction of the symmetric part of `e`.
fn derive_along<'g>(s: &Site<'_, 'g>, e: Var<'g>) -> Var<'g> {
    let (y, f) = (s.outs[0], MatrixFunctionAttrs::of(&s.attrs).function);
    match f {
        MatrixFunction::Exp | MatrixFunction::Log => matrix_function_slope(s.args[0], e, f),
        MatrixFunction::Sqrt => sylvester(symmetric_part(e), y, false),
        // Y·Ẏ + Ẏ·Y = −Y²·E·Y², the derivative of A⁻¹.
        MatrixFunction::InverseSqrt => {
            let inverse = y.matmul(y);
            sylvester(-inverse.matmul(symmetric_part(e)).matmul(inverse), y, false)
        }
    }
}

fn push_tangents<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(t) = t[0] else { return vec![None; 3] };
    let [w, u] = spectral_tangents(s.outs[1], s.outs[2], t);
    vec![Some(derive_along(s, t)), Some(w), Some(u)]
}

fn pull_cotangents<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let of_factors = spectral_cotangent(s.outs[1], s.outs[2], ct[1], ct[2]);
    vec![sum_present([ct[0].map(|g| derive_along(s, g)), of_factors])]
}

/// Functions of symmetric matrices.
pub const MATRIX_FUNCTION: OpDef = OpDef {
    name: "matrix_function",
    doc: "Y = U·diag(f(w))·Uᵀ, w and U of (A + Aᵀ)/2 = U·diag(w)·Uᵀ; Ā = U·(Γ∘(Uᵀ·sym Ȳ·U))·Uᵀ with the divided \
          differences Γᵢⱼ = (f(wᵢ) − f(wⱼ))/(wᵢ − wⱼ), f'(wᵢ) at equal values; for the roots a Sylvester equation",
    arity: Arity::Exactly(1),
    attrs: MatrixFunctionAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::HEAVY).and(Flags::EXACT),
    infer: |cx| {
        let (batch, n) = check_square_dims(cx, 0, "A")?;
        let dtype = cx.dtype(0);
        cx.same_as(0)?;
        cx.result(dtype, &[&batch[..], &[n]].concat())?;
        cx.same_as(0)
    },
    deriv: Deriv::Rules(push_tangents, pull_cotangents),
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_node),
    lower: Lower::Expand,
    cost: |cx| cubic_cost(cx, 33),
    cases: &[
        Case { args: "f[3,3]", attrs: "function=exp", domains: &[Dominant] },
        Case { args: "f[2,3,3]", attrs: "function=log", domains: &[Dominant] },
        Case { args: "f[3,3]", attrs: "function=sqrt", domains: &[Dominant] },
        Case { args: "f[2,2,2]", attrs: "function=inverse_sqrt", domains: &[Dominant] },
        Case { args: "f[1,1]", attrs: "function=exp", domains: &[Dominant] },
        Case { args: "f[0,3,3]", attrs: "function=sqrt", domains: &[Dominant] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};
