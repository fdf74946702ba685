//! 2-D convolution (cross-correlation, NCHW): forward pass, input gradient, weight gradient.
//!
//! Each is a function over slices with an entry point of the kernel ABI. Padding is data: a zero that is multiplied
//! like any other element. The exception is `image_lanes` (images in the SIMD lanes), which skips taps that see only
//! padding; results differ only if a weight is not finite.
//!
//! Invariant: an output element is one chain of `mul_add` over (channel, kernel row, kernel column). So its bits depend
//! neither on the range of units nor on the instruction set. The gradient of a bias is a sum of dy, which `reduce`
//! computes. Used by the lowering of the convolution ops.

mod channel_lanes;
mod conv2d_kernels;
mod conv_micro;
mod conv_plan;
mod correlate;
mod depthwise;
mod geom;
mod image_lanes;
mod outer_sweep;
mod product;
mod strip;
#[cfg(test)]
mod tests;
mod way;
mod weight_grad;

pub use conv2d_kernels::*;
pub use geom::ConvGeom;
