//! Attention by blocks: softmax(q·kᵀ)·v and its adjoint, without a matrix of queries × keys in memory.
//!
//! The forward kernel keeps, for a block of queries, the largest score and the sum of exponentials so far while it
//! walks over blocks of keys (Milakov and Gimelshein, "Online normalizer calculation for softmax"; Dao et al.,
//! "FlashAttention"). The backward kernel makes the probabilities again from the saved log-sum-exp.
//!
//! Invariant: blocks of keys start at multiples of [`BLOCK_KEYS`] and units follow from the shape, so the order of
//! every sum does too. A key that a mask hides is skipped, never multiplied by zero; a query that sees no key gets
//! zeros and a log-sum-exp of −∞. Only lowering calls this.

mod backward;
mod drop;
mod forward;
mod pack;
mod rows;

pub use backward::{backward, backward_keys, backward_queries};
pub use forward::forward;
pub use pack::pack;

use crate::kernels::gemm::{Gemm, GemmFloat, Strides};
use crate::kernels::params::params;
use crate::kernels::{num, vmath};
use std::ops::Range;

/// Most queries in a block.
pub const BLOCK_QUERIES: usize = 64;
/// Keys in a block: a block of scores and one of their gradients stay in the second-level cache.
pub const BLOCK_KEYS: usize = 128;
/// Queries that are worked on at a time where they see few keys, each more than the last.
const FEW_QUERIES: usize = 32;
/// Queries in a unit of [`backward_queries`]: keys are transposed once for all of them.
pub const CHUNK_QUERIES: usize = 4 * BLOCK_QUERIES;
/// Pieces of scratch are multiples of this many elements.
const PAD: usize = 16;

/// `f32` or `f64`.
pub trait Element: num::Real + vmath::Real + GemmFloat {
    /// A chunk of zeros, one of ones, and one of zeros: any chunk of it is a mask of the first or the last keys.
    const EDGES: [Self; 3 * rows::CHUNK];
}

macro_rules! element {
    ($($t:ident)*) => {$(
        impl Element for $t {
            const EDGES: [$t; 3 * rows::CHUNK] = {
                let mut edges = [0.0; 3 * rows::CHUNK];
                let mut i = rows::CHUNK;
                while i < 2 * rows::CHUNK {
                    edges[i] = 1.0;
                    i += 1;
                }
                edges
            };
        }
    )*};
}

element! { f32 f64 }

params! {
    /// Params of both kernels.
    ///
    /// q is `[batch, heads, queries, width]`, k `[batch, kv_heads, keys, width]`, v `[batch, kv_heads, keys,
    /// value_width]`, y `[batch, heads, queries, value_width]`, or all of them with the middle axes exchanged. Packed,
    /// q, k and v are one operand, `[batch, queries, heads·width + kv_heads·(width + value_width)]`, which is read
    /// three times.
    pub struct Attention {
        /// Sequences.
        pub batch: usize,
        /// Heads of q.
        pub heads: usize,
        /// Heads of k and v; it divides `heads`, and neighbouring heads of q share one.
        pub kv_heads: usize,
        /// Length of q.
        pub queries: usize,
        /// Length of k and v.
        pub keys: usize,
        /// Head width of q and k.
        pub width: usize,
        /// Head width of v and y.
        pub value_width: usize,
        /// Whether the sequence axis stands before that of heads.
        pub seq_major: bool,
        /// Whether q, k and v lie side by side in rows of one operand.
        pub packed: bool,
        /// Whether a query sees no later key: of `i`, aligned at the ends, the last is `i + keys − queries`.
        pub causal: bool,
        /// Earlier keys that a causal query sees; the greatest number for all.
        pub window: usize,
        /// What scores are multiplied by.
        pub scale: f64,
        /// Scores become `cap·tanh(score / cap)`; 0 for none.
        pub cap: f64,
        /// Whether there is a mask of keys, `[batch, keys]`.
        pub padding: bool,
        /// Whether that mask is of bytes, not floats.
        pub bytes: bool,
        /// Whether there is a bias.
        pub bias: bool,
        /// Elements of the bias from one sequence to the next; 0 repeats.
        pub bias_batch: usize,
        /// Elements of the bias from one head to the next; 0 repeats.
        pub bias_head: usize,
        /// Whether the log-sum-exp has a gradient too (backward only).
        pub dlse: bool,
        /// The part of the probabilities that is dropped; if it is not 0, the random key is the last operand.
        pub drop: f64,
        /// Tells the draws of one op from those of another.
        pub stream: u64,
    }
}

