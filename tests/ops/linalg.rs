//! Linear algebra: against torch (LAPACK) in f64, by what factors must give back, derivatives against differences,
//! faults, and wrong use.

use crate::common::{How, PLAIN, Tensor, run, try_run_once};
use arenagrad::error::Kind;
use arenagrad::graph::linalg::{Singular, TriangularOptions};
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Var, Vmap, grad, hvp};
use arenagrad::session::{Program, Session};
use arenagrad::tools::arena::ids::Id;
use arenagrad::tools::ir::opdef::Op;
use safetensors::SafeTensors;
use std::path::Path;

const F64: DType = DType::F64;

fn tensor(dims: &[usize], data: &[f64]) -> Tensor {
    Tensor { dtype: F64, dims: dims.to_vec(), data: data.to_vec() }
}

/// The graph of `f` of operands of these shapes.
fn graph(dims: &[&[usize]], f: impl for<'g> Fn(&[Var<'g>]) -> Vec<Var<'g>>) -> GraphBuf {
    let g = Builder::new("linalg");
    let x: Vec<Var> = dims.iter().zip(["a", "b", "c"]).map(|(d, name)| g.input(name, d, F64)).collect();
    for (i, y) in f(&x).into_iter().enumerate() {
        g.output(&format!("y{i}"), y);
    }
    g.finish([]).unwrap()
}

fn near(what: &str, ours: &[f64], theirs: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (a, b) in ours.iter().zip(theirs) {
        // Written so that a NaN fails.
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{what}: {ours:?}, not {theirs:?}");
    }
}

fn product(a: &[f64], b: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    (0..m * n).map(|e| (0..k).map(|p| a[e / n * k + p] * b[p * n + e % n]).sum()).collect()
}

/// Checks one case of the fixture: the results of `f`, and the gradients of their weighted sum.
fn agrees(case: &str, f: impl for<'g> Fn(&[Var<'g>]) -> Vec<Var<'g>>) {
    let bytes = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/linalg.safetensors")).unwrap();
    let fixture = SafeTensors::deserialize(&bytes).unwrap();
    let get = |key: &str| {
        let t = fixture.tensor(&format!("{case}.{key}")).ok()?;
        let data: Vec<f64> = t.data().as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect();
        Some(tensor(t.shape(), &data))
    };
    let given: Vec<(&str, Tensor)> = ["a", "b"].into_iter().filter_map(|k| Some((k, get(k)?))).collect();
    let g = Builder::new(case);
    let x: Vec<Var> = given.iter().map(|(k, t)| g.input(k, &t.dims, F64)).collect();
    let ys = f(&x);
    let loss = ys
        .iter()
        .map(|&y| (y * (g.iota(0, [y.numel()], F64) + 1.0).reshape(y.dims())).sum(..))
        .reduce(|a, b| a + b)
        .unwrap();
    ys.iter().enumerate().for_each(|(i, y)| g.output(&format!("y{i}"), *y));
    let all = g.finish([loss.named("loss")]).unwrap();
    let wrt: Vec<&str> = given.iter().map(|g| g.0).collect();
    let step = grad(&all, "loss", &GradOptions::wrt(&wrt)).unwrap();
    let inputs: Vec<Tensor> = given.iter().map(|g| g.1.clone()).collect();
    for how in [PLAIN, How { threads: 2, share: true, ..PLAIN }] {
        let (outs, v) = (run(&step, &inputs, how), step.view());
        for (t, &name) in outs.iter().zip(v.output_names).filter(|(_, n)| v.str(**n) != "loss") {
            let want = get(v.str(name)).unwrap();
            assert_eq!(t.dims, want.dims, "{case}.{}", v.str(name));
            near(&format!("{case}.{}", v.str(name)), &t.data, &want.data, 1e-9);
        }
    }
}

