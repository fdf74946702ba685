//! Loops and choices deep in one another, without what nothing reads.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::{Builder, DType, GraphBuf, Loop, Var};
use arenagrad::session::Session;
use arenagrad::tools::fuzz::seeded_draws;
use arenagrad::tools::passes::pipeline::run_pipeline;

type Draw<'d> = dyn FnMut(u32) -> u32 + 'd;

/// Two carries: y, and one that no result needs. Level by level from the innermost, `kinds` says whether a loop (true)
/// or a choice stands there.
fn nested<'g>(g: &'g Builder, kinds: &[bool], y: Var<'g>, unread: Var<'g>) -> Vec<Var<'g>> {
    let Some((is_loop, inner)) = kinds.split_last() else { return vec![y * 1.5, unread + y] };
    match is_loop {
        true => {
            let how = Loop::default().length(1);
            g.scan_with(how, &[y, unread], &[], |h, _| (nested(g, inner, h[0], h[1]), vec![])).0
        }
        false => {
            let other = || vec![y * 2.0, unread.sin()];
            g.cond(y.greater(0.0), || nested(g, inner, y, unread), other)
        }
    }
}

fn graph_of(kinds: &[bool]) -> GraphBuf {
    let g = Builder::new("nested");
    let (x, z) = (g.input("x", [], DType::F64), g.input("z", [], DType::F64));
    let y = nested(&g, kinds, x, z)[0];
    g.finish([y.named("y")]).unwrap()
}

/// The text after pass `trim` and the number of loops and choices that it made smaller.
fn trimmed(g: &GraphBuf) -> (String, usize) {
    let (g, traces) = run_pipeline(g, &["trim"], true).unwrap();
    (g.to_string(), traces[0].hits.values().sum())
}

#[test]
fn sixteen_loops_keep_one_carry_each() {
    let (text, hits) = trimmed(&graph_of(&[true; 16]));
    assert_eq!((text.matches("carries=1 ").count(), text.matches("carries=2").count(), hits), (16, 0, 16), "{text}");
}

#[test]
fn choices_in_loops_lose_what_no_result_needs() {
    let kinds = std::array::from_fn::<bool, 16, _>(|level| level % 2 == 1);
    let (text, hits) = trimmed(&graph_of(&kinds));
    assert_eq!((text.matches("carries=1 ").count(), text.matches(" = if ").count(), hits), (8, 8, 16), "{text}");
    assert!(!text.contains("sin") && !text.contains("carries=2"), "{text}");
}

/// Of an inner loop with three carries, the second depends on the first, and the third on none. A result of the outer
/// loop needs the second.
#[test]
fn an_inner_loop_keeps_the_carries_that_a_live_carry_needs() {
    let g = Builder::new("g");
    let x = g.input("x", [], DType::F64);
    let how = Loop::default().length(3);
    let (y, _) = g.scan_with(how, &[x, x * 2.0, x * 3.0], &[], |h, _| {
        let inner = g.scan_with(how, h, &[], |h, _| (vec![h[0].sin(), h[1] + h[0], h[2].cos()], vec![]));
        (inner.0, vec![])
    });
    let (text, _) = trimmed(&g.finish([y[1].named("y")]).unwrap());
    assert_eq!(text.matches("carries=2 ").count(), 2, "{text}");
    assert!(text.contains("sin") && !text.contains("cos"), "{text}");
}

/// A loop in a loop, with two carries.
fn nest<'g>(g: &'g Builder, a: Var<'g>, b: Var<'g>) -> Vec<Var<'g>> {
    let how = Loop::default().length(2);
    let inner = |h: &[Var<'g>]| g.scan_with(how, h, &[], |h, _| (vec![h[0].sin(), h[1].cos()], vec![])).0;
    g.scan_with(how, &[a, b], &[], |h, _| (inner(h), vec![])).0
}

/// A body of two loops has its inner loop once. Each keeps another of its carries.
#[test]
fn two_loops_of_one_body_keep_different_carries_at_each_depth() {
    let g = Builder::new("g");
    let x = g.input("x", [], DType::F64);
    let (first, second) = (nest(&g, x, x * 2.0), nest(&g, x * 3.0, x));
    let (text, _) = trimmed(&g.finish([first[0].named("a"), second[1].named("b")]).unwrap());
    assert_eq!(text.matches("carries=1 ").count(), 4, "{text}");
}

/// A value of `known` or a new one of them.
fn drawn<'g>(known: &[Var<'g>], draw: &mut Draw<'_>) -> Var<'g> {
    let mut pick = || known[draw(known.len() as u32) as usize];
    let (a, b) = (pick(), pick());
    match draw(4) {
        0 => a.sin(),
        1 => a + b,
        2 => a * b,
        _ => a,
    }
}

/// A loop or a choice of three results, at most `depth` deep, whose operands are drawn.
fn drawn_nest<'g>(g: &'g Builder, known: &[Var<'g>], depth: usize, draw: &mut Draw<'_>) -> Vec<Var<'g>> {
    let start: Vec<Var<'g>> = (0..3).map(|_| drawn(known, draw)).collect();
    let body = |known: &[Var<'g>], draw: &mut Draw| -> Vec<Var<'g>> {
        let mut known = known.to_vec();
        for _ in 0..depth.min(2) {
            known.extend(drawn_nest(g, &known, depth - 1, draw));
        }
        (0..3).map(|_| drawn(&known, draw)).collect()
    };
    match draw(3) {
        0 => {
            let pred = start[0].greater(0.5);
            let mut other = seeded_draws(draw(1000).into());
            g.cond(pred, || body(&start, draw), || body(known, &mut other))
        }
        kind => {
            let how = Loop::default().length(2).reverse(kind == 1);
            g.scan_with(how, &start, &[], |h, _| (body(h, draw), vec![])).0
        }
    }
}

#[test]
fn drawn_loops_and_choices_keep_their_values() {
    let mut draw = seeded_draws(7);
    let mut smaller = 0;
    for i in 0..40 {
        let g = Builder::new("drawn");
        let x = g.input("x", [], DType::F64);
        let results = drawn_nest(&g, &[x, x.cos()], 3, &mut draw);
        let y = results[draw(3) as usize];
        let graph = g.finish([y.named("y")]).unwrap();
        let (less, traces) = run_pipeline(&graph, &["trim"], true).unwrap();
        smaller += traces[0].hits.values().sum::<usize>();
        let value = |g: &GraphBuf, at: f64| {
            let mut p = Session::new().optimise(false).compile(g).unwrap();
            p.values_mut::<f64>("x").unwrap()[0] = at;
            p.step().unwrap();
            p.values::<f64>("y").unwrap()[0].to_bits()
        };
        for at in [0.25, 1.5, -0.75] {
            assert_eq!(value(&graph, at), value(&less, at), "{i}\n{graph}\n{less}");
        }
    }
    assert!(smaller > 100, "{smaller}");
}
