//! Passes in any order: what one pass leaves, any other takes, or refuses by name.

#![allow(clippy::unwrap_used)]

use arenagrad::error::Kind;
use arenagrad::tools::fuzz::{random_graph, seeded_draws};
use arenagrad::tools::ir::text;
use arenagrad::tools::passes::pipeline::{EXTRA, PIPELINE, run_pipeline};

/// Two loops over one body, with one region of fused ops in it. Of the second loop one result is read.
const SHARED: &str = "region @body(%h: f32[4], %k: f32[4]) {
  %1 = exp %h : f32[4]
  %2 = sin %1 : f32[4]
  %3 = cos %k : f32[4]
  %4 = tanh %3 : f32[4]
  yield %2, %4
}
graph @g {
  %x = input : f32[4]
  %a, %b = scan %x, %x body=@body carries=2 consts=0 length=3 reverse=false : f32[4], f32[4]
  %c, %d = scan %b, %a body=@body carries=2 consts=0 length=3 reverse=false : f32[4], f32[4]
  return a=%a, c=%c
}
";

#[test]
fn loops_of_one_body_are_trimmed_apart_after_fusion() {
    let (g, _) = run_pipeline(&text::parse(SHARED).unwrap(), &["fuse", "trim"], true).unwrap();
    let text = g.to_string();
    assert_eq!(text.matches(" = map ").count(), 3, "{text}");
    assert!(text.contains("carries=1") && text.contains("carries=2"), "{text}");
}

/// An op of a later or an earlier stage is the only reason to refuse an order.
#[test]
fn any_two_passes_run_after_one_another() {
    let mut draw = seeded_draws(41);
    let names: Vec<&str> = PIPELINE.iter().chain(EXTRA).map(|p| p.name).collect();
    for i in 0..6 {
        let g = random_graph(24, &mut draw).unwrap();
        for first in &names {
            for second in &names {
                if let Err(e) = run_pipeline(&g, &[first, second], true) {
                    assert!(matches!(e.kind, Kind::Stage | Kind::Derivative), "{i}: {first},{second}: {e}\n{g}");
                }
            }
        }
    }
}

/// After patterns there are fused ops; a block is none that lowering takes.
#[test]
fn a_graph_that_is_not_ready_for_a_pass_is_an_error_that_names_it() {
    let source = "graph @block {
      %x = input : f32[2,3]
      %w = input : f32[3,4]
      %y = linear %x, %w act=none
      return y=%y
    }";
    let e = run_pipeline(&text::parse(source).unwrap(), &["simplify", "patterns"], true).unwrap_err().to_string();
    assert!(e.contains("after pass patterns: "), "{e}");
    assert!(run_pipeline(&text::parse(source).unwrap(), &["simplify", "blocks", "patterns"], true).is_ok());
}
