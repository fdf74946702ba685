//! Convolutions and losses against torch, in f64: outputs, and gradients of every input.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, Reduction, Var};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::nn::{self, Conv1d, ConvTranspose1d, ConvTranspose2d, Recurrent};
use arenagrad::session::Session;
use safetensors::SafeTensors;
use std::path::Path;

/// A difference that is NaN is no agreement.
fn nan_is_far(d: f64) -> f64 {
    if d.is_nan() { f64::INFINITY } else { d }
}

/// Checks one case. Leaves are called as the fixture's inputs, or `n.weight` for w and `n.bias` for b; leaves that are
/// not inputs of the case come from the fixture's common tensors.
fn agrees(case: &str, f: impl for<'g> Fn(&'g Builder) -> Var<'g>) {
    let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/layers.safetensors")).unwrap();
    let fixture = SafeTensors::deserialize(&bytes).unwrap();
    let numbers = |key: &str| -> Option<Vec<f64>> {
        let t = fixture.tensor(key).ok()?;
        Some(t.data().as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect())
    };
    let key = |leaf: &str| match leaf {
        "n.weight" => "w".to_string(),
        "n.bias" => "b".to_string(),
        other => other.to_string(),
    };
    let g = Builder::new(case);
    let y = f(&g);
    let loss = if y.rank() == 0 { y * 1.0 } else { (y * y).sum(..) };
    let graph = g.finish([y.named("y"), loss.named("loss")]).unwrap();
    let leaves: Vec<String> = graph.view().leaves().map(|l| l.name.to_string()).collect();
    let given = |l: &String| numbers(&format!("{case}.in.{}", key(l))).is_some();
    let wrt: Vec<&str> = leaves.iter().filter(|l| given(l)).map(String::as_str).collect();
    assert!(!wrt.is_empty(), "{case}");
    let step = grad(&graph, "loss", &GradOptions::wrt(&wrt)).unwrap();
    let mut p = Session::new().compile(&step).unwrap();
    for l in &leaves {
        let Some(data) = numbers(&format!("{case}.in.{}", key(l))).or_else(|| (l != "labels").then(|| numbers(l))?)
        else {
            let labels: Vec<i32> =
                fixture.tensor(l).unwrap().data().as_chunks().0.iter().map(|&b| i32::from_le_bytes(b)).collect();
            p.values_mut::<i32>(l).unwrap().copy_from_slice(&labels);
            continue;
        };
        let to = p.values_mut::<f64>(l);
        to.unwrap().copy_from_slice(&data);
    }
    p.step().unwrap();
    let near = |ours: &[f64], key: String| {
        let theirs = numbers(&key).unwrap_or_else(|| panic!("{key} is missing"));
        assert_eq!(ours.len(), theirs.len(), "{key}");
        let far =
            ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).map(nan_is_far).fold(0.0, f64::max);
        assert!(far < 1e-12, "{key}: {far:e}");
    };
    near(p.values("y").unwrap(), format!("{case}.y"));
    for l in &wrt {
        near(p.values(&format!("grad.{l}")).unwrap(), format!("{case}.grad.{}", key(l)));
    }
}

fn input<'g>(g: &'g Builder, name: &str, dims: &[usize]) -> Var<'g> {
    g.input(name, dims, DType::F64)
}

#[test]
fn convolutions_in_one_dimension() {
    let options = Conv1d::default().stride([2]).pad([1, 1]).dilation([2]).groups(2);
    agrees("conv1d", |g| nn::conv1d(g, "n", input(g, "x", &[2, 4, 9]), 6, 3, options));
    agrees("causal", |g| nn::causal_depthwise_conv1d(g, "n", input(g, "x", &[2, 3, 7]), 4));
}

#[test]
fn transposed_convolutions() {
    let o = ConvTranspose2d::default().stride([2, 3]).pad([1, 0]).output_pad([1, 2]).groups(2);
    agrees("transpose", |g| nn::conv_transpose2d(g, "n", input(g, "x", &[2, 4, 3, 2]), 6, [3, 2], o));
    let o = ConvTranspose2d::default().dilation([2, 1]);
    agrees("dilated", |g| nn::conv_transpose2d(g, "n", input(g, "x", &[1, 2, 3, 4]), 5, [2, 3], o));
}

