//! Op definitions, one folder for each family. [`crate::nodes::ir::opdef`] declares the definition;
//! [`crate::nodes::ops::table`] lists all ops. `docs/ops.md` is the reference.

pub mod attention;
#[cfg(feature = "signal")]
pub mod audio;
pub mod blocks;
pub mod common;
pub mod complex;
pub mod constant;
pub mod control;
pub mod conv;
#[cfg(feature = "signal")]
pub mod fft;
#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(feature = "gguf")]
pub mod grouped;
pub mod index;
pub mod layout;
#[cfg(feature = "linalg")]
pub mod linalg;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod optim;
pub mod pointwise;
pub mod pool;
pub mod quant;
pub mod random;
#[cfg(feature = "recurrent")]
pub mod recurrent;
pub mod reduce;
pub mod softmax;
pub mod sort;
#[cfg(feature = "splat")]
pub mod splat;
pub mod table;
pub mod window;

pub use common::lowering::lower_any_op;
