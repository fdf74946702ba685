//! Kernels of one element at a time that are no steps of the [tile interpreter](crate::tile).

pub mod act_with_grad;
pub mod complex;
