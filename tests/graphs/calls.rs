//! Regions that call regions: what a few lines may become, and how deep calls and loops may nest.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::error::{Error, Location, Result};
use arenagrad::graph::GraphBuf;
use arenagrad::graph::{GradOptions, Missing, grad};
use arenagrad::session::Session;
use arenagrad::tools::ir::emit::MAX_NODES;
use arenagrad::tools::ir::text;
use arenagrad::tools::passes::ad::prepare::{decompose_fully, flatten_regions, lowerable_form};
use arenagrad::tools::passes::pipeline;
use arenagrad::tools::passes::promote_f64::promote_f64;
use std::fmt::Write;

const FIRST: &str = "region @r0(%x: f32[4], %y: f32[4]) {\n  %z = mul %x, %y : f32[4]\n  yield %z\n}\n";

/// Regions that each hold `lines` and yield `%out`, and a graph that calls the last of `depth` of them.
fn nested(depth: usize, lines: &str) -> String {
    let mut text = FIRST.to_string();
    for k in 1..=depth {
        let lines = lines.replace("@before", &format!("@r{}", k - 1));
        let _ = write!(text, "region @r{k}(%x: f32[4], %y: f32[4]) {{\n{lines}  yield %out\n}}\n");
    }
    let _ = write!(
        text,
        "graph @g {{\n  %x = input : f32[4]\n  %w = param init=ones scale=0.0 frozen=false : f32[4]\n  \
         %a = call %x, %w body=@r{depth} : f32[4]\n  %l = reduce_sum %a axes=[0] keep=false : f32[]\n  return l=%l\n}}\n"
    );
    text
}

/// Each region calls the one before twice: 2^depth products.
fn doubling(depth: usize) -> GraphBuf {
    let lines = "  %one = call %x, %y body=@before : f32[4]\n  %out = call %one, %y body=@before : f32[4]\n";
    text::parse(&nested(depth, lines)).unwrap()
}

/// Each region calls the one before once.
fn chain(depth: usize) -> GraphBuf {
    let lines = "  %one = call %x, %y body=@before : f32[4]\n  %out = sin %one : f32[4]\n";
    text::parse(&nested(depth, lines)).unwrap()
}

/// Each region is a loop over the one before.
fn loops(depth: usize) -> GraphBuf {
    let lines = "  %out = scan %x, %y body=@before carries=1 consts=1 length=2 reverse=false : f32[4]\n";
    text::parse(&nested(depth, lines)).unwrap()
}

fn gradient(g: &GraphBuf) -> Result<GraphBuf> {
    grad(g, "l", &GradOptions::default().missing(Missing::Zero))
}

#[test]
fn calls_that_multiply_are_refused_before_they_are_written() {
    let g = doubling(40);
    let errors: [Error; 6] = [
        pipeline::run_whole_pipeline(&g).unwrap_err(),
        gradient(&g).unwrap_err(),
        lowerable_form(g.view()).unwrap_err(),
        decompose_fully(g.view()).unwrap_err(),
        flatten_regions(&g).unwrap_err(),
        Session::new().optimise(false).plan(&g).unwrap_err(),
    ];
    for e in errors {
        // 2²³ products are the first that are too many; the calls of region k stand in lines 5k + 1 and 5k + 2.
        assert!(e.message.contains("region @r23 is 8388608 nodes; 4194304 is the limit"), "{e}");
        assert!(matches!(e.location, Location::Text(116, 3)), "{e:?}");
    }
    let e = pipeline::run_whole_pipeline(doubling(200).view()).unwrap_err();
    assert!(e.message.contains("region @r23"), "{e}");
}

#[test]
fn calls_that_double_a_few_times_are_written_out() {
    let g = doubling(10);
    let flat = flatten_regions(&g).unwrap();
    // Inputs, one product for each time that the first region is called, and the sum.
    assert_eq!(flat.view().nodes(), 2 + 1024 + 1);
    let mut p = Session::new().compile(&g).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f32>("x").unwrap().fill(1.5);
    p.step().unwrap();
    assert_eq!(p.values::<f32>("l").unwrap(), [6.0]);
}

#[test]
fn a_chain_of_calls_may_be_long() {
    for depth in [17, 20_000] {
        let g = chain(depth);
        let flat = flatten_regions(&g).unwrap();
        assert_eq!((flat.view().nodes(), flat.view().regions()), (2 + 1 + depth + 1, 1));
        // The products and sines, and as many cosines and products on the way back.
        assert!(gradient(&g).unwrap().view().nodes() > 3 * depth);
    }
    let mut p = Session::new().compile(&chain(300)).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f32>("x").unwrap().fill(1.0);
    p.step().unwrap();
    let want = 4.0 * (0..300).fold(1.0f32, |x, _| x.sin());
    assert!((p.values::<f32>("l").unwrap()[0] - want).abs() < 1e-4);
}

