//! What a leaf's gradient is called, for claims by hand.

use super::*;
use crate::nodes::{Builder, FakeQuantize, Init};

/// The comparison of `claims` with the gradient 1, 2, 300, 4 of a sum that counts as `sum`.
fn compared(check: GradientCheck, claims: &[f64], sum: f64) -> LeafGradient {
    compared_with([1.0, 2.0, 300.0, 4.0], check, claims, sum)
}

/// The comparison of `claims` with the gradient `slopes` of a sum that counts as `sum`.
fn compared_with(slopes: [f64; 4], check: GradientCheck, claims: &[f64], sum: f64) -> LeafGradient {
    let g = Builder::new("g");
    let x = g.input("x", [4], DType::F64);
    let y = (x * g.constant_f64(&slopes, [4])).sum(..).named("y");
    let graph = g.finish([y]).unwrap();
    let [grads, mut plain] = [0; 2].map(|_| Session::new().compile(&graph).unwrap());
    let mut point = FinitePoint::new(&plain, graph.view(), 0, false);
    point.set(&[("x", &[0.5, -0.25, 0.125, 0.75])]).unwrap();
    point.eval(&mut plain, "y").unwrap();
    check.compare_leaf(&mut Pair { grads, plain, point, sum }, "y", 0, claims).unwrap()
}

#[test]
fn an_error_is_relative_to_the_gradient_or_to_a_part_of_the_largest() {
    let check = GradientCheck::default();
    let near = |claims: [f64; 4], sum: f64, worst: f64, element: usize| {
        let found = compared(check, &claims, sum);
        assert!((found.worst - worst).abs() < 1e-6, "{found:?}");
        assert_eq!((found.element, found.elements, found.compared, found.fine), (element, 4, 4, false));
    };
    // A hundredth of 300 is above 1.5, below 4 and 5.
    near([1.5, 2.0, 300.0, 4.0], 0.0, 0.5 / 3.0, 0);
    near([1.0, 2.0, 300.0, 5.0], 0.0, 0.2, 3);
    near([1.0, 2.0, 300.0, 3.5], 0.0, 0.125, 3);
    near([1.5, 2.0, 300.0, 5.0], 0.0, 0.2, 3);
    near([1.0, 2.0, 300.0, -4.0], 0.0, 2.0, 3);
    near([1.0, 2.0, -300.0, 4.0], 0.0, 2.0, 2);
    // A large sum hides small errors.
    near([1.5, 2.0, 300.0, 4.0], -1e8, 0.005, 0);
    let right = compared(check, &[1.0, 2.0, 300.0, 4.0], 0.0);
    assert!(right.fine && right.worst < 1e-8 && right.compared == 4, "{right:?}");
    let none = compared(check, &[1.0, f64::NAN, 300.0, 4.0], 0.0);
    assert_eq!((none.worst, none.element, none.fine), (f64::INFINITY, 1, false));
}

#[test]
fn small_gradients_are_compared_as_large_ones_are() {
    let check = GradientCheck { seed: 2, ..GradientCheck::default() };
    let small = compared_with([1e-3, 2e-3, 3e-3, 4e-3], check, &[1.5e-3, 2e-3, 3e-3, 4e-3], 0.0);
    assert!((small.worst - 1.0 / 3.0).abs() < 1e-6 && small.element == 0, "{small:?}");
    // An error of the tolerance is accepted; that of a claim of 0 is 1.
    let all = compared(GradientCheck { tolerance: 1.0, ..check }, &[0.0; 4], 0.0);
    assert_eq!((all.worst, all.fine), (1.0, true));
    // Without any error it is that of the first element.
    let none = compared_with([0.0; 4], check, &[0.0; 4], 0.0);
    assert_eq!((none.worst, none.element, none.fine), (0.0, 0, true));
}

#[test]
fn as_many_elements_are_compared_as_asked_for_and_no_other_ones() {
    let claims = [1.0, 2.0, 300.0, 400.0];
    let seen: Vec<bool> = (0..16)
        .map(|seed| {
            let found = compared(GradientCheck { seed, elements: 2, ..GradientCheck::default() }, &claims, 0.0);
            assert_eq!((found.compared, found.elements), (2, 4));
            found.fine
        })
        .collect();
    // Which two they are depends on the seed.
    assert!(seen.contains(&true) && seen.contains(&false), "{seen:?}");
    let loose = compared(GradientCheck { tolerance: 0.995, elements: 99, ..GradientCheck::default() }, &claims, 0.0);
    assert!(loose.fine && loose.compared == 4 && loose.element == 3, "{loose:?}");
}

