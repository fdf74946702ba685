//! Convolutions with kernels of 3 × 3 by Winograd's minimal filtering: `F(4×4, 3×3)` of Lavin and Gray, "Fast
//! algorithms for convolutional neural networks" (2016). A tile of 4 × 4 positions takes 36 multiplications for each
//! pair of channels instead of 144.
//!
//! A tile reads 6 × 6 pixels. Pixels and taps are seen as polynomials, and a convolution as their product, which is
//! taken at 6 × 6 points and interpolated:
//!
//! | pass | at each point | then |
//! |---|---|---|
//! | forward, input gradient | pixels · taps, summed over channels | interpolated to positions |
//! | weight gradient | pixels · dy, summed over tiles | the adjoint of the taps' transform |
//!
//! Along an axis the points are 0, ±3/4, ±3/2 and ∞. With these the error of an element is about twice that of the
//! direct sum; with 0, ±1, ±2 and ∞ it is five times that. A pixel that is not finite makes its tiles NaN.
//!
//! Channels are the lanes of all transforms, and the products at a point are register tiles: tiles of the image ×
//! output channels, summed over source channels. Invariant: blocks depend on the geometry alone, and each product is
//! one chain of `mul_add` over channels, or over tiles. So the bits depend neither on the range of units nor on the
//! instruction set.
//!
//! * `winograd_plan`: tiles, blocks and their sizes; which convolutions are faster so.
//! * `points`: the transforms along one axis and both; `transforms`: those of rows of tiles.
//! * `operands`: pixels and taps with adjacent channels; `point_products`: the products at all points.
//! * `correlate_winograd`: the forward pass and the input gradient; `winograd_weight_grad`: the weight gradient.

mod correlate_winograd;
mod operands;
mod point_products;
mod points;
mod transforms;
mod winograd_plan;
mod winograd_weight_grad;

pub(super) use correlate_winograd::{correlate_winograd, winograd_scratch};
pub(super) use winograd_plan::{WinogradPlan, fits_winograd, winograd_weight_blocks};
pub(super) use winograd_weight_grad::{winograd_weight_grad, winograd_weight_scratch};
