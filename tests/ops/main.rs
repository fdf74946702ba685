//! Ops and layers: values against naive loops and torch, derivatives against differences, errors.

#![allow(clippy::unwrap_used, clippy::panic)]

mod attention;
mod blocks;
#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod indexing;
mod layers;
mod norms;
mod ordering;
mod pointwise;
mod random;
mod rope;
mod saturated;
mod scan;
mod sources;
mod strides;
mod torch;
mod windows;
mod windows_bad;
