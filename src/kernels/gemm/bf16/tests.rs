//! Tests of products by bf16 engines: values against sums in `f64`, equal bits for every division, special numbers.

use super::super::gemm_kernel::{Corner, compute_bf16_block, rows_of_units};
use super::super::operands::Operands;
use super::super::tests::{done, layouts};
use super::super::{Act, Batch, Gemm, Precision, gemm};
use super::pack::lay_out_lines;
use super::packed::{DEPTH, LINES, PACKED, PackedSource, Side};
use super::{Bf16Engine, Bf16Plan, terms};
use crate::abi::MatrixMut;
use crate::simd::{Isa, limit};

const ENGINES: [Bf16Engine; 3] = [Bf16Engine::Portable, Bf16Engine::Avx512, Bf16Engine::Amx];

fn engines() -> impl Iterator<Item = Bf16Engine> {
    ENGINES.into_iter().filter(|e| e.is_here())
}

/// Numbers in −1..1 by xorshift.
fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 40) as f64 / f64::from(1u32 << 23) - 1.0) as f32
    };
    std::iter::repeat_with(next).take(len).collect()
}

struct Case {
    g: Gemm,
    a: Vec<f32>,
    b: Vec<f32>,
    /// The bias, or the operand of an act-grad epilogue.
    third: Vec<f32>,
    c: Vec<f32>,
}

impl Case {
    fn new(g: Gemm) -> Case {
        let reach = |n: usize, step: usize| n.saturating_sub(1) * step;
        let batch = |pick: fn(&Batch) -> usize| g.batch().iter().map(|d| reach(d.size, pick(d))).sum::<usize>();
        let a = reach(g.m, g.a.row) + reach(g.k, g.a.col) + batch(|d| d.a) + 1;
        let b = reach(g.k, g.b.row) + reach(g.n, g.b.col) + batch(|d| d.b) + 1;
        let seed = (g.m * 31 + g.n * 7 + g.k) as u64;
        let c = if g.accumulate { numbers(seed + 3, g.len()) } else { vec![f32::NAN; g.len()] };
        Case {
            a: numbers(seed, a),
            b: numbers(seed + 1, b),
            third: numbers(seed + 2, if g.bias { g.n } else { g.len() }),
            c,
            g,
        }
    }

    /// C by `engine`, its units divided into `parts` ranges, each with its own scratch full of NaN.
    fn by(&self, engine: Bf16Engine, parts: usize) -> Vec<f32> {
        let (g, plan, units) = (&self.g, Bf16Plan::of(&self.g), self.g.units());
        let mut c = self.c.clone();
        for p in 0..parts {
            let part = units * p / parts..units * (p + 1) / parts;
            let (at, c) = rows_of_units(g, &mut c[g.unit_elements(&part)], &part);
            compute_bf16_block((engine, &plan), g, self.operands(), at, c, &mut vec![f32::NAN; plan.scratch(g.k)]);
        }
        c
    }

    /// As `by`, but each part is a range of columns that may begin anywhere.
    fn by_columns(&self, engine: Bf16Engine, parts: usize) -> Vec<f32> {
        let (g, plan) = (&self.g, Bf16Plan::of(&self.g));
        let (mut c, rows) = (self.c.clone(), g.batches() * g.m);
        for p in 0..parts {
            let columns = g.n * p / parts..g.n * (p + 1) / parts;
            let (at, mut all) = (Corner { row: 0, col: columns.start }, MatrixMut::new(&mut c, rows, g.n));
            let scratch = &mut vec![f32::NAN; plan.scratch(g.k)];
            compute_bf16_block((engine, &plan), g, self.operands(), at, all.part(0..rows, columns), scratch);
        }
        c
    }

