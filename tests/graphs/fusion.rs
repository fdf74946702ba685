//! Fusion changes no value: fused ops and blocks against what they are made of, patterns against the graphs they were
//! found in, forward and backward, over random shapes and attributes.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, conform_distance, run, same_conform_bits};
use arenagrad::error::Kind;
use arenagrad::graph::window::Conv2d;
use arenagrad::graph::{Builder, DType, GraphBuf, Init, Var};
use arenagrad::graph::{GradOptions, Missing, grad};
use arenagrad::nn;
use arenagrad::op::{Op, Stage};
use arenagrad::session::Session;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::ir::attr_types::Choice;
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::ir::text;
use arenagrad::tools::ir::verify;
use arenagrad::tools::ops::blocks::attrs::AttentionBlockAttrs;
use arenagrad::tools::ops::blocks::attrs::LinearAttrs;
use arenagrad::tools::ops::blocks::attrs::LlamaDecoderBlockAttrs;
use arenagrad::tools::ops::blocks::attrs::SwigluAttrs;
use arenagrad::tools::ops::blocks::attrs::TransformerLayerAttrs;
use arenagrad::tools::ops::common::window_attrs::WindowAttrs;
use arenagrad::tools::ops::conv::attrs::ConvAttrs;
use arenagrad::tools::ops::matmul::activation::Activation;
use arenagrad::tools::ops::matmul::attrs::LoraMatmulAttrs;
use arenagrad::tools::ops::matmul::attrs::MatmulBiasActAttrs;
use arenagrad::tools::ops::norm::NormAttrs;
use arenagrad::tools::passes;
use arenagrad::tools::passes::{FusionPolicy, pipeline};
use arenagrad::tools::sched::lower::lower;
use proptest::prelude::*;

const RAW: How = How { optimise: false, ..PLAIN };

fn drawn(g: &GraphBuf, seed: u64) -> Vec<Tensor> {
    let v = g.view();
    let mut d = TensorDraws(seed);
    v.leaves()
        .map(|l| {
            let dtype = v.dtype[l.value.at()];
            let domain = if dtype == DType::Bool || l.name == "mask" { Domain::Bit } else { Domain::Unit };
            d.tensor(dtype, &v.dims(l.value), domain)
        })
        .collect()
}

fn ops(g: &GraphBuf) -> Vec<&'static str> {
    let v = g.view();
    v.op.iter().map(|op| v.ops[op.0 as usize].name).collect()
}

/// A few units in the last place of sums of some dozen terms of size 1.
fn agree(a: &[Tensor], b: &[Tensor], exact: bool, what: &str) {
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(b) {
        let d = conform_distance(&a.data, &b.data);
        let bound = if a.dtype == DType::F32 { 4e-6 } else { 4e-12 };
        assert!(if exact { same_conform_bits(a, b) } else { d <= bound }, "{what}: off by {d:e}\n{a:?}\n{b:?}");
    }
}

