//! Windows as columns, and images of another size.

pub mod lower;
pub mod resize;
pub mod unfold;
pub mod var;
