//! The graph and its infrastructure. No file here knows an op by name, except the leaves.
//!
//! [`graph`] has the frozen columns, [`emit`] the growing ones, [`builder`] the interface with which users and rules
//! write them. [`opdef`] defines an op definition. [`text`] prints and parses. [`verify`] checks twelve invariants.

pub mod arity;
pub mod asked_sizes;
pub mod attr_fields;
pub mod attr_types;
pub mod attrs;
pub mod batch;
pub mod builder;
mod builder_layers;
mod builder_locations;
mod builder_regions;
mod builder_start_values;
mod builder_states;
pub mod call;
pub mod case;
pub mod check_opdefs;
pub mod cost_cx;
pub mod emit;
pub mod flags;
pub mod graph;
pub mod infer;
pub mod init;
pub mod leaf;
pub mod lower_cx;
pub mod op;
pub mod opdef;
pub mod pack;
pub mod pattern;
pub mod results;
pub mod site;
pub mod sizes;
pub mod text;
pub mod var;
pub mod verify;

pub use crate::arena::dtype;
