//! What the graphs of derivatives hold beside their numbers: places, no needless nodes, updates; and what is refused.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::error::{Kind, Location};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Loop, Missing};
use arenagrad::session::Session;
use arenagrad::tools::arena::Node;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::ir::text::{parse, print};
use arenagrad::tools::passes::ad::prepare::{decompose_fully, flatten_regions, keep_outputs};
use arenagrad::tools::passes::pipeline::run_pipeline;
use arenagrad::tools::passes::signature::loss_by_name;

const F64: DType = DType::F64;

/// The output called `output` of `g`, for these numbers in all elements of the leaves.
pub fn values(g: &GraphBuf, leaves: &[(&str, f64)], output: &str) -> Vec<f64> {
    let mut p = Session::new().compile(g).unwrap();
    leaves.iter().for_each(|(name, x)| p.values_mut::<f64>(name).unwrap().fill(*x));
    p.step().unwrap();
    p.values::<f64>(output).unwrap().to_vec()
}

/// The gradient of `loss`, with zeros for leaves without one.
pub fn gradient(g: &GraphBuf, wrt: &[&str]) -> GraphBuf {
    g.grad("loss", &GradOptions::wrt(wrt).missing(Missing::Zero)).unwrap()
}

/// The lines of the text that the nodes of an op are of, without repetition.
pub fn lines(g: &GraphBuf, op: &str) -> Vec<Option<u32>> {
    let v = g.view();
    let line = |n: Node| match v.location(n) {
        Location::Text(line, _) => Some(line),
        _ => None,
    };
    let nodes = (0..v.nodes()).map(Node::new).filter(|&n| v.def_of(n).name == op);
    let mut all: Vec<Option<u32>> = nodes.map(line).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// A loop and a choice, each op in a line of its own.
pub const PLACES: &str = "region @body(%c: f64[3], %w: f64[3]) {
  %p = exp %c
  %d = sub %p, %w
  %n = sin %d
  yield %n
}
region @then(%t: f64[3]) {
  %u = exp %t
  %v = sin %u
  yield %v
}
region @otherwise(%t: f64[3]) {
  yield %t
}
graph @places {
  %x = input : f64[3]
  %z = input : f64[3]
  %q = input : f64[3]
  %on = input : bool[]
  %a = cos %x
  %s = scan %a, %z body=@body carries=1 consts=1 length=2 reverse=false
  %k = if %on, %s then=@then otherwise=@otherwise
  %loss = reduce_sum %k axes=[0] keep=false
  return loss=%loss, q=%q
}
";

#[test]
fn nodes_of_derivatives_have_the_places_of_their_ops() {
    let graph = parse(PLACES).unwrap();
    let reverse = gradient(&graph, &["x", "q"]);
    let forward = graph.jvp(&["loss", "q"], &["x"]).unwrap();
    for g in [&reverse, &forward] {
        for (op, want) in [
            ("exp", &[2, 8][..]),
            ("sub", &[3]),
            ("sin", &[4, 9, 20]),
            ("cos", &[4, 9, 20]),
            ("mul", &[2, 4, 8, 9, 20]),
            ("scan", &[21]),
            ("if", &[22]),
        ] {
            let want: Vec<Option<u32>> = want.iter().map(|&line| Some(line)).collect();
            assert_eq!(lines(g, op), want, "{op}\n{}", print(g.view()));
        }
    }
    assert_eq!(lines(&forward, "reduce_sum"), [Some(23)]);
    // Seeds and the zeros of what has no derivative have no place; the zero tangent of %w has that of the difference.
    assert_eq!(lines(&reverse, "full"), [None]);
    assert_eq!(lines(&forward, "full"), [None, Some(3)]);
}

#[test]
fn a_gradient_writes_nothing_for_operands_that_need_none() {
    let g = Builder::new("product");
    let (x, w) = (g.input("x", [3], F64), g.input("w", [3], F64));
    let graph = g.finish([(x * w).sum(..).named("loss")]).unwrap();
    assert_eq!(print(gradient(&graph, &["x"]).view()).matches("= mul ").count(), 2);
    assert_eq!(print(gradient(&graph, &["x", "w"]).view()).matches("= mul ").count(), 3);
}

