//! Convolutions, pools, columns, resizing and padding against torch, in f64: results, and gradients of every operand.
//! And what none of them accepts.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::slopes::derivatives_agree;
use crate::common::{PLAIN, Tensor, TensorDraws, conform_distance, run};
use arenagrad::graph::window::{Conv3d, ConvTranspose, Interpolation, PadMode, Pool1d, Pool2d, Pool3d, Unfold};
use arenagrad::graph::{Builder, DType, GradOptions, Var, Vmap, grad};
use arenagrad::nn;
use arenagrad::session::Session;
use arenagrad::tools::ir::opdef::Domain;
use safetensors::SafeTensors;
use std::path::Path;

/// Checks one case of the fixture. Operands are leaves, in the order of torch's; what they hold is cut from the
/// fixture's `pool`, the one after the other, and so are the weights of the squares that the gradients are of.
fn agrees(case: &str, f: impl for<'g> Fn(&'g Builder) -> Var<'g>) {
    let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/windows.safetensors")).unwrap();
    let fixture = SafeTensors::deserialize(&bytes).unwrap();
    let pool: Vec<f64> =
        fixture.tensor("pool").unwrap().data().as_chunks().0.iter().map(|&b| f32::from_le_bytes(b).into()).collect();
    let want: Vec<f64> =
        fixture.tensor(case).unwrap().data().as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect();
    let from_pool = |n: usize, at: usize, step: usize| (0..n).map(|i| pool[(i * step + at) % pool.len()]).collect();
    let g = Builder::new(case);
    let y = f(&g);
    let weights: Vec<f64> = from_pool(y.numel(), 3, 7);
    let loss = (y * y * g.constant_f64(&weights, y.dims())).sum(..);
    let graph = g.finish([y.named("y"), loss.named("loss")]).unwrap_or_else(|e| panic!("{case}: {e}"));
    let v = graph.view();
    let leaves: Vec<(String, usize)> = v.leaves().map(|l| (l.name.to_string(), v.numel(l.value))).collect();
    let wrt: Vec<&str> = leaves.iter().map(|l| l.0.as_str()).collect();
    let step = grad(v, "loss", &GradOptions::wrt(&wrt)).unwrap();
    let mut p = Session::new().compile(&step).unwrap();
    let mut at = 0;
    for (name, n) in &leaves {
        let to = p.values_mut::<f64>(name);
        let data: Vec<f64> = from_pool(*n, at, 1);
        to.unwrap().copy_from_slice(&data);
        at += n;
    }
    p.step().unwrap();
    let mut got = p.values::<f64>("y").unwrap().to_vec();
    for name in wrt {
        got.extend(p.values::<f64>(&format!("grad.{name}")).unwrap());
    }
    assert_eq!(got.len(), want.len(), "{case}");
    for (i, (a, b)) in got.iter().zip(&want).enumerate() {
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{case}[{i}] is {a}, torch has {b}");
    }
}

fn x<'g>(g: &'g Builder, dims: &[usize]) -> Var<'g> {
    g.input("x", dims, DType::F64)
}

#[test]
fn convolutions_over_three_axes() {
    let o = Conv3d::default().stride([2, 1, 2]).pad([1, 1, 0, 0, 2, 2]).dilation([1, 2, 1]).groups(2);
    agrees("conv3d", |g| nn::conv3d(g, "n", x(g, &[2, 2, 4, 4, 3]), 2, [3, 2, 3], o));
    agrees("conv3d_plain", |g| nn::conv3d(g, "n", x(g, &[1, 2, 2, 3, 3]), 2, [2, 2, 2], Conv3d::default()));
}

#[test]
fn transposed_convolutions_over_one_and_three_axes() {
    let o = nn::ConvTranspose1d::default().stride([3]).pad([2]).output_pad([2]).groups(2);
    agrees("turned1d", |g| nn::conv_transpose1d(g, "n", x(g, &[2, 2, 4]), 4, [3], o));
    // More at the end than a stride: what lies beyond the last tap is zero.
    let o = nn::ConvTranspose1d::default().pad([1]).output_pad([2]).dilation([3]);
    agrees("turned1d_far", |g| nn::conv_transpose1d(g, "n", x(g, &[1, 2, 4]), 2, [2], o));
    let o =
        ConvTranspose::default().stride([2, 1, 3]).pad([1, 0, 1]).output_pad([1, 0, 2]).dilation([1, 2, 1]).groups(2);
    agrees("turned3d", |g| nn::conv_transpose3d(g, "n", x(g, &[1, 2, 2, 3, 2]), 2, [3, 2, 2], o));
}

