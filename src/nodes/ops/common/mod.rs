//! Shared by several families: lowering helpers and the geometry of sliding windows.

pub mod cost;
pub(crate) mod lowering;
pub mod positions;
pub mod window_geometry;
