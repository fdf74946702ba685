//! The types of tensors in GGUF files: elements of their own, or blocks.

use crate::kernels::gguf::BlockType;
use crate::nodes::DType;

/// The type of a tensor in a GGUF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorType {
    /// Elements of a type.
    Plain(DType),
    /// Blocks.
    Blocks(BlockType),
}

/// The element types, with their names and numbers in files.
const PLAIN: [(DType, &str, u32); 8] = [
    (DType::F32, "F32", 0),
    (DType::F16, "F16", 1),
    (DType::I8, "I8", 24),
    (DType::I16, "I16", 25),
    (DType::I32, "I32", 26),
    (DType::I64, "I64", 27),
    (DType::F64, "F64", 28),
    (DType::BF16, "BF16", 30),
];

impl TensorType {
    /// The type with this number in files.
    pub fn from_id(id: u32) -> Option<TensorType> {
        let plain = PLAIN.iter().find(|p| p.2 == id).map(|p| TensorType::Plain(p.0));
        plain.or_else(|| BlockType::from_id(id).map(TensorType::Blocks))
    }

    /// The number in files; `None` for an element type that files do not have.
    pub fn id(self) -> Option<u32> {
        match self {
            TensorType::Plain(d) => PLAIN.iter().find(|p| p.0 == d).map(|p| p.2),
            TensorType::Blocks(b) => Some(b.id()),
        }
    }

    /// The name, such as `F32` or `Q4_K`.
    pub fn name(self) -> &'static str {
        match self {
            TensorType::Plain(d) => PLAIN.iter().find(|p| p.0 == d).map_or(d.name(), |p| p.1),
            TensorType::Blocks(b) => b.name(),
        }
    }

    /// Bytes of a tensor of shape `dims`, row-major; `None` if its last axis is no whole blocks, or if they are too
    /// many for a `usize`.
    pub fn bytes_of(self, dims: &[usize]) -> Option<usize> {
        let (row, lead) = match self {
            TensorType::Plain(d) => (d.size(), dims),
            TensorType::Blocks(b) => {
                let (&last, lead) = dims.split_last().unwrap_or((&1, &[]));
                (b.bytes_of(last)?, lead)
            }
        };
        lead.iter().try_fold(row, |bytes, &d| bytes.checked_mul(d))
    }
}
