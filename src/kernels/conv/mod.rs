//! 2-D convolution (cross-correlation, NCHW): forward pass, input gradient, weight gradient.
//!
//! Each is a function over slices with an entry point of the kernel ABI. Padding is data: a zero that is multiplied
//! like any other element. The exceptions are `image_lanes` (images in the SIMD lanes) and `each_channel`, which skip
//! taps that see only padding; results differ only if a weight is not finite.
//!
//! `way` chooses one of several ways by the geometry:
//!
//! * `channel_lanes`: channels in the lanes, for convolutions of many channels;
//! * `product`: products of matrices, for one tap and for few positions;
//! * `each_channel`: channels in the lanes, each with a kernel of its own; `depthwise`: the same for 3 × 3 kernels over
//!   wide rows, with positions in the lanes;
//! * `winograd`: values at points, for 3 × 3 kernels where [`Convolutions`] allow it;
//! * `correlate`, `weight_grad`: positions or images in the lanes, for few channels.
//!
//! Invariant: an output element of the forward pass or of the input gradient is one chain of `mul_add` over (channel,
//! kernel row, kernel column), or with channels in the lanes over (kernel row, kernel column, channel). The input
//! gradient as a product adds one such chain for each tap, and `winograd` has chains of its own. So the bits depend
//! neither on the range of units nor on the instruction set. The gradient of a bias is a sum of dy, which `reduce`
//! computes. Used by the lowering of the convolution ops.

mod channel_lanes;
mod conv2d_kernels;
mod conv_micro;
mod conv_plan;
mod convolutions;
mod correlate;
mod depthwise;
mod each_channel;
mod geom;
mod image_lanes;
mod outer_sweep;
mod product;
mod strip;
#[cfg(test)]
mod tests;
mod way;
mod weight_grad;
mod winograd;

pub use conv2d_kernels::*;
pub use convolutions::Convolutions;
pub use geom::ConvGeom;