/// A rule that gives an argument nothing yields zeros, which are not added, before or behind another cotangent.
#[test]
fn zeros_of_a_rule_are_not_added() {
    for rule_last in [true, false] {
        let g = Builder::new("zeros");
        let (x, w) = (g.input("x", [3], F64), g.input("w", [3], F64));
        let product = || {
            let f = g.custom_fn("product", &[x, w], |a| vec![a[0] * a[1]]);
            f.vjp(|_, a, _, d| vec![Some(d[0] * a[1]), None]).call()[0].sum(..)
        };
        let (a, b) = match rule_last {
            true => (w.sin().sum(..), product()),
            false => (product(), w.sin().sum(..)),
        };
        let graph = g.finish([(a + b).named("loss")]).unwrap();
        let made = gradient(&graph, &["w"]);
        assert_eq!(print(made.view()).matches("= add ").count(), 1, "{made}");
        assert_eq!(values(&made, &[("x", 2.0), ("w", 0.0)], "grad.w"), [1.0; 3]);
    }
    // A cotangent of ones is none of zeros.
    let g = Builder::new("ones");
    let (x, z) = (g.input("x", [], F64), g.input("z", [], F64));
    let graph = g.finish([(x + x * z).named("loss")]).unwrap();
    assert_eq!(values(&gradient(&graph, &["x"]), &[("x", 3.0), ("z", 5.0)], "grad.x"), [6.0]);
}

#[test]
fn slices_that_leave_gaps_have_zeros_between_them() {
    let g = Builder::new("gaps");
    let x = g.input("x", [9], F64);
    let (a, b) = ((x.narrow(0, 1, 3) * 2.0).sum(..), (x.narrow(0, 4, 2) * 3.0).sum(..));
    let graph = g.finish([(a + b).named("loss")]).unwrap();
    let grad = values(&gradient(&graph, &["x"]), &[("x", 1.0)], "grad.x");
    assert_eq!(grad, [0.0, 2.0, 2.0, 2.0, 3.0, 3.0, 0.0, 0.0, 0.0]);
}

/// A graph with `next`, which has no derivative, of x or of z alone.
fn beside(of_x: bool) -> GraphBuf {
    let g = Builder::new("beside");
    let (x, z) = (g.input("x", [], F64), g.input("z", [], F64));
    let next = if of_x { x.nextafter(z) } else { z.nextafter(z * 2.0) };
    let loss = if of_x { x * x } else { x * x + next };
    g.finish([loss.named("loss"), next.named("next")]).unwrap()
}

#[test]
fn an_op_without_a_derivative_may_stand_beside_the_way() {
    for of_x in [true, false] {
        let graph = beside(of_x);
        let leaves = [("x", 3.0), ("z", 1.0), ("tangent.x", 2.0)];
        assert_eq!(values(&gradient(&graph, &["x"]), &leaves[..2], "grad.x"), [6.0]);
        assert_eq!(values(&graph.jvp(&["loss"], &["x"]).unwrap(), &leaves, "tangent.loss"), [12.0]);
    }
    let e = beside(true).jvp(&["next"], &["x"]).unwrap_err();
    assert!(e.kind == Kind::Derivative && e.message.starts_with("nextafter: it moves by a bit"), "{e}");
}

#[test]
fn an_op_without_a_derivative_is_named_in_loops_and_branches() {
    let g = Builder::new("loop");
    let x = g.input("x", [], F64);
    let how = Loop::default().length(2);
    let (y, _) = g.scan_with(how, &[x], &[], |c, _| (vec![c[0].nextafter(c[0] * 2.0)], vec![]));
    let looped = g.finish([y[0].named("loss")]).unwrap();
    let g = Builder::new("branch");
    let x = g.input("x", [], F64);
    let y = g.cond(x.greater(0.0), || vec![x.nextafter(x * 2.0)], || vec![x]);
    let chosen = g.finish([y[0].named("loss")]).unwrap();
    for graph in [looped, chosen] {
        let (reverse, forward) = (graph.grad("loss", &GradOptions::wrt(&["x"])), graph.jvp(&["loss"], &["x"]));
        for e in [reverse.unwrap_err(), forward.unwrap_err()] {
            assert!(e.kind == Kind::Derivative && e.message.starts_with("nextafter: it moves by a bit"), "{e}");
        }
    }
}

