//! Automatic differentiation: reverse mode, forward mode, and their common preparation.

pub mod activity;
pub mod grad;
pub mod higher;
pub mod jvp;
pub mod loops;
pub mod prepare;
pub mod residuals;