/// The rows of one head in a tensor: where the first begins, and how far they are apart.
#[derive(Clone, Copy)]
struct Rows {
    at: usize,
    step: usize,
}

impl Rows {
    /// Where row `i` begins.
    fn row(self, i: usize) -> usize {
        self.at + i * self.step
    }
}

impl Attention {
    fn rows(&self, b: usize, h: usize, heads: usize, len: usize, width: usize) -> Rows {
        if self.seq_major {
            return Rows { at: (b * len * heads + h) * width, step: heads * width };
        }
        Rows { at: (b * heads + h) * len * width, step: width }
    }

    /// Rows of a head that begins at column `column` of packed q, k and v.
    fn packed_rows(&self, b: usize, column: usize) -> Rows {
        let step = self.packed_row();
        Rows { at: b * self.queries * step + column, step }
    }

    /// Rows of q.
    fn q(&self, b: usize, h: usize) -> Rows {
        if self.packed {
            return self.packed_rows(b, h * self.width);
        }
        self.rows(b, h, self.heads, self.queries, self.width)
    }

    /// Rows of y and its gradient.
    fn y(&self, b: usize, h: usize) -> Rows {
        self.rows(b, h, self.heads, self.queries, self.value_width)
    }

    /// Rows of k, by its own head.
    fn k(&self, b: usize, kv: usize) -> Rows {
        if self.packed {
            return self.packed_rows(b, (self.heads + kv) * self.width);
        }
        self.rows(b, kv, self.kv_heads, self.keys, self.width)
    }

    /// Rows of v, by its own head.
    fn v(&self, b: usize, kv: usize) -> Rows {
        if self.packed {
            return self.packed_rows(b, (self.heads + self.kv_heads) * self.width + kv * self.value_width);
        }
        self.rows(b, kv, self.kv_heads, self.keys, self.value_width)
    }