#[test]
fn results_and_gradients_are_those_of_lapack() {
    let upper = TriangularOptions::default().upper(true);
    let unit = TriangularOptions::default().transpose(true).unit(true);
    agrees("solve", |x| vec![x[0].solve(x[1])]);
    agrees("solve_batch", |x| vec![x[0].solve(x[1])]);
    agrees("solve_vec", |x| vec![x[0].solve_vec(x[1])]);
    agrees("upper", |x| vec![x[0].triangular_solve(x[1], upper)]);
    agrees("lower_unit", |x| vec![x[0].triangular_solve(x[1], unit)]);
    agrees("cholesky", |x| vec![x[0].cholesky()]);
    agrees("cholesky_solve", |x| vec![x[0].cholesky().cholesky_solve(x[1])]);
    agrees("det", |x| vec![x[0].det()]);
    agrees("slogdet", |x| x[0].slogdet().to_vec());
    agrees("inverse", |x| vec![x[0].inverse()]);
    agrees("qr", |x| x[0].qr().to_vec());
    agrees("qr_wide", |x| x[0].qr().to_vec());
    agrees("eigh", |x| x[0].eigh().to_vec());
    agrees("svd", |x| x[0].svd().to_vec());
    agrees("svd_wide", |x| x[0].svd().to_vec());
    agrees("lstsq", |x| vec![x[0].lstsq(x[1])]);
}

/// The example whose numbers are known by hand: A = [[2, 1], [1, 3]], b = [1, 2].
#[test]
fn the_two_by_two_system_has_its_solution_and_gradients() {
    let g = graph(&[&[2, 2], &[2]], |x| vec![x[0].solve_vec(x[1]), x[0].solve_vec(x[1]).sum(..)]);
    let step = grad(&g, "y1", &GradOptions::wrt(&["a", "b"])).unwrap();
    let outs = run(&step, &[tensor(&[2, 2], &[2.0, 1.0, 1.0, 3.0]), tensor(&[2], &[1.0, 2.0])], PLAIN);
    near("x", &outs[0].data, &[0.2, 0.6], 1e-15);
    let by_name = |name: &str| {
        let v = step.view();
        outs[v.output_names.iter().position(|&n| v.str(n) == name).unwrap()].data.clone()
    };
    near("b̄", &by_name("grad.b"), &[0.4, 0.2], 1e-15);
    near("Ā", &by_name("grad.a"), &[-0.08, -0.24, -0.04, -0.12], 1e-15);
}

/// Σw² = ‖A‖² does not depend on the choice of eigenvectors: its gradient is 2A, also where eigenvalues are equal.
#[test]
fn equal_eigenvalues_give_the_gradient_of_an_invariant_loss() {
    let twice = [2.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 5.0];
    let rotated = [3.5, 1.5, 0.0, 1.5, 3.5, 0.0, 0.0, 0.0, 2.0];
    for a in [twice, rotated] {
        let f = graph(&[&[3, 3]], |x| {
            let [w, u] = x[0].eigh();
            let back = (u * w.unsqueeze(-2)).matmul_t(u, false, true);
            let [left, s, right] = x[0].svd();
            let again = (left * s.unsqueeze(-2)).matmul(right);
            vec![(w * w).sum(..), (back * back).sum(..), (s * s).sum(..), (again * again).sum(..)]
        });
        for loss in ["y0", "y1", "y2", "y3"] {
            let step = grad(&f, loss, &GradOptions::wrt(&["a"])).unwrap();
            let outs = run(&step, &[tensor(&[3, 3], &a)], PLAIN);
            near(loss, &outs.last().unwrap().data, &a.map(|x| 2.0 * x), 1e-12);
        }
    }
}

