//! Scopes of layers: their names in errors, layers applied twice, and training against evaluation.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::window::Conv2d;
use arenagrad::graph::{Attention, Builder, DType, GradOptions, GraphBuf, Init, Layout, Var, grad};
use arenagrad::nn::{self, BatchNorm, MultiHead, TransformerBlock};
use arenagrad::session::{Program, Session, check_gradients};

/// The error of `f`.
fn error(f: impl for<'g> Fn(&'g Builder, Var<'g>)) -> String {
    let g = Builder::new("bad");
    f(&g, g.input("x", [2, 6], DType::F32));
    g.finish([]).unwrap_err().to_string()
}

#[test]
fn an_error_of_a_layer_names_the_layer_first() {
    let starts = |want: &str, f: &dyn for<'g> Fn(&'g Builder, Var<'g>)| {
        let e = error(f);
        assert!(e.starts_with(want) && e.contains("tests/ops/layer_scopes.rs:"), "{e}\nshould begin with {want}");
    };
    starts("layer \"fc1\": param(): ", &|g, x| {
        _ = nn::linear_with(g, "fc1", x, 3, nn::Linear::default().weight_init(Init::Normal(-1.0)));
    });
    // A scalar is no row of inputs.
    starts("layer \"fc1\": reshape(", &|g, x| _ = nn::linear(g, "fc1", x.sum(..), 3));
    starts("layer \"conv\": conv2d(f32[2,6]", &|g, x| {
        _ = nn::conv2d(g, "conv", x, 3, 3, Conv2d::default());
    });
    starts("layer \"ln\": layer_norm(", &|g, x| _ = nn::layer_norm(g, "ln", x, -1.0));
    starts("layer \"bn\": batch_norm(", &|g, x| {
        _ = nn::batch_norm(g, "bn", x.narrow(0, 0, 1), BatchNorm::default());
    });
    starts("layer \"wte\": gather(", &|g, x| _ = nn::embedding(g, "wte", x, 10, 4, DType::F32));
    starts("layer \"transformer.wte\": gather(", &|g, x| {
        let [vocabulary, context, layers, heads, width] = [10, 6, 1, 2, 4];
        let o = nn::Gpt::default()
            .vocabulary(vocabulary)
            .context(context)
            .layers(layers)
            .heads(heads)
            .width(width)
            .bias(false)
            .dropout(0.0)
            .gelu_tanh(false);
        _ = nn::gpt(g, x, DType::F32, o);
    });
    // The nodes of a cell come from where it was made.
    starts("layer \"cell\": matmul(", &|g, x| {
        let cell = nn::rnn_cell(g, "cell", [5, 3], DType::F32);
        _ = cell(x, x);
    });
    starts("layer \"cell\": matmul(", &|g, x| {
        let cell = nn::gru_cell(g, "cell", [6, 3], DType::F32);
        _ = cell(x, x);
    });
    starts("layer \"cell\": matmul(", &|g, x| {
        let cell = nn::lstm_cell(g, "cell", [6, 3], DType::F32);
        _ = cell(x, x, x);
    });
    starts("layer \"rnn\": a recurrent layer takes [steps, batch, inputs]", &|g, x| _ = nn::rnn(g, "rnn", x, x));
    // Of layers in layers, the innermost.
    starts("layer \"block.self_attn\": multi_head_attention(", &|g, x| {
        _ = nn::transformer_block(g, "block", x.unsqueeze(0), TransformerBlock::new(4, 8));
    });
    starts("layer \"net.1\": matmul(f32[2,6], f32[2,6]): ", &|g, x| {
        _ = nn::Sequential::new(g, "net", x).then(|_, _, x| x.relu()).then(|_, _, x| x.matmul(x)).output();
    });
    // After a layer, errors are of the graph again.
    let e = error(|g, x| _ = nn::linear(g, "fc1", x, 3).matmul(x));
    assert!(e.starts_with("matmul("), "{e}");
}

/// Writes 0.1·(i mod 7) − 0.2 and so on into all f64 leaves of `p`.
fn fill(p: &mut Program, graph: &GraphBuf) {
    for (k, leaf) in graph.view().leaves().enumerate() {
        if let Ok(to) = p.values_mut::<f64>(leaf.name) {
            to.iter_mut().enumerate().for_each(|(i, v)| *v = ((i * 5 + k * 3) % 11) as f64 * 0.1 - 0.45);
        }
    }
}

