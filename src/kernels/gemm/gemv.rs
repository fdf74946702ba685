//! Products with a vector: m = 1, and n = 1 read as its transpose.
//!
//! Where the matrix is contiguous along the result, sums are the chains of `tile`; where it is contiguous along k
//! they are the dot products of `dots`. Which one follows from the descriptor alone. A row by a matrix, which a step
//! with a batch of one consists of, takes some tens of nanoseconds, so that looking at all that a descriptor can say
//! would be felt: it has a kernel of its own, chosen when the instruction is made, with the operands, params and bits
//! of [`run`]. Only `mod.rs` and `algorithm` call this.

use super::desc::Gemm;
use super::epilogue::{act_fn, act_grad_fn, add_row};
use super::float::GemmFloat;
use super::operands::{Dots, Tile};
use super::outer;
use super::pack::{Block, pack};
use crate::kernels::abi::MatrixMut;
use crate::kernels::simd::Token;

/// How a product y = x · M for a vector x of k and a matrix M of k × n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemv {
    k: usize,
    x_step: usize,
    k_step: usize,
    n_step: usize,
    dot: bool,
    /// Whether the vector is B (the transposed product).
    flip: bool,
}

impl Gemv {
    /// That of a product, if it has one that needs no packed matrix.
    #[inline]
    pub fn new(g: &Gemm) -> Option<Gemv> {
        let v = match (g.m, g.n) {
            _ if outer::fits(g) => return None,
            (1, _) => Gemv::of(g.k, g.a.col, g.b.row, g.b.col, g.n, false),
            (_, 1) => Gemv::of(g.k, g.b.row, g.a.col, g.a.row, g.m, true),
            _ => return None,
        };
        (v.dot || v.n_step == 1).then_some(v)
    }

    #[inline]
    fn of(k: usize, x_step: usize, k_step: usize, n_step: usize, n: usize, flip: bool) -> Gemv {
        let dot = k_step == 1 && k > 1 && (n_step != 1 || n == 1);
        Gemv { k, x_step, k_step, n_step: if n == 1 && !dot { 1 } else { n_step }, dot, flip }
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
        T::dots(token, Dots { x, x_step: k, k, rows: m, step: self.n_step, out: MatrixMut::new(out, 1, n), add });
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
                c: MatrixMut::new(&mut out[j..], 1, cols),
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

/// How a row is multiplied by a matrix, if that is all that the product is. No bf16 units compute it.
#[inline]
pub fn is_gemv(g: &Gemm) -> Option<Gemv> {
    if g.m == 1 && g.k > 0 && !g.accumulate && g.batch().is_empty() { Gemv::new(g) } else { None }
}

/// Elements of the product of a row, those of `c`, from column `from` on; the operands are whole.
#[inline]
pub fn row<T: GemmFloat>(
    g: &Gemm,
    gemv: Gemv,
    (a, b, third): (&[T], &[T], Option<&[T]>),
    from: usize,
    c: &mut [T],
    scratch: &mut [T],
) {
    assert_eq!(third.is_some(), g.third(), "the operands do not match the descriptor");
    gemv.product(Token::current(), (a, &b[from * g.b.col..]), c, false, scratch);
    if let Some(third) = third {
        let third = &third[from..from + c.len()];
        match act_grad_fn(g.act) {
            Some(act_grad) => act_grad(c, third),
            None => add_row(c, third),
        }
    }
    if let Some(act) = act_fn(g.act) {
        act(c);
    }
}
