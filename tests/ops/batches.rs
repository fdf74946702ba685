//! Batches of ops with batch rules of their own are one op for all members, where the operands that differ allow it.
//! The conformance suite asks for the numbers, which a loop over the members has too.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::quant::{CodeProduct, CodedWeights, FakeQuantize, Lsq, LsqFactor, Quantize, WeightScheme};
use arenagrad::graph::window::Conv2d;
use arenagrad::graph::{Attention, Builder, DType, GradOptions, GraphBuf, Var, Vmap, one_by_one_ops};

/// The ops that run one member after another, of three whose leaves `own` differ, and how often `op` is in the graph.
fn batched(op: &str, graph: &GraphBuf, own: &[&str]) -> (Vec<&'static str>, usize) {
    let map = own.iter().fold(Vmap::new(3), |map, leaf| map.leaf(leaf, 0));
    let all = graph.vmap(&map).unwrap();
    let alone = one_by_one_ops(&all).iter().map(|o| o.op).collect();
    (alone, all.to_string().matches(&format!("= {op} ")).count())
}

fn graph(f: impl for<'g> FnOnce(&'g Builder) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("one");
    let y = f(&g).named("y");
    g.finish([y]).unwrap()
}

/// `op` is in `graph`, and once in the batch for each of `together`; for each of `apart` it runs for single members.
fn check(op: &'static str, graph: &GraphBuf, together: &[&[&str]], apart: &[&[&str]]) {
    for own in together {
        assert_eq!(batched(op, graph, own), (Vec::new(), 1), "{op}, {own:?}");
    }
    for own in apart {
        assert_eq!(batched(op, graph, own).0, [op], "{op}, {own:?}");
    }
}

fn f32s<'g>(g: &'g Builder, name: &str, dims: &[usize]) -> Var<'g> {
    g.input(name, dims, DType::F32)
}

#[test]
fn softmaxes_of_members_are_one() {
    check("softmax", &graph(|g| f32s(g, "x", &[2, 5]).softmax(1)), &[&["x"]], &[]);
    check("log_softmax", &graph(|g| f32s(g, "x", &[2, 5]).log_softmax(0)), &[&["x"]], &[]);
}

#[test]
fn attention_of_members_is_one() {
    let attention = graph(|g| {
        let [q, k, v] = ["q", "k", "v"].map(|name| f32s(g, name, &[2, 3, 4, 5]));
        q.attention(k, v, Attention::default())
    });
    check("attention", &attention, &[&["q"], &["k", "v"], &["q", "k", "v"]], &[]);
    // Masks and biases need not have an axis for members: such attention is batched in plain ops.
    for masked in [true, false] {
        let attention = graph(|g| {
            let x = f32s(g, "x", &[2, 3, 4, 5]);
            let options = match masked {
                true => Attention::default().padding(g.input("mask", [2, 4], DType::Bool)),
                false => Attention::default().bias(f32s(g, "bias", &[1, 3, 4, 4])),
            };
            x.attention(x, x, options)
        });
        assert_eq!(batched("attention", &attention, &["x"]), (Vec::new(), 0), "{masked}");
    }
}