/// One op with random attributes on operands of random sizes: its graph, and whether un-fusing keeps each bit.
fn sample(op: usize, dtype: DType, d: &mut TensorDraws) -> (GraphBuf, bool) {
    let g = Builder::new("sample");
    let mut pick = |n: usize| 1 + (d.bits() % n as u64) as usize;
    let (b, s, k, n) = (pick(4), pick(9), pick(40), pick(40));
    let [p, q, r] = [(); 3].map(|()| pick(2) == 1);
    let act = Activation::from_choice_index(pick(Activation::NAMES.len()) as u32 - 1);
    let x = |name: &str, dims: &[usize]| g.input(name, dims, dtype);
    let (heads, width) = (pick(3), 2 * pick(4));
    let (h, to) = (heads * width, if r { DType::F32 } else { DType::F64 });
    let mask = || g.input("mask", [b, s], if p { DType::Bool } else { dtype });
    let outs = match op {
        0 => {
            let a = if p { [k, b * s] } else { [b * s, k] };
            let w = if q { [n, k] } else { [k, n] };
            let args = [x("a", &a), x("w", &w), x("b", &[n])];
            g.emit(Op::MATMUL_BIAS_ACT, &args, &MatmulBiasActAttrs { ta: p, tb: q, act }.list()).into()
        }
        1 | 2 => {
            let mut args = vec![x("x", &[b, s, n]), x("r", &[b, s, n])];
            args.extend(q.then(|| x("bias", &[n])));
            args.extend([x("g", &[n]), x("b", &[n])]);
            let op = if op == 1 { Op::RESIDUAL_LAYER_NORM } else { Op::RESIDUAL_RMS_NORM };
            let all = g.emit(op, &args, &NormAttrs { eps: 0.01 }.list());
            // With and without the sum.
            if p { all.into() } else { vec![all[0]] }
        }
        3 => g.emit(Op::SWIGLU, &[x("x", &[b, s, 2 * n])], &SwigluAttrs { gate_first: p, to }.list()).into(),
        4 => {
            let t = |r: usize, c: usize| if p { [c, r] } else { [r, c] };
            let mut args = vec![x("x", &[b, s, k]), x("w", &t(k, n)), x("a", &t(k, 3)), x("b", &t(3, n))];
            args.extend(r.then(|| x("bias", &[n])));
            let attrs = LoraMatmulAttrs { scale: if q { 1.0 } else { 0.3 }, transposed: p };
            g.emit(Op::LORA_MATMUL, &args, &attrs.list()).into()
        }
        5 => {
            let mut args = vec![x("x", &[b, s, k]), x("qkv", &[k, 3 * h]), x("out", &[h, n])];
            args.extend(r.then(mask));
            if p {
                args.extend([x("qkv_b", &[3 * h]), x("out_b", &[n])]);
            }
            if q {
                args.extend([x("cos", &[s + 1, width / 2]), x("sin", &[s + 1, width / 2])]);
            }
            let attrs = AttentionBlockAttrs { heads: heads as i64, causal: q, padding: r, bias: p, rope: q };
            g.emit(Op::ATTENTION_BLOCK, &args, &attrs.list()).into()
        }
        6 => {
            let weights: [(&str, &[usize], &[usize]); 6] = [
                ("qkv", &[h, 3 * h], &[3 * h]),
                ("out", &[h, h], &[h]),
                ("ln1", &[h], &[h]),
                ("fc1", &[h, n], &[n]),
                ("fc2", &[n, h], &[h]),
                ("ln2", &[h], &[h]),
            ];
            let mut args = vec![x("x", &[b, s, h])];
            for (name, w, bias) in weights {
                args.push(x(name, w));
                args.extend(q.then(|| x(&format!("{name}_b"), bias)));
            }
            args.push(mask());
            let attrs = TransformerLayerAttrs { heads: heads as i64, act, eps1: 0.1, eps2: 0.2, bias: q };
            g.emit(Op::TRANSFORMER_LAYER, &args, &attrs.list()).into()
        }
        _ => {
            let kv = if heads == 2 && p { width } else { h };
            let dims: [&[usize]; 13] = [
                &[h],
                &[h],
                &[h, h],
                &[h, kv],
                &[h, kv],
                &[h, h],
                &[h],
                &[h],
                &[h, n],
                &[h, n],
                &[n, h],
                &[s, width / 2],
                &[s, width / 2],
            ];
            let mut args = vec![x("x", &[b, s, h])];
            args.extend(dims.iter().enumerate().map(|(i, d)| x(&format!("w{i}"), d)));
            args.extend(q.then(mask));
            let (heads, kv_heads) = (heads as i64, (kv / width) as i64);
            let attrs = LlamaDecoderBlockAttrs { heads, kv_heads, eps: 0.1, causal: r };
            g.emit(Op::LLAMA_DECODER_BLOCK, &args, &attrs.list()).into()
        }
    };
    (g.finish(outs).unwrap(), op < 4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn fused_ops_and_blocks_are_what_they_are_made_of(op in 0usize..8, wide in any::<bool>(), seed in any::<u64>()) {
        let (g, exact) = sample(op, if wide { DType::F64 } else { DType::F32 }, &mut TensorDraws(seed));
        let plain = passes::unfuse(&g).unwrap();
        prop_assert!(verify::verify(plain.view(), Stage::Core).is_empty());
        let x = drawn(&g, seed);
        let fused = run(&g, &x, RAW);
        agree(&fused, &run(&plain, &x, RAW), exact, "un-fused");
        agree(&fused, &run(&g, &x, PLAIN), exact, "through all passes");
        // Both ways to write a block.
        for policy in [FusionPolicy::Direct, FusionPolicy::Fusable] {
            let written = passes::expand_blocks(&g, policy).unwrap();
            prop_assert!(verify::verify(written.view(), Stage::Fused).is_empty());
            agree(&fused, &run(&written, &x, RAW), exact, "expanded");
        }
        // What un-fusing takes apart, the patterns put together again.
        if op < 5 {
            let (again, _) = pipeline::run_pipeline(&plain, &["simplify", "patterns"], true).unwrap();
            let name = ["matmul_bias_act", "residual_layer_norm", "residual_rms_norm", "swiglu", "lora_matmul"][op];
            prop_assert!(ops(&again).contains(&name), "no {name} in {again:?}");
            agree(&fused, &run(&again, &x, RAW), exact, "found again");
        }
    }
}

/// A pre-norm transformer layer and a gated one in primitive ops, with a scalar output.
fn net(dtype: DType) -> GraphBuf {
    let g = Builder::new("net");
    let (b, s, d) = (2, 6, 8);
    let x = g.input("x", [b, s, d], dtype);
    let p = |name: &str, dims: &[usize]| g.param(name, dims, dtype, Init::Uniform(0.3));
    let mut h = x;
    for i in 0..2 {
        let w = |name: &str, dims: &[usize]| p(&format!("{i}.{name}"), dims);
        let norm_attrs = NormAttrs { eps: 1e-3 };
        let n = g.emit1(Op::LAYER_NORM, &[h, w("g1", &[d]), w("b1", &[d])], &norm_attrs.list());
        let [q, k, v] = ["q", "k", "v"].map(|c| n.matmul(w(c, &[d, d])));
        let a = (q.matmul_t(k, false, true) * 0.35).softmax(-1).matmul(v);
        h = h + a.matmul(w("o", &[d, d]));
        let norm = if i == 0 { Op::LAYER_NORM } else { Op::RMS_NORM };
        let n = g.emit1(norm, &[h, w("g2", &[d]), w("b2", &[d])], &norm_attrs.list());
        let f = (n.matmul(w("up", &[d, 3 * d])) + w("up_b", &[3 * d])).relu();
        h = h + (f.matmul(w("down", &[3 * d, d])) + w("down_b", &[d]));
        let packed = h.matmul(w("packed", &[d, 2 * d]));
        h = h + packed.narrow(-1, d, d).silu() * packed.narrow(-1, 0, d);
        let low = h.matmul(w("la", &[d, 2])).matmul(w("lb", &[2, d])) * 0.5;
        h = (h.matmul(w("lw", &[d, d])) + low).tanh();
    }
    g.finish([(h * h).sum(..).named("loss")]).unwrap()
}

fn without_patterns(g: &GraphBuf) -> GraphBuf {
    let names: Vec<&str> = pipeline::pipeline_passes().into_iter().filter(|p| *p != "patterns").collect();
    pipeline::run_pipeline(g, &names, true).unwrap().0
}

#[test]
fn regions_of_pointwise_ops_are_counted() {
    let g = Builder::new("regions");
    let (x, y) = (g.input("x", [8], DType::F32), g.input("y", [3, 5], DType::F32));
    let graph = g.finish([x.exp().sin().named("a"), y.exp().cos().named("b")]).unwrap();
    let (fused, traces) = pipeline::run_pipeline(&graph, &["fuse"], true).unwrap();
    let regions = ops(&fused).into_iter().filter(|op| *op == "map").count();
    assert_eq!((regions, traces[0].hits.get("map-region")), (2, Some(&2)));
}

#[test]
fn patterns_keep_values_and_gradients_and_need_no_more_memory() {
    for dtype in [DType::F32, DType::F64] {
        let forward = net(dtype);
        let step = grad(&forward, "loss", &GradOptions::default()).unwrap();
        for (g, wanted) in [
            (&forward, &["matmul_bias_act", "residual_layer_norm", "residual_rms_norm", "swiglu", "attention"][..]),
            (&step, &["matmul_bias_act", "residual_layer_norm", "residual_rms_norm", "lora_matmul"]),
        ] {
            let (fused, plain) = (pipeline::run_whole_pipeline(g).unwrap(), without_patterns(g));
            let names = ops(&fused);
            assert!(wanted.iter().all(|w| names.contains(w)), "{names:?}");
            let x = drawn(g, 3);
            for (a, b) in run(&fused, &x, RAW).iter().zip(&run(&plain, &x, RAW)) {
                let d = conform_distance(&a.data, &b.data);
                // Two layers with norms make 1000 roundings of one.
                assert!(d <= if dtype == DType::F32 { 5e-4 } else { 1e-12 }, "off by {d:e}");
            }
            let plan = |g: &GraphBuf| Session::new().optimise(false).plan(g).unwrap();
            let (with, without) = (plan(&fused), plan(&plain));
            // A product with the derivative of an activation has scratch. The map that it is in place of needs less.
            assert!(with.arena_bytes <= without.arena_bytes + 128, "{with}, without patterns {without}");
        }
    }
}

/// A user may write fused ops and blocks: their derivatives are those of what they are made of.
#[test]
fn what_a_user_fused_is_differentiated() {
    for op in 0..8 {
        let (g, _) = sample(op, DType::F64, &mut TensorDraws(op as u64));
        let v = g.view();
        let outs: Vec<&str> = v
            .outputs()
            .iter()
            .zip(v.output_names)
            .filter(|(o, _)| v.dtype[o.at()] == DType::F64)
            .map(|(_, &n)| v.str(n))
            .collect();
        let wrt: Vec<&str> = v.leaves().filter(|l| v.dtype[l.value.at()] == DType::F64).map(|l| l.name).collect();
        if outs.is_empty() {
            continue;
        }
        let plain = passes::unfuse(v).unwrap();
        let [a, b] = [&g, &plain].map(|g| passes::vjp(g, &outs, &wrt, Missing::Zero).unwrap());
        let x = drawn(&a, 5);
        agree(&run(&a, &x, PLAIN), &run(&b, &x, PLAIN), false, "gradients");
    }
}

#[test]
fn the_report_says_what_fired_and_why_not() {
    let g = net(DType::F32);
    let step = grad(&g, "loss", &GradOptions::default()).unwrap();
    let report = passes::report_pipeline(&step).unwrap();
    let split = report.iter().position(|f| matches!(f.outcome, passes::Outcome::Missed { .. })).unwrap();
    let (fired, missed) = report.split_at(split);
    let count = |rule: &str| fired.iter().filter(|f| f.rule == rule).count();
    let rules = ["residual-layer-norm", "residual-rms-norm", "lora", "matmul-activation"];
    assert_eq!(rules.map(count), [1, 1, 2, 2]);
    let why = |rule: &str, part: &str| {
        missed.iter().any(|f| {
            f.rule == rule && matches!(&f.outcome, passes::Outcome::Missed { reason } if reason.contains(part))
        })
    };
    assert!(why("attention", "build the graph with attention"), "{missed:?}");
    assert!(why("swiglu", "is read"), "{missed:?}");
    assert!(why("matmul-shared-input", "would copy 192 elements a step"), "{missed:?}");
    assert!(fired.iter().chain(missed).all(|f| format!("{:?}", f.location).contains("fusion.rs")), "{report:?}");
}

/// Attention over more than four axes stays as it is written.
#[test]
fn attention_of_five_axes_is_not_fused() {
    for (dims, fused) in [(&[2, 1, 3, 4][..], true), (&[2, 1, 2, 3, 4], false)] {
        let g = Builder::new("axes");
        let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, dims, DType::F64));
        let y = (q.matmul_t(k, false, true) * 0.5).softmax(-1).matmul(v);
        let graph = g.finish([y.named("y")]).unwrap();
        let done = pipeline::run_whole_pipeline(&graph).unwrap();
        assert_eq!(ops(&done).iter().any(|op| op.contains("attention")), fused, "{:?}", ops(&done));
        let (inputs, raw) = (drawn(&graph, 3), How { optimise: false, ..PLAIN });
        agree(&run(&graph, &inputs, PLAIN), &run(&graph, &inputs, raw), false, "attention");
    }
}

