//! Ops and layers: values against naive loops and torch, derivatives against differences, errors.

#![allow(clippy::unwrap_used, clippy::panic)]

mod arrays;
mod attention;
mod audio;
mod blocks;
#[path = "../common/mod.rs"]
mod common;
mod complex;
mod cond;
mod conformance;
mod custom_fn;
mod custom_fn_bad;
mod einsum;
mod fft;
mod gated_delta;
mod in_regions;
mod indexing;
mod integer_storage;
mod layer_options;
mod layer_scopes;
mod layers;
mod linalg;
mod loop_exits;
mod losses;
mod mamba;
mod norms;
mod ordering;
mod pointwise;
mod random;
mod recurrent;
mod resize;
mod rope;
mod saturated;
mod scan;
mod scan_keep_every;
mod selective_scan;
mod sources;
mod splat;
mod splat_scenes;
mod start_values;
mod strides;
mod torch;
mod while_loop;
mod windows;
mod windows_bad;
