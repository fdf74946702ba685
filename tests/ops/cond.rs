//! Choices: which branch runs, what its plan holds, and derivatives without the branch that does not run.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Loop, SwitchBranch, Var};
use arenagrad::session::Session;
use arenagrad::tools::ops::table::OPS;
use arenagrad::tools::passes::pipeline::{pipeline_passes, run_pipeline};
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
    let second = first.rename("grad.x", "slope").unwrap().grad("slope", &GradOptions::wrt(&["x"])).unwrap();
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
    let e = refused(&|g| {
        let (x, on) = (g.input("x", [2], DType::F64), g.input("on", [1], DType::Bool));
        g.cond(on, || vec![x], || vec![x]);
    });
    assert!(e.contains("the predicate is bool[1]; it must be bool[]: reshape it to []"), "{e}");
    let e = refused(&|g| {
        let (x, on) = (g.input("x", [2], DType::F64), g.input("on", [], DType::Bool));
        g.cond(on, || vec![x, x], || vec![x]);
    });
    assert!(e.contains("branch then yields 2 values, and branch otherwise 1") && e.contains("cond.rs"), "{e}");
}

/// The peak of a plan is that of the larger branch, not of both.
#[test]
fn branches_share_their_workspace() {
    let arena = |then: usize, otherwise: usize| {
        let g = Builder::new("g");
        let (x, on) = (g.input("x", [64, 64], DType::F32), g.input("on", [], DType::Bool));
        let wide = |n: usize| {
            let wide = g.full(0.5, [64, n], DType::F32) + x.slice(&[0, 0], &[64, 1], &[1, 1]).broadcast([64, n]);
            vec![wide.matmul(wide.transpose(&[1, 0])).cumsum(0, false, false)]
        };
        let y = g.cond(on, || wide(then), || vec![wide(otherwise)[0].exp()]);
        let graph = g.finish([y[0].named("y")]).unwrap();
        Session::new().compile(&graph).unwrap().plan().arena_bytes
    };
    let (small, large) = (arena(32, 32), arena(2048, 2048));
    assert!(small + 64 * 1024 * 4 < large, "{small} {large}");
    assert_eq!((arena(32, 2048), arena(2048, 32)), (large, large));
}

/// A param that one branch alone reads has a gradient when that branch runs, and exact zeros otherwise.
#[test]
fn a_param_of_one_branch_has_a_gradient_or_zeros() {
    let g = Builder::new("one");
    let (w, x) = (g.param("w", [3], DType::F64, Init::Ones), g.input("x", [3], DType::F64));
    let y = g.cond(x.sum(..).greater(0.0), || vec![(w * x).sum(..)], || vec![(x / x).sum(..)]);
    let g = g.finish([y[0].named("loss")]).unwrap().grad("loss", &GradOptions::default()).unwrap();
    let mut p = Session::new().compile(&g).unwrap();
    p.init(1).unwrap();
    for (x, want) in [([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]), ([0.0, -1.0, f64::NAN], [0.0; 3]), ([0.0; 3], [0.0; 3])] {
        p.values_mut::<f64>("x").unwrap().copy_from_slice(&x);
        p.step().unwrap();
        assert_eq!(p.values::<f64>("grad.w").unwrap(), want);
    }
}

/// The reverse mode reads what the branch kept, and computes no product or sort of a branch again.
#[test]
fn a_gradient_computes_no_branch_again() {
    let g = Builder::new("kept");
    let (x, on) = (g.input("x", [4, 5], DType::F64), g.input("on", [], DType::Bool));
    let (v, w) = (g.param("v", [5, 7], DType::F64, Init::Normal(1.0)), g.param("w", [5, 3], DType::F64, Init::Ones));
    let y =
        g.cond(on, || vec![x.matmul(v).tanh().square().sum(..)], || vec![x.matmul(w).sort(1, false).0.exp().sum(..)]);
    let grad = g.finish([y[0].named("loss")]).unwrap().grad("loss", &GradOptions::default()).unwrap();
    let text = run_pipeline(&grad, &pipeline_passes(), true).unwrap().0.view().to_string();
    // A product of each branch, and that of each gradient.
    let count = |op: &str| text.matches(op).count();
    assert_eq!((count("= matmul "), count("sort"), count("tanh"), count("exp ")), (4, 1, 1, 1), "{text}");
    let mut p = Session::new().compile(&grad).unwrap();
    p.init(1).unwrap();
    let x: Vec<f64> = (0..20).map(|i| f64::from(i * 7 % 11) / 5.0 - 1.0).collect();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&x);
    for on in [true, false] {
        p.values_mut::<u8>("on").unwrap()[0] = u8::from(on);
        p.step().unwrap();
        let zero = |name: &str| p.values::<f64>(name).unwrap().iter().all(|g| *g == 0.0);
        assert_eq!((zero("grad.v"), zero("grad.w")), (!on, on));
    }
}

