//! Layers with a scan inside: what they compute from known params, causality, training, wrong use.

use arenagrad::graph::recurrent::SelectiveScan;
use arenagrad::graph::{Builder, DType, GradOptions, Init, Var, grad};
use arenagrad::nn::{self, GatedDeltaNet, Mamba};
use arenagrad::optim::{Adam, train};
use arenagrad::session::Session;

type Layer = for<'g> fn(&'g Builder, Var<'g>) -> Var<'g>;

const MAMBA: Layer = |g, x| nn::mamba(g, "m", x, Mamba::default().states(3).kernel(3));
const DELTA: Layer = |g, x| nn::gated_delta_net(g, "m", x, GatedDeltaNet::new(2, 3).values(4).kernel(2));

/// The result of a layer of drawn params on `x` `[1, 6, 4]`.
fn result(layer: Layer, x: &[f64]) -> Vec<f64> {
    let g = Builder::new("layer");
    let y = layer(&g, g.input("x", [1, 6, 4], DType::F64));
    let mut p = Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    p.init(3).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(x);
    p.step().unwrap();
    p.values::<f64>("y").unwrap().to_vec()
}

#[test]
fn a_step_sees_the_steps_so_far_and_no_later_one() {
    let x: Vec<f64> = (0..24).map(|i| f64::from(i * 7 % 11) * 0.2 - 1.0).collect();
    for layer in [MAMBA, DELTA] {
        let plain = result(layer, &x);
        for step in 0..6 {
            let mut moved = x.clone();
            moved[step * 4] += 0.5;
            let y = result(layer, &moved);
            assert_eq!(y[..step * 4], plain[..step * 4]);
            // The next step sees it, too.
            let seen = (step..6.min(step + 2)).all(|t| y[t * 4..][..4] != plain[t * 4..][..4]);
            assert!(seen, "step {step}: {y:?}\n{plain:?}");
        }
    }
}

#[test]
fn a_mamba_layer_is_its_formula() {
    let g = Builder::new("formula");
    let x = g.input("x", [2, 5, 4], DType::F64);
    let y = g.reuse(|| {
        let y = nn::mamba(&g, "m", x, Mamba::default().states(3).expand(2).rank(2));
        let both = nn::linear_no_bias(&g, "m.in_proj", x, 16);
        let u = nn::causal_depthwise_conv1d(&g, "m.conv1d", both.narrow(-1, 0, 8).transpose(&[0, 2, 1]), 4);
        let u = u.transpose(&[0, 2, 1]).silu();
        let of_u = nn::linear_no_bias(&g, "m.x_proj", u, 8);
        let delta = nn::linear_with(&g, "m.dt_proj", of_u.narrow(-1, 0, 2), 8, given(&g)).softplus();
        let (a, d) = (g.param("m.A_log", [8, 3], DType::F64, rates(&g)), g.param("m.D", [8], DType::F64, ones()));
        let (b, c) = (of_u.narrow(-1, 2, 3), of_u.narrow(-1, 5, 3));
        let z = u.selective_scan(delta, -a.exp(), b, c, SelectiveScan::default().d(d))[0];
        let gate = both.narrow(-1, 8, 8);
        nn::linear_no_bias(&g, "m.out_proj", z * gate.silu(), 4).tap("z");
        y
    });
    let mut p = Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    p.init(1).unwrap();
    p.values_mut::<f64>("x").unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f64).sin());
    p.step().unwrap();
    assert_eq!(p.values::<f64>("y").unwrap(), p.values::<f64>("z").unwrap());
    assert!(p.values::<f64>("y").unwrap().iter().all(|y| y.is_finite() && *y != 0.0));
    // A starts at −1, −2 and −3, and Δ lies between its bounds where its product is 0.
    let logs = p.values::<f64>("m.A_log").unwrap().to_vec();
    assert!(logs.chunks(3).all(|a| a == [0.0, 2f64.ln(), 3f64.ln()]));
    let bias = p.values::<f64>("m.dt_proj.bias").unwrap();
    assert!(bias.iter().all(|b| (0.000_999..0.100_1).contains(&b.exp().ln_1p())), "{bias:?}");
}