#[test]
fn losses() {
    let mean = Reduction::Mean;
    fn a(g: &Builder) -> Var<'_> {
        input(g, "a", &[4, 3])
    }
    fn sign(g: &Builder) -> Var<'_> {
        input(g, "sign", &[4])
    }
    agrees("l1", |g| nn::l1_loss(a(g), input(g, "b", &[4, 3]), mean));
    agrees("huber", |g| nn::huber_loss(a(g), input(g, "b", &[4, 3]), 0.7, mean));
    agrees("nll", |g| nn::nll_loss(a(g).log_softmax(1), g.input("labels", [4], DType::I32), mean));
    agrees("kl", |g| nn::kl_div(a(g).log_softmax(1), input(g, "t", &[4, 3]), Reduction::Sum));
    agrees("cosine", |g| nn::cosine_embedding_loss(a(g), input(g, "b", &[4, 3]), sign(g), 0.1, mean));
    agrees("hinge", |g| nn::hinge_embedding_loss(a(g), sign(g).reshape([4, 1]).broadcast([4, 3]), 0.8, mean));
}

#[test]
fn what_does_not_fit_is_named() {
    let error = |f: for<'g> fn(&'g Builder) -> Var<'g>| {
        let g = Builder::new("bad");
        f(&g);
        g.finish([]).unwrap_err().to_string()
    };
    let e = error(|g| nn::conv1d(g, "n", input(g, "x", &[2, 3]), 4, 3, Conv1d::default()));
    assert!(e.contains("conv1d") && e.contains("rank 3"), "{e}");
    // A vector has no channels.
    let e = error(|g| nn::conv1d(g, "n", input(g, "x", &[3]), 4, 3, Conv1d::default()));
    assert!(e.contains("conv1d(f64[3], f64[4,0,3]): "), "{e}");
    let e = error(|g| nn::causal_depthwise_conv1d(g, "n", input(g, "x", &[3]), 4));
    assert!(e.contains("conv1d(f64[3], f64[0,0,4]): "), "{e}");
    let e = error(|g| nn::conv_transpose1d(g, "n", input(g, "x", &[3]), 4, 2, ConvTranspose1d::default()));
    assert!(e.contains("conv_transpose1d(f64[3], f64[0,4,2]): "), "{e}");
    // A name that another layer has, and sizes that overflow, are errors, too.
    let e = error(|g| {
        nn::linear(g, "n", input(g, "z", &[2, 3]), 5);
        nn::conv1d(g, "n", input(g, "x", &[2, 3, 4]), 4, 3, Conv1d::default())
    });
    assert!(e.contains("n.weight"), "{e}");
    error(|g| nn::conv1d(g, "n", input(g, "x", &[2, 3, 4]), 4, usize::MAX, Conv1d::default()));
    let huge = ConvTranspose2d::default().pad([usize::MAX; 2]).output_pad([usize::MAX; 2]);
    let g = Builder::new("bad");
    nn::conv_transpose2d(&g, "n", input(&g, "x", &[1, 2, 3, 3]), 4, [2, 2], huge);
    assert!(g.finish([]).unwrap_err().to_string().contains("conv_transpose2d"));
    let o = ConvTranspose2d::default().output_pad([1, 0]);
    let g = Builder::new("bad");
    nn::conv_transpose2d(&g, "n", input(&g, "x", &[1, 2, 3, 3]), 4, [2, 2], o);
    let e = g.finish([]).unwrap_err().to_string();
    assert!(e.contains("conv_transpose2d") && e.contains("output_pad 1 is not below stride 1"), "{e}");
    let e = error(|g| nn::huber_loss(input(g, "a", &[2]), input(g, "b", &[2]), 0.0, Reduction::Mean));
    assert!(e.contains("huber_loss") && e.contains("delta is 0"), "{e}");
    let e = error(|g| nn::nll_loss(input(g, "a", &[2, 3]), g.input("y", [3], DType::I32), Reduction::Mean));
    assert!(e.contains("nll_loss") && e.contains("[3]"), "{e}");
}

#[test]
fn a_layer_on_a_value_of_another_builder_leaves_that_builder_alone() {
    for recurrent in [false, true] {
        let (g, other) = (Builder::new("g"), Builder::new("other"));
        let x = input(&other, "x", &[1, 2, 3]);
        if recurrent {
            nn::rnn_with(&g, "n", x, 2, Recurrent::default());
        } else {
            nn::conv1d(&g, "n", x, 2, 1, Conv1d::default());
        }
        assert!(g.finish([]).unwrap_err().to_string().contains("another builder"));
        assert!(other.finish([x.exp()]).is_ok());
    }
}
