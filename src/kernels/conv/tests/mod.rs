//! Convolutions against a naive loop over all products, their adjoint identities, and equal bits for all ranges of
//! units.

use super::channel_lanes::LanesPlan;
use super::conv_plan::ConvPlan;
use super::conv2d_kernels::{forward_by, forward_scratch_of, input_by, input_scratch_of, weight_by, weight_scratch_of};
use super::way::{Share, Way, WeightWay};
use super::*;
use crate::abi::{MatrixMut, Split};
use crate::float::Float;
use crate::gemm::{Act, GemmFloat};
use crate::harness::{hash_number, hash_numbers};
use crate::simd::{Isa, detect_isa, limit};
use crate::window::{Units, WindowGeometry};
use std::ops::Range;

mod accuracy;
mod winograd;

fn geom(n: usize, c: [usize; 2], hw: [usize; 2], k: [usize; 2]) -> ConvGeom {
    ConvGeom { n, c_in: c[0], c_out: c[1], groups: 1, windows: WindowGeometry::new(hw, k), winograd: false }
}

/// A convolution with other windows.
impl ConvGeom {
    fn with(mut self, change: impl FnOnce(&mut WindowGeometry<2>)) -> ConvGeom {
        change(&mut self.windows);
        self
    }

    fn size(self, size: [usize; 2]) -> ConvGeom {
        self.with(|w| w.size = size)
    }

    fn kernel(self, kernel: [usize; 2]) -> ConvGeom {
        self.with(|w| w.kernel = kernel)
    }

    fn stride(self, stride: [usize; 2]) -> ConvGeom {
        self.with(|w| w.stride = stride)
    }

    /// Zeros above, below, left and right.
    fn pad(self, [t, b, l, r]: [usize; 4]) -> ConvGeom {
        self.with(|w| w.pad = [[t, b], [l, r]])
    }

    fn dilation(self, dilation: [usize; 2]) -> ConvGeom {
        self.with(|w| w.dilation = dilation)
    }
}

/// Calls `f(x index, weight index, y index)` for every product of the convolution.
fn each(g: &ConvGeom, mut f: impl FnMut(usize, usize, usize)) {
    let ([ho, wo], ci, co) = (g.windows.out(), g.c_in / g.groups, g.c_out / g.groups);
    let ([h, w], [kh, kw]) = (g.windows.size, g.windows.kernel);
    for y in 0..g.y_len() {
        let (ow, oh, o, n) = (y % wo, y / wo % ho, y / (wo * ho) % g.c_out, y / (wo * ho * g.c_out));
        let at = |a: usize, out: usize, tap: usize| {
            (out * g.windows.stride[a] + tap * g.windows.dilation[a]).wrapping_sub(g.windows.pad[a][0])
        };
        for line in 0..ci * kh {
            let (c, row) = (line / kh, at(0, oh, line % kh));
            for (j, col) in (0..kw).map(|j| (j, at(1, ow, j))).filter(|x| row < h && x.1 < w) {
                f(((n * g.c_in + o / co * ci + c) * h + row) * w + col, o * g.taps() + line * kw + j, y);
            }
        }
    }
}

fn ranges(count: usize, cuts: usize) -> impl Iterator<Item = Range<usize>> {
    (0..cuts).map(move |i| count * i / cuts..count * (i + 1) / cuts)
}

