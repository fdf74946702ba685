//! What the way back reads of what the way forth made: bytes that lie between forward and backward, by op. No rule may
//! keep more than it needs.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::window::Pool2d;
use arenagrad::graph::{Builder, DType, GraphBuf, Init, Var};
use arenagrad::nn;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::passes::pipeline::run_whole_pipeline;
use arenagrad::tools::sched::instructions::Instructions;
use arenagrad::tools::sched::lower::lower;
use std::collections::BTreeMap;

const F32: DType = DType::F32;

/// (op, bytes) of each buffer that is made up to the instruction that makes the loss and read after it, and is no leaf.
fn saved(program: &GraphBuf) -> Vec<(&'static str, usize)> {
    let prepared = run_whole_pipeline(program).unwrap();
    let g = prepared.view();
    let code: Instructions = lower(g, 1).unwrap().code;
    let loss = code.outputs[0].buf;
    let writes = |i: usize, b: u32| code.writes_of(i).iter().any(|o| o.buf == b);
    let end = (0..code.len()).rfind(|&i| writes(i, loss)).unwrap();
    let made = |b: u32| (0..=end).any(|i| writes(i, b));
    let read = |b: u32| (end + 1..code.len()).any(|i| code.reads_of(i).iter().any(|o| o.buf == b));
    let kept = (0..code.bytes.len() as u32).filter(|&b| b != loss && made(b) && read(b));
    kept.map(|b| (g.def_of(g.def[code.value[b as usize].at()]).name, code.bytes[b as usize])).collect()
}