#[test]
fn wrong_stages_and_wrong_counts_are_errors_of_their_own_kind() {
    let g = Builder::new("stage");
    let (x, w) = (g.input("x", [2, 3], DType::F32), g.input("w", [3, 4], DType::F32));
    let y = g.emit1(Op::LINEAR, &[x, w], &LinearAttrs { act: Activation::None }.list());
    let g = g.finish([y]).unwrap();
    let e = lower(g.view(), 1).err().unwrap();
    assert_eq!(e.kind, Kind::Stage);
    assert!(e.message.contains("linear: the op is a block; a pass writes it in others"), "{e}");
    // An error that is alone counts no others.
    let e = verify::check(g.view(), Stage::Core).unwrap_err();
    assert!(verify::verify(g.view(), Stage::Core).len() == 1 && !e.message.contains("more"), "{e}");
    let g = Builder::new("count");
    let x = g.input("x", [2, 3], DType::F32);
    let attrs = LlamaDecoderBlockAttrs { heads: 1, kv_heads: 1, eps: 0.0, causal: true };
    g.emit1(Op::LLAMA_DECODER_BLOCK, &[x; 13], &attrs.list());
    let e = g.error().unwrap();
    assert_eq!(e.kind, Kind::Arity);
    assert!(e.message.starts_with("llama_decoder_block(") && e.message.contains("13 operands where 14 to 15"), "{e}");
}

