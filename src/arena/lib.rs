//! Memory types: ids, side tables and interners of graph columns, and the block that holds a program's tensors. Also
//! generators of random numbers ([`rng`]).

mod block;
pub mod dims;
pub mod dtype;
pub mod front;
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

/// Whether a system below gives threads and pages. A module for browsers (`wasm32-unknown-unknown`) has the memory and
/// the thread of its page alone.
pub const HAS_SYSTEM: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

/// Returns an error with the message unless the condition holds: `ensure!(a == b, "{a} ≠ {b}")`. For functions whose
/// error is a `String`, such as shape inference.
#[macro_export]
macro_rules! ensure {
    ($ok:expr, $($message:tt)+) => {
        match $ok {
            true => {}
            false => return Err(format!($($message)+)),
        }
    };
}