/// Two carries, of which the loss reads the first; `z` reaches the second.
#[test]
fn a_loop_that_hands_no_cotangent_on_has_zeros() {
    let g = Builder::new("apart");
    let (w, z) = (g.input("w", [2], F64), g.input("z", [2], F64));
    let how = Loop::default().length(3);
    let (h, _) = g.scan_with(how, &[w, w], &[], |h, _| (vec![(h[0] * w).sin(), h[1] * z], vec![]));
    let graph = g.finish([h[0].sum(..).named("loss"), h[1].named("other")]).unwrap();
    assert_eq!(values(&gradient(&graph, &["z"]), &[("w", 0.5), ("z", 3.0)], "grad.z"), [0.0; 2]);
    let e = graph.grad("loss", &GradOptions::wrt(&["z"])).unwrap_err();
    assert!(e.message.contains("\"z\" gets no gradient: loss does not depend on it differentiably"), "{e}");
}

#[test]
fn steps_end_the_tangents_of_loops_and_branches() {
    let g = Builder::new("steps");
    let (x, c) = (g.input("x", [4, 2], F64), g.input("c", [2], F64));
    let (y, rows) = g.scan(&[c], &[x], |_, x| (vec![x[0].sign()], vec![x[0].floor()]));
    let k = g.cond(c.sum(..).greater(0.0), || vec![x.sign()], || vec![x.floor()]);
    let graph = g.finish([y[0].named("y"), rows[0].named("rows"), k[0].named("k")]).unwrap();
    let tangents = graph.jvp(&["y", "rows", "k"], &["x"]).unwrap();
    for (name, n) in [("tangent.y", 2), ("tangent.rows", 8), ("tangent.k", 8)] {
        assert_eq!(values(&tangents, &[("x", 1.5), ("c", 1.0), ("tangent.x", 1.0)], name), vec![0.0; n]);
    }
}

#[test]
fn a_choice_has_tangents_of_those_results_that_move() {
    let g = Builder::new("choice");
    let (x, z, on) = (g.input("x", [3], F64), g.input("z", [3], F64), g.input("on", [], DType::Bool));
    let y = g.cond(on, || vec![z.exp(), x * 2.0], || vec![z, z]);
    let graph = g.finish([y[0].named("a"), y[1].named("b")]).unwrap();
    let text = print(graph.jvp(&["a", "b"], &["x"]).unwrap().view());
    let results: Vec<usize> =
        text.lines().filter(|l| l.contains("= if ")).map(|l| l.matches("f64[3]").count()).collect();
    assert_eq!(results, [2, 1], "{text}");
}

/// The first carry feeds the second, which alone is read: a + b after one iteration, a + a·w + b after two.
#[test]
fn a_constant_that_feeds_a_carry_through_another_has_a_gradient() {
    let g = Builder::new("through");
    let (a, b, w) = (g.input("a", [], F64), g.input("b", [], F64), g.input("w", [], F64));
    let how = Loop::default().length(2);
    let (y, _) = g.scan_with(how, &[a, b], &[], |c, _| (vec![c[0] * w, c[1] + c[0]], vec![]));
    let graph = g.finish([y[1].named("loss")]).unwrap();
    let leaves = [("a", 3.0), ("b", 7.0), ("w", 2.0)];
    for (name, want) in [("a", 3.0), ("b", 1.0), ("w", 3.0)] {
        assert_eq!(values(&gradient(&graph, &[name]), &leaves, &format!("grad.{name}")), [want], "{name}");
    }
}

/// After two iterations all inner carries are the first, and the outer loop hands them on in another order.
#[test]
fn a_loop_of_a_loop_may_hand_its_carries_on_in_another_order() {
    let graph = parse(
        "region @inner(%a: f64[], %b: f64[], %c: f64[]) {
            yield %a, %a, %b
        }
        region @outer(%a: f64[], %b: f64[], %c: f64[]) {
            %p, %q, %r = scan %a, %b, %c body=@inner carries=3 consts=0 length=2 reverse=false
            yield %p, %r, %q
        }
        graph @turned {
            %x = input : f64[]
            %z = input : f64[]
            %a, %loss, %c = scan %x, %z, %z body=@outer carries=3 consts=0 length=1 reverse=false
            return loss=%loss
        }",
    )
    .unwrap();
    let grad = gradient(&graph, &["x"]);
    assert_eq!(values(&grad, &[("x", 3.0), ("z", 5.0)], "loss"), [3.0]);
    assert_eq!(values(&grad, &[("x", 3.0), ("z", 5.0)], "grad.x"), [1.0]);
}

