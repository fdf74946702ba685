//! Unfold and fold (im2col and col2im), and interpolation of images.

pub mod grid;
pub mod lower;
pub mod resize;
pub mod unfold;
pub mod var;
