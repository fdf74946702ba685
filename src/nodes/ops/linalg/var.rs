//! Linear algebra as methods of [`Var`]. Matrices are the last two axes of `f32` or `f64` values; the axes before them
//! are a batch.

use super::attrs::{LuSolveAttrs, Singular, SolveAttrs, TriangularSolveAttrs};
use super::matrix_function::{MatrixFunction, MatrixFunctionAttrs};
use super::unary_results;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::opdef::Op;

/// The triangle of [`Var::triangular_solve`].
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TriangularOptions {
    /// The triangle from the diagonal up; else from the diagonal down.
    pub upper: bool,
    /// Solve with the transpose of the triangle.
    pub transpose: bool,
    /// The diagonal is 1 and is not read.
    pub unit: bool,
    /// What a singular matrix gives.
    pub singular: Singular,
}

setters! {
    [] TriangularOptions { upper: bool, transpose: bool, unit: bool, singular: Singular }
}

impl<'g> Var<'g> {
    /// X with A·X = B for this A, `[.., n, n]`, and `b`, `[.., n, k]`, as in `torch.linalg.solve`. Batch axes
    /// broadcast. A singular matrix ends the step with an error that names it; see [`Var::solve_or_nan`].
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("solve");
    /// let (a, b) = (g.input("a", [2, 2], DType::F64), g.input("b", [2], DType::F64));
    /// let graph = g.finish([a.solve_vec(b).named("x")])?;
    /// let mut p = Session::new().compile(&graph)?;
    /// p.values_mut::<f64>("a")?.copy_from_slice(&[2.0, 1.0, 1.0, 3.0]);
    /// p.values_mut::<f64>("b")?.copy_from_slice(&[1.0, 2.0]);
    /// p.step()?;
    /// let x = p.values::<f64>("x")?;
    /// assert!((x[0] - 0.2).abs() < 1e-15 && (x[1] - 0.6).abs() < 1e-15);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn solve(self, b: Var<'g>) -> Var<'g> {
        self.g.emit(Op::SOLVE, &[self, b], &SolveAttrs { singular: Singular::Fault }.list())[0]
    }

    /// As [`Var::solve`], but X of a singular matrix is NaN.
    #[track_caller]
    pub fn solve_or_nan(self, b: Var<'g>) -> Var<'g> {
        self.g.emit(Op::SOLVE, &[self, b], &SolveAttrs { singular: Singular::Nan }.list())[0]
    }

    /// As [`Var::solve`], for vectors `b`, `[.., n]`: one for each matrix. Batch axes broadcast.
    #[track_caller]
    pub fn solve_vec(self, b: Var<'g>) -> Var<'g> {
        self.solve_for_vectors("solve_vec", b, |b| self.solve(b))
    }

    /// `solve` on the vectors `b` as columns.
    #[track_caller]
    fn solve_for_vectors(self, what: &str, b: Var<'g>, solve: impl FnOnce(Var<'g>) -> Var<'g>) -> Var<'g> {
        if !self.g.owns(what, &[b]) || !b.is_some() {
            return self.none();
        }
        if b.rank() == 0 {
            return b.refuse(what, "a scalar is no right-hand side; rank 1 or more is needed");
        }
        self.g.with_caller(|| solve(b.unsqueeze(-1)).squeeze(-1))
    }

    /// LU factors with partial pivoting: `[LU, rows, sign]`, where L is below the diagonal of LU (its own diagonal is
    /// 1), U from the diagonal on, L·U is `A[rows]` with rows as `i32`, and sign is 1 or −1. A singular matrix has
    /// factors, too: with a zero on the diagonal.
    #[track_caller]
    pub fn lu(self) -> [Var<'g>; 3] {
        unary_results(self, Op::LU)
    }

    /// X with A·X = B, or Aᵀ·X = B if `transpose`, where this and `rows` are the factors that [`Var::lu`] gives for A.
    #[track_caller]
    pub fn lu_solve(self, rows: Var<'g>, b: Var<'g>, transpose: bool) -> Var<'g> {
        let attrs = LuSolveAttrs { transpose, singular: Singular::Fault };
        self.g.emit1(Op::LU_SOLVE, &[self, rows, b], &attrs.list())
    }

    /// X with T·X = B for a triangle T of this, `[.., n, n]`; the other triangle is not read. Batch axes broadcast.
    #[track_caller]
    pub fn triangular_solve(self, b: Var<'g>, opt: TriangularOptions) -> Var<'g> {
        let TriangularOptions { upper, transpose, unit, singular } = opt;
        let attrs = TriangularSolveAttrs { upper, transpose, unit, singular };
        self.g.emit1(Op::TRIANGULAR_SOLVE, &[self, b], &attrs.list())
    }

    /// The lower Cholesky factor L of the symmetric part (A + Aᵀ)/2, with zeros above the diagonal. A matrix that is
    /// not positive definite ends the step with an error that names it.
    #[track_caller]
    pub fn cholesky(self) -> Var<'g> {
        self.g.emit1(Op::CHOLESKY, &[self], &[])
    }

    /// X with A·X = B, where this is the lower Cholesky factor of A.
    #[track_caller]
    pub fn cholesky_solve(self, b: Var<'g>) -> Var<'g> {
        let opt = TriangularOptions::default();
        self.g.with_caller(|| {
            let half = self.triangular_solve(b, opt);
            self.triangular_solve(half, TriangularOptions { transpose: true, ..opt })
        })
    }

    /// The determinant. Its derivative at a singular matrix is NaN.
    #[track_caller]
    pub fn det(self) -> Var<'g> {
        self.g.with_caller(|| {
            let [lu, _, sign] = self.lu();
            lu.diagonal(0, -2, -1).prod(-1) * sign
        })
    }

    /// The sign of the determinant and the logarithm of its magnitude: `[sign, log|det|]`. A singular matrix has 0 and
    /// −∞; its derivative is NaN.
    #[track_caller]
    pub fn slogdet(self) -> [Var<'g>; 2] {
        self.g.with_caller(|| {
            let [lu, _, sign] = self.lu();
            let pivots = lu.diagonal(0, -2, -1);
            [pivots.sign().prod(-1) * sign, pivots.abs().log().sum(-1)]
        })
    }

    /// The inverse. A singular matrix ends the step with an error that names it. To solve, [`Var::solve`] is faster and
    /// more exact.
    #[track_caller]
    pub fn inverse(self) -> Var<'g> {
        if !self.is_some() {
            return self;
        }
        let Some(n) = self.axis_len(-1).filter(|_| self.rank() >= 2 && self.dtype().is_float()) else {
            return self.refuse("inverse", "square matrices of f32 or f64 are needed");
        };
        self.g.with_caller(|| self.solve(self.g.full(1.0, [n], self.dtype()).diag_embed(0, -2, -1)))
    }

    /// Reduced QR factors of this, `[.., m, n]`: `[Q, R]` with k = min(m, n) orthonormal columns in Q. The diagonal of
    /// R holds no negative number, so that a matrix of full rank has one result.
    #[track_caller]
    pub fn qr(self) -> [Var<'g>; 2] {
        unary_results(self, Op::QR)
    }

    /// Eigenvalues, ascending, and eigenvectors, as columns, of the symmetric part (A + Aᵀ)/2: `[w, U]`. The largest
    /// magnitude of each column is positive.
    ///
    /// Eigenvectors have no derivative where eigenvalues are equal. If rounding does not tell two eigenvalues apart
    /// (by 16 ε of the largest magnitude), and the cotangent of U has a part between their vectors that is not 0, the
    /// gradient of that matrix is NaN, as in torch. Functions of the eigenvalues alone have their gradients there.
    /// For f(A) = U·diag(f(w))·Uᵀ, [`Var::matrix_function`] has the right gradient everywhere.
    #[track_caller]
    pub fn eigh(self) -> [Var<'g>; 2] {
        unary_results(self, Op::EIGH)
    }

    /// The thin singular value decomposition of this, `[.., m, n]`: `[U, s, Vᵀ]` with k = min(m, n) singular values,
    /// descending. The largest magnitude of each column of U is positive.
    ///
    /// Singular vectors have no derivative where singular values are equal, and those of zeros have none outside of the
    /// span of the others. If rounding does not tell two of them apart, or one from 0 (by 16 ε of the largest), and the
    /// cotangent of U or Vᵀ has a part there that is not 0, the gradient of that matrix is NaN, as in torch. Functions
    /// of the singular values alone have their gradients there. For U·Vᵀ, [`Var::matrix_polar`] has the right gradient.
    #[track_caller]
    pub fn svd(self) -> [Var<'g>; 3] {
        unary_results(self, Op::SVD)
    }

    /// f of the symmetric part (A + Aᵀ)/2 of this, `[.., n, n]`: f of its eigenvalues, with the same eigenvectors. An
    /// eigenvalue at which f is not defined makes that matrix NaN; for `Sqrt`, negative ones that rounding does not
    /// tell from 0 count as 0.
    ///
    /// The gradient is that of f also where eigenvalues are equal (Daleckii and Krein, 1965), and so are second
    /// derivatives. Higher ones of `Sqrt` and `InverseSqrt` are right there, too; those of `Exp` and `Log` are NaN
    /// there, and lose digits near there. Second derivatives of `Exp` and `Log` take memory in proportion to n³. The
    /// gradient of `Sqrt` at a matrix without full rank is NaN, unless its cotangent has no part between the vectors of
    /// zeros.
    ///
    /// ```
    /// use arenagrad::graph::linalg::MatrixFunction;
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("root");
    /// let a = g.input("a", [2, 2], DType::F64);
    /// let graph = g.finish([a.matrix_function(MatrixFunction::Sqrt).named("root")])?;
    /// let mut p = Session::new().compile(&graph)?;
    /// p.values_mut::<f64>("a")?.copy_from_slice(&[5.0, 4.0, 4.0, 5.0]);
    /// p.step()?;
    /// let root = p.values::<f64>("root")?;
    /// assert!(root.iter().zip([2.0, 1.0, 1.0, 2.0]).all(|(a, b)| (a - b).abs() < 1e-14));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn matrix_function(self, function: MatrixFunction) -> Var<'g> {
        self.g.emit(Op::MATRIX_FUNCTION, &[self], &MatrixFunctionAttrs { function }.list())[0]
    }

    /// Polar factors of this, `[.., m, n]` with m ≥ n: `[Q, H]` with A = Q·H, as in `scipy.linalg.polar`. Q has
    /// orthonormal columns and is the matrix of that kind that is nearest to A; H is √(AᵀA).
    ///
    /// Derivatives of any order are right where singular values are equal. Where two of them, or one of a tall matrix,
    /// are 0, Q is not unique: the gradient is NaN, unless its cotangent has no part there.
    #[track_caller]
    pub fn matrix_polar(self) -> [Var<'g>; 2] {
        unary_results(self, Op::POLAR)
    }

    /// X with the least ‖A·X − B‖ for this A, `[.., m, n]`, of full rank with m ≥ n, and `b`, `[.., m, k]`, by QR
    /// factors. A matrix without full rank that has an exact 0 on the diagonal of R ends the step with an error that
    /// names it.
    #[track_caller]
    pub fn lstsq(self, b: Var<'g>) -> Var<'g> {
        if !self.g.owns("lstsq", &[b]) || !self.is_some() || !b.is_some() {
            return self.none();
        }
        let (m, n) = (self.axis_len(-2), self.axis_len(-1));
        if self.rank() < 2 || m < n {
            return self.refuse("lstsq", "at least as many rows as columns are needed");
        }
        if b.rank() < 2 || b.axis_len(-2) != m {
            return self.refuse("lstsq", format!("B has shape {}; a row for each row of A is needed", b.dims()));
        }
        self.g.with_caller(|| {
            let [q, r] = self.qr();
            let opt = TriangularOptions { upper: true, ..TriangularOptions::default() };
            r.triangular_solve(q.matmul_t(b, true, false), opt)
        })
    }
}
