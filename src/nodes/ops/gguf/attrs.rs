//! Attributes of ops on blocks.

use crate::kernels::gguf::BlockType;
use crate::nodes::ir::attr_types::{Choice, attrs};

/// The names of all block types, in their order.
const NAMES: [&str; BlockType::ALL.len()] = {
    let (mut names, mut i) = ([""; BlockType::ALL.len()], 0);
    while i < names.len() {
        names[i] = BlockType::ALL[i].name();
        i += 1;
    }
    names
};

impl Choice for BlockType {
    const NAMES: &'static [&'static str] = &NAMES;

    fn from_choice_index(i: u32) -> BlockType {
        BlockType::ALL[(i as usize).min(BlockType::ALL.len() - 1)]
    }

    fn choice_index(self) -> u32 {
        self as u32
    }
}

attrs! {
    /// Attributes of `gguf_dequant`.
    pub struct GgufDequantAttrs {
        /// The block type.
        block_type: BlockType,
        /// Dimensions of the result.
        dims: Vec<i64>,
    }
}

attrs! {
    /// Attributes of `gguf_matmul`.
    pub struct GgufMatmulAttrs {
        /// The block type.
        block_type: BlockType,
        /// Rows of D.
        n: i64,
        /// Columns of D.
        k: i64,
        /// Whether the product is with D itself, and not with its transpose.
        back: bool,
    }
}

attrs! {
    /// Attributes of `gguf_grouped_matmul`.
    pub struct GgufGroupedAttrs {
        /// The block type.
        block_type: BlockType,
        /// Number of groups.
        groups: i64,
        /// Rows of the matrix of a group.
        n: i64,
        /// Columns of the matrix of a group.
        k: i64,
        /// Whether the products are with the matrices themselves, and not with their transposes.
        back: bool,
        /// Whether the third operand is the number of rows of each group, and rows are in the order of their groups.
        by_size: bool,
    }
}

attrs! {
    /// Attributes of `gguf_dequant_experts`.
    pub struct GgufExpertsAttrs {
        /// The block type.
        block_type: BlockType,
        /// Number of experts.
        experts: i64,
        /// Rows of the matrix of an expert.
        n: i64,
        /// Columns of the matrix of an expert.
        k: i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_type_comes_back_from_its_index_and_name() {
        for (i, t) in BlockType::ALL.iter().enumerate() {
            assert_eq!((t.choice_index(), NAMES[i]), (i as u32, t.name()));
            assert_eq!(BlockType::from_choice_index(i as u32).name(), t.name());
        }
        let last = BlockType::ALL[BlockType::ALL.len() - 1].name();
        assert_eq!(BlockType::from_choice_index(BlockType::ALL.len() as u32).name(), last);
    }
}
