//! Scatters, coordinates, embeddings, running extremes and histograms: against torch in f64 (outputs and gradients), at
//! their edges, and with what does not fit, when building and when running.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{How, PLAIN, Tensor, run, try_run_once};
use arenagrad::graph::{Builder, DType, Scatter, Var};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::nn;
use arenagrad::tools::sched::schedule;
use safetensors::SafeTensors;
use std::path::Path;

/// A difference that is NaN is no agreement.
fn nan_is_far(d: f64) -> f64 {
    if d.is_nan() { f64::INFINITY } else { d }
}

const F64: DType = DType::F64;
const I64: DType = DType::I64;

/// Checks one case of the fixture: `f` of its inputs, in the order of their names reversed (x, u), and its index.
fn agrees(case: &str, f: impl for<'g> Fn(&[Var<'g>]) -> Var<'g>) {
    let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/indexing.safetensors")).unwrap();
    let fixture = SafeTensors::deserialize(&bytes).unwrap();
    let tensor = |key: &str, dtype: DType| -> Option<Tensor> {
        let t = fixture.tensor(&format!("{case}.{key}")).ok()?;
        let words = t.data().as_chunks().0.iter();
        let data = match dtype {
            F64 => words.map(|&b| f64::from_le_bytes(b)).collect(),
            _ => words.map(|&b| i64::from_le_bytes(b) as f64).collect(),
        };
        Some(Tensor { dtype, dims: t.shape().to_vec(), data })
    };
    let given: Vec<(&str, Tensor)> = [("x", "in.x", F64), ("u", "in.u", F64), ("index", "index", I64)]
        .into_iter()
        .filter_map(|(name, key, dtype)| Some((name, tensor(key, dtype)?)))
        .collect();
    let g = Builder::new(case);
    let vars: Vec<Var> = given.iter().map(|(name, t)| g.input(name, &t.dims, t.dtype)).collect();
    let y = f(&vars);
    let weights = (g.iota(0, [y.numel()], F64) + 1.0).reshape(y.dims());
    let y = if y.dtype() == F64 { y } else { y.cast(F64) };
    let graph = g.finish([(y * weights).sum(..).named("loss"), y.named("y")]).unwrap();
    let wrt: Vec<&str> = given.iter().map(|g| g.0).filter(|k| tensor(&format!("grad.{k}"), F64).is_some()).collect();
    let step = if wrt.is_empty() { graph } else { grad(&graph, "loss", &GradOptions::wrt(&wrt)).unwrap() };
    let inputs: Vec<Tensor> = given.iter().map(|g| g.1.clone()).collect();
    for how in [PLAIN, How { threads: 2, share: true, ..PLAIN }] {
        let outs = run(&step, &inputs, how);
        let near = |name: &str, key: &str| {
            let v = step.view();
            let i = v.output_names.iter().position(|&s| v.str(s) == name).unwrap();
            let (ours, theirs) = (&outs[i], tensor(key, F64).unwrap());
            assert_eq!(ours.dims, theirs.dims, "{case}.{key}");
            let off = |(a, b): (&f64, &f64)| (a - b).abs() / b.abs().max(1.0);
            let far = ours.data.iter().zip(&theirs.data).map(off).map(nan_is_far).fold(0.0, f64::max);
            assert!(far < 1e-12, "{case}.{key}: {far:e}\n{:?}\n{:?}", ours.data, theirs.data);
        };
        near("y", "y");
        wrt.iter().for_each(|k| near(&format!("grad.{k}"), &format!("grad.{k}")));
    }
}

#[test]
fn single_elements_scatter_as_torch() {
    agrees("set", |v| v[0].scatter(v[2], v[1], 1, Scatter::Set));
    agrees("add", |v| v[0].scatter(v[2], v[1], 0, Scatter::Add));
    agrees("mul", |v| v[0].scatter(v[2], v[1], -2, Scatter::Mul));
    agrees("mul_zeros", |v| v[0].scatter(v[2], v[1], 0, Scatter::Mul));
    agrees("max", |v| v[0].scatter(v[2], v[1], 0, Scatter::Max));
    agrees("max_ties", |v| v[0].scatter(v[2], v[1], 0, Scatter::Max));
    agrees("min_ties", |v| v[0].scatter(v[2], v[1], 0, Scatter::Min));
}

