//! What a program keeps of its steps and of its tensors.

use super::*;
use crate::nodes::ir::text::parse;
use crate::nodes::{Builder, DType, GraphBuf, Init};
use crate::sched::tests::ops::{ADD, PANICS, one};
use crate::session::Session;

const F32: DType = DType::F32;

fn compiled(graph: &GraphBuf) -> Program {
    Session::new().compile(graph).unwrap()
}

fn error<T>(result: Result<T>) -> String {
    result.err().unwrap().message
}

/// The state is written before the kernel panics.
#[test]
fn a_step_that_stops_behind_a_change_is_half_done() {
    let g = Builder::new("half");
    let (x, w) = (g.input("x", [4], F32), g.state("w", [4], F32, Init::Zeros));
    let next = one(&g, &ADD, &[w, x]);
    g.update(w, next);
    let graph = g.finish([one(&g, &PANICS, &[next]).named("y")]).unwrap();
    let stopped = |session: Session| {
        let mut p = session.compile(&graph).unwrap();
        p.values_mut::<f32>("x").unwrap().fill(1.0);
        p.step().unwrap();
        assert!(!p.is_half_done());
        p.values_mut::<f32>("x").unwrap().fill(200.0);
        let e = error(p.step());
        assert!(e.starts_with("t_panics: the kernel panicked"), "{e}");
        (p.is_half_done(), e.contains("changed in part"), p.values::<f32>("w").unwrap()[0])
    };
    assert_eq!(stopped(Session::new()), (true, true, 201.0));
    // A step that looks for NaN puts back what it changed.
    assert_eq!(stopped(Session::new().find_nan(true)), (false, false, 1.0));
}

#[test]
fn a_name_of_a_leaf_and_an_output_is_that_of_one_tensor_only_if_both_are_alike() {
    let text = "graph @twins {
  %a = input : f32[2]
  %w = param init=ones scale=0 frozen=false : f32[2]
  %s = reduce_sum %a axes=[0] keep=false
  %t = mul %a, %w
  return a=%s, w=%t
}
";
    let p = compiled(&parse(text).unwrap());
    assert_eq!(error(p.dims("a")), "input \"a\" is [2], an output of that name []");
    assert_eq!(p.dims("w").unwrap(), [2]);
    let told = |name: &str| error(p.values::<f32>(name));
    assert_eq!(told("a"), "an input and an output are called \"a\": ask for input(..) or output(..)");
    assert_eq!(told("w"), "a param and an output are called \"w\": ask for param(..) or output(..)");
}

#[test]
fn constants_are_written_whether_or_not_loops_run() {
    let g = Builder::new("first");
    let two = g.constant(&[1.0, 2.0], [2]);
    let alone = g.finish([(g.input("x", [2], F32) + two).named("y")]).unwrap();
    let g = Builder::new("loop");
    let (x, none) = (g.input("x", [2], F32), g.input("none", [0, 2], F32));
    let (_, rows) = g.scan(&[], &[none], |_, x| (vec![], vec![x[0] + g.constant(&[3.0, 4.0], [2])]));
    let two = g.constant(&[1.0, 2.0], [2]);
    let behind = g.finish([(x + two).named("y"), rows[0].named("rows")]).unwrap();
    for graph in [alone, behind] {
        for optimise in [false, true] {
            let mut p = Session::new().optimise(optimise).compile(&graph).unwrap();
            p.values_mut::<f32>("x").unwrap().copy_from_slice(&[10.0, 20.0]);
            p.step().unwrap();
            assert_eq!(p.values::<f32>("y").unwrap(), [11.0, 22.0]);
        }
    }
}

#[test]
fn outputs_may_be_parts_of_one_value() {
    let g = Builder::new("parts");
    let h = g.input("x", [4, 3], F32) + 1.0;
    let graph = g.finish([h.narrow(0, 0, 1).named("top"), h.narrow(0, 2, 2).named("rest")]).unwrap();
    for optimise in [false, true] {
        let mut p = Session::new().optimise(optimise).compile(&graph).unwrap();
        p.values_mut::<f32>("x").unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
        p.step().unwrap();
        assert_eq!(p.values::<f32>("top").unwrap(), [1.0, 2.0, 3.0]);
        assert_eq!(p.values::<f32>("rest").unwrap(), [7.0, 8.0, 9.0, 10.0, 11.0, 12.0]);
    }
}

#[test]
fn what_is_forgotten_is_zero_and_counts_as_unset() {
    let g = Builder::new("forgotten");
    let (w, n) = (g.param("w", [2], F32, Init::Ones), g.state("n", [2], F32, Init::Zeros));
    g.update(n, n + w);
    let mut p = compiled(&g.finish([]).unwrap());
    ["w", "n"].iter().for_each(|name| p.values_mut::<f32>(name).unwrap().fill(7.0));
    p.step().unwrap();
    ["w", "n", "unknown"].iter().for_each(|name| p.forget(name));
    assert_eq!([p.values::<f32>("w").unwrap(), p.values::<f32>("n").unwrap()], [[0.0; 2]; 2]);
    assert!(error(p.step()).starts_with("param \"w\" (f32[2]) was neither initialised nor loaded: "));
    p.init_rest(0).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<f32>("n").unwrap(), [1.0; 2]);
}

#[test]
fn all_states_are_taken_from_outputs_of_their_types() {
    let g = Builder::new("from");
    let x = g.input("x", [2], F32);
    let mut from = compiled(&g.finish([(x * 2.0).named("b"), (x + 1.0).named("a")]).unwrap());
    from.values_mut::<f32>("x").unwrap().copy_from_slice(&[3.0, 4.0]);
    from.step().unwrap();
    let to = |n: usize, dtype: DType| {
        let g = Builder::new("to");
        let (a, k) = (g.state("a", [2], F32, Init::Ones), g.input("k", [2], F32));
        let b = g.state("b", [n], dtype, Init::Ones);
        compiled(&g.finish([(a + k).named("sum"), (b * 10.0).named("tens")]).unwrap())
    };
    let mut p = to(2, F32);
    p.values_mut::<f32>("k").unwrap().fill(0.5);
    p.take_saved(&from).unwrap();
    p.step().unwrap();
    assert_eq!([p.values::<f32>("sum").unwrap(), p.values::<f32>("tens").unwrap()], [[4.5, 5.5], [60.0, 80.0]]);
    assert_eq!(error(to(3, F32).take_saved(&from)), "state \"b\" is f32[3], the output f32[2]");
    assert_eq!(error(to(2, DType::F64).take_saved(&from)), "state \"b\" is f64[2], the output f32[2]");
}
