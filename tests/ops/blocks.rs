//! Blocks against torch's, in f64: outputs, and gradients of every input and param, under torch's names.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::drawn::{Fixture, apart, fill, number, output, summary, write};
use arenagrad::graph::{Builder, DType, Init, LeafKind, Pairing, Var};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::nn::{self, CausalSelfAttention, FeedForward, Linear, Lora, MultiHead, Sequential, TransformerBlock};
use arenagrad::session::Session;

/// Checks one case; the block's params are called `n.<torch's name>`.
fn agrees(case: &str, f: impl for<'g> FnOnce(&'g Builder) -> Var<'g>) {
    let fixture = Fixture::open("blocks");
    let g = Builder::new(case);
    let y = f(&g);
    let graph = g.finish([y.named("y"), (y * y).sum(..).named("loss")]).unwrap();
    let v = graph.view();
    // Values at which everything counts, frozen or not, are torch's own names.
    let counts = v.leaves().filter(|l| l.name != "mask" && l.kind != LeafKind::State);
    let wrt: Vec<&str> = counts.map(|l| l.name).collect();
    let mut p = Session::new().compile(&grad(v, "loss", &GradOptions::wrt(&wrt)).unwrap()).unwrap();
    p.init(0).unwrap();
    for l in v.leaves() {
        let (name, dims) = (l.name, v.dims(l.value));
        let data: Vec<f32> = match l.kind {
            // The scale of an adaptation is part of the layer.
            LeafKind::State => continue,
            LeafKind::Param => crate::common::drawn::start(name.strip_prefix("n.").unwrap(), &dims),
            _ if name == "mask" => (0..dims.numel()).map(|i| f32::from(u8::from(i < 8))).collect(),
            _ => (0..dims.numel()).map(|i| number(&format!("{case}.{name}"), i)).collect(),
        };
        write(&mut p, name, &data, DType::F64);
    }
    p.step().unwrap();
    let far = apart(&summary("y", &output(&p, "y", DType::F64)), &fixture.get(&format!("{case}.y")));
    assert!(far <= 1e-12, "{case}: y is off by {far:e}");
    for name in wrt {
        let theirs = name.strip_prefix("n.").unwrap_or(name);
        let ours = summary(theirs, &output(&p, &format!("grad.{name}"), DType::F64));
        let far = apart(&ours, &fixture.get(&format!("{case}.grad.{theirs}")));
        assert!(far <= 1e-12, "{case}: the gradient of {name} is off by {far:e}");
    }
}

fn input<'g>(g: &'g Builder, name: &str, dims: &[usize]) -> Var<'g> {
    g.input(name, dims, DType::F64)
}

fn x(g: &Builder) -> Var<'_> {
    input(g, "x", &[2, 5, 8])
}

#[test]
fn multi_head_attention() {
    agrees("self", |g| nn::multi_head_attention(g, "n.mha", [x(g); 3], MultiHead::new(2)));
    agrees("causal", |g| nn::multi_head_attention(g, "n.mha", [x(g); 3], MultiHead::new(2).causal(true)));
    // All keys of the first sequence, three of the second.
    agrees("padding", |g| {
        let o = MultiHead::new(2).padding(input(g, "mask", &[2, 5]).greater(0.5));
        nn::multi_head_attention(g, "n.mha", [x(g); 3], o)
    });
    agrees("cross", |g| {
        let [k, v] = ["k", "v"].map(|n| input(g, n, &[2, 3, 8]));
        nn::multi_head_attention(g, "n.mha", [x(g), k, v], MultiHead::new(2))
    });
}

