//! Normalisations and their adjoints: of layers, of groups, of batches, by the root mean square, and of a sum with its
//! residual.

pub mod batch_norm;
mod channel_grad;
pub mod group_norm;
pub mod layer_norm;
pub mod moments;
pub mod residual_norm;
pub mod rms_norm;
