//! Whether the C makes the engine's steps, bit for bit, and what is refused.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use arenagrad::prelude::*;
use arenagrad_export_c::{CFiles, ExportError, export_c};
use common::{Corpus, graphs};
use std::path::Path;
use std::process::Command;

/// Compares what the C program wrote with what the engine computed.
fn compare(corpus: &Corpus, got: &[u8]) {
    let mut at = 0;
    for (what, bytes) in &corpus.expected {
        let own = got.get(at..at + bytes.len()).unwrap_or_else(|| panic!("{what}: the C program wrote too little"));
        if let Some(i) = own.iter().zip(bytes).position(|(a, b)| a != b) {
            let from = i / 4 * 4;
            panic!(
                "{what}: byte {i} differs, {:?} instead of {:?}",
                &own[from..(from + 8).min(own.len())],
                &bytes[from..(from + 8).min(own.len())]
            );
        }
        at += bytes.len();
    }
    assert_eq!(at, got.len(), "the C program wrote too much");
}

/// Compiles all files of the folder in one run, and runs the program.
fn run(dir: &Path, corpus: &Corpus, flags: &[&str]) {
    let program = dir.join("program");
    let sources = corpus.files.iter().map(|(name, _)| name.as_str()).filter(|name| name.ends_with(".c"));
    let strict = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"];
    let mut cc = Command::new("cc");
    cc.current_dir(dir).args(strict).args(flags).args(sources).arg("main.c").arg("-o").arg(&program).arg("-lm");
    let done = cc.output().expect("a C compiler is needed: cc");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let out = dir.join("out.bin");
    let done = Command::new(&program).current_dir(dir).arg("inputs.bin").arg(&out).status().unwrap();
    assert!(done.success(), "{done}");
    compare(corpus, &std::fs::read(&out).unwrap());
}

/// Checks the cases of the corpus in a folder called `name`.
fn check(name: &str, mut corpus: Corpus) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    corpus.write(&dir);
    run(&dir, &corpus, &["-O0"]);
    run(&dir, &corpus, &["-O2"]);
}

#[test]
fn networks_train_to_the_same_bits() {
    check("networks", Corpus::of(&graphs::networks()));
}

#[test]
fn ops_have_the_same_bits() {
    check("ops", Corpus::of(&graphs::ops()));
}

#[test]
fn drawn_graphs_have_the_same_bits() {
    let mut corpus = Corpus::default();
    graphs::add_drawn(&mut corpus, 20);
    check("drawn", corpus);
}

/// The C of a graph that is not trained.
fn c_of(outs: &dyn for<'g> Fn(&'g Builder) -> Vec<Var<'g>>) -> Result<CFiles, ExportError> {
    let g = Builder::new("g");
    let outs = outs(&g);
    let graph = g.finish(outs).unwrap();
    let mut start = Session::new().threads(1).compile(&graph).unwrap();
    start.init(0).unwrap();
    export_c(&graph, &start, "7 net")
}

#[test]
fn what_c_has_not_is_named_with_its_place_all_at_once() {
    let e = c_of(&|g| {
        let x = g.input("x", [2, 64, 9, 9], DType::F32);
        let conv = nn::conv2d(g, "conv", x, 64, 3, Conv2d::default());
        let sorted = g.input("long", [40], DType::F32).arg_sort(0, false);
        let half = g.input("half", [3], DType::F32).cast(DType::F16);
        vec![conv.named("conv"), sorted.named("sorted"), half.named("half"), x.erfc().named("erfc")]
    });
    let Err(ExportError::Missing(all)) = e else { panic!("{e:?}") };
    let ops: Vec<&str> = all.iter().map(|m| m.op).collect();
    assert_eq!(ops.len(), 4, "{all:?}");
    assert!(ops.iter().any(|op| op.starts_with("conv2d")) && ops.contains(&"arg_sort"), "{ops:?}");
    for m in &all {
        let text = m.to_string();
        assert!(text.contains("export_c/tests/bits.rs:") && text.contains(m.op) && m.why.starts_with('C'), "{text}");
    }
}

#[test]
fn names_are_those_of_c_and_do_not_meet() {
    let c = c_of(&|g| {
        let (a, b) = (g.input("a.b", [2], DType::F32), g.input("a b", [2], DType::F32));
        vec![(a + b).named("a_b_len"), (a * b).named("a b")]
    });
    let CFiles { header, source, .. } = c.unwrap();
    for name in ["_7_net_in_a_b ", "_7_net_in_a_b_2 ", "_7_net_out_a_b_len ", "_7_net_out_a_b_2 "] {
        assert!(header.contains(&format!("#define {name}")), "{name}: {header}");
    }
    assert!(source.contains("#include \"_7_net.h\"") && source.contains("int _7_net_step(void)"));
}

#[test]
fn a_bad_label_stops_the_step_and_changes_nothing() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("labels");
    let case = graphs::networks().swap_remove(0);
    let mut start = Session::new().threads(1).compile(&case.graph).unwrap();
    start.init(0).unwrap();
    let c = export_c(&case.graph, &start, "net").unwrap();
    std::fs::create_dir_all(&dir).unwrap();
    let main = "#include \"net.h\"\n#include <string.h>\nint main(void)\n{\n    static float old[net_param_fc1_weight_len];\n    \
        net_init();\n    memcpy(old, net_param_fc1_weight, sizeof old);\n    net_in_labels[3] = 10;\n    \
        if (net_step() != 1 || memcmp(old, net_param_fc1_weight, sizeof old) != 0)\n        return 1;\n    \
        net_in_labels[3] = 9;\n    return net_step();\n}\n";
    for (name, text) in [("net.h", c.header.as_str()), ("net.c", &c.source), ("main.c", main)] {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let program = dir.join("program");
    let cc = Command::new("cc")
        .current_dir(&dir)
        .args(["-std=c99", "net.c", "main.c", "-o"])
        .arg(&program)
        .arg("-lm")
        .status();
    assert!(cc.unwrap().success() && Command::new(&program).status().unwrap().success());
}