#[test]
fn slices_scatter_as_torch() {
    agrees("slices_set", |v| v[0].scatter_slices(v[2], v[1], 1, Scatter::Set));
    agrees("slices_add", |v| v[0].scatter_slices(v[2], v[1], 1, Scatter::Add));
    agrees("slices_mul", |v| v[0].scatter_slices(v[2], v[1], -2, Scatter::Mul));
    agrees("slices_max", |v| v[0].scatter_slices(v[2], v[1], 1, Scatter::Max));
}

#[test]
fn coordinates_embeddings_extremes_and_histograms_are_those_of_torch() {
    agrees("nd_add", |v| v[0].scatter_nd(v[2], v[1], Scatter::Add));
    agrees("nd_gather", |v| v[0].gather_nd(v[1]));
    agrees("embedding", |v| v[0].embedding(v[1], Some(1)));
    agrees("cummax", |v| v[0].cummax(1).0);
    agrees("cummax_at", |v| v[0].cummax(-2).1);
    agrees("cummin", |v| v[0].cummin(0).0);
    agrees("histogram", |v| v[0].histogram(7, -1.0, 1.5));
    agrees("histogram_data", |v| v[0].histogram(5, 0.0, 0.0));
}

fn floats(dims: &[usize], data: &[f64]) -> Tensor {
    Tensor { dtype: F64, dims: dims.to_vec(), data: data.to_vec() }
}

fn index(dims: &[usize], data: &[f64]) -> Tensor {
    Tensor { dtype: I64, dims: dims.to_vec(), data: data.to_vec() }
}

/// Gradients of Σ y·(1, 2, …) in x and u of a scatter.
fn gradients(mode: Scatter, own: bool, x: &[f64], u: &[f64], at: &[f64]) -> [Vec<f64>; 3] {
    let g = Builder::new("g");
    let (a, b) = (g.input("x", [x.len()], F64), g.input("u", [u.len()], F64));
    let i = g.input("i", [at.len()], I64);
    let y = if own { a.scatter(i, b, 0, mode) } else { a.scatter_slices(i, b, 0, mode) };
    let f = g.finish([(y * (g.iota(0, [x.len()], F64) + 1.0)).sum(..).named("loss"), y.named("y")]).unwrap();
    let back = grad(&f, "loss", &GradOptions::wrt(&["x", "u"])).unwrap();
    let inputs = [floats(&[x.len()], x), floats(&[u.len()], u), index(&[at.len()], at)];
    let outs: Vec<Vec<f64>> = run(&back, &inputs, PLAIN).into_iter().map(|t| t.data).collect();
    <[Vec<f64>; 3]>::try_from(outs[1..].to_vec()).unwrap()
}

/// torch leaves the order of duplicates open; here the last one stands, and has the gradient alone.
#[test]
fn of_several_updates_that_set_the_last_stays() {
    for own in [false, true] {
        let [y, dx, du] = gradients(Scatter::Set, own, &[5.0, 6.0, 7.0], &[1.0, 2.0, 3.0, 4.0], &[2.0, 0.0, 2.0, 2.0]);
        assert_eq!((y, dx), (vec![2.0, 6.0, 4.0], vec![0.0, 2.0, 0.0]));
        assert_eq!(du, [0.0, 1.0, 0.0, 3.0]);
    }
}

#[test]
fn zeros_among_factors_and_nan_among_maxima() {
    for own in [false, true] {
        // One zero has a gradient, two have none; that of the base does not divide.
        let [y, dx, du] = gradients(Scatter::Mul, own, &[0.0, 2.0], &[0.0, 3.0, 0.0, 0.0], &[1.0, 1.0, 0.0, 0.0]);
        assert_eq!((y, dx), (vec![0.0, 0.0], vec![0.0, 0.0]));
        assert_eq!(du, [12.0, 0.0, 0.0, 0.0]);
        let [y, ..] = gradients(Scatter::Max, own, &[0.0, f64::NAN], &[f64::NAN, 3.0], &[0.0, 1.0]);
        assert!(y.iter().all(|y| y.is_nan()));
    }
}

