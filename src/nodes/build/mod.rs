//! Parts of the builder that are common to many ops: axes, sizes, implicit broadcasting, regions and options.

pub mod axes;
pub mod broadcast;
pub mod dilate;
pub mod regions;
pub mod setters;
pub mod size_attrs;