#[test]
fn twins_share_their_params_and_gradients_add_up() {
    let g = Builder::new("twins");
    let [a, b] = ["a", "b"].map(|name| g.input(name, [3, 4], DType::F64));
    let embed = |x| nn::linear(&g, "fc", x, 2).tanh();
    let (p, q) = g.reuse(|| (embed(a), embed(b)));
    let loss = (p - q).square().sum(..).named("loss");
    let graph = g.finish([loss]).unwrap();
    let names: Vec<String> = graph.view().leaves().map(|l| l.name.to_string()).collect();
    assert_eq!(names, ["a", "b", "fc.weight", "fc.bias"]);
    let step = grad(&graph, "loss", &GradOptions::wrt(&["fc.weight", "fc.bias"])).unwrap();
    let mut run = Session::new().compile(&step).unwrap();
    fill(&mut run, &step);
    run.step().unwrap();
    // The same in loops.
    let of = |name: &str| run.values::<f64>(name).unwrap().to_vec();
    let (a, b, w, bias) = (of("a"), of("b"), of("fc.weight"), of("fc.bias"));
    let unit =
        |x: &[f64], row: usize, o: usize| (bias[o] + (0..4).map(|i| x[row * 4 + i] * w[o * 4 + i]).sum::<f64>()).tanh();
    let (mut want, mut dw, mut db) = (0.0, vec![0.0; 8], vec![0.0; 2]);
    for row in 0..3 {
        for o in 0..2 {
            let (p, q) = (unit(&a, row, o), unit(&b, row, o));
            want += (p - q) * (p - q);
            let (dp, dq) = (2.0 * (p - q) * (1.0 - p * p), -2.0 * (p - q) * (1.0 - q * q));
            db[o] += dp + dq;
            (0..4).for_each(|i| dw[o * 4 + i] += dp * a[row * 4 + i] + dq * b[row * 4 + i]);
        }
    }
    let near = |got: &[f64], want: &[f64]| {
        assert!(got.iter().zip(want).all(|(x, y)| (x - y).abs() < 1e-13), "{got:?} {want:?}");
    };
    near(&of("loss"), &[want]);
    near(&of("grad.fc.weight"), &dw);
    near(&of("grad.fc.bias"), &db);
}

/// Applies `f` to two inputs, and asks that the result has the gradients of differences and `params` params.
fn shared(dims: &[usize], params: usize, f: impl for<'g> Fn(&'g Builder, Var<'g>) -> Var<'g>) {
    let g = Builder::new("shared");
    let [a, b] = ["a", "b"].map(|name| g.input(name, dims, DType::F64));
    let y = g.reuse(|| f(&g, a) * 2.0 + f(&g, b));
    let graph = g.finish([y.named("y")]).unwrap();
    let text = graph.to_string();
    assert_eq!(text.lines().filter(|l| l.contains("= param ")).count(), params, "{text}");
    let check = check_gradients(&graph, &[]).unwrap();
    assert!(check.to_string().lines().count() >= params && !check.to_string().contains("WRONG"), "{check}");
}

#[test]
fn every_kind_of_layer_can_be_applied_twice() {
    shared(&[2, 3, 4], 6, |g, x| {
        let seq = nn::Sequential::new(g, "net", x);
        let seq = seq.then(|g, name, x| nn::linear(g, name, x, 5)).then(|_, _, x| x.tanh());
        seq.then(|g, name, x| nn::linear(g, name, x, 4)).then(|g, name, x| nn::layer_norm(g, name, x, 1e-5)).output()
    });
    shared(&[1, 3, 4], 12, |g, x| nn::transformer_block(g, "block", x, TransformerBlock::new(2, 3)));
    shared(&[1, 2, 5, 5], 2, |g, x| nn::conv2d(g, "conv", x, 3, 3, Conv2d::default()).tanh());
    shared(&[3, 2, 4], 4, |g, x| nn::gru(g, "gru", x, g.full(0.0, [2, 3], DType::F64)).0);
    shared(&[1, 3, 4], 4, |g, x| nn::multi_head_attention(g, "mha", [x; 3], MultiHead::new(2)));
    shared(&[4, 3], 2, |g, x| nn::batch_norm(g, "bn", x, BatchNorm::default()).tanh());
}

