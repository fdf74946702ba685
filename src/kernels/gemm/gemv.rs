//! Products of a vector and a matrix: m = 1, or n = 1 as its transpose.
//!
//! If the matrix is contiguous along the result, sums are the chains of `register_tile`. If it is contiguous along k,
//! they are the dot products of `dots`. The descriptor alone decides between the two.
//!
//! In a step with a batch of one, a product of a row and a matrix takes some tens of nanoseconds. Reading the whole
//! descriptor would cost a noticeable share of that. So products with a method ([`choose_method`]) have a kernel that
//! reads only what they need (see [`gemm_kernel::gemm_kernel`](super::gemm_kernel::gemm_kernel)).

use super::act_fn::{act_fn, act_grad_fn};
use super::epilogue::epilogue_add_row;
use super::gemm_desc::Gemm;
use super::gemm_float::GemmFloat;
use super::operands::{Dots, Operands, RegisterTileOperands};
use super::outer_product;
use super::pack_block::{Block, pack_block};
use crate::abi::MatrixMut;
use crate::simd::Token;

/// How to compute y = x · M for a vector x `[k]` and a matrix M `[k, n]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemv {
    k: usize,
    x_step: usize,
    k_step: usize,
    n_step: usize,
    dot: bool,
    /// Whether the vector is B, so that the product is transposed.
    flip: bool,
}

impl Gemv {
    /// That of a product with a vector whose matrix needs no packing.
    #[inline]
    pub fn new(g: &Gemm) -> Option<Gemv> {
        let v = match (g.m, g.n) {
            _ if outer_product::can_compute(g) => return None,
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

    /// Whether each element is a dot product in the order of `dots`, else a chain.
    pub fn sums_by_lanes(&self) -> bool {
        self.dot
    }

    /// Elements of scratch of each thread.
    pub fn scratch(&self) -> usize {
        if self.dot && self.x_step != 1 { self.k } else { 0 }
    }

    /// Computes some elements of y. The matrix operand begins at the first of them.
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
            pack_block(
                token,
                Block { src: x, outer_step: 0, inner_step: self.x_step, outer: 1, inner: self.k },
                to,
                self.k,
            );
            to
        };
        let (k, n) = (self.k, out.len());
        T::dots(token, Dots { x, x_step: k, k, rows: m, step: self.n_step, out: MatrixMut::new(out, 1, n), add });
    }

    fn chains<T: GemmFloat>(&self, token: Token, x: &[T], m: &[T], out: &mut [T], add: bool) {
        let mut j = 0;
        while j < out.len() {
            let cols = T::width(token, 1, out.len() - j);
            let t = RegisterTileOperands {
                a: x,
                a_row: 0,
                a_col: self.x_step,
                b: &m[j..],
                b_row: self.k_step,
                k: self.k,
                c: MatrixMut::new(&mut out[j..], 1, cols),
                add,
                prefetch_c: false,
                prefetch: None,
                step: None,
            };
            T::tile(token, t);
            j += cols;
        }
    }
}

/// How to compute a product that is just a row times a matrix: no batch, no old C. The bf16 engine computes none of
/// these.
#[inline]
pub fn choose_method(g: &Gemm) -> Option<Gemv> {
    if g.m == 1 && g.k > 0 && !g.accumulate && g.batch().is_empty() { Gemv::new(g) } else { None }
}

/// Computes the elements `c` of such a product, from column `from` on, with its epilogue. The operands are whole.
#[inline]
pub fn compute_elements<T: GemmFloat>(
    g: &Gemm,
    gemv: Gemv,
    o: Operands<'_, T>,
    from: usize,
    c: &mut [T],
    scratch: &mut [T],
) {
    assert_eq!(o.third.is_some(), g.third(), "the operands do not match the descriptor");
    // Without columns, the row may be an empty slice.
    if c.is_empty() {
        return;
    }
    gemv.product(Token::current(), (o.a, &o.b[from.saturating_mul(g.b.col)..]), c, false, scratch);
    if let Some(third) = o.third {
        let third = &third[from..from + c.len()];
        match act_grad_fn(g.act) {
            Some(act_grad) => act_grad(c, third),
            None => epilogue_add_row(c, third),
        }
    }
    if let Some(act) = act_fn(g.act) {
        act(c);
    }
}
