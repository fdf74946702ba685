//! A planned step as C99: one file with one static array for the arena, and a header that names what lies where.
//!
//! [`export_c`] takes a graph, which may be a training step, and a program of it, which gives start values. The C makes
//! the same step: it has the engine's bits, as its functions are the engine's own, operation by operation. It allocates
//! nothing, has no threads, and needs of the C library only some functions of `math.h`.
//!
//! ```
//! use arenagrad::prelude::*;
//! # fn main() -> Result<()> {
//! let g = Builder::new("line");
//! let (x, y) = (g.input("x", [8, 1], DType::F32), g.input("y", [8, 1], DType::F32));
//! let net = g.finish([nn::linear(&g, "fc", x, 1).mse(y).named("loss")])?;
//! let step = train(&net, "loss", optim::Sgd::new(0.1))?;
//! let mut start = Session::new().threads(1).compile(&step)?;
//! start.init(0)?;
//! let c = arenagrad_export_c::export_c(&step, &start, "line").expect("C has all of its ops");
//! assert!(c.header.contains("int line_step(void);") && c.source.contains("ag_fma_f32"));
//! # Ok(())
//! # }
//! ```

mod body;
mod c_text;
mod call;
mod constants;
mod export;
mod helpers;
mod interface;
mod known_kernels;
mod map_step;
mod maps;
mod moves;
mod optimisers;
mod products;
mod reductions;
mod rows;
mod start;
mod windows;

pub use body::Missing;
pub use c_text::identifier;
pub use export::{CFiles, ExportError, export_c};