    fn operands(&self) -> Operands<'_, f32> {
        Operands { a: &self.a, b: &self.b, third: self.g.third().then_some(&self.third[..]) }
    }

    /// C by sums in `f64`, and for each element the sum of magnitudes, to which errors are relative.
    fn naive(&self) -> Vec<(f64, f64)> {
        let g = &self.g;
        let element = |at: usize| {
            let (index, i, j) = (at / (g.m * g.n), at / g.n % g.m, at % g.n);
            let (oa, ob) = g.offsets(index);
            let old = if g.accumulate { f64::from(self.c[at]) } else { 0.0 };
            let (mut sum, mut size) = (old, old.abs());
            for p in 0..g.k {
                let x = f64::from(self.a[oa + i * g.a.row + p * g.a.col]);
                let y = f64::from(self.b[ob + p * g.b.row + j * g.b.col]);
                sum += x * y;
                size += (x * y).abs();
            }
            sum += if g.bias { f64::from(self.third[j]) } else { 0.0 };
            (done(g.act, sum, || f64::from(self.third[at])), size + 1.0)
        };
        (0..g.len()).map(element).collect()
    }

    fn check(&self) {
        let want = self.naive();
        let sums = f64::from(f32::EPSILON) * (3.0 * self.g.k as f64 + 4.0);
        let bound = bound(self.g.precision);
        for engine in engines() {
            let whole = self.by(engine, 1);
            for (at, ((want, size), got)) in want.iter().zip(&whole).enumerate() {
                let error = (f64::from(*got) - want).abs();
                assert!(error <= (bound + sums) * size, "{:?} {engine:?} element {at}: {got}, not {want}", self.g);
            }
            for parts in [2, 3, 7] {
                // Units divide a lone row inside tiles. The engine never computes such a product.
                if self.g.m > 1 || !self.g.batch().is_empty() {
                    assert!(self.by(engine, parts) == whole, "{:?} differs by {engine:?} in {parts} parts", self.g);
                }
                let same = self.by_columns(engine, parts) == whole;
                assert!(same, "{:?} differs by {engine:?} in {parts} parts of columns", self.g);
            }
        }
    }
}

/// The greatest error of a product of two numbers, relative to it.
fn bound(precision: Precision) -> f64 {
    let splits = precision.splits();
    2f64.powi([-7, -15, -24][splits - 1]) * (1.0 + 2f64.powi(-9))
}

const PRECISIONS: [Precision; 3] = [Precision::Bf16, Precision::Bf16x2, Precision::Bf16x3];

fn check(g: Gemm) {
    for precision in PRECISIONS {
        Case::new(Gemm { precision, ..g }).check();
    }
}

#[test]
fn small_shapes_in_every_layout() {
    for m in [1, 5, 16, 33] {
        for n in [1, 15, 32, 50] {
            for k in [1, 2, 31, 33, 64] {
                layouts(Gemm::new(m, n, k)).into_iter().for_each(check);
            }
        }
    }
}

#[test]
fn edges_of_blocks_in_every_layout() {
    for (m, n, k) in [(47, 257, 70), (130, 31, 513), (64, 64, 64), (17, 300, 1030), (300, 20, 600), (1100, 33, 40)] {
        layouts(Gemm::new(m, n, k)).into_iter().for_each(check);
    }
    // More than one block of A.
    check(Gemm::new(150, 40, 9000));
}

#[test]
fn epilogues_and_accumulation() {
    for (m, n, k) in [(33, 40, 600), (32, 10, 128), (65, 300, 70), (5, 5, 5)] {
        for (bias, act, accumulate) in
            [(true, Act::None, false), (false, Act::Relu, false), (true, Act::Relu, true), (false, Act::None, true)]
        {
            layouts(Gemm { bias, act, accumulate, ..Gemm::new(m, n, k) }).into_iter().for_each(check);
        }
        check(Gemm { act: Act::TanhGrad, ..Gemm::new(m, n, k) });
        check(Gemm { act: Act::ReluGrad, accumulate: true, ..Gemm::new(m, n, k) });
    }
}

#[test]
fn batches_and_broadcasts() {
    for (m, n, k) in [(3, 4, 5), (70, 20, 30), (1, 40, 8)] {
        let (a, b) = (m * k, k * n);
        for dims in [
            vec![Batch { size: 3, a, b }],
            vec![Batch { size: 3, a: 0, b }],
            vec![Batch { size: 2, a: 0, b }, Batch { size: 3, a, b: 0 }, Batch { size: 2, a: 0, b: 5 }],
        ] {
            for g in layouts(Gemm { bias: true, ..Gemm::new(m, n, k) }) {
                check(g.with_batch(&dims).unwrap());
            }
        }
    }
}