    /// Heads of q that share one of k.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads.max(1)
    }

    /// Where a probability stands among all, `[batch, heads, queries, keys]`.
    fn place(&self, (b, h, i): (usize, usize, usize), key: usize) -> usize {
        ((b * self.heads + h) * self.queries + i) * self.keys + key
    }

    /// The keys that query `i` may see. Both ends grow with `i`.
    fn visible(&self, i: usize) -> Range<usize> {
        if !self.causal {
            return 0..self.keys;
        }
        let end = (i + 1 + self.keys).saturating_sub(self.queries);
        end.saturating_sub(1).saturating_sub(self.window)..end
    }

    /// Rows of y in a unit of the forward kernel, one head's or, with the sequence before heads, all heads'. Where some
    /// number of rows near [`BLOCK_QUERIES`] divides the queries, no unit has rows of two heads.
    fn rows_per_unit(&self) -> usize {
        let all = self.outer() * self.queries;
        let fits = |r: &usize| self.queries.is_multiple_of(*r);
        let even = (BLOCK_QUERIES / 2..=BLOCK_QUERIES).rev().find(fits).unwrap_or(BLOCK_QUERIES);
        even.min(all).max(1)
    }

    /// Sequences of rows: one for each head, or one for all heads together.
    fn outer(&self) -> usize {
        if self.seq_major { self.batch } else { self.batch * self.heads }
    }

    /// Heads that a row of a unit holds.
    fn heads_per_row(&self) -> usize {
        if self.seq_major { self.heads } else { 1 }
    }

    /// Units of the forward kernel.
    pub fn units(&self) -> usize {
        (self.outer() * self.queries).div_ceil(self.rows_per_unit())
    }

    /// Elements of y in a unit.
    pub fn per_unit(&self) -> usize {
        self.stats_per_unit() * self.value_width
    }

    /// Elements of the log-sum-exp in a unit. It lies as y does, without the last axis.
    pub fn stats_per_unit(&self) -> usize {
        self.rows_per_unit() * self.heads_per_row()
    }

    /// Units of the backward kernel: one for each sequence and head of k. It owns the gradients of that head and of all
    /// heads of q that share it, so no two threads add to one sum.
    pub fn backward_units(&self) -> usize {
        self.batch * self.kv_heads
    }

    /// Units of [`backward_keys`] and of [`backward_queries`], if their results can be divided so: no unit may have
    /// elements of two heads.
    pub fn fine_units(&self) -> Option<[usize; 2]> {
        let even = |heads: usize, len: usize, unit: usize| heads == 1 || len.is_multiple_of(unit);
        let (kv, heads) = (self.batch * self.kv_heads, self.batch * self.heads);
        let fits = even(kv, self.keys, BLOCK_KEYS) && even(heads, self.queries, CHUNK_QUERIES);
        fits.then(|| [kv * self.keys.div_ceil(BLOCK_KEYS), heads * self.queries.div_ceil(CHUNK_QUERIES)])
    }

    /// Keys in a block.
    fn block_keys(&self) -> usize {
        BLOCK_KEYS.min(self.keys)
    }

    /// Queries in a block. Where later ones see more keys, and keys are few, smaller blocks leave out more products.
    fn block_queries(&self) -> usize {
        if self.causal && self.keys <= BLOCK_KEYS { FEW_QUERIES } else { BLOCK_QUERIES }
    }

    /// How many keys of a block, those from `j` on, are multiplied with queries that see none from `end` on.
    fn keys_before(&self, j: usize, end: usize) -> usize {
        let seen = end.saturating_sub(j).next_multiple_of(rows::CHUNK);
        seen.min(BLOCK_KEYS).min(self.keys - j)
    }

    /// The products of `m` queries with `n` keys in the forward kernel: scores, and values.
    fn forward_products(&self, m: usize, n: usize) -> [Gemm; 2] {
        let (q, k, v) = (self.q(0, 0).step, self.k(0, 0).step, self.v(0, 0).step);
        let scores = Gemm::new(m, n, self.width).with_strides(down(q), Strides { row: 1, col: k });
        let values = Gemm::new(m, self.value_width, n).with_strides(down(n), down(v));
        [scores, Gemm { accumulate: true, ..values }]
    }

    /// The products of `m` queries with `n` keys in the backward kernel: scores and gradients of probabilities (keys
    /// and values are transposed there, `lines` in a block), then the gradients of v, q and k.
    fn backward_products(&self, m: usize, n: usize, lines: usize) -> [Gemm; 5] {
        let (q, k, y) = (self.q(0, 0).step, self.k(0, 0).step, self.y(0, 0).step);
        let (w, vw, across) = (self.width, self.value_width, Strides { row: 1, col: n });
        let dv = Gemm::new(n, vw, m).with_strides(across, down(y));
        let dq = Gemm::new(m, w, n).with_strides(down(n), down(k));
        let dk = Gemm::new(n, w, m).with_strides(across, down(q));
        [
            Gemm::new(m, n, w).with_strides(down(q), down(lines)),
            Gemm::new(m, n, vw).with_strides(down(y), down(lines)),
            Gemm { accumulate: true, ..dv },
            Gemm { accumulate: true, ..dq },
            Gemm { accumulate: true, ..dk },
        ]
    }

    /// Numbers of keys that are multiplied at a time.
    fn key_counts(&self) -> impl Iterator<Item = usize> + use<> {
        let (most, last) = (self.block_keys(), self.keys % BLOCK_KEYS);
        let fewer = if self.causal { 1..BLOCK_KEYS / rows::CHUNK } else { 0..0 };
        fewer.map(|c| c * rows::CHUNK).filter(move |&n| n < most).chain([most, last])
    }

    /// Pieces of the forward kernel's scratch: scores, values so far, largest scores, sums, keys that count. Behind
    /// them is that of products.
    fn forward_pieces(&self) -> [usize; 5] {
        let (m, n) = (self.rows_per_unit(), self.block_keys());
        [m * n, m * self.value_width, m, m, n].map(|x| x.next_multiple_of(PAD))
    }

    /// Elements of scratch that a lane of the forward kernel needs.
    pub fn forward_scratch<T: Element>(&self) -> usize {
        let most = self.rows_per_unit().min(self.block_queries());
        let sizes = (1..=most).flat_map(|m| self.key_counts().map(move |n| self.forward_products(m, n)));
        let product = sizes.flatten().map(|g| g.scratch_len::<T>()).max().unwrap_or(0);
        self.forward_pieces().iter().sum::<usize>() + product.next_multiple_of(PAD)
    }

    /// Pieces of the backward kernel's scratch: scores, their gradients, keys and values transposed, Σ dy·y of each
    /// row, keys that count. Behind them is that of products.
    fn backward_pieces(&self) -> [usize; 6] {
        let (m, n) = (self.block_queries(), self.block_keys());
        let deltas = self.group() * self.queries;
        [m * n, m * n, self.width * n, self.value_width * n, deltas, n].map(|x| x.next_multiple_of(PAD))
    }

    /// Elements of scratch that a lane of the backward kernel needs.
    pub fn backward_scratch<T: Element>(&self) -> usize {
        let most = self.block_queries();
        let rows = [most.min(self.queries), self.queries % most];
        // How products are packed depends on strides, too.
        let lines = [self.block_keys(), self.keys % BLOCK_KEYS];
        let counts = || self.key_counts().flat_map(|n| lines.into_iter().chain([n]).map(move |lines| (n, lines)));
        let sizes = rows.into_iter().flat_map(|m| counts().map(move |(n, lines)| self.backward_products(m, n, lines)));
        let product = sizes.flatten().map(|g| g.scratch_len::<T>()).max().unwrap_or(0);
        self.backward_pieces().iter().sum::<usize>() + product.next_multiple_of(PAD)
    }
}

