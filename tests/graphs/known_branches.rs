//! Choices of which the branch is known, or does not matter.

#![allow(clippy::unwrap_used)]

use arenagrad::tools::ir::text::{parse, print};
use arenagrad::tools::passes::pipeline::run_pipeline;

/// What the pass counts in a choice by `%p`, which `predicate` makes, and the graph that it leaves.
fn passed(predicate: &str, then: &str, otherwise: &str) -> (Vec<(&'static str, usize)>, String) {
    let source = format!(
        "region @step(%x: f64[2,2], %y: f64[2,2]) {{
            %n = exp %x
            yield %n
        }}
        region @other(%x: f64[2,2], %y: f64[2,2]) {{
            %n = exp %x
            yield %n
        }}
        region @then(%x: f64[2,2], %y: f64[2,2]) {{
            {then}
        }}
        region @otherwise(%x: f64[2,2], %y: f64[2,2]) {{
            {otherwise}
        }}
        graph @choice {{
            %x = input : f64[2,2]
            %y = input : f64[2,2]
            %k = input : i64[]
            %m = input : i64[]
            %on = input : bool[]
            {predicate}
            %r = if %p, %x, %y then=@then otherwise=@otherwise
            %u = call %x, %y body=@step
            %v = call %x, %y body=@other
            return r=%r, u=%u, v=%v
        }}"
    );
    let (g, traces) = run_pipeline(&parse(&source).unwrap(), &["branches"], true).unwrap();
    (traces[0].hits.iter().map(|(&rule, &n)| (rule, n)).collect(), print(g.view()))
}

const INPUT: &str = "%p = not %on";

#[test]
fn branches_of_equal_nodes_are_one_branch() {
    let equal = [
        ("%a = exp %x\n yield %a", "%b = exp %x\n yield %b"),
        ("yield %y", "yield %y"),
        (
            "%a = transpose %x perm=[1,0]\n %b = mul %a, %y\n yield %b",
            "%a = transpose %x perm=[1,0]\n %b = mul %a, %y\n yield %b",
        ),
        ("%a = call %x, %y body=@step\n yield %a", "%a = call %x, %y body=@step\n yield %a"),
    ];
    for (then, otherwise) in equal {
        let (hits, text) = passed(INPUT, then, otherwise);
        assert!(hits == [("choice-equal", 1)] && !text.contains("= if "), "{hits:?}\n{text}");
    }
    let unlike = [
        // Another op, operand, attribute, number, yield, region, or number of nodes.
        ("%a = exp %x\n yield %a", "%a = sin %x\n yield %a"),
        ("%a = exp %x\n yield %a", "%a = exp %y\n yield %a"),
        ("%a = exp %x\n %b = sin %a\n yield %b", "%a = exp %x\n %b = cos %a\n yield %b"),
        ("%a = mul %x, %y\n yield %a", "%a = mul %x, %x\n yield %a"),
        ("%a = transpose %x perm=[1,0]\n yield %a", "%a = transpose %x perm=[0,1]\n yield %a"),
        ("%a = full value=1 : f64[2,2]\n yield %a", "%a = full value=2 : f64[2,2]\n yield %a"),
        ("%a = full value=0 : f64[2,2]\n yield %a", "%a = full value=-0.0 : f64[2,2]\n yield %a"),
        ("%a = exp %x\n %b = sin %a\n yield %a", "%a = exp %x\n %b = sin %a\n yield %b"),
        ("%a = call %x, %y body=@step\n yield %a", "%a = call %x, %y body=@other\n yield %a"),
        ("yield %x", "yield %y"),
    ];
    for (a, b) in unlike {
        for (then, otherwise) in [(a, b), (b, a)] {
            let (hits, text) = passed(INPUT, then, otherwise);
            assert!(hits.is_empty() && text.contains("= if "), "{then}\n{otherwise}\n{hits:?}");
        }
    }
}

/// A predicate that may stop the step is computed, whatever the branches are.
#[test]
fn a_predicate_that_may_stop_the_step_keeps_its_choice() {
    let of = |predicate: &str| passed(predicate, "%a = exp %x\n yield %a", "%a = exp %x\n yield %a").0;
    let point_wise = "%j = add %k, %m\n %i = mul %j, %j\n %p = lt %i, %k";
    assert_eq!(of(point_wise), [("choice-equal", 1)]);
    for predicate in [
        "%q = fmod %k, %m\n %p = lt %q, %k",
        "%q = fmod %k, %m\n %p = lt %k, %q",
        "%q = floor_divide %k, %m\n %j = add %q, %q\n %p = eq %j, %m",
        "%t = full value=3 : i64[4]\n %q = gather %t, %k axis=0\n %p = eq %q, %m",
    ] {
        assert!(of(predicate).is_empty(), "{predicate}");
    }
}

/// The argument of a body may be a predicate of its own.
#[test]
fn a_choice_by_an_argument_of_a_body_may_be_one_branch() {
    let source = "region @step(%x: f64[2]) {
        %n = exp %x
        yield %n
    }
    region @other(%x: f64[2]) {
        %n = exp %x
        yield %n
    }
    region @body(%c: f64[2], %on: bool[]) {
        %n = if %on, %c then=@step otherwise=@other
        yield %n
    }
    graph @loop {
        %h = input : f64[2]
        %on = input : bool[4]
        %y = scan %h, %on body=@body carries=1 consts=0 length=4 reverse=false
        return y=%y
    }";
    let (g, traces) = run_pipeline(&parse(source).unwrap(), &["branches"], true).unwrap();
    assert_eq!(traces[0].hits.get("choice-equal"), Some(&1));
    assert_eq!(g.view().regions(), 2);
}

#[test]
fn a_constant_predicate_picks_its_branch() {
    let (then, otherwise) = ("%a = exp %x\n yield %a", "%a = sin %y\n yield %a");
    for (value, line) in [(1, " = exp %x : f64[2,2]\n  %u"), (0, " = sin %y : f64[2,2]\n  %u")] {
        let (hits, text) = passed(&format!("%p = full value={value} : bool[]"), then, otherwise);
        assert_eq!(hits, [("choice-known", 1)]);
        assert!(text.contains(line) && !text.contains("= if "), "{text}");
    }
    // A constant that a branch captures is no predicate.
    let captured = "region @a(%c: f64[2]) {
        %n = exp %c
        yield %n
    }
    region @b(%c: f64[2]) {
        yield %c
    }
    graph @captured {
        %on = input : bool[]
        %c = full value=0 : f64[2]
        %y = if %on, %c then=@a otherwise=@b
        return y=%y
    }";
    let (_, traces) = run_pipeline(&parse(captured).unwrap(), &["branches"], true).unwrap();
    assert!(traces[0].hits.is_empty());
}