/// Dropout in a branch has one mask, forwards and backwards, whether the branch runs or replaces the choice.
#[test]
fn random_ops_in_a_branch_draw_the_same_always() {
    let g = Builder::new("drop");
    let x = g.param("x", [50], DType::F64, Init::Ones);
    let on = g.full(1.0, [], DType::F32).greater(0.0);
    let y = g.cond(on, || vec![x.dropout(0.5)], || vec![x])[0];
    let outputs = [y.named("y"), (y * y).sum(..).named("loss")];
    let g = g.finish(outputs).unwrap().grad("loss", &GradOptions::default()).unwrap();
    let run = |optimise: bool| {
        let mut p = Session::new().optimise(optimise).compile(&g).unwrap();
        p.init(3).unwrap();
        p.step().unwrap();
        (p.values::<f64>("y").unwrap().to_vec(), p.values::<f64>("grad.x").unwrap().to_vec())
    };
    let (y, dx) = run(false);
    assert!(y.iter().zip(&dx).all(|(y, d)| *d == 4.0 * y) && y.contains(&0.0) && y.iter().any(|y| *y != 0.0));
    assert_eq!(run(true), (y, dx));
}

#[test]
fn branches_may_be_empty_or_hold_branches() {
    let g = Builder::new("nested");
    let (a, b) = (g.input("a", [2], DType::F64), g.input("b", [2], DType::F64));
    let (on, off) = (g.input("on", [], DType::Bool), g.input("off", [], DType::Bool));
    let plain = g.cond(on, || vec![a, b], || vec![b, a]);
    let nested = g.cond(on, || g.cond(off, || vec![a.exp()], || vec![a * b]), || vec![b]);
    let loss = (plain[0] * 3.0 + nested[0]).sum(..);
    let names = [plain[0].named("p"), plain[1].named("q"), nested[0].named("n"), loss.named("loss")];
    let g = g.finish(names).unwrap().grad("loss", &GradOptions::wrt(&["a", "b"])).unwrap();
    for threads in [1, 2, 3, 7] {
        let mut p = Session::new().threads(threads).compile(&g).unwrap();
        p.values_mut::<f64>("a").unwrap().copy_from_slice(&[2.0, 3.0]);
        p.values_mut::<f64>("b").unwrap().copy_from_slice(&[5.0, 7.0]);
        for (on, off, n, da, db) in [
            (1, 0, [10.0, 21.0], [8.0, 10.0], [2.0, 3.0]),
            (0, 1, [5.0, 7.0], [0.0, 0.0], [4.0, 4.0]),
            (1, 1, [2f64.exp(), 3f64.exp()], [3.0 + 2f64.exp(), 3.0 + 3f64.exp()], [0.0, 0.0]),
        ] {
            p.values_mut::<u8>("on").unwrap()[0] = on;
            p.values_mut::<u8>("off").unwrap()[0] = off;
            p.step().unwrap();
            let near = |name: &str, want: [f64; 2]| {
                let have = p.values::<f64>(name).unwrap();
                assert!(
                    have.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 1e-13 * b.abs()),
                    "{name}: {have:?} {want:?}"
                );
            };
            near("p", if on == 1 { [2.0, 3.0] } else { [5.0, 7.0] });
            near("q", if on == 1 { [5.0, 7.0] } else { [2.0, 3.0] });
            near("n", n);
            near("grad.a", da);
            near("grad.b", db);
        }
    }
}

