//! Custom functions: values, the derivatives that their rules give in both modes.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, conform_distance, run, same_conform_bits};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Loop, Missing, Var, grad, hvp, jvp, vjp};
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::passes::ad::prepare::flatten_regions;
use arenagrad::tools::passes::pipeline;

pub const F64: DType = DType::F64;

pub fn tensor(data: &[f64]) -> Tensor {
    Tensor { dtype: F64, dims: vec![data.len()], data: data.to_vec() }
}

pub fn scalar(x: f64) -> Tensor {
    Tensor { dtype: F64, dims: vec![], data: vec![x] }
}

/// The output called `name` of `g` on `inputs`.
pub fn at(g: &GraphBuf, inputs: &[Tensor], name: &str) -> Vec<f64> {
    let v = g.view();
    let i = v.output_names.iter().position(|&s| v.str(s) == name).unwrap_or_else(|| panic!("no {name}\n{g:?}"));
    run(g, inputs, PLAIN)[i].data.clone()
}

/// The graph `y = f(x)` for `x` of three numbers.
pub fn unary(f: impl for<'g> FnOnce(&'g Builder, Var<'g>) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("unary");
    let x = g.input("x", [3], F64);
    let y = f(&g, x);
    g.finish([y.named("y")]).unwrap()
}

/// The cotangent of `x` for the cotangent `ct` of `y`, and the tangent of `y` for the tangent `ct` of `x`.
fn both_modes(g: &GraphBuf, x: &[f64], ct: &[f64]) -> [Vec<f64>; 2] {
    let inputs = [tensor(x), tensor(ct)];
    let back = vjp(g, &["y"], &["x"], Missing::Error).unwrap();
    let forth = jvp(g, &["y"], &["x"]).unwrap();
    [at(&back, &inputs, "grad.x"), at(&forth, &inputs, "tangent.y")]
}

pub const X: [f64; 3] = [-1.3, 0.4, 2.6];
pub const CT: [f64; 3] = [0.7, -2.0, 1.5];

pub fn close(a: &[f64], b: &[f64]) -> bool {
    conform_distance(a, b) < 1e-12
}

#[test]
fn a_rule_replaces_the_derivative() {
    let plain = unary(|g, x| g.custom_fn("square", &[x], |x| vec![x[0] * x[0]]).call()[0]);
    let want: Vec<f64> = X.iter().zip(CT).map(|(x, c)| 2.0 * x * c).collect();
    for got in both_modes(&plain, &X, &CT) {
        assert!(close(&got, &want), "{got:?}");
    }
    let ruled = unary(|g, x| {
        let square = g.custom_fn("square", &[x], |x| vec![x[0] * x[0]]);
        square.vjp(|_, _, _, d| vec![Some(d[0].sin())]).call()[0]
    });
    assert_eq!(at(&ruled, &[tensor(&X)], "y"), X.map(|x| x * x));
    let [back, forth] = both_modes(&ruled, &X, &CT);
    assert!(close(&back, &CT.map(f64::sin)), "{back:?}");
    // The transpose of the rule, which is linearised at the cotangent 0: cos(0) = 1.
    assert!(close(&forth, &CT), "{forth:?}");
}

#[test]
fn straight_through_rounding() {
    for reverse in [true, false] {
        let g = unary(|g, x| {
            let round = g.custom_fn("round", &[x], |x| vec![x[0].round()]);
            match reverse {
                true => round.vjp(|_, _, _, d| vec![Some(d[0])]).call()[0],
                false => round.jvp(|_, _, _, d| vec![Some(d[0])]).call()[0],
            }
        });
        assert_eq!(at(&g, &[tensor(&X)], "y"), [-1.0, 0.0, 3.0]);
        for got in both_modes(&g, &X, &CT) {
            assert_eq!(got, CT);
        }
        let g = Builder::new("loss");
        let x = g.input("x", [3], F64);
        let y = g.custom_fn("round", &[x], |x| vec![x[0].round()]).vjp(|_, _, _, d| vec![Some(d[0])]).call()[0];
        let graph = g.finish([y.sum(..).named("loss")]).unwrap();
        let second = hvp(&graph, "loss", &["x"]).unwrap();
        assert_eq!(at(&second, &[tensor(&X), tensor(&CT)], "tangent.grad.x"), [0.0; 3]);
        assert_eq!(at(&second, &[tensor(&X), tensor(&CT)], "grad.x"), [1.0; 3]);
    }
}