fn unary<'g>(g: &'g Builder, x: Var<'g>) -> Var<'g> {
    let (w, b) = (g.input("w", [3, 3], DType::F64), g.input("b", [3], DType::F64));
    x.matmul(w) + b
}

/// Layers as people write them, trained: reshapes around products and params after additions hide nothing.
#[test]
fn patterns_are_found_in_layers_that_are_trained() {
    let g = Builder::new("layers");
    let x = g.input("x", [2, 3, 8], DType::F64);
    let h = nn::lora_linear(&g, "q", x, 8, nn::Lora::new(2, 4.0));
    let h = nn::layer_norm(&g, "ln", h + x, 1e-5);
    let h = nn::rms_norm(&g, "rms", nn::linear(&g, "f", h, 8) + h, 1e-5);
    let loss = g.finish([(nn::linear(&g, "o", h, 8).relu() * h).sum(..).named("loss")]).unwrap();
    let step = grad(&loss, "loss", &GradOptions::default()).unwrap();
    let (fused, plain) = (pipeline::run_whole_pipeline(&step).unwrap(), without_patterns(&step));
    for name in ["lora_matmul", "residual_layer_norm", "residual_rms_norm", "matmul_bias_act"] {
        assert!(ops(&fused).contains(&name), "no {name} in {fused:?}");
    }
    let x = drawn(&step, 2);
    agree(&run(&fused, &x, RAW), &run(&plain, &x, RAW), false, "trained");
}