#[test]
fn a_switch_runs_the_branch_of_its_number() {
    let g = Builder::new("mode");
    let (mode, x) = (g.input("mode", [], DType::I64), g.input("x", [], DType::F64));
    let branches = (0..5).map(|i| Box::new(move || vec![x.pow(f64::from(i))]) as SwitchBranch<'_, '_>).collect();
    let y = g.switch(mode, branches);
    let g = g.finish([y[0].named("y")]).unwrap().grad("y", &GradOptions::wrt(&["x"])).unwrap();
    let mut p = Session::new().compile(&g).unwrap();
    p.values_mut::<f64>("x").unwrap()[0] = 3.0;
    for (i, dx) in [0.0, 1.0, 6.0, 27.0, 108.0].into_iter().enumerate() {
        p.values_mut::<i64>("mode").unwrap()[0] = i as i64;
        p.step().unwrap();
        assert_eq!(
            (p.values::<f64>("y").unwrap()[0], p.values::<f64>("grad.x").unwrap()[0]),
            (3f64.powi(i as i32), dx)
        );
    }
    for i in [-1, 5, i64::MAX] {
        p.values_mut::<i64>("mode").unwrap()[0] = i;
        let e = p.step().unwrap_err().to_string();
        assert!(e.contains(&format!("is {i}; it must be in 0..5")) && e.contains("cond.rs"), "{e}");
    }
}

/// The index is checked if there is but one branch, and if all branches are equal.
#[test]
fn a_switch_always_checks_its_number() {
    for branches in [1, 2, 3] {
        let g = Builder::new("same");
        let (mode, x) = (g.input("mode", [], DType::I32), g.input("x", [2], DType::F64));
        let one = || Box::new(|| vec![x + 1.0]) as SwitchBranch<'_, '_>;
        let y = g.switch(mode, (0..branches).map(|_| one()).collect());
        let g = g.finish([y[0].named("y")]).unwrap();
        for optimise in [true, false] {
            let mut p = Session::new().optimise(optimise).compile(&g).unwrap();
            p.values_mut::<f64>("x").unwrap().fill(2.0);
            p.values_mut::<i32>("mode").unwrap()[0] = branches - 1;
            p.step().unwrap();
            assert_eq!(p.values::<f64>("y").unwrap(), [3.0; 2]);
            p.values_mut::<i32>("mode").unwrap()[0] = branches;
            let e = p.step().unwrap_err().to_string();
            assert!(e.contains(&format!("is {branches}; it must be in 0..{branches}")), "{e}");
        }
    }
}

/// The predicate depends on the carry of the loop around the choice.
#[test]
fn a_predicate_may_depend_on_a_carry() {
    let g = Builder::new("carry");
    let (c, w) = (g.input("c", [], DType::F64), g.input("w", [], DType::F64));
    let (last, _) = g.scan_with(Loop::default().length(6), &[c], &[], |c, _| {
        (g.cond(c[0].greater(1.0), || vec![c[0] * 0.25], || vec![c[0] * w]), vec![])
    });
    let g = g.finish([last[0].named("y")]).unwrap().grad("y", &GradOptions::wrt(&["c", "w"])).unwrap();
    // 0.5, 1.5, 0.375, 1.125, 0.28125, 0.84375, 2.53125
    let have = numbers(&g, &[("c", 0.5), ("w", 3.0)], &["y", "grad.c", "grad.w"]);
    assert_eq!(have, [2.53125, 5.0625, 3.375]);
}

#[test]
fn a_switch_without_an_integer_or_a_branch_is_refused() {
    let refused = |f: &dyn Fn(&Builder)| {
        let g = Builder::new("bad");
        f(&g);
        g.finish([]).unwrap_err().to_string()
    };
    let e = refused(&|g| {
        let x = g.input("x", [], DType::F64);
        g.switch(x, vec![Box::new(|| vec![x]), Box::new(|| vec![x])]);
    });
    assert!(e.contains("switch: the index is f64[]; it must be i32[] or i64[]") && e.contains("cond.rs"), "{e}");
    let e = refused(&|g| {
        let i = g.input("i", [], DType::I32);
        g.switch(i, Vec::new());
    });
    assert!(e.contains("switch: there is no branch") && e.contains("cond.rs"), "{e}");
}

