//! Errors of a step name the method of the builder that wrote the loop or the choice, also in derivatives and batches.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Loop, SwitchBranch, Var, Vmap};
use arenagrad::session::Session;

/// The errors of steps with n = `n`: of a graph of x and n, of its gradient by x, of its derivative along x, and of
/// the graph of a batch of x.
fn stopped(n: i32, write: impl for<'g> Fn(&'g Builder, Var<'g>, Var<'g>) -> Var<'g>) -> Vec<String> {
    let g = Builder::new("g");
    let (x, index) = (g.input("x", [], DType::F64), g.input("n", [], DType::I32));
    let graph = g.finish([write(&g, x, index).named("y")]).unwrap();
    let reverse = graph.grad("y", &GradOptions::wrt(&["x"])).unwrap();
    let forward = graph.jvp(&["y"], &["x"]).unwrap();
    let batch = graph.vmap(&Vmap::new(2).leaf("x", 0)).unwrap();
    let error = |graph: &GraphBuf| {
        let mut p = Session::new().compile(graph).unwrap();
        p.values_mut::<f64>("x").unwrap().fill(3.0);
        p.values_mut::<i32>("n").unwrap().fill(n);
        if let Ok(tangent) = p.values_mut::<f64>("tangent.x") {
            tangent.fill(1.0);
        }
        p.step().unwrap_err().to_string()
    };
    [&graph, &reverse, &forward, &batch].map(error).to_vec()
}

#[track_caller]
fn all_say(errors: &[String], told: &str) {
    for (i, e) in errors.iter().enumerate() {
        assert!(e.starts_with(told) && e.contains("faults_of_methods.rs:"), "{i}: {e}");
    }
}

#[test]
fn a_while_loop_that_goes_on_names_itself() {
    let told = "while_loop: still going after 4 iterations";
    all_say(&stopped(0, |g, x, _| g.while_loop(&[x], 4, |x| x[0].greater(0.0), |x| vec![x[0].sinh()]).0[0]), told);
    let how = Loop::default().length(4).keep_every(2);
    all_say(
        &stopped(0, |g, x, _| g.while_loop_with(how, &[x], |x| x[0].greater(0.0), |x| vec![x[0].sinh()]).0[0]),
        told,
    );
}

#[test]
fn a_fori_beyond_its_bound_names_itself() {
    let told = "fori: the number of iterations is 5; it must be in 0..5";
    all_say(&stopped(5, |g, x, n| g.fori(n, 4, &[x], |_, x| vec![x[0].sin()])[0]), told);
    // In stretches, an index is checked in place of the number of iterations.
    let how = Loop::default().length(4).keep_every(2).reverse(true);
    let errors = stopped(5, |g, x, n| g.fori_with(how, n, &[x], |_, x| vec![x[0].sin()])[0]);
    all_say(&errors, "fori: ");
    assert!(errors.iter().all(|e| e.contains("is 5; it must be in 0..5")), "{errors:?}");
}

#[test]
fn a_switch_without_the_branch_names_itself() {
    for count in [1, 2, 3, 8] {
        let told = format!("switch: element 0 of the index operand is 9; it must be in 0..{count}");
        let errors = stopped(9, |g, x, n| {
            let branch = |k: usize| -> SwitchBranch<'_, '_> { Box::new(move || vec![x * k as f64]) };
            g.switch(n, (0..count).map(branch).collect())[0]
        });
        all_say(&errors, &told);
    }
}

/// A loop in a loop, a switch in a loop, and an op in a loop: each is the one that is named.
#[test]
fn what_stops_inside_a_loop_is_named() {
    let inner = stopped(5, |g, x, n| {
        g.scan_with(Loop::default().length(2), &[x], &[], |h, _| (g.fori(n, 4, h, |_, h| vec![h[0].sin()]), vec![])).0
            [0]
    });
    all_say(&inner, "fori: the number of iterations is 5");
    let gather = stopped(3, |g, x, n| {
        let table = g.constant(&[1.0f32, 2.0, 4.0], [3]).cast(DType::F64);
        g.fori(n, 8, &[x], |_, h| vec![h[0] * table.gather(n, 0)])[0]
    });
    all_say(&gather, "gather: element 0 of the index operand is 3; it must be in 0..3, in iteration 0");
    let switch = stopped(2, |g, x, n| {
        g.fori(n, 8, &[x], |i, h| {
            let h = h[0];
            g.switch(i, vec![Box::new(move || vec![h.sin()])])
        })[0]
    });
    all_say(&switch, "switch: element 0 of the index operand is 1; it must be in 0..1, in iteration 1");
}
