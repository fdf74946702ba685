//! What passes count, what they leave alone, and what they say about graphs that they do not take.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::{Builder, DType, GraphBuf};
use arenagrad::tools::ir::text::parse;
use arenagrad::tools::passes::pipeline::run_pipeline;
use arenagrad::tools::passes::signature::loss_by_name;
use arenagrad::tools::passes::{FusionPolicy, expand_blocks};

/// What pass `name` counts in `text`.
fn counts(text: &str, name: &str) -> Vec<(&'static str, usize)> {
    let (_, traces) = run_pipeline(&parse(text).unwrap(), &[name], true).unwrap();
    traces[0].hits.iter().map(|(&rule, &n)| (rule, n)).collect()
}

fn has(g: &GraphBuf, op: &str) -> bool {
    let v = g.view();
    v.op.iter().any(|o| v.ops[o.0 as usize].name == op)
}

#[test]
fn rules_are_counted_over_all_rounds() {
    let signs = "graph @signs {
      %x = input : f32[2]
      %1 = full value=1 : f32[2]
      %2 = mul %x, %1
      %3 = mul %2, %1
      %4 = neg %3
      %5 = neg %4
      return y=%5
    }";
    assert_eq!(counts(signs, "simplify"), [("mul-one", 2), ("neg-neg", 1)]);
    assert!(counts(signs, "fuse").iter().all(|c| c.1 > 0));
    let leaf = "graph @leaf {
      %x = input : f32[2]
      return y=%x
    }";
    assert!(counts(leaf, "fuse").is_empty() && counts(leaf, "simplify").is_empty());
}

/// A loop that is read whole is none that becomes smaller.
#[test]
fn loops_and_choices_that_become_smaller_are_counted() {
    let text = "region @step(%a: f32[2], %x: f32[2]) {
      %1 = add %a, %x
      yield %1, %1
    }
    region @sum(%a: f32[2], %b: f32[2]) {
      %1 = add %a, %b
      yield %1, %a
    }
    region @difference(%a: f32[2], %b: f32[2]) {
      %1 = sub %a, %b
      yield %1, %b
    }
    graph @trim {
      %h = input : f32[2]
      %xs = input : f32[3,2]
      %p = input : bool[]
      %0, %1 = scan %h, %xs body=@step carries=1 consts=0 length=3 reverse=false
      %2, %3 = scan %h, %xs body=@step carries=1 consts=0 length=3 reverse=true
      %4, %5 = if %p, %h, %0 then=@sum otherwise=@difference
      %6, %7 = if %p, %0, %2 then=@sum otherwise=@difference
      return a=%2, b=%3, c=%4, d=%6, e=%7
    }";
    assert_eq!(counts(text, "trim"), [("choice-trim", 1), ("loop-trim", 1)]);
}

/// Of 7 nodes, 3 and 2 become one each.
#[test]
fn joined_nodes_are_counted() {
    let text = "region @body(%c: f32[4,8], %w: f32[8,8], %b: f32[8]) {
      %1 = tanh %c
      %2 = matmul %1, %w ta=false tb=false
      %3 = broadcast %b shape=[4,8]
      %4 = add %2, %3
      %5 = sigmoid %c
      %6 = mul %1, %5
      %7 = add %4, %6
      yield %7, %6
    }
    graph @join {
      %h = input : f32[4,8]
      %w = input : f32[8,8]
      %b = input : f32[8]
      %last, %all = scan %h, %w, %b body=@body carries=1 consts=2 length=5 reverse=false
      return y=%last, all=%all
    }";
    assert_eq!(counts(text, "join"), [("joined-maps", 3)]);
}

/// A pass that has nothing to do still drops what the pass before it left behind.
#[test]
fn single_ops_behind_a_region_are_dropped_by_the_next_pass() {
    let g = Builder::new("region");
    let graph = g.finish([g.input("x", [8], DType::F32).exp().sin()]).unwrap();
    let [fused, joined] = [&["fuse"][..], &["fuse", "join"]].map(|names| run_pipeline(&graph, names, true).unwrap().0);
    assert!([&fused, &joined].iter().all(|g| has(g, "map")));
    let nodes = joined.view().region_nodes(joined.view().entry()).len();
    assert_eq!(nodes, 2);
}

