//! Automatic differentiation: reverse mode, forward mode, and their common preparation.

pub mod activity;
pub mod backward;
mod choice_site;
pub mod codes;
mod custom_rules;
pub mod forward;
pub mod grad;
mod graph_methods;
pub mod higher_derivatives;
mod inner_values;
pub mod jacobian;
mod join;
pub mod jvp;
mod keep_every;
pub mod prepare;
pub mod residuals;
pub mod scan_site;
pub mod split_vjp;
