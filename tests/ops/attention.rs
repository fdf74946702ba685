//! Attention against its definition in plain loops, at its edges, and in memory. The conformance suite compares it with
//! its decomposition and with differences; these numbers come from elsewhere.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, conform_distance, run};
use arenagrad::graph::{Attention, Builder, DType, GraphBuf, Layout, Var};
use arenagrad::graph::{GradOptions, grad};
use arenagrad::nn;
use arenagrad::op::Op;
use arenagrad::session::Session;
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::passes::ad::prepare;

const F64: DType = DType::F64;

/// y by the definition, for `[heads, sequence, width]` of one sequence: `score(head, i, j, q·k)` is what stands under
/// the exponential, or nothing.
fn naive(
    [q, k, v]: [&[f64]; 3],
    [heads, kv, queries, keys, width]: [usize; 5],
    score: impl Fn(usize, usize, usize, f64) -> Option<f64>,
) -> Vec<f64> {
    let mut y = Vec::new();
    for (h, i) in (0..heads).flat_map(|h| (0..queries).map(move |i| (h, i))) {
        let row = |x: &[f64], len: usize, h: usize, i: usize| x[(h * len + i) * width..][..width].to_vec();
        let (a, shared) = (row(q, queries, h, i), h / (heads / kv));
        let dot = |j: usize| a.iter().zip(row(k, keys, shared, j)).map(|(a, b)| a * b).sum::<f64>();
        let weights: Vec<f64> = (0..keys).map(|j| score(h, i, j, dot(j)).map_or(0.0, f64::exp)).collect();
        let sum: f64 = weights.iter().sum();
        for c in 0..width {
            let all: f64 = (0..keys).map(|j| weights[j] * v[(shared * keys + j) * width + c]).sum();
            y.push(if sum > 0.0 { all / sum } else { 0.0 });
        }
    }
    y
}

fn input<'g>(g: &'g Builder, name: &str, dims: &[usize]) -> Var<'g> {
    g.input(name, dims, F64)
}

/// y, lse, and the gradients of Σ y in q, k, v and the bias, f64.
fn all(dims: [usize; 4], keys: usize, bias: &[f64], q: f64, opt: Attention<'static>) -> Vec<Vec<f64>> {
    let [b, h, s, w] = dims;
    let g = Builder::new("a");
    let x = input(&g, "q", &dims);
    let [k, v] = ["k", "v"].map(|name| input(&g, name, &[b, h, keys, w]));
    let added = input(&g, "bias", &[1, 1, s, keys]);
    let opt = opt.bias(added);
    let [y, lse] = x.attention_with_lse(k, v, opt);
    let f = g.finish([y.sum(..).named("loss"), y.named("y"), lse.named("lse")]).unwrap();
    let back = grad(&f, "loss", &GradOptions::wrt(&["q", "k", "v", "bias"])).unwrap();
    let mut draw = TensorDraws(1);
    let mut inputs: Vec<Tensor> =
        [dims, [b, h, keys, w], [b, h, keys, w]].iter().map(|d| draw.tensor(F64, d, Domain::Positive)).collect();
    inputs[0].data.iter_mut().for_each(|x| *x *= q);
    inputs.push(Tensor { dtype: F64, dims: vec![1, 1, s, keys], data: bias.to_vec() });
    run(&back, &inputs, PLAIN).into_iter().map(|t| t.data).collect()
}

