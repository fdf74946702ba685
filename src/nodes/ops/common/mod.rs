//! Shared by several families: costs, lowering helpers, positions along axes, the geometry of sliding windows.

pub mod batch_site;
pub mod cost;
pub(crate) mod lowering;
pub mod positions;
pub mod window_attrs;
pub mod window_geometry;
