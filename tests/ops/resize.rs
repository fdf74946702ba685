//! Images of other sizes and at computed places, against loops that follow torch's documentation and sources, in f64.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::slopes::derivatives_agree;
use crate::common::{PLAIN, Tensor, TensorDraws, conform_distance, run};
use arenagrad::graph::window::{GridSample, GridSampling, Interpolation, Outside, Pool1d, Pool2d, Pool3d};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Missing, Var, grad};
use arenagrad::tools::ir::opdef::Domain;

const F64: DType = DType::F64;

fn graph(inputs: &[Tensor], f: impl for<'g> FnOnce(&[Var<'g>]) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("image");
    let xs: Vec<Var> = inputs.iter().enumerate().map(|(i, t)| g.input(&format!("x{i}"), &t.dims, t.dtype)).collect();
    let y = f(&xs);
    g.finish([y.named("y")]).unwrap_or_else(|e| panic!("{e}"))
}

/// The cubic convolution of Keys.
fn keys(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x <= 1.0 {
        (a + 2.0) * x.powi(3) - (a + 3.0) * x.powi(2) + 1.0
    } else if x < 2.0 {
        a * x.powi(3) - 5.0 * a * x.powi(2) + 8.0 * a * x - 4.0 * a
    } else {
        0.0
    }
}

/// A row of `n` with `out` elements, by its definition.
fn row(x: &[f64], out: usize, mode: Interpolation) -> Vec<f64> {
    let n = x.len();
    let scale = n as f64 / out as f64;
    let clamped = |j: i64| x[j.clamp(0, n as i64 - 1) as usize];
    let filtered = |i: usize, reach: f64, filter: &dyn Fn(f64) -> f64| {
        let (center, stretch) = (scale * (i as f64 + 0.5), scale.max(1.0));
        // All elements whose centres are within reach.
        let weights: Vec<f64> = (0..n)
            .map(|j| (j as f64 + 0.5 - center) / stretch)
            .map(|at| if at.abs() < reach { filter(at) } else { 0.0 })
            .collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() / sum
    };
    let cubic = |at: f64| {
        let left = at.floor();
        (-1..=2).map(|k| clamped(left as i64 + k) * keys(at - left - k as f64, -0.75)).sum()
    };
    let one = |i: usize| match mode {
        Interpolation::Cubic => cubic((i as f64 + 0.5) * scale - 0.5),
        Interpolation::CubicAligned if out == 1 => cubic(0.0),
        Interpolation::CubicAligned => cubic(i as f64 * (n - 1) as f64 / (out - 1) as f64),
        Interpolation::LinearAntialias => filtered(i, 1.0, &|at| 1.0 - at.abs()),
        Interpolation::CubicAntialias => filtered(i, 2.0, &|at| keys(at, -0.5)),
        other => panic!("{other:?}"),
    };
    (0..out).map(one).collect()
}

#[test]
fn cubic_and_antialiased_images_are_their_definitions() {
    let mut draw = TensorDraws(1);
    use Interpolation::*;
    for mode in [Cubic, CubicAligned, LinearAntialias, CubicAntialias] {
        for (from, to) in [([5, 7], [9, 3]), ([4, 4], [1, 8]), ([11, 3], [2, 3]), ([1, 2], [3, 5])] {
            let x = draw.tensor(F64, &[1, 2, from[0], from[1]], Domain::Real);
            let f = graph(std::slice::from_ref(&x), |v| v[0].interpolate(&to, mode));
            let got = run(&f, std::slice::from_ref(&x), PLAIN).remove(0);
            let mut want = Vec::new();
            for plane in x.data.chunks(from[0] * from[1]) {
                let rows: Vec<Vec<f64>> = plane.chunks(from[1]).map(|r| row(r, to[1], mode)).collect();
                let cols: Vec<Vec<f64>> =
                    (0..to[1]).map(|c| row(&rows.iter().map(|r| r[c]).collect::<Vec<_>>(), to[0], mode)).collect();
                want.extend((0..to[0]).flat_map(|r| cols.iter().map(move |c| c[r])));
            }
            assert!(conform_distance(&got.data, &want) < 1e-14, "{mode:?} {from:?} {to:?}");
        }
    }
}

