//! Automatic differentiation: reverse mode, forward mode, and their common preparation.

pub mod activity;
pub mod backward;
mod choice;
pub mod codes;
mod custom_rules;
pub mod forward;
pub mod grad;
pub mod higher_derivatives;
mod inner_values;
pub mod jacobian;
mod join;
pub mod jvp;
mod keep_every;
mod methods;
pub mod prepare;
pub mod residuals;
pub mod scan_site;
pub mod split_vjp;
