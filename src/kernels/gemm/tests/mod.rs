//! Tests of products: values against sums in `f64`, and equal bits for every division and instruction set.

use super::algorithm::{Algorithm, uses_dot_products};
use super::blocked_plan::BlockedPlan;
use super::gemm_kernel::{Corner, Target, compute_block_by, rows_of_units};
use super::gemv::Gemv;
use super::operands::Operands;
use super::tuning::Tuning;
use super::*;
use crate::abi::{ArenaPtr, Args, MatrixMut, OperandRef, Split};
use crate::fault::Fault;
use crate::harness::{self, In, Out, fewer_under_miri};
use crate::simd::{Isa, Token};
use std::ops::Range;

mod columns;
mod few_rows;
mod refused;
mod sgd;
mod sinks;
mod stacked;
mod sums;
mod transposed;

/// Numbers in −1..1 by xorshift.
fn numbers<T: GemmFloat>(seed: u64, len: usize) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        T::from_f64((state >> 40) as f64 / f64::from(1u32 << 23) - 1.0)
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Operands of a product, each just as long as its strides ask.
struct Case<T> {
    g: Gemm,
    a: Vec<T>,
    b: Vec<T>,
    /// The bias or the act-grad operand.
    third: Vec<T>,
    c: Vec<T>,
}

impl<T: GemmFloat> Case<T> {
    fn new(g: Gemm) -> Case<T> {
        let reach = |n: usize, step: usize| n.saturating_sub(1) * step;
        let batch = |pick: fn(&Batch) -> usize| g.batch().iter().map(|d| reach(d.size, pick(d))).sum::<usize>();
        let some = |len: usize| if g.k > 0 { len + 1 } else { 0 };
        let a = some(reach(g.m, g.a.row) + reach(g.k, g.a.col) + batch(|d| d.a));
        let b = some(reach(g.k, g.b.row) + reach(g.n, g.b.col) + batch(|d| d.b));
        let seed = (g.m * 31 + g.n * 7 + g.k) as u64;
        let c = if g.accumulate { numbers(seed + 3, g.len()) } else { vec![T::NAN; g.len()] };
        Case {
            a: numbers(seed, a),
            b: numbers(seed + 1, b),
            third: numbers(seed + 2, if g.bias { g.n } else { g.len() }),
            c,
            g,
        }
    }

    /// C by `token`, its units divided into `parts` ranges, each with its own scratch full of NaN. Units divide rows,
    /// or columns if the `columns` of a unit are given.
    fn by(&self, token: Token, parts: usize, columns: Option<usize>) -> Vec<T> {
        let (mut c, g) = (self.c.clone(), &self.g);
        let operands = Operands { a: &self.a, b: &self.b, third: g.third().then_some(&self.third[..]) };
        let algorithm = Algorithm::of::<T>(g);
        let units = columns.map_or(g.units(), |width| g.n.div_ceil(width));
        for p in 0..parts {
            let part = units * p / parts..units * (p + 1) / parts;
            let mut scratch = vec![T::NAN; g.scratch_len::<T>()];
            if let Some(width) = columns {
                let columns = part.start * width..(part.end * width).min(g.n);
                let (at, rows) = (Corner { row: 0, col: columns.start }, g.batches() * g.m);
                let mut all = MatrixMut::new(&mut c, rows, g.n);
                let to = Target { c: all.part(0..rows, columns), sums: None };
                compute_block_by(token, &algorithm, g, operands, at, to, &mut scratch);
            } else {
                let (at, c) = rows_of_units(g, &mut c[g.unit_elements(&part)], &part);
                compute_block_by(token, &algorithm, g, operands, at, Target { c, sums: None }, &mut scratch);
            }
        }
        c
    }

    /// C by sums in `f64`, and for each element the sum of magnitudes, to which errors are relative.
    fn naive(&self) -> Vec<(f64, f64)> {
        let g = &self.g;
        let mut out = Vec::new();
        for at in 0..g.len() {
            let (index, i, j) = (at / (g.m * g.n), at / g.n % g.m, at % g.n);
            let (oa, ob) = g.offsets(index);
            let old = if g.accumulate { self.c[at].to_f64() } else { 0.0 };
            let (mut sum, mut size) = (old, old.abs());
            for p in 0..g.k {
                let x = self.a[oa + i * g.a.row + p * g.a.col].to_f64();
                let y = self.b[ob + p * g.b.row + j * g.b.col].to_f64();
                sum += x * y;
                size += (x * y).abs();
            }
            sum += if g.bias { self.third[j].to_f64() } else { 0.0 };
            let sum = done(g.act, sum, || self.third[at].to_f64());
            out.push((sum, size + 1.0));
        }
        out
    }