/// Runs a kernel in `cuts` ranges; scratch holds NaN at the start of each.
fn run_divided<T: Float>(
    (split, count): (Split, usize),
    len: usize,
    scratch: usize,
    cuts: usize,
    f: impl Fn(Range<usize>, MatrixMut<'_, T>, &mut [T]),
) -> Vec<T> {
    let Split::Columns { row, width } = split else {
        let Split::PerUnit(per_unit) = split else { panic!("{split:?}") };
        return run(Units { count, per_unit }, len, scratch, cuts, |r, part, s| {
            let all = part.len();
            f(r, MatrixMut::new(part, 1, all), s);
        });
    };
    let mut out = vec![T::NAN; len];
    for r in ranges(count, cuts) {
        let mut scratch = vec![T::NAN; scratch];
        let columns = (r.start * width).min(row)..(r.end * width).min(row);
        f(r, MatrixMut::new(&mut out, len / row, row).cut(0..len / row, columns), &mut scratch);
    }
    out
}

/// Runs a kernel in `cuts` ranges; scratch holds NaN at the start of each.
fn run<T: Float>(
    u: Units,
    len: usize,
    scratch: usize,
    cuts: usize,
    f: impl Fn(Range<usize>, &mut [T], &mut [T]),
) -> Vec<T> {
    let mut out = vec![T::NAN; len];
    for r in ranges(u.count, cuts) {
        let mut scratch = vec![T::NAN; scratch];
        let (lo, hi) = ((r.start * u.per_unit).min(len), (r.end * u.per_unit).min(len));
        f(r, &mut out[lo..hi], &mut scratch);
    }
    out
}

fn forward<T: GemmFloat>(g: &ConvGeom, x: &[T], w: &[T], bias: &[T], relu: bool, cuts: usize) -> Vec<T> {
    run_divided(conv2d_division(g), g.y_len(), conv2d_scratch(g), cuts, |r, y, s| {
        let act = if relu { Act::Relu } else { Act::None };
        conv2d_forward(g, (x, w, bias), act, r, y, s)
    })
}

fn input<T: GemmFloat>(g: &ConvGeom, dy: &[T], w: &[T], cuts: usize) -> Vec<T> {
    let (u, s) = (conv2d_backward_input_division(g), conv2d_backward_input_scratch(g));
    run_divided(u, g.x_len(), s, cuts, |r, dx, s| conv2d_backward_input(g, dy, w, r, dx, s))
}

fn weight<T: GemmFloat>(g: &ConvGeom, x: &[T], dy: &[T], cuts: usize) -> Vec<T> {
    let (u, s) = (conv2d_backward_weight_units(g), conv2d_backward_weight_scratch(g));
    let blocks = conv2d_weight_parts(g);
    let parts = run(u, blocks * g.w_len(), s, cuts, |r, p, s| conv2d_backward_weight(g, x, dy, r, p, s));
    let mut dw = vec![T::NAN; g.w_len()];
    for (i, dw) in dw.chunks_mut(COMBINE_UNIT).enumerate() {
        conv2d_weight_combine(&parts, g.w_len(), i * COMBINE_UNIT, dw);
    }
    dw
}

fn close<T: Float>(got: &[T], want: &[f64], tol: f64, what: &str, g: &ConvGeom) {
    assert_eq!(got.len(), want.len());
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        assert!((a.to_f64() - b).abs() <= tol * (1.0 + b.abs()), "{what}[{i}]: {a:?} for {b} in {g:?}");
    }
}

fn same<T: Float>(a: &[T], b: &[T], what: &str, g: &ConvGeom) {
    assert_eq!(bytemuck::cast_slice::<T, u8>(a), bytemuck::cast_slice::<T, u8>(b), "{what} in {g:?}");
}

fn check<T: GemmFloat>(g: &ConvGeom, tol: f64) {
    g.count().unwrap();
    assert_eq!(ConvGeom::from_words(&g.to_words()), *g);
    let (x, w) = (hash_numbers::<T>(g.x_len(), 1), hash_numbers::<T>(g.w_len(), 2));
    let (dy, b) = (hash_numbers::<T>(g.y_len(), 3), hash_numbers::<T>(g.c_out, 4));
    let (mut y, mut dx, mut dw) = (vec![0.0; g.y_len()], vec![0.0; g.x_len()], vec![0.0; g.w_len()]);
    each(g, |i, k, o| {
        y[o] += x[i].to_f64() * w[k].to_f64();
        dx[i] += dy[o].to_f64() * w[k].to_f64();
        dw[k] += dy[o].to_f64() * x[i].to_f64();
    });
    let got = forward(g, &x, &w, &[], false, 1);
    close(&got, &y, tol, "y", g);
    let area = g.windows.out().iter().product::<usize>().max(1);
    let full: Vec<f64> = y.iter().enumerate().map(|(i, v)| (v + b[i / area % g.c_out].to_f64()).max(0.0)).collect();
    close(&forward(g, &x, &w, &b, true, 1), &full, tol, "relu(y + b)", g);
    let got_dx = input(g, &dy, &w, 1);
    close(&got_dx, &dx, tol, "dx", g);
    let got_dw = weight(g, &x, &dy, 1);
    close(&got_dw, &dw, tol, "dw", g);
    for cuts in [2, 3, 7] {
        same(&got, &forward(g, &x, &w, &[], false, cuts), "y", g);
        same(&got_dx, &input(g, &dy, &w, cuts), "dx", g);
        same(&got_dw, &weight(g, &x, &dy, cuts), "dw", g);
    }
}

