//! Ops and layers: values against naive loops and torch, derivatives against differences, errors.

#![allow(clippy::unwrap_used, clippy::panic)]

mod arrays;
mod attention;
mod blocks;
#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod custom_fn;
mod custom_fn_bad;
mod einsum;
mod indexing;
mod layers;
mod losses;
mod norms;
mod ordering;
mod pointwise;
mod random;
mod resize;
mod rope;
mod saturated;
mod scan;
mod sources;
mod strides;
mod torch;
mod windows;
mod windows_bad;