/// Rows `step` apart.
fn down(step: usize) -> Strides {
    Strides { row: step, col: 1 }
}

/// Cuts scratch into pieces, and what is behind them.
fn cut<T, const N: usize>(mut scratch: &mut [T], pieces: [usize; N]) -> ([&mut [T]; N], &mut [T]) {
    let pieces = pieces.map(|len| {
        let (piece, rest) = std::mem::take(&mut scratch).split_at_mut(len);
        scratch = rest;
        piece
    });
    (pieces, scratch)
}

/// The part of `seen` that lies in the `n` keys from `j` on, counted from there.
fn inside(seen: &Range<usize>, j: usize, n: usize) -> Range<usize> {
    let start = seen.start.saturating_sub(j).min(n);
    start..seen.end.saturating_sub(j).min(n).max(start)
}

/// A part of `n` keys and what it takes to make whole chunks of it, as far as there are keys.
fn rounded(seen: &Range<usize>, n: usize) -> Range<usize> {
    if seen.is_empty() {
        return seen.clone();
    }
    seen.start / rows::CHUNK * rows::CHUNK..seen.end.next_multiple_of(rows::CHUNK).min(n)
}

/// `part`, counted from the start of the `whole` around it.
fn within(part: &Range<usize>, whole: &Range<usize>) -> Range<usize> {
    part.start - whole.start..part.end - whole.start
}

/// Which keys count.
#[derive(Clone, Copy)]
enum Keep<'a, T> {
    /// All.
    All,
    /// Those whose number is at least one half.
    Float(&'a [T]),
    /// Those whose byte is not zero.
    Bytes(&'a [u8]),
}

impl<T: Element> Keep<'_, T> {
    /// Writes 1 or 0 for each of the keys from `at` on, and gives them back; nothing if all count.
    fn write<'t>(&self, at: usize, to: &'t mut [T]) -> &'t [T] {
        let one = |keep: bool| if keep { T::ONE } else { T::ZERO };
        match self {
            Keep::All => return &[],
            Keep::Float(x) => {
                let half = T::from_f64(0.5);
                to.iter_mut().zip(&x[at..]).for_each(|(to, x)| *to = one(*x >= half));
            }
            Keep::Bytes(x) => to.iter_mut().zip(&x[at..]).for_each(|(to, x)| *to = one(*x != 0)),
        }
        to
    }
}