    fn check(&self, epsilon: f64) {
        let best = self.by(Token::at_most(Isa::Avx512), 1, None);
        let bound = epsilon * (self.g.k as f64 + 4.0);
        for (at, (want, size)) in self.naive().into_iter().enumerate() {
            let (got, g) = (best[at], self.g);
            let error = (got.to_f64() - want).abs();
            assert!(error <= bound * size, "{g:?} element {at}: {got:?}, not {want}");
        }
        let parts = fewer_under_miri(vec![1, 2, 3, 7], vec![2]);
        let columns = fewer_under_miri(vec![None, Some(1), Some(5)], vec![None, Some(5)]);
        for token in tokens() {
            for (&parts, &columns) in parts.iter().flat_map(|p| columns.iter().map(move |c| (p, c))) {
                // Other instruction sets show all divisions.
                if is_slow(token, &self.g) && !matches!((parts, columns), (1 | 3, None) | (7, Some(5))) {
                    continue;
                }
                let equal = self.by(token, parts, columns) == best;
                assert!(equal, "{:?} differs by {token:?} in {parts} parts of {columns:?}", self.g);
            }
        }
    }
}

/// Whether `token` takes long for the product: it has no vectors, others have, and the product is large.
fn is_slow(token: Token, g: &Gemm) -> bool {
    let portable = token == Token::at_most(Isa::Portable) && token != Token::at_most(Isa::Avx512);
    portable && g.len() * g.k > 1 << 17
}

/// The instruction sets of this CPU; under Miri, whose only one is portable, one.
fn tokens() -> Vec<Token> {
    let mut all: Vec<Token> = [Isa::Avx512, Isa::Avx2, Isa::Portable].map(Token::at_most).to_vec();
    all.dedup();
    all
}

/// `x` after an activation or act-grad epilogue by `r`, of those that do not enlarge its error.
pub(super) fn done(act: Act, x: f64, r: impl Fn() -> f64) -> f64 {
    match act {
        Act::Relu => x.max(0.0),
        Act::ReluGrad => {
            if r() > 0.0 {
                x
            } else {
                0.0
            }
        }
        Act::TanhGrad => x * (1.0 - r() * r()),
        Act::SigmoidGrad => x * (r() * (1.0 - r())),
        Act::Mul => x * r(),
        _ => x,
    }
}

const ACT_GRADS: [Act; 4] = [Act::ReluGrad, Act::TanhGrad, Act::SigmoidGrad, Act::Mul];

fn check(g: Gemm) {
    Case::<f32>::new(g).check(f64::from(f32::EPSILON));
    Case::<f64>::new(g).check(f64::EPSILON);
}

/// The four layouts, and one with odd strides everywhere. One of them under Miri, by its shape.
pub(super) fn layouts(g: Gemm) -> Vec<Gemm> {
    let (a, b) = (Strides { row: 2 * g.k + 3, col: 2 }, Strides { row: 3, col: 3 * g.k + 1 });
    let both = g.with_a_transposed().with_b_transposed();
    let all = [g, g.with_a_transposed(), g.with_b_transposed(), both, g.with_strides(a, b)];
    fewer_under_miri(all.to_vec(), vec![all[(g.m + g.n + g.k) % 5]])
}

#[test]
fn small_shapes_in_every_layout() {
    let sizes = fewer_under_miri(vec![1, 2, 5, 8, 17, 33], vec![1, 5, 18]);
    for &m in &sizes {
        for &n in &sizes {
            for k in fewer_under_miri(vec![1, 2, 7, 16, 41], vec![1, 37]) {
                layouts(Gemm::new(m, n, k)).into_iter().for_each(check);
            }
        }
    }
}

