//! Blocks, the ops that stand for whole layers, against their formulas in plain ops. They have no kernels and no
//! builder methods: their decompositions are all that says what they are.

#![allow(clippy::unwrap_used)]

use crate::common::{PLAIN, Tensor, TensorDraws, conform_distance, run};
use arenagrad::graph::{Attention, Builder, DType, Layout, Rope, Var};
use arenagrad::op::Op;
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::ops::blocks::attrs::{
    AttentionBlockAttrs, LinearAttrs, LlamaDecoderBlockAttrs, TransformerLayerAttrs,
};
use arenagrad::tools::ops::matmul::activation::Activation;

/// Runs a graph of pairs on drawn inputs: both of a pair are near, and not zero.
fn agree(f: impl for<'g> FnOnce(&'g Builder) -> Vec<[Var<'g>; 2]>) {
    let g = Builder::new("block");
    let pairs = f(&g);
    let outputs: Vec<Var<'_>> = pairs.concat();
    let graph = g.finish(outputs).unwrap();
    let mut draw = TensorDraws(7);
    let mut drawn = |name: &str, dtype, dims: &[usize]| {
        draw.tensor(dtype, dims, if name.starts_with("mask") { Domain::Bit } else { Domain::Unit })
    };
    let v = graph.view();
    let inputs: Vec<Tensor> =
        v.leaves().map(|l| drawn(l.name, v.dtype[l.value.0 as usize], &v.dims(l.value))).collect();
    let outs = run(&graph, &inputs, PLAIN);
    for (i, pair) in outs.chunks(2).enumerate() {
        assert!(pair[0].data.iter().any(|x| x.abs() > 1e-3), "pair {i}: {:?}", pair[0].data);
        assert_eq!(pair[0].dims, pair[1].dims, "pair {i}");
        let far = conform_distance(&pair[0].data, &pair[1].data);
        assert!(far < 1e-12, "pair {i}: {far:e}\n{:?}\n{:?}", pair[0].data, pair[1].data);
    }
}

fn input<'g>(g: &'g Builder, name: &str, dims: &[usize]) -> Var<'g> {
    g.input(name, dims, DType::F64)
}

