//! Where a tensor of opened weights lies.

use crate::nodes::DType;

/// A tensor of opened weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The name, unique in the weights.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// The shape.
    pub dims: Vec<usize>,
    /// Size in bytes.
    pub bytes: usize,
    pub(super) file: usize,
    /// First byte in the file.
    pub(super) at: u64,
    /// Elements between neighbours along each axis; `None` if they are row-major.
    pub(super) strides: Option<Vec<usize>>,
}