fn ones() -> Init {
    Init::Ones
}

fn rates(g: &Builder) -> Init {
    g.start_values(&[1f64, 2.0, 3.0].map(f64::ln).repeat(8))
}

/// The options of the layer's projection to Δ.
fn given(_: &Builder) -> nn::Linear {
    nn::Linear::default().weight_init(Init::Uniform(1.0 / 2f64.sqrt())).bias_init(step_bias())
}

/// A bias whose softplus lies between 0.001 and 0.1.
fn step_bias() -> Init {
    let [low, high] = [0.001f64, 0.1].map(|y| y.exp_m1().ln());
    Init::Between { low, high }
}

#[test]
fn a_gated_delta_net_is_its_formula() {
    let g = Builder::new("formula");
    let x = g.input("x", [2, 5, 4], DType::F64);
    let y = g.reuse(|| {
        let y = DELTA(&g, x);
        let linear = |of: &str, n: usize| nn::linear_no_bias(&g, &format!("m.{of}_proj"), x, n);
        let stream = |of: &str, n: usize| {
            let taps = nn::Conv1d::default().pad([1, 0]).groups(2 * n).bias(false);
            let h = linear(of, 2 * n).transpose(&[0, 2, 1]);
            let h = nn::conv1d(&g, &format!("m.{of}_conv1d"), h, 2 * n, 2, taps);
            h.transpose(&[0, 2, 1]).silu().reshape([2, 5, 2, n])
        };
        let [q, k] = ["q", "k"].map(|of| stream(of, 3)).map(|h| h / (h.square().sum(-1).unsqueeze(-1) + 1e-6).sqrt());
        let rate = g.param("m.A_log", [2], DType::F64, Init::Between { low: 0.0, high: 16f64.ln() });
        let bias = g.param("m.dt_bias", [2], DType::F64, step_bias());
        let gate = -(rate.exp() * (linear("a", 2) + bias).softplus());
        let [o, _] = q.gated_delta_net(k, stream("v", 4), gate, linear("b", 2).sigmoid(), None);
        let o = nn::rms_norm(&g, "m.o_norm", o, 1e-5).reshape([2, 5, 8]) * linear("g", 8).silu();
        nn::linear_no_bias(&g, "m.o_proj", o, 4).tap("z");
        y
    });
    let mut p = Session::new().compile(&g.finish([y.named("y")]).unwrap()).unwrap();
    p.init(1).unwrap();
    p.values_mut::<f64>("x").unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f64).sin());
    p.step().unwrap();
    let (y, z) = (p.values::<f64>("y").unwrap(), p.values::<f64>("z").unwrap());
    assert!(y.iter().zip(z).all(|(y, z)| (y - z).abs() < 1e-12 && *y != 0.0), "{y:?}\n{z:?}");
}

#[test]
fn sizes_that_are_left_out_follow_from_the_others() {
    let dims = |width: usize, layer: Layer, name: &str| {
        let g = Builder::new("sizes");
        let y = layer(&g, g.input("x", [1, 6, width], DType::F32));
        let graph = g.finish([y]).unwrap();
        let (leaf, _) = graph.view().find_leaf(name).unwrap();
        graph.view().dims(leaf).to_vec()
    };
    // Two channels of 16 states for each element, a convolution of four taps, and Δ of a 16th of the width.
    let plain: Layer = |g, x| nn::mamba(g, "m", x, Mamba::default());
    assert_eq!(dims(4, plain, "m.A_log"), [8, 16]);
    assert_eq!(dims(4, plain, "m.conv1d.weight"), [8, 1, 4]);
    for (width, rank) in [(1, 1), (16, 1), (17, 2)] {
        assert_eq!(dims(width, plain, "m.dt_proj.weight"), [2 * width, rank]);
    }
    // Values of twice the length of keys, and convolutions of four taps.
    let plain: Layer = |g, x| nn::gated_delta_net(g, "m", x, GatedDeltaNet::new(2, 3));
    assert_eq!(dims(4, plain, "m.v_proj.weight"), [12, 4]);
    assert_eq!(dims(4, plain, "m.q_conv1d.weight"), [6, 1, 4]);
}

