//! Copies, fills and counters, and rows by their indices.

use crate::c_text::{c_type, number_of_bits};
use crate::call::{Call, Statement};
use arenagrad::graph::DType;
use arenagrad_kernels::copy::{Fill, Iota};
use arenagrad_kernels::index::Indexed;
use std::fmt::Write;

/// A copy of all bytes.
pub fn copy(c: &Call<'_>) -> Result<Statement, String> {
    let (x, y, n) = (c.read(0, DType::U8)?, c.write(0, DType::U8)?, c.writes().first().map_or(0, |o| o.bytes()));
    Ok(Statement::plain(format!("ag_copy({x}, {n}, {y});")))
}

/// Loops over `dims` around `body`, which reads the counters `i0`, `i1`, …
fn loops(dims: &[usize], body: &str) -> String {
    let names: Vec<String> = (0..dims.len()).map(|k| format!("i{k}")).collect();
    let mut text = format!("{{\n    size_t {};\n", names.join(", "));
    for (k, (name, dim)) in names.iter().zip(dims).enumerate() {
        let _ = writeln!(text, "{:1$}for ({name} = 0; {name} < {dim}; {name}++)", "", 4 * (k + 1));
    }
    let _ = write!(text, "{:1$}{body}\n}}", "", 4 * (dims.len() + 1));
    text
}

/// The row-major position of the counters in `dims`.
fn position(dims: &[usize]) -> String {
    let nested = (1..dims.len()).fold("i0".to_string(), |at, k| format!("({at} * {} + i{k})", dims[k]));
    if dims.is_empty() { "0".into() } else { nested }
}

/// A strided copy: transpose, broadcast, slice, flip.
pub fn strided(c: &Call<'_>) -> Result<Statement, String> {
    let [_rank, base, axes @ ..] = c.words() else { return Err("a copy without its view".into()) };
    let (mut dims, mut from) = (Vec::new(), (*base as i64).to_string());
    for (k, axis) in axes.chunks_exact(2).enumerate() {
        dims.push(axis[0] as usize);
        match axis[1] as i64 {
            0 => {}
            1 => from += &format!(" + (ptrdiff_t)i{k}"),
            stride => from += &format!(" + (ptrdiff_t)i{k} * {stride}"),
        }
    }
    if dims.contains(&0) {
        return Ok(Statement::plain(String::new()));
    }
    let t = c.moved()?;
    let (x, y) = (c.read(0, t)?, c.write(0, t)?);
    Ok(Statement::plain(loops(&dims, &format!("{y}[{}] = {x}[{from}];", position(&dims)))))
}

/// Concatenation: each source is a column of blocks.
pub fn concat(c: &Call<'_>) -> Result<Statement, String> {
    let widths = c.words();
    let row: u64 = widths.iter().sum();
    let outer = c.writes().first().map_or(0, |o| o.len as u64) / row.max(1);
    let t = c.moved()?;
    let (tag, y, mut at, mut lines) = (c_type(t)?.tag, c.write(0, t)?, 0, Vec::new());
    for (i, width) in widths.iter().enumerate().filter(|(_, w)| **w > 0) {
        let x = c.read(i, t)?;
        lines.push(format!("for (i = 0; i < {outer}; i++)"));
        lines.push(format!("    ag_words_{tag}({x} + i * {width}, {width}, {y} + i * {row} + {at});"));
        at += width;
    }
    Ok(Statement::plain(lines.join("\n")))
}

/// Padding with a constant.
pub fn pad(c: &Call<'_>) -> Result<Statement, String> {
    let [_rank, value, axes @ ..] = c.words() else { return Err("a pad without its axes".into()) };
    let t = c.moved()?;
    let (tag, x, y, len) = (c_type(t)?.tag, c.read(0, t)?, c.write(0, t)?, c.writes().first().map_or(0, |o| o.len));
    let mut text = format!("ag_fill_{tag}({}, {len}, {y});", number_of_bits(t, *value)?);
    let axes: Vec<[usize; 3]> = axes.chunks_exact(3).map(|a| [a[0] as usize, a[1] as usize, a[2] as usize]).collect();
    let dims: Vec<usize> = axes.iter().map(|a| a[1]).collect();
    if dims.contains(&0) {
        return Ok(Statement::plain(text));
    }
    let to = axes.iter().enumerate().fold(String::new(), |at, (k, [low, _, out])| match k {
        0 => format!("(i0 + {low})"),
        _ => format!("({at} * {out} + i{k} + {low})"),
    });
    let _ = write!(text, "\n{}", loops(&dims, &format!("{y}[{to}] = {x}[{}];", position(&dims))));
    Ok(Statement::plain(text))
}

/// One value everywhere.
pub fn fill(c: &Call<'_>) -> Result<Statement, String> {
    let p = Fill::from_words(c.words());
    let t = c.moved()?;
    let (tag, value) = (c_type(t)?.tag, number_of_bits(t, p.value)?);
    Ok(Statement::plain(format!("ag_fill_{tag}({value}, {}, {});", p.len, c.write(0, t)?)))
}

/// The position along an axis.
pub fn iota(c: &Call<'_>, dtype: DType) -> Result<Statement, String> {
    let p = Iota::from_words(c.words());
    let (name, y) = (c_type(dtype)?.name, c.write(0, dtype)?);
    let dims = [p.outer, p.n, p.inner];
    Ok(Statement::plain(loops(&dims, &format!("{y}[{}] = ({name})i1;", position(&dims)))))
}

/// Rows or elements by index: `name` is `gather` or `take`.
pub fn gather(c: &Call<'_>, name: &str, index: DType) -> Result<Statement, String> {
    let p = Indexed::from_words(c.words());
    let t = c.moved()?;
    let (tag, x, at, y) = (c_type(t)?.tag, c.read(0, t)?, c.read(1, index)?, c.write(0, t)?);
    let sizes = format!("{}, {}, {}, {}", p.outer, p.n, p.k, p.inner);
    Ok(Statement::check(format!("ag_{name}_{tag}_{}({x}, {at}, {sizes}, {y})", c_type(index)?.tag)))
}

/// Sums at indices: `name` is `scatter_add` or `scatter_along`.
pub fn scatter(c: &Call<'_>, name: &str, dtype: DType, index: DType) -> Result<Statement, String> {
    let (p, f) = (Indexed::from_words(c.words()), c_type(dtype)?.tag);
    let (x, at, y) = (c.read(0, dtype)?, c.read(1, index)?, c.write(0, dtype)?);
    let sizes = format!("{}, {}, {}, {}", p.outer, p.n, p.k, p.inner);
    Ok(Statement::check(format!("ag_{name}_{f}_{}({x}, {at}, {sizes}, {y})", c_type(index)?.tag)))
}
