//! Automatic differentiation: reverse mode, forward mode, and their common preparation.

pub mod activity;
pub mod backward;
pub mod forward;
pub mod grad;
pub mod higher;
mod inner;
mod join;
pub mod jvp;
pub mod loops;
mod methods;
pub mod prepare;
pub mod residuals;
pub mod split;
