//! Products with a vector (m = 1, and n = 1 read as its transpose), with a few rows, and of a column by a row.
//!
//! Where the matrix is contiguous along the result, sums are the chains of `tile`; where it is contiguous along k
//! they are the dot products of `order`. Which one follows from the descriptor alone. Only `mod.rs` and `desc` call this.

use super::blocked::MANY_ROWS;
use super::desc::Gemm;
use super::epilogue::Descent;
use super::float::GemmFloat;
use super::operands::{Dots, Tile};
use super::pack::{Block, pack};
use super::turned;
use crate::kernels::abi::Panel;
use crate::kernels::simd::Token;

/// A product y = x · M for a vector x of k and a matrix M of k × n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vector {
    k: usize,
    x_step: usize,
    k_step: usize,
    n_step: usize,
    dot: bool,
    /// Whether the vector is B (the transposed product).
    flip: bool,
}

impl Vector {
    /// The vector form of a product, if it has one that needs no packed matrix.
    #[inline]
    pub fn new(g: &Gemm) -> Option<Vector> {
        let v = match (g.m, g.n) {
            _ if by_outer(g) => return None,
            (1, _) => Vector::of(g.k, g.a.col, g.b.row, g.b.col, g.n, false),
            (_, 1) => Vector::of(g.k, g.b.row, g.a.col, g.a.row, g.m, true),
            _ => return None,
        };
        (v.dot || v.n_step == 1).then_some(v)
    }

    #[inline]
    fn of(k: usize, x_step: usize, k_step: usize, n_step: usize, n: usize, flip: bool) -> Vector {
        let dot = k_step == 1 && k > 1 && (n_step != 1 || n == 1);
        Vector { k, x_step, k_step, n_step: if n == 1 && !dot { 1 } else { n_step }, dot, flip }
    }

    /// Elements of scratch that `product` needs.
    pub fn scratch(&self) -> usize {
        if self.dot && self.x_step != 1 { self.k } else { 0 }
    }

    /// Computes some elements of y; the matrix begins with what the first of them needs.
    pub fn product<T: GemmFloat>(
        &self,
        token: Token,
        (a, b): (&[T], &[T]),
        out: &mut [T],
        add: bool,
        scratch: &mut [T],
    ) {
        let (x, m) = if self.flip { (b, a) } else { (a, b) };
        if self.dot { self.dots(token, x, m, out, add, scratch) } else { self.chains(token, x, m, out, add) }
    }

    fn dots<T: GemmFloat>(&self, token: Token, x: &[T], m: &[T], out: &mut [T], add: bool, scratch: &mut [T]) {
        let x = if self.x_step == 1 {
            &x[..self.k]
        } else {
            let to = &mut scratch[..self.k];
            pack(token, Block { src: x, outer_step: 0, inner_step: self.x_step, outer: 1, inner: self.k }, to, self.k);
            to
        };
        let (k, n) = (self.k, out.len());
        T::dots(token, Dots { x, x_step: k, k, rows: m, step: self.n_step, out: Panel::new(out, 1, n), add });
    }

    fn chains<T: GemmFloat>(&self, token: Token, x: &[T], m: &[T], out: &mut [T], add: bool) {
        let mut j = 0;
        while j < out.len() {
            let cols = T::width(token, 1, out.len() - j);
            let t = Tile {
                a: x,
                a_row: 0,
                a_col: self.x_step,
                b: &m[j..],
                b_row: self.k_step,
                k: self.k,
                c: Panel::new(&mut out[j..], 1, cols),
                add,
                ahead: false,
                fetch: None,
                step: None,
            };
            T::tile(token, t);
            j += cols;
        }
    }
}

/// Fewest terms of a sum, for each row of A, from which folding the lanes of a dot product costs less than packing B:
/// folding 24 sums takes about 60 cycles, packing an element 0.25.
const LONG: usize = 13;

/// Columns of C that leave most lanes of a tile idle.
const NARROW: usize = 16;

/// Whether C = A · B is dot products: few rows of A, and both operands contiguous along k, so that packing B would cost
/// as much as the sums; and nothing that is turned.
pub fn by_dots(g: &Gemm) -> bool {
    let cheap = g.k >= LONG * g.m || (g.n <= NARROW && g.k >= 64);
    (2..MANY_ROWS).contains(&g.m)
        && g.n > 1
        && cheap
        && g.a.col == 1
        && g.b.row == 1
        && g.b.col >= g.k
        && !turned::fits(g)
}

/// Whether C = A · B is a column by a row: then sums have one term, and tiles would cost more than they do.
#[inline]
pub fn by_outer(g: &Gemm) -> bool {
    g.k == 1 && !g.accumulate && g.m > 1 && (g.n == 1 || g.b.col == 1)
}

/// Elements that loops over rows take together: whole vectors on every instruction set.
const TOGETHER: usize = 16;

/// `row[j] = each(row[j], x · y[j])` for slices of one length, with the bits of fma(x, y, 0), which makes +0 of −0.
#[inline(always)]
fn along<T: GemmFloat>(row: &mut [T], x: T, y: &[T], each: impl Fn(T, T) -> T) {
    let ((wide, rest), (y_wide, y_rest)) = (row.as_chunks_mut::<TOGETHER>(), y.as_chunks::<TOGETHER>());
    for (c, y) in wide.iter_mut().zip(y_wide) {
        for (c, y) in c.iter_mut().zip(y) {
            *c = each(*c, x * *y + T::ZERO);
        }
    }
    for (c, y) in rest.iter_mut().zip(y_rest) {
        *c = each(*c, x * *y + T::ZERO);
    }
}

/// `c[i][j] = each(c[i][j], a[i] · b[j])`, of some rows; a lone column lies as a row does.
#[inline(always)]
fn each_outer<T: GemmFloat>((a, a_row): (&[T], usize), b: &[T], c: &mut [T], each: impl Fn(T, T) -> T) {
    if let ([x], 1) = (b, a_row) {
        return along(c, *x, &a[..c.len()], each);
    }
    // Loops, not closures for each: those would be calls, compiled for no instruction set.
    for (c, x) in c.chunks_exact_mut(b.len()).zip(a.iter().step_by(a_row.max(1))) {
        along(c, *x, b, &each);
    }
}

crate::simd! {
    /// Computes some rows of a product that [`by_outer`] names, or takes a step by it. The columns of `b` are those of C,
    /// `a_row` is the distance between rows of A.
    pub fn outer[T: GemmFloat](a: &[T], a_row: usize, b: &[T], c: &mut [T], step: Option<Descent<T>>) {
        match step {
            None => each_outer((a, a_row), b, c, |_, product| product),
            Some(step) => each_outer((a, a_row), b, c, |c, product| step.apply(c, product)),
        }
    }
}

/// Computes some rows and columns of a product that [`by_dots`] names.
pub fn dots<T: GemmFloat>(token: Token, g: &Gemm, (a, b): (&[T], &[T]), c: Panel<'_, T>) {
    T::dots(token, Dots { x: a, x_step: g.a.row, k: g.k, rows: b, step: g.b.col, out: c, add: g.accumulate });
}
