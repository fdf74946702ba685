//! Pools against naive loops, adjoint identities, NaN, and entry points with several ranges of units.

use super::avg_pool;
use super::geom::PoolDivisor;
use super::max_pool;
use super::*;
use crate::abi::{ArenaPtr, Args, Kernel, OperandRef, Split};
use crate::fault::Fault;
use crate::float::Float;
use crate::harness::{self, hash_number, hash_numbers};
use crate::window::{Units, WindowGeometry};
use arenagrad_arena::tensor::TensorArena;

/// The taps of output `y` of one plane, in order: positions in the input plane.
fn taps(g: &PoolGeom, y: usize) -> Vec<usize> {
    let WindowGeometry { size: [h, w], kernel: [kh, kw], stride, pad, dilation } = g.windows;
    let out = [y / g.windows.out()[1], y % g.windows.out()[1]];
    let at = |a: usize, tap: usize| (out[a] * stride[a] + tap * dilation[a]).wrapping_sub(pad[a][0]);
    let all = (0..kh).flat_map(|i| (0..kw).map(move |j| [at(0, i), at(1, j)]));
    all.filter(|[row, col]| *row < h && *col < w).map(|[row, col]| row * w + col).collect()
}

fn geom(n: usize, c: usize, windows: WindowGeometry<2>) -> PoolGeom {
    PoolGeom { n, c, windows }
}

fn shapes() -> Vec<PoolGeom> {
    let g = |n, c, size, kernel, stride| geom(n, c, WindowGeometry { stride, ..WindowGeometry::new(size, kernel) });
    vec![
        g(2, 3, [8, 8], [2, 2], [2, 2]),
        g(2, 3, [9, 7], [2, 2], [2, 2]),
        g(2, 3, [28, 34], [2, 2], [2, 2]),
        g(2, 3, [6, 4], [2, 2], [2, 2]),
        g(2, 3, [4, 10], [2, 2], [2, 2]),
        g(2, 3, [6, 28], [2, 2], [2, 2]),
        g(0, 3, [8, 8], [2, 2], [2, 2]),
        g(1, 1, [1, 1], [1, 1], [1, 1]),
        g(3, 2, [7, 7], [7, 7], [1, 1]),
        g(2, 2, [9, 11], [3, 3], [1, 1]),
        g(2, 3, [9, 23], [2, 5], [2, 5]),
        g(1, 2, [4, 40], [4, 40], [1, 1]),
        g(2, 2, [5, 41], [2, 19], [1, 3]).pad([1, 0, 2, 7]),
        g(2, 2, [9, 12], [3, 3], [2, 2]).pad([1, 1, 1, 1]),
        g(2, 2, [8, 71], [3, 3], [2, 2]).pad([1, 1, 1, 1]),
        g(2, 2, [7, 32], [3, 3], [2, 2]).pad([0, 1, 1, 0]),
        g(1, 2, [6, 6], [3, 3], [2, 2]),
        g(2, 2, [9, 12], [3, 4], [3, 1]).pad([0, 2, 1, 0]),
        g(2, 3, [3, 24], [1, 4], [1, 4]),
        g(2, 2, [2, 9], [1, 3], [1, 3]),
        g(1, 2, [1, 70], [1, 2], [1, 2]),
        g(2, 2, [11, 11], [2, 3], [4, 5]),
        g(1, 2, [3, 4], [2, 3], [1, 2]).pad([3, 3, 4, 5]),
        g(300, 7, [2, 3], [2, 2], [1, 1]).pad([1, 1, 1, 1]),
    ]
}

fn dilated() -> Vec<PoolGeom> {
    let mut all = shapes();
    let pad = [[2, 1], [3, 2]];
    let windows = WindowGeometry { size: [9, 12], kernel: [3, 3], stride: [2, 1], pad, dilation: [2, 3] };
    all.push(geom(2, 2, windows));
    let windows = WindowGeometry { pad: [[2, 3]; 2], dilation: [5, 5], ..WindowGeometry::new([1, 1], [2, 2]) };
    all.push(geom(2, 2, windows));
    all
}

impl PoolGeom {
    /// Elements of x and dx.
    fn x_len(&self) -> usize {
        self.n * self.c * self.areas()[0]
    }

    /// Elements of y and dy.
    fn y_len(&self) -> usize {
        self.n * self.c * self.areas()[1]
    }

    /// With padding above, below, left and right.
    fn pad(mut self, [t, b, l, r]: [usize; 4]) -> PoolGeom {
        self.windows.pad = [[t, b], [l, r]];
        self
    }
}

fn close<T: Float>(got: &[T], want: &[f64], g: &PoolGeom) {
    assert_eq!(got.len(), want.len());
    for (a, b) in got.iter().zip(want) {
        let tol = if size_of::<T>() == 4 { 1e-5 } else { 1e-12 };
        assert!((a.to_f64() - b).abs() <= tol * (1.0 + b.abs()) || a.to_f64() == *b, "{a:?} for {b} in {g:?}");
    }
}

