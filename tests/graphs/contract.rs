//! Sums of products of broadcasts become products of matrices, with the terms of the sum.

#![allow(clippy::unwrap_used)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, conform_distance, run};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Init, Vmap, grad, vmap};
use arenagrad::op::Op;
use arenagrad::prelude::{Precision, Session};
use arenagrad::tools::arena::Region;
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::ir::opdef::Domain;
use arenagrad::tools::passes::pipeline;

fn drawn(g: &GraphBuf, seed: u64) -> Vec<Tensor> {
    let (v, mut d) = (g.view(), TensorDraws(seed));
    v.leaves().map(|l| d.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Unit)).collect()
}

/// Nodes called `name`.
fn count(g: &GraphBuf, name: &str) -> usize {
    let v = g.view();
    (0..v.regions()).flat_map(|r| v.region_nodes(Region::new(r))).filter(|&n| v.def_of(n).name == name).count()
}

/// The graph after the pass, and how many sums it replaced. The values of both differ by rounding.
fn contracted(g: &GraphBuf, what: &str) -> (GraphBuf, usize) {
    let names: Vec<&str> = pipeline::pipeline_passes().into_iter().take_while(|&p| p != "patterns").collect();
    let (made, traces) = pipeline::run_pipeline(g, &names, true).unwrap();
    let hits = traces.iter().filter_map(|t| t.hits.get("contracted-sum")).sum();
    let (x, how) = (drawn(g, 7), How { optimise: false, ..PLAIN });
    let want = run(g, &x, how);
    let double = g.view().leaves().any(|l| g.view().dtype[l.value.at()] == DType::F64);
    let most = if double { 1e-13 } else { 2e-5 };
    for (threads, share) in [(1, false), (2, true)] {
        let got = run(&made, &x, How { threads, share, ..how });
        for (a, b) in got.iter().zip(&want) {
            assert!(conform_distance(&a.data, &b.data) < most, "{what}: {a:?}\nis not\n{b:?}");
        }
    }
    (made, hits)
}

/// `(a·b).sum(axes)` of operands that broadcast.
fn sum_of(a: &[usize], b: &[usize], axes: &[i64], dtype: DType) -> GraphBuf {
    let g = Builder::new("sum");
    let (a, b) = (g.param("a", a, dtype, Init::Normal(1.0)), g.param("b", b, dtype, Init::Normal(1.0)));
    g.finish([(a * b).sum(axes).named("y")]).unwrap()
}