#[test]
fn pools_of_maxima_and_minima() {
    let ceil = |p: Pool2d| p.ceil_mode(true);
    agrees("max1d", |g| nn::max_pool1d(x(g, &[2, 2, 9]), Pool1d::new([3]).stride([2]).padding([1]).dilation([2])));
    agrees("max1d_ceil", |g| {
        nn::max_pool1d(x(g, &[1, 3, 7]), Pool1d::new([2]).stride([3]).padding([1]).ceil_mode(true))
    });
    let o = Pool2d::new([3, 2]).stride([2, 2]).padding([1, 0]).dilation([1, 2]);
    agrees("max2d_ceil", |g| nn::max_pool2d(x(g, &[1, 1, 6, 7]), ceil(o)));
    let o = Pool3d::new([3, 2, 2]).stride([2, 3, 1]).padding([1, 1, 0]).dilation([1, 1, 2]);
    agrees("max3d", |g| nn::max_pool3d(x(g, &[1, 1, 5, 4, 5]), o));
    agrees("max3d_ceil", |g| nn::max_pool3d(x(g, &[1, 1, 6, 5, 4]), o.ceil_mode(true)));
    agrees("min2d", |g| nn::min_pool2d(x(g, &[1, 1, 5, 6]), Pool2d::new([3, 3]).stride([2, 2]).padding([1, 1])));
}

#[test]
fn pools_of_means_and_sums() {
    let one = Pool1d::new([3]).stride([2]).padding([1]);
    agrees("avg1d", |g| nn::avg_pool1d(x(g, &[1, 2, 8]), one.ceil_mode(true)));
    agrees("avg1d_apart", |g| nn::avg_pool1d(x(g, &[1, 2, 8]), one.count_include_pad(false)));
    let two = Pool2d::new([3, 2]).stride([2, 3]).padding([1, 1]).ceil_mode(true);
    agrees("avg2d_ceil", |g| nn::avg_pool2d(x(g, &[1, 1, 6, 6]), two));
    let apart = two.count_include_pad(false);
    agrees("avg2d_ceil_apart", |g| nn::avg_pool2d(x(g, &[1, 1, 6, 6]), apart));
    let wide = Pool2d::new([5, 2]).stride([4, 2]).ceil_mode(true);
    agrees("avg2d_wide", |g| nn::avg_pool2d(x(g, &[1, 2, 3, 3]), wide));
    let by = Pool2d::new([2, 2]).padding([1, 1]).divisor_override(3);
    agrees("avg2d_by", |g| nn::avg_pool2d(x(g, &[1, 1, 5, 4]), by));
    let three = Pool3d::new([2, 3, 2]);
    agrees("avg3d", |g| nn::avg_pool3d(x(g, &[1, 1, 4, 5, 3]), three.stride([2, 2, 1]).padding([1, 1, 0])));
    let three = three.stride([2, 2, 3]).ceil_mode(true);
    agrees("avg3d_ceil", |g| nn::avg_pool3d(x(g, &[1, 1, 3, 4, 4]), three.padding([1, 1, 0])));
    let apart = three.padding([1, 1, 1]).count_include_pad(false);
    agrees("avg3d_apart", |g| nn::avg_pool3d(x(g, &[1, 1, 3, 4, 4]), apart));
    agrees("sum3d", |g| nn::sum_pool3d(x(g, &[1, 1, 4, 3, 5]), Pool3d::new([2; 3]).padding([1; 3])));
}

#[test]
fn pools_to_a_given_size() {
    agrees("most1d", |g| nn::adaptive_max_pool1d(x(g, &[1, 2, 7]), [4]));
    agrees("most2d", |g| nn::adaptive_max_pool2d(x(g, &[1, 1, 7, 4]), [3, 5]));
    agrees("most3d", |g| nn::adaptive_max_pool3d(x(g, &[1, 1, 5, 4, 3]), [2, 3, 2]));
    agrees("mean1d", |g| nn::adaptive_avg_pool1d(x(g, &[1, 2, 7]), [5]));
    agrees("mean2d", |g| nn::adaptive_avg_pool2d(x(g, &[1, 1, 7, 6]), [3, 2]));
    agrees("mean2d_one", |g| nn::adaptive_avg_pool2d(x(g, &[1, 3, 3, 4]), [1, 1]));
    agrees("mean3d", |g| nn::adaptive_avg_pool3d(x(g, &[1, 1, 3, 2, 3]), [2, 5, 2]));
}

