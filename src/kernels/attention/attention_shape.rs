//! The params of attention, and everything that follows from them: rows of operands, blocks, units, products, scratch.

use crate::gemm::{Gemm, GemmFloat, Strides};
use crate::params::params;
use crate::scratch::scratch;
use arenagrad_arena::dtype::DType;

/// Maximal number of queries in a block.
pub const BLOCK_QUERIES: usize = 64;
/// Keys in a block. A block of scores and one of their gradients fit the second-level cache.
pub const BLOCK_KEYS: usize = 128;
/// Queries in a block of a causal mask with few keys, where each query sees more keys than the one before.
pub(super) const FEW_QUERIES: usize = 32;
/// Queries in a unit of [`attention_backward_queries_kernel`](super::attention_backward_queries_kernel). Keys are
/// transposed once for all of them.
pub const CHUNK_QUERIES: usize = 4 * BLOCK_QUERIES;
/// Rows in a unit of [`pack_gradients_kernel`](super::pack_gradients_kernel).
pub(super) const PACK_ROWS: usize = 16;
/// Elements that are computed side by side. A row of whole chunks has no slow remainder.
pub const CHUNK: usize = 16;
/// Alignment of scratch pieces, in elements.
const PAD: usize = 16;

/// `f32` or `f64`.
pub trait Element: GemmFloat {
    /// A chunk of zeros, one of ones, and one of zeros. A window of one chunk is a mask of its first or last keys.
    const EDGES: [Self; 3 * CHUNK];
}

