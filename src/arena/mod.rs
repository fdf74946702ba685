//! Memory: ids, side tables and interners for graph columns, and the one block that a program's tensors live in.

pub mod ids;
pub mod intern;
pub mod rng;
pub mod side;
pub mod tensor;

pub use ids::{Node, Region, Shape, Sym, Value};
pub use side::{Side, Window};
