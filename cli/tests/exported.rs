//! The command `export`, and the commands that take what it writes.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use arenagrad::train::data::{encode_npy, read_npy};
use arenagrad::{graph::DType, session::Program};
use common::{Scratch, fails, good};

/// A product of a size that each CPU with bf16 computes in it.
const GRAPH: &str = "\
graph @g {
  %x = input : f32[64,64]
  %w = param init=uniform scale=0.5 frozen=false : f32[64,64]
  %0 = matmul %x, %w ta=false tb=true : f32[64,64]
  %1 = tanh %0 : f32[64,64]
  return h=%1
}
";

#[test]
fn an_exported_program_runs_and_shows_its_plan() {
    let s = Scratch::new();
    let (g, agp, again) = (s.file("g.ir", GRAPH), s.path("g.agp"), s.path("again.agp"));
    let told = good(&["export", &g, "-o", &agp, "--seed", "3"]);
    assert!(told.starts_with(&format!("{agp}: ")) && told.contains("threads 1"), "{told}");
    let values: Vec<u8> = (0..4096u16).flat_map(|i| (f32::from(i % 15) / 7.0 - 1.0).to_le_bytes()).collect();
    let x = format!("x={}", s.file("x.npy", encode_npy(DType::F32, &[64, 64], &values).unwrap()));
    let h = |file: &str, more: &[&str]| {
        let out = s.path("out");
        good(&[&["run", file, "--out", &out, "--in", &x], more].concat());
        read_npy(format!("{out}/h.npy")).unwrap().bytes
    };
    let want = h(&g, &["--seed", "3"]);
    assert_eq!(h(&agp, &[]), want);
    good(&["export", &agp, "-o", &again, "--threads", "2", "--precision", "bf16"]);
    assert_eq!(Program::open(&again).unwrap().persistent().count(), 1);
    assert_ne!(h(&again, &[]), want);
    let json = |file: &str| serde_json::from_str::<serde_json::Value>(&good(&["plan", file, "--json"])).unwrap();
    assert_eq!(json(&agp)["buffers"].as_array().unwrap().len(), json(&g)["buffers"].as_array().unwrap().len());
    assert_eq!(json(&agp)["arena_bytes"], json(&g)["arena_bytes"]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let s = Scratch::new();
    let (g, agp) = (s.file("g.ir", GRAPH), s.path("g.agp"));
    good(&["export", &g, "-o", &agp]);
    fails(2, &["plan", &agp, "--threads", "2"], &["g.agp", "export it again"]);
    fails(2, &["run", &agp, "--out", &s.path("out"), "--threads", "2"], &["g.agp", "export it again"]);
    fails(2, &["plan", &agp, "--size", "batch=3"], &["g.agp", "no symbols"]);
    fails(2, &["run", &agp, "--out", &s.path("out"), "--seed", "2"], &["g.agp", "--seed"]);
    fails(2, &["export", &agp, "-o", &s.path("new.agp"), "--seed", "0"], &["g.agp", "--seed"]);
    fails(2, &["export", &agp, "--c", &s.path("g.c")], &["g.agp", "--c takes a graph's text"]);
    fails(2, &["print", &agp], &["g.agp", "`plan`, `run` and `export`"]);
    fails(2, &["export", &g, "-o", &agp, "--prefix", "a"], &["--prefix", "--weights"]);
    fails(2, &["export", &g, "-o", &s.path("none/g.agp")], &["none/g.agp"]);
    let cut = s.file("cut.agp", &std::fs::read(&agp).unwrap()[..300]);
    for command in [&["plan", &cut][..], &["run", &cut, "--out", &s.path("out")], &["export", &cut, "-o", &agp]] {
        fails(2, command, &["cut.agp", "300 bytes"]);
    }
}