#[test]
fn numbers_of_a_check_have_their_ranges() {
    let g = Builder::new("g");
    let (x, _) = (g.input("x", [1], DType::F32), g.input("e", [0], DType::F32));
    let w = g.param("w", [2], DType::F32, Init::Ones);
    let graph = g.finish([(x * x).named("y"), (w * 2.0).named("z")]).unwrap();
    let default = GradientCheck { tolerance: 1e-6, seed: 0, elements: 16 };
    assert_eq!(GradientCheck::default(), default);
    let why = |check: GradientCheck| check.run(&graph, &[]).err().map(|e| e.message);
    for tolerance in [0.0, -1.0, f64::INFINITY, f64::NAN] {
        let text = format!("tolerance is {tolerance}; it must be positive and finite");
        assert_eq!(why(GradientCheck { tolerance, ..default }), Some(text));
    }
    let text = "elements is 0; a check compares at least one element of each leaf";
    assert_eq!(why(GradientCheck { elements: 0, ..default }).as_deref(), Some(text));
    let report = GradientCheck { tolerance: 0.5, elements: 1, ..default }.run(&graph, &[]).unwrap();
    // A leaf without elements has no gradient.
    let leaves: Vec<_> = report.leaves.iter().map(|l| (l.name.as_str(), l.elements, l.compared)).collect();
    assert_eq!(leaves, [("x", 1, 1), ("w", 2, 1)]);
    let g = Builder::new("g");
    let graph = g.finish([g.constant(&[1.0], [1]).named("y")]).unwrap();
    assert_eq!(default.run(&graph, &[]).unwrap().none, "no leaf is a float");
}

fn leaf(fine: bool, rules: &[&str], conventions: &[&str]) -> LeafGradient {
    let [rules, conventions] = [rules, conventions].map(|all| all.iter().map(|s| s.to_string()).collect());
    LeafGradient { name: "w".into(), elements: 9, compared: 4, worst: 0.25, element: 7, fine, rules, conventions }
}

#[test]
fn a_gradient_is_wrong_if_nothing_else_may_be_why_it_differs() {
    let head = "gradient of w: 4 of 9 elements, relative error 2.5e-1: ";
    let by_definition =
        "cannot be compared, as it passes lsq, quantize, whose derivative is by definition another function's";
    for (leaf, wrong, text) in [
        (leaf(true, &[], &[]), false, "ok"),
        (leaf(true, &["\"f\""], &["lsq"]), false, "ok"),
        (leaf(false, &[], &[]), true, "WRONG at element 7"),
        (leaf(false, &["\"f\"", "\"g\""], &[]), false, "differs, as the rules of custom_fn \"f\", \"g\" may"),
        (leaf(false, &[], &["lsq", "quantize"]), false, by_definition),
        (leaf(false, &["\"f\""], &["lsq", "quantize"]), false, by_definition),
    ] {
        assert_eq!((leaf.wrong(), leaf.to_string()), (wrong, format!("{head}{text}")));
    }
    let agreement = RulesAgreement { names: vec!["\"f\"".into()], forward: 1.0, reverse: 2.0, fine: false };
    let mut report =
        GradientReport { leaves: vec![leaf(true, &[], &[])], agreement: Some(agreement), none: String::new() };
    let rules = "rules of custom_fn \"f\": <Jv,w> = 1.000000e0, <v,JTw> = 2.000000e0: warning: vjp and jvp disagree\n";
    assert_eq!(report.to_string(), format!("{rules}{head}ok\n"));
    report.none = "no leaf is a float".into();
    assert_eq!(report.to_string(), format!("{rules}gradients: none, no leaf is a float\n"));
}

/// A sum with steps, so that only wide differences are exact, times a state that each step changes.
#[test]
fn a_check_starts_from_its_point_however_a_step_changes_states() {
    let g = Builder::new("g");
    let (x, s) = (g.input("x", [1], DType::F64), g.state("s", [1], DType::F64, Init::Ones));
    g.update(s, s + 1.0);
    let graph = g.finish([(((x + 3e10) - 3e10) * s).named("y")]).unwrap();
    let check = GradientCheck { tolerance: 2e-3, ..GradientCheck::default() };
    let report = check.run(&graph, &[("x", &[0.3]), ("s", &[1.0])]).unwrap();
    assert!(report.leaves.len() == 2 && report.leaves.iter().all(|l| l.fine), "{report}");
}

