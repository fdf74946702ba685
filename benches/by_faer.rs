//! Linear systems and Cholesky factors by `faer`.

use crate::number;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt;
use faer::linalg::lu::partial_pivoting as lu;
use faer::{Mat, Par};

/// `op` on a matrix of `n` rows.
pub fn peer(op: &str, n: usize) -> Box<dyn FnMut() -> f64> {
    if op == "solve" { Box::new(solve(n)) } else { Box::new(cholesky(n)) }
}

/// A linear system: a copy of the matrix, its factors, and the solution.
fn solve(n: usize) -> impl FnMut() -> f64 {
    let (a, b) = (Mat::from_fn(n, n, |i, j| number(n, i, j)), Mat::from_fn(n, 1, |_, _| 1.0));
    let (mut factors, mut x, mut rows, mut places) = (a.clone(), b.clone(), vec![0usize; n], vec![0usize; n]);
    let factor = lu::factor::lu_in_place_scratch::<usize, f64>(n, n, Par::Seq, Default::default());
    let mut memory = MemBuffer::new(factor.or(lu::solve::solve_in_place_scratch::<usize, f64>(n, 1, Par::Seq)));
    move || {
        factors.copy_from(&a);
        x.copy_from(&b);
        let stack = MemStack::new(&mut memory);
        let lu = factors.as_mut();
        let (_, order) = lu::factor::lu_in_place(lu, &mut rows, &mut places, Par::Seq, stack, Default::default());
        lu::solve::solve_in_place(factors.as_ref(), factors.as_ref(), order, x.as_mut(), Par::Seq, stack);
        x[(0, 0)]
    }
}

/// A copy of the matrix and its Cholesky factor.
fn cholesky(n: usize) -> impl FnMut() -> f64 {
    let a = Mat::from_fn(n, n, |i, j| number(n, i, j));
    let mut factor = a.clone();
    let mut memory = MemBuffer::new(llt::factor::cholesky_in_place_scratch::<f64>(n, Par::Seq, Default::default()));
    move || {
        factor.copy_from(&a);
        let (l, stack) = (factor.as_mut(), MemStack::new(&mut memory));
        llt::factor::cholesky_in_place(l, Default::default(), Par::Seq, stack, Default::default())
            .expect("it is definite");
        factor[(0, 0)]
    }
}
