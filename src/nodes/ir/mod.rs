//! The graph and its infrastructure. No file here knows an op by name, except the leaves.
//!
//! [`graph`] has the frozen columns, [`emit`] the growing ones, [`builder`] what users and rules write with.
//! [`opdef`] defines an op definition. [`text`] prints and parses. [`verify`] checks twelve invariants.

pub mod attrs;
pub mod builder;
pub mod call;
pub mod emit;
pub mod graph;
pub mod infer;
pub mod leaf;
pub mod leaf_ops;
pub mod op;
pub mod opdef;
pub mod results;
pub mod text;
pub mod typed;
pub mod verify;

pub use crate::arena::dtype;