#[test]
fn edges_of_blocks_in_every_layout() {
    let few = vec![(2, 17, 64), (7, 9, 40), (50, 35, 4), (1, 1, 300), (61, 3, 9)];
    let all = vec![
        (2, 17, 64),
        (4, 8, 79),
        (7, 9, 100),
        (32, 30, 784),
        (47, 33, 65),
        (1, 300, 300),
        (300, 1, 300),
        (1, 1, 1000),
        (13, 129, 255),
        (14, 64, 256),
        (29, 65, 257),
        (47, 257, 70),
        (48, 256, 64),
        (61, 259, 513),
        (127, 31, 101),
        (1031, 17, 258),
        (64, 64, 64),
        (32, 10, 128),
        (7, 384, 128),
        (8, 100, 130),
        (3, 300, 20),
    ];
    for (m, n, k) in fewer_under_miri(all, few) {
        layouts(Gemm::new(m, n, k)).into_iter().for_each(check);
    }
}

#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn a_large_b_is_prefetched_by_micro_panels() {
    let g = Gemm::new(48, 1030, 530);
    assert!(layouts(g)[..4].iter().all(|g| BlockedPlan::new::<f32>(g).prefetch_b));
    for g in [g, g.with_a_transposed().with_b_transposed(), Gemm { m: 49, bias: true, ..g }] {
        check(g);
    }
}

#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn a_large_b_of_aliased_rows_is_packed_in_wide_blocks() {
    let g = Gemm { act: Act::Mul, ..Gemm::new(50, 1024, 600) };
    let plan = BlockedPlan::with_new_c::<f32>(&g);
    if let Some(wide) = Tuning::current().wide_blocks {
        assert!(!plan.by_panel && (plan.kc, plan.nc) == (200, wide.bytes / 200 / 512 * 128));
        assert!(plan.scratch::<f32>() >= plan.kc * plan.nc);
    }
    assert!(BlockedPlan::with_new_c::<f32>(&Gemm::new(50, 1025, 600)).by_panel);
    check(g);
}

#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn blocks_of_a_share_a_near_b() {
    let g = Gemm { bias: true, ..Gemm::new(400, 200, 300) };
    let plan = BlockedPlan::with_new_c::<f32>(&g);
    if let Some(block) = Tuning::current().block_a {
        assert!((48..400).contains(&plan.mc) && plan.mc * plan.kc * 4 <= block + 6 * plan.kc * 4);
        assert!(!plan.by_panel && plan.nc == 200);
    }
    for g in layouts(g) {
        check(g);
    }
}

#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn an_old_c_from_memory_is_read_row_by_row() {
    let g = Gemm { accumulate: true, ..Gemm::new(660, 830, 9) };
    for g in layouts(g) {
        assert!(matches!(Algorithm::of::<f32>(&g), Algorithm::Blocked(plan) if plan.by_rows), "{g:?}");
    }
    // The last one has several blocks of A.
    let many = Gemm { accumulate: true, ..Gemm::new(5000, 110, 60) };
    for g in [g, g.with_a_transposed().with_b_transposed(), Gemm { bias: true, act: Act::Relu, ..g }, many] {
        check(g);
    }
}

/// The last visit of the last tile leaves nothing to prefetch.
#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn lines_are_prefetched_in_time() {
    let block = [0.0f32];
    for (rows, cols, step) in [(1, 1, 1), (6, 64, 4096), (5, 33, 70), (1024, 64, 4096), (64, 1000, 1024)] {
        for (tiles, k) in [(1, 1), (1, 7), (1, 256), (3, 100), (43, 1024), (8, 2)] {
            let mut lines = PrefetchQueue::default();
            lines.set([&block[..]; 3].into_iter(), rows, cols, step);
            lines.spread(tiles, k);
            let visits = tiles * k.div_ceil(lines.terms);
            (0..visits).for_each(|_| lines.visit());
            assert!(lines.any().is_none(), "{rows} x {cols} by {tiles} tiles of {k} terms");
        }
    }
}

#[test]
fn nothing_to_compute_and_nothing_to_sum() {
    for (m, n, k) in [(0, 3, 4), (3, 0, 4), (0, 0, 0), (1, 0, 5), (0, 1, 5)] {
        let g = Gemm::new(m, n, k);
        assert_eq!((g.units(), g.is_empty()), (0, true));
        layouts(g).into_iter().for_each(check);
    }
    // Matrices without rows, each with a B of its own, and no matrices.
    for (m, size) in [(0, 3), (4, 0)] {
        let g = Gemm::new(m, 6, 2).with_batch(&[Batch { size, a: m * 2, b: 12 }]).unwrap();
        assert_eq!((g.units(), g.is_empty()), (0, true));
        check(g);
    }
    for (m, n) in [(3, 5), (1, 70), (70, 1), (1, 1)] {
        let g = Gemm::new(m, n, 0);
        layouts(g).into_iter().for_each(check);
        check(Gemm { bias: true, act: Act::Relu, ..g });
        check(Gemm { accumulate: true, ..g });
    }
}

