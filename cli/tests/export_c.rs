//! `export --c`: the files that it writes, and what it refuses.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use arenagrad::prelude::*;
use common::{Scratch, fails, good};
use std::process::Command;

/// A training step of a small net, as text.
fn step() -> String {
    let g = Builder::new("line");
    let (x, y) = (g.input("x", [8, 3], DType::F32), g.input("y", [8, 2], DType::F32));
    let net = g.finish([nn::linear(&g, "fc", x, 2).mse(y).named("loss")]).unwrap();
    train(&net, "loss", optim::Sgd::new(0.1)).unwrap().to_string()
}

#[test]
fn a_step_becomes_c_that_compiles() {
    let s = Scratch::new();
    let (graph, c) = (s.file("step.ir", step()), s.path("my-step.c"));
    let text = good(&["export", &graph, "--c", &c, "--seed", "1"]);
    assert!(text.contains("my-step.c and ") && text.contains("my_step.h: ") && text.contains("arena "), "{text}");
    let cc = Command::new("cc").current_dir(&s.0).args(["-std=c99", "-Wall", "-Werror", "-c", "my-step.c"]).status();
    assert!(cc.unwrap().success());
    let header = std::fs::read_to_string(s.path("my_step.h")).unwrap();
    for name in ["my_step_in_x ", "my_step_out_loss ", "my_step_param_fc_weight ", "my_step_in_lr_len 1"] {
        assert!(header.contains(&format!("#define {name}")), "{name}: {header}");
    }
    // Another seed, other start values; the same seed, the same bytes.
    let source = || std::fs::read(&c).unwrap();
    let first = source();
    good(&["export", &graph, "--c", &c, "--seed", "1"]);
    assert_eq!(source(), first);
    good(&["export", &graph, "--c", &c, "--name", "line"]);
    assert_ne!(source(), first);
    assert!(s.0.join("line.h").exists());
}

#[test]
fn what_cannot_be_written_leaves_no_file() {
    let s = Scratch::new();
    let g = Builder::new("g");
    let x = g.input("x", [40], DType::F32);
    let graph = g.finish([x.arg_sort(0, false).named("order"), x.erfc().named("tail")]).unwrap();
    let (graph, c) = (s.file("g.ir", graph.to_string()), s.path("g.c"));
    fails(2, &["export", &graph, "--c", &c], &[&graph, "not all ops can become C: ", "arg_sort (", "erfc ("]);
    assert!(!s.0.join("g.c").exists() && !s.0.join("g.h").exists());
    fails(2, &["export", &graph, "--c", &s.path("g.txt")], &["must end in .c"]);
    let step = s.file("step.ir", step());
    let why = "--prefix and --transpose need --weights";
    fails(2, &["export", &step, "--c", &c, "--prefix", "a"], &[why]);
}
