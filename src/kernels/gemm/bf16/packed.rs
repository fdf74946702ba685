//! Packed tiles: their sizes, and the blocks of operands that are packed into them.
//!
//! Here a *line* is a row of A or a column of B, never 64 bytes. A packed tile is sixteen lines by 32 elements along k,
//! as 256 words of two bf16. Word `16 * line + pair` of a packed tile of A has elements `2 * pair` and `2 * pair + 1`
//! of line `line`. In a packed tile of B, word `16 * pair + line` has them. A *micro-panel* is the packed tiles of
//! sixteen lines, along k.

/// Lines of a packed tile.
pub const LINES: usize = 16;
/// Elements along k in a packed tile.
pub const DEPTH: usize = 32;
/// Words of a cache line.
pub const LINE: usize = 16;
/// Words of a packed tile.
pub const PACKED: usize = 256;
/// A packed tile, which fills a tile register of AMX.
pub type PackedTile = [u32; PACKED];
/// Rows and columns of a tile of C.
pub const SIDE: usize = 2 * LINES;

const _: () = assert!(PACKED == LINES * DEPTH / 2);

/// Lines of an operand.
#[derive(Clone, Copy)]
pub struct PackedSource<'a> {
    /// The elements, from the first.
    pub data: &'a [f32],
    /// Stride between lines.
    pub line_step: usize,
    /// Stride along k.
    pub k_step: usize,
}

impl PackedSource<'_> {
    /// The same from line `line` on.
    pub fn from(self, line: usize) -> Self {
        PackedSource { data: &self.data[line * self.line_step..], ..self }
    }
}

/// The operand that a packed tile is of, which decides the order of its words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// A: line by line.
    A,
    /// B: pair by pair.
    B,
}

/// The numbers of one packed tile, as runs of adjacent numbers.
#[derive(Clone, Copy)]
pub struct Runs<'a> {
    /// The numbers, from the first run.
    pub data: &'a [f32],
    /// Stride between runs.
    pub step: usize,
    /// Whether runs are the 16 lines, each of 32 numbers; else they are the 32 steps along k, each of 16 lines.
    pub lines: bool,
}