/// A rule may use values from outside, params too: the function does not depend on them.
#[test]
fn gradient_reversal_with_a_captured_rate() {
    let g = Builder::new("reversal");
    let (x, rate) = (g.input("x", [3], F64), g.param("rate", [], F64, Init::Ones));
    let y = g.custom_fn("reverse", &[x], |x| vec![x[0]]).vjp(|_, _, _, d| vec![Some(-(d[0] * rate))]).call()[0];
    let graph = g.finish([(y * y).sum(..).named("loss")]).unwrap();
    let first = grad(&graph, "loss", &GradOptions::wrt(&["x"])).unwrap();
    let inputs = [tensor(&X), scalar(0.3)];
    assert!(close(&at(&first, &inputs, "grad.x"), &X.map(|x| -0.6 * x)));
    // The loss does not depend on the rate, so its gradient is missing, not wrong.
    let missing = grad(&graph, "loss", &GradOptions::wrt(&["rate"])).unwrap_err();
    assert!(missing.message.contains("gets no gradient"), "{missing}");
}

#[test]
fn a_stable_derivative_of_log1pexp() {
    for (ruled, want) in [(true, 1.0), (false, f64::NAN)] {
        let g = Builder::new("log1pexp");
        let x = g.input("x", [1], DType::F32);
        let f = g.custom_fn("log1pexp", &[x], |x| vec![x[0].exp().log1p()]);
        let y = match ruled {
            true => f.jvp(|_, x, _, d| vec![Some(d[0] * x[0].sigmoid())]).call()[0],
            false => f.call()[0],
        };
        let graph = g.finish([y.sum(..).named("y")]).unwrap();
        let gradient = grad(&graph, "y", &GradOptions::wrt(&["x"])).unwrap();
        let x = Tensor { dtype: DType::F32, dims: vec![1], data: vec![100.0] };
        assert!(conform_distance(&at(&gradient, std::slice::from_ref(&x), "grad.x"), &[want]) < 1e-6);
        let forward = jvp(&graph, &["y"], &["x"]).unwrap();
        let one = Tensor { data: vec![1.0], ..x.clone() };
        assert!(conform_distance(&at(&forward, &[x, one], "tangent.y"), &[want]) < 1e-6);
    }
}

/// y with y₀ + 0.3·sin(y₁) = x₀ and y₁ + 0.2·y₀² = x₁, by 20 Newton steps.
fn newton<'g>(g: &'g Builder, x: Var<'g>) -> Var<'g> {
    let x = x.stop_gradient();
    let part = |v: Var<'g>, i: usize| v.narrow(0, i, 1);
    let how = Loop::default().length(20);
    let (y, _) = g.scan_with(how, &[x], &[], |y, _| {
        let (a, b) = (part(y[0], 0), part(y[0], 1));
        let (f, h) = (a + b.sin() * 0.3 - part(x, 0), b + a * a * 0.2 - part(x, 1));
        let (ab, ba) = (b.cos() * 0.3, a * 0.4);
        let det = 1.0 - ab * ba;
        (vec![(a - (f - ab * h) / det).concat(&[b - (h - ba * f) / det], 0)], vec![])
    });
    y[0]
}

