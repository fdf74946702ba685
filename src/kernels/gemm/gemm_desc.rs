//! The descriptor of a batched matrix product: shape, strides, epilogue.
//!
//! Op lowerings build it. [`Gemm::to_words`] passes it through the kernel ABI.
//!
//! Invariants: C is dense and row-major, `[batch.., m, n]`. The descriptor and the CPU's bf16 engine decide the order
//! of every sum. So calls with equal descriptors give equal bits however their units are divided.
//!
//! Sizes and strides may be any numbers: a product whose operands cannot be in its slices is refused by
//! `Gemm::assert_fits` before it reads any. Numbers of elements saturate, so that no slice is taken for long enough.

use super::act::Act;
use super::precision::Precision;

/// Maximum number of batch dimensions of a product, after adjacent ones are merged.
pub const MAX_BATCH: usize = 6;

/// Strides of a matrix, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strides {
    /// Between rows.
    pub row: usize,
    /// Between columns.
    pub col: usize,
}

/// One batch dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Its size.
    pub size: usize,
    /// Stride between its matrices in A, in elements; 0 broadcasts one matrix.
    pub a: usize,
    /// Stride between its matrices in B, in elements; 0 broadcasts one matrix.
    pub b: usize,
}

/// C = act(A · B + bias), or C = act(C + A · B + bias) if it accumulates, for every matrix of a batch. For an act-grad
/// epilogue, `act` has a second operand shaped as C, and there is no bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A and rows of B.
    pub k: usize,
    /// Strides of A, m × k.
    pub a: Strides,
    /// Strides of B, k × n.
    pub b: Strides,
    /// Whether sums start from the old C.
    pub accumulate: bool,
    /// Whether a bias `[n]` is added to each row.
    pub bias: bool,
    /// The activation or act-grad epilogue, applied last. An act-grad epilogue excludes a bias.
    pub act: Act,
    /// Whether the columns of C are summed, too. [`Gemm::with_sums`] sets it.
    pub sums: bool,
    /// Whether units are rows of C even where columns would take less time: for users that read C by rows.
    pub by_rows: bool,
    /// How products of `f32` are computed.
    pub precision: Precision,
    /// The batch dimensions. [`Gemm::with_batch`] sets them.
    pub dims: Dims,
}

/// Batch dimensions, outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dims {
    batch: [Batch; MAX_BATCH],
    rank: usize,
}

/// Words of a descriptor without batch dimensions.
const HEAD: usize = 9;

impl Gemm {
    /// One product of dense row-major matrices.
    pub fn new(m: usize, n: usize, k: usize) -> Gemm {
        Gemm {
            m,
            n,
            k,
            a: Strides { row: k, col: 1 },
            b: Strides { row: n, col: 1 },
            accumulate: false,
            bias: false,
            act: Act::None,
            sums: false,
            by_rows: false,
            precision: Precision::F32,
            dims: Dims::default(),
        }
    }

    /// The same product with strides `a` and `b`.
    pub fn with_strides(self, a: Strides, b: Strides) -> Gemm {
        Gemm { a, b, ..self }
    }

    /// The product with A stored as its dense transpose, k × m.
    pub fn with_a_transposed(self) -> Gemm {
        Gemm { a: Strides { row: 1, col: self.m }, ..self }
    }

    /// The product with B stored as its dense transpose, n × k.
    pub fn with_b_transposed(self) -> Gemm {
        Gemm { b: Strides { row: 1, col: self.k }, ..self }
    }

    /// The product over a batch, outermost dimension first. Adjacent dimensions are merged if their strides allow it.
    /// Inner dimensions over which B is broadcast and A is contiguous become rows. Dimensions stay apart if their size
    /// together exceeds `usize`. `None` if more than [`MAX_BATCH`] remain.
    pub fn with_batch(self, dims: &[Batch]) -> Option<Gemm> {
        let mut g = self;
        let Dims { mut batch, mut rank } = Dims::default();
        let after = |stride: usize, d: &Batch, inner: usize| inner.checked_mul(d.size) == Some(stride);
        for d in dims.iter().filter(|d| d.size != 1) {
            if let Some(o) = batch[..rank].last_mut()
                && after(o.a, d, d.a)
                && after(o.b, d, d.b)
                && let Some(size) = o.size.checked_mul(d.size)
            {
                *o = Batch { size, ..*d };
            } else {
                *batch.get_mut(rank)? = *d;
                rank += 1;
            }
        }
        while let Some(d) = batch[..rank].last() {
            // A lone row has no stride, so any fits.
            if d.b != 0 || (g.m != 1 && g.m.checked_mul(g.a.row) != Some(d.a)) {
                break;
            }
            let Some(m) = g.m.checked_mul(d.size) else { break };
            g.a.row = if g.m == 1 { d.a } else { g.a.row };
            g.m = m;
            rank -= 1;
            batch[rank] = Batch::default();
        }
        g.dims = Dims { batch, rank };
        Some(g)
    }

    /// The batch dimensions, after merging.
    pub fn batch(&self) -> &[Batch] {
        &self.dims.batch[..self.dims.rank]
    }

    /// Elements of all matrices B; `usize::MAX` if there are more.
    #[inline]
    pub fn all_b(&self) -> usize {
        let one = self.k.saturating_mul(self.n);
        self.batch().iter().filter(|d| d.b != 0).fold(one, |all, d| all.saturating_mul(d.size))
    }

