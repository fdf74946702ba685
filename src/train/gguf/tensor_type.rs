//! The types of tensors in GGUF files: elements of their own, blocks, or types that are named and not read.

use crate::kernels::gguf::BlockType;
use crate::nodes::DType;
use std::borrow::Cow;

/// The type of a tensor in a GGUF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorType {
    /// Elements of a type.
    Plain(DType),
    /// Blocks.
    Blocks(BlockType),
    /// A type that has no reader here, by its number in files. Its tensors are listed, and using one is an error.
    Other(u32),
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

/// The other types of ggml, those that it has dropped among them: number, name, elements and bytes of a block.
const OTHER: [(u32, &str, usize, usize); 19] = [
    (4, "Q4_2", 16, 10),
    (5, "Q4_3", 16, 12),
    (9, "Q8_1", 32, 36),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (29, "IQ1_M", 256, 56),
    (31, "Q4_0_4_4", 32, 18),
    (32, "Q4_0_4_8", 32, 18),
    (33, "Q4_0_8_8", 32, 18),
    (36, "IQ4_NL_4_4", 32, 18),
    (37, "IQ4_NL_4_8", 32, 18),
    (38, "IQ4_NL_8_8", 32, 18),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
];

impl TensorType {
    /// The type with this number in files.
    pub fn from_id(id: u32) -> TensorType {
        let plain = PLAIN.iter().find(|p| p.2 == id).map(|p| TensorType::Plain(p.0));
        plain.or_else(|| BlockType::from_id(id).map(TensorType::Blocks)).unwrap_or(TensorType::Other(id))
    }

    /// The number in files; `None` for an element type that files do not have.
    pub fn id(self) -> Option<u32> {
        match self {
            TensorType::Plain(d) => PLAIN.iter().find(|p| p.0 == d).map(|p| p.2),
            TensorType::Blocks(b) => Some(b.id()),
            TensorType::Other(id) => Some(id),
        }
    }

    /// The name, such as `F32` or `Q4_K`; `type 99` for a number that ggml does not give.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            TensorType::Plain(d) => PLAIN.iter().find(|p| p.0 == d).map_or(d.name(), |p| p.1).into(),
            TensorType::Blocks(b) => b.name().into(),
            TensorType::Other(id) => {
                OTHER.iter().find(|o| o.0 == id).map_or_else(|| format!("type {id}").into(), |o| o.1.into())
            }
        }
    }

    /// Whether how many bytes its tensors have is not known.
    pub(super) fn is_of_unknown_size(self) -> bool {
        matches!(self, TensorType::Other(id) if OTHER.iter().all(|o| o.0 != id))
    }

    /// Bytes of a tensor of shape `dims`, row-major; `None` if its last axis is no whole blocks, if they are too many
    /// for a `usize`, or if the type is not known.
    pub fn bytes_of(self, dims: &[usize]) -> Option<usize> {
        let blocks = match self {
            TensorType::Plain(d) => return dims.iter().try_fold(d.size(), |bytes, &d| bytes.checked_mul(d)),
            TensorType::Blocks(b) => (b.elements(), b.bytes()),
            TensorType::Other(id) => OTHER.iter().find(|o| o.0 == id).map(|o| (o.2, o.3))?,
        };
        let (&last, lead) = dims.split_last().unwrap_or((&1, &[]));
        let row = if last.is_multiple_of(blocks.0) { (last / blocks.0).checked_mul(blocks.1) } else { None };
        lead.iter().try_fold(row?, |bytes, &d| bytes.checked_mul(d))
    }
}
