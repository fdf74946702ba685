//! Recurrent networks of several layers and directions: torch's numbers, ragged sequences, dropout, bad input.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, GradOptions, Init, Var, grad};
use arenagrad::nn::{self, LstmRun, Nonlinearity, Recurrent, RecurrentRun};
use arenagrad::session::{Program, Session};
use safetensors::SafeTensors;
use std::path::Path;

const STEPS: usize = 4;
const BATCH: usize = 3;
const INPUTS: usize = 2;
const HIDDEN: usize = 3;

fn fixture() -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/recurrent.safetensors")).unwrap()
}

/// Builds and runs one case, and compares outputs and gradients with torch's.
fn follows(case: &str, ragged: bool, o: Recurrent<'_>, starts: bool) {
    let bytes = fixture();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let numbers = |key: &str| -> Vec<f64> {
        let t = file.tensor(key).unwrap_or_else(|e| panic!("{key}: {e}"));
        t.data().as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect()
    };
    let g = Builder::new(case);
    let dims = if o.batch_first { [BATCH, STEPS, INPUTS] } else { [STEPS, BATCH, INPUTS] };
    let x = g.input("x", dims, DType::F64);
    let rows = o.layers * if o.bidirectional { 2 } else { 1 };
    let first = |name: &str| starts.then(|| g.input(name, [rows, BATCH, HIDDEN], DType::F64));
    let lengths = ragged.then(|| g.input("lengths", [BATCH], DType::I64));
    let lstm = case.starts_with("lstm");
    let (layers, bidirectional, bias, batch_first) = (o.layers, o.bidirectional, o.bias, o.batch_first);
    let o = Recurrent::default()
        .layers(layers)
        .bidirectional(bidirectional)
        .bias(bias)
        .batch_first(batch_first)
        .nonlinearity(o.nonlinearity)
        .h0(first("h0"))
        .c0(if lstm { first("c0") } else { None })
        .lengths(lengths);
    let (y, h, c) = match &case[..3] {
        "rnn" => pair(nn::rnn_with(&g, "n", x, HIDDEN, o)),
        "gru" => pair(nn::gru_with(&g, "n", x, HIDDEN, o)),
        _ => {
            let LstmRun { output, h_n, c_n, .. } = nn::lstm_with(&g, "n", x, HIDDEN, o);
            (output, h_n, Some(c_n))
        }
    };
    let weights = (g.iota(0, [h.numel()], DType::F64) + 1.0).reshape(h.dims());
    let cells = c.map_or(g.full(0.0, [], DType::F64), |c| (c * c * c).sum(..));
    let loss = (y * y).sum(..) + (h * weights).sum(..) + cells;
    let outputs = [Some(y.named("y")), Some(h.named("h")), c.map(|c| c.named("c")), Some(loss.named("loss"))];
    let graph = g.finish(outputs.into_iter().flatten()).unwrap();
    let leaves: Vec<String> = graph.view().leaves().map(|l| l.name.to_string()).filter(|n| n != "lengths").collect();
    let wrt: Vec<&str> = leaves.iter().map(String::as_str).collect();
    let known: Vec<String> =
        file.names().into_iter().filter_map(|n| n.strip_prefix(&format!("{case}.in."))).map(str::to_string).collect();
    assert!(known.iter().all(|k| leaves.contains(k)) && known.len() == leaves.len(), "{case}: {known:?} {leaves:?}");
    let step = grad(&graph, "loss", &GradOptions::wrt(&wrt)).unwrap();
    let mut p = Session::new().compile(&step).unwrap();
    for l in &leaves {
        p.values_mut::<f64>(l).unwrap().copy_from_slice(&numbers(&format!("{case}.in.{l}")));
    }
    if ragged {
        p.values_mut::<i64>("lengths").unwrap().copy_from_slice(&[3, 4, 1]);
    }
    p.step().unwrap();
    let near = |ours: &[f64], key: String| {
        let theirs = numbers(&key);
        assert_eq!(ours.len(), theirs.len(), "{key}");
        let far = |(a, b): (&f64, &f64)| if a.is_nan() { f64::INFINITY } else { (a - b).abs() / b.abs().max(1.0) };
        let far = ours.iter().zip(&theirs).map(far).fold(0.0, f64::max);
        assert!(far < 1e-12, "{key}: {far:e}");
    };
    ["y", "h"].into_iter().chain(lstm.then_some("c")).for_each(|o| near(p.values(o).unwrap(), format!("{case}.{o}")));
    for l in &wrt {
        near(p.values(&format!("grad.{l}")).unwrap(), format!("{case}.grad.{l}"));
    }
}