    /// Whether it has a third operand: the bias or the act-grad operand.
    #[inline]
    pub fn third(&self) -> bool {
        self.bias || self.act.is_act_grad()
    }

    /// Number of matrices in the batch; `usize::MAX` if there are more.
    pub fn batches(&self) -> usize {
        self.batch().iter().fold(1, |all: usize, d| all.saturating_mul(d.size))
    }

    /// Elements of C; `usize::MAX` if there are more.
    pub fn len(&self) -> usize {
        self.batches().saturating_mul(self.m).saturating_mul(self.n)
    }

    /// The elements that a slice must have for A, up to the last one that is read, over the whole batch. `None` if
    /// their number exceeds `usize`.
    #[inline]
    pub fn a_len(&self) -> Option<usize> {
        self.operand_len([(self.m, self.a.row), (self.k, self.a.col)], |d| d.a)
    }

    /// As [`Gemm::a_len`], for B.
    #[inline]
    pub fn b_len(&self) -> Option<usize> {
        self.operand_len([(self.k, self.b.row), (self.n, self.b.col)], |d| d.b)
    }

    #[inline]
    fn operand_len(&self, matrix: [(usize, usize); 2], stride: impl Fn(&Batch) -> usize) -> Option<usize> {
        if self.k == 0 || self.is_empty() {
            return Some(0);
        }
        let batch = self.batch().iter().map(|d| (d.size, stride(d)));
        let mut axes = matrix.into_iter().chain(batch);
        axes.try_fold(1usize, |end, (size, stride)| end.checked_add((size - 1).checked_mul(stride)?))
    }

    /// Refuses operands of `a` and `b` elements if they lack an element that the product reads. Behind this check no
    /// offset into them exceeds `usize`.
    ///
    /// # Panics
    /// If they do.
    #[inline]
    pub(super) fn assert_fits(&self, a: usize, b: usize) {
        let fits = self.a_len().is_some_and(|len| len <= a) && self.b_len().is_some_and(|len| len <= b);
        assert!(fits, "operands of {a} and {b} elements are too short for the product {self:?}");
    }

    /// Whether C has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has neither old C nor epilogue.
    pub(super) fn bare(&self) -> bool {
        !self.accumulate && !self.bias && self.act == Act::None
    }

    /// Offsets of matrix `at` of the batch in A and in B, in elements. They saturate, as nothing checks the strides of
    /// a product without terms.
    pub(super) fn offsets(&self, mut at: usize) -> (usize, usize) {
        let (mut a, mut b) = (0usize, 0usize);
        for d in self.batch().iter().rev() {
            let i = at % d.size;
            at /= d.size;
            a = a.saturating_add(i.saturating_mul(d.a));
            b = b.saturating_add(i.saturating_mul(d.b));
        }
        (a, b)
    }

    /// The descriptor as parameter words: flags, shape, strides, then three words for each batch dimension.
    pub fn to_words(&self) -> Vec<u64> {
        let flags = u64::from(self.accumulate)
            | u64::from(self.bias) << 1
            | u64::from(self.sums) << 2
            | u64::from(self.by_rows) << 3
            | (self.act as u64) << 8
            | (self.precision as u64) << 16;
        let head = [self.m, self.n, self.k, self.a.row, self.a.col, self.b.row, self.b.col, self.dims.rank];
        let dims = self.batch().iter().flat_map(|d| [d.size, d.a, d.b]);
        std::iter::once(flags).chain(head.into_iter().chain(dims).map(|w| w as u64)).collect()
    }

    /// The descriptor that [`Gemm::to_words`] wrote, and the words after it.
    ///
    /// # Panics
    /// If the words are too few.
    pub fn and_words(words: &[u64]) -> (Gemm, &[u64]) {
        let g = Gemm::from_words(words);
        (g, &words[HEAD + 3 * g.dims.rank..])
    }

    /// The descriptor that [`Gemm::to_words`] wrote. Words after it are ignored.
    ///
    /// # Panics
    /// If the words are too few.
    pub fn from_words(words: &[u64]) -> Gemm {
        let mut g = Gemm::unbatched(words);
        let rank = words[HEAD - 1] as usize;
        // Mostly 0. Filling the array is slow beside the smallest products.
        if rank > 0 {
            g.dims.rank = rank;
            for (d, w) in g.dims.batch[..rank].iter_mut().zip(words[HEAD..].chunks_exact(3)) {
                *d = Batch { size: w[0] as usize, a: w[1] as usize, b: w[2] as usize };
            }
        }
        g
    }

    /// As [`Gemm::from_words`], for a descriptor that has no batch dimensions.
    #[inline(always)]
    pub(super) fn unbatched(words: &[u64]) -> Gemm {
        let words = &words[..HEAD];
        let w = |i: usize| words[i] as usize;
        Gemm {
            m: w(1),
            n: w(2),
            k: w(3),
            a: Strides { row: w(4), col: w(5) },
            b: Strides { row: w(6), col: w(7) },
            accumulate: words[0] & 1 != 0,
            bias: words[0] & 2 != 0,
            act: Act::from_word(words[0] >> 8 & 0xff),
            sums: words[0] & 4 != 0,
            by_rows: words[0] & 8 != 0,
            precision: Precision::ALL[(words[0] >> 16) as usize].0,
            dims: Dims::default(),
        }
    }
}
