//! Correlations with output channels in the lanes: the forward pass and the input gradient, with any stride.
//!
//! The source is copied into a strip in which the channels of a pixel are adjacent, with zeros around the image. Then
//! the pixels that adjacent taps of a kernel row see are one run of numbers, and those of the next position begin a
//! stride further. So a register tile of some positions of a row by some channels reads the strip in place. Its sums
//! are staged, and transposed to planes when all taps are summed.
//!
//! Invariant: an output element is one chain of `mul_add` over (kernel row, kernel column, channel), whatever the
//! blocks and the units are. Used by the entry points of the folder.

mod gathered_tile;
mod lanes_plan;
mod lanes_weight_grad;
mod operands;
mod sweep;

pub(super) use lanes_plan::LanesPlan;
pub(super) use lanes_weight_grad::{lanes_weight_grad, lanes_weight_scratch};
pub(super) use sweep::{correlate_lanes, lanes_scratch};