fn pair<'g>(run: RecurrentRun<'g>) -> (Var<'g>, Var<'g>, Option<Var<'g>>) {
    (run.output, run.h_n, None)
}

#[test]
fn layers_and_directions_are_torchs() {
    for kind in ["rnn", "gru", "lstm"] {
        follows(&format!("{kind}.deep"), false, Recurrent::default().layers(3), true);
        follows(&format!("{kind}.both"), false, Recurrent::default().layers(2).bidirectional(true), true);
    }
    follows("rnn.relu", false, Recurrent::default().layers(2).nonlinearity(Nonlinearity::Relu), false);
}

#[test]
fn ragged_sequences_are_torchs_packed_ones() {
    for kind in ["rnn", "gru", "lstm"] {
        follows(&format!("{kind}.ragged"), true, Recurrent::default().layers(2).bidirectional(true), true);
        follows(&format!("{kind}.plain"), true, Recurrent::default().bias(false).batch_first(true), false);
    }
}

/// A net with lengths, on inputs of which those behind the ends are `behind`.
fn ragged(behind: f64, lengths: &[i32]) -> Program {
    let g = Builder::new("ragged");
    let x = g.param("x", [STEPS, BATCH, INPUTS], DType::F64, Init::Zeros);
    let of = g.input("lengths", [BATCH], DType::I32);
    let run = nn::lstm_with(&g, "n", x, HIDDEN, Recurrent::default().layers(2).bidirectional(true).lengths(of));
    let loss = (run.output.square().sum(..) + run.h_n.sum(..) + run.c_n.sum(..)).named("loss");
    let graph = g.finish([run.output.named("y"), run.h_n.named("h"), loss]).unwrap();
    let step = grad(&graph, "loss", &GradOptions::wrt(&["x", "n.weight_ih_l0", "n.weight_hh_l1_reverse"])).unwrap();
    let mut p = Session::new().compile(&step).unwrap();
    p.init(5).unwrap();
    let at = |i: usize| (i / (BATCH * INPUTS), i / INPUTS % BATCH);
    let live = |i: usize| (at(i).0 as i32) < lengths[at(i).1];
    let to = p.values_mut::<f64>("x").unwrap();
    to.iter_mut().enumerate().for_each(|(i, v)| *v = if live(i) { (i * 7 % 5) as f64 * 0.3 - 0.5 } else { behind });
    p.values_mut::<i32>("lengths").unwrap().copy_from_slice(lengths);
    p
}

#[test]
fn what_is_behind_the_end_has_no_part() {
    let lengths = [2, 4, 0];
    let (mut clean, mut dirty) = (ragged(0.0, &lengths), ragged(f64::NAN, &lengths));
    clean.step().unwrap();
    dirty.step().unwrap();
    for name in ["y", "h", "grad.x", "grad.n.weight_ih_l0", "grad.n.weight_hh_l1_reverse"] {
        let (a, b) = (clean.values::<f64>(name).unwrap(), dirty.values::<f64>(name).unwrap());
        assert_eq!(a, b, "{name}");
        assert!(a.iter().all(|v| v.is_finite()) && a.iter().any(|v| *v != 0.0), "{name}");
    }
    let y = clean.values::<f64>("y").unwrap();
    let width = 2 * HIDDEN;
    for (step, row) in (0..STEPS).flat_map(|s| (0..BATCH).map(move |r| (s, r))) {
        let at = (step * BATCH + row) * width;
        let zeros = y[at..at + width].iter().all(|v| *v == 0.0);
        assert_eq!(zeros, step as i32 >= lengths[row], "step {step} of row {row}");
    }
    // A sequence of no steps ends in its first state, 0.
    let h = clean.values::<f64>("h").unwrap();
    (0..4).for_each(|k| assert_eq!(h[(k * BATCH + 2) * HIDDEN..][..HIDDEN], [0.0; HIDDEN]));
}

