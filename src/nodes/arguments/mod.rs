//! Parts of the builder that are common to many ops: axes, sizes, implicit broadcasting and options.

pub mod axes;
pub mod broadcast;
pub mod dilate;
pub mod op_by_name;
pub mod operand;
pub mod per_axis;
pub mod setters;
pub mod size_attrs;
pub mod var_axes;