/// A coordinate moved into 0..=n − 1 as torch's `compute_coordinates` does.
fn inside(at: f64, n: usize, opt: &GridSample) -> f64 {
    let most = n as f64 - 1.0;
    match opt.padding {
        Outside::Zeros => at,
        Outside::Border => at.clamp(0.0, most),
        Outside::Reflection => {
            let (low, high) = if opt.align_corners { (0.0, most) } else { (-0.5, most + 0.5) };
            let mut at = at;
            if low == high {
                return 0.0;
            }
            while at < low || at > high {
                at = if at < low { 2.0 * low - at } else { 2.0 * high - at };
            }
            at.clamp(0.0, most)
        }
        other => panic!("{other:?}"),
    }
}

/// A place in −1..=1 in pixels of an axis of n.
fn pixel(at: f64, n: usize, opt: &GridSample) -> f64 {
    match opt.align_corners {
        true => (at + 1.0) / 2.0 * (n as f64 - 1.0),
        false => ((at + 1.0) * n as f64 - 1.0) / 2.0,
    }
}

/// The next place whose pixel is no multiple of ½, where values jump and slopes do.
fn smooth(mut at: f64, n: usize, opt: &GridSample) -> f64 {
    let near = |at: f64| (2.0 * pixel(at, n, opt) - (2.0 * pixel(at, n, opt)).round()).abs() < 0.1;
    while near(at) && (n > 1 || !opt.align_corners) {
        at += 0.02;
    }
    at
}

/// One value of an image or a volume of `sizes`, at (x, y) or (x, y, z).
fn sample(pixels: &[f64], sizes: &[usize], place: &[f64], opt: &GridSample) -> f64 {
    let [n, rest @ ..] = sizes else { return pixels[0] };
    let (at, stride) = (pixel(place[rest.len()], *n, opt), rest.iter().product::<usize>());
    let taps: Vec<(f64, f64)> = match opt.mode {
        GridSampling::Nearest => vec![(inside(at, *n, opt).round_ties_even(), 1.0)],
        GridSampling::Linear => {
            let at = inside(at, *n, opt);
            (0..2).map(|k| at.floor() + f64::from(k)).map(|p| (p, 1.0 - (at - p).abs())).collect()
        }
        GridSampling::Cubic => {
            (-1..=2).map(|k| at.floor() + f64::from(k)).map(|p| (inside(p, *n, opt), keys(at - p, -0.75))).collect()
        }
        other => panic!("{other:?}"),
    };
    let there = taps.into_iter().filter(|(p, _)| (0.0..*n as f64).contains(p));
    there.map(|(p, weight)| weight * sample(&pixels[p as usize * stride..][..stride], rest, place, opt)).sum()
}

/// All options, each with an image of some rows, one of one row and a volume, and places inside and far outside.
fn for_each_grid(mut f: impl FnMut(GridSample, &[usize], &GraphBuf, &[Tensor; 2])) {
    let mut draw = TensorDraws(2);
    let sizes: [&[usize]; 3] = [&[4, 5], &[1, 3], &[3, 4, 5]];
    for mode in [GridSampling::Nearest, GridSampling::Linear, GridSampling::Cubic] {
        for padding in [Outside::Zeros, Outside::Border, Outside::Reflection] {
            for (align_corners, sizes) in [false, true].into_iter().flat_map(|on| sizes.map(|sizes| (on, sizes))) {
                let axes = sizes.len();
                if axes == 3 && mode == GridSampling::Cubic {
                    continue;
                }
                let opt = GridSample::default().mode(mode).padding(padding).align_corners(align_corners);
                let x = draw.tensor(F64, &[&[2, 3], sizes].concat(), Domain::Real);
                let mut grid = draw.tensor(F64, &[&[2, 3, 4, 2][..axes + 1], &[axes]].concat(), Domain::Real);
                grid.data[0] = 4.3;
                grid.data[axes + 1] = -5.2;
                for (i, at) in grid.data.iter_mut().enumerate() {
                    *at = smooth(*at, sizes[axes - 1 - i % axes], &opt);
                }
                let inputs = [x, grid];
                f(opt, sizes, &graph(&inputs, |v| v[0].grid_sample(v[1], opt)), &inputs);
            }
        }
    }
}

