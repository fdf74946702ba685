//! Choices of the members of a batch that become selects: which ones do, with what bits, and that what a member does
//! not choose reaches nothing.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Var, Vmap};
use arenagrad::session::{Program, Session};
use arenagrad::tools::ir::opdef::Lower;
use arenagrad::tools::passes::pipeline::run_whole_pipeline;
use arenagrad::tools::{arena::Node, arena::ids::Id};

const F64: DType = DType::F64;
const MEMBERS: usize = 6;
/// Members of both branches; for one, both would give NaN derivatives, and for one the other branch.
const X: [f64; MEMBERS] = [4.0, -9.0, 0.25, f64::NAN, -0.0, 1e300];

/// A function of one member and of a number that all members share.
type One = for<'g> fn(&'g Builder, x: Var<'g>, w: Var<'g>) -> Var<'g>;

/// √x where there is one.
fn root<'g>(g: &'g Builder, x: Var<'g>, _: Var<'g>) -> Var<'g> {
    g.cond(x.greater(0.0), || vec![x.sqrt()], || vec![x * 0.0])[0]
}

/// Choices in one another, with a value that all members share.
fn nested<'g>(g: &'g Builder, x: Var<'g>, w: Var<'g>) -> Var<'g> {
    let inner = || g.cond(x.less(1.0), || vec![(x * w).exp(), w], || vec![x.log(), x]);
    let y = g.cond(x.greater(0.0), inner, || vec![w * 2.0, (x * w).tanh()]);
    y[0] + y[1]
}

fn loss(one: One, at_once: bool) -> GraphBuf {
    let g = Builder::new("loss");
    let (x, w) = (g.input("x", [MEMBERS], F64), g.input("w", [], F64));
    let y = match at_once {
        true => g.vmap(&[x], |x| vec![one(&g, x[0], w)])[0],
        // A carry keeps the iterations apart.
        false => {
            let (last, y) = g.scan(&[w], &[x], |c, x| (vec![c[0] * 0.5], vec![one(&g, x[0], w)]));
            g.output("last", last[0]);
            y[0]
        }
    };
    // A member that is NaN in itself stays out of the sum.
    let seen = y.equal(y).select(y, 0.0).clamp(-10.0, 10.0);
    g.finish([seen.sum(..).named("loss"), y.named("y")]).unwrap()
}

fn choices(g: &GraphBuf) -> usize {
    let run = run_whole_pipeline(g).unwrap();
    let g = run.view();
    (0..g.nodes()).filter(|&n| matches!(g.def_of(Node::new(n)).lower, Lower::Choice)).count()
}

fn run(g: &GraphBuf, session: Session, names: &[&str]) -> Vec<u64> {
    let mut p: Program = session.compile(g).unwrap();
    p.values_mut::<f64>("x").unwrap().copy_from_slice(&X);
    p.values_mut::<f64>("w").unwrap()[0] = 0.7;
    p.step().unwrap();
    names.iter().flat_map(|name| p.values::<f64>(name).unwrap()).map(|x| x.to_bits()).collect()
}

#[test]
fn small_choices_become_selects_with_the_bits_of_a_loop() {
    for (one, name) in [(root as One, "root"), (nested, "nested")] {
        let (at_once, apart) = (loss(one, true), loss(one, false));
        assert!(choices(&at_once) == 0 && choices(&apart) > 0, "{name}: {} {}", choices(&at_once), choices(&apart));
        let want = run(&apart, Session::new(), &["loss", "y"]);
        for session in [Session::new(), Session::new().threads(3), Session::new().poison(true)] {
            assert_eq!(run(&at_once, session, &["loss", "y"]), want, "{name}");
        }
        // The gradient by the members' own values is selects, too, and has no NaN of a branch that did not run.
        let [of_selects, of_loop] = [&at_once, &apart].map(|g| g.grad("loss", &GradOptions::wrt(&["x"])).unwrap());
        assert_eq!(choices(&of_selects), 0, "{name}");
        assert_eq!(run(&of_selects, Session::new(), &["grad.x"]), run(&of_loop, Session::new(), &["grad.x"]), "{name}");
    }
}

/// d√x/dx is infinite at 0 and NaN below; a member that does not take the root has a derivative of 0.
#[test]
fn a_branch_that_did_not_run_gives_no_nan() {
    let g = loss(root, true).grad("loss", &GradOptions::wrt(&["x"])).unwrap();
    let slopes: Vec<f64> = run(&g, Session::new(), &["grad.x"]).into_iter().map(f64::from_bits).collect();
    assert_eq!(slopes[..3], [0.25, 0.0, 1.0]);
    assert!(slopes[3..5].iter().all(|s| *s == 0.0), "{slopes:?}");
}

/// The gradient of each example is selects, too.
#[test]
fn gradients_of_single_examples_are_selects() {
    let g = Builder::new("one");
    let (x, w) = (g.input("x", [], F64), g.input("w", [], F64));
    let one = g.finish([nested(&g, x, w).named("y")]).unwrap().grad("y", &GradOptions::wrt(&["x", "w"])).unwrap();
    let all = one.vmap(&Vmap::new(MEMBERS).leaf("x", 0)).unwrap();
    assert_eq!(choices(&all), 0);
    let mut each = Session::new().compile(&one).unwrap();
    let mut want = [Vec::new(), Vec::new()];
    for x in X {
        each.values_mut::<f64>("x").unwrap()[0] = x;
        each.values_mut::<f64>("w").unwrap()[0] = 0.7;
        each.step().unwrap();
        for (k, name) in ["grad.x", "grad.w"].iter().enumerate() {
            want[k].push(each.values::<f64>(name).unwrap()[0].to_bits());
        }
    }
    assert_eq!(run(&all, Session::new(), &["grad.x", "grad.w"]), want.concat());
}

/// A branch that may stop the step runs only for the members that choose it.
#[test]
fn what_may_stop_the_step_stays_a_choice() {
    let g = Builder::new("rows");
    let (i, t) = (g.input("i", [MEMBERS], DType::I64), g.input("t", [3], F64));
    let y = g.vmap(&[i], |i| g.cond(i[0].less(3.0), || vec![t.gather(i[0], 0)], || vec![g.full(-1.0, [], F64)]));
    let g = g.finish([y[0].named("y")]).unwrap();
    assert!(choices(&g) > 0);
    let mut p = Session::new().compile(&g).unwrap();
    p.values_mut::<f64>("t").unwrap().copy_from_slice(&[1.0, 2.0, 3.0]);
    p.values_mut::<i64>("i").unwrap().copy_from_slice(&[0, 7, 2, 3, 1, 100]);
    p.step().unwrap();
    assert_eq!(p.values::<f64>("y").unwrap(), [1.0, -1.0, 3.0, -1.0, 2.0, -1.0]);
}

/// A large branch beside a small one runs for the members that choose it.
#[test]
fn large_branches_stay_choices() {
    let g = Builder::new("large");
    let (x, w) = (g.input("x", [2, 256], F64), g.input("w", [256, 256], F64));
    let y = g.vmap(&[x], |x| {
        let steps = || vec![(0..4).fold(x[0], |x, _| w.matmul(x).tanh())];
        g.cond(x[0].sum(..).greater(0.0), steps, || vec![x[0]])
    });
    assert!(choices(&g.finish([y[0].named("y")]).unwrap()) > 0);
}
