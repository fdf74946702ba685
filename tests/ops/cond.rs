//! Choices: which branch runs, what its plan holds, and derivatives without the branch that does not run.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{How, PLAIN, Tensor, run, same_bits};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Loop};
use arenagrad::session::Session;
use arenagrad::tools::ops::table::OPS;
use arenagrad::tools::testing::conform;

/// The outputs of `g`, one number each, at inputs of these numbers.
fn numbers(g: &GraphBuf, inputs: &[(&str, f64)], outputs: &[&str]) -> Vec<f64> {
    let mut p = Session::new().compile(g).unwrap();
    inputs.iter().for_each(|(name, x)| p.values_mut::<f64>(name).unwrap().fill(*x));
    p.step().unwrap();
    outputs.iter().map(|name| p.values::<f64>(name).unwrap()[0]).collect()
}

fn root() -> GraphBuf {
    let g = Builder::new("root");
    let x = g.input("x", [], DType::F64);
    let y = g.cond(x.greater(0.0), || vec![x.sqrt()], || vec![x * 0.0]);
    g.finish([y[0].named("y")]).unwrap()
}

#[test]
fn the_branch_that_does_not_run_adds_no_nan() {
    let first = root().grad("y", &GradOptions::wrt(&["x"])).unwrap();
    assert_eq!(numbers(&first, &[("x", -1.0)], &["y", "grad.x"]), [0.0, 0.0]);
    assert_eq!(numbers(&first, &[("x", 4.0)], &["y", "grad.x"]), [2.0, 0.25]);
    let second = first.grad("grad.x", &GradOptions::wrt(&["x"])).unwrap();
    let name = second.view().output_names.iter().map(|n| second.view().str(*n).to_string()).last().unwrap();
    assert_eq!(numbers(&second, &[("x", -1.0)], &[&name]), [0.0]);
    assert_eq!(numbers(&second, &[("x", 4.0)], &[&name]), [-0.25 / 8.0]);
    let forward = root().jvp(&["y"], &["x"]).unwrap();
    let name = forward.view().output_names.iter().map(|n| forward.view().str(*n).to_string()).last().unwrap();
    assert_eq!(numbers(&forward, &[("x", -1.0), ("tangent.x", 1.0)], &[&name]), [0.0]);
    assert_eq!(numbers(&forward, &[("x", 4.0), ("tangent.x", 2.0)], &[&name]), [0.5]);
}

#[test]
fn a_bad_index_in_the_branch_that_does_not_run_is_no_fault() {
    let g = Builder::new("dead");
    let (x, on) = (g.input("x", [3], DType::F64), g.input("on", [], DType::Bool));
    let i = g.input("i", [2], DType::I32);
    let y = g.cond(on, || vec![x.gather(i, 0).sum(..)], || vec![x.sum(..)]);
    let g = g.finish([y[0].named("y")]).unwrap();
    let mut p = Session::new().compile(&g).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&[1.0, 2.0, 4.0]);
    p.values_mut::<i32>("i").unwrap().copy_from_slice(&[0, 9]);
    p.values_mut::<u8>("on").unwrap()[0] = 0;
    p.step().unwrap();
    assert_eq!(p.values::<f64>("y").unwrap(), [7.0]);
    p.values_mut::<u8>("on").unwrap()[0] = 1;
    let e = p.step().unwrap_err().to_string();
    assert!(e.contains("gather") && e.contains("is 9; it must be in 0..3"), "{e}");
}

/// Six iterations of `tanh(w·c)` where the number is even, and of `c²` elsewhere; or the same written out.
fn alternating(loops: bool) -> GraphBuf {
    let g = Builder::new("alternating");
    let (w, c) = (g.input("w", [4], DType::F64), g.input("c", [4], DType::F64));
    let last = if loops {
        let even = g.input("even", [6], DType::F64);
        let (last, _) = g.scan_with(Loop::default(), &[c], &[even], |c, even| {
            (g.cond(even[0].greater(0.5), || vec![(w * c[0]).tanh()], || vec![c[0] * c[0]]), vec![])
        });
        last[0]
    } else {
        (0..6).fold(c, |c, i| if i % 2 == 0 { (w * c).tanh() } else { c * c })
    };
    let g = g.finish([last.sum(..).named("loss")]).unwrap();
    g.grad("loss", &GradOptions::wrt(&["w", "c"])).unwrap()
}

#[test]
fn a_choice_in_a_loop_is_its_unrolled_loop_for_any_threads() {
    let of = |data: &[f64]| Tensor { dtype: DType::F64, dims: vec![data.len()], data: data.to_vec() };
    let (w, c) = (of(&[0.3, -1.2, 0.8, 2.0]), of(&[1.0, 0.5, -0.7, 0.2]));
    let even = of(&[1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    let want = run(&alternating(false), &[w.clone(), c.clone()], PLAIN);
    let looped = alternating(true);
    let have = run(&looped, &[w.clone(), c.clone(), even.clone()], PLAIN);
    for (a, b) in want.iter().zip(&have) {
        assert!(a.data.iter().zip(&b.data).all(|(a, b)| (a - b).abs() < 1e-13), "{a:?}\n{b:?}");
    }
    for how in [1, 2, 3, 7].map(|threads| How { threads, share: true, ..PLAIN }) {
        for how in [how, How { poison: true, ..how }] {
            let again = run(&looped, &[w.clone(), c.clone(), even.clone()], how);
            assert!(have.iter().zip(&again).all(|(a, b)| same_bits(a, b)));
        }
    }
}

#[test]
fn a_wrong_predicate_or_branch_is_refused() {
    let refused = |f: &dyn Fn(&Builder)| {
        let g = Builder::new("bad");
        f(&g);
        g.finish([]).unwrap_err().to_string()
    };
    let e = refused(&|g| {
        let x = g.input("x", [], DType::F64);
        g.cond(x, || vec![x], || vec![x]);
    });
    assert!(e.contains("the predicate is f64[]; it must be bool[]") && e.contains("cond.rs"), "{e}");
    let e = refused(&|g| {
        let x = g.input("x", [2], DType::F64);
        g.cond(x.sum(..).greater(0.0), || vec![x], || vec![x.sum(..)]);
    });
    assert!(e.contains("yield 0 is f64[2] in branch then, and f64[] in branch otherwise"), "{e}");
}

#[test]
fn a_choice_passes_every_facet() {
    let own: Vec<_> = OPS.iter().copied().filter(|def| def.name == "if").collect();
    conform(&own).unwrap();
}