fn silu(x: Var<'_>) -> Var<'_> {
    x / ((-x).exp() + 1.0)
}

/// x, plus `bias` if there is one.
fn plus<'g>(x: Var<'g>, bias: Var<'g>, there: bool) -> Var<'g> {
    if there { x + bias } else { x }
}

/// The β of a norm, or zeros.
fn shift(beta: Var<'_>, there: bool) -> Var<'_> {
    if there { beta } else { beta.full_like(0.0) }
}

#[test]
fn linear_layers_are_products_with_a_bias() {
    agree(|g| {
        let (x, w, b) = (input(g, "x", &[3, 4]), input(g, "w", &[4, 4]), input(g, "b", &[4]));
        let of = |args: &[Var<'_>], act| g.emit1(Op::LINEAR, args, &LinearAttrs { act }.list());
        let other = input(g, "other", &[4, 4]);
        let both = g.emit(Op::SHARED_LINEAR_PAIR, &[x, w, other], &[]);
        vec![
            [of(&[x, w, b], Activation::None), x.matmul(w) + b],
            [of(&[x, w, b], Activation::Tanh), (x.matmul(w) + b).tanh()],
            [of(&[x, w], Activation::Tanh), x.matmul(w).tanh()],
            [both[0], x.matmul(w)],
            [both[1], x.matmul(other)],
        ]
    });
}

/// The gate, which silu bends, is the third operand.
#[test]
fn a_gated_layer_bends_its_gate() {
    agree(|g| {
        let x = input(g, "x", &[2, 3, 4]);
        let [up, gate, down] = ["up", "gate", "down"].map(|name| input(g, name, &[4, 4]));
        let y = g.emit1(Op::SWIGLU_BLOCK, &[x, up, gate, down], &[]);
        vec![[y, (silu(x.matmul(gate)) * x.matmul(up)).matmul(down)]]
    });
}

/// x `[2, 3, 4]`, turned by the first three rows of the tables.
fn turned<'g>(x: Var<'g>, heads: usize, [cos, sin]: [Var<'g>; 2]) -> Var<'g> {
    let [cos, sin] = [cos, sin].map(|t| t.narrow(0, 0, 3));
    x.rope(cos, sin, Rope::default().layout(Layout::Bsd).heads(heads))
}

/// Tables have more rows than there are positions.
#[test]
fn a_block_of_attention_has_thirds_biases_and_turned_heads() {
    agree(|g| {
        let x = input(g, "x", &[2, 3, 4]);
        let (qkv, out) = (input(g, "qkv", &[4, 12]), input(g, "out", &[4, 4]));
        let mask = g.input("mask", [2, 3], DType::Bool);
        let (qkv_b, out_b) = (input(g, "qkv_b", &[12]), input(g, "out_b", &[4]));
        let tables = ["cos", "sin"].map(|name| input(g, name, &[5, 1]));
        let mut pairs = Vec::new();
        for (padding, bias, rope, causal) in [
            (true, true, true, false),
            (false, true, false, true),
            (true, false, false, false),
            (false, false, true, true),
        ] {
            let mut args = vec![x, qkv, out];
            args.extend(padding.then_some(mask));
            args.extend([qkv_b, out_b].into_iter().filter(|_| bias));
            args.extend(tables.into_iter().filter(|_| rope));
            let attrs = AttentionBlockAttrs { heads: 2, causal, padding, bias, rope };
            let y = g.emit1(Op::ATTENTION_BLOCK, &args, &attrs.list());
            let all = plus(x.matmul(qkv), qkv_b, bias);
            let [q, k, v] = [0, 4, 8].map(|at| all.narrow(-1, at, 4));
            let [q, k] = [q, k].map(|x| if rope { turned(x, 2, tables) } else { x });
            let padding = padding.then_some(mask);
            let options = Attention::default().layout(Layout::Bsd).heads(2).causal(causal).padding(padding);
            pairs.push([y, plus(q.attention(k, v, options).matmul(out), out_b, bias)]);
        }
        pairs
    });
}

#[test]
fn a_layer_of_bert_is_attention_and_two_norms() {
    agree(|g| {
        let x = input(g, "x", &[2, 3, 4]);
        let mask = g.input("mask", [2, 3], DType::Bool);
        let vector = |name: &str, n: usize| input(g, name, &[n]);
        let (qkv, out) = (input(g, "qkv", &[4, 12]), input(g, "out", &[4, 4]));
        let (fc1, fc2) = (input(g, "fc1", &[4, 6]), input(g, "fc2", &[6, 4]));
        let (qkv_b, out_b) = (vector("qkv_b", 12), vector("out_b", 4));
        let (fc1_b, fc2_b) = (vector("fc1_b", 6), vector("fc2_b", 4));
        let [g1, b1, g2, b2] = ["g1", "b1", "g2", "b2"].map(|name| vector(name, 4));
        [true, false]
            .map(|bias| {
                let attrs = TransformerLayerAttrs { heads: 2, act: Activation::Tanh, eps1: 0.01, eps2: 0.1, bias };
                let args = match bias {
                    true => vec![x, qkv, qkv_b, out, out_b, g1, b1, fc1, fc1_b, fc2, fc2_b, g2, b2, mask],
                    false => vec![x, qkv, out, g1, fc1, fc2, g2, mask],
                };
                let y = g.emit1(Op::TRANSFORMER_LAYER, &args, &attrs.list());
                let all = plus(x.matmul(qkv), qkv_b, bias);
                let [q, k, v] = [0, 4, 8].map(|at| all.narrow(-1, at, 4));
                let padding = Some(mask);
                let options = Attention::default().layout(Layout::Bsd).heads(2).padding(padding);
                let mixed = plus(q.attention(k, v, options).matmul(out), out_b, bias);
                let h = (mixed + x).layer_norm(g1, shift(b1, bias), 0.01);
                let inner = plus(h.matmul(fc1), fc1_b, bias).tanh();
                [y, (plus(inner.matmul(fc2), fc2_b, bias) + h).layer_norm(g2, shift(b2, bias), 0.1)]
            })
            .to_vec()
    });
}

#[test]
fn a_layer_of_llama_adds_attention_and_a_gated_layer() {
    agree(|g| {
        let x = input(g, "x", &[2, 3, 4]);
        let mask = g.input("mask", [2, 3], DType::Bool);
        let [g1, b1, g2, b2] = ["g1", "b1", "g2", "b2"].map(|name| input(g, name, &[4]));
        let (wq, wo) = (input(g, "wq", &[4, 8]), input(g, "wo", &[8, 4]));
        let [wk, wv] = ["wk", "wv"].map(|name| input(g, name, &[4, 4]));
        let [gate, up, down] = ["gate", "up", "down"].map(|name| input(g, name, &[4, 4]));
        let [cos, sin] = ["cos", "sin"].map(|name| input(g, name, &[5, 1]));
        [true, false]
            .map(|masked| {
                let attrs = LlamaDecoderBlockAttrs { heads: 4, kv_heads: 2, eps: 0.01, causal: !masked };
                let mut args = vec![x, g1, b1, wq, wk, wv, wo, g2, b2, gate, up, down, cos, sin];
                args.extend(masked.then_some(mask));
                let y = g.emit1(Op::LLAMA_DECODER_BLOCK, &args, &attrs.list());
                let h = x.rms_norm(g1, b1, 0.01);
                let (q, k) = (turned(h.matmul(wq), 4, [cos, sin]), turned(h.matmul(wk), 2, [cos, sin]));
                let options = Attention::default()
                    .layout(Layout::Bsd)
                    .heads(4)
                    .kv_heads(2)
                    .causal(!masked)
                    .padding(masked.then_some(mask));
                let s = x + q.attention(k, h.matmul(wv), options).matmul(wo);
                let h = s.rms_norm(g2, b2, 0.01);
                [y, s + (silu(h.matmul(gate)) * h.matmul(up)).matmul(down)]
            })
            .to_vec()
    });
}