#[test]
fn images_at_computed_places_are_their_definitions() {
    for_each_grid(|opt, sizes, f, inputs| {
        let got = run(f, inputs, PLAIN).remove(0);
        let axes = sizes.len();
        let out = &inputs[1].dims[1..axes + 1];
        assert_eq!(got.dims, [&[2, 3], out].concat());
        let (area, each) = (sizes.iter().product(), out.iter().product::<usize>() * axes);
        let mut want = Vec::new();
        for (k, image) in inputs[0].data.chunks(area).enumerate() {
            let places = inputs[1].data[k / 3 * each..][..each].chunks(axes);
            want.extend(places.map(|p| sample(image, sizes, p, &opt)));
        }
        assert!(conform_distance(&got.data, &want) < 1e-13, "{opt:?} {sizes:?}\n{:?}\n{want:?}", got.data);
    });
}

#[test]
fn a_place_that_is_no_number_gives_nothing() {
    let mut draw = TensorDraws(2);
    let inputs = [
        draw.tensor(F64, &[1, 1, 2, 2], Domain::Real),
        Tensor { dtype: F64, dims: vec![1, 1, 1, 2], data: vec![f64::NAN, 0.0] },
    ];
    assert_eq!(run(&graph(&inputs, |v| v[0].grid_sample(v[1], GridSample::default())), &inputs, PLAIN)[0].data, [0.0]);
}

#[test]
fn a_cubic_place_has_the_weights_of_its_distances() {
    let opt = GridSample::default().mode(GridSampling::Cubic).padding(Outside::Border).align_corners(true);
    // At pixel 2.25 of the row.
    let inputs = [
        Tensor { dtype: F64, dims: vec![1, 1, 1, 6], data: vec![1.0, -2.0, 3.0, 5.0, 0.5, 2.5] },
        Tensor { dtype: F64, dims: vec![1, 1, 1, 2], data: vec![-0.1, 0.0] },
    ];
    let got = run(&graph(&inputs, |v| v[0].grid_sample(v[1], opt)), &inputs, PLAIN).remove(0);
    let want = sample(&inputs[0].data, &[1, 6], &[-0.1, 0.0], &opt);
    assert!(conform_distance(&got.data, &[want]) < 1e-13, "{:?}, not {want}", got.data);
}

#[test]
fn places_that_are_no_numbers_have_no_gradient() {
    let places = [f64::NAN, 0.2, f64::INFINITY, 0.3, 0.1, f64::NEG_INFINITY, 0.25, -0.25];
    for mode in [GridSampling::Nearest, GridSampling::Linear, GridSampling::Cubic] {
        for padding in [Outside::Zeros, Outside::Border] {
            let inputs = [
                Tensor { dtype: F64, dims: vec![1, 1, 2, 3], data: vec![1.0, -2.0, 3.0, 5.0, 0.5, 2.5] },
                Tensor { dtype: F64, dims: vec![1, 1, 4, 2], data: places.to_vec() },
            ];
            let f =
                graph(&inputs, |v| v[0].grid_sample(v[1], GridSample::default().mode(mode).padding(padding)).sum(..));
            let back = grad(&f, "y", &GradOptions::wrt(&["x0", "x1"]).missing(Missing::Zero)).unwrap();
            let all = run(&back, &inputs, PLAIN);
            assert!(all.iter().all(|t| t.data.iter().all(|x| x.is_finite())), "{mode:?} {padding:?} {all:?}");
            assert_eq!(all[2].data[..2], [0.0, 0.0], "{mode:?} {padding:?}");
        }
    }
}

