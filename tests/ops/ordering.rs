//! Sorting, the largest elements, triangles, rolling, repeating and padding, against values worked out by hand.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{PLAIN, Tensor, run};
use arenagrad::graph::window::PadMode;
use arenagrad::graph::{Builder, DType, Init, Var};
use arenagrad::graph::{GradOptions, grad};

const NAN: f64 = f64::NAN;
const LEAST: f64 = f64::NEG_INFINITY;

fn of(dims: &[usize], data: &[f64], f: impl for<'g> Fn(Var<'g>) -> Vec<Var<'g>>) -> Vec<Tensor> {
    let g = Builder::new("f");
    let x = g.input("x", dims, DType::F64);
    let outs = f(x).into_iter().enumerate().map(|(i, v)| v.named(&format!("y{i}")));
    let outs: Vec<_> = outs.collect();
    run(&g.finish(outs).unwrap(), &[Tensor { dtype: DType::F64, dims: dims.to_vec(), data: data.to_vec() }], PLAIN)
}

fn same(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()))
}

#[test]
fn sorting_is_stable_and_puts_nan_last() {
    let x = [2.0, NAN, -1.0, 2.0, LEAST, 0.0];
    let outs = of(&[6], &x, |x| {
        let (up, p) = x.sort(0, false);
        let (down, q) = x.sort(-1, true);
        vec![up, p, down, q]
    });
    assert!(same(&outs[0].data, &[LEAST, -1.0, 0.0, 2.0, 2.0, NAN]), "{:?}", outs[0]);
    assert_eq!(outs[1].data, [4.0, 2.0, 5.0, 0.0, 3.0, 1.0]);
    assert!(same(&outs[2].data, &[2.0, 2.0, 0.0, -1.0, LEAST, NAN]), "{:?}", outs[2]);
    assert_eq!(outs[3].data, [0.0, 3.0, 5.0, 2.0, 4.0, 1.0]);
}

#[test]
fn any_axis_can_be_sorted() {
    let outs = of(&[3, 2], &[3.0, 1.0, 1.0, 5.0, 2.0, 0.0], |x| {
        let (y, p) = x.sort(0, false);
        vec![y, p]
    });
    assert_eq!(outs[0].data, [1.0, 0.0, 2.0, 1.0, 3.0, 5.0]);
    assert_eq!(outs[1].data, [1.0, 2.0, 2.0, 0.0, 0.0, 1.0]);
}

/// Engines have repeated a position where several elements are −∞.
#[test]
fn the_largest_elements_have_positions_of_their_own() {
    let outs = of(&[2, 4], &[LEAST, LEAST, 1.0, LEAST, 5.0, 5.0, 7.0, 0.0], |x| {
        let (y, p) = x.top_k(3, -1);
        vec![y, p]
    });
    assert_eq!(outs[0].data, [1.0, LEAST, LEAST, 7.0, 5.0, 5.0]);
    assert_eq!(outs[1].data, [2.0, 0.0, 1.0, 2.0, 0.0, 1.0]);
}

#[test]
fn the_largest_are_any_number_and_nan_comes_last() {
    let x = [2.0, NAN, -1.0, 2.0, LEAST, 0.0];
    for k in 0..=x.len() {
        let outs = of(&[6], &x, |x| {
            let ((y, p), (sorted, order)) = (x.top_k(k, 0), x.sort(0, true));
            vec![y, p, sorted, order]
        });
        assert!(same(&outs[0].data, &outs[2].data[..k]) && outs[1].data == outs[3].data[..k], "{k}: {outs:?}");
    }
    // Along another axis than the last.
    let outs = of(&[3, 2], &[3.0, 1.0, 1.0, 5.0, 2.0, 0.0], |x| {
        let (y, p) = x.top_k(2, 0);
        vec![y, p]
    });
    assert_eq!((&outs[0].data[..], &outs[1].data[..]), (&[3.0, 5.0, 2.0, 1.0][..], &[0.0, 1.0, 2.0, 0.0][..]));
    let g = Builder::new("f");
    let (y, _) = g.input("x", [3], DType::F32).top_k(4, 0);
    let e = g.finish([y.named("y")]).unwrap_err().to_string();
    assert!(e.contains("top_k") && e.contains("k is 4") && e.contains("ordering.rs"), "{e}");
}

