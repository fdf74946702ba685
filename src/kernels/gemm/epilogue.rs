//! Epilogues: bias, then activation or act-grad, applied to a block of C after its last sum, while it is in cache.
//!
//! Invariant: applied once to each element of C.

use super::gemm_float::GemmFloat;
use super::sgd_epilogue::SgdEpilogue;
use crate::abi::MatrixMut;

crate::simd! {
    /// Adds a bias to a row of C.
    pub fn epilogue_add_row[T: GemmFloat](x: &mut [T], bias: &[T]) {
        for (x, b) in x.iter_mut().zip(bias) {
            *x += *b;
        }
    }
}

crate::simd! {
    fn epilogue_add_one[T: GemmFloat](x: &mut [T], bias: T) {
        for x in x {
            *x += bias;
        }
    }
}

/// An act-grad epilogue.
#[derive(Clone, Copy)]
pub struct ActGradEpilogue<'a, T> {
    /// The function of [`act_grad_fn`].
    pub f: fn(&mut [T], &[T]),
    /// The act-grad operand, starting with the element that belongs to the block's first element.
    pub by: &'a [T],
    /// Stride between rows of the operand, in elements.
    pub row: usize,
}

impl<T: GemmFloat> ActGradEpilogue<'_, T> {
    /// Applies it to the part of that block that begins at row and column `at`.
    fn apply(&self, mut c: MatrixMut<'_, T>, at: (usize, usize)) {
        let (row, cols) = (self.row, c.cols());
        let by = |i: usize| &self.by[(at.0 + i) * row + at.1..];
        match c.flat() {
            Some(c) if cols == row => (self.f)(c, &by(0)[..c.len()]),
            _ => (0..c.rows()).for_each(|i| (self.f)(c.row(i), &by(i)[..cols])),
        }
    }
}

/// The epilogue of a block of C.
#[derive(Clone, Copy)]
pub struct GemmEpilogue<'a, T> {
    /// The bias of the columns of the block.
    pub bias: Option<&'a [T]>,
    /// The operation after the bias is added.
    pub kind: Kind<'a, T>,
}

/// The operation of an epilogue after the bias is added.
#[derive(Clone, Copy)]
pub enum Kind<'a, T> {
    /// Nothing.
    None,
    /// An activation: the function of [`act_fn`].
    Activation(fn(&mut [T])),
    /// An act-grad epilogue.
    ActGrad(ActGradEpilogue<'a, T>),
    /// A plain SGD step: C is the param, and the product is its gradient, which is not stored. The tile kernel computes
    /// it.
    Sgd(SgdEpilogue<T>),
}

impl<T: GemmFloat> GemmEpilogue<'_, T> {
    /// An epilogue that does nothing.
    pub const NONE: GemmEpilogue<'static, T> = GemmEpilogue { bias: None, kind: Kind::None };

    /// The SGD step, if that is the epilogue.
    pub fn sgd(&self) -> Option<SgdEpilogue<T>> {
        if let Kind::Sgd(step) = self.kind { Some(step) } else { None }
    }

    /// Applies it to the part of the block that begins at row and column `at`.
    pub fn apply(&self, mut c: MatrixMut<'_, T>, at: (usize, usize)) {
        match (self.bias, c.flat()) {
            (Some([bias]), Some(c)) => epilogue_add_one(c, *bias),
            (Some(bias), _) => {
                let bias = &bias[at.1..at.1 + c.cols()];
                (0..c.rows()).for_each(|i| epilogue_add_row(c.row(i), bias));
            }
            (None, _) => {}
        }
        self.activate(c, at);
    }

    /// As [`GemmEpilogue::apply`], if the bias has been added already.
    pub fn activate(&self, mut c: MatrixMut<'_, T>, at: (usize, usize)) {
        match self.kind {
            // Tiles have made the step.
            Kind::None | Kind::Sgd(_) => {}
            Kind::ActGrad(act_grad) => act_grad.apply(c, at),
            Kind::Activation(act) => match c.flat() {
                Some(c) => act(c),
                None => (0..c.rows()).for_each(|i| act(c.row(i))),
            },
        }
    }
}
