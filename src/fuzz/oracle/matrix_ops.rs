//! Factors of matrices and solves with triangles, by textbook loops.
//!
//! Factors and solves carry bounds through every operation. The error of an eigenvalue or a singular value is at most
//! the norm of the matrix's error (Weyl). The error of its vector is at most that norm over the gap to the next value
//! (Davis and Kahan, Wedin).

use super::array::{Array, count_elements};
use super::balls::{Ball, Balls, ONE, UNKNOWN, ZERO};
use super::oracle_node::OracleOps;
use super::rounding::Rounding;
use super::stop::Stop;
use crate::nodes::ops::linalg::attrs::{Singular, TriangularSolveAttrs};
use crate::nodes::{Attrs, DType, Op};

type Matrix = Vec<Vec<Ball>>;

/// Matrices of an array: its last two axes.
fn oracle_matrices_of(x: &Array) -> Vec<Matrix> {
    let [.., rows, cols] = x.dims[..] else { return Vec::new() };
    let ball = |i: usize| {
        let (x, b) = x.real(i);
        Ball { x, b }
    };
    let matrix = |m: usize| (0..rows).map(|r| (0..cols).map(|c| ball((m * rows + r) * cols + c)).collect()).collect();
    (0..count_elements(&x.dims[..x.dims.len() - 2])).map(matrix).collect()
}

fn oracle_matrices_of_balls(dtype: DType, dims: &[usize], all: impl Iterator<Item = Ball>) -> Array {
    Array::reals(dtype, dims, all.map(|b| (b.x, b.b)))
}

fn oracle_filled_matrix(m: usize, n: usize, with: Ball) -> Matrix {
    vec![vec![with; n]; m]
}

