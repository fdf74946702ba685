//! The tables of a configuration that several programs read: optimisers and schedules, from any format that serde
//! knows. The program reads them from TOML, the Python package from keyword arguments.
//!
//! Invariant: a key that a table's kind does not read is a fault that names it.

pub mod bounds;
pub mod fault;
pub mod kind_key;
mod number_list;
pub mod optimiser;
pub mod schedule;
pub mod table;
#[cfg(feature = "text")]
pub mod text;
#[cfg(feature = "text")]
pub mod toml_positions;
#[cfg(feature = "text")]
mod words;
