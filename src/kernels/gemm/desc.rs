//! The descriptor of a batched matrix product: shape, strides, epilogue.
//!
//! Invariant: C is dense and row-major, [batch.., m, n]. Everything that decides the order of a sum is in here, so two
//! calls with equal descriptors give equal bits however their units are split. Op lowerings build it;
//! [`Gemm::to_words`] is how it travels through the kernel ABI.

use super::algorithm::Algorithm;
use super::bf16::Precision;
use super::blocked::{MANY_ROWS, Plan};
use super::epilogue::Act;
use super::float::GemmFloat;
use super::sink::SinkPlan;
use super::sums;
use super::transposed;
use crate::kernels::abi::Split;
use crate::kernels::pairwise;
use std::ops::Range;

/// Most batch dimensions of a product; merge adjacent ones where their strides allow.
pub const MAX_BATCH: usize = 6;

/// Distances, in elements, between neighbours of a matrix.
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
    /// Distance between its matrices in A; 0 repeats one.
    pub a: usize,
    /// Distance between its matrices in B; 0 repeats one.
    pub b: usize,
}

/// C = act(A · B + bias), or C = act(C + A · B + bias), for every matrix of a batch; or gated by a matrix like C.
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
    /// Whether the sums start from what C holds.
    pub accumulate: bool,
    /// Whether a vector of n is added to each row.
    pub bias: bool,
    /// The activation, applied last; or a gate, which excludes a bias.
    pub act: Act,
    /// Whether the columns of C are summed too; [`Gemm::with_sums`] sets it.
    pub sums: bool,
    /// How products of `f32` are computed.
    pub precision: Precision,
    /// The batch dimensions; [`Gemm::with_batch`] sets them.
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

