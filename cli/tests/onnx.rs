//! The commands on ONNX models.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use arenagrad::prelude::*;
use arenagrad::train::data::{encode_npy, parse_npy};
use arenagrad_onnx::write;
use common::{Scratch, fails, good};

/// A model of images of the digits, with its weights, and its logits for images of ones.
fn model(s: &Scratch, batch: usize) -> (String, Vec<f32>) {
    let g = Builder::new("net");
    let x = g.input("x", [batch, 1, 8, 8], DType::F32);
    let h = nn::conv2d(&g, "conv", x, 4, [3, 3], Conv2d::default()).relu();
    let graph = g.finish([nn::linear(&g, "fc", h.reshape([batch, usize::MAX]), 10).named("y")]).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.init(1).unwrap();
    p.values_mut::<f32>("x").unwrap().fill(1.0);
    p.step().unwrap();
    let logits = p.values::<f32>("y").unwrap().to_vec();
    (s.file(&format!("net{batch}.onnx"), write(&graph, &p).unwrap()), logits)
}

#[test]
fn models_are_printed_planned_and_run_with_their_weights() {
    let s = Scratch::new();
    let (path, logits) = model(&s, 2);
    assert!(good(&["print", &path]).contains("= conv2d %x, %conv.weight"));
    assert!(good(&["plan", &path]).contains("fc.weight"));
    let ones: Vec<u8> = [1.0f32; 128].iter().flat_map(|x| x.to_le_bytes()).collect();
    let x = s.file("x.npy", encode_npy(DType::F32, &[2, 1, 8, 8], &ones).unwrap());
    good(&["run", &path, "--in", &format!("x={x}"), "--out", &s.path("out")]);
    let y = parse_npy(&std::fs::read(s.path("out/y.npy")).unwrap()).unwrap();
    let near = |(a, b): (&[u8], &f32)| (f32::from_le_bytes(a.try_into().unwrap()) - b).abs() < 1e-5;
    assert!(y.bytes.chunks(4).zip(&logits).all(near));
}

#[test]
fn models_are_trained_on() {
    let s = Scratch::new();
    let train =
        |path: &str| ["train", "digits", "--steps", "3", "--out", &s.path("run"), "--onnx", path].map(String::from);
    good(&train(&model(&s, 64).0).each_ref().map(String::as_str));
    let weights = std::fs::read(s.path("run/weights.safetensors")).unwrap();
    assert!(weights.windows(11).any(|part| part == b"conv.weight"));
    let small = model(&s, 2).0;
    fails(2, &train(&small).each_ref().map(String::as_str), &["net2.onnx", "64 images of 8x8 pixels are needed"]);
    fails(2, &train(&s.path("gone.onnx")).each_ref().map(String::as_str), &["gone.onnx"]);
    fails(2, &["print", &s.file("broken.onnx", "no model")], &["broken.onnx", "this is no ONNX model"]);
}