#[test]
fn a_layer_is_shared_between_a_loop_and_its_outside() {
    let g = Builder::new("loop");
    let x = g.input("x", [5, 2, 3], DType::F64);
    let layer = |x| nn::linear(&g, "fc", x, 3).tanh();
    let y = g.reuse(|| {
        let first = layer(x.narrow(0, 0, 1).squeeze(0));
        let (last, _) = g.scan(&[first], &[x], |h, x| (vec![layer(h[0] + x[0])], vec![]));
        layer(last[0])
    });
    let graph = g.finish([y.named("y")]).unwrap();
    assert_eq!(graph.view().leaves().count(), 3);
    assert!(!check_gradients(&graph, &[]).unwrap().to_string().contains("WRONG"));
}

#[test]
fn a_second_leaf_of_another_kind_is_refused_with_both_places() {
    let here = "tests/ops/layer_scopes.rs:";
    let both = |words: &[&str], f: &dyn for<'g> Fn(&'g Builder, Var<'g>)| {
        let e = error(f);
        assert!(words.iter().all(|w| e.contains(w)), "{words:?} are not all in: {e}");
        assert_eq!(e.matches(here).count(), 2, "{e}");
    };
    both(&["two leaves are called \"fc.weight\"", "Builder::reuse"], &|g, x| {
        nn::linear(g, "fc", x, 2);
        nn::linear(g, "fc", x, 2);
    });
    both(&["layer \"fc\": leaf \"fc.weight\" is param", "shape=[2,6]", "shape=[3,6]"], &|g, x| {
        g.reuse(|| (nn::linear(g, "fc", x, 2), nn::linear(g, "fc", x, 3)));
    });
    both(&["leaf \"w\" is param", "state dtype=f32"], &|g, _| {
        g.reuse(|| (g.param("w", [2], DType::F32, Init::Ones), g.state("w", [2], DType::F32, Init::Ones)));
    });
    both(&["leaf \"w\"", "dtype=f32", "dtype=f64"], &|g, _| {
        g.reuse(|| (g.param("w", [2], DType::F32, Init::Ones), g.param("w", [2], DType::F64, Init::Ones)));
    });
    both(&["leaf \"w\"", "init=ones", "init=normal scale=0.5"], &|g, _| {
        g.reuse(|| (g.param("w", [2], DType::F32, Init::Ones), g.param("w", [2], DType::F32, Init::Normal(0.5))));
    });
    both(&["leaf \"w\"", "frozen=false", "frozen=true"], &|g, _| {
        g.reuse(|| (g.param("w", [2], DType::F32, Init::Ones), g.frozen_param("w", [2], DType::F32, Init::Ones)));
    });
    both(&["leaf \"x\" is input", "default=1"], &|g, _| {
        g.reuse(|| g.input_or("x", [2, 6], DType::F32, 1.0));
    });
    // After the scope, names are one leaf's again.
    both(&["two leaves are called \"w\""], &|g, _| {
        g.reuse(|| g.param("w", [2], DType::F32, Init::Ones));
        g.param("w", [2], DType::F32, Init::Ones);
    });
}

/// Mean and unbiased variance of the columns of `x` `[4, 2]`.
fn moments(x: &[f64]) -> [[f64; 2]; 2] {
    let mean = [0, 1].map(|c| (0..4).map(|r| x[r * 2 + c]).sum::<f64>() / 4.0);
    [mean, [0, 1].map(|c| (0..4).map(|r| (x[r * 2 + c] - mean[c]).powi(2)).sum::<f64>() / 3.0)]
}

