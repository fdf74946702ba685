//! What is computed row by row: softmax, cross entropy, norms.

use crate::c_text::{c_type, number_i64};
use crate::call::{Call, Statement};
use crate::reductions::float;
use arenagrad::graph::DType;
use arenagrad_kernels::norm::layer_norm::LayerNorm;
use arenagrad_kernels::norm::residual_norm::ResidualNorm;
use arenagrad_kernels::softmax::{CrossEntropy, Softmax};

/// `ag_NAME(reads, rows, n, y)` for softmax, log softmax and their gradients.
pub fn softmax(c: &Call<'_>, name: &str, dtype: DType) -> Result<Statement, String> {
    let (p, f) = (Softmax::from_words(c.words()), c_type(dtype)?.tag);
    if p.inner != 1 {
        return Err("C has softmax along the last axis only; transpose its operand".into());
    }
    let reads: Result<Vec<String>, String> = (0..c.reads().len()).map(|i| c.read(i, dtype)).collect();
    let (reads, y) = (reads?.join(", "), c.write(0, dtype)?);
    Ok(Statement::plain(format!("ag_{name}_{f}({reads}, {}, {}, {y});", p.outer, p.n)))
}

/// Which of the cross entropy kernels.
#[derive(Clone, Copy)]
pub enum Losses {
    Loss,
    Gradient,
    Both,
}

/// Cross entropy, its gradient, or both.
pub fn cross_entropy(c: &Call<'_>, which: Losses, dtype: DType, index: DType) -> Result<Statement, String> {
    let (p, f, i) = (CrossEntropy::from_words(c.words()), c_type(dtype)?.tag, c_type(index)?.tag);
    let (x, labels) = (c.read(0, dtype)?, c.read(1, index)?);
    let sizes = format!("{}, {}, {}", p.rows, p.classes, number_i64(p.ignore_index));
    let (hit, smooth) = (float(dtype, 1.0 - p.smoothing), float(dtype, p.smoothing));
    let uniform = float(dtype, p.smoothing / p.classes as f64);
    Ok(Statement::check(match which {
        Losses::Loss => {
            let (loss, lse) = (c.write(0, dtype)?, c.write(1, dtype)?);
            format!("ag_cross_entropy_{f}_{i}({x}, {labels}, {sizes}, {hit}, {smooth}, {loss}, {lse})")
        }
        Losses::Gradient => {
            let (lse, d, dx) = (c.read(2, dtype)?, c.read(3, dtype)?, c.write(0, dtype)?);
            format!("ag_cross_entropy_backward_{f}_{i}({x}, {labels}, {lse}, {d}, {sizes}, {hit}, {uniform}, {dx})")
        }
        Losses::Both => {
            let (loss, lse, dx) = (c.write(0, dtype)?, c.write(1, dtype)?, c.write(2, dtype)?);
            let d = float(dtype, f64::from_bits(c.words().last().copied().unwrap_or(0)));
            format!(
                "ag_cross_entropy_both_{f}_{i}({x}, {labels}, {sizes}, {hit}, {smooth}, {uniform}, {d}, {loss}, {lse}, {dx})"
            )
        }
    }))
}

/// Layer norm or RMS norm: `name` is `layer_norm` or `rms_norm`.
pub fn norm(c: &Call<'_>, name: &str, dtype: DType) -> Result<Statement, String> {
    let (p, f) = (LayerNorm::from_words(c.words()), c_type(dtype)?.tag);
    if !p.affine {
        return Err("C has norms with a factor and a bias only".into());
    }
    let writes: Result<Vec<String>, String> = (0..c.writes().len()).map(|i| c.write(i, dtype)).collect();
    let (x, gamma, beta) = (c.read(0, dtype)?, c.read(1, dtype)?, c.read(2, dtype)?);
    let sizes = format!("{}, {}, {}", p.rows, p.n, float(dtype, p.eps));
    Ok(Statement::plain(format!("ag_{name}_{f}({x}, {gamma}, {beta}, {sizes}, {});", writes?.join(", "))))
}

/// The gradients of a norm.
pub fn norm_backward(c: &Call<'_>, name: &str, dtype: DType) -> Result<Statement, String> {
    let (p, f) = (LayerNorm::from_words(c.words()), c_type(dtype)?.tag);
    if !p.affine {
        return Err("C has norms with a factor and a bias only".into());
    }
    let reads: Result<Vec<String>, String> = (0..c.reads().len()).map(|i| c.read(i, dtype)).collect();
    let writes: Result<Vec<String>, String> = (0..c.writes().len()).map(|i| c.write(i, dtype)).collect();
    let sizes = format!("{}, {}, {}", p.rows, p.n, p.rows_per_block());
    Ok(Statement::plain(format!("ag_{name}_backward_{f}({}, {sizes}, {});", reads?.join(", "), writes?.join(", "))))
}

/// The norm of a sum.
pub fn residual_norm(c: &Call<'_>, name: &str, dtype: DType) -> Result<Statement, String> {
    let (p, f) = (ResidualNorm::from_words(c.words()), c_type(dtype)?.tag);
    let (x, res) = (c.read(0, dtype)?, c.read(1, dtype)?);
    let bias = if p.bias { c.read(2, dtype)? } else { format!("(const {} *)0", c_type(dtype)?.name) };
    let (rest, keep) = (2 + usize::from(p.bias), usize::from(p.keep));
    let (gamma, beta, sum) = (c.read(rest, dtype)?, c.read(rest + 1, dtype)?, c.write(0, dtype)?);
    let writes: Result<Vec<String>, String> = (keep..c.writes().len()).map(|i| c.write(i, dtype)).collect();
    let (rows, n, eps) = (p.rows, p.n, float(dtype, p.eps));
    Ok(Statement::plain(format!(
        "ag_residual_{f}({x}, {res}, {bias}, {rows}, {n}, {sum});\n\
         ag_{name}_{f}({sum}, {gamma}, {beta}, {rows}, {n}, {eps}, {});",
        writes?.join(", ")
    )))
}