#[test]
fn permutations_need_pivots_and_hilbert_matrices_keep_a_small_residual() {
    let p = [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
    let f = graph(&[&[3, 3], &[3, 1]], |x| vec![x[0].solve(x[1]), x[0].det(), x[0].inverse()]);
    let outs = run(&f, &[tensor(&[3, 3], &p), tensor(&[3, 1], &[1.0, 2.0, 3.0])], PLAIN);
    assert_eq!(outs[0].data, [2.0, 3.0, 1.0]);
    assert_eq!(outs[1].data, [1.0]);
    assert_eq!(outs[2].data, [0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    let h: Vec<f64> = (0..36).map(|e| 1.0 / (e / 6 + e % 6 + 1) as f64).collect();
    let b = [1.0, -1.0, 2.0, 0.5, 3.0, -2.0];
    let f = graph(&[&[6, 6], &[6, 1]], |x| vec![x[0].solve(x[1]), x[0].cholesky().cholesky_solve(x[1])]);
    for x in run(&f, &[tensor(&[6, 6], &h), tensor(&[6, 1], &b)], PLAIN) {
        let size = x.data.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        let back = product(&h, &x.data, [6, 6, 1]);
        assert!(back.iter().zip(b).all(|(y, b)| (y - b).abs() <= 1e-14 * size), "{back:?}");
    }
}

fn compiled(g: &GraphBuf) -> Program {
    Session::new().threads(1).compile(g).unwrap()
}

/// The ops of a step that factor a matrix, by instructions. The first of the two of `solve` factors; smaller matrices
/// than those here may have one.
fn factorisations(g: &GraphBuf) -> usize {
    let mut p = Session::new().threads(1).compile_traced(g).unwrap();
    for leaf in g.view().leaves() {
        // Matrices of 17 rows and columns become the identity.
        let to = p.values_mut::<f64>(leaf.name).unwrap();
        to.iter_mut().enumerate().for_each(|(e, x)| *x = f64::from(u8::from(e % 18 == 0)));
    }
    let calls = p.step_traced().unwrap().calls;
    let of = |op: &str| calls.iter().filter(|c| c.op == op).count();
    assert!(of("solve") % 2 == 0);
    of("solve") / 2 + of("lu")
}

#[test]
fn a_value_and_its_gradients_factor_once() {
    let f = graph(&[&[17, 17], &[17, 2]], |x| vec![x[0].solve(x[1]).sum(..)]);
    assert_eq!(factorisations(&f), 1);
    assert_eq!(factorisations(&grad(&f, "y0", &GradOptions::wrt(&["a", "b"])).unwrap()), 1);
    assert_eq!(factorisations(&hvp(&f, "y0", &["a", "b"]).unwrap()), 1);
    let f = graph(&[&[17, 17]], |x| vec![x[0].slogdet()[1]]);
    assert_eq!(factorisations(&grad(&f, "y0", &GradOptions::wrt(&["a"])).unwrap()), 1);
}

#[test]
fn a_bad_matrix_is_named_with_its_op_and_line() {
    let bad = [1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0];
    let b = tensor(&[2, 2, 1], &[1.0; 4]);
    let opt = TriangularOptions::default().upper(true);
    type Case = (&'static str, &'static str, for<'g> fn(&[Var<'g>]) -> Var<'g>);
    let cases: [Case; 4] = [
        ("solve", "matrix 1 is singular", |x| x[0].solve(x[1])),
        ("lu_solve", "matrix 1 is singular", |x| {
            let [lu, rows, _] = x[0].lu();
            lu.lu_solve(rows, x[1], false)
        }),
        ("solve", "matrix 1 is singular", |x| x[0].inverse()),
        ("cholesky", "matrix 1 is not positive definite", |x| x[0].cholesky()),
    ];
    for (op, why, f) in cases {
        let g = graph(&[&[2, 2, 2], &[2, 2, 1]], |x| vec![f(x)]);
        for how in [PLAIN, How { threads: 2, share: true, ..PLAIN }, How { optimise: false, ..PLAIN }] {
            let e = try_run_once(&g, &[tensor(&[2, 2, 2], &bad), b.clone()], how).unwrap_err();
            let text = e.to_string();
            assert_eq!(e.kind, Kind::Data, "{text}");
            assert!(text.contains(op) && text.contains(why) && text.contains(file!()), "{text}");
        }
    }
    let zero = tensor(&[2, 2, 2], &[1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    let g = graph(&[&[2, 2, 2], &[2, 2, 1]], |x| vec![x[0].triangular_solve(x[1], opt)]);
    let text = try_run_once(&g, &[zero.clone(), b.clone()], PLAIN).unwrap_err().to_string();
    assert!(text.contains("triangular_solve") && text.contains("matrix 1 is singular"), "{text}");
    let nan = opt.singular(Singular::Nan);
    let g = graph(&[&[2, 2, 2], &[2, 2, 1]], |x| {
        vec![
            x[0].triangular_solve(x[1], nan),
            x[0].solve_or_nan(x[1]),
            x[0].det(),
            x[0].slogdet()[0],
            x[0].slogdet()[1],
        ]
    });
    let outs = run(&g, &[zero, b], PLAIN);
    for x in &outs[..2] {
        assert!(x.data[..2] == [0.0, 1.0] && x.data[2..].iter().all(|x| x.is_nan()), "{:?}", x.data);
    }
    assert_eq!((&outs[2].data[..], &outs[3].data[..]), (&[1.0, 0.0][..], &[1.0, 0.0][..]));
    assert_eq!(outs[4].data, [0.0, f64::NEG_INFINITY]);
}

/// A step that a singular matrix stops changes no param.
#[test]
fn a_singular_matrix_leaves_params_as_they_are() {
    let g = Builder::new("fit");
    let w = g.param("w", [2, 2], F64, arenagrad::graph::Init::Zeros);
    let loss = w.solve(g.input("b", [2, 1], F64)).sum(..) + (w * w).sum(..);
    let graph = g.finish([loss.named("loss")]).unwrap();
    let step = arenagrad::optim::train(&graph, "loss", arenagrad::optim::Sgd::new(0.1)).unwrap();
    let mut p = compiled(&step);
    p.init(0).unwrap();
    let singular = [1.0, 2.0, 2.0, 4.0];
    p.values_mut::<f64>("w").unwrap().copy_from_slice(&singular);
    p.values_mut::<f64>("b").unwrap().copy_from_slice(&[1.0, 1.0]);
    let text = p.step().unwrap_err().to_string();
    assert!(text.contains("matrix 0 is singular") && !text.contains("may be changed"), "{text}");
    assert_eq!(p.values::<f64>("w").unwrap(), singular);
}

#[test]
fn matrices_without_rows_or_right_hand_sides_have_empty_results() {
    let f = graph(&[&[2, 0, 0], &[0, 3]], |x| {
        let mut all = vec![x[0].solve(x[1]), x[0].det(), x[0].inverse(), x[0].cholesky()];
        all.extend(x[0].slogdet());
        all.extend(x[0].eigh());
        all.extend(x[0].svd());
        all.extend(x[1].qr());
        all
    });
    let outs = run(&f, &[tensor(&[2, 0, 0], &[]), tensor(&[0, 3], &[])], PLAIN);
    assert_eq!(
        (&outs[1].data[..], &outs[4].data[..], &outs[5].data[..]),
        (&[1.0; 2][..], &[1.0; 2][..], &[0.0; 2][..])
    );
    assert!([0, 2, 3, 6, 7].iter().all(|&i| outs[i].data.is_empty()));
    let f = graph(&[&[2, 2], &[2, 0]], |x| vec![x[0].solve(x[1]), x[0].solve(x[1]).sum(..)]);
    let step = grad(&f, "y1", &GradOptions::wrt(&["a", "b"])).unwrap();
    let outs = run(&step, &[tensor(&[2, 2], &[1.0, 0.0, 0.0, 1.0]), tensor(&[2, 0], &[])], PLAIN);
    assert!(outs[0].data.is_empty() && outs.iter().any(|t| t.data == [0.0; 4]), "{outs:?}");
}

#[test]
fn wrong_use_names_the_op_and_the_shapes() {
    let refused = |dims: [&[usize]; 2], dtypes: [DType; 2], f: for<'g> fn(&[Var<'g>]) -> Var<'g>| {
        let g = Builder::new("wrong");
        let x = [g.input("a", dims[0], dtypes[0]), g.input("b", dims[1], dtypes[1])];
        g.finish([f(&x)]).unwrap_err().to_string()
    };
    let f64s = [F64; 2];
    let cases: [([&[usize]; 2], [DType; 2], for<'g> fn(&[Var<'g>]) -> Var<'g>, [&str; 2]); 14] = [
        ([&[2, 3], &[2, 1]], f64s, |x| x[0].solve(x[1]), ["solve", "must be square"]),
        ([&[2, 2], &[3, 1]], f64s, |x| x[0].solve(x[1]), ["[2,2]", "[3,1]"]),
        ([&[2, 2, 2], &[3, 2, 1]], f64s, |x| x[0].solve(x[1]), ["solve", "do not broadcast"]),
        ([&[2, 2], &[2]], f64s, |x| x[0].solve(x[1]), ["B has shape [2]", "rank 2"]),
        ([&[2, 2], &[]], f64s, |x| x[0].solve_vec(x[1]), ["solve_vec", "a scalar"]),
        ([&[2, 2], &[2, 1]], [F64, DType::F32], |x| x[0].solve(x[1]), ["solve", "cast one"]),
        ([&[2, 2], &[2, 1]], [DType::I32; 2], |x| x[0].solve(x[1]), ["solve", "f32 or f64"]),
        ([&[2], &[2]], f64s, |x| x[0].cholesky(), ["cholesky", "rank 2"]),
        ([&[2, 3], &[2]], f64s, |x| x[0].eigh()[0], ["eigh", "must be square"]),
        ([&[3], &[2]], f64s, |x| x[0].svd()[1], ["svd", "rank 2"]),
        ([&[2, 3], &[2]], f64s, |x| x[0].det(), ["lu", "must be square"]),
        ([&[2], &[2]], f64s, |x| x[0].inverse(), ["inverse", "square"]),
        ([&[2, 3], &[2, 1]], f64s, |x| x[0].lstsq(x[1]), ["lstsq", "as many rows"]),
        ([&[2, 2], &[2]], [F64, DType::I64], |x| x[0].lu_solve(x[1], x[0], false), ["lu_solve", "i32 is needed"]),
    ];
    for (dims, dtypes, f, parts) in cases {
        let text = refused(dims, dtypes, f);
        assert!(parts.iter().all(|p| text.contains(p)) && text.contains(file!()), "{parts:?}: {text}");
    }
}

