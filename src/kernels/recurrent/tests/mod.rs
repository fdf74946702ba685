//! The kernels against naive loops, over shapes that divide into vectors, stretches and units, and that do not.

mod gated_delta;
mod selective_scan;
