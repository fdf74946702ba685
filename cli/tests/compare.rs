//! The command `compare`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Scratch, fails, good, run};

const GRAPH: &str = "\
graph @g {
  %x = input : f32[4,3]
  %w = param init=uniform scale=0.5 frozen=false : f32[2,3]
  %0 = matmul %x, %w ta=false tb=true : f32[4,2]
  %1 = tanh %0 : f32[4,2]
  %2 = reduce_sum %1 axes=[0,1] keep=false : f32[]
  update %w <- %w
  return loss=%2, h=%1
}
";

#[test]
fn a_graph_is_equal_to_itself_and_to_what_passes_make_of_it() {
    let s = Scratch::new();
    let g = s.file("g.ir", GRAPH);
    let text = good(&["compare", &g, &g, "--seed", "3", "--seeds", "2", "--threads", "2"]);
    assert!(text.contains("seed 3") && text.contains("seed 4") && text.contains("no difference"), "{text}");
    let opt = s.file("opt.ir", good(&["opt", &g]));
    assert!(good(&["compare", &g, &opt]).contains("equal    \"loss\": 1 elements"));
    // Another order of the sum: other bits, within the bound.
    let turned = GRAPH.replace("reduce_sum %1 axes=[0,1]", "reduce_sum %3 axes=[0,1]");
    let turned = turned.replace("  %2 =", "  %3 = flip %1 axes=[0,1] : f32[4,2]\n  %2 =");
    good(&["compare", &g, &s.file("turned.ir", turned), "--seeds", "5"]);
}

#[test]
fn graphs_that_differ_end_with_exit_code_1() {
    let s = Scratch::new();
    let (g, other) = (s.file("g.ir", GRAPH), s.file("other.ir", GRAPH.replace("tanh %0", "erf %0")));
    fails(1, &["compare", &g, &other], &["g.ir", "other.ir", "2 outputs differ"]);
    let out = run(&["compare", &g, &other, "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((out.status.code(), &json["equal"]), (Some(1), &serde_json::json!(false)));
    let worst = &json["outputs"][1]["worst"];
    let apart = (worst["left"].as_f64().unwrap() - worst["right"].as_f64().unwrap()).abs();
    assert!(apart > worst["bound"].as_f64().unwrap() && json["outputs"][1]["elements"] == 8, "{json}");
}

#[test]
fn an_output_may_have_the_name_of_a_leaf_that_changes() {
    let s = Scratch::new();
    let g = s.file("g.ir", GRAPH.replace("loss=%2, h=%1", "w=%2"));
    assert!(good(&["compare", &g, &g]).matches("equal    \"w\"").count() == 2);
}

#[test]
fn nothing_that_was_compared_is_not_equal() {
    let s = Scratch::new();
    let text = "graph @g {\n  %x = input : i32[2]\n  %z = full value=0 : i32[2]\n  \
                %y = div %x, %z : i32[2]\n  return y=%y\n}\n";
    let g = s.file("g.ir", text);
    fails(2, &["compare", &g, &g, "--seeds", "2"], &["no element was compared"]);
    let large = s.file("large.ir", "graph @g {\n  %x = input : f32[100000000000]\n  return x=%x\n}\n");
    fails(2, &["compare", &large, &large], &["more work than the oracle may do"]);
}

#[test]
fn graphs_of_other_signatures_are_refused_with_both_types_and_places() {
    let s = Scratch::new();
    let g = s.file("g.ir", GRAPH);
    let leaf = s.file("leaf.ir", GRAPH.replace("4,3", "5,3").replace("4,2", "5,2"));
    let parts = ["leaf \"x\" is f32[4,3] at", "g.ir:2:3, and f32[5,3] at", "leaf.ir:2:3", "output \"h\" is f32[4,2]"];
    fails(2, &["compare", &g, &leaf], &parts);
    let less = s.file("less.ir", GRAPH.replace(", h=%1", ""));
    fails(2, &["compare", &g, &less], &["output \"h\" is f32[4,2] at", "missing in", "less.ir"]);
    let fixed = s.file("fixed.ir", GRAPH.replace("  update %w <- %w\n", ""));
    fails(2, &["compare", &g, &fixed], &["update of \"w\"", "missing in"]);
    fails(2, &["compare", &g, &g, "--seeds", "0"], &["--seeds is 0"]);
    fails(2, &["compare", &g, &s.path("none.ir")], &["none.ir"]);
}