#[test]
fn least_squares_and_inverses_refuse_in_their_own_words() {
    let refused = |dtype: DType, b: &[usize], f: for<'g> fn(Var<'g>, Var<'g>) -> Var<'g>| {
        let g = Builder::new("wrong");
        assert!(!f(g.input("a", [3, 3], dtype), g.input("b", b, dtype)).is_some());
        g.finish([]).unwrap_err().to_string()
    };
    let e = refused(F64, &[2, 1], |a, b| a.lstsq(b));
    assert!(e.contains("lstsq(") && e.contains("B has shape [2,1]; a row for each row of A is needed"), "{e}");
    let e = refused(F64, &[3], |a, b| a.lstsq(b));
    assert!(e.contains("lstsq(") && e.contains("B has shape [3]; a row for each row of A is needed"), "{e}");
    let e = refused(DType::I32, &[3], |a, _| a.inverse());
    assert!(e.contains("inverse(") && e.contains("square matrices of f32 or f64 are needed"), "{e}");
}

/// As many rows as columns are enough.
#[test]
fn least_squares_of_a_square_matrix_are_its_solution() {
    let f = graph(&[&[2, 2], &[2, 1]], |x| vec![x[0].lstsq(x[1])]);
    let outs = run(&f, &[tensor(&[2, 2], &[2.0, 1.0, 1.0, 3.0]), tensor(&[2, 1], &[1.0, 2.0])], PLAIN);
    near("x", &outs[0].data, &[0.2, 0.6], 1e-14);
}