fn check_max<T: Float>(g: &PoolGeom) {
    assert_eq!(PoolGeom::from_words(&g.to_words()), *g);
    // Few distinct values: the first of equal elements must win.
    let x: Vec<T> = (0..g.x_len()).map(|i| T::from_f64((hash_number(i, 1) * 3.0).round())).collect();
    let [image, area] = g.areas();
    let (mut y, mut idx) = (vec![T::NAN; g.y_len()], vec![7; g.y_len()]);
    max_pool::largest_of_planes(g, &x, &mut y, &mut idx);
    let mut alone = vec![T::NAN; g.y_len()];
    max_pool::largest_of_planes(g, &x, &mut alone, &mut []);
    assert_eq!(bytemuck::cast_slice::<T, u8>(&y), bytemuck::cast_slice::<T, u8>(&alone));
    for (o, (y, i)) in y.iter().zip(&idx).enumerate() {
        let x = &x[o / area * image..][..image];
        let (mut best, mut at) = (f64::NEG_INFINITY, -1);
        for t in taps(g, o % area) {
            if at < 0 || x[t].to_f64() > best {
                (best, at) = (x[t].to_f64(), t as i32);
            }
        }
        assert_eq!((y.to_f64(), *i), (best, at), "{o} in {g:?}");
    }
    let (v, dy) = (hash_numbers::<f64>(g.x_len(), 3), hash_numbers::<f64>(g.y_len(), 2));
    let (mut dx, mut jv) = (vec![f64::NAN; g.x_len()], vec![f64::NAN; g.y_len()]);
    assert_eq!(max_pool::scatter_gradients(g, &dy, &idx, &mut dx), None);
    assert_eq!(max_pool::gather_at_indices(g, &v, &idx, &mut jv), None);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    assert!((dot(&v, &dx) - dot(&jv, &dy)).abs() < 1e-10, "{g:?}");
    let total: f64 = dy.iter().zip(&idx).filter(|(_, i)| **i >= 0).map(|(d, _)| d).sum();
    assert!((dx.iter().sum::<f64>() - total).abs() < 1e-10);
}

fn check_avg<T: Float>(g: &PoolGeom, by: PoolDivisor) {
    let (x, dy) = (hash_numbers::<T>(g.x_len(), 1), hash_numbers::<T>(g.y_len(), 2));
    let [image, area] = g.areas();
    let (mut want, mut want_dx) = (vec![0.0; g.y_len()], vec![0.0; g.x_len()]);
    for o in 0..g.y_len() {
        let (taps, at) = (taps(g, o % area), o / area * image);
        let d = match by {
            PoolDivisor::Window => g.windows.kernel.iter().product(),
            PoolDivisor::Image => taps.len().max(1),
            PoolDivisor::One => 1,
        } as f64;
        for t in taps {
            want[o] += x[at + t].to_f64() / d;
            want_dx[at + t] += dy[o].to_f64() / d;
        }
    }
    let (mut y, mut dx) = (vec![T::NAN; g.y_len()], vec![T::NAN; g.x_len()]);
    avg_pool::average_planes(g, by, &x, &mut y);
    close(&y, &want, g);
    avg_pool::spread_gradients(g, by, &dy, &mut dx);
    close(&dx, &want_dx, g);
    let dot = |a: &[T], b: &[T]| a.iter().zip(b).map(|(a, b)| a.to_f64() * b.to_f64()).sum::<f64>();
    let tol = if size_of::<T>() == 4 { 1e-3 } else { 1e-10 };
    assert!((dot(&x, &dx) - dot(&y, &dy)).abs() < tol, "{g:?}");
}

#[test]
fn max_pools_match_naive_loops() {
    for g in dilated() {
        check_max::<f32>(&g);
        check_max::<f64>(&g);
    }
}

#[test]
fn average_pools_match_naive_loops() {
    let divisors = [PoolDivisor::Window, PoolDivisor::Image, PoolDivisor::One];
    for (g, by) in shapes().iter().flat_map(|g| divisors.map(|by| (g, by))) {
        check_avg::<f32>(g, by);
        check_avg::<f64>(g, by);
    }
}

#[test]
fn nan_wins_and_the_first_one() {
    for g in dilated().into_iter().filter(|g| g.x_len() > 0) {
        let mut x = hash_numbers::<f32>(g.x_len(), 1);
        let bad: Vec<usize> = (0..g.x_len()).filter(|i| hash_number(*i, 9) > 0.5).collect();
        bad.iter().for_each(|i| x[*i] = f32::NAN);
        let (mut y, mut idx) = (vec![0f32; g.y_len()], vec![0; g.y_len()]);
        max_pool::largest_of_planes(&g, &x, &mut y, &mut idx);
        let mut alone = vec![0f32; g.y_len()];
        max_pool::largest_of_planes(&g, &x, &mut alone, &mut []);
        let [image, area] = g.areas();
        for o in 0..g.y_len() {
            let first = taps(&g, o % area).into_iter().find(|t| x[o / area * image + t].is_nan());
            assert_eq!(y[o].is_nan(), first.is_some());
            assert_eq!(alone[o].is_nan(), first.is_some());
            assert!(first.is_none_or(|t| idx[o] == t as i32));
        }
    }
}

