//! The kernels against naive loops. Some of the shapes divide into whole vectors, stretches and units, and some do not.

mod gated_delta;
mod selective_scan;
