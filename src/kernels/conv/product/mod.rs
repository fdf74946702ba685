//! Convolutions as matrix products: the windows of some images are copied as the columns of a matrix, a block at a
//! time, and multiplied by the weights. Positions of all images are adjacent there, so small images and windows with
//! strides fill the vectors.
//!
//! | pass | product | then |
//! |---|---|---|
//! | forward | weights · windows | |
//! | input gradient | weightsᵀ · dy: what each tap of a window adds to x | added to the pixels, see `scatter` |
//! | weight gradient | windows · dyᵀ, or dy · windowsᵀ where there are few positions | transposed back |
//!
//! Invariant: an element of a product is one chain of `mul_add` over blocks that depend on the shape alone. Blocks of
//! windows stay in the second-level cache. Used by the entry points of the folder.

mod forward;
mod input_grad;
mod product_plan;
mod scatter;
mod weight_grad_product;
mod windows;

pub(super) use forward::{forward, forward_scratch};
pub(super) use input_grad::{input_grad, input_grad_scratch};
pub(super) use product_plan::{fold_of, upright};
pub(super) use weight_grad_product::{weight_grad, weight_grad_scratch};
