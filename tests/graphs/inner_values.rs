//! Derivatives with respect to inner values: their names and numbers, and what stays of the graph. And what the halves
//! of a vector-Jacobian product save.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::derivatives::{gradient, values};
use arenagrad::error::Kind;
use arenagrad::graph::{Builder, DType, GradOptions, Missing, Var};
use arenagrad::tools::ir::text::{parse, print};

const F64: DType = DType::F64;

const INNER: &str = "region @body(%deep: f64[]) {
  %n = sin %deep
  yield %n
}
graph @inner {
  %x = input : f64[]
  %b = exp %x
  %a = scan %b body=@body carries=1 consts=0 length=1 reverse=false
  %dead = cos %b
  %y = add %a, %b
  return y=%y, b=%b
}
";

#[test]
fn numbers_of_inner_values_begin_at_the_entry() {
    let graph = parse(INNER).unwrap();
    for (name, at) in [("%1", 1.0 + f64::cos(1.0)), ("%2", 1.0), ("b", 1.0 + f64::cos(1.0))] {
        let grad = graph.grad("y", &GradOptions::wrt(&[name])).unwrap();
        let have = values(&grad, &[("x", 0.0)], &format!("grad.{name}"))[0];
        assert!((have - at).abs() < 1e-14, "{name}: {have} {at}");
    }
}

#[test]
fn names_that_no_inner_value_has_are_told_apart() {
    let graph = parse(INNER).unwrap();
    let refused = |name: &str| {
        let e = graph.grad("y", &GradOptions::wrt(&[name])).unwrap_err();
        assert!(matches!(e.kind, Kind::Name | Kind::Derivative), "{e}");
        e.message
    };
    assert_eq!(refused("%5"), "no value is %5: the graph has values %0 to %4");
    assert!(refused("deep").contains("\"deep\" is a value inside a loop or a call"), "{}", refused("deep"));
    for name in ["1", "%", "%1a", "far"] {
        let e = refused(name);
        let want = format!("no leaf or value is called {name:?}; there are a, b, dead, ");
        assert!(e.starts_with(&want) && e.contains(", y") && !e.contains("y, y"), "{e}");
    }
    assert_eq!(refused("dead"), "no output depends on \"dead\"");
    let g = Builder::new("two");
    let x = g.input("x", [3], F64);
    let (h, k) = (x.exp().named("h"), x.sin().named("h"));
    let graph = g.finish([(h * k).sum(..).named("loss"), h]).unwrap();
    let e = graph.grad("loss", &GradOptions::wrt(&["h"])).unwrap_err();
    assert_eq!(e.message, "\"h\" is ambiguous: it is the name of %1 and %2; say which");
}

#[test]
fn what_is_named_twice_has_two_gradients() {
    let g = Builder::new("twice");
    let x = g.input("x", [3], F64);
    let h = x.exp().named("h");
    let graph = g.finish([(h * h).sum(..).named("loss"), h]).unwrap();
    for (name, want) in [("h", 2.0), ("x", 2.0)] {
        let twice = gradient(&graph, &[name, name]);
        let names: Vec<&str> = twice.view().output_names.iter().map(|&s| twice.view().str(s)).collect();
        assert_eq!(names, ["loss".into(), "h".into(), format!("grad.{name}"), format!("grad.{name}.2")]);
        for output in &names[2..] {
            assert_eq!(values(&twice, &[("x", 0.0)], output), [want; 3]);
        }
    }
}

#[test]
fn a_barrier_of_the_graph_stays() {
    let graph = parse(
        "graph @barrier {
            %x = input : f64[3]
            %o = optimization_barrier %x
            %h = exp %o
            %loss = reduce_sum %h axes=[0] keep=false
            return loss=%loss
        }",
    )
    .unwrap();
    for wrt in [&["h"][..], &["o"], &["h", "o", "x"]] {
        let text = print(gradient(&graph, wrt).view());
        assert_eq!(text.matches("= optimization_barrier ").count(), 1, "{text}");
    }
}

// Halves.

#[test]
fn halves_save_each_value_once_and_no_constant() {
    let saved = |f: &dyn for<'g> Fn(&'g Builder, Var<'g>) -> Var<'g>| {
        let g = Builder::new("saved");
        let y = f(&g, g.input("x", [3], F64));
        let halves = g.finish([y.named("y")]).unwrap().split_vjp(&["y"], &["x"], Missing::Error).unwrap();
        halves.saved
    };
    // The backward half reads the exponential twice.
    assert_eq!(
        saved(&|_, x| {
            let h = x.exp().named("h");
            h * h
        }),
        ["saved.h"]
    );
    assert_eq!(
        saved(&|_, x| {
            let h = x.exp();
            h * h
        }),
        ["saved.0"]
    );
    // What depends on no leaf is computed in both.
    assert!(saved(&|g, x| x * g.constant_f64(&[1.0, 2.0, 3.0], [3]).sin()).is_empty());
}
