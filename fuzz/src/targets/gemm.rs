//! Products by descriptors that are not ours: any sizes and strides, over slices of any length. What fits its slices is
//! the product, exactly, and what does not is refused before it reads.
//!
//! Operands are small integers, so that every algorithm and precision gives equal sums. Around the slices are NaN: a
//! product that reads them is one of NaN.

use super::{MemoryLimit, Target, scripts};
use crate::finding::refusal;
use crate::script::Script;
use arenagrad::tools::kernels::abi::MatrixMut;
use arenagrad::tools::kernels::gemm::{
    Act, Batch, Gemm, GemmFloat, Precision, PrefetchQueue, Strides, TileSink, gemm, gemm_into, multiply_into_view,
};
use std::ops::Range;

pub const TARGET: Target = Target {
    name: "gemm",
    about: "a product by any descriptor is exact if it fits its slices, and refused if not",
    run,
    seeds,
    words: &[],
    max_len: 64,
    memory: MemoryLimit { base: 64 << 20, each: 0 },
};

/// Sizes: small ones beside those of vectors and tiles, and some that no memory has.
const SIZES: &[usize] =
    &[3, 1, 2, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 70, 128, 300, 1024, 0, 1 << 20, 1 << 32, 1 << 40, 1 << 62];
/// Strides whose products with sizes wrap.
const FAR: &[usize] =
    &[0x2492_4924_9249_2493, 1 << 32, 1 << 61, 1 << 62, 1 << 63, usize::MAX, usize::MAX - 1, usize::MAX / 3 + 1];
/// Elements beside a slice.
const MARGIN: usize = 64;
/// Most multiply-adds, and most elements of a slice.
const MOST: u128 = 1 << 18;

/// A descriptor as it was drawn: the dimensions of the batch are not merged.
struct Drawn {
    g: Gemm,
    dims: Vec<Batch>,
}

/// A stride: the natural one, a small one, the size of an axis, or a far one.
fn stride(s: &mut Script<'_>, natural: usize, g: &Gemm) -> usize {
    match s.below(12) {
        0..=3 => natural,
        4 => 1,
        5 => 0,
        6 => 2,
        7 => natural.saturating_add(1),
        8 => g.m,
        9 => g.n,
        10 => g.k,
        _ => s.pick(FAR),
    }
}

impl Drawn {
    fn new(s: &mut Script<'_>) -> Drawn {
        let mut g = Gemm::new(s.pick(SIZES), s.pick(SIZES), s.pick(SIZES));
        g.a = Strides { row: stride(s, g.k, &g), col: stride(s, 1, &g) };
        g.b = Strides { row: stride(s, g.n, &g), col: stride(s, 1, &g) };
        g.accumulate = s.flag();
        g.act = s.pick(&[Act::None, Act::None, Act::Relu, Act::Mul]);
        g.bias = g.act != Act::Mul && s.flag();
        g.precision = s.pick(&[Precision::F32, Precision::F32, Precision::Bf16, Precision::Bf16x2, Precision::Bf16x3]);
        let (one_a, one_b) = (g.m.saturating_mul(g.k), g.k.saturating_mul(g.n));
        let dims = (0..s.below(4)).map(|_| Batch {
            size: s.pick(&[2, 1, 3, 5, 0, 1 << 33]),
            a: stride(s, one_a, &g),
            b: stride(s, one_b, &g),
        });
        Drawn { dims: dims.collect(), g }
    }

    /// Elements of C.
    fn len(&self) -> u128 {
        self.dims.iter().fold(self.g.m as u128 * self.g.n as u128, |n, d| n.saturating_mul(d.size as u128))
    }

    /// The elements that A and B must have.
    fn lens(&self) -> [u128; 2] {
        let g = &self.g;
        if g.k == 0 || self.len() == 0 {
            return [0, 0];
        }
        let reach = |size: usize, stride: usize| (size as u128 - 1).saturating_mul(stride as u128);
        let batch = |of: fn(&Batch) -> usize| self.dims.iter().map(move |d| reach(d.size, of(d)));
        let sum = |all: &mut dyn Iterator<Item = u128>| all.fold(1u128, u128::saturating_add);
        [
            sum(&mut [reach(g.m, g.a.row), reach(g.k, g.a.col)].into_iter().chain(batch(|d| d.a))),
            sum(&mut [reach(g.k, g.b.row), reach(g.n, g.b.col)].into_iter().chain(batch(|d| d.b))),
        ]
    }

    /// Element `at` of C, by a loop over the terms. Offsets wrap only where there is no term to read.
    fn element(&self, at: usize, a: &[f64], b: &[f64], third: Option<&[f64]>, old: f64) -> f64 {
        let g = &self.g;
        let (i, j, mut matrix) = (at / g.n % g.m, at % g.n, at / (g.m * g.n));
        let (mut oa, mut ob) = (i.wrapping_mul(g.a.row), j.wrapping_mul(g.b.col));
        for d in self.dims.iter().rev() {
            oa = oa.wrapping_add((matrix % d.size).wrapping_mul(d.a));
            ob = ob.wrapping_add((matrix % d.size).wrapping_mul(d.b));
            matrix /= d.size;
        }
        let terms = (0..g.k).map(|p| a[oa + p * g.a.col] * b[ob + p * g.b.row]);
        let sum = terms.sum::<f64>() + if g.accumulate { old } else { 0.0 };
        match (g.act, third) {
            (Act::Mul, Some(by)) => sum * by[at],
            (act, bias) => {
                let y = sum + bias.map_or(0.0, |bias| bias[j]);
                if act == Act::Relu { y.max(0.0) } else { y }
            }
        }
    }
}