/// The layer with shared key heads and rotary embeddings is what its formula says, from plain ops.
#[test]
fn shared_heads_and_rotary_embeddings() {
    let (b, s, c, heads, kv, d) = (2, 5, 8, 4, 2, 2);
    let g = Builder::new("gqa");
    let x = input(&g, "x", &[b, s, c]);
    let tables = g.rope_tables(s, d, 100.0, DType::F64);
    let o = MultiHead::new(heads).kv_heads(kv).causal(true).rope(tables, Pairing::Halves);
    let y = nn::multi_head_attention(&g, "n", [x; 3], o);
    let leaf = |name: &str, dims: &[usize]| g.input(name, dims, DType::F64);
    let (w, bias) = (leaf("w", &[16, 8]), leaf("b", &[16]));
    let all = (x.reshape([b * s, c]).matmul_t(w, false, true) + bias).reshape([b, s, 16]);
    let part = |from: usize, n: usize| {
        let h = all.narrow(-1, from, n * d).reshape([b, s, n, d]).transpose(&[0, 2, 1, 3]);
        // Each head of keys and values serves two neighbouring ones of queries.
        if n == heads { h } else { h.reshape([b, n, 1, s, d]).broadcast([b, n, 2, s, d]).reshape([b, heads, s, d]) }
    };
    // Heads of two elements turn as one pair.
    fn turn<'g>(h: Var<'g>, [cos, sin]: [Var<'g>; 2]) -> Var<'g> {
        let (p, q) = (h.narrow(-1, 0, 1), h.narrow(-1, 1, 1));
        (p * cos - q * sin).concat(&[q * cos + p * sin], -1)
    }
    let (q, k, v) = (turn(part(0, heads), tables), turn(part(8, kv), tables), part(12, kv));
    let scores = q.matmul_t(k, false, true) * (1.0 / 2f64.sqrt());
    let past = g.iota(0, [s, s], DType::I32).greater_equal(g.iota(1, [s, s], DType::I32));
    let probabilities = past.select(scores, scores.full_like(f64::NEG_INFINITY)).softmax(-1);
    let mixed = probabilities.matmul(v).transpose(&[0, 2, 1, 3]).reshape([b * s, c]);
    let z = mixed.matmul_t(leaf("ow", &[8, 8]), false, true) + leaf("ob", &[8]);
    let graph = g.finish([y.named("y"), z.named("z")]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(0).unwrap();
    let twins =
        [("n.in_proj_weight", "w"), ("n.in_proj_bias", "b"), ("n.out_proj.weight", "ow"), ("n.out_proj.bias", "ob")];
    for (param, input) in twins {
        let dims = p.bindings().iter().find(|b| b.name == param).unwrap().dims.to_vec();
        let data: Vec<f32> = (0..dims.iter().product()).map(|i| number(input, i)).collect();
        write(&mut p, param, &data, DType::F64);
        write(&mut p, input, &data, DType::F64);
    }
    write(&mut p, "x", &(0..b * s * c).map(|i| number("x", i)).collect::<Vec<f32>>(), DType::F64);
    p.step().unwrap();
    let (y, z) = (output(&p, "y", DType::F64), output(&p, "z", DType::F64));
    assert!(y.iter().zip(&z).all(|(a, b)| (a - b).abs() < 1e-13), "{y:?}\n{z:?}");
}

/// As torch: one weight for queries, keys and values, which starts by Glorot's rule, ±√(6 / (inputs + outputs)).
#[test]
fn projections_of_one_input_are_one_product() {
    let g = Builder::new("projections");
    let y = nn::multi_head_attention(&g, "n", [input(&g, "x", &[1, 2, 6]); 3], MultiHead::new(2));
    let text = g.finish([y.named("y")]).unwrap().to_string();
    assert!(text.contains("init=uniform scale=0.5 "), "{text}");
    // That of the three, and that of the output.
    assert_eq!(text.matches("= matmul ").count(), 2, "{text}");
}

#[test]
fn one_head_is_as_wide_as_its_input() {
    let g = Builder::new("one");
    let x = x(&g);
    let y = nn::multi_head_attention(&g, "n", [x; 3], MultiHead::new(1));
    let z = nn::causal_self_attention(&g, "c", x, CausalSelfAttention::new(1));
    let graph = g.finish([y.named("y"), z.named("z")]).unwrap();
    let v = graph.view();
    let weight = v.leaves().find(|l| l.name == "n.in_proj_weight").unwrap();
    assert_eq!(*v.dims(weight.value), [24, 8]);
}

#[test]
fn transformer_blocks() {
    agrees("post", |g| nn::transformer_block(g, "n", x(g), TransformerBlock::new(2, 16)));
    let pre = TransformerBlock::new(2, 16).norm_first(true).feed_forward(FeedForward::Gelu);
    agrees("pre", |g| nn::transformer_block(g, "n", x(g), pre));
}

#[test]
fn dense_blocks() {
    let o = Lora::new(3, 6.0);
    agrees("lora", |g| nn::lora_linear(g, "n", x(g), 5, o));
    agrees("swiglu", |g| nn::swiglu(g, "n", x(g), 12));
    agrees("sequential", |g| {
        Sequential::new(g, "n", x(g))
            .then(|g, name, x| nn::linear(g, name, x, 6))
            .then(|_, _, x| x.relu())
            .then(|g, name, x| nn::linear(g, name, x, 3))
            .output()
    });
}

#[test]
fn layers_of_a_sequence_without_a_name_are_called_by_their_numbers() {
    let g = Builder::new("net");
    let net = Sequential::new(&g, "", x(&g)).then(|_, _, x| x.relu()).then(|g, name, x| nn::linear(g, name, x, 2));
    let graph = g.finish([net.output()]).unwrap();
    let v = graph.view();
    let names: Vec<&str> = v.leaves().map(|l| l.name).collect();
    assert_eq!(names, ["x", "1.weight", "1.bias"]);
}

#[test]
fn cells_unroll_with_shared_params() {
    fn steps(g: &Builder) -> ([Var<'_>; 3], Var<'_>) {
        let x = input(g, "x", &[3, 4, 6]);
        ([0, 1, 2].map(|t| x.narrow(0, t, 1).reshape([4, 6])), input(g, "h", &[4, 7]))
    }
    agrees("rnn_cell", |g| {
        let ((xs, h), cell) = (steps(g), nn::rnn_cell(g, "n.cell", [6, 7], DType::F64));
        xs.into_iter().fold(h, |h, x| cell(x, h))
    });
    agrees("gru_cell", |g| {
        let ((xs, h), cell) = (steps(g), nn::gru_cell(g, "n.cell", [6, 7], DType::F64));
        xs.into_iter().fold(h, |h, x| cell(x, h))
    });
    agrees("lstm_cell", |g| {
        let ((xs, h), cell) = (steps(g), nn::lstm_cell(g, "n.cell", [6, 7], DType::F64));
        let [h, c] = xs.into_iter().fold([h, input(g, "c", &[4, 7])], |[h, c], x| cell(x, h, c));
        h.concat(&[c], 1)
    });
}

#[test]
fn an_adapted_layer_trains_its_adaptation_only() {
    let g = Builder::new("lora");
    let o = Lora::new(2, 4.0);
    let y = nn::lora_linear(&g, "fc", g.input("x", [3, 8], DType::F32), 5, o);
    let graph = g.finish([(y * y).sum(..).named("loss")]).unwrap();
    let step = grad(&graph, "loss", &GradOptions::default()).unwrap();
    let v = step.view();
    let mut names: Vec<&str> = v.output_names.iter().map(|&n| v.str(n)).filter(|n| n.starts_with("grad.")).collect();
    names.sort_unstable();
    assert_eq!(names, ["grad.fc.lora_A", "grad.fc.lora_B"]);
}

#[test]
fn blocks_that_do_not_fit_are_refused_by_name() {
    let error = |f: for<'g> fn(&'g Builder) -> Var<'g>| {
        let g = Builder::new("bad");
        f(&g);
        g.finish([]).unwrap_err().to_string()
    };
    let heads = error(|g| nn::multi_head_attention(g, "n", [x(g); 3], MultiHead::new(3)));
    assert!(heads.contains("multi_head_attention") && heads.contains("3 heads of a width of 8"), "{heads}");
    let heads = error(|g| nn::causal_self_attention(g, "n", x(g), CausalSelfAttention::new(3)));
    assert!(heads.contains("causal_self_attention") && heads.contains("3 heads of a width of 8"), "{heads}");
    let kv = MultiHead::new(4).kv_heads(3);
    let g = Builder::new("bad");
    nn::multi_head_attention(&g, "n", [x(&g); 3], kv);
    assert!(g.finish([]).unwrap_err().to_string().contains("4 heads of a width of 8, 3 of keys"));
    let rank = error(|g| {
        let o = Lora::new(9, 1.0);
        nn::lora_linear(g, "n", x(g), 5, o)
    });
    assert!(rank.contains("rank 9; it goes from 1 to 5"), "{rank}");
    let rank = error(|g| nn::lora_linear(g, "n", x(g), 5, Lora::new(6, 1.0)));
    assert!(rank.contains("rank 6; it goes from 1 to 5"), "{rank}");
    let rank = error(|g| nn::lora_linear(g, "n", x(g), 5, Lora::new(0, 1.0)));
    assert!(rank.contains("rank 0; it goes from 1 to 5"), "{rank}");
    for rank in [1, 5] {
        let g = Builder::new("good");
        assert!(g.finish([nn::lora_linear(&g, "n", x(&g), 5, Lora::new(rank, 1.0))]).is_ok());
    }
    // A scalar has no width.
    let none = error(|g| nn::lora_linear(g, "n", g.input("s", [], DType::F32), 5, Lora::new(1, 1.0)));
    assert!(none.contains("lora_linear") && none.contains("rank 1; it goes from 1 to 0"), "{none}");
    let long = error(|g| {
        let o = nn::Gpt::default()
            .vocabulary(5)
            .context(3)
            .layers(1)
            .heads(2)
            .width(4)
            .bias(true)
            .dropout(0.0)
            .gelu_tanh(true);
        nn::gpt(g, g.input("t", [1, 4], DType::I32), DType::F32, o)
    });
    assert!(long.contains("gpt") && long.contains("the context is 3"), "{long}");
}

#[test]
fn a_gpt_has_all_biases_or_none() {
    let biases = |bias: bool| {
        let g = Builder::new("gpt");
        let o = nn::Gpt::default()
            .vocabulary(5)
            .context(4)
            .layers(2)
            .heads(2)
            .width(4)
            .bias(bias)
            .dropout(0.0)
            .gelu_tanh(true);
        let y = nn::gpt(&g, g.input("t", [1, 4], DType::I32), DType::F32, o);
        let graph = g.finish([y.named("y")]).unwrap();
        graph.view().leaves().filter(|l| l.name.ends_with(".bias")).count()
    };
    // In each block two of norms and four of products; and that of the last norm.
    assert_eq!([biases(true), biases(false)], [2 * 6 + 1, 0]);
}

/// A [`nn::gpt`] by the layers that it consists of, with nanoGPT's start values.
fn gpt_of_layers<'g>(g: &'g Builder, tokens: Var<'g>, o: nn::Gpt) -> Var<'g> {
    let (length, width) = (tokens.dims()[1], o.width);
    let plain = Linear::normal(0.02, o.bias);
    let ends = Linear::normal(0.02 / (2.0 * o.layers as f64).sqrt(), o.bias);
    let norm = |name: &str, x: Var<'g>| {
        if o.bias {
            return nn::layer_norm(g, name, x, 1e-5);
        }
        let weight = g.param(&format!("{name}.weight"), [width], DType::F64, Init::Ones);
        x.layer_norm(weight, g.full(0.0, [width], DType::F64), 1e-5)
    };
    let table = |name: &str, rows: usize| g.param(name, [rows, width], DType::F64, Init::Normal(0.02));
    let words = table("transformer.wte.weight", o.vocabulary);
    let places = table("transformer.wpe.weight", o.context);
    let mut x = words.gather(tokens, 0) + places.narrow(0, 0, length);
    for i in 0..o.layers {
        let name = |part: &str| format!("transformer.h.{i}.{part}");
        let attention = CausalSelfAttention::new(o.heads).qkv(plain).proj(ends);
        x = x + nn::causal_self_attention(g, &name("attn"), norm(&name("ln_1"), x), attention);
        let h = nn::linear_with(g, &name("mlp.c_fc"), norm(&name("ln_2"), x), 4 * width, plain);
        let h = if o.gelu_tanh { h.gelu_tanh() } else { h.gelu() };
        x = x + nn::linear_with(g, &name("mlp.c_proj"), h, width, ends);
    }
    let x = norm("transformer.ln_f", x);
    x.reshape([x.numel() / width, width]).matmul_t(words, false, true).reshape([x.dims()[0], length, o.vocabulary])
}

