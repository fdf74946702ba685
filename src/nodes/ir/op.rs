//! The id of an op.

/// An op: an index into the graph's op table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Op(pub u16);
