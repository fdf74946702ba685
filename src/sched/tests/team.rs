//! Steps on several threads: faults, panics, sleep.

use super::ops::{ADD, FRESH, PANICS, PICK, REVERSE, SUM, one};
use crate::error::Kind;
use crate::nodes::{Builder, DType, GraphBuf, Init};
use crate::session::Session;
use std::time::Duration;

const F32: DType = DType::F32;
/// Elements of a tensor: units for seven threads.
const N: usize = if cfg!(miri) { 112 } else { 1000 };

fn work(
    last: impl for<'g> Fn(&'g Builder, crate::nodes::Var<'g>, crate::nodes::Var<'g>) -> crate::nodes::Var<'g>,
) -> GraphBuf {
    let g = Builder::new("g");
    let x = g.input("x", [N], F32);
    let at = g.input("at", [N], DType::I32);
    let w = g.state("w", [N], F32, Init::Zeros);
    let y = last(&g, one(&g, &REVERSE, &[one(&g, &FRESH, &[x])]), at);
    g.update(w, one(&g, &ADD, &[w, y]));
    g.output("sum", one(&g, &SUM, &[y]));
    g.finish([]).unwrap()
}

#[test]
fn threads_agree_and_sleep_and_wake() {
    let graph = work(|_, y, _| y);
    let mut results = Vec::new();
    for threads in [1, 2, 7] {
        let mut p = Session::new().threads(threads).compile(&graph).unwrap();
        assert_eq!(p.threads(), threads);
        p.values_mut::<f32>("x").unwrap().iter_mut().enumerate().for_each(|(i, x)| *x = i as f32);
        for step in 0..4 {
            p.step().unwrap();
            if step == 2 {
                std::thread::sleep(Duration::from_millis(30));
            }
        }
        results.push((p.values::<f32>("sum").unwrap().to_vec(), p.values::<f32>("w").unwrap().to_vec()));
    }
    assert!(results.windows(2).all(|r| r[0] == r[1]));
}

#[test]
fn the_first_bad_element_is_reported_on_any_number_of_threads() {
    let graph = work(|g, y, at| one(g, &PICK, &[y, at]));
    for threads in [1, 2, 3] {
        let mut p = Session::new().threads(threads).compile(&graph).unwrap();
        p.values_mut::<f32>("x").unwrap().fill(0.0);
        for _ in 0..if cfg!(miri) { 2 } else { 20 } {
            let at = p.values_mut::<i32>("at").unwrap();
            (at[N - 1], at[N / 2]) = (N as i32, -1);
            let e = p.step().unwrap_err();
            assert_eq!(e.kind, Kind::Data);
            assert!(e.to_string().starts_with(&format!("t_pick: element {} ", N / 2)), "{e}");
            assert_eq!(p.values::<f32>("w").unwrap(), [0.0; N]);
            p.values_mut::<i32>("at").unwrap().fill(1);
            p.step().unwrap();
        }
    }
}

#[test]
fn a_panic_in_a_kernel_is_an_error() {
    let graph = work(|g, y, _| one(g, &PANICS, &[y]));
    for threads in [1, 2, 3] {
        let mut p = Session::new().threads(threads).compile(&graph).unwrap();
        p.values_mut::<f32>("x").unwrap().fill(1e6);
        assert!(p.step().unwrap_err().to_string().starts_with("t_panics: the kernel panicked"));
        p.values_mut::<f32>("x").unwrap().fill(0.0);
        p.step().unwrap();
    }
}

#[test]
fn small_programs_get_one_thread() {
    let g = Builder::new("g");
    let x = g.input("x", [4], F32);
    let graph = g.finish([(x + x).named("y")]).unwrap();
    assert_eq!(Session::new().threads(4).compile(&graph).unwrap().threads(), 1);
}