#[test]
fn members_with_one_scale_are_rounded_at_once() {
    for axis in [None, Some(1)] {
        // Without an axis, scales of members are those of the batch's axis.
        let (both, scale): (&[&[&str]], &[&[&str]]) =
            if axis.is_none() { (&[&["x"], &["s"], &["x", "s"]], &[]) } else { (&[&["x"]], &[&["s"], &["x", "s"]]) };
        let dims: &[usize] = if axis.is_none() { &[] } else { &[5] };
        let quantize = graph(|g| f32s(g, "x", &[2, 5]).quantize(f32s(g, "s", dims), None, Quantize::i8().axis(axis)));
        check("quantize", &quantize, both, scale);
        let dequantize = graph(|g| g.input("x", [2, 5], DType::I8).dequantize(f32s(g, "s", dims), None, axis));
        check("dequantize", &dequantize, both, scale);
        let rounded = FakeQuantize::bits(4).axis(axis);
        let rounded = graph(|g| f32s(g, "x", &[2, 5]).fake_quantize(f32s(g, "s", dims), None, rounded));
        check("fake_quantize", &rounded, both, scale);
        let learned = |factor| {
            let options = Lsq::bits(4).factor(factor).axis(axis);
            graph(|g| f32s(g, "x", &[2, 5]).lsq(f32s(g, "s", dims), options))
        };
        check("lsq", &learned(LsqFactor::One), both, scale);
        // The factor of the paper counts the elements of one member.
        let counted: (&[&[&str]], &[&[&str]]) = if axis.is_none() { (both, &[]) } else { (&[], &[&["x"], &["s"]]) };
        check("lsq", &learned(LsqFactor::Paper), counted.0, counted.1);
        let wrt = GradOptions::wrt(&["x", "s"]);
        let g = Builder::new("learned");
        let y = f32s(&g, "x", &[2, 5]).lsq(f32s(&g, "s", dims), Lsq::bits(4).axis(axis));
        let adjoint = g.finish([y.square().sum(..).named("loss")]).unwrap().grad("loss", &wrt).unwrap();
        let (alone, count) = batched("lsq_backward", &adjoint, &["x"]);
        let one: &[&str] = if axis.is_none() { &[] } else { &["lsq_backward"] };
        assert_eq!((&alone[..], count), (one, 1), "{axis:?}");
    }
}

#[test]
fn products_of_codes_share_their_weights() {
    let product = graph(|g| {
        let (x, w) = (g.input("x", [4, 3], DType::U8), g.input("w", [3, 2], DType::I8));
        x.q_matmul(w, g.input("bias", [2], DType::I32), None, CodeProduct::to_f32())
    });
    check("q_matmul", &product, &[&["x"]], &[&["w"], &["x", "w"], &["bias"]]);
    let windows = graph(|g| {
        let (x, w) = (g.input("x", [2, 3, 5, 5], DType::U8), g.input("w", [4, 3, 3, 3], DType::I8));
        x.q_conv2d(w, g.input("bias", [4], DType::I32), None, Conv2d::default(), CodeProduct::to_f32())
    });
    check("q_conv2d", &windows, &[&["x"]], &[&["w"], &["x", "w"], &["bias"]]);
    let coded = graph(|g| {
        let w = CodedWeights::new(WeightScheme::Int8, 6, 4, g.input("w", [6, 3], DType::I8), f32s(g, "s", &[2, 3]));
        f32s(g, "x", &[5, 6]).dequant_matmul(w)
    });
    check("dequant_matmul", &coded, &[&["x"]], &[&["w"], &["s"], &["x", "s"]]);
}

#[cfg(feature = "gguf")]
#[test]
fn products_with_blocks_are_one_for_all_members() {
    let t = arenagrad::graph::quant::BlockType::Q4_0;
    let numbers = graph(|g| g.input("w", [t.bytes_of(64).unwrap()], DType::U8).gguf_dequant(t, [2, 32]));
    check("gguf_dequant", &numbers, &[&["w"]], &[]);
    let product =
        graph(|g| f32s(g, "x", &[3, 64]).gguf_matmul(g.input("w", [t.bytes_of(5 * 64).unwrap()], DType::U8), t, 5));
    check("gguf_matmul", &product, &[&["x"]], &[&["w"], &["x", "w"]]);
    let grouped = |by_size: bool| {
        graph(|g| {
            let (x, w) = (f32s(g, "x", &[4, 32]), g.input("w", [t.bytes_of(3 * 5 * 32).unwrap()], DType::U8));
            let at = g.input("at", [if by_size { 3 } else { 4 }], DType::I32);
            if by_size {
                x.sorted_gguf_grouped_matmul(w, t, at, [3, 5])
            } else {
                x.gguf_grouped_matmul(w, t, at, [3, 5])
            }
        })
    };
    let every: &[&[&str]] = &[&["x"], &["at"], &["w"], &["x", "at", "w"]];
    check("gguf_grouped_matmul", &grouped(false), every, &[]);
    check("gguf_grouped_matmul", &grouped(true), &[], every);
}
