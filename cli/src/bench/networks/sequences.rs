//! Networks on sequences.

use super::{class_loss, value_loss};
use arenagrad::graph::{Builder, CrossEntropy, DType, Init, Reduction, Var};
use arenagrad::nn;

/// GPT on characters: 4 layers of 4 heads, width 128, 65 tokens.
pub fn char_gpt() -> nn::Gpt {
    nn::Gpt::default().vocabulary(65).context(64).layers(4).heads(4).width(128).gelu_tanh(true)
}

/// GPT-2 of 124 million params.
pub fn gpt2() -> nn::Gpt {
    char_gpt().vocabulary(50257).context(1024).layers(12).heads(12).width(768)
}

/// The loss of a GPT on `batch` sequences of 64 tokens.
pub fn gpt(g: &Builder, batch: usize, net: nn::Gpt) -> Var<'_> {
    class_loss(g, nn::gpt(g, g.input("x", [batch, 64], DType::I32), DType::F32, net))
}

/// A GRU of width 128 over 256 steps; its last state is compared with `y`.
pub fn gru(g: &Builder) -> Var<'_> {
    let x = g.input("x", [256, 8, 32], DType::F32);
    let (_, last) = nn::gru(g, "gru", x, g.full(0.0, [8, 128], DType::F32));
    value_loss(g, last)
}

/// An LSTM that reads 32 words, and one that writes 32 with Luong's attention and input feeding. `slen` and `tlen` are
/// the lengths of the sources and of the targets.
pub fn translator(g: &Builder) -> Var<'_> {
    let [source, target, y] = ["src", "tgt", "y"].map(|name| g.input(name, [32, 32], DType::I32));
    let [source_len, target_len] = ["slen", "tlen"].map(|name| g.input(name, [32], DType::I32));
    let words = nn::embedding(g, "src", source, 1000, 128, DType::F32);
    let how = nn::Recurrent::default().batch_first(true).lengths(source_len);
    let run = nn::lstm_with(g, "enc", words, 128, how);
    let (read, hidden) = (run.output, nn::sequence_mask(source_len, 32).logical_not());
    let words = nn::embedding(g, "tgt", target, 1000, 128, DType::F32).transpose(&[1, 0, 2]);
    let cell = nn::lstm_cell(g, "cell", [256, 128], DType::F32);
    let w = g.param("mix.weight", [128, 256], DType::F32, Init::Normal(0.05));
    let b = g.param("mix.bias", [128], DType::F32, Init::Zeros);
    let start = [run.h_n.squeeze([0]), run.c_n.squeeze([0]), g.full(0.0, [32, 128], DType::F32)];
    let (_, written) = g.scan(&start, &[words], |s, x| {
        let [h, c] = cell(x[0].concat(&[s[2]], 1), s[0], s[1]);
        let scores = read.matmul(h.unsqueeze(2)).squeeze([2]).masked_fill(hidden, f64::NEG_INFINITY);
        let context = scores.softmax(-1).unsqueeze(1).matmul(read).squeeze([1]);
        let a = (h.concat(&[context], 1).matmul_t(w, false, true) + b).tanh();
        (vec![h, c, a], vec![a])
    });
    let logits = nn::linear(g, "out", written[0], 1000);
    let each = CrossEntropy::default().reduction(Reduction::None);
    let losses = logits.cross_entropy_with(y.transpose(&[1, 0]), each);
    let counts = nn::sequence_mask(target_len, 32).transpose(&[1, 0]).cast(DType::F32);
    (losses * counts).sum(..) / counts.sum(..)
}
