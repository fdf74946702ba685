//! Custom functions: what is refused, and the text form.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::custom_fn::{CT, F64, X, at, close, scalar, tensor, unary};
use crate::common::{PLAIN, Tensor, try_run_once};
use arenagrad::error::Kind;
use arenagrad::graph::{Builder, DType, GradOptions, Init, Var, grad, jvp};
use arenagrad::tools::ir::text;

#[test]
fn captured_floats_are_refused_if_there_is_a_rule() {
    let error = |stop: bool, ruled: bool| {
        let g = Builder::new("captured");
        let (x, w) = (g.input("x", [3], F64), g.param("fc.weight", [3], F64, Init::Ones));
        let (k, i) = (g.constant_f64(&[1.0, 2.0, 3.0], [3]), g.input("i", [3], DType::I32));
        let w = if stop { w.stop_gradient() } else { w };
        let f = g.custom_fn("scaled", &[x], |x| vec![x[0] * w * k * i.cast(F64)]);
        let y = if ruled { f.vjp(|_, _, _, d| vec![Some(d[0] * w * k)]).call()[0] } else { f.call()[0] };
        let graph = g.finish([y.sum(..).named("loss")]);
        graph.and_then(|graph| {
            let wrt: &[&str] = if stop { &["x"] } else { &["x", "fc.weight"] };
            let first = grad(&graph, "loss", &GradOptions::wrt(wrt))?;
            let i = Tensor { dtype: DType::I32, dims: vec![3], data: vec![5.0; 3] };
            try_run_once(&first, &[tensor(&X), tensor(&CT), i], PLAIN)
        })
    };
    let e = error(false, true).unwrap_err();
    let want = "custom_fn \"scaled\": it uses \"fc.weight\" from outside, which is f64[3] and would get no gradient: \
                pass it as an argument or stop its gradient, at ";
    assert_eq!(e.kind, Kind::Derivative);
    assert!(e.to_string().starts_with(want) && e.to_string().contains("custom_fn_bad.rs:"), "{e}");
    let stopped = error(true, true).unwrap();
    assert_eq!(stopped[1].data, [0.7, -4.0, 4.5]);
    // Without a rule a captured value has its own gradient.
    let free = error(false, false).unwrap();
    assert!(close(&free[2].data, &[-1.3 * 5.0, 0.4 * 10.0, 2.6 * 15.0]));
}

/// In a text nothing stops a function from capturing what needs a gradient. The derivative refuses it.
#[test]
fn a_capture_that_needs_a_gradient_is_refused_in_a_text() {
    let text = "region @f(%x: f64[], %w: f64[]) {\n  %y = mul %x, %w : f64[]\n  yield %y\n}\n\
                region @f.vjp(%x: f64[], %w: f64[], %y: f64[], %d: f64[]) {\n  %c = mul %d, %w : f64[]\n  yield %c\n}\n\
                graph @g {\n  %x = input : f64[]\n  %w = input : f64[]\n  \
                %y = custom_fn %x, %w body=@f captures=1 vjp=@f.vjp : f64[]\n  return y=%y\n}\n";
    let graph = text::parse(text).unwrap();
    assert_eq!(text::print(graph.view()), text);
    let first = grad(&graph, "y", &GradOptions::wrt(&["x"])).unwrap();
    assert_eq!(at(&first, &[scalar(2.0), scalar(3.0)], "grad.x"), [3.0]);
    for e in [grad(&graph, "y", &GradOptions::wrt(&["w"])).unwrap_err(), jvp(&graph, &["y"], &["w"]).unwrap_err()] {
        assert!(e.message.contains("custom_fn \"f\" captures operand 1, f64[], which would get no gradient"), "{e}");
    }
}

