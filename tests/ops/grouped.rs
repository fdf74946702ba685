//! Products of rows by the matrix of their group: numbers worked out elsewhere, a loop over rows, derivatives of second
//! order, faults, and refusals.

use crate::common::{PLAIN, Tensor, run, try_run_once};
use arenagrad::error::Kind;
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Var, grad};

const F64: DType = DType::F64;

fn tensor(dtype: DType, dims: &[usize], data: &[f64]) -> Tensor {
    Tensor { dtype, dims: dims.to_vec(), data: data.to_vec() }
}

/// y of x, w and the groups of the rows, or of their sizes; with the loss Σ y·g.
fn product(rows: usize, [groups, k, n]: [usize; 3], of: DType, tw: bool, by_size: bool) -> GraphBuf {
    let g = Builder::new("grouped");
    let w_dims = if tw { [groups, n, k] } else { [groups, k, n] };
    let (x, w) = (g.input("x", [rows, k], F64), g.input("w", w_dims, F64));
    let at = g.input("at", [if by_size { groups } else { rows }], of);
    let y = match by_size {
        true => x.sorted_grouped_matmul(w, at, tw),
        false => x.grouped_matmul_t(w, at, tw),
    };
    let weight = g.input("g", [rows, n], F64);
    g.finish([y.named("y"), (y * weight).sum(..).named("loss")]).unwrap()
}

const X: [f64; 8] = [1.0, 2.0, 3.0, -1.0, 0.5, 0.5, -2.0, 1.0];
const W: [f64; 12] = [1.0, 0.0, 0.0, 1.0, 2.0, 1.0, -1.0, 3.0, 0.0, 0.0, 5.0, 5.0];
const G: [f64; 8] = [1.0, 2.0, 0.0, 1.0, -1.0, 1.0, 3.0, 0.0];

#[test]
fn products_and_gradients_are_those_worked_out_elsewhere() {
    let plain = product(4, [3, 2, 2], DType::I32, false, false);
    let back = grad(&plain, "loss", &GradOptions::wrt(&["x", "w"])).unwrap();
    let given = [
        tensor(F64, &[4, 2], &X),
        tensor(F64, &[3, 2, 2], &W),
        tensor(DType::I32, &[4], &[1.0, 0.0, 1.0, 0.0]),
        tensor(F64, &[4, 2], &G),
    ];
    let outs = run(&back, &given, PLAIN);
    let named = |name: &str| {
        let v = back.view();
        outs[v.output_names.iter().position(|&s| v.str(s) == name).unwrap()].data.clone()
    };
    assert_eq!(named("y"), [0.0, 7.0, 3.0, -1.0, 0.5, 2.0, -2.0, 1.0]);
    assert_eq!(named("grad.x"), [4.0, 5.0, 0.0, 1.0, -1.0, 4.0, 3.0, 0.0]);
    let w = [-6.0, 3.0, 3.0, -1.0, 0.5, 2.5, 1.5, 4.5, 0.0, 0.0, 0.0, 0.0];
    assert_eq!(named("grad.w"), w);
    // Groups without rows have exact zeros.
    assert!(named("grad.w")[8..].iter().all(|x| x.to_bits() == 0));
}

fn fault(rows: usize, at: &[f64], by_size: bool) -> String {
    let graph = product(rows, [3, 2, 2], DType::I32, false, by_size);
    let x = vec![1.0; rows * 2];
    let given = [
        tensor(F64, &[rows, 2], &x),
        tensor(F64, &[3, 2, 2], &W),
        tensor(DType::I32, &[at.len()], at),
        tensor(F64, &[rows, 2], &x),
    ];
    let e = try_run_once(&graph, &given, PLAIN).unwrap_err();
    assert_eq!(e.kind, Kind::Data, "{e}");
    e.to_string()
}

#[test]
fn a_group_out_of_range_names_row_and_value() {
    let text = fault(4, &[0.0, 2.0, 3.0, -1.0], false);
    assert!(text.contains("grouped_matmul") && text.contains("element 2") && text.contains("is 3"), "{text}");
    assert!(text.contains("0..3"), "{text}");
    assert!(fault(2, &[1.0, -7.0], false).contains("is -7"));
    let text = fault(4, &[1.0, 2.0, 2.0], true);
    assert!(text.contains("sum to 5, and there are 4 rows"), "{text}");
    assert!(fault(4, &[-1.0, 3.0, 2.0], true).contains("element 0"));
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    let refused = |f: &dyn for<'g> Fn(&'g Builder) -> Var<'g>, why: &str| {
        let g = Builder::new("bad");
        let y = f(&g);
        let e = g.finish([y.named("y")]).unwrap_err().to_string();
        assert!(e.contains("grouped_") && e.contains(why) && e.contains("grouped.rs"), "{e}");
    };
    refused(
        &|g| g.input("x", [4, 3], F64).grouped_matmul(g.input("w", [2, 2, 5], F64), g.input("e", [4], DType::I32)),
        "rows",
    );
    refused(
        &|g| g.input("x", [4, 3], F64).grouped_matmul(g.input("w", [2, 3, 5], F64), g.input("e", [5], DType::I32)),
        "[5]",
    );
    refused(
        &|g| g.input("x", [4, 3], F64).grouped_matmul(g.input("w", [2, 3, 5], F64), g.input("e", [4], F64)),
        "i32 or i64",
    );
    refused(
        &|g| g.input("x", [4, 3], F64).grouped_matmul(g.input("w", [3, 5], F64), g.input("e", [4], DType::I32)),
        "rank 3",
    );
    refused(
        &|g| g.input("x", [4, 3], F64).grouped_outer(g.input("b", [5, 5], F64), g.input("e", [4], DType::I32), 2),
        "5",
    );
}