/// Operands, the axes of the sum, and the transposes that are left.
type Case = (&'static [usize], &'static [usize], &'static [i64], usize);

const PRODUCTS: &[Case] = &[
    // Each order of rows, columns and terms.
    (&[30, 9, 1], &[9, 7], &[1], 0),
    (&[30, 1, 9], &[7, 9], &[2], 0),
    (&[9, 30, 1], &[9, 1, 7], &[0], 0),
    (&[1, 30, 9], &[7, 1, 9], &[2], 0),
    // A matrix and a vector.
    (&[60, 33], &[33], &[1], 0),
    (&[60, 33], &[60, 1], &[0], 0),
    // Batches, of matrices and of vectors; two axes of terms; axes of length 1.
    (&[5, 30, 1, 9], &[5, 1, 7, 9], &[3], 0),
    (&[5, 12, 9], &[5, 1, 9], &[2], 0),
    (&[5, 2, 12, 9], &[5, 1, 1, 9], &[3], 0),
    (&[6, 3, 1, 5, 8], &[1, 1, 4, 5, 8], &[3, 4], 0),
    (&[1, 30, 9, 1, 1], &[1, 9, 1, 7], &[2], 0),
    // Factors whose axes of terms stand apart, and a result between axes of one factor.
    (&[16, 6, 1, 8], &[6, 20, 8], &[1, 3], 1),
    (&[1, 40, 3, 1], &[4, 1, 3, 2], &[2], 2),
];

#[test]
fn sums_of_products_are_products_of_matrices() {
    for &(a, b, axes, moves) in PRODUCTS {
        for dtype in [DType::F32, DType::F64] {
            for (a, b) in [(a, b), (b, a)] {
                let what = format!("{a:?} {b:?} {axes:?}");
                let (made, hits) = contracted(&sum_of(a, b, axes, dtype), &what);
                let ops = ["matmul", "reduce_sum", "transpose"].map(|op| count(&made, op));
                assert_eq!((hits, ops), (1, [1, 0, moves]), "{what}\n{made:?}");
            }
        }
    }
}

/// Sums that would move too much, that are no product, or that are small.
#[test]
fn other_sums_stay() {
    let cases: &[(&[usize], &[usize], &[i64])] = &[
        (&[40, 30], &[40, 30], &[1]),
        (&[40, 30], &[40, 1], &[1]),
        (&[40, 30], &[30], &[0, 1]),
        (&[40, 1], &[30], &[0, 1]),
        (&[2, 12, 5, 9], &[2, 1, 5, 9], &[3]),
        (&[7, 4, 1], &[4, 5], &[1]),
        (&[100, 3, 3, 1], &[100, 1, 3, 3], &[2]),
        (&[40, 30, 1], &[1, 30, 0], &[1]),
        // A prime number of terms has no chunks; a vector would be moved for them.
        (&[1031, 4], &[1031, 1], &[0]),
        (&[3, 4096], &[4096], &[1]),
    ];
    for (a, b, axes) in cases {
        let what = format!("{a:?} {b:?} {axes:?}");
        assert_eq!(contracted(&sum_of(a, b, axes, DType::F32), &what).1, 0, "{what}");
    }
    let g = Builder::new("counts");
    let (a, b) = (g.input("a", [40, 30, 1], DType::I64), g.input("b", [30, 20], DType::I64));
    assert_eq!(contracted(&g.finish([(a * b).sum(1).named("y")]).unwrap(), "integers").1, 0);
}

#[test]
fn gradients_means_and_members_follow() {
    let g = Builder::new("factors");
    let (x, v) = (g.input("x", [24, 20], DType::F32), g.param("v", [20, 16], DType::F32, Init::Normal(0.3)));
    let e = (x.unsqueeze(-1) * v).mean(1);
    let loss = g.finish([e.square().sum(..).named("loss")]).unwrap();
    let step = grad(&loss, "loss", &GradOptions::default()).unwrap();
    // Forward, and the gradient of v; that of x is not asked for.
    assert_eq!(contracted(&step, "gradient").1, 2);
    let members = vmap(&step, &Vmap::new(3).leaves(&["x"])).unwrap();
    assert_eq!(contracted(&members, "members").1, 2);
}

/// The gradient of a sum of |x − y| is one of products with its signs. Few signs are stored and multiplied; many are
/// computed where they are summed, unless fusion cannot: no number of columns that fits in a unit divides 1,103.
#[test]
fn factors_that_are_computed_again_stay() {
    for (m, n, k, hits) in [(20, 256, 8, 1), (1024, 256, 8, 0), (64, 33, 1103, 1)] {
        let g = Builder::new("signs");
        let (x, y) = (g.input("x", [m, 1, k], DType::F64), g.input("y", [1, n, k], DType::F64));
        let w = g.input("w", [m, n, 1], DType::F64);
        let g = g.finish([((x - y).sign() * w).sum(1).named("sum")]).unwrap();
        assert_eq!(contracted(&g, "signs").1, hits, "{m} {n} {k}");
    }
}

/// A sum that keeps its axes, a mean over two axes with a batch, terms that others read.
#[test]
fn results_have_the_shape_and_name_of_the_sum() {
    let g = Builder::new("shapes");
    let a = g.param("a", [5, 12, 1, 9], DType::F64, Init::Normal(1.0));
    let b = g.param("b", [5, 1, 7, 9], DType::F64, Init::Normal(1.0));
    let terms = a * b;
    let kept = terms.reduce(Op::REDUCE_SUM, 3, true).named("kept");
    let (c, d) = (a.reshape([5, 4, 1, 3, 9]), g.param("d", [5, 1, 7, 3, 9], DType::F64, Init::Normal(1.0)));
    let mean = (c * d).mean([3, 4]).named("mean");
    let made = contracted(&g.finish([kept, mean, terms.square().named("terms")]).unwrap(), "shapes");
    assert_eq!(made.1, 2);
    let v = made.0.view();
    let kept = v.find_output("kept").unwrap();
    assert_eq!(*v.dims(kept), [5, 12, 7, 1]);
    assert!(v.location(v.def[kept.at()]).to_string().contains("contract.rs"), "{made:?}");
}

/// Digits of a long sum: terms in chunks, whose sums are reduced pairwise.
#[test]
fn long_sums_keep_their_digits() {
    let g = Builder::new("long");
    let (x, w) = (g.input("x", [1 << 17, 4], DType::F32), g.input("w", [1 << 17, 1], DType::F32));
    let g = g.finish([(x * w).mean(0).named("y")]).unwrap();
    let names: Vec<&str> = pipeline::pipeline_passes().into_iter().take_while(|&p| p != "patterns").collect();
    let (made, traces) = pipeline::run_pipeline(&g, &names, true).unwrap();
    assert_eq!(traces.iter().filter_map(|t| t.hits.get("contracted-sum")).sum::<usize>(), 1);
    let terms: Vec<Tensor> = drawn(&g, 3)
        .into_iter()
        .map(|t| Tensor { data: t.data.iter().map(|x| x.abs() + 0.5).collect(), ..t })
        .collect();
    let y = run(&made, &terms, How { optimise: false, ..PLAIN });
    for c in 0..4 {
        let exact: f64 = (0..1 << 17)
            .map(|r| f64::from(terms[0].data[4 * r + c] as f32) * f64::from(terms[1].data[r] as f32))
            .sum::<f64>()
            / f64::from(1 << 17);
        assert!((y[0].data[c] - exact).abs() < 1e-6 * exact, "{c}: {} is not {exact}", y[0].data[c]);
    }
}

/// In a body of a loop, too.
#[test]
fn sums_in_loops_are_products() {
    let g = Builder::new("loop");
    let (w, h) = (g.param("w", [24, 24], DType::F32, Init::Normal(0.2)), g.input("h", [24], DType::F32));
    let xs = g.input("xs", [5, 24], DType::F32);
    let (last, _) = g.scan(&[h], &[xs], |c, x| (vec![((c[0].unsqueeze(-1) * w).sum(0) + x[0]).tanh()], vec![]));
    let loss = g.finish([last[0].sum(..).named("loss")]).unwrap();
    assert!(contracted(&grad(&loss, "loss", &GradOptions::default()).unwrap(), "loop").1 >= 2);
}

/// A precision of products is for those that a user wrote.
#[test]
fn a_chosen_precision_does_not_reach_sums() {
    let g = sum_of(&[64, 48, 1], &[48, 32], &[1], DType::F32);
    let products = |s: Session| s.plan(&g).unwrap().products;
    assert_eq!(products(Session::new()), [1, 0, 0, 0]);
    assert_eq!(products(Session::new().precision(Precision::Bf16)), [0; 4]);
    assert_eq!(products(Session::new().precision(Precision::Bf16).memory_budget(1 << 20)), [0; 4]);
}