fn total(saved: &[(&'static str, usize)]) -> usize {
    saved.iter().map(|s| s.1).sum()
}

/// The training program of the sum of `f` of two products of `[64, 32]`.
fn of(f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> Vec<(&'static str, usize)> {
    let g = Builder::new("one");
    let x = g.input("x", [64, 32], F32);
    let w = |name: &str| g.param(name, [32, 32], F32, Init::Normal(0.1));
    let y = f(x.matmul(w("a")));
    g.output("loss", y.matmul(w("b")).sum(..));
    saved(&crate::common::zoo::step(g.finish([]).unwrap()))
}

const N: usize = 64 * 32;

/// The second product's derivative needs f(x); whatever else is kept is the rule's own.
#[test]
fn rules_read_the_result_where_it_is_enough() {
    let rules: [(&str, fn(Var<'_>) -> Var<'_>); 13] = [
        ("relu", |x| x.relu()),
        ("leaky_relu", |x| x.leaky_relu(0.1)),
        ("tanh", |x| x.tanh()),
        ("sigmoid", |x| x.sigmoid()),
        ("exp", |x| x.exp()),
        ("sqrt", |x| x.sqrt()),
        ("rsqrt", |x| x.rsqrt()),
        ("recip", |x| x.recip()),
        ("softplus", |x| x.softplus()),
        ("softmax", |x| x.softmax(1)),
        ("scale", |x| x * 3.0),
        ("add", |x| x + 3.0),
        ("reshape", |x| x.reshape([32, 64]).reshape([64, 32])),
    ];
    for (name, f) in rules {
        let kept = of(f);
        assert_eq!(total(&kept), 4 * N, "{name}: {kept:?}");
    }
}

/// These need x too, and nothing else.
#[test]
fn rules_that_need_the_operand_keep_nothing_else() {
    let rules: [(&str, fn(Var<'_>) -> Var<'_>); 3] =
        [("gelu", |x| x.gelu()), ("gelu_tanh", |x| x.gelu_tanh()), ("silu", |x| x.silu())];
    for (name, f) in rules {
        let kept = of(f);
        assert_eq!(total(&kept), 8 * N, "{name}: {kept:?}");
    }
}

/// Rules of factors read the factors alone: 4 bytes for each number, and rows of `lu` beside.
#[cfg(feature = "linalg")]
#[test]
fn factors_are_kept_without_their_matrix() {
    let factors: [(usize, for<'g> fn(Var<'g>) -> Var<'g>); 5] = [
        (4 * 32 * 32, |x| x.cholesky()),
        (4 * 32 * 33, |x| x.lu()[0]),
        (8 * 32 * 32, |x| x.qr()[0]),
        (4 * 32 * 33, |x| x.eigh()[1]),
        (4 * 32 * 65, |x| x.svd()[0]),
    ];
    for (bytes, f) in factors {
        let kept = of(|x| f(x.narrow(0, 0, 32)));
        assert_eq!(total(&kept), bytes, "{kept:?}");
    }
}

#[test]
fn masks_are_a_byte_an_element() {
    let g = Builder::new("dropout");
    let x = g.input("x", [64, 32], F32);
    let w = |name: &str| g.param(name, [32, 32], F32, Init::Normal(0.1));
    let y = x.matmul(w("a")).dropout(0.5);
    g.output("loss", y.matmul(w("b")).sum(..));
    let kept = saved(&crate::common::zoo::step(g.finish([]).unwrap()));
    assert_eq!(total(&kept), 4 * N + N, "{kept:?}");
}

/// The derivative of an activation is made with it, in the place of its operand, and the way back goes into the product
/// before it; or it is one sweep over the operand and the gradient, which it takes over: parts of it that lay in memory
/// would be made early by orders that see a chance to let the operand go.
#[test]
fn derivatives_of_activations_are_one_sweep() {
    let rules: [(&str, bool, fn(Var<'_>) -> Var<'_>); 4] = [
        ("gelu", true, |x| x.gelu()),
        ("gelu_tanh", true, |x| x.gelu_tanh()),
        ("silu", true, |x| x.silu()),
        ("softplus", false, |x| x.softplus()),
    ];
    for (name, with, f) in rules {
        let g = Builder::new("one");
        let x = g.input("x", [64, 32], F32);
        let w = |name: &str| g.param(name, [32, 32], F32, Init::Normal(0.1));
        let y = f(x.matmul(w("a"))).matmul(w("b"));
        g.output("loss", (y * y).sum(..));
        let prepared = run_whole_pipeline(crate::common::zoo::step(g.finish([]).unwrap()).view()).unwrap();
        let v = prepared.view();
        let of = |op: &str| -> Vec<_> {
            v.region_nodes(v.entry()).filter(|&n| v.def_of(n).name == op && v.numel(v.out(n)) == N).collect()
        };
        let maps = of("map");
        // Beside the loss', which has one operand.
        let of_two = maps.iter().filter(|&&n| v.args_of(n).len() == 2).count();
        let found = (of("act_with_grad").len(), of("matmul_dact").len(), of_two);
        assert_eq!(found, if with { (1, 1, 0) } else { (0, 0, 1) }, "{name}");
        assert!(maps.len() <= 2, "{name}: {} regions", maps.len());
    }
}

/// A chain of dense layers keeps each layer's result, and the logits with a number for each row.
#[test]
fn a_relu_mlp_keeps_activations_alone() {
    let (batch, width, hidden) = (32, 64, 5);
    let kept = saved(&crate::common::zoo::step(crate::common::zoo::mlp(batch, 16, width, hidden)));
    let activations = hidden * batch * width * 4;
    let loss = batch * 10 * 4 + batch * 4;
    assert!(total(&kept) <= activations + loss + 64, "{} of {}: {kept:?}", total(&kept), activations + loss);
    assert!(total(&kept) >= activations + batch * 10 * 4);
}

/// A norm keeps its operand and two numbers a row.
#[test]
fn a_layer_norm_keeps_its_operand_and_two_numbers_a_row() {
    let g = Builder::new("norm");
    let x = g.input("x", [64, 32], F32);
    let w = |name: &str| g.param(name, [32, 32], F32, Init::Normal(0.1));
    let y = nn::layer_norm(&g, "ln", x.matmul(w("a")), 1e-5);
    g.output("loss", y.matmul(w("b")).sum(..));
    let kept = saved(&crate::common::zoo::step(g.finish([]).unwrap()));
    assert_eq!(total(&kept), 8 * N + 2 * 4 * 64, "{kept:?}");
}

/// Norms of channels keep their operand and two numbers for each row or channel.
#[test]
fn norms_of_channels_keep_their_operand_and_statistics() {
    let kept = |norm: for<'g> fn(&'g Builder, Var<'g>) -> Var<'g>| {
        let g = Builder::new("norm");
        let x = g.input("x", [64, 32], F32);
        let w = |name: &str| g.param(name, [32, 32], F32, Init::Normal(0.1));
        let y = norm(&g, x.matmul(w("a")).reshape([16, 8, 16])).reshape([64, 32]);
        g.output("loss", y.matmul(w("b")).sum(..));
        let kept = saved(&crate::common::zoo::step(g.finish([]).unwrap()));
        total(&kept)
    };
    assert_eq!(kept(|g, x| nn::group_norm(g, "n", x, 4, 1e-5)), 8 * N + 2 * 4 * 16 * 4);
    assert_eq!(kept(|g, x| nn::batch_norm(g, "n", x, nn::BatchNorm::default())), 8 * N + 2 * 4 * 8);
}

/// A batch norm from plain ops keeps its centred operand: the normalised one is computed again where it is read. Behind
/// it the activation is kept for the next product.
#[test]
fn a_batch_norm_keeps_its_operand_alone() {
    let g = Builder::new("norm");
    let x = g.input("x", [2, 3, 8, 8], F32);
    let y = crate::common::zoo::block(&g, "a", x, 4, 3, 1).relu();
    g.output("loss", crate::common::zoo::conv(&g, "b", y, 4, 3, 1).sum(..));
    let kept = saved(&crate::common::zoo::step(g.finish([]).unwrap()));
    let image = 2 * 4 * 8 * 8 * 4;
    assert!((2 * image..2 * image + image / 4).contains(&total(&kept)), "{image} an image: {kept:?}");
}

/// A max pool keeps where its maxima were, not its operand.
#[test]
fn a_max_pool_keeps_places() {
    let g = Builder::new("pool");
    let x = g.input("x", [8, 64], F32);
    let w = g.param("a", [64, 64], F32, Init::Normal(0.1));
    let y = x.matmul(w).reshape([8, 1, 8, 8]).max_pool2d(Pool2d::new([2, 2]));
    g.output("loss", y.sum(..));
    let kept = saved(&crate::common::zoo::step(g.finish([]).unwrap()));
    assert_eq!(total(&kept), 8 * 16 * 4, "{kept:?}");
}

/// What full-size models keep, by op, for reading.
#[test]
#[ignore = "for figures: cargo test --release --test graphs saved:: zoo -- --ignored --nocapture"]
fn what_the_zoo_keeps() {
    for m in crate::common::zoo::ZOO {
        let kept = saved(&(m.full)());
        let mut by_op: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (op, bytes) in &kept {
            let e = by_op.entry(op).or_default();
            *e = (e.0 + 1, e.1 + bytes);
        }
        let mut rows: Vec<_> = by_op.into_iter().collect();
        rows.sort_by_key(|r| std::cmp::Reverse(r.1.1));
        let mib = |b: usize| b as f64 / (1 << 20) as f64;
        let text: Vec<String> = rows.iter().map(|(op, (n, b))| format!("{op} x{n} {:.2}", mib(*b))).collect();
        println!("{:<14} {:>8.2} MiB: {}", m.name, mib(total(&kept)), text.join(", "));
    }
}