/// The stacked carries are x and x·w², after which nothing is read.
#[test]
fn a_loop_of_a_loop_may_stack_its_carry() {
    let graph = parse(
        "region @inner(%c: f64[], %w: f64[]) {
            %n = mul %c, %w
            yield %n
        }
        region @outer(%c: f64[], %w: f64[]) {
            %n = scan %c, %w body=@inner carries=1 consts=1 length=2 reverse=false
            yield %n, %c
        }
        graph @rows {
            %x = input : f64[]
            %w = input : f64[]
            %y, %rows = scan %x, %w body=@outer carries=1 consts=1 length=2 reverse=false
            %loss = reduce_sum %rows axes=[0] keep=false
            return loss=%loss
        }",
    )
    .unwrap();
    let leaves = [("x", 3.0), ("w", 2.0)];
    for (name, want) in [("x", 5.0), ("w", 12.0)] {
        assert_eq!(values(&gradient(&graph, &[name]), &leaves, &format!("grad.{name}")), [want], "{name}");
    }
}

/// Its two rules differ, so the values tell which sweep was taken.
#[test]
fn a_jacobian_takes_the_sweep_with_fewer_directions() {
    for (parts, of_each, want) in [(1, 3, 2.0), (2, 3, 3.0), (1, 2, 2.0)] {
        let g = Builder::new("map");
        let x = g.input("x", [3], F64);
        let f = g.custom_fn("both", &[x], |x| vec![x[0] * 5.0]).vjp(|_, _, _, d| vec![Some(d[0] * 2.0)]);
        let y = f.jvp(|_, _, _, d| vec![Some(d[0] * 3.0)]).call()[0].narrow(0, 0, of_each);
        let y = if parts == 2 { y.concat(&[y], 0) } else { y };
        let jacobian = g.finish([y.named("y")]).unwrap().jacobian("y", "x").unwrap();
        let at = |k: usize| if k / 3 % of_each == k % 3 { want } else { 0.0 };
        let all: Vec<f64> = (0..parts * of_each * 3).map(at).collect();
        assert_eq!(values(&jacobian, &[("x", 1.0)], "jacobian.x"), all);
    }
}

#[test]
fn transforms_keep_the_updates_of_a_graph() {
    let g = Builder::new("seen");
    let (x, seen) = (g.input("x", [], F64), g.state("seen", [], F64, Init::Zeros));
    g.update(seen, seen + x);
    let h = (x * seen).named("h");
    let graph = g.finish([(h * h).named("loss"), h]).unwrap();
    let all = [
        gradient(&graph, &["x"]),
        gradient(&graph, &["h"]),
        graph.vjp(&["loss"], &["h"], Missing::Error).unwrap(),
        graph.jvp(&["loss"], &["x"]).unwrap(),
        graph.hvp("loss", &["x"]).unwrap(),
        graph.nth_grad("loss", "x", 2).unwrap(),
        graph.directional_nth_grad("loss", "x", 2).unwrap(),
        graph.jacobian("loss", "x").unwrap(),
        keep_outputs(&graph, |name| name == "loss").unwrap(),
        flatten_regions(&graph).unwrap(),
        decompose_fully(&graph).unwrap(),
    ];
    for (i, g) in all.iter().enumerate() {
        assert_eq!(g.view().updates.len(), 1, "{i}\n{g}");
    }
}

#[test]
fn higher_derivatives_check_their_names_and_the_leaf() {
    let g = Builder::new("cubes");
    let x = g.input("x", [5], F64);
    let graph = g.finish([(x * x * x).sum(..).named("f")]).unwrap();
    let e = graph.nth_grad("f", "x", 2).unwrap_err();
    assert!(e.message.contains("with respect to \"x\" needs a scalar, not f64[5]"), "{e}");
    for n in [0, 1] {
        let e = graph.directional_nth_grad("f", "y", n).unwrap_err();
        assert!(e.message.contains("no leaf is called \"y\""), "{e}");
        let e = graph.directional_nth_grad("g", "x", n).unwrap_err();
        assert!(e.message.contains("no output is called \"g\""), "{e}");
        let e = graph.directional_nth_grad("g", "y", n).unwrap_err();
        assert!(e.message.contains("no output is called \"g\""), "{e}");
    }
}

// Preparation.

/// The text of a norm, its returned values, and what preparation makes of it.
fn prepared_norm(returned: &str) -> String {
    let source = format!(
        "graph @norm {{
            %x = input : f64[2,6]
            %g = input : f64[6]
            %s = input : f64[6]
            %y, %mean, %rstd = layer_norm %x, %g, %s eps=0.1
            %e = exp %mean
            return {returned}
        }}"
    );
    print(run_pipeline(&parse(&source).unwrap(), &["prepare"], true).unwrap().0.view())
}