#[test]
fn maxima_tell_where_they_were() {
    let x = Tensor { dtype: F64, dims: vec![1, 1, 2, 4], data: vec![1.0, 5.0, 2.0, 2.0, 5.0, 0.0, 3.0, 4.0] };
    let g = Builder::new("max");
    let [y, at] = g.input("x", [1, 1, 2, 4], F64).max_pool2d_with_indices(Pool2d::new([2, 2]));
    let f = g.finish([y.named("y"), at.named("at")]).unwrap();
    let outs = run(&f, &[x], PLAIN);
    assert_eq!((&outs[0].data[..], &outs[1].data[..]), (&[5.0, 4.0][..], &[1.0, 7.0][..]));
}

/// The first largest element of each window that lies in x, by loops: values and positions.
fn maxima(x: &Tensor, kernel: [usize; 3], stride: [usize; 3], pad: [usize; 3]) -> [Vec<f64>; 2] {
    let size = [x.dims[2], x.dims[3], x.dims[4]];
    let count = [0, 1, 2].map(|a| (size[a] + 2 * pad[a] - kernel[a]) / stride[a] + 1);
    let mut found = [Vec::new(), Vec::new()];
    for volume in x.data.chunks(size.iter().product()) {
        for o in 0..count.iter().product::<usize>() {
            let o = [o / (count[1] * count[2]), o / count[2] % count[1], o % count[2]];
            let mut best: Option<(f64, usize)> = None;
            for t in 0..kernel.iter().product::<usize>() {
                let t = [t / (kernel[1] * kernel[2]), t / kernel[2] % kernel[1], t % kernel[2]];
                let at = [0, 1, 2].map(|a| (o[a] * stride[a] + t[a]).wrapping_sub(pad[a]));
                if (0..3).any(|a| at[a] >= size[a]) {
                    continue;
                }
                let place = (at[0] * size[1] + at[1]) * size[2] + at[2];
                if best.is_none_or(|b| volume[place] > b.0) {
                    best = Some((volume[place], place));
                }
            }
            let (value, place) = best.unwrap();
            found[0].push(value);
            found[1].push(place as f64);
        }
    }
    found
}

#[test]
fn maxima_of_volumes_and_rows_tell_where_they_were() {
    let mut draw = TensorDraws(5);
    for (size, kernel, stride, pad) in [
        ([4, 5, 6], [2, 3, 2], [2, 2, 1], [1, 1, 0]),
        ([3, 2, 2], [3, 2, 1], [1, 1, 1], [0, 0, 0]),
        ([5, 4, 3], [2, 2, 2], [2, 2, 2], [1, 1, 1]),
    ] {
        let mut x = draw.tensor(F64, &[&[2, 3], &size[..]].concat(), Domain::Real);
        // With equal elements, the first wins.
        x.data.iter_mut().for_each(|v| *v = (*v * 3.0).round());
        let opt = Pool3d::new(kernel).stride(stride).padding(pad);
        let g = Builder::new("max");
        let [y, at] = g.input("x0", &x.dims, F64).max_pool3d_with_indices(opt);
        let f = g.finish([y.named("y"), at.named("at")]).unwrap();
        let outs = run(&f, std::slice::from_ref(&x), PLAIN);
        assert_eq!([&outs[0].data, &outs[1].data], maxima(&x, kernel, stride, pad).each_ref(), "{size:?}");
        assert_eq!(outs[0].data, run(&graph(&[x.clone()], |v| v[0].max_pool3d(opt)), &[x.clone()], PLAIN)[0].data);
        let (back, plain) =
            (graph(&[x.clone()], |v| v[0].max_pool3d_with_indices(opt)[0].sum(..)), GradOptions::wrt(&["x0"]));
        let slopes = run(&grad(&back, "y", &plain).unwrap(), &[x.clone()], PLAIN).remove(1).data;
        let mut want = vec![0.0; x.data.len()];
        let (per, volume) = (outs[1].data.len() / 6, size.iter().product::<usize>());
        for (i, at) in outs[1].data.iter().enumerate() {
            want[i / per * volume + *at as usize] += 1.0;
        }
        assert_eq!(slopes, want);
    }
    let x = draw.tensor(F64, &[2, 2, 9], Domain::Real);
    let g = Builder::new("max");
    let [y, at] = g.input("x0", &x.dims, F64).max_pool1d_with_indices(Pool1d::new(3).stride(2).padding(1));
    let f = g.finish([y.named("y"), at.named("at")]).unwrap();
    let outs = run(&f, std::slice::from_ref(&x), PLAIN);
    let volume = Tensor { dims: vec![2, 2, 1, 1, 9], ..x };
    assert_eq!([&outs[0].data, &outs[1].data], maxima(&volume, [1, 1, 3], [1, 1, 2], [0, 0, 1]).each_ref());
    assert_eq!(outs[0].dims, [2, 2, 5]);
}