#[test]
fn a_length_outside_of_the_sequence_is_an_error_of_the_step() {
    for bad in [[2, 5, 1], [2, -1, 1]] {
        let e = ragged(0.0, &bad).step().unwrap_err().to_string();
        assert!(e.contains(&bad[1].to_string()) && e.contains("tests/ops/recurrent.rs:"), "{e}");
    }
}

#[test]
fn dropout_lies_between_layers_and_only_in_training() {
    let build = |training: bool, dropout: f64| {
        let g = Builder::new("drop");
        g.training(training);
        let x = g.full(1.0, [2, 50, 4], DType::F32);
        let run = nn::gru_with(&g, "n", x, 8, Recurrent::default().layers(2).dropout(dropout));
        let graph = g.finish([run.output.named("y")]).unwrap();
        let count = graph.to_string().matches("= dropout").count();
        let mut p = Session::new().compile(&graph).unwrap();
        p.init(1).unwrap();
        p.step().unwrap();
        (count, p.values::<f32>("y").unwrap().to_vec())
    };
    let (plain, dropped, evaluated) = (build(true, 0.0), build(true, 0.5), build(false, 0.5));
    assert_eq!((plain.0, dropped.0, evaluated.0), (0, 1, 0));
    assert_eq!(plain.1, evaluated.1);
    // All rows have one input: they differ by what is dropped.
    assert!(plain.1[..8] == plain.1[8..16] && dropped.1[..8] != dropped.1[8..16]);
    // What leaves the last layer is whole.
    assert!(dropped.1.iter().all(|y| *y != 0.0), "{:?}", dropped.1);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refuses = |words: &[&str], f: &dyn for<'g> Fn(&'g Builder, Var<'g>)| {
        let g = Builder::new("bad");
        f(&g, g.input("x", [4, 3, 2], DType::F32));
        let e = g.finish([]).unwrap_err().to_string();
        assert!(words.iter().all(|w| e.contains(w)) && e.contains("tests/ops/recurrent.rs:"), "{words:?}: {e}");
    };
    let plain = Recurrent::default;
    refuses(&["layer \"n\": rnn_with: x is f32[12,2]", "[steps, batch, inputs]"], &|g, x| {
        nn::rnn_with(g, "n", x.reshape([12, 2]), 3, plain());
    });
    refuses(&["x is i32", "[batch, steps, inputs]"], &|g, x| {
        nn::rnn_with(g, "n", x.cast(DType::I32), 3, plain().batch_first(true));
    });
    refuses(&["gru_with: 0 layers"], &|g, x| _ = nn::gru_with(g, "n", x, 3, plain().layers(0)));
    refuses(&["only an LSTM has cells"], &|g, x| {
        nn::gru_with(g, "n", x, 3, plain().c0(g.full(0.0, [1, 3, 3], DType::F32)));
    });
    refuses(&["lstm_with: h0 is f32[1,3,3]", "f32[4, 3, 3] is needed"], &|g, x| {
        let o = plain().layers(2).bidirectional(true).h0(g.full(0.0, [1, 3, 3], DType::F32));
        nn::lstm_with(g, "n", x, 3, o);
    });
    refuses(&["c0 is f64[1,3,3]"], &|g, x| {
        nn::lstm_with(g, "n", x, 3, plain().c0(g.full(0.0, [1, 3, 3], DType::F64)));
    });
    refuses(&["lengths are f32[3]", "i32 or i64 [3]"], &|g, x| {
        nn::rnn_with(g, "n", x, 3, plain().lengths(g.full(1.0, [3], DType::F32)));
    });
    refuses(&["lengths are i32[4]", "i32 or i64 [3]"], &|g, x| {
        nn::rnn_with(g, "n", x, 3, plain().lengths(g.full(1.0, [4], DType::I32)));
    });
    refuses(&["p is 1.5"], &|g, x| _ = nn::rnn_with(g, "n", x, 3, plain().layers(2).dropout(1.5)));
    refuses(&["two leaves are called \"n.weight_ih_l0\""], &|g, x| {
        nn::rnn_with(g, "n", x, 3, plain());
        // The first layer that is refused is the last one that is built.
        nn::rnn_with(g, "n", x, 3, plain().layers(usize::MAX));
    });
    refuses(&["does not fit in memory"], &|g, x| _ = nn::rnn_with(g, "n", x, usize::MAX / 2, plain()));
    refuses(&["sequence_mask(%0: f32[4,3,2]): lengths are i32 or i64"], &|_, x| _ = nn::sequence_mask(x, 4));
    let lengths = ": lengths are i32 or i64 [batch]";
    refuses(&["sequence_mask(", "f32[3])", lengths], &|g, _| _ = nn::sequence_mask(g.input("l", [3], DType::F32), 4));
    refuses(&["sequence_mask(", "i32[3,1])", lengths], &|g, _| {
        nn::sequence_mask(g.input("l", [3, 1], DType::I32), 4);
    });
    refuses(&["does not fit in memory"], &|g, _| _ = nn::sequence_mask(g.input("l", [3], DType::I32), usize::MAX));
    let (other, g) = (Builder::new("other"), Builder::new("bad"));
    let x = g.input("x", [4, 3, 2], DType::F32);
    nn::rnn_with(&g, "n", x, 3, plain().h0(other.input("h", [1, 3, 3], DType::F32)));
    let e = g.finish([]).unwrap_err().to_string();
    assert!(e.contains("rnn_with: a value of another builder"), "{e}");
}