#[test]
fn an_implicit_function_has_the_derivative_of_its_solution() {
    let graph = |ruled: bool| {
        let g = Builder::new("implicit");
        let x = g.input("x", [2], F64);
        let f = g.custom_fn("newton", &[x], |x| vec![newton(&g, x[0])]);
        // Jᵀu = d, with J the Jacobian of the equations with respect to y.
        let y = match ruled {
            true => f.vjp(|_, _, y, d| {
                let (ab, ba) = (y[0].narrow(0, 1, 1).cos() * 0.3, y[0].narrow(0, 0, 1) * 0.4);
                let (p, q, det) = (d[0].narrow(0, 0, 1), d[0].narrow(0, 1, 1), 1.0 - ab * ba);
                vec![Some(((p - ba * q) / det).concat(&[(q - ab * p) / det], 0))]
            }),
            false => f,
        };
        let y = y.call()[0];
        g.finish([(y * y * y).sum(..).named("loss"), y.named("y")]).unwrap()
    };
    let g = graph(true);
    let x = [0.8, -0.5];
    let got = at(&grad(&g, "loss", &GradOptions::wrt(&["x"])).unwrap(), &[tensor(&x)], "grad.x");
    let y = at(&g, &[tensor(&x)], "y");
    assert!((y[0] + 0.3 * y[1].sin() - x[0]).abs() < 1e-14 && (y[1] + 0.2 * y[0] * y[0] - x[1]).abs() < 1e-14);
    for i in 0..2 {
        let loss = |h: f64| {
            let mut moved = x;
            moved[i] += h;
            at(&g, &[tensor(&moved)], "loss")[0]
        };
        let want = (loss(1e-5) - loss(-1e-5)) / 2e-5;
        assert!((got[i] - want).abs() < 1e-6, "{got:?}: {want}");
    }
    // Without the rule there is no gradient, because the loop is stopped.
    assert!(grad(&graph(false), "loss", &GradOptions::wrt(&["x"])).is_err());
}

#[test]
fn of_two_results_one_has_no_cotangent() {
    let g = Builder::new("two");
    let x = g.input("x", [3], F64);
    let f = g.custom_fn("pair", &[x], |x| vec![x[0].sin(), x[0].cos()]);
    let outs = f.vjp(|_, x, y, d| vec![Some(d[0] * y[1] + d[1] * x[0] * 100.0)]).call();
    let graph = g.finish([outs[0].named("s"), outs[1].named("c")]).unwrap();
    let x = tensor(&X);
    for (out, want) in [("s", X.map(f64::cos)), ("c", X.map(|x| 100.0 * x))] {
        let back = vjp(&graph, &[out], &["x"], Missing::Error).unwrap();
        assert!(close(&at(&back, &[x.clone(), tensor(&[1.0; 3])], "grad.x"), &want));
        let forth = jvp(&graph, &[out], &["x"]).unwrap();
        assert!(close(&at(&forth, &[x.clone(), tensor(&[1.0; 3])], &format!("tangent.{out}")), &want));
    }
}