#[test]
fn a_gpt_is_what_its_layers_are() {
    for (layers, bias) in [(3, true), (1, false)] {
        let [vocabulary, context, heads, width] = [7, 6, 2, 4];
        let o = nn::Gpt::default()
            .vocabulary(vocabulary)
            .context(context)
            .layers(layers)
            .heads(heads)
            .width(width)
            .bias(bias)
            .dropout(0.0)
            .gelu_tanh(!bias);
        let g = Builder::new("gpt");
        let tokens = g.input("t", [2, 5], DType::I32);
        // Leaves of one name start alike, or there is an error.
        let (y, z) = g.reuse(|| (nn::gpt(&g, tokens, DType::F64, o), gpt_of_layers(&g, tokens, o)));
        let mut p = Session::new().compile(&g.finish([y.named("y"), z.named("z")]).unwrap()).unwrap();
        fill(&mut p, DType::F64);
        p.values_mut::<i32>("t").unwrap().copy_from_slice(&[3, 0, 6, 1, 1, 2, 5, 0, 4, 6]);
        p.step().unwrap();
        let (y, z) = (output(&p, "y", DType::F64), output(&p, "z", DType::F64));
        assert!(y.len() == 70 && y.iter().zip(&z).all(|(a, b)| (a - b).abs() < 1e-12), "{y:?}\n{z:?}");
    }
}
