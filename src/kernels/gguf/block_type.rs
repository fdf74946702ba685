//! The block types: their names, the numbers that stand for them in files, and their sizes.

use super::block_codec::BlockCodec;
use super::blocks_of_32::{Iq4Nl, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
use super::blocks_of_256::{Q2K, Q3K, Q4K, Q5K, Q8K};
use super::q6_k::Q6K;
use super::ternary_blocks::{Tq1_0, Tq2_0};

macro_rules! block_types {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $id:literal, $codec:expr;)*) => {
        /// A block type of GGUF files.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum BlockType { $($(#[$doc])* $variant),* }

        impl BlockType {
            /// All types, ordered by their number in files.
            pub const ALL: &[BlockType] = &[$(BlockType::$variant),*];

            /// The name that files and programs use, such as `Q4_K`.
            pub const fn name(self) -> &'static str {
                match self { $(BlockType::$variant => $name),* }
            }

            /// The number in files.
            pub const fn id(self) -> u32 {
                match self { $(BlockType::$variant => $id),* }
            }

            /// Elements of a block.
            pub const fn elements(self) -> usize {
                const fn of<C: BlockCodec>(_: &C) -> usize { C::ELEMENTS }
                match self { $(BlockType::$variant => of(&$codec)),* }
            }

            /// Bytes of a block.
            pub const fn bytes(self) -> usize {
                const fn of<C: BlockCodec>(_: &C) -> usize { C::BYTES }
                match self { $(BlockType::$variant => of(&$codec)),* }
            }
        }

        /// Evaluates `$body` with `$c` bound to the codec of a type.
        macro_rules! with_block_codec {
            ($type:expr, $c:ident => $body:expr) => {{
                use $crate::gguf::blocks_of_32::*;
                use $crate::gguf::blocks_of_256::*;
                use $crate::gguf::q6_k::*;
                use $crate::gguf::ternary_blocks::*;
                match $type {
                    $($crate::gguf::BlockType::$variant => { let $c = $codec; $body })*
                }
            }};
        }
    };
}

block_types! {
    /// 4 bits and a scale, 32 elements.
    Q4_0 = "Q4_0", 2, Q4_0;
    /// 4 bits, a scale and a min.
    Q4_1 = "Q4_1", 3, Q4_1;
    /// 5 bits and a scale.
    Q5_0 = "Q5_0", 6, Q5_0;
    /// 5 bits, a scale and a min.
    Q5_1 = "Q5_1", 7, Q5_1;
    /// 8 bits and a scale.
    Q8_0 = "Q8_0", 8, Q8_0;
    /// 2 bits, 256 elements, with a scale and a min for each 16.
    Q2K = "Q2_K", 10, Q2K;
    /// 3 bits, with a scale for each 16.
    Q3K = "Q3_K", 11, Q3K;
    /// 4 bits, with a scale and a min for each 32.
    Q4K = "Q4_K", 12, Q4K;
    /// 5 bits, with a scale and a min for each 32.
    Q5K = "Q5_K", 13, Q5K;
    /// 6 bits, with a scale for each 16.
    Q6K = "Q6_K", 14, Q6K;
    /// 8 bits and an `f32` scale, 256 elements.
    Q8K = "Q8_K", 15, Q8K;
    /// 4 bits that name one of 16 values, 32 elements.
    Iq4Nl = "IQ4_NL", 20, Iq4Nl;
    /// The numbers −1, 0 and 1, five in a byte, 256 elements.
    Tq1_0 = "TQ1_0", 34, Tq1_0;
    /// The numbers −1, 0 and 1, four in a byte.
    Tq2_0 = "TQ2_0", 35, Tq2_0;
    /// 4-bit floats that share a power of two, 32 elements.
    Mxfp4 = "MXFP4", 39, Mxfp4;
}

pub(super) use with_block_codec;

impl BlockType {
    /// The type with this number in files.
    pub fn from_id(id: u32) -> Option<BlockType> {
        BlockType::ALL.iter().copied().find(|t| t.id() == id)
    }

    /// The type called `name`, in letters of either case.
    pub fn from_name(name: &str) -> Option<BlockType> {
        BlockType::ALL.iter().copied().find(|t| t.name().eq_ignore_ascii_case(name))
    }

    /// Bytes of `elements` elements; `None` if they are not whole blocks, or too many for a `usize`.
    pub fn bytes_of(self, elements: usize) -> Option<usize> {
        let whole = elements.is_multiple_of(self.elements());
        if whole { (elements / self.elements()).checked_mul(self.bytes()) } else { None }
    }
}