#[test]
fn columns() {
    let o = Unfold::new([2, 3]).stride([1, 2]).pad([1, 1, 2, 2]).dilation([2, 1]);
    agrees("unfold", |g| nn::unfold(x(g, &[1, 1, 4, 3]), o));
    agrees("fold", |g| nn::fold(x(g, &[1, 6, 12]), [4, 3], o));
}

#[test]
fn resizing() {
    use Interpolation::{Linear, LinearAligned, Nearest, NearestExact};
    agrees("nearest1d", |g| nn::interpolate(x(g, &[1, 2, 5]), &[7], Nearest));
    agrees("nearest2d", |g| nn::interpolate(x(g, &[1, 1, 3, 5]), &[7, 3], Nearest));
    agrees("nearest2d_times", |g| nn::upsample(x(g, &[1, 2, 3, 2]), 2, Nearest));
    agrees("exact2d", |g| nn::interpolate(x(g, &[1, 1, 3, 5]), &[7, 3], NearestExact));
    agrees("linear1d", |g| nn::interpolate(x(g, &[1, 2, 4]), &[7], Linear));
    agrees("bilinear", |g| nn::interpolate(x(g, &[1, 1, 3, 5]), &[7, 3], Linear));
    agrees("bilinear_aligned", |g| nn::interpolate(x(g, &[1, 1, 4, 5]), &[6, 3], LinearAligned));
    agrees("bilinear_one", |g| nn::interpolate(x(g, &[1, 2, 3, 3]), &[1, 4], LinearAligned));
    agrees("trilinear", |g| nn::interpolate(x(g, &[1, 1, 2, 3, 2]), &[3, 2, 5], Linear));
}

#[test]
fn padding() {
    let (low, high) = ([0, 0, 1, 2], [0, 0, 2, 1]);
    agrees("constant", |g| x(g, &[1, 1, 3, 4]).pad(&low, &high, 0.0));
    for (case, mode) in
        [("reflect", PadMode::Reflect), ("replicate", PadMode::Replicate), ("circular", PadMode::Circular)]
    {
        agrees(case, |g| x(g, &[1, 1, 3, 4]).pad_with(&low, &high, mode));
    }
}

