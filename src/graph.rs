//! Graphs: building them, and transforms from graph to graph.
//!
//! A [`Builder`] records ops on values ([`Var`]); [`Builder::finish`] gives a [`GraphBuf`]. Wrong use of an op is an
//! error of `finish` that names the op, its operands' shapes and the line. A function that takes a graph takes
//! `&graph`, or a borrowed [`Graph`]. Transforms give a new graph: [`grad`], [`jvp`], [`vjp`], [`split_vjp`], [`hvp`],
//! [`jacobian`], [`nth_grad`], [`directional_nth_grad`], [`vmap`], [`fn@extend`], [`fn@rename`]. They are methods of
//! [`GraphBuf`] too.
//!
//! ```
//! use arenagrad::graph::{Builder, DType, GradOptions, grad};
//! # fn main() -> arenagrad::Result<()> {
//! let g = Builder::new("square");
//! let x = g.input("x", [3], DType::F64);
//! let graph = g.finish([(x * x).sum(..).named("loss")])?;
//! let gradient = grad(&graph, "loss", &GradOptions::wrt(&["x"]))?; // has one more output, `grad.x`
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "gguf")]
pub use crate::kernels::gguf::BlockType;
pub use crate::kernels::random::sample::Sampling;
pub use crate::nodes::{AdamOptions, SgdOptions};
pub use crate::nodes::{
    Attention, Attr, Attrs, AxialRope2d, Builder, CodeProduct, CodeSte, CodedWeights, Conv, Conv1d, Conv2d, Conv3d,
    ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, CrossEntropy, CustomFn, DType, Emit,
    EncodedWeights, FakeQuantize, FakeSte, Given, Graph, GraphBuf, GridSample, GridSampling, Init, Interpolation,
    Layout, Leaf, LeafKind, Loop, Lsq, LsqFactor, Op, OpDef, Outside, PadMode, Pairing, PerAxis, Pool, Pool1d, Pool2d,
    Pool3d, ProductSte, QuantScale, Quantize, Reduction, Results, Rope, Routine, Scatter, Sizes, Stage, StartValues,
    SwitchBranch, Ty, Unfold, Var, VarId, WeightScheme, encode_weights,
};
#[cfg(feature = "signal")]
pub use crate::nodes::{ConvPart, FftNorm, LogMel, LogMelOver, MelFilterbank, MelScale, Stft, WindowFunction};
#[cfg(feature = "linalg")]
pub use crate::nodes::{MatrixFunction, Singular, TriangularOptions};
#[cfg(feature = "splat")]
pub use crate::nodes::{PreparedSplats, SplatImage, Splats};
#[cfg(feature = "recurrent")]
pub use crate::nodes::{SelectiveScan, Ssd};
pub use crate::passes::{
    GradOptions, Missing, OneByOne, Qat, Randomness, SplitVjp, Vmap, Warning, directional_nth_grad, extend, grad, hvp,
    jacobian, jvp, keep, nth_grad, one_by_one_ops, qat, quantized_weight_bits, rename, split_vjp, vjp, vmap,
};
