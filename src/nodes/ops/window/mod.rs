//! Unfold and fold (im2col and col2im), and interpolation of images.

pub mod attrs;
pub mod grid_sample;
pub mod interpolate;
pub mod lower;
mod pixel_shuffle;
pub mod unfold;
pub mod var;