/// In the body of a loop, where leaves are arguments and nothing may be moved to the front.
#[test]
fn patterns_are_found_in_loops() {
    let g = Builder::new("loop");
    let x = g.input("x", [4, 2, 3], DType::F64);
    let h = g.input("h", [2, 3], DType::F64);
    let (gamma, beta) = (g.input("g", [3], DType::F64), g.input("be", [3], DType::F64));
    let (last, ys) = g.scan(&[h], &[x], |c, x| {
        let y = unary(&g, c[0]).silu();
        let n = g.emit1(
            Op::LAYER_NORM,
            &[y.matmul(gamma.reshape([3, 1]).broadcast([3, 3])) + x[0], gamma, beta],
            &NormAttrs { eps: 0.1 }.list(),
        );
        (vec![n], vec![n])
    });
    let g = g.finish([last[0], ys[0]]).unwrap();
    let fused = pipeline::run_whole_pipeline(&g).unwrap();
    let names = ops(&fused);
    assert!(names.contains(&"matmul_bias_act") && names.contains(&"residual_layer_norm"), "{names:?}");
    let x = drawn(&g, 8);
    agree(&run(&fused, &x, RAW), &run(&without_patterns(&g), &x, RAW), true, "in a loop");
}

/// A convolution with bias and relu, a max pool and a weighted sum, trained; `pool` is (kernel, stride, pad).
fn convolved(pool: [i64; 3]) -> GraphBuf {
    let g = Builder::new("convolved");
    let x = g.param("x", [2, 2, 7, 8], DType::F32, Init::Zeros);
    let (w, b) = (g.param("w", [3, 2, 3, 3], DType::F32, Init::Zeros), g.param("b", [3], DType::F32, Init::Zeros));
    let conv = ConvAttrs { stride: vec![1; 2], pad: vec![1; 4], dilation: vec![1; 2], groups: 1 };
    let y = g.emit1(Op::CONV2D, &[x, w], &conv.list());
    let h = (y + b.reshape([3, 1, 1])).relu();
    let [kernel, stride, pad] = pool;
    let windows =
        WindowAttrs { kernel: vec![kernel; 2], stride: vec![stride; 2], pad: vec![pad; 4], dilation: vec![1; 2] };
    let pooled = g.emit(Op::MAX_POOL2D, &[h], &windows.list())[0];
    let weights = g.input("weights", pooled.dims(), DType::F32);
    let loss = g.finish([(pooled * weights).sum(..).named("loss"), pooled.named("pooled")]).unwrap();
    grad(&loss, "loss", &GradOptions::default()).unwrap()
}

