//! Parts of the builder that need no op by name: axes, sizes, implicit broadcasting, regions and
//! options.

pub mod axes;
pub mod broadcast;
pub mod dilate;
pub mod regions;
pub mod setters;
pub mod size_attrs;