fn oracle_transposed_matrix(a: &Matrix, n: usize) -> Matrix {
    (0..n).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

/// Ops that factor matrices or solve with a triangle.
pub(super) const OPS: OracleOps = OracleOps {
    names: &["lu", "triangular_solve", "cholesky", "qr", "eigh", "svd"],
    run: |node| {
        let sweeps = if [Op::EIGH, Op::SVD].contains(&node.op) { 60 } else { 2 };
        let work = |a: &&Array| (a.len() as u64).saturating_mul(a.dims.iter().copied().max().unwrap_or(0) as u64);
        node.spend(node.args.iter().map(work).fold(0, u64::saturating_add).saturating_mul(sweeps))?;
        let (args, dims) = (node.args.clone(), node.dims.clone());
        apply_oracle_matrix_op(node.op, &node.attrs.clone(), &args, &dims, node.may_fault())
    },
};

/// The results of one of the ops, of shapes `dims`.
fn apply_oracle_matrix_op(
    op: Op,
    attrs: &Attrs<'_>,
    args: &[&Array],
    dims: &[Vec<usize>],
    may_fault: &mut bool,
) -> Result<Vec<Array>, Stop> {
    let (a, dtype) = (&args[0], args[0].dtype);
    let r = Rounding::of(dtype);
    let all = oracle_matrices_of(a);
    let [.., m, n] = a.dims[..] else { return Err(Stop::broken("a matrix has two axes")) };
    let floats =
        |i: usize, parts: Vec<Matrix>| oracle_matrices_of_balls(dtype, &dims[i], parts.into_iter().flatten().flatten());
    Ok(match op {
        Op::TRIANGULAR_SOLVE => {
            let attrs = TriangularSolveAttrs::of(attrs);
            vec![floats(0, oracle_solve_matrix_triangles(Balls(r), &attrs, [a, args[1]], &dims[0], may_fault)?)]
        }
        Op::CHOLESKY => {
            let one = |(i, a): (usize, &Matrix)| oracle_matrix_cholesky(Balls(r), i, a, may_fault);
            vec![floats(0, all.iter().enumerate().map(one).collect::<Result<_, _>>()?)]
        }
        Op::LU => {
            let done: Vec<_> = all.into_iter().map(|a| oracle_matrix_lu(Balls(r), a)).collect();
            let rows = done.iter().flat_map(|(_, rows, _)| rows.iter().copied());
            let rows = Array::wholes(DType::I32, &dims[1], rows);
            let signs = oracle_matrices_of_balls(dtype, &dims[2], done.iter().map(|d| d.2));
            vec![floats(0, done.into_iter().map(|d| d.0).collect()), rows, signs]
        }
        Op::QR => {
            let (q, r) = all.iter().map(|a| oracle_matrix_qr(Balls(r), a, m, n)).unzip();
            vec![floats(0, q), floats(1, r)]
        }
        Op::EIGH => {
            let (w, u) = all.iter().map(|a| oracle_matrix_eigh(r, a)).unzip::<_, _, Vec<_>, _>();
            vec![floats(0, w.into_iter().map(|w| vec![w]).collect()), floats(1, u)]
        }
        _ => {
            let done: Vec<_> = all.iter().map(|a| oracle_matrix_svd(r, a, m, n)).collect();
            let part = |f: fn(&(Matrix, Vec<Ball>, Matrix)) -> Matrix| done.iter().map(f).collect::<Vec<_>>();
            vec![
                floats(0, part(|d| d.0.clone())),
                floats(1, part(|d| vec![d.1.clone()])),
                floats(2, part(|d| d.2.clone())),
            ]
        }
    })
}

/// X of each system, where batch axes are broadcast.
fn oracle_solve_matrix_triangles(
    e: Balls,
    attrs: &TriangularSolveAttrs,
    [a, b]: [&Array; 2],
    to: &[usize],
    may_fault: &mut bool,
) -> Result<Vec<Matrix>, Stop> {
    let (left, right) = (oracle_matrices_of(a), oracle_matrices_of(b));
    let batch = &to[..to.len() - 2];
    let place = |x: &Array, mut m: usize| {
        let own = &x.dims[..x.dims.len() - 2];
        let (mut at, mut step) = (0, 1);
        for (k, &size) in batch.iter().enumerate().rev() {
            if let Some(axis) = (k + own.len()).checked_sub(batch.len()) {
                at += if own[axis] == 1 { 0 } else { m % size.max(1) * step };
                step *= own[axis];
            }
            m /= size.max(1);
        }
        at
    };
    let one = |m: usize| {
        oracle_solve_matrix_triangle(e, attrs, (place(a, m), &left[place(a, m)]), &right[place(b, m)], may_fault)
    };
    (0..count_elements(batch)).map(one).collect()
}

/// X of one system for this B; the matrix has this number.
fn oracle_solve_matrix_triangle(
    e: Balls,
    attrs: &TriangularSolveAttrs,
    (number, a): (usize, &Matrix),
    b: &Matrix,
    may_fault: &mut bool,
) -> Result<Matrix, Stop> {
    let (n, fault) = (a.len(), attrs.singular == Singular::Fault);
    let k = b.first().map_or(0, Vec::len);
    if n * k == 0 {
        return Ok(b.clone());
    }
    let pivots = || (0..n).map(|i| a[i][i]).filter(|_| !attrs.unit);
    if pivots().any(|p| p.b == 0.0 && (p.x == 0.0 || p.x.is_nan())) {
        let nan = Ball { x: f64::NAN, b: 0.0 };
        return if fault {
            Err(Stop::fault(format!("matrix {number} is singular")))
        } else {
            Ok(oracle_filled_matrix(n, k, nan))
        };
    }
    if pivots().any(|p| p.x.is_nan() || p.x.abs() <= p.b) {
        *may_fault |= fault;
        return Ok(oracle_filled_matrix(n, k, UNKNOWN));
    }
    let at = |i: usize, j: usize| if attrs.transpose { a[j][i] } else { a[i][j] };
    let upper = attrs.upper != attrs.transpose;
    let mut columns = oracle_transposed_matrix(b, k);
    for x in &mut columns {
        for step in 0..n {
            let i = if upper { n - 1 - step } else { step };
            let solved = if upper { i + 1..n } else { 0..i };
            let left = e.sum(x[i], -1.0, solved.map(|j| (at(i, j), x[j])));
            x[i] = if attrs.unit { left } else { e.over(left, a[i][i]) };
        }
    }
    Ok(oracle_transposed_matrix(&columns, n))
}

fn oracle_matrix_cholesky(e: Balls, number: usize, a: &Matrix, may_fault: &mut bool) -> Result<Matrix, Stop> {
    let n = a.len();
    let mut l = oracle_filled_matrix(n, n, ZERO);
    for i in 0..n {
        for j in 0..=i {
            let mean = e.times(e.sum(a[i][j], 1.0, std::iter::once((ONE, a[j][i]))), Ball { x: 0.5, b: 0.0 });
            let rest = e.sum(mean, -1.0, (0..j).map(|k| (l[i][k], l[j][k])));
            if j < i {
                l[i][j] = e.over(rest, l[j][j]);
            } else if rest.b == 0.0 && rest.x <= 0.0 || rest.x + rest.b <= 0.0 {
                return Err(Stop::fault(format!("matrix {number} is not positive definite")));
            } else if rest.x.is_nan() || rest.x <= rest.b {
                *may_fault = true;
                return Ok(oracle_filled_matrix(n, n, UNKNOWN));
            } else {
                l[i][i] = e.root(rest);
            }
        }
    }
    Ok(l)
}

/// Packed factors, rows and sign; all are unknown where a pivot is.
fn oracle_matrix_lu(e: Balls, mut a: Matrix) -> (Matrix, Vec<Option<i128>>, Ball) {
    let n = a.len();
    let mut rows: Vec<usize> = (0..n).collect();
    let mut sign = 1.0;
    let unknown = || (oracle_filled_matrix(n, n, UNKNOWN), vec![None; n], UNKNOWN);
    for j in 0..n {
        for i in 0..n {
            a[i][j] = e.sum(a[i][j], -1.0, (0..i.min(j)).map(|k| (a[i][k], a[k][j])));
        }
        let mut at = j;
        for i in j..n {
            if a[i][j].x.abs() > a[at][j].x.abs() {
                at = i;
            }
        }
        let pivot = a[at][j];
        let near = |x: Ball| x.x.abs() + x.b >= pivot.x.abs() - pivot.b && (x.b > 0.0 || pivot.b > 0.0);
        if !pivot.b.is_finite() || !pivot.x.is_finite() || (j..n).any(|i| i != at && near(a[i][j])) {
            return unknown();
        }
        if at != j {
            a.swap(at, j);
            rows.swap(at, j);
            sign = -sign;
        }
        if pivot.x == 0.0 && pivot.b == 0.0 {
            continue;
        }
        for row in &mut a[j + 1..] {
            row[j] = e.over(row[j], pivot);
        }
    }
    (a, rows.into_iter().map(|r| Some(r as i128)).collect(), Ball { x: sign, b: 0.0 })
}

/// Gives each number of a column the norm of the column's bounds. What a reflector rounds in one row, it spreads over
/// all.
fn oracle_spread_matrix_bounds<'a>(column: impl Iterator<Item = &'a mut Ball>, factor: f64) {
    let known: Vec<&mut Ball> = column.filter(|x| x.b.is_finite()).collect();
    let norm = known.iter().map(|x| x.b * x.b).sum::<f64>().sqrt();
    known.into_iter().for_each(|x| x.b = factor * norm);
}