fn dot<T: Float>(a: &[T], b: &[T]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum()
}

fn adjoint(g: &ConvGeom) {
    let (x, w, dy) =
        (hash_numbers::<f64>(g.x_len(), 5), hash_numbers::<f64>(g.w_len(), 6), hash_numbers::<f64>(g.y_len(), 7));
    let y = dot(&forward(g, &x, &w, &[], false, 1), &dy);
    let tol = 1e-10 * (1.0 + y.abs());
    assert!((dot(&input(g, &dy, &w, 1), &x) - y).abs() < tol, "{g:?}");
    assert!((dot(&weight(g, &x, &dy, 1), &w) - y).abs() < tol, "{g:?}");
}

/// Shapes chosen for what they exercise.
fn shapes() -> Vec<ConvGeom> {
    let g = geom;
    let all = vec![
        g(2, [1, 1], [1, 1], [1, 1]),
        g(0, [2, 3], [5, 5], [3, 3]),
        g(3, [2, 3], [5, 6], [3, 3]),
        // stride > kernel
        g(2, [2, 5], [11, 13], [2, 1]).stride([3, 4]),
        g(1, [2, 2], [3, 4], [2, 2]).stride([5, 5]).pad([1, 0, 2, 1]),
        // stride 2, odd and even sizes
        g(2, [3, 7], [9, 10], [3, 3]).stride([2, 2]).pad([1, 1, 1, 1]),
        g(9, [3, 4], [8, 7], [4, 2]).stride([2, 1]).pad([0, 2, 1, 0]),
        // dilation
        g(2, [2, 3], [9, 12], [3, 3]).dilation([2, 3]).pad([2, 1, 3, 4]),
        g(2, [2, 3], [12, 9], [3, 4]).dilation([3, 2]).stride([2, 3]).pad([3, 3, 2, 2]),
        g(2, [2, 3], [12, 9], [3, 3]).dilation([2, 2]).stride([2, 2]).pad([1, 2, 1, 2]),
        // groups, depthwise, depthwise with a multiplier, with channels in the lanes, with windows that see no row
        ConvGeom { groups: 2, ..g(2, [4, 6], [6, 6], [3, 3]) },
        ConvGeom { groups: 6, ..g(9, [6, 6], [7, 9], [3, 3]) }.pad([1, 1, 1, 1]),
        ConvGeom { groups: 4, ..g(1, [4, 12], [7, 9], [3, 3]) }.pad([1, 1, 1, 1]).stride([2, 2]),
        ConvGeom { groups: 3, ..g(3, [9, 15], [4, 4], [2, 3]) },
        ConvGeom { groups: 17, ..g(1, [17, 17], [11, 19], [5, 7]) }.pad([2, 2, 3, 3]),
        ConvGeom { groups: 16, ..g(2, [16, 16], [1, 20], [1, 3]) }.pad([1, 1, 0, 0]).stride([3, 1]),
        // padding beyond the kernel, on one side or all
        g(2, [2, 3], [3, 2], [2, 2]).pad([4, 5, 3, 6]),
        g(2, [2, 3], [5, 7], [3, 3]).pad([0, 7, 0, 0]).stride([2, 3]),
        g(2, [2, 3], [8, 8], [3, 3]).pad([1, 0, 1, 0]),
        g(2, [2, 3], [8, 8], [3, 3]).pad([0, 1, 0, 1]),
        g(1, [1, 2], [3, 3], [2, 2]).pad([3, 3, 140, 150]),
        // 1 × 1 images, kernels as large as the image, many small images side by side
        g(20, [5, 9], [1, 1], [1, 1]),
        g(17, [5, 9], [1, 1], [3, 3]).pad([1, 1, 1, 1]),
        g(9, [4, 10], [3, 5], [3, 5]),
        g(19, [3, 4], [2, 3], [3, 3]).pad([1, 1, 1, 1]),
        g(19, [3, 4], [4, 4], [3, 3]).stride([2, 2]).pad([1, 1, 1, 1]),
        // one row, one column
        g(2, [2, 3], [1, 40], [1, 5]).pad([0, 0, 2, 2]),
        g(2, [2, 3], [40, 1], [5, 1]).pad([2, 2, 0, 0]),
        // small digits and LeNet
        g(10, [1, 16], [8, 8], [3, 3]).pad([1, 1, 1, 1]),
        g(5, [16, 32], [8, 8], [3, 3]).pad([1, 1, 1, 1]),
        g(9, [16, 32], [4, 4], [3, 3]).pad([1, 1, 1, 1]),
        g(9, [1, 6], [28, 28], [5, 5]).pad([2, 2, 2, 2]),
        g(8, [6, 16], [14, 14], [5, 5]),
        // 1 × 1 kernels
        g(2, [7, 17], [9, 5], [1, 1]),
        g(2, [7, 17], [9, 6], [1, 1]).stride([2, 2]),
        // several bands and rows longer than a tile
        g(1, [3, 11], [70, 75], [3, 3]).pad([1, 1, 1, 1]),
        g(1, [4, 8], [260, 256], [3, 3]).pad([1, 1, 1, 1]),
    ];
    all.into_iter().chain(crowds()).chain(channels()).collect()
}