/// Passes drop results that nothing reads, a branch that never runs, and a choice of equal branches.
#[test]
fn passes_drop_what_no_branch_needs() {
    let ops = |g: GraphBuf| {
        let (g, _) = run_pipeline(&g, &pipeline_passes(), true).unwrap();
        g.view().to_string()
    };
    let build = |f: &dyn for<'g> Fn(&'g Builder, Var<'g>, Var<'g>) -> Vec<Var<'g>>| {
        let g = Builder::new("g");
        let (x, on) = (g.input("x", [3], DType::F32), g.input("on", [], DType::Bool));
        let y = f(&g, x, on);
        ops(g.finish([y[0].named("y")]).unwrap())
    };
    let text = build(&|g, x, on| {
        let other = g.input("other", [900], DType::F32);
        g.cond(on, || vec![x.exp(), other.sort(0, false).0], || vec![x.sin(), other.cumsum(0, false, false)])
    });
    assert!(!text.contains("sort") && !text.contains("cumsum") && text.contains("= if "), "{text}");
    let text = build(&|g, x, _| {
        let never = g.full(1.0, [], DType::F32).greater(2.0);
        g.cond(never, || vec![x.sort(0, false).0], || vec![x.sin()])
    });
    assert!(!text.contains("= if ") && text.contains("sin") && !text.contains("sort"), "{text}");
    let text = build(&|g, x, on| g.cond(on, || vec![x.exp() * 0.0], || vec![x.exp() * 0.0]));
    assert!(!text.contains("= if "), "{text}");
    let text = build(&|g, x, on| g.cond(on, || vec![x.exp() * 0.0], || vec![x.exp() * -0.0]));
    assert!(text.contains("= if "), "{text}");
}

#[test]
fn a_branch_may_not_update_a_state() {
    let g = Builder::new("bad");
    let (s, on) = (g.state("s", [2], DType::F32, Init::Zeros), g.input("on", [], DType::Bool));
    g.cond(
        on,
        || {
            g.update(s, s + 1.0);
            vec![s]
        },
        || vec![s],
    );
    let e = g.finish([]).unwrap_err().to_string();
    assert!(e.contains("update") && e.contains("region") && e.contains("cond.rs"), "{e}");
}

#[test]
fn a_choice_passes_every_facet() {
    let own: Vec<_> = OPS.iter().copied().filter(|def| def.name == "if").collect();
    conform(&own).unwrap();
}

/// Choices that stand deeper in one another than six levels are refused.
#[test]
fn a_switch_of_64_branches_is_six_choices_deep() {
    let g = Builder::new("mode");
    let (mode, x) = (g.input("mode", [], DType::I32), g.input("x", [], DType::F64));
    let branches = (0..64).map(|i| Box::new(move || vec![x + f64::from(i)]) as SwitchBranch<'_, '_>).collect();
    let y = g.switch(mode, branches);
    let g = g.finish([y[0].named("y")]).unwrap();
    let mut p = Session::new().optimise(false).compile(&g).unwrap();
    p.values_mut::<f64>("x").unwrap()[0] = 10.0;
    for i in [0, 31, 32, 63] {
        p.values_mut::<i32>("mode").unwrap()[0] = i;
        p.step().unwrap();
        assert_eq!(p.values::<f64>("y").unwrap(), [10.0 + f64::from(i)]);
    }
}

/// The caller may go on with the results of a choice that is refused.
#[test]
fn a_choice_that_is_refused_has_as_many_results() {
    let g = Builder::new("bad");
    let x = g.input("x", [2], DType::F64);
    assert_eq!(g.cond(x, || vec![x, x * 2.0], || vec![x, x]).len(), 2);
    assert!(g.finish([]).unwrap_err().to_string().contains("the predicate is f64[2]"));
    let g = Builder::new("bad");
    let (x, i) = (g.input("x", [2], DType::F64), g.input("i", [2], DType::I32));
    assert_eq!(g.switch(i, vec![Box::new(|| vec![x, x * 2.0])]).len(), 2);
    let e = g.finish([]).unwrap_err().to_string();
    assert!(e.contains("switch: the index is i32[2]; it must be i32[] or i64[]"), "{e}");
}