/// Modified Gram-Schmidt. The columns of reflectors are at least as exact; the factor is for their other order.
fn oracle_matrix_qr(e: Balls, a: &Matrix, m: usize, n: usize) -> (Matrix, Matrix) {
    let k = m.min(n);
    let (mut q, mut r) = (Vec::<Vec<Ball>>::new(), oracle_filled_matrix(k, n, ZERO));
    for (j, mut v) in oracle_transposed_matrix(a, n).into_iter().enumerate() {
        for (i, q) in q.iter().enumerate() {
            r[i][j] = e.sum(ZERO, 1.0, q.iter().copied().zip(v.iter().copied()));
            for (v, q) in v.iter_mut().zip(q) {
                *v = e.sum(*v, -1.0, std::iter::once((r[i][j], *q)));
            }
        }
        if j < k {
            r[j][j] = e.root(e.sum(ZERO, 1.0, v.iter().map(|x| (*x, *x))));
            q.push(v.iter().map(|x| e.over(*x, r[j][j])).collect());
        }
    }
    let looser = 8.0 * (m + n) as f64;
    q.iter_mut().for_each(|column| oracle_spread_matrix_bounds(column.iter_mut(), looser));
    for j in 0..n {
        oracle_spread_matrix_bounds(r.iter_mut().take(j + 1).map(|row| &mut row[j]), looser);
    }
    (if m == 0 { Vec::new() } else { oracle_transposed_matrix(&q, m) }, r)
}