/// The gate of a relu's gradient goes in front of the scatter of a max pool behind it: with whole numbers, of which no
/// sum is rounded, bit for bit, for ties, windows without a positive element, and NaN.
#[test]
fn gradients_of_max_pools_are_gated_where_they_are_small() {
    for (pool, fires) in [([2, 2, 0], true), ([3, 2, 1], true), ([2, 3, 0], true), ([3, 1, 1], false)] {
        let step = convolved(pool);
        let (fused, plain) = (pipeline::run_whole_pipeline(&step).unwrap(), without_patterns(&step));
        let report = passes::report_pipeline(&step).unwrap();
        let fired =
            |rule: &str| report.iter().any(|f| f.rule == rule && matches!(f.outcome, passes::Outcome::Fired { .. }));
        assert!(fired("conv-bias") && fired("conv-activation"), "{report:?}");
        assert_eq!(fired("gate-before-unpool"), fires, "{report:?}");
        for seed in 0..20 {
            let mut x = drawn(&step, seed);
            let mut d = TensorDraws(seed);
            x.iter_mut().flat_map(|t| &mut t.data).for_each(|v| *v = (d.bits() % 5) as f64 - 2.0);
            if seed % 4 == 3 {
                let at = d.bits() as usize % x[0].data.len();
                x[0].data[at] = f64::NAN;
            }
            agree(&run(&fused, &x, RAW), &run(&plain, &x, RAW), true, "gated");
        }
    }
}

/// All activations of a biased convolution, with the bits of the separate ops, in both types.
#[test]
fn convolutions_end_in_activations() {
    let acts: [fn(Var<'_>) -> Var<'_>; 6] =
        [|x| x.relu(), |x| x.gelu(), |x| x.gelu_tanh(), |x| x.silu(), |x| x.tanh(), |x| x.sigmoid()];
    for (act, dtype) in acts.into_iter().flat_map(|a| [(a, DType::F32), (a, DType::F64)]) {
        let g = Builder::new("acts");
        // Many small images, and few.
        let out = [70, 2].map(|n| {
            let x = g.input(&format!("x{n}"), [n, 2, 5, 6], dtype);
            act(nn::conv2d(&g, &format!("c{n}"), x, 7, [3, 3], Conv2d::default().pad([1, 0, 2, 1])))
        });
        let line = g.input("line", [2, 3, 9], dtype);
        let last = act(nn::conv1d(&g, "c1", line, 5, 2, nn::Conv1d::default()));
        let g = g.finish([out[0], out[1], last]).unwrap();
        let fused = pipeline::run_whole_pipeline(&g).unwrap();
        let count = ops(&fused).iter().filter(|n| **n == "conv2d_bias_act").count();
        assert_eq!(count, 3, "{fused:?}");
        let x = drawn(&g, 4);
        agree(&run(&fused, &x, RAW), &run(&without_patterns(&g), &x, RAW), true, "activation");
    }
}

/// A map of more steps than joined maps may have is joined with nothing.
#[test]
fn a_long_map_stays_alone() {
    let steps: String = (1..230).map(|i| format!("  %{i} = neg %{}\n", i - 1)).collect();
    let source = format!(
        "region @long(%0: f32[8]) {{
{steps}  yield %229
}}
region @short(%0: f32[8]) {{
  %1 = exp %0
  yield %1
}}
region @body(%0: f32[8]) {{
  %1 = map %0 body=@long
  %2 = map %1 body=@short
  yield %2
}}
graph @g {{
  %x = input : f32[8]
  %y = scan %x body=@body carries=1 consts=0 length=3 reverse=false
  return y=%y
}}
"
    );
    let graph = text::parse(&source).unwrap();
    let (joined, _) = pipeline::run_pipeline(&graph, &["join"], true).unwrap();
    assert_eq!(ops(&joined).into_iter().filter(|op| *op == "map").count(), 2);
}