/// Both layers learn to say what stood three steps before.
#[test]
fn layers_learn_to_remember() {
    for layer in [MAMBA, DELTA] {
        let g = Builder::new("memory");
        let x = g.input("x", [4, 12, 4], DType::F32);
        let y = nn::linear(&g, "head", x + layer(&g, nn::rms_norm(&g, "norm", x, 1e-5)), 4);
        let wanted = x.narrow(1, 0, 9);
        let miss = y.narrow(1, 3, 9) - wanted;
        let graph = g.finish([(miss * miss).mean(..).named("loss")]).unwrap();
        let mut p = Session::new().compile(&train(&graph, "loss", Adam::new(0.02)).unwrap()).unwrap();
        p.init(2).unwrap();
        let mut losses = Vec::new();
        for round in 0..150usize {
            let x = p.values_mut::<f32>("x").unwrap();
            x.iter_mut().enumerate().for_each(|(i, x)| *x = ((i * 37 + round * 101) % 17) as f32 / 8.0 - 1.0);
            p.step().unwrap();
            losses.push(p.values::<f32>("loss").unwrap()[0]);
        }
        let (first, last) = (losses[0], losses[149]);
        assert!(last < 0.5 * first, "{first} and {last}");
    }
}

#[test]
fn all_params_have_gradients() {
    for layer in [MAMBA, DELTA] {
        let g = Builder::new("params");
        let y = layer(&g, g.input("x", [2, 7, 4], DType::F64));
        let graph = g.finish([(y * y).sum(..).named("loss")]).unwrap();
        let mut p = Session::new().compile(&grad(&graph, "loss", &GradOptions::default()).unwrap()).unwrap();
        p.init(5).unwrap();
        p.values_mut::<f64>("x").unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = (i as f64 * 0.7).cos());
        p.step().unwrap();
        let names: Vec<String> = graph.view().leaves().map(|l| l.name.to_string()).filter(|n| n != "x").collect();
        assert!(names.len() >= 9, "{names:?}");
        for name in names {
            let grads = p.values::<f64>(&format!("grad.{name}")).unwrap();
            assert!(grads.iter().all(|x| x.is_finite()) && grads.iter().any(|x| *x != 0.0), "{name}: {grads:?}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let refuses = |dims: &[usize], words: &[&str], layer: Layer| {
        let g = Builder::new("bad");
        let y = layer(&g, g.input("x", dims, DType::F32));
        let e = g.finish([y]).unwrap_err().to_string();
        assert!(words.iter().all(|w| e.contains(w)) && e.contains(file!()), "{words:?}: {e}");
    };
    refuses(&[6, 4], &["layer \"m\": mamba(", "[batch, steps, width]"], MAMBA);
    refuses(&[1, 6, 0], &["mamba(", "a float [batch, steps, width] is needed"], MAMBA);
    refuses(&[1, 6, 4], &["mamba(", "a float [batch, steps, width] is needed"], |g, x| {
        nn::mamba(g, "m", x.cast(DType::I32), Mamba::default())
    });
    refuses(&[6, 4], &["layer \"m\": gated_delta_net(", "[batch, steps, width]"], DELTA);
    refuses(&[1, 6, 4], &["mamba(", "kernel is 0"], |g, x| nn::mamba(g, "m", x, Mamba::default().kernel(0)));
    refuses(&[1, 6, 4], &["mamba(", "rank is 0"], |g, x| nn::mamba(g, "m", x, Mamba::default().rank(0)));
    refuses(&[1, 6, 4], &["mamba(", "states for 8 channels"], |g, x| {
        nn::mamba(g, "m", x, Mamba::default().states(usize::MAX / 4))
    });
    refuses(&[1, 6, 4], &["gated_delta_net(", "heads is 0"], |g, x| {
        nn::gated_delta_net(g, "m", x, GatedDeltaNet::new(0, 4))
    });
    refuses(&[1, 6, 4], &["does not fit in memory"], |g, x| {
        nn::gated_delta_net(g, "m", x, GatedDeltaNet::new(usize::MAX / 2, 4))
    });
}