#[test]
fn minus_infinity_has_an_index() {
    let g = geom(1, 1, WindowGeometry { pad: [[1, 0]; 2], ..WindowGeometry::new([2, 2], [2, 2]) });
    let (mut y, mut idx) = ([0f32; 4], [9; 4]);
    max_pool::largest_of_planes(&g, &[f32::NEG_INFINITY; 4], &mut y, &mut idx);
    assert_eq!(idx, [0, 0, 0, 0]);
    let bad = [0, 4, -2, -1];
    assert_eq!(max_pool::scatter_gradients(&g, &[1f32; 4], &bad, &mut [0.0; 4]), Some(1));
    assert_eq!(max_pool::gather_at_indices(&g, &[1f32; 4], &bad, &mut [0.0; 4]), Some(1));
}

/// Runs an entry point over `cuts` ranges of units on an arena of two f32 or i32 reads and writes; returns the writes.
#[allow(unsafe_code)]
fn run(
    kernel: Kernel,
    params: &[u64],
    reads: &[&[u8]],
    writes: &[usize],
    units: Units,
    cuts: usize,
) -> (Vec<u8>, Option<usize>) {
    let mut arena = TensorArena::new(1 << 22).unwrap();
    let mut at = 0;
    let mut place = |len: usize, split| {
        let slot = OperandRef::new(at, len, 4, split);
        at += (len * 4).next_multiple_of(64);
        slot
    };
    let slots: Vec<OperandRef> = reads.iter().map(|r| place(r.len() / 4, Split::Whole)).collect();
    let outs: Vec<OperandRef> = writes.iter().map(|w| place(*w, Split::PerUnit(units.per_unit))).collect();
    for (s, r) in slots.iter().zip(reads) {
        arena.bytes_mut()[s.off..][..r.len()].copy_from_slice(r);
    }
    let (frame, fault) = (ArenaPtr::new(arena.bytes_mut()), Fault::default());
    let only = harness::Operands::new(frame, slots.iter().chain(&outs));
    for i in 0..cuts {
        let range = units.count * i / cuts..units.count * (i + 1) / cuts;
        // SAFETY: the operands are disjoint parts of the arena, which is not touched until the calls are over.
        kernel(&mut unsafe { Args::new(frame, &slots, &outs, params, range, 0, &fault) });
    }
    drop(only);
    let bytes = outs.iter().flat_map(|s| arena.bytes()[s.off..][..s.len * 4].to_vec()).collect();
    (bytes, fault.get().map(|bad| bad.element))
}

#[test]
fn entry_points_give_the_same_bits_for_all_ranges() {
    for g in shapes() {
        let (x, dy) = (hash_numbers::<f32>(g.x_len(), 1), hash_numbers::<f32>(g.y_len(), 2));
        let (mut y, mut idx) = (vec![0f32; g.y_len()], vec![0; g.y_len()]);
        max_pool::largest_of_planes(&g, &x, &mut y, &mut idx);
        let (x, dy, i): (&[u8], &[u8], &[u8]) =
            (bytemuck::cast_slice(&x), bytemuck::cast_slice(&dy), bytemuck::cast_slice(&idx));
        let mut words = g.to_words().to_vec();
        words.push(0);
        let (nx, ny) = (g.x_len(), g.y_len());
        let calls: [(Kernel, &[&[u8]], &[usize], Units); 6] = [
            (max_pool_kernel::<f32>, &[x], &[ny, ny], g.y_units()),
            (max_pool_kernel::<f32>, &[x], &[ny], g.y_units()),
            (max_pool_backward_kernel::<f32>, &[dy, i], &[nx], g.x_units()),
            (max_pool_gather_kernel::<f32>, &[x, i], &[ny], g.y_units()),
            (avg_pool_kernel::<f32>, &[x], &[ny], g.y_units()),
            (avg_pool_backward_kernel::<f32>, &[dy], &[nx], g.x_units()),
        ];
        for (kernel, reads, writes, units) in calls {
            let one = run(kernel, &words, reads, writes, units, 1);
            for cuts in [2, 3, 7] {
                assert_eq!(one, run(kernel, &words, reads, writes, units, cuts), "{g:?}");
            }
            assert_eq!(one.1, None);
        }
        let got = run(max_pool_kernel::<f32>, &words, &[x], &[ny, ny], g.y_units(), 1).0;
        assert_eq!(got, [bytemuck::cast_slice(&y), i].concat());
    }
}

#[test]
fn a_bad_index_is_a_fault() {
    let g = geom(64, 64, WindowGeometry { stride: [2, 2], ..WindowGeometry::new([2, 2], [2, 2]) });
    let dy = vec![1f32; g.y_len()];
    let mut idx = vec![0; g.y_len()];
    idx[4000] = 4;
    idx[4001] = -5;
    let reads: [&[u8]; 2] = [bytemuck::cast_slice(&dy), bytemuck::cast_slice(&idx)];
    let (_, fault) = run(max_pool_backward_kernel::<f32>, &g.to_words(), &reads, &[g.x_len()], g.x_units(), 2);
    assert_eq!(fault, Some(4000));
}