macro_rules! element {
    ($($t:ident)*) => {$(
        impl Element for $t {
            const EDGES: [$t; 3 * CHUNK] = {
                let mut edges = [0.0; 3 * CHUNK];
                let mut i = CHUNK;
                while i < 2 * CHUNK {
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
    /// Params of the forward and backward kernels.
    ///
    /// q is `[batch, heads, queries, width]`, k `[batch, kv_heads, keys, width]`, v `[batch, kv_heads, keys,
    /// value_width]`, y `[batch, heads, queries, value_width]`, or all of them with the middle axes exchanged
    /// (`seq_major`). Packed q, k and v are one operand, `[batch, queries, heads·width + kv_heads·(width +
    /// value_width)]`, which is listed as three reads.
    pub struct AttentionShape {
        /// Sequences.
        pub batch: usize,
        /// Heads of q.
        pub heads: usize,
        /// Heads of k and v. Divides `heads`; adjacent heads of q share one.
        pub kv_heads: usize,
        /// Length of q.
        pub queries: usize,
        /// Length of k and v.
        pub keys: usize,
        /// Head width of q and k.
        pub width: usize,
        /// Head width of v and y.
        pub value_width: usize,
        /// Whether the sequence axis precedes the axis of heads.
        pub seq_major: bool,
        /// Whether q, k and v are packed in rows of one operand.
        pub packed: bool,
        /// Causal mask or sliding window. The place of query `i` among the keys is `i + keys − queries`: both end
        /// together.
        pub causal: bool,
        /// Sliding window: number of keys before its place that a query sees; `usize::MAX` for all.
        pub window: usize,
        /// Number of keys after its place that a query sees.
        pub ahead: usize,
        /// Whether the place of query `i` is `i`.
        pub top_left: bool,
        /// Factor of the scores.
        pub scale: f64,
        /// Softcap: scores become `cap·tanh(score / cap)`; 0 for none.
        pub cap: f64,
        /// Whether there is a mask of keys, `[batch, keys]`.
        pub padding: bool,
        /// Whether that mask is of bytes instead of floats.
        pub bytes: bool,
        /// Whether there is a bias.
        pub bias: bool,
        /// Whether the bias is a mask of bytes instead of floats.
        pub bias_bytes: bool,
        /// Stride of the bias from sequence to sequence, in elements; 0 broadcasts.
        pub bias_batch: usize,
        /// Stride of the bias from head to head, in elements; 0 broadcasts.
        pub bias_head: usize,
        /// Whether the log-sum-exp has a gradient, too (backward only).
        pub dlse: bool,
        /// Probability of dropout. If it is not 0, the random key is the last read.
        pub drop: f64,
        /// Distinguishes the random numbers of different ops.
        pub stream: u64,
    }
}

/// Query `i` of head `h` of sequence `b`.
#[derive(Clone, Copy)]
pub(super) struct Query {
    pub(super) b: usize,
    pub(super) h: usize,
    pub(super) i: usize,
}

/// The rows of one head in a tensor: offset of the first, and stride.
#[derive(Clone, Copy)]
pub(super) struct AttentionShapeRows {
    pub(super) at: usize,
    pub(super) step: usize,
}

impl AttentionShapeRows {
    /// Offset of row `i`.
    pub(super) fn row(self, i: usize) -> usize {
        self.at + i * self.step
    }
}

impl AttentionShape {
    pub(super) fn rows(&self, b: usize, h: usize, heads: usize, len: usize, width: usize) -> AttentionShapeRows {
        if self.seq_major {
            return AttentionShapeRows { at: (b * len * heads + h) * width, step: heads * width };
        }
        AttentionShapeRows { at: (b * heads + h) * len * width, step: width }
    }

    /// Elements of a row of packed q, k and v.
    pub fn packed_row(&self) -> usize {
        self.heads * self.width + self.kv_heads * (self.width + self.value_width)
    }

    /// Units of [`pack_gradients_kernel`](super::pack_gradients_kernel).
    pub fn pack_gradients_units(&self) -> usize {
        (self.batch * self.queries).div_ceil(PACK_ROWS)
    }

    /// Elements of the result of [`pack_gradients_kernel`](super::pack_gradients_kernel) in a unit.
    pub fn pack_gradients_per_unit(&self) -> usize {
        PACK_ROWS * self.packed_row()
    }

    /// Rows of a head at column `column` of packed q, k and v.
    pub(super) fn packed_rows(&self, b: usize, column: usize) -> AttentionShapeRows {
        let step = self.packed_row();
        AttentionShapeRows { at: b * self.queries * step + column, step }
    }

    /// Rows of q.
    pub(super) fn q(&self, b: usize, h: usize) -> AttentionShapeRows {
        if self.packed {
            return self.packed_rows(b, h * self.width);
        }
        self.rows(b, h, self.heads, self.queries, self.width)
    }

    /// Rows of y and its gradient.
    pub(super) fn y(&self, b: usize, h: usize) -> AttentionShapeRows {
        self.rows(b, h, self.heads, self.queries, self.value_width)
    }

    /// Rows of k of head `kv`.
    pub(super) fn k(&self, b: usize, kv: usize) -> AttentionShapeRows {
        if self.packed {
            return self.packed_rows(b, (self.heads + kv) * self.width);
        }
        self.rows(b, kv, self.kv_heads, self.keys, self.width)
    }

    /// Rows of v of head `kv`.
    pub(super) fn v(&self, b: usize, kv: usize) -> AttentionShapeRows {
        if self.packed {
            return self.packed_rows(b, (self.heads + self.kv_heads) * self.width + kv * self.value_width);
        }
        self.rows(b, kv, self.kv_heads, self.keys, self.value_width)
    }

    /// Heads of q that share one of k.
    pub fn group(&self) -> usize {
        self.heads / self.kv_heads.max(1)
    }

    /// Index of a probability in `[batch, heads, queries, keys]`.
    pub(super) fn probability(&self, q: Query, key: usize) -> usize {
        ((q.b * self.heads + q.h) * self.queries + q.i) * self.keys + key
    }

    /// Rows of y in a unit of the forward kernel: rows of one head or, if `seq_major`, of all heads. If a number of
    /// rows close to [`BLOCK_QUERIES`] divides the queries, no unit spans two heads.
    pub(super) fn rows_per_unit(&self) -> usize {
        let all = self.outer() * self.queries;
        let fits = |r: &usize| self.queries.is_multiple_of(*r);
        let even = (BLOCK_QUERIES / 2..=BLOCK_QUERIES).rev().find(fits).unwrap_or(BLOCK_QUERIES);
        even.min(all).max(1)
    }

    /// Sequences of rows: one for each head, or, if `seq_major`, one for all heads.
    pub(super) fn outer(&self) -> usize {
        if self.seq_major { self.batch } else { self.batch * self.heads }
    }

    /// Heads in a row of a unit.
    pub(super) fn heads_per_row(&self) -> usize {
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

    /// Elements of the log-sum-exp in a unit. Its layout is that of y without the last axis.
    pub fn stats_per_unit(&self) -> usize {
        self.rows_per_unit() * self.heads_per_row()
    }

    /// Units of the backward kernel: one for each sequence and head of k. A unit owns the gradients of that head and of
    /// all heads of q that share it, so no two threads add to one sum.
    pub fn backward_units(&self) -> usize {
        self.batch * self.kv_heads
    }

    /// Units of [`attention_backward_keys_kernel`](super::attention_backward_keys_kernel) and
    /// [`attention_backward_queries_kernel`](super::attention_backward_queries_kernel); `None` if a unit would span two
    /// heads.
    pub fn fine_units(&self) -> Option<[usize; 2]> {
        let even = |heads: usize, len: usize, unit: usize| heads == 1 || len.is_multiple_of(unit);
        let (kv, heads) = (self.batch * self.kv_heads, self.batch * self.heads);
        let fits = even(kv, self.keys, BLOCK_KEYS) && even(heads, self.queries, CHUNK_QUERIES);
        fits.then(|| [kv * self.keys.div_ceil(BLOCK_KEYS), heads * self.queries.div_ceil(CHUNK_QUERIES)])
    }

    /// Keys in a block.
    pub(super) fn block_keys(&self) -> usize {
        BLOCK_KEYS.min(self.keys)
    }

    /// Queries in a block. With a causal mask and few keys, smaller blocks skip more products.
    pub(super) fn block_queries(&self) -> usize {
        if self.causal && self.keys <= BLOCK_KEYS { FEW_QUERIES } else { BLOCK_QUERIES }
    }

    /// The products of `m` queries with `n` keys in the forward kernel: scores, values.
    pub(super) fn forward_products(&self, m: usize, n: usize) -> [Gemm; 2] {
        let (q, k, v) = (self.q(0, 0).step, self.k(0, 0).step, self.v(0, 0).step);
        let scores = Gemm::new(m, n, self.width).with_strides(strides_of_rows(q), Strides { row: 1, col: k });
        let values = Gemm::new(m, self.value_width, n).with_strides(strides_of_rows(n), strides_of_rows(v));
        [scores, Gemm { accumulate: true, ..values }]
    }

    /// The products of `m` queries with `n` keys in the backward kernel: scores and gradients of probabilities (of
    /// transposed keys and values, with stride `lines`), then the gradients of v, q and k.
    pub(super) fn backward_products(&self, m: usize, n: usize, lines: usize) -> [Gemm; 5] {
        let (q, k, y) = (self.q(0, 0).step, self.k(0, 0).step, self.y(0, 0).step);
        let (w, vw, across) = (self.width, self.value_width, Strides { row: 1, col: n });
        let dv = Gemm::new(n, vw, m).with_strides(across, strides_of_rows(y));
        let dq = Gemm::new(m, w, n).with_strides(strides_of_rows(n), strides_of_rows(k));
        let dk = Gemm::new(n, w, m).with_strides(across, strides_of_rows(q));
        [
            Gemm::new(m, n, w).with_strides(strides_of_rows(q), strides_of_rows(lines)),
            Gemm::new(m, n, vw).with_strides(strides_of_rows(y), strides_of_rows(lines)),
            Gemm { accumulate: true, ..dv },
            Gemm { accumulate: true, ..dq },
            Gemm { accumulate: true, ..dk },
        ]
    }

    /// The numbers of keys that products may have.
    pub(super) fn key_counts(&self) -> impl Iterator<Item = usize> + use<> {
        let (most, last) = (self.block_keys(), self.keys % BLOCK_KEYS);
        let fewer = if self.causal { 1..BLOCK_KEYS / CHUNK } else { 0..0 };
        fewer.map(|c| c * CHUNK).filter(move |&n| n < most).chain([most, last])
    }

    /// Elements of scratch for one thread of the forward kernel.
    pub fn forward_scratch<T: Element>(&self) -> usize {
        let most = self.rows_per_unit().min(self.block_queries());
        let sizes = (1..=most).flat_map(|m| self.key_counts().map(move |n| self.forward_products(m, n)));
        let product = sizes.flatten().map(|g| g.scratch_len::<T>()).max().unwrap_or(0);
        ForwardScratch::len(self, self.rows_per_unit()) + padded(product)
    }

    /// Elements of scratch for one thread of the backward kernel.
    pub fn backward_scratch<T: Element>(&self) -> usize {
        let most = self.block_queries();
        let rows = [most.min(self.queries), self.queries % most];
        // Packing of products depends on strides, too.
        let lines = [self.block_keys(), self.keys % BLOCK_KEYS];
        let counts = || self.key_counts().flat_map(|n| lines.into_iter().chain([n]).map(move |lines| (n, lines)));
        let sizes = rows.into_iter().flat_map(|m| counts().map(move |(n, lines)| self.backward_products(m, n, lines)));
        let product = sizes.flatten().map(|g| g.scratch_len::<T>()).max().unwrap_or(0);
        BackwardScratch::len(self) + padded(product)
    }

    /// [`AttentionShape::forward_scratch`] in f32, or else in f64.
    pub fn forward_scratch_for(&self, dtype: DType) -> usize {
        if dtype == DType::F32 { self.forward_scratch::<f32>() } else { self.forward_scratch::<f64>() }
    }

    /// [`AttentionShape::backward_scratch`] in f32, or else in f64.
    pub fn backward_scratch_for(&self, dtype: DType) -> usize {
        if dtype == DType::F32 { self.backward_scratch::<f32>() } else { self.backward_scratch::<f64>() }
    }
}

/// Rows with stride `step`.
pub(super) fn strides_of_rows(step: usize) -> Strides {
    Strides { row: step, col: 1 }
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(PAD)
}

scratch! {
    /// The scratch of a thread of the forward kernel, whose units have `m` rows.
    pub(super) struct ForwardScratch(p: &AttentionShape, m: usize) {
        scores: padded(m * p.block_keys()),
        /// Weighted values.
        acc: padded(m * p.value_width),
        /// The largest scores.
        top: padded(m),
        /// Sums of weights.
        sum: padded(m),
        /// The mask of keys.
        keep: padded(p.block_keys()),
        ..product
    }
}

scratch! {
    /// The scratch of a thread of a backward kernel.
    pub(super) struct BackwardScratch(p: &AttentionShape) {
        scores: padded(p.block_queries() * p.block_keys()),
        /// Gradients of the scores.
        grads: padded(p.block_queries() * p.block_keys()),
        /// Transposed keys.
        k: padded(p.width * p.block_keys()),
        /// Transposed values.
        v: padded(p.value_width * p.block_keys()),
        /// Σ dy·y of each row.
        delta: padded(p.group() * p.queries),
        /// The mask of keys.
        keep: padded(p.block_keys()),
        ..product
    }
}
