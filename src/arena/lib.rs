//! Memory types: ids, side tables and interners of graph columns, and the block that holds a program's tensors. Also
//! generators of random numbers ([`rng`]).

pub mod dims;
pub mod dtype;
pub mod ids;
mod intern;
pub mod philox;
pub mod pool;
pub mod rng;
pub mod shapes;
pub mod side;
pub mod strings;
pub mod tensor;

pub use dtype::DType;
pub use ids::{Node, Region, Shape, Sym, Value};
pub use side::{Side, Window};
