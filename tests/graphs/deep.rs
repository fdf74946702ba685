//! Loops and branches deep in one another, and choices of many branches.

#![allow(clippy::unwrap_used)]

use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Loop, SwitchBranch, Var};
use arenagrad::session::Session;
use arenagrad::tools::ir::text;

/// Sixteen levels of loops of one iteration and of choices around y = 2x.
fn nested<'g>(g: &'g Builder, x: Var<'g>, level: usize) -> Var<'g> {
    match level {
        0 => x * 2.0,
        _ if level.is_multiple_of(2) => {
            let how = Loop::default().length(1);
            g.scan_with(how, &[x], &[], |h, _| (vec![nested(g, h[0], level - 1)], vec![])).0[0]
        }
        _ => g.cond(x.greater(0.0), || vec![nested(g, x, level - 1)], || vec![x * 3.0])[0],
    }
}

/// y and its gradient by x, of a text that was parsed again.
fn stepped(graph: &GraphBuf, x: f64) -> (f64, f64) {
    let graph = text::parse(&graph.to_string()).unwrap();
    let graph = graph.grad("y", &GradOptions::wrt(&["x"])).unwrap();
    let mut p = Session::new().compile(&graph).unwrap();
    p.values_mut::<f64>("x").unwrap()[0] = x;
    p.step().unwrap();
    (p.values::<f64>("y").unwrap()[0], p.values::<f64>("grad.x").unwrap()[0])
}

#[test]
fn loops_and_branches_stand_sixteen_deep_in_one_another() {
    let g = Builder::new("deep");
    let x = g.input("x", [], DType::F64);
    let graph = g.finish([nested(&g, x, 16).named("y")]).unwrap();
    assert_eq!((stepped(&graph, 1.5), stepped(&graph, -1.5)), ((3.0, 2.0), (-4.5, 3.0)));
}

/// The size is Rust's default for a thread.
#[test]
fn sixteen_levels_fit_the_stack_of_a_thread() {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
        let g = Builder::new("deep");
        let x = g.input("x", [], DType::F64);
        stepped(&g.finish([nested(&g, x, 16).named("y")]).unwrap(), 1.5)
    });
    assert_eq!(thread.unwrap().join().unwrap(), (3.0, 2.0));
}

#[test]
fn a_switch_has_a_thousand_branches() {
    let g = Builder::new("many");
    let (i, x) = (g.input("i", [], DType::I32), g.input("x", [], DType::F64));
    let branch = |n: usize| -> SwitchBranch<'_, '_> { Box::new(move || vec![x * n as f64]) };
    let y = g.switch(i, (0..1000).map(branch).collect());
    let mut p = Session::new().compile(&g.finish([y[0].named("y")]).unwrap()).unwrap();
    p.values_mut::<f64>("x").unwrap()[0] = 2.0;
    for n in [0, 1, 63, 64, 500, 999] {
        p.values_mut::<i32>("i").unwrap()[0] = n;
        p.step().unwrap();
        assert_eq!(p.values::<f64>("y").unwrap(), [2.0 * f64::from(n)]);
    }
}

#[test]
fn a_switch_of_too_many_branches_tells_the_most_and_why() {
    let told = told(|g, x| {
        let branch = |_| -> SwitchBranch<'_, '_> { Box::new(move || vec![x]) };
        g.switch(g.full(1.0, [], DType::I32), (0..65_537).map(branch).collect())
    });
    let want = "switch: 65537 branches; at most 65536, because each of 16 levels";
    assert!(told.starts_with(want) && told.contains("deep.rs:"), "{told}");
}

/// What the errors of `write` begin with.
fn told(write: impl for<'g> Fn(&'g Builder, Var<'g>) -> Vec<Var<'g>>) -> String {
    let g = Builder::new("g");
    let y = write(&g, g.input("x", [2], DType::F64));
    g.finish(y.first().map(|y| y.named("y"))).unwrap_err().to_string()
}

#[test]
fn errors_name_the_method_that_writes_a_loop_or_a_choice() {
    let backwards = told(|g, x| {
        let how = Loop::default().length(3).reverse(true);
        g.while_loop_with(how, &[x], |x| x[0].sum(..).less(1.0), |x| x.to_vec()).0
    });
    assert!(backwards.contains("while_loop(") && !backwards.contains("scan("), "{backwards}");
    let kept = told(|g, x| {
        let how = Loop::default().length(3).keep_every(0);
        g.fori_with(how, g.full(1.0, [], DType::I32), &[x], |_, x| x.to_vec())
    });
    assert!(kept.contains("fori(") && !kept.contains("scan("), "{kept}");
    let switch = told(|g, x| {
        let index = g.full(1.0, [], DType::I32);
        g.switch(index, vec![Box::new(move || vec![x]), Box::new(move || vec![x, x])])
    });
    assert!(switch.contains("switch: one branch yields 1 values, and a later one 2"), "{switch}");
    let types = told(|g, x| {
        let index = g.full(1.0, [], DType::I32);
        g.switch(index, vec![Box::new(move || vec![x]), Box::new(move || vec![x.sum(..)])])
    });
    assert!(types.contains("switch(") && !types.contains("if("), "{types}");
    let long = told(|g, x| g.fori(g.full(1.0, [], DType::I64), usize::MAX, &[x], |_, x| x.to_vec()));
    assert!(long.contains("fori: length is 18446744073709551615") && long.contains("deep.rs:"), "{long}");
    let long = told(|g, x| g.while_loop(&[x], usize::MAX, |x| x[0].sum(..).less(1.0), |x| x.to_vec()).0);
    assert!(long.contains("while_loop: length is 18446744073709551615") && long.contains("deep.rs:"), "{long}");
    let long = told(|g, x| g.scan_with(Loop::default().length(usize::MAX), &[x], &[], |h, _| (h.to_vec(), vec![])).0);
    assert!(long.contains("scan: length is 18446744073709551615") && long.contains("deep.rs:"), "{long}");
}