/// What a decomposition of `a` may be off by: the norm of its bounds, and rounding.
fn oracle_matrix_distance(r: Rounding, a: &Matrix) -> f64 {
    let norm = |f: fn(&Ball) -> f64| a.iter().flatten().map(|x| f(x) * f(x)).sum::<f64>().sqrt();
    let off = norm(|x| x.b) + 64.0 * (a.len() + 4) as f64 * (r.unit + f64::EPSILON) * norm(|x| x.x) + r.least;
    if off.is_finite() { off } else { f64::INFINITY }
}

/// −1 where the largest magnitude is negative, and whether it is known which one that is.
fn oracle_matrix_sign(x: &[f64], off: f64) -> (f64, bool) {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|&i, &j| x[j].abs().total_cmp(&x[i].abs()));
    let at = |i: usize| order.get(i).map_or(0.0, |&i| x[i]);
    (if at(0) < 0.0 { -1.0 } else { 1.0 }, at(0).abs() - at(1).abs() > 2.0 * off)
}

/// How far the vector of value `i` may turn, if `off` is small beside the gap to the other values.
fn oracle_matrix_turn(values: &[f64], i: usize, off: f64, floor: f64) -> f64 {
    let gaps = values.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, x)| (x - values[i]).abs());
    let gap = gaps.fold(floor, f64::min);
    if 8.0 * off < gap { 8.0 * off / gap } else { f64::INFINITY }
}