#[test]
fn epilogues_and_accumulation() {
    let all = vec![(1, 200, 33), (200, 1, 33), (33, 1, 600), (32, 10, 128), (65, 300, 300), (5, 5, 5), (8, 40, 33)];
    for (m, n, k) in fewer_under_miri(all, vec![(1, 20, 9), (20, 1, 3), (9, 5, 3)]) {
        for (bias, act, accumulate) in
            [(true, Act::None, false), (false, Act::Relu, false), (true, Act::Relu, true), (false, Act::None, true)]
        {
            layouts(Gemm { bias, act, accumulate, ..Gemm::new(m, n, k) }).into_iter().for_each(check);
        }
        for (i, act) in ACT_GRADS.into_iter().enumerate() {
            layouts(Gemm { act, accumulate: i == 1, ..Gemm::new(m, n, k) }).into_iter().for_each(check);
        }
    }
    for act in ACT_GRADS {
        check(Gemm { act, ..Gemm::new(7, 5, 0) });
        check(Gemm { act, ..Gemm::new(40, 33, 1) });
    }
}

#[test]
fn batches_and_broadcasts() {
    let all = vec![(3, 4, 5), (1, 40, 8), (40, 1, 8), (70, 20, 30), (1, 1, 9), (20, 1, 1), (40, 1, 1), (20, 5, 1)];
    for (m, n, k) in fewer_under_miri(all, vec![(3, 4, 5)]) {
        let (a, b) = (m * k, k * n);
        for dims in [
            vec![Batch { size: 3, a, b }],
            vec![Batch { size: 3, a: 0, b }],
            vec![Batch { size: 3, a, b: 0 }],
            vec![Batch { size: 2, a: 0, b: 3 * b }, Batch { size: 3, a, b }],
            vec![Batch { size: 2, a: 3 * a, b: 0 }, Batch { size: 3, a, b: 0 }],
            vec![Batch { size: 2, a: 0, b }, Batch { size: 3, a, b: 0 }, Batch { size: 2, a: 0, b: 5 }],
            vec![Batch { size: 0, a, b }, Batch { size: 2, a, b }],
        ] {
            for g in layouts(Gemm { bias: true, ..Gemm::new(m, n, k) }) {
                check(g.with_batch(&dims).unwrap());
            }
            check(Gemm { act: Act::Mul, ..Gemm::new(m, n, k) }.with_batch(&dims).unwrap());
        }
    }
}

#[test]
fn batch_dimensions_merge() {
    let g = Gemm::new(4, 5, 6);
    let merged = g.with_batch(&[Batch { size: 2, a: 3 * 24, b: 0 }, Batch { size: 3, a: 24, b: 0 }]).unwrap();
    assert_eq!((merged.m, merged.batch().len()), (24, 0));
    let dense = g.with_batch(&[Batch { size: 2, a: 72, b: 90 }, Batch { size: 3, a: 24, b: 30 }]).unwrap();
    assert_eq!(dense.batch(), [Batch { size: 6, a: 24, b: 30 }]);
    let odd: Vec<Batch> = (0..7).map(|i| Batch { size: 2, a: 1000 * i + 1, b: 1 }).collect();
    assert_eq!(g.with_batch(&odd), None);
    assert!(g.with_batch(&odd[..6]).is_some());
}

#[test]
fn words_round_trip() {
    let dims = [Batch { size: 3, a: 7, b: 0 }, Batch { size: 2, a: 1, b: 900 }];
    for g in layouts(Gemm { bias: true, act: Act::Relu, accumulate: true, by_rows: true, ..Gemm::new(3, 4, 5) }) {
        let g = g.with_batch(&dims).unwrap();
        let mut words = g.to_words();
        words.push(99);
        assert_eq!(Gemm::from_words(&words), g);
    }
}

