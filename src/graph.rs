//! Graphs: building them, and transforms from graph to graph.
//!
//! A [`Builder`] records ops on values ([`Var`]); [`Builder::finish`] gives a [`GraphBuf`]. Wrong use of an op is an
//! error of `finish` that names the op, its operands' shapes and the line. A function that takes a graph takes
//! `&graph`, or a borrowed [`Graph`]. Transforms give a new graph: [`grad`], [`jvp`], [`vjp`], [`split_vjp`], [`hvp`],
//! [`jacobian`], [`nth_grad`], [`directional_nth_grad`], [`vmap`], [`fn@extend`], [`fn@rename`]. They are methods of
//! [`GraphBuf`] too.
//!
//! What only some graphs need is in the modules: [`window`] (convolutions, pools, images), [`quant`] (codes and weights
//! of few bits), [`linalg`], [`recurrent`], [`signal`] and [`splat`]. What an op of your own needs is in
//! [`op`](crate::op).
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

pub use crate::kernels::random::sample::Sampling;
pub use crate::nodes::{
    Attention, AxialRope2d, Builder, CrossEntropy, CustomFn, DType, Given, Graph, GraphBuf, Init, Layout, Leaf,
    LeafKind, Loop, Pairing, PerAxis, Reduction, Rope, Routine, Scatter, Sizes, StartValues, SwitchBranch, Ty, Var,
    VarId,
};
pub use crate::passes::{
    GradOptions, Missing, OneByOne, Randomness, SplitVjp, Vmap, Warning, directional_nth_grad, extend, grad, hvp,
    jacobian, jvp, keep, nth_grad, one_by_one_ops, rename, split_vjp, vjp, vmap,
};

/// Convolutions, pools and what else reads windows of images: options of the methods of [`Var`].
pub mod window {
    pub use crate::nodes::{
        Conv, Conv1d, Conv2d, Conv3d, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, GridSample,
        GridSampling, Interpolation, Outside, PadMode, Pool, Pool1d, Pool2d, Pool3d, Unfold,
    };
}

/// Numbers as codes of few bits: quantisation, training that expects it, and weights in codes or blocks.
pub mod quant {
    #[cfg(feature = "gguf")]
    pub use crate::kernels::gguf::BlockType;
    pub use crate::nodes::{
        CodeProduct, CodeSte, CodedWeights, EncodedWeights, FakeQuantize, FakeSte, Lsq, LsqFactor, ProductSte,
        QuantScale, Quantize, WeightScheme, encode_weights,
    };
    pub use crate::passes::{Qat, qat, quantized_weight_bits};
}

/// Decompositions and functions of matrices: options of the methods of [`Var`].
#[cfg(feature = "linalg")]
pub mod linalg {
    pub use crate::nodes::{MatrixFunction, Singular, TriangularOptions};
}

/// Selective scans: options of [`Var::selective_scan`] and [`Var::ssd`].
#[cfg(feature = "recurrent")]
pub mod recurrent {
    pub use crate::nodes::{SelectiveScan, Ssd};
}

/// Fourier transforms and sound: options of the methods of [`Var`].
#[cfg(feature = "signal")]
pub mod signal {
    pub use crate::nodes::{ConvPart, FftNorm, LogMel, LogMelOver, MelFilterbank, MelScale, Stft, WindowFunction};
}

/// Gaussian splats: scenes, and how they are drawn.
#[cfg(feature = "splat")]
pub mod splat {
    pub use crate::nodes::{PreparedSplats, SplatImage, Splats};
}