#[test]
fn integer_operands_have_neither_tangents_nor_cotangents() {
    let g = Builder::new("rows");
    let (x, rows) = (g.input("x", [4, 2], F64), g.input("rows", [3], DType::I32));
    let f = g.custom_fn("pick", &[rows, x], |a| vec![a[0], a[1].gather(a[0], 0) * 2.0]);
    let f = f.vjp(|_, a, y, d| {
        assert_eq!((d.len(), d[0].dtype(), y[0].dtype()), (2, DType::I32, DType::I32));
        vec![None, Some(d[1].scatter_add(a[0], 0, 4) * 3.0)]
    });
    let outs = f.call();
    let graph = g.finish([outs[0].named("i"), outs[1].named("y")]).unwrap();
    let mut draw = TensorDraws(3);
    let x = draw.tensor(F64, &[4, 2], Domain::Real);
    let rows = Tensor { dtype: DType::I32, dims: vec![3], data: vec![2.0, 0.0, 2.0] };
    let ct = Tensor { dtype: F64, dims: vec![3, 2], data: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
    let back = vjp(&graph, &["y"], &["x"], Missing::Error).unwrap();
    let got = at(&back, &[x.clone(), rows.clone(), ct], "grad.x");
    assert_eq!(got, [9.0, 12.0, 0.0, 0.0, 18.0, 24.0, 0.0, 0.0]);
    let forth = jvp(&graph, &["y"], &["x"]).unwrap();
    let t = Tensor { data: (0..8).map(f64::from).collect(), ..x.clone() };
    assert_eq!(at(&forth, &[x, rows, t], "tangent.y"), [12.0, 15.0, 0.0, 3.0, 12.0, 15.0]);
}

#[test]
fn none_is_zero() {
    let g = Builder::new("none");
    let (x, w) = (g.input("x", [3], F64), g.param("w", [3], F64, Init::Ones));
    let f = g.custom_fn("product", &[x, w], |a| vec![a[0] * a[1]]);
    let y = f.vjp(|_, a, _, d| vec![Some(d[0] * a[1]), None]).call()[0];
    let graph = g.finish([y.sum(..).named("loss"), (y.sum(..) + w.sin().sum(..)).named("more")]).unwrap();
    let inputs = [tensor(&X), tensor(&CT)];
    let first = grad(&graph, "loss", &GradOptions::wrt(&["x", "w"])).unwrap();
    assert_eq!(at(&first, &inputs, "grad.x"), CT);
    assert_eq!(at(&first, &inputs, "grad.w"), [0.0; 3]);
    let more = grad(&graph, "more", &GradOptions::wrt(&["w"])).unwrap();
    assert!(close(&at(&more, &inputs, "grad.w"), &CT.map(f64::cos)));
    let clean = pipeline::run_whole_pipeline(&more).unwrap();
    let adds = clean.view().op.iter().filter(|op| clean.view().ops[op.0 as usize].name == "add").count();
    assert!(adds <= 1, "zeros are added:\n{clean:?}");
}

#[test]
fn both_rules_are_used() {
    let g = unary(|g, x| {
        let f = g.custom_fn("both", &[x], |x| vec![x[0].exp()]);
        let f = f.vjp(|_, _, _, d| vec![Some(d[0] * 2.0)]);
        f.jvp(|_, _, _, d| vec![Some(d[0] * 3.0)]).call()[0]
    });
    assert_eq!(both_modes(&g, &X, &CT), [CT.map(|c| 2.0 * c).to_vec(), CT.map(|c| 3.0 * c).to_vec()]);
}

/// A rule with ops that are differentiated through their decompositions and with a loop: y = softmax-like of x, with a
/// rule that is not its derivative, ⟨J·v, w⟩ = ⟨v, Jᵀ·w⟩ all the same, and second derivatives of the rule's ops.
#[test]
fn a_transposed_rule_agrees_with_the_rule() {
    for reverse in [true, false] {
        let g = Builder::new("loops");
        let x = g.input("x", [3], F64);
        let f = g.custom_fn("loops", &[x], |x| vec![x[0].tanh()]);
        let y = match reverse {
            true => f.vjp(|g, x, _, d| vec![Some(looped(g, x[0], d[0]))]).call()[0],
            false => f.jvp(|g, x, _, d| vec![Some(looped(g, x[0], d[0]))]).call()[0],
        };
        let graph = g.finish([y.named("y")]).unwrap();
        let both = vjp(&jvp(&graph, &["y"], &["x"]).unwrap(), &["y"], &["x"], Missing::Error).unwrap();
        let (v, w) = ([0.3, -1.1, 0.8], CT);
        let inputs = [tensor(&X), tensor(&v), tensor(&w)];
        let (jv, vj) = (at(&both, &inputs, "tangent.y"), at(&both, &inputs, "grad.x"));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (a, b) = (dot(&jv, &w), dot(&v, &vj));
        assert!((a - b).abs() <= 1e-12 * a.abs().max(1.0), "{a} {b}");
        // The rule itself, written out.
        let h = Builder::new("rule");
        let (x, d) = (h.input("x", [3], F64), h.input("d", [3], F64));
        let want = looped(&h, x, d);
        let rule = h.finish([want.named("r")]).unwrap();
        let (got, seed) = if reverse { (&vj, w) } else { (&jv, v) };
        assert!(close(got, &at(&rule, &[tensor(&X), tensor(&seed)], "r")));
        // Second order, by differences of the first.
        let first = vjp(&graph, &["y"], &["x"], Missing::Error).unwrap();
        let second = jvp(&first, &["grad.x"], &["x"]).unwrap();
        let got = at(&second, &[tensor(&X), tensor(&w), tensor(&v)], "tangent.grad.x");
        let moved = |h: f64| {
            let x: Vec<f64> = X.iter().zip(v).map(|(x, v)| x + h * v).collect();
            at(&first, &[tensor(&x), tensor(&w)], "grad.x")
        };
        let (up, down) = (moved(1e-5), moved(-1e-5));
        let want: Vec<f64> = up.iter().zip(&down).map(|(a, b)| (a - b) / 2e-5).collect();
        assert!(conform_distance(&got, &want) < 1e-8, "{got:?} {want:?}");
    }
}

/// d ← d·sin(x) + mean(d), four times, then times the softmax of x.
fn looped<'g>(g: &'g Builder, x: Var<'g>, d: Var<'g>) -> Var<'g> {
    let how = Loop::default().length(4);
    let (d, _) = g.scan_with(how, &[d], &[], |d, _| (vec![d[0] * x.sin() + d[0].mean(..)], vec![]));
    d[0] * x.softmax(0)
}

