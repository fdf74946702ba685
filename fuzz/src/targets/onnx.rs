//! Any bytes as an ONNX model. If they are read, the graph is sound, has a param for each weight, and prints to a text
//! that is read back.

use super::{GRAPHS, Target};
use arenagrad::graph::window::{Conv2d, Pool2d};
use arenagrad::graph::{Attention, Builder, DType, GraphBuf, Init, Layout, Var};
use arenagrad::nn;
use arenagrad::session::Session;
use arenagrad::tools::ir::text;
use arenagrad::tools::ir::verify::{Stage, verify};
use arenagrad_onnx::{Error, Options, Tensor, read, write};

pub const TARGET: Target = Target {
    name: "onnx",
    about: "any bytes as an ONNX model are refused with a message, or give a sound graph with its weights",
    run,
    seeds,
    words: &[],
    max_len: 4096,
    memory: GRAPHS,
};

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut options = Options { batch: Some(2), ..Options::default() };
    let import = loop {
        match read(data, &options) {
            Ok(import) => break import,
            Err(Error::Values { inputs, .. }) if options.values.is_empty() => {
                let one = |name: String| (name, Tensor::of_ints(&[1], vec![1]));
                options.values = inputs.into_iter().map(one).collect();
            }
            Err(e) => {
                assert!(!e.to_string().is_empty());
                return;
            }
        }
    };
    let g = import.graph.view();
    let errors = verify(g, Stage::Block);
    assert!(errors.is_empty(), "{errors:?}");
    for (name, t) in &import.weights {
        let (v, _) = g.find_leaf(name).unwrap_or_else(|| panic!("{name:?} is no leaf"));
        assert_eq!((t.dtype, &t.dims[..]), (g.ty(v).dtype, &g.dims(v)[..]), "{name:?}");
    }
    let printed = import.graph.to_string();
    assert!(text::parse(&printed).is_ok_and(|again| again == import.graph), "{printed}");
}

/// The model of a graph.
fn model(net: impl for<'g> Fn(&'g Builder) -> Vec<Var<'g>>) -> Vec<u8> {
    let g = Builder::new("seed");
    let outputs = net(&g);
    let graph: GraphBuf = g.finish(outputs).unwrap_or_else(|e| panic!("{e}"));
    let mut p = Session::new().threads(1).compile(&graph).unwrap_or_else(|e| panic!("{e}"));
    p.init(1).unwrap_or_else(|e| panic!("{e}"));
    write(&graph, &p).unwrap_or_else(|e| panic!("{e}"))
}

fn seeds() -> Vec<Vec<u8>> {
    vec![
        model(|g| {
            let x = g.input("x", [2, 3], DType::F32);
            vec![nn::linear(g, "fc", x, 4).gelu().softmax(-1).named("y")]
        }),
        model(|g| {
            let x = g.input("x", [1, 2, 4, 4], DType::F32);
            let same = Conv2d::default().padding([1, 1]);
            let h = nn::conv2d(g, "conv", x, 2, [3, 3], same).relu().max_pool2d(Pool2d::new([2, 2]));
            vec![h.pad(&[0, 0, 1, 0], &[0, 0, 0, 1], 0.5).sum([1]).named("y")]
        }),
        model(|g| {
            let (x, zero) = (g.input("x", [3, 1, 2], DType::F32), g.full(0.0, [1, 2], DType::F32));
            vec![nn::lstm(g, "lstm", x, zero, zero).0.named("y")]
        }),
        model(|g| {
            let at = g.input("at", [1, 3], DType::I32);
            let table = g.param("table", [5, 4], DType::F32, Init::Normal(1.0));
            let x = table.gather(at, 0).layer_norm(g.full(1.0, [4], DType::F32), g.full(0.0, [4], DType::F32), 1e-5);
            let causal = Attention::default().layout(Layout::Bsd).heads(2).causal(true);
            vec![x.attention(x, x, causal).named("y")]
        }),
    ]
}
