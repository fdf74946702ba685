//! Products of vectors and of integer matrices: what does not fit, by the name of the method and the shapes.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::slopes::derivatives_agree;
use crate::common::{PLAIN, TensorDraws, run};
use arenagrad::graph::{Builder, DType, Var};
use arenagrad::session::Session;
use arenagrad::tools::ir::opdef::Domain;

/// The error of `f` of a matrix `[2, 3]`, a matrix `[3, 2]` and a vector `[4]` of these types.
fn refused(dtypes: [DType; 2], f: for<'g> fn([Var<'g>; 3]) -> Var<'g>) -> String {
    let g = Builder::new("bad");
    let (a, b) = (g.input("a", [2, 3], dtypes[0]), g.input("b", [3, 2], dtypes[1]));
    let y = f([a, b, g.input("c", [4], dtypes[1])]);
    assert!(!y.is_some());
    let e = g.finish([]).unwrap_err().to_string();
    assert!(e.contains("tests/ops/products.rs:"), "no place: {e}");
    e
}

#[test]
fn an_outer_product_needs_two_vectors() {
    let f64s = [DType::F64; 2];
    for (e, shapes) in [
        (refused(f64s, |[a, _, c]| a.outer(c)), "shapes [2,3] and [4]; two vectors are needed"),
        (refused(f64s, |[a, _, c]| c.outer(a)), "shapes [4] and [2,3]; two vectors are needed"),
    ] {
        assert!(e.contains("outer(") && e.contains(shapes), "{e}");
    }
}

#[test]
fn integer_matrices_that_do_not_fit_are_named_as_they_are() {
    let e = refused([DType::I8, DType::U8], |[a, b, _]| a.matmul(b));
    assert!(e.contains("int_matmul(i8[2,3], u8[3,2])"), "{e}");
    let e = refused([DType::I32; 2], |[a, _, c]| a.matmul(c));
    assert!(e.contains("matmul(i32[2,3], i32[4]): inner dimensions 3 and 4 differ"), "{e}");
    let e = refused([DType::I32; 2], |[a, _, c]| a.sum(..).matmul(c));
    assert!(e.contains("int_matmul(i32[], i32[4])") && e.contains("rank 2 or more"), "{e}");
    let e = refused([DType::U32; 2], |[a, b, _]| a.matmul(b));
    assert!(e.contains("no product of u32"), "{e}");
}

/// A vector is a row on the left and a column on the right, as NumPy's `@` has it: values, shapes and gradients.
#[test]
fn a_vector_is_a_row_or_a_column_of_a_product() {
    let cases: [(&[usize], &[usize], &[usize]); 7] = [
        (&[3], &[3], &[]),
        (&[3], &[3, 2], &[2]),
        (&[2, 3], &[3], &[2]),
        (&[3], &[4, 3, 2], &[4, 2]),
        (&[5, 4, 2, 3], &[3], &[5, 4, 2]),
        (&[0], &[0, 2], &[2]),
        (&[1], &[1], &[]),
    ];
    let mut draw = TensorDraws(11);
    for (a, b, want) in cases {
        let by = |plain: bool| {
            let g = Builder::new("product");
            let (x, y) = (g.input("a", a, DType::F64), g.input("b", b, DType::F64));
            let row = if a.len() == 1 { x.unsqueeze(0) } else { x };
            let column = if b.len() == 1 { y.unsqueeze(-1) } else { y };
            let z = if plain { row.matmul(column).reshape(want) } else { x.matmul(y) };
            g.finish([z.named("z")]).unwrap()
        };
        let inputs = [draw.tensor(DType::F64, a, Domain::Real), draw.tensor(DType::F64, b, Domain::Real)];
        let got = run(&by(false), &inputs, PLAIN);
        assert_eq!(got[0].dims, want, "{a:?} {b:?}");
        assert_eq!(got, run(&by(true), &inputs, PLAIN), "{a:?} {b:?}");
        if a[0] > 0 {
            derivatives_agree(&by(false), &inputs);
        }
    }
    let g = Builder::new("integers");
    let (x, y) = (g.input("x", [3], DType::I8), g.input("y", [3], DType::I8));
    let z = g.input("z", [3], DType::C64);
    let f = g.finish([x.matmul(y).named("dot"), z.matmul(z).named("square")]).unwrap();
    let mut p = Session::new().compile(&f).unwrap();
    p.values_mut::<i8>("x").unwrap().copy_from_slice(&[100, -2, 3]);
    p.values_mut::<i8>("y").unwrap().copy_from_slice(&[100, 5, 7]);
    p.write_bytes("z", bytemuck::cast_slice(&[0.0f32, 1.0, 1.0, 1.0, 2.0, 0.0])).unwrap();
    p.step().unwrap();
    assert_eq!(p.values::<i32>("dot").unwrap(), [10_011]);
    assert_eq!(f.view().dims(f.view().find_output("square").unwrap()).len(), 0);
}

type Product = for<'g> fn(Var<'g>, Var<'g>) -> Var<'g>;

/// Values of two builders: the error is of the method that the user called, and the other builder stays as it is.
fn refuse_another_builder(all: &[(&str, DType, Product)]) {
    for &(name, dtype, f) in all {
        let (g, other) = (Builder::new("one"), Builder::new("two"));
        let y = f(g.input("a", [2, 2], dtype), other.input("b", [2, 2], dtype));
        assert!(!y.is_some());
        let e = g.finish([]).unwrap_err().to_string();
        assert!(e.contains(name) && !e.contains("int_matmul"), "{e}");
        assert!(other.error().is_none());
    }
}

#[test]
fn a_product_with_a_value_of_another_builder_is_refused() {
    refuse_another_builder(&[
        ("outer", DType::F64, |a, b| a.outer(b.sum(0))),
        ("matmul", DType::I32, |a, b| a.matmul(b)),
    ]);
}

#[cfg(feature = "linalg")]
#[test]
fn a_solution_with_a_value_of_another_builder_is_refused() {
    refuse_another_builder(&[
        ("solve_vec", DType::F64, |a, b| a.solve_vec(b)),
        ("lstsq", DType::F64, |a, b| a.lstsq(b)),
    ]);
}
