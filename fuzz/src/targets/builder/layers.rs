//! Calls of layers, which bring params of their own.

use super::calls::{Call, Calls};
use super::dtype;
use arenagrad::graph::window::ConvTranspose;
use arenagrad::graph::{DType, Init, Reduction, Var};
use arenagrad::nn;

/// A sequence `[batch, steps, width]`, or whatever is there.
fn sequence<'g>(c: &mut Calls<'g>) -> Var<'g> {
    let v = c.var();
    match c.script.below(3) {
        0 => v,
        1 => v.sum(..).broadcast([3, 2, 4]),
        _ => v.sum(..).broadcast([2, 3, 4]),
    }
}

/// Whole numbers `[2, 3]` that are indices, mostly.
fn tokens<'g>(c: &mut Calls<'g>) -> Var<'g> {
    match c.script.below(3) {
        0 => c.var(),
        _ => c.g.iota(1, [2, 3], DType::I32),
    }
}

/// Calls of layers.
pub const CALLS: &[Call] = &[
    |c| {
        let (name, x, n, init) = (c.name(), c.var(), c.any_size(), c.init());
        let o = nn::Linear::default().bias(c.script.flag()).weight_init(init);
        c.put(nn::linear_with(c.g, &name, x, n, o));
    },
    |c| {
        let (name, x, n) = (c.name(), c.var(), c.size());
        c.put(nn::linear(c.g, &name, x, n));
    },
    |c| {
        let (name, x, n, rank, alpha) = (c.name(), c.var(), c.size(), c.any_size(), c.number());
        let y = nn::lora_linear(c.g, &name, x, n, nn::Lora::new(rank, alpha).dropout(c.number()));
        c.put(y);
    },
    |c| {
        let (name, x, n, k) = (c.name(), c.var().sum(..).broadcast([2, 4, 6]), c.size(), c.any_size());
        let o = nn::Conv1d::default().groups(c.size());
        let y = if c.script.flag() {
            nn::conv1d(c.g, &name, x, n, k, o)
        } else {
            nn::causal_depthwise_conv1d(c.g, &name, x, k)
        };
        c.put(y);
    },
    |c| {
        let (name, x, n, k) = (c.name(), c.var().sum(..).broadcast([2, 4, 6, 5]), c.size(), c.size());
        let y = match c.script.below(3) {
            0 => nn::conv2d(c.g, &name, x, n, k, nn::Conv2d::default().padding(c.size()).bias(false)),
            1 => nn::conv_transpose2d(c.g, &name, x, n, k, ConvTranspose::default().stride(c.size())),
            _ => nn::conv2d(c.g, &name, x, n, k, nn::Conv2d::default().groups(2).bias_init(Init::Ones)),
        };
        c.put(y);
    },
    |c| {
        let (name, x, eps) = (c.name(), c.var(), c.number());
        let y = match c.script.below(6) {
            0 => nn::layer_norm(c.g, &name, x, eps),
            1 => nn::layer_norm_no_bias(c.g, &name, x, eps),
            2 => nn::rms_norm(c.g, &name, x, eps),
            3 => nn::group_norm(c.g, &name, x, c.any_size(), eps),
            4 => nn::instance_norm(c.g, x, eps),
            _ => nn::layer_norm2d(c.g, &name, x, eps),
        };
        c.put(y);
    },
    |c| {
        let (name, x) = (c.name(), c.var());
        let (eps, momentum, training) = (c.number(), c.number(), c.script.flag());
        c.put(nn::batch_norm(c.g, &name, x, nn::BatchNorm::default().eps(eps).momentum(momentum).training(training)));
    },
    |c| {
        let (name, at, rows, width) = (c.name(), tokens(c), c.any_size(), c.size());
        let dtype = dtype(&mut c.script);
        c.put(nn::embedding(c.g, &name, at, rows, width, dtype));
    },
    |c| {
        let (name, x, heads) = (c.name(), sequence(c), c.size());
        let y = nn::causal_self_attention(c.g, &name, x, nn::CausalSelfAttention::new(heads).dropout(c.number()));
        c.put(y);
    },
    |c| {
        let (name, q, k, v) = (c.name(), sequence(c), sequence(c), sequence(c));
        let mut o = nn::MultiHead::new(c.size());
        if c.script.flag() {
            (o.kv_heads, o.causal, o.window) = (c.size(), c.script.flag(), c.script.flag().then(|| c.any_size()));
        }
        if c.script.byte() < 64 {
            (o.mask, o.padding) = (Some(c.var()), c.script.flag().then(|| c.var()));
        }
        c.put(nn::multi_head_attention(c.g, &name, [q, k, v], o));
    },
    |c| {
        let (name, x, heads, hidden) = (c.name(), sequence(c), c.size(), c.size());
        let mut o = nn::TransformerBlock::new(heads, hidden);
        o.norm = c.script.pick(&[nn::Norm::Layer, nn::Norm::Rms]);
        o.feed_forward = c.script.pick(&[nn::FeedForward::Relu, nn::FeedForward::Gelu, nn::FeedForward::SwiGlu]);
        (o.norm_first, o.dropout, o.eps) = (c.script.flag(), c.number(), 1e-5);
        c.put(nn::transformer_block(c.g, &name, x, o));
    },
    |c| {
        let (name, x, hidden) = (c.name(), sequence(c), c.any_size());
        c.put(nn::swiglu(c.g, &name, x, hidden));
    },
    |c| {
        let (name, x, h0, c0) = (c.name(), sequence(c), c.var(), c.var());
        match c.script.below(3) {
            0 => c.put(nn::rnn(c.g, &name, x, h0).0),
            1 => c.put(nn::gru(c.g, &name, x, h0).0),
            _ => c.put(nn::lstm(c.g, &name, x, h0, c0).0),
        }
    },
    |c| {
        let (name, x, hidden) = (c.name(), sequence(c), c.size());
        let mut o = nn::Recurrent::default().layers(1 + c.size() % 3);
        (o.bidirectional, o.bias, o.batch_first) = (c.script.flag(), c.script.flag(), c.script.flag());
        if c.script.byte() < 32 {
            o.lengths = Some(c.var());
        }
        let y = match c.script.below(3) {
            0 => nn::rnn_with(c.g, &name, x, hidden, o).output,
            1 => nn::gru_with(c.g, &name, x, hidden, o).output,
            _ => nn::lstm_with(c.g, &name, x, hidden, o).output,
        };
        c.put(y);
    },
    |c| {
        let (name, x, h, sizes) = (c.name(), c.var(), c.var(), [c.size(), c.size()]);
        let step = nn::gru_cell(c.g, &name, sizes, DType::F32);
        c.put(step(x, h));
    },
    |c| {
        let (x, targets) = (sequence(c).log_softmax(-1), tokens(c));
        let lengths = [c.var(), c.g.full(2.0, [2], DType::I32)];
        let o = nn::Ctc::default().blank(c.size()).reduction(Reduction::Sum).zero_infinity(c.script.flag());
        let y = nn::ctc_loss(x, targets, lengths[c.script.below(2) as usize], lengths[1], o);
        c.put(y);
    },
    |c| {
        let (x, max) = (c.var(), c.any_size());
        c.put(nn::sequence_mask(x, max));
    },
    |c| {
        let (x, n) = (tokens(c), c.size());
        let o = nn::Gpt::default()
            .vocabulary(1 + c.size())
            .context(c.size())
            .layers(n % 3)
            .heads(1 + n % 2)
            .width(4)
            .bias(c.script.flag())
            .dropout(c.number())
            .gelu_tanh(c.script.flag());
        c.put(nn::gpt(c.g, x, DType::F32, o));
    },
    |c| {
        let (name, x, n) = (c.name(), c.var(), c.size());
        let net =
            nn::Sequential::new(c.g, &name, x).then(|g, name, x| nn::linear(g, name, x, n)).then(|_, _, x| x.relu());
        c.put(net.output());
    },
];