/// Small integers.
fn integers(len: usize, step: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * step + i / 7) % 5) as f64 - 2.0).collect()
}

/// These numbers as a slice between NaN.
fn between_nan<T: GemmFloat>(x: &[f64]) -> Vec<T> {
    let nan = || std::iter::repeat_n(T::NAN, MARGIN);
    nan().chain(x.iter().map(|x| T::from_f64(*x))).chain(nan()).collect()
}

/// Stores the tiles of a product.
struct Store<'c, T>(&'c mut [T], usize);

impl<T: GemmFloat> TileSink<T> for Store<'_, T> {
    fn prefetch(&self, _: Range<usize>, _: Range<usize>, _: &mut PrefetchQueue) {}

    fn consume(&mut self, row: usize, col: usize, tile: MatrixMut<'_, T>) {
        for (i, from) in tile.each().enumerate() {
            self.0[(row + i) * self.1 + col..][..from.len()].copy_from_slice(from);
        }
    }
}

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut s = Script::new(data);
    let double = s.flag();
    let drawn = Drawn::new(&mut s);
    let Some(g) = drawn.g.with_batch(&drawn.dims) else { return };
    assert_eq!(g.len() as u128, drawn.len().min(usize::MAX as u128), "{g:?}");
    match double {
        true => run_as::<f64>(&mut s, &drawn, &g),
        false => run_as::<f32>(&mut s, &drawn, &g),
    }
}

fn run_as<T: GemmFloat>(s: &mut Script<'_>, drawn: &Drawn, g: &Gemm) {
    // What a lowering asks before there are slices.
    let (units, scratch) = (g.units(), g.scratch_len::<T>());
    let _ = (g.division(), g.all_b(), g.runs_in::<T>(), g.fuses_sgd::<T>());
    assert_eq!(Gemm::from_words(&g.to_words()), *g);

    let (work, need) = (drawn.len().saturating_mul(g.k.max(1) as u128), drawn.lens());
    let lens = need.map(|need| {
        let need = if need <= MOST { need as usize } else { 4096 };
        match s.below(4) {
            0 => need.saturating_sub(1 + s.below(4) as usize),
            1 => need + 5,
            _ => need,
        }
    });
    let fits = (0..2).all(|i| need[i] <= lens[i] as u128);
    let small = drawn.len() <= MOST;
    if fits && (work > MOST || !small) {
        return;
    }
    let len = if small { g.len() } else { 64 };
    let [a, b] = [integers(lens[0], 3), integers(lens[1], 7)];
    let third = g.third().then(|| integers(if g.bias { g.n.min(MOST as usize) } else { len }, 2));
    let old = integers(len, 11);
    let (xa, xb): (Vec<T>, Vec<T>) = (between_nan(&a), between_nan(&b));
    let (xa, xb) = (&xa[MARGIN..][..lens[0]], &xb[MARGIN..][..lens[1]]);
    let x3: Option<Vec<T>> = third.as_ref().map(|x| x.iter().map(|x| T::from_f64(*x)).collect());
    let mut c: Vec<T> = old.iter().map(|x| T::from_f64(*x)).collect();
    let mut scratch = vec![T::NAN; if fits { scratch } else { 0 }];

    let view = !g.third() && g.batch().is_empty();
    let way = s.below(3);
    let refused = refusal(|| match way {
        0 if view && small => multiply_into_view(g, xa, xb, MatrixMut::new(&mut c, g.m, g.n), &mut scratch),
        1 if g.feeds_sink::<T>() && small => {
            scratch.resize(if fits { g.sink_scratch::<T>() } else { 0 }, T::NAN);
            gemm_into(g, (xa, xb), 0..units, &mut scratch, &mut Store(&mut c, g.n));
        }
        _ => {
            let cut = if fits { units / 2 } else { 0 };
            let (first, rest) = c.split_at_mut(cut.saturating_mul(g.per_unit()).min(len));
            gemm(g, xa, xb, x3.as_deref(), first, 0..cut, &mut scratch);
            gemm(g, xa, xb, x3.as_deref(), rest, cut..units, &mut scratch);
        }
    });
    match refused {
        Some(why) => assert!(!fits && why.contains("are too short for the product"), "{g:?}, {lens:?}: {why}"),
        None => {
            assert!(fits, "{g:?} reads beyond slices of {lens:?} elements");
            for (at, c) in c.iter().enumerate() {
                let want = drawn.element(at, &a, &b, third.as_deref(), old[at]);
                assert!(c.to_f64() == want, "{g:?}, way {way}: element {at} is {c:?}, not {want}");
            }
        }
    }
}

/// Drawn descriptors, and the dot products of four rows with sixteen whose stride wraps.
fn seeds() -> Vec<Vec<u8>> {
    let at = |n: usize| SIZES.iter().position(|s| *s == n).unwrap_or(0) as u8;
    let (far, one) = ([11, 0], 4);
    let mut all = scripts();
    for double in [0, 1] {
        all.push([&[double, at(4), at(16), at(1024), 0, 0, one], &far[..]].concat());
        all.push([&[double, at(4), at(16), at(1024), 0, 0, one, 10], &[0; 4][..]].concat());
    }
    all
}
