//! Norms of elements far from 0: results and gradients in f32 against those of the same elements in f64.

use arenagrad::graph::{Builder, DType, GradOptions, Var, grad};
use arenagrad::op::Op;
use arenagrad::session::Session;
use arenagrad::tools::ops::norm::NormAttrs;

const DIMS: [usize; 3] = [6, 4, 90];

/// A norm of (x, γ, β) with γ of as many elements as the last argument says; y and the statistics.
type Norm = (&'static str, for<'g> fn(&'g Builder, [Var<'g>; 3]) -> Vec<Var<'g>>, usize);

const NORMS: [Norm; 5] = [
    ("layer_norm", |g, args| g.emit(Op::LAYER_NORM, &args, &NormAttrs { eps: 1e-5 }.list()).to_vec(), 90),
    (
        "residual_layer_norm",
        |g, [x, a, b]| {
            let args = [x, x.full_like(0.0), a, b];
            let all = g.emit(Op::RESIDUAL_LAYER_NORM, &args, &NormAttrs { eps: 1e-5 }.list());
            vec![all[0], all[2], all[3]]
        },
        90,
    ),
    ("group_norm", |_, [x, a, b]| vec![x.group_norm(2, a, b, 1e-5)], 4),
    ("instance norm", |_, [x, a, b]| vec![x.group_norm(4, a, b, 1e-5)], 4),
    ("batch_norm", |_, [x, a, b]| x.batch_norm(a, b, 1e-5).to_vec(), 4),
];

/// Outputs and gradients by x, γ, β at elements of spread 1 around `mean`, which f32 holds.
fn results((name, norm, n): Norm, dtype: DType, mean: f64) -> Vec<(String, Vec<f64>)> {
    let g = Builder::new("far");
    let x = g.input("x", DIMS, dtype);
    let all = norm(&g, [x, g.input("gamma", [n], dtype), g.input("beta", [n], dtype)]);
    let loss = (all[0] * g.input("w", DIMS, dtype)).sum(..).named("loss");
    let names: Vec<String> = (0..all.len()).map(|i| format!("out{i}")).collect();
    let outs = all.iter().zip(&names).map(|(v, name)| v.named(name)).chain([loss]);
    let f = g.finish(outs.collect::<Vec<_>>()).unwrap();
    let mut p = Session::new().compile(&grad(&f, "loss", &GradOptions::wrt(&["x", "gamma", "beta"])).unwrap()).unwrap();
    let wave = |i: usize, by: f64| ((i * i) as f64 * by + by).sin();
    let at = [("x", mean, 0.37), ("gamma", 1.0, 1.3), ("beta", 0.0, 0.9), ("w", 0.2, 0.61)];
    for (name, start, by) in at {
        let value = |i: usize| (start + 1.4 * wave(i, by)) as f32;
        match dtype {
            DType::F64 => {
                p.values_mut::<f64>(name).unwrap().iter_mut().enumerate().for_each(|(i, v)| *v = value(i).into());
            }
            _ => p.values_mut::<f32>(name).unwrap().iter_mut().enumerate().for_each(|(i, v)| *v = value(i)),
        }
    }
    p.step().unwrap();
    let grads = ["grad.x", "grad.gamma", "grad.beta"].map(String::from);
    let read = |what: &String| match dtype {
        DType::F64 => p.values::<f64>(what).unwrap().to_vec(),
        _ => p.values::<f32>(what).unwrap().iter().map(|v| f64::from(*v)).collect(),
    };
    names.iter().chain(&grads).map(|what| (format!("{name} {what}"), read(what))).collect()
}

/// The rounding of the mean is much of the deviations; none of the results has it.
#[test]
fn norms_far_from_zero_keep_their_digits() {
    for norm in NORMS {
        for mean in [0.0, 1.0, 1e3, 1e5, 1e6] {
            let (ours, exact) = (results(norm, DType::F32, mean), results(norm, DType::F64, mean));
            for ((what, ours), (_, exact)) in ours.iter().zip(&exact) {
                let size = exact.iter().fold(0f64, |a, v| a.max(v.abs()));
                let apart = ours.iter().zip(exact).fold(0f64, |a, (x, y)| a.max((x - y).abs() / size));
                assert!(apart < 2e-6, "{what} at {mean}: {apart:e}");
            }
        }
    }
}