/// One row is the row itself, wherever a place lies above or below it.
#[test]
fn a_row_mirrored_at_its_own_centre_is_a_row() {
    for mode in [GridSampling::Nearest, GridSampling::Linear, GridSampling::Cubic] {
        let opt = GridSample::default().mode(mode).padding(Outside::Reflection).align_corners(true);
        let places = [-1.0, -3.0, 0.0, 0.0, 1.0, 0.5, 1.0, 7.0];
        let inputs = [
            Tensor { dtype: F64, dims: vec![1, 1, 1, 3], data: vec![2.0, 3.0, 5.0] },
            Tensor { dtype: F64, dims: vec![1, 1, 4, 2], data: places.to_vec() },
        ];
        let got = run(&graph(&inputs, |v| v[0].grid_sample(v[1], opt)), &inputs, PLAIN).remove(0);
        assert_eq!(got.data, [2.0, 3.0, 5.0, 5.0], "{mode:?}");
    }
}

#[test]
fn an_infinite_element_reaches_no_further_than_its_neighbours() {
    let x = Tensor { dtype: F64, dims: vec![1, 1, 3], data: vec![0.0, f64::INFINITY, 2.0] };
    let f = graph(std::slice::from_ref(&x), |v| v[0].interpolate(&[6], Interpolation::Linear));
    // The last element lies behind the centre of the last one.
    assert_eq!(run(&f, &[x], PLAIN)[0].data[5], 2.0);
}

/// x / (k + alpha/size·Σ x²)^beta over the channels c − size/2 … c + (size − 1)/2.
#[test]
fn responses_are_divided_by_their_neighbours() {
    let x = TensorDraws(3).tensor(F64, &[2, 5, 3], Domain::Real);
    for size in [1, 2, 5, 40] {
        let f = graph(std::slice::from_ref(&x), |v| v[0].local_response_norm(size, 0.3, 0.75, 2.0));
        let at = |n: usize, c: usize, i: usize| x.data[(n * 5 + c) * 3 + i];
        let one = |k: usize| {
            let (n, c, i) = (k / 15, k / 3 % 5, k % 3);
            let near = (0..5).filter(|&o| o + size / 2 >= c && o <= c + (size - 1) / 2);
            at(n, c, i) / (2.0 + 0.3 / size as f64 * near.map(|o| at(n, o, i).powi(2)).sum::<f64>()).powf(0.75)
        };
        let want: Vec<f64> = (0..30).map(one).collect();
        let got = run(&f, std::slice::from_ref(&x), PLAIN).remove(0).data;
        assert!(conform_distance(&got, &want) < 1e-14, "{size}");
        derivatives_agree(&f, std::slice::from_ref(&x));
    }
}

