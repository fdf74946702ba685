//! What the attributes of a loop say.

use super::*;
use crate::nodes::GraphBuf;

fn plain() -> Scan {
    Scan {
        body: Region::NONE,
        carries: 2,
        consts: 3,
        length: 8,
        reverse: false,
        keep_every: None,
        at_once: false,
        exit: None,
        bound: None,
    }
}

#[test]
fn a_stretch_is_no_longer_than_its_loop() {
    let keep = |n, length| Scan { keep_every: Some(n), length, ..plain() };
    let all = [plain(), keep(1, 8), keep(3, 8), keep(8, 8), keep(9, 8)];
    assert_eq!(all.map(|s| s.stretch()), [None, Some(1), Some(3), Some(8), Some(8)]);
    let all = [plain(), keep(1, 8), keep(2, 8), keep(5, 1)];
    assert_eq!(all.map(|s| s.keeps_carries_only()), [false, true, false, true]);
}

#[test]
fn a_loop_without_a_bound_is_one_of_length_0_that_a_carry_ends() {
    let of = |exit, length| Scan { exit, length, ..plain() };
    let all = [of(None, 0), of(Some(Exit::Count), 0), of(Some(Exit::Flag), 1), of(Some(Exit::Flag), 0), plain()];
    assert_eq!(all.map(|s| s.is_unbounded()), [false, false, false, true, false]);
    assert_eq!(all.map(|s| s.expected()), [0, 0, 1, UNBOUNDED_GUESS, 8]);
}

#[test]
fn the_operands_are_carries_then_constants_then_stacked_inputs() {
    let of = |exit| Scan { exit, ..plain() }.exit_operand();
    assert_eq!([of(None), of(Some(Exit::Flag)), of(Some(Exit::Count))], [None, Some(0), Some(2)]);
    assert_eq!(plain().xs(), 5);
}

/// The one loop of a graph.
fn only_loop(g: &GraphBuf) -> Scan {
    let v = g.view();
    let n = v.region_nodes(v.entry()).find(|&n| v.def_of(n).name == "scan").unwrap();
    Scan::of(&v.attrs(n))
}

#[test]
fn the_options_of_a_builder_are_those_of_the_loop() {
    let g = Builder::new("loop");
    let how = Loop::default().length(4).keep_every(1);
    let (h, _) = g.scan_with(how, &[g.input("h", [3], DType::F64)], &[], |h, _| (vec![h[0].tanh()], vec![]));
    let s = only_loop(&g.finish([h[0].named("h")]).unwrap());
    assert_eq!((s.carries, s.consts, s.length, s.keep_every), (1, 0, 4, Some(1)));
    assert_eq!((s.reverse, s.at_once, s.exit, s.bound), (false, false, None, None));
    let again = s.over(s.body, 1, 0);
    assert_eq!((again.length, again.keep_every, again.at_once), (4, Some(1), None));
    let g = Builder::new("members");
    let y = g.vmap(&[g.input("x", [5, 3], DType::F64)], |x| vec![x[0].tanh()]);
    let s = only_loop(&g.finish([y[0].named("y")]).unwrap());
    assert_eq!((s.carries, s.length, s.keep_every, s.at_once), (0, 5, None, true));
    assert_eq!(s.over(s.body, 0, 0).at_once, Some(true));
}