/// Multiply-adds that a unit holds at least: a few microseconds, some ten times the cost of a barrier.
const UNIT_WORK: usize = 1 << 17;
/// Rows of a unit are a multiple of this, elements of a unit of a vector product of 16 times this.
const UNIT_ROWS: usize = 4;
/// Rows of a unit are a multiple of this where bf16 units may compute.
const BF16_ROWS: usize = 16;
/// Columns are summed where that leaves this many units, or all that there are without; or one of two.
const SUM_UNITS: usize = 8;
/// Columns of a unit are a multiple of this: whole cache lines, and whole tiles where bf16 units may compute.
const UNIT_COLS: usize = 32;
/// Fewest columns that are divided: several units.
const MANY_COLS: usize = 8 * UNIT_COLS;
/// Elements of a B that a core's cache does not hold: reading it takes long even where it is not packed.
const FAR_B: usize = 1 << 19;

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

    /// The product over a batch, outermost dimension first. Dimensions that go on where the next one ends are merged;
    /// where B repeats and A goes on, they become rows. `None` if more than [`MAX_BATCH`] remain.
    pub fn with_batch(self, dims: &[Batch]) -> Option<Gemm> {
        let mut g = self;
        let Dims { mut batch, mut rank } = Dims::default();
        for d in dims.iter().filter(|d| d.size != 1) {
            match batch[..rank].last_mut() {
                Some(o) if o.a == d.a * d.size && o.b == d.b * d.size => *o = Batch { size: o.size * d.size, ..*d },
                _ => {
                    *batch.get_mut(rank)? = *d;
                    rank += 1;
                }
            }
        }
        while let Some(d) = batch[..rank].last() {
            // A lone row has no row stride to go on from: any will do.
            if d.b != 0 || (g.m != 1 && d.a != g.m * g.a.row) {
                break;
            }
            g.a.row = if g.m == 1 { d.a } else { g.a.row };
            g.m *= d.size;
            rank -= 1;
            batch[rank] = Batch::default();
        }
        g.dims = Dims { batch, rank };
        Some(g)
    }

    /// The batch dimensions that are left after merging.
    pub fn batch(&self) -> &[Batch] {
        &self.dims.batch[..self.dims.rank]
    }

    /// Whether it has a third operand: the bias, or what an activation's gradient is by.
    #[inline]
    pub fn third(&self) -> bool {
        self.bias || self.act.gates()
    }

    /// Number of matrices in the batch.
    pub fn batches(&self) -> usize {
        self.batch().iter().map(|d| d.size).product()
    }

    /// Elements of C.
    pub fn len(&self) -> usize {
        self.batches() * self.m * self.n
    }

    /// Whether C has no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Offsets of matrix `at` of the batch in A and in B.
    pub(super) fn offsets(&self, mut at: usize) -> (usize, usize) {
        let (mut a, mut b) = (0, 0);
        for d in self.batch().iter().rev() {
            let i = at % d.size;
            at /= d.size;
            a += i * d.a;
            b += i * d.b;
        }
        (a, b)
    }

    /// How units divide C, and how many there are.
    ///
    /// By columns where B is much larger than A and C, and packed or far away, or where its transpose is computed: each
    /// thread then reads and packs its own part of B only, but all of A, and leaves C by columns to a next instruction
    /// that takes it by rows. Batches keep rows; the only row of C is always divided.
    pub fn division(&self) -> (Split, usize) {
        match self.unit_columns() {
            Some(width) => (Split::Columns { row: self.n, width }, self.n.div_ceil(width)),
            None => (Split::PerUnit(self.per_unit()), self.units()),
        }
    }

    /// Columns of a unit, where units divide columns.
    pub(super) fn unit_columns(&self) -> Option<usize> {
        let (m, n, k) = (self.m, self.n, self.k);
        let large = n >= MANY_COLS && 2 * m * (k + n) <= k * n && (m >= MANY_ROWS || k * n >= FAR_B);
        (transposed::fits(self) || (large && m > 1 && self.batch().is_empty())).then(|| share(m * k, UNIT_COLS))
    }

    /// Elements of C that a unit owns where units are rows: whole rows, or part of the only row.
    #[inline]
    pub fn per_unit(&self) -> usize {
        if self.m == 1 && self.batch().is_empty() {
            return share(self.k, 16 * UNIT_ROWS).min(self.n);
        }
        let step = match self.precision {
            _ if self.sums => pairwise::ROWS,
            Precision::F32 => UNIT_ROWS,
            _ => BF16_ROWS,
        };
        share(self.n * self.k, step).min(self.batches() * self.m) * self.n
    }

    /// Number of units where units are rows.
    pub fn units(&self) -> usize {
        self.len().div_ceil(self.per_unit().max(1))
    }

    /// The elements of C that `units` own where they are rows.
    pub(super) fn elements(&self, units: &Range<usize>) -> Range<usize> {
        let (per, len) = (self.per_unit(), self.len());
        (units.start * per).min(len)..(units.end * per).min(len)
    }

    /// Elements of scratch that a thread needs.
    pub fn scratch_len<T: GemmFloat>(&self) -> usize {
        if self.is_empty() { 0 } else { Algorithm::of::<T>(self).scratch::<T>(self) }
    }

    /// The precision that it is computed in: what is small stays in f32.
    pub fn runs_in<T: GemmFloat>(&self) -> Precision {
        if self.is_bf16::<T>() { self.precision } else { Precision::F32 }
    }

    /// Whether its tiles can go to a sink instead of memory: one bare product that tiles compute.
    pub fn feeds_sink<T: GemmFloat>(&self) -> bool {
        let matrices = self.m != 1 && self.n != 1 && !self.is_empty();
        self.bare() && matrices && Algorithm::of::<T>(self).makes_tiles()
    }

    fn bare(&self) -> bool {
        self.batch().is_empty() && !self.accumulate && !self.bias && self.act == Act::None
    }

    /// Whether bf16 units compute it.
    fn is_bf16<T: GemmFloat>(&self) -> bool {
        matches!(Algorithm::of::<T>(self), Algorithm::Bf16(_))
    }

    /// Elements of scratch that a thread needs where it [`fuses_sgd`](Gemm::fuses_sgd).
    pub fn sgd_scratch<T: GemmFloat>(&self) -> usize {
        match Algorithm::of::<T>(self) {
            Algorithm::Outer => 0,
            _ => Plan::new::<T>(self).scratch::<T>(),
        }
    }

    /// Elements of scratch that a thread needs where it [`feeds_sink`](Gemm::feeds_sink).
    pub fn sink_scratch<T: GemmFloat>(&self) -> usize {
        match Algorithm::of::<T>(self) {
            Algorithm::Bf16(plan) => plan.scratch(self.k),
            _ => SinkPlan::new::<T>(self).scratch(),
        }
    }

    /// Whether a step of SGD can take this product tile by tile, no sum being cut, or row by row.
    pub fn fuses_sgd<T: GemmFloat>(&self) -> bool {
        match Algorithm::of::<T>(self) {
            Algorithm::Bf16(_) => false,
            Algorithm::Outer => self.bare() && !self.is_empty(),
            _ => self.feeds_sink::<T>() && Plan::new::<T>(self).whole(self.k),
        }
    }

    /// The same product with the columns of C summed, block of rows by block of rows, if that costs neither bits nor
    /// units: one product of several rows that no bf16 units compute.
    pub fn with_sums<T: GemmFloat>(self) -> Option<Gemm> {
        let g = Gemm { sums: true, ..self };
        if self.m <= 1 || self.is_empty() || !self.batch().is_empty() || self.is_bf16::<T>() {
            return None;
        }
        let (before, units) = (self.division().1, g.division().1);
        let enough = if before > 2 { before.min(SUM_UNITS) } else { 1 };
        (sums::fit(self.m, self.n, units == 1) && units >= enough).then_some(g)
    }

    /// Blocks of rows that have sums of their own, each of n, and how units divide those.
    pub fn sums(&self) -> (usize, Split) {
        let blocks = |rows| sums::blocks(rows, self.n);
        match self.unit_columns() {
            Some(width) => (blocks(self.m), Split::Columns { row: self.n, width }),
            None => (blocks(self.m), Split::PerUnit(blocks(self.per_unit() / self.n) * self.n)),
        }
    }

    /// The descriptor as parameter words.
    pub fn to_words(&self) -> Vec<u64> {
        let flags = u64::from(self.accumulate)
            | u64::from(self.bias) << 1
            | u64::from(self.sums) << 2
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

    /// The descriptor that [`Gemm::to_words`] wrote; words after it are ignored.
    ///
    /// # Panics
    /// If the words are too few.
    pub fn from_words(words: &[u64]) -> Gemm {
        let mut g = Gemm::alone(words);
        let rank = words[HEAD - 1] as usize;
        // Mostly none: filling the array for them would be felt in the smallest products.
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
    pub(super) fn alone(words: &[u64]) -> Gemm {
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
            precision: Precision::ALL[(words[0] >> 16) as usize].0,
            dims: Dims::default(),
        }
    }
}

/// Lines of a unit of which each takes `work` multiply-adds: a multiple of `step`, a power of two.
#[inline]
fn share(work: usize, step: usize) -> usize {
    // Shifts stand for divisions: this runs in every call, and the smallest products take 20 ns.
    (((UNIT_WORK >> work.max(1).ilog2()) + step - 1) & !(step - 1)).max(step)
}
