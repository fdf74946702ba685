//! Reductions, and positions of extremes.

use crate::c_text::{c_type, literal_f32, literal_f64};
use crate::call::{Call, Statement};
use arenagrad::graph::DType;
use arenagrad_kernels::reduce::root_sum_squares::Parts;
use arenagrad_kernels::reduce::squared_error::SquaredError;
use arenagrad_kernels::reduce::{PartialReduce, Reduce};

/// A number of type `dtype`, which is a float.
pub fn float(dtype: DType, x: f64) -> String {
    if dtype == DType::F32 { literal_f32(x as f32) } else { literal_f64(x) }
}

/// Each column of `[outer, n, inner]` to one element.
fn reduce(fold: &str, f: &str, (x, y): (&str, &str), [outer, n, inner]: [usize; 3]) -> String {
    match inner {
        1 => format!("ag_rows_{fold}_{f}({x}, {outer}, {n}, {y});"),
        2..=64 => format!("ag_narrows_{fold}_{f}({x}, {outer}, {n}, {inner}, {y});"),
        _ => format!("ag_columns_{fold}_{f}({x}, {outer}, {n}, {inner}, {y});"),
    }
}

/// A reduction in one instruction; `mean` divides its results.
pub fn whole(c: &Call<'_>, fold: &str, dtype: DType, mean: bool) -> Result<Statement, String> {
    let (p, f) = (Reduce::from_words(c.words()), c_type(dtype)?.tag);
    let (x, y) = (c.read(0, dtype)?, c.write(0, dtype)?);
    let mut text = reduce(fold, f, (&x, &y), [p.outer, p.n, p.inner]);
    if mean {
        text += &format!("\nag_divide_{f}({y}, {}, {});", p.out_len(), float(dtype, p.divisor as f64));
    }
    Ok(Statement::plain(text))
}

/// The first of two instructions: one result for each chunk.
pub fn partial(c: &Call<'_>, fold: &str, dtype: DType) -> Result<Statement, String> {
    let (p, f) = (PartialReduce::from_words(c.words()), c_type(dtype)?.tag);
    let (x, y) = (c.read(0, dtype)?, c.write(0, dtype)?);
    let (chunks, rest) = (p.n / p.chunk, p.n % p.chunk);
    let mut text = String::new();
    for o in 0..p.outer {
        // Whole chunks are rows of a view of their own.
        let (from, to) = (o * p.n * p.inner, o * p.chunks() * p.inner);
        let (x, y) = (format!("{x} + {from}"), format!("{y} + {to}"));
        if chunks > 0 {
            text += &format!("{}\n", reduce(fold, f, (&x, &y), [chunks, p.chunk, p.inner]));
        }
        if rest > 0 {
            let (skip, done) = (chunks * p.chunk * p.inner, chunks * p.inner);
            let (x, y) = (format!("{x} + {skip}"), format!("{y} + {done}"));
            text += &format!("{}\n", reduce(fold, f, (&x, &y), [1, rest, p.inner]));
        }
    }
    Ok(Statement::plain(text.trim_end().to_string()))
}

/// √Σx² of several tensors, from the sum, or from the elements where the sum is out of range.
pub fn root_sum_squares(c: &Call<'_>, dtype: DType) -> Result<Statement, String> {
    let (p, t) = (Parts::from_words(c.words()), c_type(dtype)?);
    let f = t.tag;
    // The kernel's limit: less may have lost squares that underflowed.
    let (least, rounding) = match dtype {
        DType::F32 => (f64::from(f32::MIN_POSITIVE), f64::from(f32::EPSILON)),
        _ => (f64::MIN_POSITIVE, f64::EPSILON),
    };
    let enough = float(DType::F64, least / rounding * p.len as f64);
    let (sum, root) = (c.read(0, dtype)?, c.write(0, DType::F64)?);
    let (mut greatest, mut squares) = (String::new(), String::new());
    for i in 1..=p.tensors {
        let (x, len) = (c.read(i, dtype)?, c.reads()[i].len);
        greatest += &format!("    most = ag_greatest_{f}({x}, {len}, most);\n");
        squares += &format!("    sum = ag_scaled_squares_{f}({x}, {len}, most, sum);\n");
    }
    Ok(Statement::plain(format!(
        "if (ag_squares_fit_{f}({sum}[0], {enough})) {{\n    {root}[0] = (double)({})sqrt((double){sum}[0]);\n}} else \
         {{\n    double most = 0.0, sum = 0.0;\n{greatest}{squares}    {root}[0] = ag_scaled_root_{f}(most, sum);\n}}",
        t.name
    )))
}

/// log Σ eˣ.
pub fn logsumexp(c: &Call<'_>, dtype: DType) -> Result<Statement, String> {
    let (p, f) = (Reduce::from_words(c.words()), c_type(dtype)?.tag);
    if p.inner != 1 {
        return Err("C has log-sum-exp along the last axis only; transpose its operand".into());
    }
    let (x, y) = (c.read(0, dtype)?, c.write(0, dtype)?);
    Ok(Statement::plain(format!("ag_rows_logsumexp_{f}({x}, {}, {}, {y});", p.outer, p.n)))
}

/// The position of an extreme: `name` is `max` or `min`.
pub fn position(c: &Call<'_>, name: &str, dtype: DType, index: DType) -> Result<Statement, String> {
    let (p, f, i) = (Reduce::from_words(c.words()), c_type(dtype)?.tag, c_type(index)?.tag);
    let (x, y) = (c.read(0, dtype)?, c.write(0, index)?);
    Ok(Statement::plain(format!("ag_arg_{name}_{f}_{i}({x}, {}, {}, {}, {y});", p.outer, p.n, p.inner)))
}

/// Squared error and its gradient.
pub fn squared_error(c: &Call<'_>, dtype: DType) -> Result<Statement, String> {
    let (p, f) = (SquaredError::from_words(c.words()), c_type(dtype)?.tag);
    let (a, b) = (c.read(0, dtype)?, c.read(1, dtype)?);
    let (sums, d, w) = (c.write(0, dtype)?, c.write(1, dtype)?, float(dtype, p.weight));
    let units = p.units();
    let mut text = match units {
        1 => format!("{sums}[0] = ag_squared_error_{f}({a}, {b}, {}, {w}, {d});", p.len),
        _ => format!(
            "for (i = 0; i < {units}; i++)\n    {sums}[i] = ag_squared_error_{f}({a} + i * {c}, {b} + i * {c}, \
             {last} - i * {c} < {c} ? {last} - i * {c} : {c}, {w}, {d} + i * {c});",
            c = p.chunk,
            last = p.len
        ),
    };
    if p.divisor > 0 {
        text += &format!("\nag_divide_{f}({sums}, {units}, {});", float(dtype, p.divisor as f64));
    }
    Ok(Statement::plain(text))
}
