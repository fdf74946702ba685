//! Depthwise convolutions with channels in the lanes: every channel has a kernel of its own, so each vector of pixels
//! is multiplied by a vector of weights. For any stride, and for planes too small to fill vectors with positions.
//!
//! Taps that see only padding are skipped: results differ from those of strips only if a weight is not finite.
//!
//! * `each_plan`: which rows and columns of the source a result reads, and the sizes of bands.
//! * `correlate_each`: the forward pass and the input gradient; `each_weight_grad`: the weight gradient.

mod correlate_each;
mod each_plan;
mod each_weight_grad;

pub(super) use correlate_each::{correlate_each, each_scratch};
pub(super) use each_plan::{EachPlan, fits_each};
pub(super) use each_weight_grad::{each_weight_blocks, each_weight_grad, each_weight_scratch};
