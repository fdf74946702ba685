//! The oracle: computes a graph by slow and obvious loops in `f64`, with a bound of the engine's rounding for each
//! element.
//!
//! Invariant: no number comes from the engine's passes, plans, kernels or vector math. An op with a decomposition is
//! interpreted by it, unless it has a loop here.

mod account;
mod array;
#[cfg_attr(not(all(feature = "linalg", feature = "splat")), allow(dead_code))]
mod balls;
mod binary_fns;
mod coded_ops;
mod complex_ops;
mod element_bytes;
mod families;
#[cfg(feature = "signal")]
mod fourier_ops;
#[cfg(feature = "gguf")]
mod gguf_ops;
#[cfg(feature = "gguf")]
mod grouped_ops;
mod index_ops;
mod interpreter;
mod layout_ops;
mod leaf_domains;
mod leaf_values;
#[cfg(feature = "linalg")]
mod matrix_ops;
mod oracle_node;
mod order_ops;
mod product_ops;
mod quant_ops;
mod random_ops;
mod reduce_ops;
mod region_ops;
mod rounding;
mod sample_ops;
mod special_fns;
#[cfg(feature = "splat")]
mod splat_ops;
mod stop;
mod unary_fns;
mod whole_ops;

pub use array::Array;
pub use element_bytes::{decode_array, encode_array};
pub use interpreter::{Named, Reference, interpret};
pub use leaf_values::{LeafValue, LeafValues};
pub use oracle_node::{OracleNode, OracleOps};
pub(super) use rounding::largest_of_float_type;
pub use stop::Stop;
