//! Convolutions: over planes with their adjoints, over one and three axes, transposed, and with an epilogue.

pub mod attrs;
pub mod bias_act;
pub mod conv2d;
pub mod conv_nd;
pub mod conv_transpose;
pub mod convolution;
pub mod lower;
pub mod var;