#[test]
fn the_portable_engine_sums_as_avx512_does() {
    for precision in PRECISIONS {
        for (m, n, k) in [(40, 70, 300), (17, 33, 65)] {
            let case = Case::new(Gemm { precision, accumulate: true, ..Gemm::new(m, n, k) });
            let want = case.by(Bf16Engine::Portable, 1);
            for isa in [Isa::Portable, Isa::Avx2] {
                limit(isa);
                assert!(case.by(Bf16Engine::Portable, 1) == want, "{isa:?}");
            }
            limit(Isa::Avx512);
            if Bf16Engine::Avx512.is_here() {
                assert!(case.by(Bf16Engine::Avx512, 1) == want);
            }
        }
    }
}

#[test]
fn every_engine_packs_the_same_words() {
    let mut x = numbers(5, 40 * 70);
    let odd = [
        f32::INFINITY,
        f32::NAN,
        -f32::NAN,
        f32::MAX,
        f32::MIN,
        1e-40,
        -1e-40,
        f32::MIN_POSITIVE,
        -0.0,
        1.0 + 1.0 / 256.0,
    ];
    for (i, v) in odd.iter().cycle().take(40).enumerate() {
        x[i * 67] = *v;
    }
    let ties = [0x3f80_8000u32, 0x3f81_8000, 0x3f80_8001, 0x7f7f_8000, 0x7f7f_7fff, 0x0080_0001, 0x0100_0001];
    for (i, v) in ties.iter().cycle().take(40).enumerate() {
        x[i * 67 + 3] = f32::from_bits(*v);
    }
    for (line_step, k_step) in [(70, 1), (1, 40)] {
        for side in [Side::A, Side::B] {
            for splits in [1, 2, 3] {
                let packed = |engine| {
                    let mut to = vec![[0u32; PACKED]; 3 * 3 * splits];
                    let odd = lay_out_lines(
                        engine,
                        PackedSource { data: &x, line_step, k_step },
                        side,
                        (40, 70),
                        splits,
                        &mut to,
                    );
                    (odd, to)
                };
                let want = packed(Bf16Engine::Portable);
                assert_eq!(want.0, splits > 1);
                engines().for_each(|e| assert!(packed(e) == want, "{e:?} {line_step} {k_step} {splits}"));
                let l = LINES + 3;
                let of = |p: usize| x[l * line_step + p * k_step];
                let at = if side == Side::A { 3 * LINES + 2 } else { 2 * LINES + 3 };
                let cell = &want.1[(3 + 1) * splits];
                assert!(of(DEPTH + 4).is_normal() && of(DEPTH + 5).is_normal());
                assert_eq!(
                    cell[at],
                    terms::pack_word(terms::nearest_term(of(DEPTH + 4)), terms::nearest_term(of(DEPTH + 5)))
                );
            }
        }
    }
}

#[test]
fn rounding_is_to_nearest_even_and_splitting_leaves_little() {
    for (x, want) in [(0x3f80_8000u32, 0x3f80_0000u32), (0x3f81_8000, 0x3f82_0000), (0x3f80_8001, 0x3f81_0000)] {
        assert_eq!(terms::nearest_term(f32::from_bits(x)), want);
    }
    assert_eq!(terms::nearest_term(-1e-39), 0x8000_0000);
    for x in numbers(9, 10_000).into_iter().chain([f32::MAX, -f32::MAX, 1.0 + 1.0 / 512.0 + 1.0 / 131_072.0]) {
        let sum = |splits: &[u32]| splits.iter().map(|t| f64::from(f32::from_bits(*t))).sum::<f64>();
        let (two, odd) = terms::split_number::<2>(x);
        assert!(!odd && (sum(&two) - f64::from(x)).abs() <= 2f64.powi(-17) * f64::from(x.abs()), "{x}");
        let (three, odd) = terms::split_number::<3>(x);
        assert!(!odd && sum(&three) == f64::from(x) && three[..2] == two, "{x}");
    }
}

