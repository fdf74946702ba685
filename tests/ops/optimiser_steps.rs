//! One step of each optimiser by the methods of values, against torch's formulas.

use crate::common::{PLAIN, Tensor, run};
use arenagrad::graph::{Builder, DType, Var};
use arenagrad::optim::{AdamOptions, SgdOptions};

const F64: DType = DType::F64;

/// What `f` makes of p = 1, g = 0.5, two states of 0.3 and 0.04, the rate 0.1 and step number `t`.
fn stepped<const N: usize>(t: i64, f: impl for<'g> Fn([Var<'g>; 6]) -> [Var<'g>; N]) -> Vec<f64> {
    let g = Builder::new("step");
    let [p, d, m, v] = ["p", "g", "m", "v"].map(|name| g.input(name, [1], F64));
    let (lr, step) = (g.input("lr", [], F64), g.input("t", [], DType::I64));
    for (i, y) in f([p, d, m, v, lr, step]).into_iter().enumerate() {
        g.output(&format!("y{i}"), y);
    }
    // Each input has a reader.
    g.output("all", p + d + m + v + lr + step.cast(F64));
    let one = |x: f64| Tensor { dtype: F64, dims: vec![1], data: vec![x] };
    let lr = Tensor { dtype: F64, dims: Vec::new(), data: vec![0.1] };
    let t = Tensor { dtype: DType::I64, dims: Vec::new(), data: vec![t as f64] };
    let given = [one(1.0), one(0.5), one(0.3), one(0.04), lr, t];
    run(&g.finish([]).unwrap(), &given, PLAIN).into_iter().take(N).map(|y| y.data[0]).collect()
}

fn near(have: &[f64], want: &[f64]) {
    assert_eq!(have.len(), want.len());
    assert!(have.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12), "{have:?}, not {want:?}");
}

#[test]
fn a_step_of_gradient_descent() {
    near(&stepped(1, |[p, g, _, _, lr, _]| [p.sgd_step(g, lr, 0.0)]), &[0.95]);
    near(&stepped(1, |[p, g, _, _, lr, _]| [p.sgd_step(g, lr, 0.2)]), &[0.93]);
}

/// The buffer is the gradient in step 1, and 0.9·0.3 + 0.5·0.5 = 0.52 later.
#[test]
fn a_step_with_momentum() {
    let opt = SgdOptions::default().momentum(0.9).dampening(0.5);
    near(&stepped(1, |[p, g, b, _, lr, t]| p.sgd_momentum_step(g, b, lr, t, opt)), &[0.95, 0.5]);
    near(&stepped(2, |[p, g, b, _, lr, t]| p.sgd_momentum_step(g, b, lr, t, opt)), &[0.948, 0.52]);
    // The decayed gradient is 0.5 + 0.2; the buffer 0.9·0.3 + 0.7 = 0.97; the move 0.7 + 0.9·0.97 = 1.573.
    let opt = SgdOptions::default().momentum(0.9).nesterov(true).weight_decay(0.2);
    near(&stepped(2, |[p, g, b, _, lr, t]| p.sgd_momentum_step(g, b, lr, t, opt)), &[0.8427, 0.97]);
}

/// The first moment is 0.3 + 0.1·(g − 0.3), the second 0.999·0.04 + 0.001·g².
#[test]
fn a_step_of_adam_has_the_decays_of_torch() {
    let moved = |g: f64, p: f64| {
        let (m, v) = (0.3 + 0.1 * (g - 0.3), 0.999 * 0.04 + 0.001 * g * g);
        let (first, second) = (1.0 - 0.9 * 0.9, 1.0 - 0.999f64 * 0.999);
        [p - 0.1 / first * m / ((v / second).sqrt() + 1e-8), m, v]
    };
    let plain = AdamOptions::default();
    assert_eq!(plain, AdamOptions::default().betas([0.9, 0.999]).eps(1e-8).weight_decay(0.0).decoupled(false));
    near(&stepped(2, |[p, g, m, v, lr, t]| p.adam_step(g, [m, v], lr, t, plain)), &moved(0.5, 1.0));
    let coupled = plain.weight_decay(0.2);
    near(&stepped(2, |[p, g, m, v, lr, t]| p.adam_step(g, [m, v], lr, t, coupled)), &moved(0.7, 1.0));
    let apart = coupled.decoupled(true);
    near(&stepped(2, |[p, g, m, v, lr, t]| p.adam_step(g, [m, v], lr, t, apart)), &moved(0.5, 0.98));
}
