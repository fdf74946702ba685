//! Memory types: ids, side tables and interners of graph columns, and the block that holds a program's tensors. Also
//! generators of random numbers ([`rng`]).

pub mod dtype;
pub mod ids;
pub mod intern;
pub mod rng;
pub mod side;
pub mod tensor;

pub use dtype::DType;
pub use ids::{Node, Region, Shape, Sym, Value};
pub use side::{Side, Window};