/// Enough channels that they are the lanes, or that a product of matrices pays: strides, padding on one side, dilation,
/// groups, blocks of channels and of positions that are not full, images whose positions fill a block only together.
fn channels() -> Vec<ConvGeom> {
    let (wide, base) = (geom(3, [33, 70], [9, 10], [3, 3]), geom(5, [36, 40], [7, 9], [4, 3]));
    let s2 = |g: ConvGeom| g.stride([2, 2]);
    let pad = |g: ConvGeom| g.pad([1; 4]);
    let each = |groups, g| ConvGeom { c_in: groups, c_out: groups, groups, ..g };
    vec![
        pad(wide),
        s2(pad(wide)),
        wide.stride([3, 2]).pad([2, 0, 1, 4]),
        wide.dilation([2, 3]).pad([3, 2, 1, 3]),
        base.stride([2, 3]).dilation([3, 2]).pad([3, 3, 2, 2]),
        base.stride([2, 2]).dilation([2, 2]).pad([1, 2, 1, 2]),
        ConvGeom { c_in: 66, c_out: 128, groups: 2, ..s2(base) },
        base.stride([1, 4]).pad([4, 5, 3, 6]),
        ConvGeom { n: 2, ..pad(wide) }.size([30, 35]),
        ConvGeom { n: 2, ..s2(pad(wide)) }.size([30, 35]),
        // Few positions.
        pad(wide).size([2, 2]),
        ConvGeom { n: 4, c_out: 130, ..s2(pad(wide)) }.size([4, 3]),
        ConvGeom { n: 2, c_in: 300, groups: 2, ..pad(wide) }.size([5, 3]),
        // Few positions, and a gradient that no cache keeps.
        ConvGeom { n: 2, c_in: 120, c_out: 130, ..pad(wide) }.size([2, 2]),
        // Rows that fill tiles only together.
        pad(wide).size([7, 8]),
        s2(pad(wide)).size([15, 8]),
        wide.size([9, 7]).stride([1, 2]).dilation([2, 1]).pad([2, 2, 1, 1]),
        // Patches.
        geom(5, [3, 20], [24, 16], [8, 4]).stride([8, 4]),
        geom(2, [2, 17], [15, 14], [4, 4]).stride([4, 4]).pad([1, 2, 0, 2]),
        // One tap.
        base.kernel([1, 1]),
        base.size([13, 12]).kernel([1, 1]),
        ConvGeom { n: 7, ..base }.size([3, 2]).kernel([1, 1]),
        s2(wide).kernel([1, 1]),
        ConvGeom { n: 17, ..base }.kernel([1, 1]).stride([3, 2]).pad([1, 0, 0, 1]),
        // Every channel by itself.
        pad(ConvGeom { c_in: 5, c_out: 5, groups: 5, ..wide }.size([6, 37])),
        ConvGeom { c_in: 5, c_out: 5, groups: 5, ..wide }.size([5, 16]).pad([0, 2, 2, 1]),
        ConvGeom { c_in: 5, c_out: 5, groups: 5, ..wide }.size([2, 6]).pad([2, 1, 0, 1]),
        pad(ConvGeom { c_in: 3, c_out: 3, groups: 3, ..wide }.size([35, 11])),
        pad(ConvGeom { c_in: 2, c_out: 2, groups: 2, ..wide }.size([20, 256])),
        each(36, s2(pad(base))),
        each(20, base).size([2, 2]).kernel([5, 5]).pad([2; 4]),
        each(9, base).size([5, 7]).kernel([3, 5]).stride([2, 3]).dilation([2, 1]).pad([3, 1, 0, 4]),
        each(17, base).size([8, 9]).kernel([2, 2]).stride([3, 4]).dilation([2, 3]).pad([1, 0, 2, 0]),
        each(24, base).size([1, 1]).kernel([3, 3]).pad([1; 4]),
        each(8, base).size([5, 4]).kernel([1, 2]).stride([1, 2]).dilation([usize::MAX, 1]),
        each(40, base).size([1, 40]).kernel([1, 17]).pad([0, 0, 8, 8]),
        each(16, s2(pad(wide))).size([70, 75]),
        each(8, pad(wide)).size([64, 64]).kernel([4, 4]).dilation([1, 2]),
        ConvGeom { c_in: 5, c_out: 5, groups: 5, ..base }.size([20, 37]).dilation([2, 1]).pad([3, 1, 0, 2]),
        ConvGeom { c_in: 5, c_out: 5, groups: 5, ..base }
            .size([40, 90])
            .kernel([5, 3])
            .stride([3, 1])
            .pad([0, 2, 4, 9]),
        ConvGeom { c_in: 3, c_out: 3, groups: 3, ..base }.size([1, 150]).kernel([1, 15]).pad([0, 0, 7, 7]),
        ConvGeom { c_in: 3, c_out: 3, groups: 3, n: 2, ..s2(base) }.size([140, 130]).kernel([4, 4]).pad([1; 4]),
    ]
}