/// `c ← f(w·c + x)` over the rows of `x`, with `f` = sin and twice its derivative as the rule.
fn in_a_loop(ruled: bool) -> GraphBuf {
    let g = Builder::new("loop");
    let (x, w) = (g.input("x", [6, 3], F64), g.param("w", [3], F64, Init::Ones));
    let c = g.input("c", [3], F64);
    let (c, ys) = g.scan(&[c], &[x], |c, x| {
        let at = w * c[0] + x[0];
        let two = g.full(2.0, [3], F64);
        let next = match ruled {
            true => {
                let f = g.custom_fn("sine", &[at], |a| vec![a[0].sin()]);
                f.vjp(|_, a, _, d| vec![Some(d[0] * a[0].cos() * two)]).call()[0]
            }
            // sin with twice the derivative: 2·sin(x) − stop(sin(x)).
            false => at.sin() * two - at.sin().stop_gradient(),
        };
        (vec![next], vec![next * 0.5])
    });
    let loss = (ys[0] * ys[0]).sum(..) + c[0].sum(..);
    g.finish([loss.named("loss")]).unwrap()
}

#[test]
fn a_custom_function_in_a_loop() {
    let mut draw = TensorDraws(9);
    let inputs = [[6, 3].as_slice(), &[3], &[3]].map(|d| draw.tensor(F64, d, Domain::Unit));
    let tangents = [[6, 3].as_slice(), &[3], &[3]].map(|d| draw.tensor(F64, d, Domain::Unit));
    let all = [inputs, tangents].concat();
    let (ruled, plain) = (in_a_loop(true), in_a_loop(false));
    let flat = flatten_regions(&ruled).unwrap();
    let wrt = ["x", "w", "c"];
    let first = |g: &GraphBuf| grad(g, "loss", &GradOptions::wrt(&wrt)).unwrap();
    let forward = |g: &GraphBuf| jvp(g, &["loss"], &wrt).unwrap();
    let second = |g: &GraphBuf| hvp(g, "loss", &wrt).unwrap();
    let same = |g: &GraphBuf, h: &GraphBuf, inputs: &[Tensor]| {
        let (a, b) = (run(g, inputs, PLAIN), run(h, inputs, PLAIN));
        a.iter().zip(&b).all(|(a, b)| conform_distance(&a.data, &b.data) < 1e-12)
    };
    for other in [&flat, &plain] {
        assert!(same(&first(&ruled), &first(other), &all[..3]));
        assert!(same(&forward(&ruled), &forward(other), &all));
    }
    // The rule's second derivative is that of 2·cos, and `plain` has another.
    assert!(same(&second(&ruled), &second(&flat), &all));
    let g = first(&ruled);
    let one = run(&g, &all[..3], PLAIN);
    let shared = [2, 3, 7].map(|threads| How { threads, share: true, ..PLAIN });
    for how in shared.into_iter().chain([How { poison: true, ..PLAIN }]) {
        assert!(one.iter().zip(&run(&g, &all[..3], how)).all(|(a, b)| same_conform_bits(a, b)), "{how:?}");
    }
}