#[test]
fn what_does_not_fit_is_named() {
    fn error(f: for<'g> fn(&'g Builder, Var<'g>) -> Var<'g>) -> String {
        let g = Builder::new("bad");
        f(&g, g.input("x", [2, 3, 4, 5], F64));
        g.finish([]).unwrap_err().to_string()
    }
    for (e, parts) in [
        (error(|g, x| x.grid_sample(g.input("p", [2, 4, 2], F64), GridSample::default())), ["grid_sample", "[2,4,2]"]),
        (error(|g, x| x.grid_sample(g.input("p", [1, 4, 4, 2], F64), GridSample::default())), ["grid_sample", "one N"]),
        (
            error(|g, x| x.narrow(2, 0, 0).grid_sample(g.input("p", [2, 4, 4, 2], F64), GridSample::default())),
            ["grid_sample", "0 × 5 pixels"],
        ),
        (
            error(|g, x| x.narrow(3, 0, 0).grid_sample(g.input("p", [2, 4, 4, 2], F64), GridSample::default())),
            ["grid_sample", "4 × 0 pixels"],
        ),
        (
            error(|g, x| x.grid_sample(g.input("p", [2, 4, 4, 2], DType::F32), GridSample::default())),
            ["grid_sample", "places are f32[2,4,4,2]; floats of one type"],
        ),
        (
            error(|g, x| x.cast(DType::I32).grid_sample(g.input("p", [2, 4, 4, 2], DType::I32), GridSample::default())),
            ["grid_sample", "places are i32[2,4,4,2]; floats of one type"],
        ),
        (
            error(|g, _| {
                let x = g.input("wide", [1, 1, 1 << 14, (1 << 14) + 1], F64);
                x.grid_sample(g.input("p", [1, 1, 1, 2], F64), GridSample::default())
            }),
            ["grid_sample", "16384 × 16385 pixels; 1 to 268435456 are allowed"],
        ),
        (
            error(|g, _| {
                let x = g.input("volume", [1, 1, 2, 3, 4], F64);
                x.grid_sample(g.input("p", [1, 1, 1, 2], F64), GridSample::default())
            }),
            ["grid_sample", "places have shape [1,1,1,2]"],
        ),
        (
            error(|g, _| {
                let x = g.input("volume", [1, 1, 2, 3, 4], F64);
                let places = g.input("p", [1, 1, 1, 1, 3], F64);
                x.grid_sample(places, GridSample::default().mode(GridSampling::Cubic))
            }),
            ["grid_sample", "volumes are read in the modes linear and nearest"],
        ),
        (error(|_, x| x.local_response_norm(0, 1.0, 1.0, 1.0)), ["local_response_norm", "size 0"]),
        (error(|_, x| x.max_pool2d_with_indices(Pool2d::new([9, 1]))[0]), ["max_pool2d", "9"]),
        (error(|_, x| x.max_pool1d_with_indices(Pool1d::new(1))[0]), ["max_pool1d", "rank 3"]),
        (error(|_, x| x.unsqueeze(0).max_pool3d_with_indices(Pool3d::new([1, 9, 1]))[1]), ["max_pool3d", "9"]),
        (
            error(|g, _| {
                let x = g.input("row", [1, 1, 2], F64);
                x.max_pool1d_with_indices(Pool1d::new(2).dilation(3).padding(1))[0]
            }),
            ["max_pool1d(", "dilation 3 steps over the length 2 of a padded input"],
        ),
        (
            error(|g, _| {
                let x = g.input("volume", [1, 1, 2, 9, 9], F64);
                x.max_pool3d_with_indices(Pool3d::new([2, 1, 1]).dilation([3, 1, 1]).padding([1, 0, 0]))[1]
            }),
            ["max_pool3d(", "dilation 3 steps over the depth 2 of a padded input"],
        ),
        (
            error(|g, _| {
                let x = g.input("volume", [1, 1, 2048, 1024, 1024], F64);
                x.max_pool3d_with_indices(Pool3d::new([1; 3]))[0]
            }),
            ["max_pool3d(", "a volume of 2048 × 1024 × 1024 has more places than i32"],
        ),
        (
            error(|_, x| x.batch_norm_inference(x.sum([0, 2, 3]), x.sum([0, 2, 3]), [x.sum([0, 1, 2]); 2], 1, 0.0)),
            ["batch_norm_inference", "the mean"],
        ),
        (error(|_, x| x.batch_norm_inference(x, x, [x; 2], 4, 0.0)), ["batch_norm_inference", "axis 4"]),
    ] {
        assert!(parts.iter().all(|p| e.contains(p)) && e.contains("tests/ops/resize.rs"), "{e} {parts:?}");
    }
}