#[test]
fn a_query_without_keys_gives_zeros_and_no_gradient() {
    // Query 0 of 3 ends before the first of 2 keys; query 1 is hidden by the bias.
    let inf = f64::NEG_INFINITY;
    let opt = Attention::default().causal(true);
    let bias = [0.0, 0.0, inf, 0.0, 0.5, inf];
    let outs = all([1, 1, 3, 4], 2, &bias, 1.0, opt);
    let [_, y, lse, dq, dk, dv, dbias] = &outs[..] else { panic!("{outs:?}") };
    assert!(outs.iter().enumerate().all(|(i, x)| i == 2 || x.iter().all(|x| x.is_finite())), "{outs:?}");
    assert_eq!(y[..8], [0.0; 8]);
    assert_eq!(lse[..2], [inf; 2]);
    assert!(lse[2].is_finite());
    // The last query sees one key, whose weight is 1 whatever its score.
    assert_eq!((dq, dk, dbias), (&vec![0.0; 12], &vec![0.0; 8], &vec![0.0; 6]));
    assert_eq!(dv[..], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
}

/// Without steps there is no key; the op has a meaning, and so has what it decomposes to.
#[test]
fn attention_over_no_step_decomposes() {
    let g = Builder::new("a");
    let x = input(&g, "x", &[2, 0, 6]);
    let y = nn::causal_self_attention(&g, "attn", x, nn::CausalSelfAttention::new(3));
    let graph = g.finish([y.named("y")]).unwrap();
    let plain = prepare::decompose_fully(&graph).unwrap();
    assert!(plain.view().op.iter().all(|&op| op != Op::ATTENTION && op != Op::ATTENTION_BLOCK));
}

#[test]
fn large_scores_do_not_overflow() {
    let outs = all([1, 2, 5, 4], 200, &[0.0; 1000], 1e4, Attention::default());
    assert!(outs.iter().flatten().all(|x| x.is_finite()));
    assert!(outs[2].iter().any(|lse| *lse > 1e4));
}

#[test]
fn the_fused_block_is_attention_of_its_parts() {
    let g = Builder::new("a");
    let x = input(&g, "x", &[2, 5, 6]);
    let y = nn::causal_self_attention(&g, "attn", x, nn::CausalSelfAttention::new(3));
    let f = g.finish([y.named("y")]).unwrap();
    let v = f.view();
    let names: Vec<_> = v.leaves().map(|l| (l.name.to_string(), v.dims(l.value).to_vec())).collect();
    let want = [("attn.c_attn.weight", vec![18, 6]), ("attn.c_attn.bias", vec![18])];
    let proj = [("attn.c_proj.weight", vec![6, 6]), ("attn.c_proj.bias", vec![6])];
    for (name, dims) in want.into_iter().chain(proj) {
        assert!(names.contains(&(name.to_string(), dims)), "{name} in {names:?}");
    }
    let mut draw = TensorDraws(8);
    let t: Vec<Tensor> = v.leaves().map(|l| draw.tensor(F64, &v.dims(l.value), Domain::Unit)).collect();
    let leaf = |name: &str| &t[names.iter().position(|n| n.0 == name).unwrap()].data;
    let affine = |x: &[f64], name: &str, n: usize| -> Vec<f64> {
        let (w, b) = (leaf(&format!("attn.{name}.weight")), leaf(&format!("attn.{name}.bias")));
        let row = |x: &[f64], o: usize| b[o] + (0..6).map(|i| x[i] * w[o * 6 + i]).sum::<f64>();
        x.chunks(6).flat_map(|x| (0..n).map(move |o| (x, o))).map(|(x, o)| row(x, o)).collect()
    };
    let mut mixed = Vec::new();
    for x in affine(leaf("x"), "c_attn", 18).chunks(5 * 18) {
        let head = |part: usize| -> Vec<f64> {
            (0..3)
                .flat_map(|h| (0..5).flat_map(move |s| (0..2).map(move |c| s * 18 + part * 6 + h * 2 + c)))
                .map(|i| x[i])
                .collect()
        };
        let (q, k, v) = (head(0), head(1), head(2));
        let y = naive([&q, &k, &v], [3, 3, 5, 5, 2], |_, i, j, dot| (j <= i).then_some(dot / 2f64.sqrt()));
        mixed.extend(
            (0..5).flat_map(|s| (0..3).flat_map(move |h| (0..2).map(move |c| (h * 5 + s) * 2 + c))).map(|i| y[i]),
        );
    }
    assert!(conform_distance(&run(&f, &t, PLAIN)[0].data, &affine(&mixed, "c_proj", 6)) < 1e-13);
}

/// With values of ones on the diagonal, y is the probabilities, and the gradient of Σ y·w in v their transpose times w.
#[test]
fn dropped_probabilities_are_the_same_forwards_and_backwards() {
    let (n, p) = (150, 0.3);
    let g = Builder::new("a");
    let [q, k, v] = ["q", "k", "v"].map(|name| input(&g, name, &[1, 2, n, n]));
    let causal = Attention::default().causal(true);
    let whole = q.attention(k, v, causal).named("whole");
    let y = q.attention(k, v, causal.dropout(p)).named("y");
    let other = q.attention(k, v, causal.dropout(p)).named("other");
    let f = g.finish([y.sum(..).named("loss"), y, whole, other]).unwrap();
    let back = grad(&f, "loss", &GradOptions::wrt(&["v"])).unwrap();
    let mut program = Session::new().threads(2).compile(&back).unwrap();
    let mut draw = TensorDraws(3);
    for name in ["q", "k"] {
        let x = draw.tensor(F64, &[2 * n, n], Domain::Unit).data;
        program.values_mut::<f64>(name).unwrap().copy_from_slice(&x);
    }
    let one = |(e, x): (usize, &mut f64)| *x = f64::from(u8::from(e % n == e / n % n));
    program.values_mut::<f64>("v").unwrap().iter_mut().enumerate().for_each(one);
    let mut seen: Vec<Vec<bool>> = Vec::new();
    for _ in 0..2 {
        program.step().unwrap();
        let of = |name: &str| program.values::<f64>(name).unwrap().to_vec();
        let (y, whole, other, dv) = (of("y"), of("whole"), of("other"), of("grad.v"));
        let kept = |y: &[f64]| -> Vec<bool> { y.iter().map(|y| *y != 0.0).collect() };
        let want: Vec<f64> = y.iter().zip(&whole).map(|(y, w)| if *y == 0.0 { 0.0 } else { w / (1.0 - p) }).collect();
        assert!(conform_distance(&y, &want) < 1e-14);
        let (all, left) = (kept(&whole).iter().filter(|k| **k).count(), kept(&y).iter().filter(|k| **k).count());
        assert_eq!(all, n * (n + 1));
        assert!((left as f64 / all as f64 - (1.0 - p)).abs() < 0.012, "{left} of {all}");
        // dv[j, c] = Σ over queries of what was kept of key j, for each c.
        for (head, dv) in dv.chunks(n * n).enumerate() {
            let sum = |j: usize| -> f64 { (0..n).map(|i| y[(head * n + i) * n + j]).sum() };
            let want: Vec<f64> = (0..n * n).map(|e| sum(e / n)).collect();
            assert!(conform_distance(dv, &want) < 1e-12);
        }
        assert_ne!(kept(&y)[..n * n], kept(&y)[n * n..], "heads");
        seen.extend([kept(&y), kept(&other)]);
    }
    // Calls and steps draw anew.
    for (i, j) in (0..4).flat_map(|i| (0..i).map(move |j| (i, j))) {
        assert_ne!(seen[i], seen[j], "{i}, {j}");
    }
}

/// Blocks of dropped attention that a budget has computed again give the same gradients, to the bit.
#[test]
fn what_is_dropped_is_dropped_again_when_computed_again() {
    let g = Builder::new("a");
    let w = g.param("w", [32, 32], DType::F32, arenagrad::graph::Init::Zeros);
    let mut x = g.input("x", [2, 2, 64, 32], DType::F32);
    for _ in 0..6 {
        let q = x.matmul(w).tanh();
        x = (x + q.attention(q.sin(), q, Attention::default().dropout(0.4))).checkpoint();
    }
    let f = g.finish([(x * x).sum(..).named("loss")]).unwrap();
    let back = grad(&f, "loss", &GradOptions::wrt(&["w"])).unwrap();
    let free = Session::new().plan(&back).unwrap().arena_bytes;
    let step = |session: Session, again: bool| {
        let mut p = session.compile(&back).unwrap();
        assert_eq!(p.plan().recomputed.nodes > 0, again);
        let mut draw = TensorDraws(11);
        let mut number = |x: &mut f32| *x = draw.unit() as f32 - 0.5;
        p.values_mut::<f32>("x").unwrap().iter_mut().for_each(&mut number);
        p.values_mut::<f32>("w").unwrap().iter_mut().for_each(&mut number);
        p.step().unwrap();
        p.values::<f32>("grad.w").unwrap().to_vec()
    };
    let one = step(Session::new(), false);
    assert!(one.iter().any(|x| *x != 0.0));
    assert_eq!(one, step(Session::new().memory_budget(free / 2), true));
}

/// Few heads are divided by keys and by queries where there are threads for it; no bit changes.
#[test]
fn gradients_keep_their_bits_however_heads_are_divided() {
    // Batch, heads, heads of k, queries, keys: one odd head, and heads of whole blocks.
    for [b, heads, kv, queries, keys] in [[1, 1, 1, 300, 421], [1, 4, 2, 256, 384], [2, 1, 1, 512, 384]] {
        let g = Builder::new("a");
        let q = g.input("q", [b, heads, queries, 8], DType::F32);
        let [k, v] = ["k", "v"].map(|name| g.input(name, [b, kv, keys, 8], DType::F32));
        let bias = g.input("bias", [b, heads, queries, keys], DType::F32);
        let opt = Attention::default().causal(true).softcap(3.0).bias(bias).dropout(0.2);
        let y = q.attention(k, v, opt);
        let f = g.finish([(y * y).sum(..).named("loss")]).unwrap();
        let back = grad(&f, "loss", &GradOptions::wrt(&["q", "k", "v", "bias"])).unwrap();
        let mut draw = TensorDraws(5);
        let inputs: Vec<Tensor> =
            f.view().leaves().take(4).map(|l| draw.tensor(DType::F32, &f.view().dims(l.value), Domain::Real)).collect();
        let of = |threads| run(&back, &inputs, How { threads, ..PLAIN });
        let one = of(1);
        assert!(one[1..].iter().all(|t| t.data.iter().any(|x| *x != 0.0)));
        for threads in [2, 3, 8] {
            let same = one.iter().zip(&of(threads)).all(|(a, b)| crate::common::same_conform_bits(a, b));
            assert!(same, "{b} × {heads} heads, {threads} threads");
        }
    }
}

/// The arena of forward and backward with sequences of `len`.
fn arena(len: usize, plain: bool, dropout: f64) -> usize {
    let g = Builder::new("a");
    let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, [1, 1, len, 64], DType::F32));
    let f = g.finish([q.attention(k, v, Attention::default().dropout(dropout)).sum(..).named("loss")]).unwrap();
    let f: GraphBuf = if plain { prepare::decompose_fully(f.view()).unwrap() } else { f };
    let back = grad(&f, "loss", &GradOptions::wrt(&["q", "k", "v"])).unwrap();
    Session::new().threads(1).plan(&back).unwrap().arena_bytes
}