#[test]
fn a_batch_norm_applied_twice_updates_its_statistics_in_order() {
    let g = Builder::new("bn");
    let [a, b, c] = ["a", "b", "c"].map(|name| g.input(name, [4, 2], DType::F64));
    let o = BatchNorm::default().momentum(0.25);
    g.reuse(|| {
        nn::batch_norm(&g, "bn", a, o).tap("ya");
        nn::batch_norm(&g, "bn", b, o).tap("yb");
        // What is evaluated afterwards reads the statistics of both.
        nn::batch_norm(&g, "bn", c, o.training(false)).tap("yc");
    });
    let graph = g.finish([]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(0).unwrap();
    for (k, name) in ["a", "b", "c"].into_iter().enumerate() {
        let to = p.values_mut::<f64>(name).unwrap();
        to.iter_mut().enumerate().for_each(|(i, v)| *v = ((i * (3 + k)) % 7) as f64 - k as f64);
    }
    p.step().unwrap();
    let of = |name: &str| p.values::<f64>(name).unwrap().to_vec();
    let (mut mean, mut var) = ([0.0; 2], [1.0; 2]);
    for name in ["a", "b"] {
        let [m, v] = moments(&of(name));
        for i in 0..2 {
            (mean[i], var[i]) = (0.75 * mean[i] + 0.25 * m[i], 0.75 * var[i] + 0.25 * v[i]);
        }
    }
    let near = |got: &[f64], want: &[f64]| {
        assert!(
            got.len() == want.len() && got.iter().zip(want).all(|(x, y)| (x - y).abs() < 1e-12),
            "{got:?} {want:?}"
        );
    };
    near(&of("bn.running_mean"), &mean);
    near(&of("bn.running_var"), &var);
    assert_eq!(p.values::<i64>("bn.num_batches_tracked").unwrap(), [2]);
    let c = of("c");
    let want: Vec<f64> = (0..8).map(|i| (c[i] - mean[i % 2]) / (var[i % 2] + 1e-5).sqrt()).collect();
    near(&of("yc"), &want);
}

#[test]
fn updates_continue_or_are_refused() {
    let e = error(|g, _| {
        let s = g.state("s", [], DType::F32, Init::Zeros);
        g.update(s, s + 1.0);
        g.update(s, s + 2.0);
    });
    assert!(e.contains("update of \"s\": it has an update already"), "{e}");
    let e = error(|g, x| {
        let s = g.state("s", [], DType::F32, Init::Zeros);
        g.update_with(s, |s| s + 1.0);
        g.update_with(s, |s| s + x);
    });
    assert!(e.contains("update of \"s\": the next value is of another type"), "{e}");
    let e = error(|g, x| g.update_with(x, |x| x + 1.0));
    assert!(e.contains("only params and states are updated"), "{e}");
    let e = error(|g, _| {
        let s = g.state("s", [], DType::F32, Init::Zeros);
        g.scan_with(arenagrad::graph::Loop::default().length(2), &[s], &[], |c, _| {
            g.update_with(s, |s| s + 1.0);
            (c.to_vec(), vec![])
        });
    });
    assert!(e.contains("an update stands inside a region"), "{e}");
}

#[test]
fn each_dropout_of_a_shared_layer_draws_its_own_mask() {
    let g = Builder::new("masks");
    let x = g.full(1.0, [4000], DType::F32);
    g.reuse(|| (nn::dropout(x, 0.5).tap("a"), nn::dropout(x, 0.5).tap("b")));
    let mut p = Session::new().compile(&g.finish([]).unwrap()).unwrap();
    p.init(3).unwrap();
    p.step().unwrap();
    let (a, b) = (p.values::<f32>("a").unwrap(), p.values::<f32>("b").unwrap());
    let same = a.iter().zip(b).filter(|(a, b)| a == b).count();
    assert!((1800..2200).contains(&same), "{same}");
}

/// The net of the next test.
fn net<'g>(g: &'g Builder, training: bool) -> Var<'g> {
    g.training(training);
    let x = g.input("x", [6, 4], DType::F64);
    let h = nn::batch_norm(g, "bn", nn::linear(g, "fc1", x, 4), BatchNorm::default());
    let h = nn::dropout(h, 0.5).reshape([2, 3, 4]);
    let block = TransformerBlock::new(2, 3).dropout(0.3).attention(MultiHead::new(2).dropout(0.2));
    nn::transformer_block(g, "block", h, block)
}