#[test]
fn gradients_of_the_largest_go_back_to_their_places() {
    let g = Builder::new("f");
    let x = g.param("x", [2, 4], DType::F64, Init::Zeros);
    let (y, _) = x.top_k(2, 1);
    let loss = (y * y).sum(..).named("loss");
    let d = grad(g.finish([loss]).unwrap().view(), "loss", &GradOptions::wrt(&["x"])).unwrap();
    let data = vec![1.0, 4.0, 2.0, 3.0, -1.0, -4.0, -2.0, -3.0];
    let got = run(&d, &[Tensor { dtype: DType::F64, dims: vec![2, 4], data }], PLAIN).pop().unwrap();
    assert_eq!(got.data, [0.0, 8.0, 0.0, 6.0, -2.0, 0.0, -4.0, 0.0]);
}

#[test]
fn triangles_keep_what_is_on_their_side() {
    let outs = of(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, NAN], |x| vec![x.tril(0), x.triu(1), x.tril(-1), x.triu(-1)]);
    assert_eq!(outs[0].data, [1.0, 0.0, 0.0, 4.0, 5.0, 0.0]);
    assert!(same(&outs[1].data, &[0.0, 2.0, 3.0, 0.0, 0.0, NAN]));
    assert_eq!(outs[2].data, [0.0, 0.0, 0.0, 4.0, 0.0, 0.0]);
    assert!(same(&outs[3].data, &[1.0, 2.0, 3.0, 4.0, 5.0, NAN]));
}

#[test]
fn rolling_and_repeating() {
    let outs = of(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], |x| {
        let deep = x.reshape([1, 2, 1, 3, 1]).tile(&[2, 1, 1, 2, 1]);
        vec![x.roll(1, 1), x.roll(-1, -1), x.roll(7, 0), x.tile(&[2, 1]), x.tile(&[1, 2]), deep]
    });
    assert_eq!(outs[5].dims, [2, 2, 1, 6, 1]);
    assert_eq!(outs[5].data[6..14], [4.0, 5.0, 6.0, 4.0, 5.0, 6.0, 1.0, 2.0]);
    assert_eq!(outs[0].data, [3.0, 1.0, 2.0, 6.0, 4.0, 5.0]);
    assert_eq!(outs[1].data, [2.0, 3.0, 1.0, 5.0, 6.0, 4.0]);
    assert_eq!(outs[2].data, [4.0, 5.0, 6.0, 1.0, 2.0, 3.0]);
    assert_eq!((&outs[3].dims[..], outs[3].data[6]), (&[4, 3][..], 1.0));
    assert_eq!(outs[4].data, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0]);
}

#[test]
fn tensors_go_on_beyond_their_edges() {
    let outs = of(&[3], &[1.0, 2.0, 3.0], |x| {
        [PadMode::Reflect, PadMode::Replicate, PadMode::Circular].map(|m| x.pad_with(&[2], &[1], m)).to_vec()
    });
    assert_eq!(outs[0].data, [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
    assert_eq!(outs[1].data, [1.0, 1.0, 1.0, 2.0, 3.0, 3.0]);
    assert_eq!(outs[2].data, [2.0, 3.0, 1.0, 2.0, 3.0, 1.0]);
    let outs = of(&[2, 2], &[1.0, 2.0, 3.0, 4.0], |x| vec![x.pad_with(&[1, 0], &[0, 1], PadMode::Reflect)]);
    assert_eq!(outs[0].data, [3.0, 4.0, 3.0, 1.0, 2.0, 1.0, 3.0, 4.0, 3.0]);
}

#[test]
fn what_does_not_fit_is_named() {
    let error = |f: for<'g> fn(Var<'g>) -> Var<'g>| {
        let g = Builder::new("bad");
        f(g.input("x", [2, 3], DType::F32));
        g.finish([]).unwrap_err().to_string()
    };
    for (e, parts) in [
        (error(|x| x.top_k(4, 1).0), ["top_k", "3 elements", "k is 4"]),
        (error(|x| x.arg_sort(2, false)), ["arg_sort", "axis 2", "rank 2"]),
        (error(|x| x.pad_with(&[0, 3], &[0, 0], PadMode::Reflect)), ["pad", "3 and 0", "gives 2"]),
        (error(|x| x.roll(1, 5)), ["roll", "axis 5", "rank 2"]),
        (error(|x| x.pad_with(&[1 << 30, 0], &[0, 0], PadMode::Replicate)), ["pad", "1073741824", "axis 0"]),
        (error(|x| x.tile(&[2])), ["tile", "1 counts", "rank 2"]),
        (error(|x| x.reshape([6]).tril(0)), ["tril", "rank 2 or more", "[6]"]),
    ] {
        assert!(parts.iter().all(|p| e.contains(p)) && e.contains("tests/ops/ordering.rs"), "{e}");
    }
}