#[test]
fn memory_grows_with_the_lengths_not_their_product() {
    let (short, long) = (arena(1024, false, 0.1), arena(4096, false, 0.1));
    assert!(long < 4 * short + 4096, "{short} bytes, {long} at four times the length");
    // Nine tensors of q's size (operands, y, their gradients), statistics and scratch of 0.2 MiB.
    assert!(long < 10 * (4096 * 64 * 4), "{long}");
    let plain = arena(4096, true, 0.0);
    assert!(plain > 10 * long, "{plain} bytes in plain ops, {long} without");
}

#[test]
fn bad_arguments_are_named_with_both_values() {
    let d = Attention::default();
    let bsd = d.layout(Layout::Bsd);
    let cases: [([&[usize]; 3], Attention<'static>, &[&str]); 13] = [
        ([&[1, 4, 10], &[1, 4, 10], &[1, 4, 10]], bsd.heads(3), &["3 heads", "last axis of q, 10"]),
        ([&[1, 4, 5, 2], &[1, 3, 5, 2], &[1, 3, 5, 2]], d, &["kv_heads = 3", "heads = 4"]),
        ([&[1, 4, 5, 2], &[1, 4, 5, 3], &[1, 4, 5, 2]], d, &["head widths 2 of q and 3 of k"]),
        ([&[1, 4, 5, 2], &[1, 4, 6, 2], &[1, 4, 5, 2]], d, &["lengths 6 of k and 5 of v"]),
        ([&[1, 4, 5, 2], &[2, 4, 5, 2], &[1, 4, 5, 2]], d, &["batch sizes 1 of q, 2 of k and 1 of v"]),
        ([&[1, 4, 10], &[1, 4, 10], &[1, 4, 10]], d, &["q has shape [1,4,10]", "bhsd has rank 4"]),
        ([&[1, 4, 5, 2]; 3], d.softcap(-1.5), &["softcap is -1.5"]),
        ([&[1, 4, 5, 2]; 3], d.scale(f64::NAN), &["scale is NaN"]),
        ([&[1, 4, 5, 2]; 3], d.ahead(2), &["ahead is 2", "mask is none"]),
        ([&[1, 4, 5, 2]; 3], d.ahead(2).causal(true), &["ahead is 2", "no later key"]),
        ([&[1, 4, 5, 0]; 3], d, &["head width of q is 0"]),
        ([&[1, 4, 5, 2]; 3], d.dropout(1.5), &["dropout is 1.5", "[0, 1]"]),
        ([&[1, 4, 5, 2]; 3], d.dropout(f64::NAN), &["dropout is NaN", "[0, 1]"]),
    ];
    for (dims, opt, want) in cases {
        let g = Builder::new("bad");
        let [q, k, v] = [0, 1, 2].map(|i| g.input(["q", "k", "v"][i], dims[i], F64));
        q.attention(k, v, opt);
        let message = g.error().unwrap_or_else(|| panic!("{want:?} is accepted")).message;
        assert!(message.contains("attention") && want.iter().all(|w| message.contains(w)), "{message}: {want:?}");
    }
    let masks: [(&[usize], bool, &[&str]); 3] = [
        (&[2, 4], true, &["padding mask", "[2,4]", "[1,5]"]),
        (&[1, 4, 5, 6], false, &["bias", "[1,4,5,6]", "[1,4,5,5]"]),
        (&[5, 4], false, &["bias", "[1,1,5,4]", "[1,4,5,5]"]),
    ];
    for (dims, padding, want) in masks {
        let g = Builder::new("bad");
        let dtype = if padding { DType::Bool } else { F64 };
        let (q, m) = (input(&g, "q", &[1, 4, 5, 2]), g.input("m", dims, dtype));
        let opt = if padding { d.padding(m) } else { d.bias(m) };
        q.attention(q, q, opt);
        let message = g.error().unwrap().message;
        assert!(want.iter().all(|w| message.contains(w)), "{message}: {want:?}");
    }
}

/// A mask of 0 and −∞ would hide every key if it were read as 0 and 1.
#[test]
fn terms_of_the_scores_are_no_padding_mask() {
    let g = Builder::new("terms");
    let (q, m) = (input(&g, "q", &[1, 4, 5, 2]), input(&g, "m", &[1, 5]));
    q.attention(q, q, Attention::default().padding(m));
    let message = g.error().unwrap().message;
    assert!(message.contains("the padding mask is f64; bool is needed") && message.contains("bias"), "{message}");
}

/// `x` `[batch, heads, sequence, width]` in `layout`, or back.
fn turned(x: Var<'_>, layout: Layout) -> Var<'_> {
    if layout == Layout::Bhsd { x } else { x.transpose(&[0, 2, 1, 3]) }
}

/// Masks of 0 and −∞ of all shapes that torch takes, and their gradients, against softmax(q·kᵀ·s + mask)·v.
#[test]
fn terms_of_the_scores_broadcast_and_are_added() {
    let shapes: [&[usize]; 7] = [&[4, 5], &[1, 5], &[4, 1], &[2, 1, 4, 5], &[2, 3, 4, 5], &[2, 1, 1, 5], &[3, 4, 5]];
    for layout in [Layout::Bhsd, Layout::Bshd] {
        for dims in shapes {
            let g = Builder::new("terms");
            let [q, k, v] = [("q", 4), ("k", 5), ("v", 5)].map(|(name, len)| input(&g, name, &[2, 3, len, 6]));
            let m = input(&g, "m", dims);
            let opt = Attention::default().layout(layout).bias(m);
            let y = turned(turned(q, layout).attention(turned(k, layout), turned(v, layout), opt), layout);
            let scores = q.matmul_t(k, false, true) * (1.0 / 6.0f64.sqrt()) + m;
            let want = scores.softmax(-1).matmul(v);
            let f = g
                .finish([
                    y.named("y"),
                    want.named("want"),
                    (y * y).sum(..).named("a"),
                    (want * want).sum(..).named("b"),
                ])
                .unwrap();
            let leaves = ["q", "k", "v", "m"];
            let f = grad(&f, "a", &GradOptions::wrt(&leaves)).unwrap();
            let renamed =
                leaves.iter().try_fold(f, |f, l| f.rename(&format!("grad.{l}"), &format!("ours.{l}"))).unwrap();
            let f = grad(&renamed, "b", &GradOptions::wrt(&leaves)).unwrap();
            let mut draw = TensorDraws(5);
            let mut x: Vec<Tensor> =
                [4, 5, 5].iter().map(|&len| draw.tensor(F64, &[2, 3, len, 6], Domain::Real)).collect();
            x.push(draw.tensor(F64, dims, Domain::Real));
            // Hidden keys, though never all of a query.
            if dims.last() == Some(&5) {
                x[3].data.iter_mut().skip(1).step_by(5).for_each(|t| *t = f64::NEG_INFINITY);
            }
            let outs = run(&f, &x, PLAIN);
            assert!(conform_distance(&outs[0].data, &outs[1].data) < 1e-13, "{dims:?}");
            for i in 0..4 {
                let far = conform_distance(&outs[4 + i].data, &outs[8 + i].data);
                assert!(far < 1e-12, "{dims:?} {}: {far}", leaves[i]);
            }
        }
    }
}

/// Values of another graph are refused, and an operand after an error adds no error of its own.
#[test]
fn attention_of_no_value_or_of_another_graph_is_no_value() {
    let (g, other) = (Builder::new("one"), Builder::new("other"));
    let [x, y] = [&g, &other].map(|g| input(g, "x", &[1, 2, 3, 4]));
    assert!(!x.attention(y, x, Attention::default()).is_some());
    assert!(g.error().unwrap().message.contains("attention"));
    for at in 0..3 {
        let g = Builder::new("none");
        let x = input(&g, "x", &[1, 2, 3, 4]);
        let mut args = [x; 3];
        args[at] = x.reshape([5]);
        let first = g.error().unwrap().message;
        let [y, lse] = args[0].attention_with_lse(args[1], args[2], Attention::default());
        assert!(!y.is_some() && !lse.is_some());
        assert_eq!(g.error().unwrap().message, first);
    }
}

/// Heads are those of the operands where there is an axis of them, and else one, or what the options say.
#[test]
fn numbers_of_heads_come_from_shapes_or_options() {
    let of = |layout, [q, k]: [&[usize]; 2], heads, kv_heads| {
        let g = Builder::new("heads");
        let (q, k) = (input(&g, "q", q), input(&g, "k", k));
        let opt = Attention::default().layout(layout).heads(heads).kv_heads(kv_heads);
        let [y, lse] = q.attention_with_lse(k, k, opt);
        assert!(g.error().is_none(), "{:?}", g.error());
        (y.dims().to_vec(), lse.dims().to_vec(), g.finish([y]).unwrap().to_string())
    };
    let has = |text: &str, heads: usize, kv: usize| text.contains(&format!("heads={heads} kv_heads={kv} "));
    let (y, lse, text) = of(Layout::Bhsd, [&[1, 6, 2, 4], &[1, 3, 5, 4]], 0, 0);
    assert!(y == [1, 6, 2, 4] && lse == [1, 6, 2] && has(&text, 6, 3), "{text}");
    let (y, lse, text) = of(Layout::Bshd, [&[1, 2, 6, 4], &[1, 5, 3, 4]], 0, 0);
    assert!(y == [1, 2, 6, 4] && lse == [1, 6, 2] && has(&text, 6, 3), "{text}");
    let (y, lse, text) = of(Layout::Bsd, [&[1, 2, 12], &[1, 5, 12]], 0, 0);
    assert!(y == [1, 2, 12] && lse == [1, 1, 2] && has(&text, 1, 1), "{text}");
    // Keys have as many heads as queries, unless the options say another number.
    let (y, lse, text) = of(Layout::Bsd, [&[1, 2, 12], &[1, 5, 12]], 3, 0);
    assert!(y == [1, 2, 12] && lse == [1, 3, 2] && has(&text, 3, 3), "{text}");
    let (y, lse, text) = of(Layout::Bsd, [&[1, 2, 12], &[1, 5, 4]], 3, 1);
    assert!(y == [1, 2, 12] && lse == [1, 3, 2] && has(&text, 3, 1), "{text}");
}
