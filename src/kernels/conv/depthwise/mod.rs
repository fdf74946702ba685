//! Depthwise convolutions: every channel is convolved by itself.
//!
//! A band of rows of one plane is copied into a strip with zeros around it, split into the phases of a stride. Then
//! each tap reads vectors of adjacent positions at a constant offset, for several vectors of sums at once.
//!
//! Invariant: an output element is one chain of `mul_add` over the taps in order. An element of the weight gradient is
//! sixteen chains (eight in `f64`) over rows and images, added in a tree. Used by the entry points of the folder.

mod plane_strip;
mod plane_weight_grad;
mod planes;

pub(super) use plane_strip::{PlanePlan, is_depthwise};
pub(super) use plane_weight_grad::{plane_weight_grad, plane_weight_scratch};
pub(super) use planes::{correlate_planes, planes_scratch};