#[test]
fn a_rule_may_hold_a_function_with_a_rule() {
    let g = unary(|g, x| g.custom_fn("twice", &[x], |x| vec![x[0].sin()]).vjp(nested).call()[0]);
    let want: Vec<f64> = X.iter().zip(CT).map(|(x, c)| 5.0 * c * x.cos()).collect();
    for got in both_modes(&g, &X, &CT) {
        assert!(close(&got, &want), "{got:?}");
    }
}

/// 5·d·cos(x), where 5 is the rule of an inner custom function.
fn nested<'g>(g: &'g Builder, x: &[Var<'g>], _: &[Var<'g>], d: &[Var<'g>]) -> Vec<Option<Var<'g>>> {
    let inner = g.custom_fn("five", d, |d| vec![d[0] * 5.0]);
    let inner = inner.vjp(|_, _, _, e| vec![Some(e[0] * 5.0)]).call()[0];
    vec![Some(inner * x[0].cos())]
}

/// Random ops in a function and its rule draw from different streams, and the same draws forwards and backwards.
#[test]
fn random_ops_in_a_function() {
    let g = Builder::new("random");
    let x = g.input("x", [400], F64);
    let f = g.custom_fn("noisy", &[x], |x| {
        let mask = x[0].full_like(1.0).dropout(0.5);
        vec![x[0] * mask, mask]
    });
    let outs = f.vjp(|_, _, y, d| vec![Some(d[0] * y[1].full_like(1.0).dropout(0.5) + d[0] * y[1] * 10.0)]).call();
    let graph = g.finish([outs[0].sum(..).named("loss"), outs[1].named("mask")]).unwrap();
    let first = grad(&graph, "loss", &GradOptions::wrt(&["x"])).unwrap();
    let i = first.view().leaves().count();
    let mut inputs = vec![Tensor { dims: vec![400], data: vec![1.0; 400], dtype: F64 }];
    if i > 1 {
        inputs.push(Tensor { dtype: DType::U32, dims: vec![4], data: vec![7.0, 0.0, 0.0, 0.0] });
    }
    let (mask, got) = (at(&first, &inputs, "mask"), at(&first, &inputs, "grad.x"));
    let other: Vec<f64> = got.iter().zip(&mask).map(|(g, m)| g - 10.0 * m).collect();
    assert!(other.iter().all(|&o| o == 0.0 || o == 2.0), "{other:?}");
    let equal = other.iter().zip(&mask).filter(|(a, b)| a == b).count();
    assert!((120..280).contains(&equal), "{equal} of 400 draws agree");
}

/// A rule that is used as it is keeps its ops. Only one that is transposed is written in ops that have rules.
#[test]
fn a_rule_that_is_not_transposed_keeps_its_ops() {
    let g = unary(|g, x| {
        let sine = g.custom_fn("sine", &[x], |x| vec![x[0].sin()]);
        sine.jvp(|_, x, _, d| vec![Some(x[0].cos().fmin(x[0]) * d[0])]).call()[0]
    });
    let forth = jvp(&g, &["y"], &["x"]).unwrap();
    let want: Vec<f64> = X.iter().zip(CT).map(|(x, d)| x.cos().min(*x) * d).collect();
    assert!(close(&at(&forth, &[tensor(&X), tensor(&CT)], "tangent.y"), &want));
    assert!(forth.to_string().contains(" = fmin "), "{forth}");
}
