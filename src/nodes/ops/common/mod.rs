//! Shared by several families: lowering helpers and the geometry of sliding windows.

pub(crate) mod lowering;
pub mod window;