/// Eigenvalues 1 − gap and 1: ∂u₀₁/∂A is ½/gap at both numbers off the diagonal, and NaN where the gap is not above 16
/// roundings of the largest magnitude.
#[test]
fn eigenvalues_that_rounding_does_not_tell_apart_have_no_gap() {
    for (dtype, epsilon) in [(F64, f64::EPSILON), (DType::F32, f64::from(f32::EPSILON))] {
        for (roundings, told_apart) in [(16.0, false), (16.5, true)] {
            let gap = roundings * epsilon;
            let g = Builder::new("near");
            let [_, u] = g.input("a", [2, 2], dtype).eigh();
            let f = g.finish([u.narrow(0, 0, 1).narrow(1, 1, 1).sum(..).named("loss")]).unwrap();
            let step = grad(&f, "loss", &GradOptions::wrt(&["a"])).unwrap();
            let a = Tensor { dtype, dims: vec![2, 2], data: vec![1.0 - gap, 0.0, 0.0, 1.0] };
            let outs = run(&step, &[a], PLAIN);
            let slopes = &outs.last().unwrap().data;
            match told_apart {
                true => near("Ā", slopes, &[0.0, 0.5 / gap, 0.5 / gap, 0.0], 1e-6),
                false => assert!(slopes.iter().any(|x| x.is_nan()), "{slopes:?}"),
            }
        }
    }
}