/// Enough small images that they are the lanes: strides, padding, dilation, groups, blocks of channels of all sizes,
/// and a last group of sixteen that is not full.
fn crowds() -> Vec<ConvGeom> {
    let base = geom(64, [3, 7], [5, 6], [3, 2]);
    let padded = ConvGeom { n: 70, ..base }.pad([2, 1, 1, 2]);
    vec![
        padded,
        padded.stride([1, 2]),
        ConvGeom { c_out: 9, ..padded }.dilation([1, 2]),
        ConvGeom { c_in: 6, c_out: 4, groups: 2, ..base }.kernel([5, 5]).pad([4; 4]),
        ConvGeom { c_in: 16, c_out: 8, ..base }.pad([1; 4]).kernel([3, 3]).size([5, 4]),
        ConvGeom { c_in: 5, c_out: 16, ..base }.kernel([5, 5]).size([8, 9]),
    ]
}

#[test]
fn matches_naive_loops_in_f64() {
    shapes().iter().for_each(|g| check::<f64>(g, 1e-11));
}

#[test]
fn matches_naive_loops_in_f32() {
    shapes().iter().for_each(|g| check::<f32>(g, 2e-4));
}

#[test]
fn gradients_are_adjoints() {
    shapes().iter().for_each(adjoint);
}

