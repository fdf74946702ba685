//! The networks of `bench`, by what they read: rows of numbers and tables, images and signals, sequences.
//!
//! Invariant: the names of params and inputs are those in data files, so they never change; they are PyTorch's where
//! PyTorch has the layer.

pub mod images;
pub mod rows;
pub mod sequences;

use arenagrad::graph::{Builder, CrossEntropy, DType, Var};

/// The mean cross entropy of `logits` `[…, classes]` and the classes in input `y`.
fn class_loss<'g>(g: &'g Builder, logits: Var<'g>) -> Var<'g> {
    let d = logits.dims();
    let (rows, classes) = (&d[..d.len() - 1], d[d.len() - 1]);
    let y = g.input("y", rows, DType::I32).reshape([rows.iter().product()]);
    logits.reshape([y.dims()[0], classes]).cross_entropy_with(y, CrossEntropy::per_row()).mean(..)
}

/// The mean squared error of `out` and input `y`.
fn value_loss<'g>(g: &'g Builder, out: Var<'g>) -> Var<'g> {
    out.mse(g.input("y", out.dims(), DType::F32))
}
