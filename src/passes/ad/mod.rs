//! Automatic differentiation: reverse mode, forward mode, and their common preparation.

pub mod activity;
pub mod backward;
pub mod forward;
pub mod grad;
pub mod higher_derivatives;
pub mod jacobian;
mod join;
pub mod jvp;
pub mod prepare;
pub mod residuals;
pub mod scan_site;
