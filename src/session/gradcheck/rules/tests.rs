//! The two rules of custom functions, by hand.

use super::*;
use crate::nodes::{Builder, Init, Var};

const F64: DType = DType::F64;

/// f(x) = 3x, whose rules tell the slopes `reverse` and `forward`.
fn ruled<'g>(g: &'g Builder, x: Var<'g>, [reverse, forward]: [f64; 2]) -> Var<'g> {
    let f = g.custom_fn("f", &[x], |x| vec![x[0] * 3.0]).vjp(move |_, _, _, d| vec![Some(d[0] * reverse)]);
    f.jvp(move |_, _, _, d| vec![Some(d[0] * forward)]).call()[0]
}

#[test]
fn rules_agree_if_their_products_do_relative_to_the_larger_one() {
    for (rules, tolerance, fine) in [
        ([3.0, 3.0], 1e-6, true),
        ([1000.0, 1001.0], 1e-3, true),
        ([1000.0, 1001.0], 9.9e-4, false),
        ([1.0, 2.0], 0.6, true),
        ([1.0, 2.0], 0.4, false),
        ([1e-3, 2e-3], 0.4, false),
        // An error of the tolerance is accepted.
        ([0.0, 1.0], 1.0, true),
    ] {
        let g = Builder::new("g");
        let graph = g.finish([ruled(&g, g.input("x", [2], F64), rules).named("y")]).unwrap();
        let check = GradientCheck { tolerance, ..GradientCheck::default() };
        let found = check.compare_rules(&graph).unwrap().unwrap();
        assert_eq!((&found.names[..], found.fine), (&["\"f\"".to_string()][..], fine), "{rules:?}: {found:?}");
        let [reverse, forward] = [found.reverse * rules[1], found.forward * rules[0]];
        assert!((forward - reverse).abs() < 1e-8 && found.forward.abs() > 1e-4, "{rules:?}: {found:?}");
    }
}

/// y = 3xw, where the rules say 5 and 7 for the slope 3. What is no float has no part in it.
#[test]
fn the_products_are_those_at_a_drawn_point_in_drawn_directions() {
    let g = Builder::new("g");
    let (x, i) = (g.input("x", [2], F64), g.input("i", [2], DType::I32));
    let w = g.param("w", [2], F64, Init::Constant(2.0));
    let graph = g.finish([(ruled(&g, x, [5.0, 7.0]) * w).named("y"), i.named("k")]).unwrap();
    let check = GradientCheck { seed: 3, ..GradientCheck::default() };
    let found = check.compare_rules(&graph).unwrap().unwrap();
    let both =
        crate::graph::vjp(&jvp(&graph, &["y"], &["x", "w"]).unwrap(), &["y"], &["x", "w"], Missing::Zero).unwrap();
    let mut p = Session::new().compile(&both).unwrap();
    p.init(3).unwrap();
    FinitePoint::new(&p, both.view(), 3, false).eval(&mut p, "y").unwrap();
    let of = |name: &str| p.values::<f64>(name).unwrap().to_vec();
    let (x, dx, dw, cotangent) = (of("x"), of("tangent.x"), of("tangent.w"), of("cotangent.y"));
    assert_eq!(of("w"), [2.0; 2]);
    for (got, slope) in [(found.reverse, 5.0), (found.forward, 7.0)] {
        let wanted: f64 = (0..2).map(|i| cotangent[i] * (slope * dx[i] * 2.0 + 3.0 * x[i] * dw[i])).sum();
        assert!((got - wanted).abs() < 1e-12, "{slope}: {found:?}, not {wanted}");
    }
}

/// Whether a check compares rules in the graph of an output `y` called `name`.
fn is_compared(y: fn(&Builder) -> Var<'_>, name: &str) -> bool {
    let g = Builder::new("g");
    let graph = g.finish([y(&g).named(name)]).unwrap();
    GradientCheck::default().compare_rules(&graph).unwrap().is_some()
}

fn with_reverse_rule(g: &Builder) -> Var<'_> {
    let f = g.custom_fn("f", &[g.input("x", [2], F64)], |x| vec![x[0].sin()]);
    f.vjp(|_, x, _, d| vec![Some(d[0] * x[0].cos())]).call()[0]
}

fn with_forward_rule(g: &Builder) -> Var<'_> {
    let f = g.custom_fn("f", &[g.input("x", [2], F64)], |x| vec![x[0].sin()]);
    f.jvp(|_, x, _, d| vec![Some(d[0] * x[0].cos())]).call()[0]
}

#[test]
fn only_functions_with_both_rules_are_compared_where_there_is_something_to_compare() {
    assert!(is_compared(|g| ruled(g, g.input("x", [1], F64), [3.0; 2]), "y"));
    assert!(!is_compared(|g| g.input("x", [2], F64).sin(), "y"), "without a function");
    assert!(!is_compared(with_reverse_rule, "y"), "without a rule of forward mode");
    assert!(!is_compared(with_forward_rule, "y"), "without a rule of reverse mode");
    assert!(!is_compared(|g| ruled(g, g.input("x", [0], F64), [3.0; 2]).sum(..), "y"), "without an element");
    assert!(!is_compared(|g| ruled(g, g.input("x", [2], F64), [3.0; 2]), "x"), "with an output called as a leaf");
}

#[test]
fn where_there_is_no_derivative_rules_are_not_compared_and_other_errors_are_told() {
    let g = Builder::new("g");
    let y = ruled(&g, g.input("x", [2], F64), [3.0; 2]).nextafter(2.0);
    let report = GradientCheck::default().run(&g.finish([y.named("y")]).unwrap(), &[]).unwrap();
    assert!(report.agreement.is_none() && report.none.contains("nextafter"), "{report}");
    // Of three elements there is none at 7.
    let g = Builder::new("g");
    let at = g.state("at", [1], DType::I32, Init::Constant(7.0));
    let y = ruled(&g, g.input("x", [3], F64), [3.0; 2]).gather(at, 0);
    let e = GradientCheck::default().compare_rules(&g.finish([y.named("y")]).unwrap()).unwrap_err();
    assert!(e.message.contains("it must be in 0..3"), "{e}");
}

/// 2x and 3x, by a function of two operands.
fn scaled<'g>(g: &'g Builder, name: &str, x: Var<'g>) -> Var<'g> {
    let f = g.custom_fn(name, &[x, g.constant_f64(&[2.0, 3.0], [2])], |x| vec![x[0] * x[1]]);
    f.vjp(|_, x, _, d| vec![Some(d[0] * x[1]), Some(d[0] * x[0])]).call()[0]
}

#[test]
fn functions_on_the_way_of_a_gradient_are_named_once() {
    let g = Builder::new("g");
    let (x, w) = (g.input("x", [2], F64), g.input("w", [2], F64));
    let y = scaled(&g, "f", scaled(&g, "f", x)) + scaled(&g, "h", w);
    let graph = g.finish([y.named("y")]).unwrap();
    let names = |leaf: &str| list_ruled_functions(graph.view(), leaf).join(", ");
    assert_eq!(["x", "w", "z"].map(names), ["\"f\"", "\"h\"", ""]);
}
