//! Writes models with operands and results of this engine, for other runtimes to compare with: `write_models DIR`, then
//! `python onnx/tools/node_tests.py ort DIR`. They are a convnet, a GPT and an LSTM.

use arenagrad::prelude::*;
use arenagrad_onnx::proto::TensorProto;
use arenagrad_onnx::{Tensor, write};
use prost::Message;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).ok_or("usage: write_models DIR")?;
    let root = Path::new(&root);
    save(&root.join("convnet"), &convnet()?)?;
    save(&root.join("gpt"), &gpt()?)?;
    save(&root.join("lstm"), &lstm()?)?;
    Ok(())
}

/// The network of `train digits`.
fn convnet() -> Result<GraphBuf> {
    let g = Builder::new("convnet");
    let x = g.input("images", [4, 1, 8, 8], DType::F32);
    let same = Conv2d::default().padding([1, 1]);
    let h = nn::conv2d(&g, "conv1", x, 16, [3, 3], same).relu();
    let h = nn::conv2d(&g, "conv2", h, 32, [3, 3], same).relu().max_pool2d(Pool2d::new([2, 2]));
    let h = nn::linear(&g, "fc1", h.reshape([4, usize::MAX]), 64).relu();
    g.finish([nn::linear(&g, "fc2", h, 10).named("logits")])
}

/// A small network of the kind of `train chargpt`.
fn gpt() -> Result<GraphBuf> {
    let g = Builder::new("gpt");
    g.training(false);
    let tokens = g.input("tokens", [2, 16], DType::I32);
    let o = nn::Gpt::default().vocabulary(60).context(16).layers(2).heads(4).width(32).gelu_tanh(false);
    g.finish([nn::gpt(&g, tokens, DType::F32, o).named("logits")])
}

/// A loop over 20 steps, and a head.
fn lstm() -> Result<GraphBuf> {
    let g = Builder::new("lstm");
    let (x, zero) = (g.input("x", [20, 3, 8], DType::F32), g.full(0.0, [3, 24], DType::F32));
    let (_, h, _) = nn::lstm(&g, "lstm", x, zero, zero);
    g.finish([nn::linear(&g, "head", h, 10).log_softmax(-1).named("classes")])
}

fn save(folder: &Path, graph: &GraphBuf) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(folder)?;
    let mut p = Session::new().compile(graph)?;
    p.init(1)?;
    std::fs::write(folder.join("model.onnx"), write(graph, &p)?)?;
    let view = graph.view();
    let input = view.leaves().find(|l| l.kind == arenagrad::graph::LeafKind::Input).ok_or("there is no input")?;
    match view.ty(input.value).dtype {
        DType::I32 => p.values_mut::<i32>(input.name)?.iter_mut().zip(0..).for_each(|(t, i)| *t = i * 7 % 60),
        _ => p.values_mut::<f32>(input.name)?.iter_mut().zip(0u16..).for_each(|(x, i)| *x = f32::from(i).sin()),
    }
    p.step()?;
    for b in p.bindings() {
        let kind = match b.role {
            arenagrad::session::Role::Input => "input",
            arenagrad::session::Role::Output => "output",
            _ => continue,
        };
        let tensor = Tensor::new(b.dtype, b.dims.to_vec(), p.bytes_of(b).to_vec())?;
        std::fs::write(folder.join(format!("{kind}_0.pb")), TensorProto::from(&tensor).encode_to_vec())?;
    }
    Ok(())
}