/// Random shapes: every size and attribute varies.
#[test]
fn matches_on_drawn_shapes() {
    let mut tried = 0;
    for seed in 0..400 {
        let draw = |i: usize, n: usize| ((hash_number(i, seed + 100) + 1.0) * 0.5 * n as f64) as usize;
        let groups = 1 + draw(0, 3);
        let g = ConvGeom {
            n: draw(1, 12),
            c_in: groups * (1 + draw(2, 3)),
            c_out: groups * (1 + draw(5, 10)),
            groups,
            windows: WindowGeometry {
                size: [1 + draw(3, 12), 1 + draw(4, 20)],
                kernel: [1 + draw(6, 4), 1 + draw(7, 4)],
                stride: [1 + draw(8, 3), 1 + draw(9, 3)],
                pad: [[draw(10, 5), draw(11, 5)], [draw(12, 5), draw(13, 5)]],
                dilation: [1 + draw(14, 3), 1 + draw(15, 3)],
            },
            winograd: false,
        };
        if g.count().is_ok() {
            check::<f64>(&g, 1e-11);
            adjoint(&g);
            tried += 1;
        }
    }
    assert!(tried > 200);
}

#[test]
fn long_sums_go_through_several_chunks() {
    let g = geom(1, [96, 40], [66, 60], [3, 3]).pad([1, 1, 1, 1]);
    adjoint(&g);
    let g = geom(2, [512, 520], [3, 3], [3, 3]).pad([1, 1, 1, 1]);
    adjoint(&g);
}

#[test]
fn every_instruction_set_gives_the_same_bits() {
    // Lanes are channels for the first weight, and positions for the others.
    let (many, few) = (geom(3, [5, 13], [9, 21], [3, 3]), geom(3, [3, 5], [9, 21], [5, 5]));
    let pad = |g: ConvGeom| g.pad([1, 1, 1, 1]);
    let lines = pad(many).size([5, 32]);
    let chosen = [pad(many), pad(few), pad(many).stride([2, 2]), lines].into_iter().chain(winograd::convolutions());
    for g in chosen.chain(crowds()).chain(channels()) {
        let (x, w, dy) =
            (hash_numbers::<f32>(g.x_len(), 1), hash_numbers::<f32>(g.w_len(), 2), hash_numbers::<f32>(g.y_len(), 3));
        let all = || [forward(&g, &x, &w, &[], true, 1), input(&g, &dy, &w, 1), weight(&g, &x, &dy, 1)];
        let best = all();
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            limit(isa);
            all().iter().zip(&best).for_each(|(a, b)| same(a, b, "bits", &g));
        }
        limit(detect_isa());
    }
}

/// Every way of computing a convolution, where another is chosen as well.
#[test]
fn every_way_matches_naive_loops() {
    for g in channels().into_iter().chain(shapes().into_iter().take(20)).filter(|g| g.n > 0) {
        let (x, w) = (hash_numbers::<f64>(g.x_len(), 1), hash_numbers::<f64>(g.w_len(), 2));
        let dy = hash_numbers::<f64>(g.y_len(), 3);
        let (mut y, mut dx, mut dw) = (vec![0.0; g.y_len()], vec![0.0; g.x_len()], vec![0.0; g.w_len()]);
        each(&g, |i, k, o| {
            y[o] += x[i] * w[k];
            dx[i] += dy[o] * w[k];
            dw[k] += dy[o] * x[i];
        });
        for (fold, cuts) in [(1, 1), (2, 3), (7, 2)] {
            let fold = fold.min(g.n);
            let lanes = |plan, channels| Way::Lanes(plan, Share::new(g.n, 1, channels));
            let product = |channels| Way::Product(Share::new(g.n, fold, channels));
            for way in [lanes(LanesPlan::forward(&g), g.c_out), product(g.c_out)] {
                let (division, scratch) = (
                    way.division([g.n, g.c_out, g.windows.out().iter().product::<usize>()]),
                    forward_scratch_of(&way, &g),
                );
                let got = run_divided(division, g.y_len(), scratch, cuts, |r, y, s| {
                    forward_by(&way, &g, (&x, &w, &[]), Act::None, r, y, s);
                });
                close(&got, &y, 1e-11, "y", &g);
            }
            for way in [lanes(LanesPlan::backward(&g), g.c_in), product(g.c_in)] {
                let (division, scratch) =
                    (way.division([g.n, g.c_in, g.windows.size.iter().product::<usize>()]), input_scratch_of(&way, &g));
                let got =
                    run_divided(division, g.x_len(), scratch, cuts, |r, dx, s| input_by(&way, &g, (&dy, &w), r, dx, s));
                close(&got, &dx, 1e-11, "dx", &g);
            }
        }
        for way in [WeightWay::Lanes, WeightWay::Product] {
            let (_, channels) = way.blocks(&g);
            let units = Units { count: g.c_out / channels, per_unit: channels * g.taps() };
            let got = run(units, g.w_len(), weight_scratch_of(way, &g), 2, |r, dw, s| {
                weight_by(way, &g, (&x, &dy), r, dw, s)
            });
            close(&got, &dw, 1e-11, "dw", &g);
        }
    }
}

