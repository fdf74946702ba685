//! Reads ONNX models as graphs that arenagrad runs and trains, and writes graphs as ONNX models.
//!
//! [`read`] takes models of opset 6 to 28. Initialisers of floats become params by their names, so that the model can
//! be trained on; other initialisers become constants. Shapes are computed while reading: a model is read for one size
//! of each symbol ([`Options::sizes`]).
//!
//! ```
//! use arenagrad::prelude::*;
//! use arenagrad_onnx::{Options, read, write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let g = Builder::new("line");
//! let x = g.input("x", [2, 3], DType::F32);
//! let graph = g.finish([nn::linear(&g, "fc", x, 4).relu().named("y")])?;
//! let mut program = Session::new().compile(&graph)?;
//! program.init(0)?;
//!
//! let model = write(&graph, &program)?; // bytes of an .onnx file
//! let import = read(&model, &Options::default())?;
//! let mut again = Session::new().compile(&import.graph)?;
//! import.load(&mut again)?;
//! for p in [&mut program, &mut again] {
//!     p.values_mut::<f32>("x")?.copy_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
//!     p.step()?;
//! }
//! assert_eq!(program.values::<f32>("y")?, again.values::<f32>("y")?);
//! # Ok(())
//! # }
//! ```

mod error;
mod import;
mod ops;
mod tensor;
mod write;

/// The messages of the format, as `generate` writes them from `proto/onnx.proto`.
#[allow(missing_docs, clippy::all, unused_qualifications)]
pub mod proto {
    include!("../proto/onnx.rs");
}

pub use error::{Error, Result};
pub use import::{Import, NEWEST_OPSET, OLDEST_OPSET, Options, Trainable, read, read_file};
pub use ops::names as op_names;
pub use tensor::Tensor;
pub use write::write;