/// At what is drawn where a point is positive, 0.1 to 1.1, there is no root.
#[test]
fn params_keep_their_start_values_where_the_outputs_are_finite() {
    let g = Builder::new("g");
    let w = g.param("w", [3], DType::F64, Init::Constant(2.0));
    let graph = g.finish([(w - 1.5).sqrt().named("y")]).unwrap();
    assert!(check_gradients(&graph, &[]).unwrap().leaves[0].fine);
}

#[test]
fn a_check_in_which_no_gradient_agrees_is_an_error_if_one_passes_a_convention() {
    let g = Builder::new("g");
    let (a, b) = (g.input("a", [3], DType::F64), g.input("b", [3], DType::F64));
    let tripled = g.custom_fn("f", &[a], |x| vec![x[0] * 3.0]).vjp(|_, _, _, d| vec![Some(d[0] * 2.0)]).call()[0];
    let rounded = b.fake_quantize(g.constant_f64(&[0.21], []), None, FakeQuantize::bits(4));
    let e = check_gradients(&g.finish([(tripled + rounded).named("y")]).unwrap(), &[]).unwrap_err();
    assert_eq!(e.kind, Kind::Derivative);
    for part in ["differs, as the rules of custom_fn \"f\" may; gradient of b", "as it passes fake_quantize"] {
        assert!(e.message.contains(part) && !e.message.contains("WRONG"), "{e}");
    }
}

/// √x where there is one, and x/2 elsewhere: the root of −1 is NaN, and it does not run. Nor does what is at fault.
#[test]
fn a_branch_that_does_not_run_has_no_part_in_a_check() {
    let g = Builder::new("root");
    let x = g.input("x", [], DType::F32);
    let i = g.input("i", [], DType::I32);
    // A gather at 7 would stop the step.
    let fault = || vec![g.constant(&[1.0f32, 2.0], [2]).gather(i, 0) * x];
    let y = g.cond(x.greater(0.0), || vec![x.sqrt()], || vec![x * 0.5])[0];
    let z = g.cond(i.less(2.0), fault, || vec![x * x])[0];
    let graph = g.finish([y.named("y"), z.named("z")]).unwrap();
    for at in [-1.0, 0.5] {
        let report = check_gradients(&graph, &[("x", &[at]), ("i", &[7.0])]).unwrap();
        assert!(report.leaves.len() == 1 && report.leaves[0].worst < 1e-6, "{report}");
    }
}

/// √a by Newton's method, which ends by itself for a > 0 only.
fn newton(bound: usize) -> GraphBuf {
    let g = Builder::new("root");
    let a = g.input("a", [], DType::F32);
    let (y, _) =
        g.while_loop(&[a], bound, |y| (y[0] * y[0] - a).abs().greater(1e-12), |y| vec![(y[0] + a / y[0]) * 0.5]);
    g.finish([y[0].named("root")]).unwrap()
}

/// A drawn point at which the step ends with an error is none.
#[test]
fn loops_that_end_by_themselves_are_checked_as_they_run() {
    for (bound, seed) in (0..5).map(|seed| (50, seed)).chain([(100_000, 5)]) {
        let report = GradientCheck { seed, ..GradientCheck::default() }.run(&newton(bound), &[]).unwrap();
        assert!(report.leaves.len() == 1 && report.leaves[0].fine, "{seed}: {report}");
    }
    let e = check_gradients(&newton(50), &[("a", &[-1.0])]).unwrap_err();
    assert!(e.message.contains("still going after 50 iterations"), "{e}");
}

#[test]
fn a_rule_in_a_loop_may_be_why_a_gradient_differs() {
    let g = Builder::new("g");
    let x = g.input("x", [2], DType::F64);
    let f = |x| {
        let f = g.custom_fn("f", &[x], |x| vec![x[0] * 0.5]).vjp(|_, _, _, d| vec![Some(d[0] * 2.0)]);
        f.jvp(|_, _, _, d| vec![Some(d[0] * 2.0)]).call()
    };
    let (y, _) = g.scan_with(crate::nodes::Loop::default().length(3), &[x], &[], |h, _| (f(h[0]), vec![]));
    let report = GradientCheck::default().run(&g.finish([y[0].named("y")]).unwrap(), &[]).unwrap();
    assert!(!report.leaves[0].fine && report.leaves[0].rules == ["\"f\""], "{report}");
    assert!(report.agreement.is_some_and(|a| a.fine && a.names == ["\"f\""]));
}
