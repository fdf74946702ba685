//! The graph's columns and everything that knows no op by name.
//!
//! [`graph`] holds the frozen columns, [`emit`] the growing ones, [`builder`] the handle that users and rules write
//! with.
//! [`opdef`] says what an op definition is. [`text`] prints and parses, [`verify`] checks twelve invariants.

pub mod attrs;
pub mod builder;
pub mod call;
pub mod emit;
pub mod graph;
pub mod infer;
pub mod leaf;
pub mod opdef;
pub mod results;
pub mod text;
pub mod typed;
pub mod verify;

pub use crate::arena::dtype;