#[test]
fn a_norm_is_written_out_if_its_statistics_are_read() {
    assert!(prepared_norm("y=%y").contains("= layer_norm "));
    for returned in ["y=%y, mean=%mean", "y=%y, e=%e", "y=%y, rstd=%rstd"] {
        let text = prepared_norm(returned);
        assert!(!text.contains("layer_norm"), "{text}");
    }
}

/// The exponential of `w` does not change in the loop.
#[test]
fn what_does_not_change_leaves_a_loop_before_reverse_mode_alone() {
    let g = Builder::new("fixed");
    let (h, w) = (g.input("h", [3], F64), g.input("w", [3], F64));
    let how = Loop::default().length(2);
    let (y, _) = g.scan_with(how, &[h], &[], |h, _| (vec![(h[0] * w.exp()).sin()], vec![]));
    let graph = g.finish([y[0].named("y")]).unwrap();
    let entry_has_exp = |g: GraphBuf| {
        let text = print(g.view());
        text[text.find("graph @").unwrap()..].contains("= exp ")
    };
    assert!(entry_has_exp(graph.vjp(&["y"], &["h"], Missing::Error).unwrap()));
    assert!(!entry_has_exp(graph.jvp(&["y"], &["h"]).unwrap()));
}

/// A graph with each kind of region, a norm, and the functions `plain` and `ruled`.
const REGIONS: &str = "region @step(%c: f64[4]) {
    %n = sin %c
    yield %n
}
region @other(%c: f64[4]) {
    %n = cos %c
    yield %n
}
region @rule(%x: f64[4], %y: f64[4], %d: f64[4]) {
    %n = neg %d
    yield %n
}
graph @regions {
    %x = input : f64[4]
    %on = input : bool[]
    %a = scan %x body=@step carries=1 consts=0 length=2 reverse=false
    %b = if %on, %a then=@step otherwise=@other
    %c = map %b body=@other
    %d = call %c body=@step
    %e = custom_fn %d body=@other captures=0
    %f = custom_fn %e body=@other captures=0 vjp=@rule
    %y, %mean, %rstd = layer_norm %f, %x, %x eps=0.1
    return y=%y
}
";

#[test]
fn one_region_has_neither_loops_nor_calls_but_keeps_blocks_and_rules() {
    let graph = parse(REGIONS).unwrap();
    let counts = |g: GraphBuf| {
        let text = print(g.view());
        let count = |op: &str| text.matches(&format!("= {op} ")).count();
        (["scan", "if", "map", "call", "custom_fn", "layer_norm"].map(count), text.matches("region @").count())
    };
    let one = flatten_regions(&graph).unwrap();
    // The regions are those of the function with a rule.
    assert_eq!(counts(one), ([0, 0, 0, 0, 1, 1], 2));
    assert_eq!(counts(decompose_fully(&graph).unwrap()), ([0; 6], 0));
}

#[test]
fn gradients_of_slices_are_exact() {
    use arenagrad::prelude::*;
    let g = Builder::new("g");
    let x = g.input("x", [4, 6], DType::F64);
    let pieces = [
        x.slice(&[0, 0], &[2, 3], &[1, 1]),
        x.slice(&[0, 3], &[2, 5], &[1, 1]),
        x.slice(&[2, 0], &[3, 5], &[1, 1]),
        x.slice(&[0, 2], &[2, 6], &[1, 1]),
        x.slice(&[3, 1], &[4, 6], &[1, 2]),
        x.slice(&[0, 5], &[4, 6], &[3, 1]),
    ];
    let weighted = pieces.iter().enumerate().map(|(i, p)| p.sum(..) * 10f64.powi(i as i32));
    let loss = weighted.reduce(|a, b| a + b).unwrap();
    let graph = g.finish([loss.named("loss")]).unwrap().grad("loss", &GradOptions::wrt(&["x"])).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.values_mut::<f64>("x").unwrap().fill(1.0);
    p.step().unwrap();
    let rows = [
        [1.0, 1.0, 1001.0, 1010.0, 1010.0, 101_000.0],
        [1.0, 1.0, 1001.0, 1010.0, 1010.0, 1000.0],
        [100.0, 100.0, 100.0, 100.0, 100.0, 0.0],
        [0.0, 10_000.0, 0.0, 10_000.0, 0.0, 110_000.0],
    ];
    assert_eq!(p.values::<f64>("grad.x").unwrap(), rows.concat());
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
