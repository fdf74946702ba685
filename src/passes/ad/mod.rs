//! Automatic differentiation: reverse mode, forward mode, and their common preparation.

pub mod activity;
pub mod backward;
mod custom;
pub mod forward;
pub mod grad;
pub mod higher;
mod join;
pub mod jvp;
pub mod loops;
pub mod prepare;
pub mod residuals;
