//! What the builder adds to bare nodes: operators and implicit broadcasting.

pub mod axes;
pub mod broadcast;
pub mod dilate;
pub mod regions;