/// After patterns there are fused ops; a block is none that lowering takes.
#[test]
fn a_graph_that_is_not_ready_for_a_pass_is_an_error_that_names_it() {
    let text = "graph @block {
      %x = input : f32[2,3]
      %w = input : f32[3,4]
      %y = linear %x, %w act=none
      return y=%y
    }";
    let e = run_pipeline(&parse(text).unwrap(), &["simplify", "patterns"], true).unwrap_err().to_string();
    assert!(e.contains("after pass patterns: "), "{e}");
    assert!(run_pipeline(&parse(text).unwrap(), &["simplify", "blocks", "patterns"], true).is_ok());
}

/// Larger constants would trade memory for time. A fill is one number, however many elements it has.
#[test]
fn constants_of_at_most_4096_elements_are_folded() {
    let folded = |n: usize, fill: bool| {
        let g = Builder::new("constants");
        let c = if fill { g.full(1.5, [n], DType::F32) } else { g.constant(&vec![1.5; n], [n]) };
        let graph = g.finish([c + c]).unwrap();
        !has(&run_pipeline(&graph, &["fold"], true).unwrap().0, "add")
    };
    assert!(folded(4096, false) && !folded(4097, false) && folded(5000, true));
}

/// A region with two values, the first of which is called `c`, and two values called `h`.
const NAMED: &str = "region @body(%c: f32[2]) {
  %1 = exp %c
  yield %1
}
graph @named {
  %x = input : f32[2]
  %1\"h\" = exp %x
  %2\"h\" = sin %x
  %p = cos %x
  %q = tan %p
  %5 = scan %q body=@body carries=1 consts=0 length=2 reverse=false
  %6 = add %1, %2
  %7 = add %5, %6
  return y=%7
}";

#[test]
fn values_are_kept_by_any_of_the_patterns() {
    let graph = parse(NAMED).unwrap();
    let kept = graph.keep(&["q", "p"]).unwrap();
    let v = kept.view();
    assert_eq!(v.output_names.iter().map(|&s| v.str(s)).collect::<Vec<_>>(), ["y", "p", "q"]);
    // Numbers of values count in the graph, as in its text.
    let e = graph.keep(&["h"]).unwrap_err().to_string();
    assert!(e.contains("keep: two values are called \"h\", %1 and %2; name them apart"), "{e}");
    let e = graph.keep(&["p", "c"]).unwrap_err().to_string();
    assert!(e.contains("keep: \"c\" matches only values inside loops or calls; yield them"), "{e}");
    let e = graph.keep(&["r"]).unwrap_err().to_string();
    assert!(e.contains("keep: \"r\" matches no named value; there are h, h, p, q"), "{e}");
}

#[test]
fn a_loss_is_a_real_scalar() {
    let text = "graph @losses {
      %x = input : f32[2]
      %n = input : i32[]
      %re = input : f32[]
      %v = exp %x
      %k = add %n, %n
      %c = complex %re, %re
      %s = reduce_sum %v axes=[0] keep=false
      return v=%v, k=%k, c=%c, s=%s
    }";
    let graph = parse(text).unwrap();
    let of = |name: &str| loss_by_name(graph.view(), name).map_err(|e| e.message);
    assert!(of("s").is_ok());
    let what = "not a scalar f32[] or f64[]";
    let reduce = format!("the loss \"v\", made by exp, is f32[2], {what}; reduce it, as by its mean, or see vjp");
    assert_eq!(of("v"), Err(reduce));
    assert_eq!(of("k"), Err(format!("the loss \"k\", made by add, is i32[], {what}; cast what it is made of")));
    let real = "a loss is real: take its real part, or |z|²";
    assert_eq!(of("c"), Err(format!("the loss \"c\", made by complex, is c64[], {what}; {real}")));
}

/// For derivatives, a graph with a block is written in primitive ops as a whole. One without stays as it is.
#[test]
fn fused_ops_stay_where_there_is_no_block() {
    let text = |block: &str| {
        format!(
            "graph @blocks {{
              %x = input : f32[2,6]
              %w = input : f32[3,4]
              %y = swiglu %x gate_first=true to=f32
              %z = {block}
              return y=%y, z=%z
            }}"
        )
    };
    let of = |block: &str, policy: FusionPolicy| {
        let done = expand_blocks(&parse(&text(block)).unwrap(), policy).unwrap();
        ["swiglu", "linear"].map(|op| has(&done, op))
    };
    for policy in [FusionPolicy::Direct, FusionPolicy::Fusable] {
        assert_eq!(of("exp %y", policy), [true, false]);
    }
    assert_eq!(of("linear %y, %w act=none", FusionPolicy::Direct), [true, false]);
    assert_eq!(of("linear %y, %w act=none", FusionPolicy::Fusable), [false, false]);
}