#[test]
fn given_weights_make_the_same_graph() {
    let o = Recurrent::default().layers(2).bidirectional(true);
    let text = |given: bool| {
        let g = Builder::new("lstm");
        let x = g.input("x", [STEPS, BATCH, INPUTS], DType::F32);
        let run = if given {
            let mut weights = Vec::new();
            for (layer, inputs) in [(0, INPUTS), (1, 2 * HIDDEN)] {
                for way in ["", "_reverse"] {
                    let name = |of: &str| format!("n.{of}_l{layer}{way}");
                    let of = |of: &str, width: usize| {
                        g.param(&name(of), [4 * HIDDEN, width], DType::F32, Init::Uniform(1.0))
                    };
                    weights.extend([of("weight_ih", inputs), of("weight_hh", HIDDEN)]);
                    weights.extend(
                        ["bias_ih", "bias_hh"]
                            .map(|of| g.param(&name(of), [4 * HIDDEN], DType::F32, Init::Uniform(1.0))),
                    );
                }
            }
            nn::lstm_of(x, &weights, o)
        } else {
            nn::lstm_with(&g, "n", x, HIDDEN, o)
        };
        let graph = g.finish([run.output.named("y"), run.h_n.named("h"), run.c_n.named("c")]).unwrap();
        let mut program = Session::new().threads(1).compile(&graph).unwrap();
        program.init(0).unwrap();
        for name in graph.view().leaves().filter(|l| l.name.starts_with("n.")).map(|l| l.name.to_string()) {
            let values = program.values_mut::<f32>(&name).unwrap();
            values.iter_mut().enumerate().for_each(|(i, v)| *v = ((i * 7 + name.len()) % 11) as f32 * 0.1 - 0.5);
        }
        program.values_mut::<f32>("x").unwrap().iter_mut().enumerate().for_each(|(i, v)| *v = i as f32 * 0.1 - 1.0);
        program.step().unwrap();
        ["y", "h", "c"].map(|name| program.values::<f32>(name).unwrap().to_vec())
    };
    assert_eq!(text(true), text(false));
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let refused = |weights: &[[usize; 2]], o: Recurrent<'_>| {
        let g = Builder::new("rnn");
        let x = g.input("x", [STEPS, BATCH, INPUTS], DType::F32);
        let named = |(i, d): (usize, &[usize; 2])| g.param(&format!("w{i}"), *d, DType::F32, Init::Zeros);
        let all: Vec<Var<'_>> = weights.iter().enumerate().map(named).collect();
        g.finish([nn::gru_of(x, &all, o).output]).err().unwrap().to_string()
    };
    let o = Recurrent::default().bias(false);
    assert!(refused(&[[9, INPUTS]], o).contains("1 weights are given; 1 layers of 1 directions have 2"));
    assert!(refused(&[[9, 5], [9, 3]], o).contains("weight 0 is f32[9,5]; f32[9, 2] is needed"));
    assert!(refused(&[[9, INPUTS], [6, 3]], o).contains("weight 1 is f32[6,3]; f32[9, 3] is needed"));
}
