//! Functions of symmetric matrices: f(A) = U·diag(f(w))·Uᵀ.
//!
//! Their derivative in a direction E is U·(Γ∘(UᵀEU))·Uᵀ, where Γ are the divided differences of f (Daleckii and Krein,
//! 1965), which are defined at equal eigenvalues. That of the root is a Sylvester equation in the root. Both maps are
//! their own transposes.

use super::PACK;
use super::eigh::{eigh_jvp_of, eigh_vjp_of};
use super::sylvester::sylvester;
use super::{
    linalg_cubic_cost, linalg_op_rounding_noise, linalg_results_of, linalg_square_dims, linalg_sum_of,
    linalg_symmetric_part,
};
use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::Dominant;

choice! {
    /// A function of symmetric matrices.
    #[derive(Default)]
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

/// f of eigenvalues `w`. Eigenvalues below 0 that rounding does not tell from 0 have the root 0.
fn matrix_function_of_values<'g>(w: Var<'g>, f: MatrixFunction) -> Var<'g> {
    match f {
        MatrixFunction::Exp => w.exp(),
        MatrixFunction::Log => w.log(),
        MatrixFunction::InverseSqrt => w.rsqrt(),
        MatrixFunction::Sqrt if w.numel() == 0 => w,
        MatrixFunction::Sqrt => {
            let noise = linalg_op_rounding_noise(w.abs().reduce(Op::REDUCE_MAX, -1, true));
            let rounded = w.less(0.0).logical_and(w.abs().less_equal(noise));
            rounded.select(0.0, w).sqrt()
        }
    }
}

fn decompose_matrix_function<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let [w, u] = linalg_results_of(s.args[0], Op::EIGH);
    let values = matrix_function_of_values(w, MatrixFunctionAttrs::of(&s.attrs).function);
    let y = (u * values.unsqueeze(-2)).matmul_t(u, false, true);
    vec![linalg_symmetric_part(y), w, u]
}

/// (1 − e⁻ᵈ)/d for d ≥ 0; a series near 0, where the quotient's derivative would lose digits.
fn decayed_share(d: Var<'_>) -> Var<'_> {
    let small = d.less(0.05);
    let near = (2..=9).rev().fold(d.full_like(1.0), |sum, k| 1.0 - d * sum / f64::from(k));
    let far = small.select(1.0, d);
    small.select(near, -(-far).expm1() / far)
}

/// The divided differences of exp at `x`, where `y` is exp(x): e^larger·(1 − e⁻ᵈ)/d, d their distance.
fn exp_differences<'g>(x: Var<'g>, y: Var<'g>) -> Var<'g> {
    let larger = y.unsqueeze(-2).maximum(y.unsqueeze(-1));
    larger * decayed_share((x.unsqueeze(-2) - x.unsqueeze(-1)).abs())
}

/// The derivative of f(A) in the direction of the symmetric part of `e`.
fn matrix_function_slope<'g>(s: &Site<'_, 'g>, e: Var<'g>) -> Var<'g> {
    let (y, w, u, f) = (s.outs[0], s.outs[1], s.outs[2], MatrixFunctionAttrs::of(&s.attrs).function);
    let e = linalg_symmetric_part(e);
    let inside = |m: Var<'g>| u.matmul_t(m.matmul(u), true, false);
    let outside = |m: Var<'g>| linalg_symmetric_part(u.matmul(m).matmul_t(u, false, true));
    match f {
        MatrixFunction::Exp => outside(inside(e) * exp_differences(w, w.exp())),
        MatrixFunction::Log => outside(inside(e) / exp_differences(w.log(), w)),
        MatrixFunction::Sqrt => sylvester(e, y, false),
        // Y·Ẏ + Ẏ·Y = −Y²·E·Y², the derivative of A⁻¹.
        MatrixFunction::InverseSqrt => {
            let inverse = y.matmul(y);
            sylvester(-inverse.matmul(e).matmul(inverse), y, false)
        }
    }
}

fn matrix_function_jvp<'g>(s: &Site<'_, 'g>, t: &[Option<Var<'g>>]) -> Vec<Option<Var<'g>>> {
    let Some(t) = t[0] else { return vec![None; 3] };
    let [w, u] = eigh_jvp_of(s.outs[1], s.outs[2], t);
    vec![Some(matrix_function_slope(s, t)), Some(w), Some(u)]
}

fn matrix_function_vjp<'g>(s: &Site<'_, 'g>, ct: &[Option<Var<'g>>], _: &[bool]) -> Vec<Option<Var<'g>>> {
    let of_factors = eigh_vjp_of(s.outs[1], s.outs[2], ct[1], ct[2]);
    vec![linalg_sum_of([ct[0].map(|g| matrix_function_slope(s, g)), of_factors])]
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
        let (batch, n) = linalg_square_dims(cx, 0, "A")?;
        let dtype = cx.dtype(0);
        cx.same_as(0)?;
        cx.result(dtype, &[&batch[..], &[n]].concat())?;
        cx.same_as(0)
    },
    deriv: Deriv::Rules(matrix_function_jvp, matrix_function_vjp),
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_matrix_function),
    lower: Lower::Expand,
    cost: |cx| linalg_cubic_cost(cx, 33),
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