/// `f` of `data`, and the gradient of the sum of its results.
fn with_gradient(dims: &[usize], data: &[f64], f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> [Vec<f64>; 2] {
    let g = Builder::new("f");
    let y = f(x(&g, dims));
    let graph = g.finish([y.named("y"), y.sum(..).named("loss")]).unwrap();
    let step = grad(&graph, "loss", &GradOptions::wrt(&["x"])).unwrap();
    let mut p = Session::new().compile(&step).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(data);
    p.step().unwrap();
    ["y", "grad.x"].map(|name| p.values::<f64>(name).unwrap().to_vec())
}

#[test]
fn of_equal_elements_the_first_in_row_major_order_wins() {
    // The largest number stands at (0, 0, 1) and (0, 1, 0), then in the next plane.
    let tied = [0.0, 2.0, 2.0, 1.0, 2.0, 0.0, 0.0, 2.0];
    let first = [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let negative = tied.map(|v| -v);
    let pools: [(&[f64], &dyn for<'g> Fn(Var<'g>) -> Var<'g>); 3] = [
        (&tied, &|x| x.max_pool3d(Pool3d::new([2; 3]))),
        (&negative, &|x| x.min_pool3d(Pool3d::new([2; 3]))),
        (&tied, &|x| x.adaptive_max_pool3d([1; 3])),
    ];
    for (data, f) in pools {
        let [y, dx] = with_gradient(&[1, 1, 2, 2, 2], data, f);
        assert_eq!((y[0].abs(), &dx[..]), (2.0, &first[..]));
    }
    // Windows 0..2, 1..4 and 3..5, the first and the last of which are filled up with what they hold already.
    let [y, dx] = with_gradient(&[1, 1, 5], &[3.0; 5], |x| x.adaptive_max_pool1d([3]));
    assert_eq!((y, dx), (vec![3.0; 3], vec![1.0, 1.0, 0.0, 1.0, 0.0]));
    // Nothing but −∞ is a maximum, too.
    let [y, dx] = with_gradient(&[1, 1, 4], &[f64::NEG_INFINITY; 4], |x| x.max_pool1d(Pool1d::new([2]).padding([1])));
    assert!(y.iter().all(|&v| v == f64::NEG_INFINITY), "{y:?}");
    assert_eq!(dx, [1.0, 1.0, 0.0, 1.0]);
}

#[test]
fn one_element_is_pooled_to_any_size() {
    let pools: [&dyn for<'g> Fn(Var<'g>) -> Var<'g>; 2] =
        [&|x| x.adaptive_avg_pool1d([3]), &|x| x.adaptive_max_pool1d([3])];
    for f in pools {
        assert_eq!(with_gradient(&[1, 1, 1], &[5.0], f), [vec![5.0; 3], vec![3.0]]);
    }
}

#[test]
fn nan_wins_and_infinities_stay() {
    let mut data: Vec<f64> = (0..30).map(f64::from).collect();
    data[7] = f64::NAN;
    let pools: [&dyn for<'g> Fn(Var<'g>) -> Var<'g>; 4] = [
        &|x| x.max_pool3d(Pool3d::new([2, 3, 5])),
        &|x| x.min_pool3d(Pool3d::new([2, 3, 5])),
        &|x| x.sum_pool3d(Pool3d::new([2, 3, 5])),
        &|x| x.adaptive_max_pool3d([1; 3]),
    ];
    for f in pools {
        assert!(with_gradient(&[1, 1, 2, 3, 5], &data, f)[0][0].is_nan());
    }
    // A short window holds its own elements only, even where they are infinite.
    let [y, _] =
        with_gradient(&[1, 1, 5], &[f64::INFINITY, 1.0, 2.0, 3.0, f64::INFINITY], |x| x.adaptive_avg_pool1d([3]));
    assert_eq!(y, [f64::INFINITY, 2.0, f64::INFINITY]);
    // Padding counts for nothing in a minimum of positive and a sum of infinite numbers.
    let [y, _] = with_gradient(&[1, 1, 2], &[4.0, 5.0], |x| x.min_pool1d(Pool1d::new([2]).stride([1]).padding([1])));
    assert_eq!(y, [4.0, 4.0, 5.0]);
    let [y, _] = with_gradient(&[1, 1, 2], &[f64::INFINITY, 5.0], |x| x.sum_pool1d(Pool1d::new([2]).padding([1])));
    assert_eq!(y, [f64::INFINITY, 5.0]);
}

#[test]
fn a_size_that_stays_changes_nothing() {
    let data = [1.0, -0.0, f64::NAN, 5.0, 0.1, 3.0];
    for mode in
        [Interpolation::Nearest, Interpolation::NearestExact, Interpolation::Linear, Interpolation::LinearAligned]
    {
        let [y, dx] = with_gradient(&[1, 1, 2, 3], &data, |x| x.interpolate(&[2, 3], mode) * 2.0);
        assert!(y.iter().zip(&data).all(|(a, b)| (a / 2.0).to_bits() == b.to_bits()), "{mode:?}: {y:?}");
        assert_eq!(dx, [2.0; 6]);
    }
}

#[test]
fn a_batch_of_nothing_gives_nothing() {
    let all: [(&[usize], &dyn for<'g> Fn(Var<'g>) -> Var<'g>); 8] = [
        (&[0, 2, 4, 5, 6], &|x| nn::conv3d(x.builder(), "n", x, 3, [2; 3], Conv3d::default().pad([1; 6]))),
        (&[0, 2, 4, 5, 6], &|x| nn::conv_transpose3d(x.builder(), "n", x, 3, [2; 3], ConvTranspose::default())),
        (&[0, 2, 4, 5, 6], &|x| x.max_pool3d(Pool3d::new([2; 3]))),
        (&[0, 2, 4, 5, 6], &|x| x.avg_pool3d(Pool3d::new([3; 3]).ceil_mode(true))),
        (&[0, 2, 5, 6], &|x| x.adaptive_max_pool2d([3, 4])),
        (&[0, 2, 5, 6], &|x| x.adaptive_avg_pool2d([3, 4])),
        (&[0, 2, 5, 6], &|x| x.im2col(Unfold::new([2, 2]))),
        (&[0, 2, 5, 6], &|x| x.interpolate(&[7, 3], Interpolation::Linear)),
    ];
    for (dims, f) in all {
        let [y, dx] = with_gradient(dims, &[], f);
        assert!(y.is_empty() && dx.is_empty());
    }
}

/// Elements 1 and 2 of the depth, weights 3 and 5 that are two planes apart.
#[test]
fn a_transposed_convolution_steps_and_reaches_in_depth() {
    let apart = [&[3.0, 6.0, 5.0, 10.0][..], &[3.0, 0.0, 11.0, 0.0, 10.0], &[3.0, 0.0, 5.0, 6.0, 0.0, 10.0]];
    for (stride, want) in (1..).zip(apart) {
        let o = ConvTranspose::default().stride([stride, 1, 1]).dilation([2, 1, 1]);
        let [y, dx] = with_gradient(&[1, 1, 2, 1, 1], &[1.0, 2.0], |x| {
            let w = x.builder().iota(2, [1, 1, 2, 1, 1], DType::F64) * 2.0 + 3.0;
            x.conv_transpose3d(w, o)
        });
        assert_eq!((&y[..], &dx[..]), (want, &[8.0, 8.0][..]), "stride {stride}");
    }
}

/// A pool, by the shape of its operand.
type Pooling = (&'static [usize], for<'g> fn(Var<'g>) -> Var<'g>);

/// Formulas of ops over planes: all derivatives, in reverse and forward mode and twice, batches, and f32.
#[test]
fn pools_that_are_formulas_have_all_modes() {
    fn one() -> Pool1d {
        Pool1d::new([3]).stride([2]).pad([1, 0])
    }
    fn three() -> Pool3d {
        Pool3d::new([3, 2, 2]).stride([1, 2, 1]).pad([1, 1, 1, 0, 0, 1])
    }
    let (row, plane, volume) = (&[2, 2, 7][..], &[1, 2, 5, 7][..], &[2, 1, 4, 5, 3][..]);
    let all: [Pooling; 16] = [
        (row, |x| x.max_pool1d(one().dilation(2))),
        (row, |x| x.min_pool1d(one().dilation(2))),
        (row, |x| x.sum_pool1d(one())),
        (row, |x| x.avg_pool1d(one().count_include_pad(false))),
        (plane, |x| x.min_pool2d(Pool2d::new([3, 3]).stride([2, 1]).pad([1, 1, 1, 0]).dilation([1, 2]))),
        (volume, |x| x.max_pool3d(three().dilation([1, 2, 1]))),
        (volume, |x| x.min_pool3d(three().dilation([1, 2, 1]))),
        (volume, |x| x.sum_pool3d(three())),
        (volume, |x| x.avg_pool3d(three().count_include_pad(false))),
        (row, |x| x.adaptive_max_pool1d([3])),
        (plane, |x| x.adaptive_max_pool2d([3, 4])),
        (volume, |x| x.adaptive_max_pool3d([2, 3, 2])),
        (row, |x| x.adaptive_avg_pool1d([3])),
        (plane, |x| x.adaptive_avg_pool2d([3, 4])),
        (plane, |x| x.adaptive_avg_pool2d([1, 1])),
        (volume, |x| x.adaptive_avg_pool3d([2, 3, 2])),
    ];
    let squared = |dims: &[usize], dtype: DType, f: fn(Var<'_>) -> Var<'_>| {
        let g = Builder::new("pool");
        let y = f(g.input("x", dims, dtype));
        g.finish([(y * y).named("y")]).unwrap()
    };
    for (i, &(dims, f)) in all.iter().enumerate() {
        let mut draw = TensorDraws(i as u64);
        let members = [0; 2].map(|_| draw.tensor(DType::F64, dims, Domain::Distinct));
        let graph = squared(dims, DType::F64, f);
        derivatives_agree(&graph, &members[..1]);
        let alone = members.each_ref().map(|x| run(&graph, std::slice::from_ref(x), PLAIN).remove(0).data).concat();
        let data = members.each_ref().map(|x| &x.data[..]).concat();
        let both = Tensor { dtype: DType::F64, dims: [&[2], dims].concat(), data };
        let batch = graph.vmap(&Vmap::new(2).leaf("x", 0)).unwrap();
        assert_eq!(run(&batch, &[both], PLAIN)[0].data, alone, "{i}");
        let [x, _] = members;
        let short = run(&squared(dims, DType::F32, f), &[Tensor { dtype: DType::F32, ..x }], PLAIN).remove(0).data;
        assert!(conform_distance(&short, &alone[..short.len()]) < 1e-5, "{i}");
    }
}
