//! Images of Gaussian splats: soft ellipsoids with a colour and an opacity, blended front to back.
//!
//! | file | holds |
//! |---|---|
//! | `splat_params` | the params, and the layout of a projected splat |
//! | `vectors` | vectors of three |
//! | `ellipsoid` | the axes and the rotation of a splat, and its colour |
//! | `bounds` | the pixels that a splat may touch |
//! | `project` | projected splats, their bounds and distances; the order |
//! | `lists` | the splats of each tile |
//! | `rays` | sixteen pixels of an image row |
//! | `blend` | the image |
//! | `backward` | the gradients of projected splats |
//! | `gradients` | the gradients of the inputs |
//! | `tangents` | the derivative of the image along a direction |
//!
//! Invariant: tiles, lists and bounds decide only which splats are looked at. Each pixel is blended by the same
//! operations with any tile size, so the image has the bits of a loop over all splats. The sizes of image, tile and
//! scene fix the order in which gradients are summed.

mod backward;
mod blend;
mod bounds;
mod ellipsoid;
mod gradients;
mod lists;
mod project;
mod rays;
mod splat_params;
mod tangents;
#[cfg(test)]
mod tests;
mod vectors;

pub use backward::{splat_backward_kernel, splat_backward_kernel_for};
pub use blend::{splat_blend_kernel, splat_blend_kernel_for};
pub use gradients::{
    splat_gradients_kernel, splat_gradients_kernel_for, splat_view_gradient_kernel, splat_view_gradient_kernel_for,
};
pub use project::{splat_order_kernel_for, splat_project_kernel, splat_project_kernel_for, splat_project_order_kernel};
pub use splat_params::{MOMENTS, RECORD, SPLATS, Splat, VIEW_SUMS};
pub use tangents::{
    splat_blend_tangent_kernel, splat_blend_tangent_kernel_for, splat_tangents_kernel, splat_tangents_kernel_for,
};