/// NaN and infinities reach exactly the elements that depend on them.
#[test]
fn nan_reaches_only_what_reads_it() {
    for g in shapes().into_iter().filter(|g| g.x_len() > 0 && g.x_len() < 20_000) {
        let (x, w) = (hash_numbers::<f32>(g.x_len(), 1), hash_numbers::<f32>(g.w_len(), 2));
        let dy = hash_numbers::<f32>(g.y_len(), 3);
        for at in [0, g.windows.size[1] - 1, g.x_len() / 2, g.x_len() - 1] {
            let mut bad = x.clone();
            bad[at] = f32::NAN;
            let (mut y, mut dw) = (vec![false; g.y_len()], vec![false; g.w_len()]);
            each(&g, |i, k, o| {
                y[o] |= i == at;
                dw[k] |= i == at;
            });
            let nan = |v: &[f32]| v.iter().map(|v| v.is_nan()).collect::<Vec<_>>();
            assert_eq!(nan(&forward(&g, &bad, &w, &[], true, 1)), y, "y of {g:?}");
            assert_eq!(nan(&weight(&g, &bad, &dy, 1)), dw, "dw of {g:?}");
        }
        for at in [0, g.y_len() / 2, g.y_len() - 1] {
            let mut bad = dy.clone();
            bad[at] = f32::NAN;
            let mut dx = vec![false; g.x_len()];
            each(&g, |i, _, o| dx[i] |= o == at);
            let got: Vec<bool> = input(&g, &bad, &w, 1).iter().map(|v| v.is_nan()).collect();
            assert_eq!(got, dx, "dx of {g:?}");
        }
    }
}

#[test]
fn bad_geometries_are_errors() {
    let good = geom(1, [2, 4], [5, 5], [3, 3]);
    assert!(good.count().is_ok());
    let bad = [
        ConvGeom { c_in: 0, ..good },
        good.size([5, 0]),
        good.kernel([0, 3]),
        good.kernel([6, 3]),
        good.stride([0, 1]),
        good.dilation([1, 0]),
        good.dilation([1, 3]),
        ConvGeom { groups: 3, ..good },
        ConvGeom { groups: 0, ..good },
        good.pad([usize::MAX, 1, 0, 0]),
        good.dilation([usize::MAX, 1]),
        good.size([usize::MAX, 5]),
    ];
    bad.iter().for_each(|g| assert!(g.count().is_err(), "{g:?}"));
    assert_eq!(good.kernel([6, 3]).windows.out()[0], 0);
}

#[test]
fn images_are_the_lanes_where_there_are_many_small_ones() {
    let ways = |g: &ConvGeom| [ConvPlan::forward(g).images, ConvPlan::backward(g).images];
    let chosen: Vec<[bool; 2]> = crowds().iter().map(ways).collect();
    assert!(chosen.iter().filter(|w| w.contains(&true)).count() >= 4, "{chosen:?}");
    assert_eq!(ways(&ConvGeom { n: 63, ..crowds()[0] }), [false; 2]);
    assert_eq!(ways(&geom(64, [64, 64], [32, 32], [3, 3]).pad([1; 4])), [false; 2]);
}