#[test]
fn one_function_builds_the_training_and_the_evaluating_net() {
    let build = |training: bool| {
        let g = Builder::new("net");
        let y = net(&g, training);
        let loss = y.square().mean(..).named("loss");
        g.finish([y.named("y"), loss]).unwrap()
    };
    let (learn, eval) = (build(true), build(false));
    let (train_text, eval_text) = (learn.to_string(), eval.to_string());
    // Dropout as an op, and inside attention; the statistics of batch norm.
    for (drops, text) in [(true, &train_text), (false, &eval_text)] {
        for word in ["= dropout ", "dropout=0.2", "= batch_norm ", "update "] {
            assert_eq!(text.contains(word), drops, "{word:?}: {text}");
        }
        assert_eq!(text.contains("= batch_norm_inference "), !drops, "{text}");
    }
    let mut p = Session::new().compile_all(&[("learn", &learn), ("eval", &eval)]).unwrap();
    p.init(1).unwrap();
    p.values_mut::<f64>("x").unwrap().iter_mut().enumerate().for_each(|(i, v)| *v = i as f64 * 0.1);
    p.step().unwrap();
    let method = p.method("eval").unwrap();
    let (x, y) = (p.input_of::<f64>(method, "x").unwrap(), p.output_of::<f64>(method, "y").unwrap());
    p[x].iter_mut().enumerate().for_each(|(i, v)| *v = i as f64 * 0.1);
    p.run(method).unwrap();
    let first = p[y].to_vec();
    p.run(method).unwrap();
    assert_eq!(first, p[y]);
    let check = check_gradients(&eval, &[]).unwrap().to_string();
    assert!(!check.contains("WRONG"), "{check}");
}

#[test]
fn what_training_refuses_evaluation_refuses_too() {
    let both = |words: &str, f: &dyn for<'g> Fn(&'g Builder, Var<'g>)| {
        for training in [true, false] {
            let e = error(|g, x| {
                g.training(training);
                f(g, x);
            });
            assert!(e.contains(words), "{training}: {e}");
        }
    };
    both("p is 1.5", &|_, x| _ = nn::dropout(x, 1.5));
    both("p is -0.1", &|_, x| _ = nn::dropout(x, -0.1));
    both("p is NaN", &|_, x| _ = nn::dropout(x, f64::NAN));
    both("dropout", &|g, x| _ = nn::multi_head_attention(g, "a", [x.unsqueeze(0); 3], MultiHead::new(2).dropout(7.0)));
    both("eps", &|g, x| _ = nn::batch_norm(g, "b", x, BatchNorm::default().eps(-1.0)));
    let g = Builder::new("default");
    assert!(g.is_training());
    g.training(false);
    assert!(!g.is_training());
}

/// Every dropout there is, by hand and in layers, is the identity under `training(false)`: no graph has a random key.
#[test]
fn nothing_is_dropped_in_evaluation() {
    type Net = &'static dyn for<'g> Fn(&'g Builder, Var<'g>) -> Var<'g>;
    let nets: [(&str, Net); 9] = [
        ("Var::dropout", &|_, x| x.dropout(0.5)),
        ("nn::dropout", &|_, x| nn::dropout(x, 0.5)),
        ("Attention", &|_, x| x.attention(x, x, Attention::default().layout(Layout::Bsd).dropout(0.5))),
        ("MultiHead", &|g, x| nn::multi_head_attention(g, "a", [x; 3], MultiHead::new(2).dropout(0.5))),
        ("CausalSelfAttention", &|g, x| {
            nn::causal_self_attention(g, "a", x, nn::CausalSelfAttention::new(2).dropout(0.5))
        }),
        ("TransformerBlock", &|g, x| nn::transformer_block(g, "t", x, TransformerBlock::new(2, 8).dropout(0.5))),
        ("Lora", &|g, x| nn::lora_linear(g, "l", x, 3, nn::Lora::new(2, 4.0).dropout(0.5))),
        ("Recurrent", &|g, x| nn::lstm_with(g, "r", x, 3, nn::Recurrent::default().layers(2).dropout(0.5)).output),
        ("Gpt", &|g, x| {
            let tokens = x.narrow(-1, 0, 1).reshape([2, 3]).cast(DType::I32);
            nn::gpt(
                g,
                tokens,
                DType::F32,
                nn::Gpt::default()
                    .vocabulary(5)
                    .context(4)
                    .layers(1)
                    .heads(2)
                    .width(8)
                    .bias(true)
                    .dropout(0.5)
                    .gelu_tanh(true),
            )
        }),
    ];
    for (name, net) in nets {
        let random = |training| {
            let g = Builder::new("net");
            g.training(training);
            let y = net(&g, g.input("x", [2, 3, 8], DType::F32));
            g.finish([y.named("y")]).unwrap_or_else(|e| panic!("{name}: {e}")).to_string().contains("rng")
        };
        assert_eq!([true, false].map(random), [true, false], "{name}");
    }
}