#[test]
fn decompositions_of_matrices_without_rows_have_empty_gradients() {
    let of_w = graph(&[&[2, 0, 0]], |x| x[0].eigh().map(|y| y.sum(..)).to_vec());
    let of_s = graph(&[&[2, 0, 0]], |x| x[0].svd().map(|y| y.sum(..)).to_vec());
    for (f, loss) in [(&of_w, "y0"), (&of_w, "y1"), (&of_s, "y0"), (&of_s, "y1"), (&of_s, "y2")] {
        let step = grad(f, loss, &GradOptions::wrt(&["a"])).unwrap();
        let gradient = run(&step, &[tensor(&[2, 0, 0], &[])], PLAIN).pop().unwrap();
        assert_eq!((&gradient.dims[..], gradient.data.len()), (&[2, 0, 0][..], 0));
    }
}

/// The derivative has a part outside the span of U for tall matrices, and of V for wide ones.
#[test]
fn only_tall_and_wide_matrices_have_parts_outside_of_their_factors() {
    let products = |dims: &[usize], factor: usize| {
        let f = graph(&[dims], |x| vec![x[0].svd()[factor].square().sum(..)]);
        let step = grad(&f, "y0", &GradOptions::wrt(&["a"])).unwrap();
        step.view().op.iter().filter(|op| **op == Op::MATMUL).count()
    };
    let [u, vt] = [products(&[3, 3], 0), products(&[3, 3], 2)];
    assert!(products(&[4, 3], 0) > u && products(&[3, 4], 2) > vt);
    assert_eq!([products(&[3, 4], 0), products(&[4, 3], 2)], [u, vt]);
}

#[test]
fn members_that_share_factors_share_them_unrepeated() {
    let g = Builder::new("shared");
    let (lu, rows) = (g.input("lu", [3, 3], F64), g.input("rows", [3], DType::I32));
    let f = g.finish([lu.lu_solve(rows, g.input("b", [3, 2], F64), false).named("x")]).unwrap();
    let all = f.vmap(&Vmap::new(4).leaf("b", 0)).unwrap();
    let v = all.view();
    let solves: Vec<_> = v.region_nodes(v.entry()).filter(|n| v.op[n.at()] == Op::LU_SOLVE).collect();
    assert_eq!(solves.len(), 1, "{all}");
    let dims: Vec<_> = v.args_of(solves[0]).iter().map(|&x| v.dims(x).to_vec()).collect();
    assert_eq!(dims, [vec![3, 3], vec![3], vec![4, 3, 2]]);
}
