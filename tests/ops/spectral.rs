//! Derivatives where eigenvalues or singular values are equal or 0: NaN where there is none, and the right numbers for
//! functions that have one.

use crate::common::{PLAIN, Tensor, run};
use arenagrad::graph::linalg::MatrixFunction;
use arenagrad::graph::{Builder, DType, GradOptions, GraphBuf, Var, grad};

const F64: DType = DType::F64;
const ALL: [MatrixFunction; 4] =
    [MatrixFunction::Exp, MatrixFunction::Log, MatrixFunction::Sqrt, MatrixFunction::InverseSqrt];

fn tensor(dtype: DType, dims: &[usize], data: &[f64]) -> Tensor {
    Tensor { dtype, dims: dims.to_vec(), data: data.to_vec() }
}

fn graph(dtype: DType, dims: &[usize], f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> GraphBuf {
    let g = Builder::new("spectral");
    g.finish([f(g.input("a", dims, dtype)).named("y")]).unwrap()
}

/// The gradient of Σ cᵢ·yᵢ, y = f(a).
fn gradient(a: &Tensor, c: &[f64], f: impl for<'g> Fn(Var<'g>) -> Var<'g>) -> Vec<f64> {
    let g = Builder::new("spectral");
    let y = f(g.input("a", &a.dims, a.dtype));
    let weights = c.iter().map(|&c| g.full(c, [1], a.dtype)).collect::<Vec<_>>();
    let weights = weights[0].concat(&weights[1..], 0).reshape(y.dims());
    let all = g.finish([(y * weights).sum(..).named("loss")]).unwrap();
    let step = grad(&all, "loss", &GradOptions::wrt(&["a"])).unwrap();
    run(&step, std::slice::from_ref(a), PLAIN).pop().unwrap().data
}

fn near(what: &str, ours: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), want.len(), "{what}");
    for (a, b) in ours.iter().zip(want) {
        // Written so that a NaN fails.
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{what}: {ours:?}, not {want:?}");
    }
}