#[test]
fn zeros_do_not_hide_nan() {
    let all = vec![(3, 40, 20), (1, 40, 20), (40, 1, 20), (60, 300, 80)];
    for (m, n, k) in fewer_under_miri(all, vec![(3, 10, 20), (1, 40, 20), (40, 1, 20)]) {
        for g in layouts(Gemm { act: Act::Relu, ..Gemm::new(m, n, k) }) {
            let mut case = Case::<f32>::new(g);
            case.a.fill(0.0);
            case.b.fill(0.0);
            case.b[0] = f32::INFINITY;
            for token in tokens() {
                let c = case.by(token, 1, None);
                assert!(c.iter().step_by(n).all(|x| x.is_nan()), "{g:?}");
                assert!(c.iter().enumerate().all(|(i, x)| i % n == 0 || *x == 0.0), "{g:?}");
            }
        }
    }
}

#[test]
#[allow(unsafe_code)]
fn the_kernel_reads_and_writes_its_operands() {
    let g = Gemm { bias: true, accumulate: true, ..Gemm::new(20, 30, 40).with_b_transposed() };
    let case = Case::<f32>::new(g);
    let want = case.by(Token::current(), 1, None);
    let mut arena: Vec<f32> = [&case.a[..], &case.b, &case.third, &case.c].concat();
    let slot = |off: usize, len, split| OperandRef::new(off * 4, len, 4, split);
    let (a, b, c) = (0, case.a.len(), arena.len() - 600);
    let (out, scratch) = (arena.len(), g.scratch_len::<f32>());
    arena.resize(out + 600 + scratch, 0.0);
    let whole = Split::Whole;
    let reads = [slot(a, b, whole), slot(b, 1200, whole), slot(c - 30, 30, whole), slot(c, 600, whole)];
    let writes = [slot(out, 600, Split::PerUnit(g.per_unit())), slot(out + 600, scratch, Split::PerThread(scratch))];
    let (words, fault) = (g.to_words(), Fault::default());
    let frame = ArenaPtr::new(bytemuck::cast_slice_mut(&mut arena));
    // SAFETY: the operands are disjoint and inside the vector.
    let mut args = unsafe { Args::new(frame, &reads, &writes, &words, 0..g.units(), 0, &fault) };
    run_product::<f32>(&mut args);
    assert_eq!(arena[out..out + 600], want);
}

/// [`gemm_kernel`] has the bits of [`compute_block_by`] for a product of a row, in any ranges of units.
fn row<T: GemmFloat>(g: Gemm) {
    let case = Case::<T>::new(g);
    let (want, bias, len) =
        (case.by(Token::current(), 1, None), g.third().then_some(&case.third[..]), g.scratch_len::<T>());
    let reads: Vec<In> = [Some(&case.a[..]), Some(&case.b[..]), bias].into_iter().flatten().map(In::of).collect();
    let out = |len, split| Out(len, size_of::<T>(), split);
    let writes = [out(g.len(), Split::PerUnit(g.per_unit())), out(len, Split::PerThread(len))];
    let got = harness::run_in_ranges(
        gemm_kernel::<T>(&g),
        &g.to_words(),
        &reads,
        &writes[..1 + usize::from(len > 0)],
        g.units(),
    );
    assert!(harness::written_elements::<T>(&got, 0) == want, "{g:?}");
}

#[test]
fn rows_have_a_kernel_of_their_own() {
    let all = vec![(1, 1), (2, 32), (32, 4), (32, 2), (100, 33), (5000, 70), (1, 300)];
    for (n, k) in fewer_under_miri(all, vec![(1, 1), (2, 32), (33, 4), (1, 70)]) {
        for g in layouts(Gemm::new(1, n, k)) {
            let own = gemm_kernel::<f32>(&g) as usize != run_product::<f32> as fn(&mut Args<'_>) as usize;
            // Miri may give a function several addresses.
            assert!(own == Gemv::new(&g).is_some() || cfg!(miri), "{g:?}");
            row::<f32>(g);
            row::<f64>(Gemm { bias: true, act: Act::Tanh, ..g });
            row::<f32>(Gemm { act: Act::SigmoidGrad, ..g });
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "too large for an interpreter")]
fn sums_without_terms_are_zero_in_every_unit() {
    for (m, n) in [(1, 200_000), (200_000, 1), (70_000, 3), (300, 5000)] {
        for g in layouts(Gemm::new(m, n, 0)) {
            let case = Case::<f32>::new(Gemm { act: Act::Mul, ..g });
            assert!(case.by(Token::current(), 3, None).iter().all(|c| *c == 0.0), "{g:?}");
        }
    }
}