/// Rotations of pairs of rows of `w` until they are orthogonal. The same rotations of the identity.
fn oracle_rotate_matrix_until_orthogonal(w: &mut [Vec<f64>]) -> Vec<Vec<f64>> {
    let k = w.len();
    let mut turned: Vec<Vec<f64>> = (0..k).map(|i| (0..k).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    for _ in 0..60 {
        let mut moved = false;
        for (p, q) in (0..k).flat_map(|p| (p + 1..k).map(move |q| (p, q))) {
            let (a, b, both) = (dot(&w[p], &w[p]), dot(&w[q], &w[q]), dot(&w[p], &w[q]));
            if both.abs() <= 4.0 * f64::EPSILON * (a * b).sqrt() {
                continue;
            }
            moved = true;
            let angle = 0.5 * (2.0 * both).atan2(a - b);
            let (c, s) = (angle.cos(), angle.sin());
            for x in [&mut *w, &mut turned[..]] {
                for i in 0..x[p].len() {
                    let (y, z) = (x[p][i], x[q][i]);
                    (x[p][i], x[q][i]) = (c * y + s * z, c * z - s * y);
                }
            }
        }
        if !moved {
            break;
        }
    }
    turned
}

/// Eigenvalues of S + c·1 are its singular values, if c makes it positive.
fn oracle_matrix_eigh(r: Rounding, a: &Matrix) -> (Vec<Ball>, Matrix) {
    let (n, off) = (a.len(), 4.0 * oracle_matrix_distance(r, a));
    if n == 0 || off == f64::INFINITY {
        return (vec![UNKNOWN; n], oracle_filled_matrix(n, n, UNKNOWN));
    }
    let shift = 2.0 * a.iter().flatten().map(|x| x.x * x.x).sum::<f64>().sqrt();
    let part = |i: usize, j: usize| 0.5 * a[i][j].x + 0.5 * a[j][i].x + if i == j { shift } else { 0.0 };
    let mut w: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| part(i, j)).collect()).collect();
    let turned = oracle_rotate_matrix_until_orthogonal(&mut w);
    let value = |row: &Vec<f64>| row.iter().map(|x| x * x).sum::<f64>().sqrt() - shift;
    let mut all: Vec<(f64, &Vec<f64>)> = w.iter().map(value).zip(&turned).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let values: Vec<f64> = all.iter().map(|x| x.0).collect();
    let mut u = oracle_filled_matrix(n, n, UNKNOWN);
    for (j, (_, vector)) in all.iter().enumerate() {
        let b = oracle_matrix_turn(&values, j, off, f64::INFINITY);
        let (sign, known) = oracle_matrix_sign(vector, b);
        let b = if known { b + 64.0 * r.unit } else { f64::INFINITY };
        vector.iter().enumerate().for_each(|(i, x)| u[i][j] = Ball { x: sign * x, b });
    }
    (values.into_iter().map(|x| Ball { x, b: off }).collect(), u)
}

fn oracle_matrix_svd(r: Rounding, a: &Matrix, m: usize, n: usize) -> (Matrix, Vec<Ball>, Matrix) {
    let (k, off) = (m.min(n), oracle_matrix_distance(r, a));
    let (mut u, mut vt) = (oracle_filled_matrix(m, k, UNKNOWN), oracle_filled_matrix(k, n, UNKNOWN));
    if k == 0 || off == f64::INFINITY {
        return (u, vec![UNKNOWN; k], vt);
    }
    let rows = if m >= n { oracle_transposed_matrix(a, n) } else { a.clone() };
    let mut w: Vec<Vec<f64>> = rows.iter().map(|row| row.iter().map(|x| x.x).collect()).collect();
    let turned = oracle_rotate_matrix_until_orthogonal(&mut w);
    let length = |row: &Vec<f64>| row.iter().map(|x| x * x).sum::<f64>().sqrt();
    let mut all: Vec<(f64, &Vec<f64>, &Vec<f64>)> = w.iter().zip(&turned).map(|(w, t)| (length(w), w, t)).collect();
    all.sort_by(|x, y| y.0.total_cmp(&x.0));
    let values: Vec<f64> = all.iter().map(|x| x.0).collect();
    for (j, (s, long, short)) in all.into_iter().enumerate() {
        // A value near 0 has neighbours outside of the thin decomposition.
        let b = oracle_matrix_turn(&values, j, off, s);
        let long: Vec<f64> = long.iter().map(|x| x / s).collect();
        let (left, right) = if m >= n { (&long, short) } else { (short, &long) };
        let (sign, known) = oracle_matrix_sign(left, b);
        let b = if known { b + 64.0 * r.unit } else { f64::INFINITY };
        let ball = |x: &f64| if x.is_finite() { Ball { x: sign * x, b } } else { UNKNOWN };
        left.iter().enumerate().for_each(|(i, x)| u[i][j] = ball(x));
        right.iter().enumerate().for_each(|(i, x)| vt[j][i] = ball(x));
    }
    (u, values.into_iter().map(|x| Ball { x, b: off }).collect(), vt)
}