fn again(a: Var<'_>) -> Var<'_> {
    let [w, u] = a.eigh();
    (u * w.unsqueeze(-2)).matmul_t(u, false, true)
}

fn turned(a: Var<'_>) -> Var<'_> {
    let [u, _, vt] = a.svd();
    u.matmul(vt)
}

fn svd_again(a: Var<'_>) -> Var<'_> {
    let [u, s, vt] = a.svd();
    (u * s.unsqueeze(-2)).matmul(vt)
}

/// The functions of these vectors have derivatives; the vectors have none.
#[test]
fn vectors_of_equal_values_have_the_gradient_nan() {
    let corner = [0.0, 1.0, 0.0, 0.0];
    let functions: [for<'g> fn(Var<'g>) -> Var<'g>; 3] = [again, turned, svd_again];
    for dtype in [F64, DType::F32] {
        // Equal, and with a difference that rounding does not tell from 0.
        for second in [1.0, if dtype == F64 { 1.0 + 1e-15 } else { 1.0 + 1e-6 }] {
            let a = tensor(dtype, &[2, 2], &[1.0, 0.0, 0.0, second]);
            for (i, f) in functions.into_iter().enumerate() {
                let slope = gradient(&a, &corner, f);
                assert!(slope.iter().any(|x| x.is_nan()), "{i} {dtype}: {slope:?}");
            }
            // Eigenvalues and singular values alone: Σw³ has 3A².
            let cubes = [1.0; 2];
            near("Σw³", &gradient(&a, &cubes, |a| a.eigh()[0].pow(3.0)), &[3.0, 0.0, 0.0, 3.0], 1e-5);
            near("Σs³", &gradient(&a, &cubes, |a| a.svd()[1].pow(3.0)), &[3.0, 0.0, 0.0, 3.0], 1e-5);
        }
    }
    // The pair of equal values is not asked for: the vector of the other one has its derivative.
    let a = tensor(F64, &[3, 3], &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 3.0]);
    near(
        "u₃",
        &gradient(&a, &[1.0], |a| a.eigh()[1].narrow(1, 2, 1).narrow(0, 0, 1)),
        &[0.0, 0.0, 0.25, 0.0, 0.0, 0.0, 0.25, 0.0, 0.0],
        1e-14,
    );
    // One matrix of a batch.
    let both = tensor(F64, &[2, 2, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 3.0]);
    let slopes = gradient(&both, &[corner, corner].concat(), again);
    assert!(slopes[..4].iter().any(|x| x.is_nan()), "{slopes:?}");
    near("the other", &slopes[4..], &[0.0, 0.5, 0.5, 0.0], 1e-14);
}

#[test]
fn functions_and_polar_factors_have_their_gradients_at_the_identity() {
    let one = |dtype| tensor(dtype, &[2, 2], &[1.0, 0.0, 0.0, 1.0]);
    let corner = [0.0, 1.0, 0.0, 0.0];
    for (dtype, tolerance) in [(F64, 1e-15), (DType::F32, 1e-6)] {
        for (f, slope) in ALL.into_iter().zip([std::f64::consts::E, 1.0, 0.5, -0.5]) {
            let got = gradient(&one(dtype), &corner, |a| a.matrix_function(f));
            near(&format!("{f:?}"), &got, &[0.0, slope / 2.0, slope / 2.0, 0.0], tolerance);
            let all = [1.0, 2.0, 3.0, 4.0];
            let got = gradient(&one(dtype), &all, |a| a.matrix_function(f));
            near(&format!("{f:?}"), &got, &[1.0, 2.5, 2.5, 4.0].map(|x| x * slope), tolerance);
        }
        near("Q", &gradient(&one(dtype), &corner, |a| a.matrix_polar()[0]), &[0.0, 0.5, -0.5, 0.0], tolerance);
        near("H", &gradient(&one(dtype), &corner, |a| a.matrix_polar()[1]), &[0.0, 0.5, 0.5, 0.0], tolerance);
    }
}

/// f32 matrices Q·diag(2, 2 + gap)·Qᵀ: to first order, f'(2)·sym C.
#[test]
fn functions_of_nearly_equal_eigenvalues_keep_their_digits() {
    let (c, s) = (0.8, 0.6);
    let two = 2.0_f64;
    for gap in [0.0, 1e-7, 1e-6, 1e-5, 1e-4] {
        let a = [2.0 + gap * s * s, gap * c * s, gap * c * s, 2.0 + gap * c * c];
        let a = tensor(DType::F32, &[2, 2], &a.map(|x| f64::from(x as f32)));
        let weights = [1.0, -2.0, 3.0, 0.5];
        let slopes = [two.exp(), 0.5, 0.5 / two.sqrt(), -0.5 / (two * two.sqrt())];
        for (f, slope) in ALL.into_iter().zip(slopes) {
            let want = [1.0, 0.5, 0.5, 0.5].map(|x| x * slope);
            near(&format!("{f:?} {gap}"), &gradient(&a, &weights, |a| a.matrix_function(f)), &want, 2e-6 + 3.0 * gap);
        }
        // Of a symmetric matrix near 2: half of the skew part, (C − Cᵀ)/(s₁ + s₂).
        near("Q", &gradient(&a, &weights, |a| a.matrix_polar()[0]), &[0.0, -1.25, 1.25, 0.0], 2e-6 + 3.0 * gap);
    }
}

/// dᵏ/dtᵏ Σ C∘f(A + tE) at t = 0.
fn along(a: &Tensor, [c, e]: [&[f64]; 2], order: usize, f: MatrixFunction) -> f64 {
    let g = Builder::new("spectral");
    let matrix = |name: &str| g.input(name, &a.dims, a.dtype);
    let (at, t) = (matrix("a"), g.input("t", [], a.dtype));
    let y = (at + matrix("e") * t).matrix_function(f);
    let mut all = g.finish([(y * matrix("c")).sum(..).named("d0")]).unwrap();
    for k in 1..=order {
        let slope = grad(&all, &format!("d{}", k - 1), &GradOptions::wrt(&["t"])).unwrap();
        all = slope.rename("grad.t", &format!("d{k}")).unwrap();
    }
    let [c, e] = [c, e].map(|m| tensor(a.dtype, &a.dims, m));
    run(&all, &[a.clone(), tensor(a.dtype, &[], &[0.0]), e, c], PLAIN).pop().unwrap().data[0]
}

/// Around a·I, f(A + tE) is f(a)·I + f'(a)·tE + f''(a)·t²E²/2 + …: at equal eigenvalues and, to first order in their
/// distance, at near ones. A third derivative at equal ones is that or NaN.
#[test]
fn second_derivatives_at_equal_eigenvalues_are_those_of_the_series() {
    let (c, e) = ([1.0, -2.0, 3.0, 0.5], [0.5, 0.3, 0.3, -0.7]);
    // The entries of E² and E³.
    let (square, cube) = ([0.34, -0.06, -0.06, 0.58], [0.152, 0.144, 0.144, -0.424]);
    let dot = |m: [f64; 4]| c.iter().zip(m).map(|(c, m)| c * m).sum::<f64>();
    let (exp, two) = (2f64.exp(), 2f64);
    let bends = [exp, -0.25, -0.25 * two.powf(-1.5), 0.75 * two.powf(-2.5)];
    let thirds = [exp, 0.25, 0.375 * two.powf(-2.5), -1.875 * two.powf(-3.5)];
    for dtype in [F64, DType::F32] {
        let (digits, gaps) = if dtype == F64 {
            (1e-13, [0.0, 4e-16, 1e-14, 1e-12, 1e-9, 1e-6])
        } else {
            (4e-6, [0.0, 2.4e-7, 1e-6, 1e-5, 1e-4, 1e-3])
        };
        for gap in gaps {
            // Eigenvalues 2 and 2 + gap, in a turned basis.
            let a = [2.0 + gap * 0.36, gap * 0.48, gap * 0.48, 2.0 + gap * 0.64];
            let round = |x: f64| if dtype == F64 { x } else { f64::from(x as f32) };
            let a = tensor(dtype, &[2, 2], &a.map(round));
            for ((f, bend), third) in ALL.into_iter().zip(bends).zip(thirds) {
                let got = along(&a, [&c, &e], 2, f);
                near(&format!("{f:?} {dtype} {gap}"), &[got], &[bend * dot(square)], digits + 3.0 * gap);
                let (got, want) = (along(&a, [&c, &e], 3, f), third * dot(cube));
                let right = (got - want).abs() < 1e-4;
                assert!(gap > 0.0 || right || got.is_nan(), "{f:?} {dtype}: {got}, not {want}");
            }
        }
    }
}

#[test]
fn factors_of_matrices_without_full_rank() {
    // Singular values 1 and 0: Q is unique up to a sign, and turns with the skew part.
    let a = tensor(F64, &[2, 2], &[1.0, 0.0, 0.0, 0.0]);
    let q = gradient(&a, &[0.0, 1.0, 0.0, 0.0], |a| a.matrix_polar()[0]);
    near("|Q̄|", &q.iter().map(|x| x.abs()).collect::<Vec<_>>(), &[0.0, 1.0, 1.0, 0.0], 1e-14);
    // A turn of the two vectors of zeros is not determined.
    let mut a = tensor(F64, &[3, 3], &[0.0; 9]);
    a.data[0] = 1.0;
    let turn = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
    assert!(gradient(&a, &turn, |a| a.matrix_polar()[0]).iter().any(|x| x.is_nan()));
    // √diag(1, 0): the slope is ½ along the first vector, and infinite along the other one.
    let a = tensor(F64, &[2, 2], &[1.0, 0.0, 0.0, 0.0]);
    let root = |c: &[f64]| gradient(&a, c, |a| a.matrix_function(MatrixFunction::Sqrt));
    near("√", &root(&[1.0, 1.0, 1.0, 0.0]), &[0.5, 1.0, 1.0, 0.0], 1e-14);
    assert!(root(&[0.0, 0.0, 0.0, 1.0]).iter().any(|x| x.is_nan()));
    // An eigenvalue that rounding made negative has the root 0.
    let b = tensor(F64, &[2, 2], &[1.0, 1.0 + 2e-16, 1.0 + 2e-16, 1.0]);
    let y = run(&graph(F64, &[2, 2], |a| a.matrix_function(MatrixFunction::Sqrt)), &[b], PLAIN);
    near("√", &y[0].data, &[0.5_f64.sqrt(); 4], 1e-7);
}

#[test]
fn wrong_use_names_the_op_and_the_shapes() {
    let error = |dims: &[usize], f: fn(Var<'_>)| {
        let g = Builder::new("wrong");
        f(g.input("a", dims, F64));
        g.finish([]).unwrap_err().to_string()
    };
    let wide = error(&[2, 3], |a| _ = a.matrix_polar());
    assert!(wide.contains("polar") && wide.contains("[2,3]") && wide.contains("rows as columns"), "{wide}");
    let flat = error(&[2, 3], |a| _ = a.matrix_function(MatrixFunction::Exp));
    assert!(flat.contains("matrix_function") && flat.contains("[2,3]") && flat.contains("square"), "{flat}");
}