#[test]
fn the_bounds_hold_where_most_is_lost() {
    // The number farthest from the next bf16, then also from the next sum of two bf16.
    let (half, both) = (1.0 + 2f32.powi(-8), 1.0 + 2f32.powi(-8) - 2f32.powi(-17) - 2f32.powi(-23));
    for (precision, x) in PRECISIONS.into_iter().zip([half, both, both]) {
        let mut case = Case::new(Gemm { precision, ..Gemm::new(32, 32, 32) });
        case.a.fill(x);
        case.b.fill(x);
        let size = 32.0 * f64::from(x).powi(2);
        // Powers of two: sums of the first terms, and of the others, are exact.
        for engine in engines() {
            let lost = (f64::from(case.by(engine, 1)[0]) - size).abs() / size;
            assert!(lost <= bound(precision) + f64::from(f32::EPSILON), "{precision:?} by {engine:?} loses {lost}");
            assert!(precision == Precision::Bf16x3 || lost >= 0.4 * bound(precision), "{precision:?}: {lost}");
        }
    }
}

#[test]
fn infinities_and_nan_pass() {
    for precision in PRECISIONS {
        for (m, n, k) in [(40, 70, 600), (5, 3, 9)] {
            for g in layouts(Gemm { precision, ..Gemm::new(m, n, k) }) {
                let mut case = Case::new(g);
                // Positive except for the elements set below.
                case.a.iter_mut().chain(&mut case.b).for_each(|x| *x = x.abs() + 0.1);
                let (a, b) = (g.a, g.b);
                case.a[a.row + 2 * a.col] = f32::INFINITY;
                case.a[3 * a.row + a.col] = f32::NAN;
                case.b[(k - 1) * b.row + b.col] = f32::NEG_INFINITY;
                case.b[2 * b.row] = 0.0;
                for engine in engines() {
                    let c = case.by(engine, 1);
                    for (at, x) in c.iter().enumerate() {
                        match (at / n, at % n) {
                            (3, _) | (1, 0 | 1) => assert!(x.is_nan(), "{engine:?} {g:?} {at}: {x}"),
                            (1, _) => assert_eq!(*x, f32::INFINITY, "{engine:?} {g:?} {at}"),
                            (_, 1) => assert_eq!(*x, f32::NEG_INFINITY, "{engine:?} {g:?} {at}"),
                            _ => assert!(x.is_finite()),
                        }
                    }
                    for other in [case.by(engine, 2), case.by_columns(engine, 2)] {
                        let same = |(x, y): (&f32, f32)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
                        assert!(c.iter().zip(other).all(same));
                    }
                }
            }
        }
    }
}

#[test]
fn the_smallest_numbers_count_as_zero() {
    for precision in PRECISIONS {
        let mut case = Case::new(Gemm { precision, ..Gemm::new(20, 20, 40) });
        case.a.fill(1e-39);
        case.b.fill(1e30);
        engines().for_each(|e| assert!(case.by(e, 1).iter().all(|x| *x == 0.0)));
        case.a.fill(1e-20);
        case.b.fill(1e-20);
        engines().for_each(|e| assert!(case.by(e, 1).iter().all(|x| *x == 0.0), "{e:?}"));
    }
}

#[test]
fn doubles_and_products_in_f32_are_left_alone() {
    let g = Gemm { precision: Precision::Bf16, ..Gemm::new(64, 64, 64) };
    assert_eq!(Bf16Plan::new::<f64>(&g), None);
    assert_eq!(Bf16Plan::new::<f32>(&Gemm { precision: Precision::F32, ..g }), None);
    let (a, b) = (vec![1.0 + 1e-9f64; 64 * 64], vec![1.0f64; 64 * 64]);
    let (mut c, mut scratch) = (vec![0.0; 64 * 64], vec![0.0; g.scratch_len::<f64>()]);
    gemm(&g, &a, &b, None, &mut c, 0..g.units(), &mut scratch);
    assert!((c[0] - 64.0 * (1.0 + 1e-9)).abs() < 1e-12);
}