#[test]
fn loops_nest_to_a_limit() {
    // What is too deep is refused, and not walked through by functions that call themselves.
    let g = loops(5000);
    let e = Session::new().plan(&g).unwrap_err();
    assert!(e.message.contains("deep in one another"), "{e}");
    assert!(gradient(&g).is_err());
    let g = gradient(&loops(5)).unwrap();
    // Verified after each pass: trimming loops in loops leaves no region without a user.
    pipeline::run_pipeline(&g, &pipeline::pipeline_passes(), true).unwrap();
    let mut p = Session::new().threads(2).compile(&g).unwrap();
    p.init(0).unwrap();
    p.values_mut::<f32>("x").unwrap().fill(1.0);
    p.step().unwrap();
    // x times w to the power of 2⁵, at 1: the derivative is that power.
    assert_eq!(p.values::<f32>("grad.w").unwrap(), [32.0; 4]);
}

/// A call in the body of a loop is written out there.
#[test]
fn no_call_is_left_in_a_loop() {
    let text = format!(
        "{FIRST}region @body(%x: f32[4], %y: f32[4]) {{\n  %z = call %x, %y body=@r0 : f32[4]\n  yield %z\n}}\n\
         graph @g {{\n  %x = input : f32[4]\n  %w = input : f32[4]\n  \
         %l = scan %x, %w body=@body carries=1 consts=1 length=3 reverse=false : f32[4]\n  return l=%l\n}}\n"
    );
    let (g, _) = pipeline::run_pipeline(&text::parse(&text).unwrap(), &["inline"], true).unwrap();
    let text = g.to_string();
    assert!(text.contains(" = scan ") && text.contains(" = mul ") && !text.contains(" = call "), "{text}");
}

/// A loop that nothing reads is left out with its region where a call is written out.
#[test]
fn a_called_region_may_hold_a_loop_that_nothing_reads() {
    let dead = "  %unread = scan %x, %y body=@r0 carries=1 consts=1 length=3 reverse=false : f32[4]\n";
    let g = text::parse(&nested(1, &format!("{dead}  %out = sin %x : f32[4]\n"))).unwrap();
    for form in [flatten_regions(&g), decompose_fully(&g), lowerable_form(g.view()), promote_f64(g.view())] {
        assert!((0..form.unwrap().view().nodes()).len() < 8);
    }
    gradient(&g).unwrap();
}

#[test]
fn unrolling_is_counted_too() {
    // Each loop alone is small enough; one inside the other they are 9·10¹⁰ iterations.
    let lines = "  %out = scan %x, %y body=@before carries=1 consts=1 length=300000 reverse=false : f32[4]\n";
    let g = text::parse(&nested(2, lines)).unwrap();
    let e = flatten_regions(&g).unwrap_err();
    assert!(e.message.contains(&format!("the graph has more than {MAX_NODES} nodes")), "{e}");
}

/// Slices that no iteration made are zeros, and a loop without a bound stays.
#[test]
fn loops_that_end_early_are_unrolled_if_they_have_a_bound() {
    let source = |length: usize, rows: bool| {
        let (row, results, returned) =
            if rows { (", %n", "%e, %n, %rows", ", rows=%rows") } else { ("", "%e, %n", "") };
        format!(
            "region @body(%go: bool[], %c: f64[]) {{
                %n = mul %c, %c
                %most = full value=100 : f64[]
                %on = lt %n, %most
                yield %on, %n{row}
            }}
            graph @squares {{
                %c = input : f64[]
                %t = full value=1 : bool[]
                {results} = scan %t, %c body=@body carries=2 consts=0 length={length} reverse=false exit=flag
                return n=%n{returned}
            }}"
        )
    };
    let flat = flatten_regions(&text::parse(&source(4, true)).unwrap()).unwrap();
    assert!(!flat.to_string().contains("= scan "), "{flat}");
    let mut p = Session::new().compile(&flat).unwrap();
    p.values_mut::<f64>("c").unwrap()[0] = 4.0;
    p.step().unwrap();
    assert_eq!(p.values::<f64>("n").unwrap(), [256.0]);
    assert_eq!(p.values::<f64>("rows").unwrap(), [16.0, 256.0, 0.0, 0.0]);
    let unbounded = text::parse(&source(0, false)).unwrap();
    for form in [flatten_regions(&unbounded), decompose_fully(&unbounded)] {
        assert_eq!(form.unwrap().to_string().matches("= scan ").count(), 1);
    }
}