#[test]
fn counts_and_padded_tables() {
    let g = Builder::new("c");
    let i = g.input("i", [2, 3], I64);
    let y = nn::padded_embedding(&g, "e", i, [4, 2], F64, 3);
    let f = g.finish([i.bin_count(4).named("n"), (y * y).sum(..).named("loss")]).unwrap();
    let back = grad(&f, "loss", &GradOptions::wrt(&["e.weight"])).unwrap();
    let table = floats(&[4, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let outs = run(&back, &[index(&[2, 3], &[3.0, 0.0, 0.0, 1.0, 3.0, 0.0]), table], PLAIN);
    assert_eq!(outs[0].data, [3.0, 1.0, 0.0, 2.0]);
    assert_eq!(outs[2].data, [6.0, 12.0, 6.0, 8.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn clamped_indices_are_known_to_be_good_only_if_the_range_is() {
    let outcome = |lo: f64, hi: f64, at: f64| {
        let g = Builder::new("clamped");
        let (x, i) = (g.input("x", [3], F64), g.input("i", [1], I64));
        // As an op of its own, and inside a fused region.
        let alone = x.gather(i.clamp(lo, hi), 0);
        let fused = x.gather((i * 2.0 - i + 1.0 - 1.0).clamp(lo, hi), 0);
        let graph = g.finish([alone.named("alone"), fused.named("fused")]).unwrap();
        let given = [floats(&[3], &[5.0, 6.0, 7.0]), index(&[1], &[at])];
        try_run_once(&graph, &given, PLAIN).map(|outs| outs.iter().map(|t| t.data[0]).collect::<Vec<f64>>())
    };
    for (at, want) in [(-9.0, 5.0), (0.0, 5.0), (1.0, 6.0), (2.0, 7.0), (9.0, 7.0)] {
        assert_eq!(outcome(0.0, 2.0, at).unwrap(), [want, want], "{at}");
    }
    assert_eq!(outcome(1.0, 1.0, 0.0).unwrap(), [6.0, 6.0]);
    assert!(outcome(-1.0, 2.0, -5.0).unwrap_err().to_string().contains("is -1; it must be in 0..3"));
    assert!(outcome(0.0, 3.0, 5.0).unwrap_err().to_string().contains("is 3; it must be in 0..3"));
    assert!(outcome(0.0, f64::INFINITY, 5.0).unwrap_err().to_string().contains("is 5; it must be in 0..3"));
}

#[test]
fn every_bad_index_is_named_when_the_step_runs() {
    let fail = |f: for<'g> fn(Var<'g>, Var<'g>) -> Var<'g>, dims: &[usize], at: &[f64]| {
        let g = Builder::new("bad");
        let (x, i) = (g.input("x", [3, 4], F64), g.input("i", dims, I64));
        let graph = g.finish([f(x, i)]).unwrap();
        let run = |threads| {
            try_run_once(&graph, &[floats(&[3, 4], &[0.0; 12]), index(dims, at)], How { threads, share: true, ..PLAIN })
        };
        let (e, many) = (run(1).unwrap_err().to_string(), run(2).unwrap_err().to_string());
        assert_eq!(e, many);
        e
    };
    let set = |e: String, op: &str, element: usize, value: &str| {
        let want = format!("{op}: element {element} of the index operand is {value}");
        assert!(e.starts_with(&want) && e.contains("tests/ops/indexing.rs"), "{e}");
    };
    set(fail(|x, i| x.gather(i, 1), &[2], &[0.0, 4.0]), "gather", 1, "4; it must be in 0..4");
    set(
        fail(|x, i| x.take_along_axis(i, 0), &[1, 4], &[0.0, 1.0, -1.0, 3.0]),
        "take_along_axis",
        2,
        "-1; it must be in 0..3",
    );
    set(
        fail(|x, i| x.scatter_slices(i, x, 0, Scatter::Max), &[3], &[0.0, 3.0, 5.0]),
        "scatter",
        1,
        "3; it must be in 0..3",
    );
    set(
        fail(|x, i| x.scatter(i, x.narrow(0, 0, 1), 0, Scatter::Set), &[1, 4], &[0.0, 0.0, 0.0, -7.0]),
        "scatter",
        3,
        "-7; it must be in 0..3",
    );
    // In range as one number of 12, and not as coordinates.
    set(fail(|x, i| x.gather_nd(i), &[2, 2], &[0.0, 1.0, 1.0, 5.0]), "ravel_index", 3, "5; it must be in 0..4");
    set(
        fail(|x, i| x.scatter_nd(i, x.narrow(0, 0, 2), Scatter::Add), &[2, 1], &[i64::MIN as f64, 1.0]),
        "ravel_index",
        0,
        "-9223372036854775808; it must be in 0..3",
    );
    set(fail(|_, i| i.bin_count(5), &[3], &[1.0, 4.0, 6.0]), "scatter_add", 2, "6; it must be in 0..5");
    set(fail(|x, i| x.embedding(i, Some(0)), &[1], &[3.0]), "gather", 0, "3; it must be in 0..3");
    set(fail(|x, i| x.cross_entropy(i), &[3], &[3.0, 4.0, 0.0]), "softmax_cross_entropy", 1, "4; it must be in 0..4");
}

#[test]
fn what_does_not_fit_is_named() {
    fn error(f: for<'g> fn(&'g Builder, Var<'g>) -> Var<'g>) -> String {
        let g = Builder::new("bad");
        f(&g, g.input("x", [3, 4], F64));
        g.finish([]).unwrap_err().to_string()
    }
    fn at<'g>(g: &'g Builder, dims: &[usize]) -> Var<'g> {
        g.input("i", dims, I64)
    }
    for (e, parts) in [
        (error(|g, x| x.scatter(at(g, &[3, 4]), x, 2, Scatter::Set)), ["scatter", "axis 2", "rank 2"]),
        (
            error(|g, x| x.scatter(at(g, &[3, 4]), x, i64::MIN, Scatter::Set)),
            ["scatter", "axis -9223372036854775808", "rank 2"],
        ),
        (error(|_, x| x.scatter(x, x, 0, Scatter::Set)), ["scatter", "indices are f64", "i64 is needed"]),
        (error(|g, x| x.scatter(at(g, &[3, 2]), x, 1, Scatter::Set)), ["scatter", "[3,2]", "[3,4] differ"]),
        (
            error(|g, x| x.scatter(at(g, &[3, 4]), x.cast(I64), 0, Scatter::Add)),
            ["scatter", "f64 and i64 differ", "cast"],
        ),
        (
            error(|g, x| x.narrow(0, 0, 2).scatter(at(g, &[3, 4]), x, 1, Scatter::Add)),
            ["scatter", "[3,4]", "fit [2,4] beside axis 1"],
        ),
        (
            error(|g, x| x.scatter_slices(at(g, &[5]), x, 1, Scatter::Add)),
            ["scatter", "updates have shape [3,4]", "need [3,5]"],
        ),
        (
            error(|g, x| {
                let b = x.greater(0.0);
                b.scatter_slices(at(g, &[3]), b, 0, Scatter::Mul)
            }),
            ["scatter", "no mul of bool", "cast"],
        ),
        (error(|g, x| x.gather_nd(at(g, &[5, 3]))), ["gather_nd", "[5,3]", "rank 2"]),
        (error(|g, x| x.gather_nd(at(g, &[]))), ["gather_nd", "[]", "rank 2"]),
        (error(|_, x| x.gather_nd(x.narrow(1, 0, 2))), ["ravel_index", "indices are f64", "i64 is needed"]),
        (error(|g, x| x.scatter_nd(at(g, &[5, 1]), x, Scatter::Set)), ["scatter_nd", "[3,4]", "[5,4] is needed"]),
        (error(|g, x| x.embedding(at(g, &[5]), Some(3))), ["embedding", "padding row is 3", "there are 3"]),
        (error(|_, x| x.cummax(-3).0), ["cummax", "axis -3", "rank 2"]),
        (error(|_, x| x.greater(0.0).cummin(0).1), ["cum_arg_max", "no order of bool", "cast"]),
        (error(|_, x| x.histogram(0, 0.0, 1.0)), ["histogram", "bins is 0", "1..="]),
        (error(|_, x| x.histogram(usize::MAX, 0.0, 1.0)), ["histogram", "bins is 9223372036854775807", "1..="]),
        (error(|_, x| x.histogram(5, 2.0, 1.0)), ["histogram", "2 to 1", "none"]),
        (error(|_, x| x.histogram(5, f64::NAN, 1.0)), ["histogram", "NaN to 1", "none"]),
        (error(|_, x| x.cast(DType::F32).histogram(5, -3e38, 3e38)), ["histogram", "-3", "none of f32"]),
        (error(|_, x| x.cast(DType::F32).histogram(5, 1.0, 1.0 + 1e-9)), ["histogram", "1 to 1.0", "none of f32"]),
        (error(|g, _| g.iota(0, [3_000_000_000], DType::I32)), ["iota", "2999999999", "i32"]),
        (error(|_, x| x.bin_count(4)), ["scatter_add", "indices are f64", "i64 is needed"]),
        (error(|g, _| at(g, &[3]).bin_count(usize::MAX)), ["scatter_add", "9223372036854775807", "i64"]),
        (error(|g, _| at(g, &[3]).bin_count(1 << 62)), ["scatter_add", "4611686018427387904", "i64"]),
    ] {
        assert!(parts.iter().all(|p| e.contains(p)) && e.contains("tests/ops/indexing.rs"), "{e}");
    }
}

/// A step cannot stop at indices that are good by what makes them: they are not checked. All others are.
#[test]
fn indices_that_are_known_to_be_good_are_not_checked() {
    type Make = for<'g> fn(&'g Builder, Var<'g>) -> Var<'g>;
    let checked = |make: Make| {
        let g = Builder::new("g");
        let (x, free) = (g.input("x", [6], F64), g.input("i", [2, 3], I64));
        let s = schedule(g.finish([x.gather(make(&g, free), 0)]).unwrap().view(), 1).unwrap();
        s.plan.code.checks.len()
    };
    let good: [(&str, Make); 20] = [
        ("positions", |g, _| g.iota(0, [6], I64)),
        ("positions along an axis", |g, _| g.iota(1, [9, 6], I64)),
        ("a cast", |g, _| g.iota(0, [6], I64).cast(DType::I32)),
        ("two casts", |g, _| g.iota(0, [6], DType::I32).cast(I64).cast(DType::I32)),
        ("the largest", |g, _| g.input("y", [4, 6], F64).arg_max(1, I64)),
        ("the smallest", |g, _| g.input("y", [6, 4], F64).arg_min(0, DType::I32)),
        ("the largest few", |g, _| g.input("y", [6], F64).top_k(2, 0).1),
        ("an order", |g, _| g.input("y", [6], F64).arg_sort(0, false)),
        ("a number", |g, _| g.full(5.0, [3], I64)),
        ("numbers in a range", |g, _| g.constant(&[5.0, 0.0], [2]).cast(I64).clamp(0.0, 5.0)),
        ("a range", |_, i| i.clamp(0.0, 5.0)),
        ("a reshape", |_, i| i.clamp(0.0, 5.0).reshape([3, 2])),
        ("a transpose", |_, i| i.clamp(0.0, 5.0).t()),
        ("a broadcast", |_, i| i.clamp(0.0, 5.0).broadcast([2, 2, 3])),
        ("a part", |_, i| i.clamp(0.0, 5.0).narrow(1, 0, 2)),
        ("the other way", |_, i| i.clamp(0.0, 5.0).flip([0])),
        ("a mark", |_, i| i.clamp(0.0, 5.0).checkpoint()),
        ("what is looked up", |g, i| i.clamp(0.0, 5.0).gather(g.iota(0, [2], I64), 0)),
        ("what is taken", |g, i| i.clamp(0.0, 5.0).take_along_axis(g.iota(0, [2, 3], I64), 0)),
        ("fewer than there are", |_, i| i.clamp(0.0, 3.0)),
    ];
    for (name, make) in good {
        assert_eq!(checked(make), 0, "{name}");
    }
    let other: [(&str, Make); 9] = [
        ("an input", |_, i| i),
        ("a cast of an input", |_, i| i.cast(DType::I32)),
        ("a number that was real", |g, _| g.iota(0, [6], I64).cast(F64).cast(I64)),
        ("one position more", |g, _| g.iota(0, [7], I64)),
        ("the largest of more", |g, _| g.input("y", [4, 7], F64).arg_max(1, I64)),
        ("too large a number", |g, _| g.full(6.0, [3], I64)),
        ("a negative number", |g, _| g.full(-1.0, [3], I64)),
        ("too large a range", |_, i| i.clamp(0.0, 6.0)),
        ("a range below 0", |_, i| i.clamp(-1.0, 5.0)),
    ];
    for (name, make) in other {
        assert_eq!(checked(make), 1, "{name}");
    }
}