#[test]
fn the_text_form_has_the_rules() {
    let g = unary(|g, x| {
        let f = g.custom_fn("my square", &[x], |x| vec![x[0] * x[0]]);
        let f = f.vjp(|_, x, _, d| vec![Some(d[0] * x[0] * 2.0)]);
        f.jvp(|_, x, _, d| vec![Some(d[0] * x[0] * 2.0)]).call()[0]
    });
    let printed = text::print(g.view());
    let node = "custom_fn %x body=@\"my square\" captures=0 vjp=@\"my square.vjp\" jvp=@\"my square.jvp\" : f64[3]";
    assert!(printed.contains(node), "{printed}");
    assert_eq!(text::parse(&printed).unwrap(), g);
    for (from, to, want) in [
        ("captures=0", "captures=2", "2 of 1 operands cannot be captures"),
        ("vjp=@\"my square.vjp\"", "vjp=@\"my square\"", "vjp takes 1 values, and 3 are needed"),
    ] {
        let e = text::parse(&printed.replace(from, to)).unwrap_err();
        assert!(e.message.contains(want), "{e}");
    }
}

#[test]
fn errors_name_the_function() {
    type Wrong = for<'g> fn(&'g Builder, Var<'g>) -> Vec<Var<'g>>;
    let cases: [(Wrong, &str); 7] = [
        (
            |g, x| g.custom_fn("f", &[x], |a| vec![a[0].reshape([1, 3]).matmul(a[0].reshape([1, 3]))]).call(),
            "custom_fn \"f\": matmul(f64[1,3], f64[1,3]): ",
        ),
        (
            |g, x| g.custom_fn("f", &[x], |a| a.to_vec()).vjp(|_, a, _, d| vec![Some(d[0].concat(a, 1))]).call(),
            "custom_fn \"f\", rule vjp: concat",
        ),
        (
            |g, x| g.custom_fn("f", &[x], |a| a.to_vec()).vjp(|_, _, _, _| vec![]).call(),
            "custom_fn \"f\", rule vjp: it gives 0 cotangents, and there are 1 arguments",
        ),
        (
            |g, x| g.custom_fn("f", &[x], |a| a.to_vec()).jvp(|_, _, _, d| vec![Some(d[0].sum(..))]).call(),
            "custom_fn \"f\", rule jvp: result 0 is f64[3], and its tangents are f64[]",
        ),
        (
            |g, x| {
                let i = g.iota(0, [3], DType::I32);
                g.custom_fn("f", &[x, i], |a| vec![a[0]]).vjp(|_, a, _, d| vec![Some(d[0]), Some(a[1])]).call()
            },
            "custom_fn \"f\", rule vjp: argument 1 is i32[3]: it has no cotangents; give None",
        ),
        (
            |g, x| g.custom_fn("f", &[x], |_| vec![]).call(),
            "custom_fn \"f\": custom_fn(f64[3]): the body yields nothing",
        ),
        (
            |g, x| {
                let i = g.iota(0, [3], DType::I32);
                let y = g.custom_fn("f", &[i], |a| vec![a[0]]).vjp(|_, _, _, _| vec![None]).call()[0];
                vec![x * y.cast(F64)]
            },
            "vjp is a rule, and no argument or no result is a float",
        ),
    ];
    for (wrong, want) in cases {
        let g = Builder::new("wrong");
        let x = g.input("x", [3], F64);
        let y = wrong(&g, x);
        let e = g.finish(y).unwrap_err().to_string();
        assert!(e.contains(want) && e.contains("custom_fn_bad.rs:"), "{e}\nnot {want}");
    }
}

#[test]
fn values_of_other_builders_and_regions_are_refused() {
    let (g, h) = (Builder::new("g"), Builder::new("h"));
    let (x, far) = (g.input("x", [3], F64), h.input("far", [2, 2], F64));
    let y = g.custom_fn("f", &[x, far], |a| vec![a[0], a[1]]).call();
    assert_eq!(y.len(), 2);
    let e = g.finish(y).unwrap_err();
    assert!(e.message.contains("a value of another builder"), "{e}");
    let g = Builder::new("g");
    let x = g.input("x", [3], F64);
    let mut inner = None;
    let y = g.custom_fn("f", &[x], |a| {
        inner = Some(a[0].sin());
        vec![a[0]]
    });
    let y = y.call()[0];
    let e = g.finish([y + inner.unwrap()]).unwrap_err();
    assert!(e.message.contains("closed"), "{e}");
}
