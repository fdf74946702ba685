//! Ops and layers: values against naive loops and torch, derivatives against differences, errors.

#![allow(clippy::unwrap_used, clippy::panic)]

mod arrays;
mod attention;
#[cfg(feature = "signal")]
mod audio;
mod blocks;
mod code_products;
mod coded_weights;
mod codes;
#[path = "../common/mod.rs"]
mod common;
mod complex;
mod complex_edges;
mod cond;
mod conformance;
mod cross_entropies;
mod custom_fn;
mod custom_fn_bad;
mod einsum;
mod exits_keep_every;
mod fake_quantize;
mod faults_of_methods;
#[cfg(feature = "signal")]
mod fft;
#[cfg(feature = "recurrent")]
mod gated_delta;
#[cfg(feature = "gguf")]
mod grouped;
mod in_regions;
mod indexing;
mod integer_storage;
mod layer_options;
mod layer_scopes;
mod layers;
#[cfg(feature = "linalg")]
mod linalg;
mod loop_derivatives;
mod loop_exits;
mod loss_shapes;
mod losses;
#[cfg(feature = "recurrent")]
mod mamba;
mod method_edges;
#[cfg(feature = "gguf")]
mod moe;
mod norms;
mod norms_far;
mod ordering;
mod parameters;
mod pointwise;
mod products;
mod random;
mod recurrent;
mod resize;
mod rope;
mod sample;
mod saturated;
mod scan;
mod scan_keep_every;
#[cfg(feature = "recurrent")]
mod selective_scan;
mod shape_rules;
mod sources;
#[cfg(feature = "linalg")]
mod spectral;
#[cfg(feature = "splat")]
mod splat;
#[cfg(feature = "splat")]
mod splat_scenes;
mod start_values;
mod strides;
mod torch;
mod while_loop;
mod windows;
mod windows_bad;
