//! Packed tiles: sizes, and the blocks of operands that are packed into them.

/// Lines of a packed tile.
pub const LINES: usize = 16;
/// Places of k in a packed tile.
pub const PLACES: usize = 32;
/// Words of a cache line.
pub const LINE: usize = 16;
/// Words of a packed tile.
pub const PACKED: usize = 256;
/// Sixteen lines by 32 places of k, two bf16 to a word: what a tile register holds.
pub type PackedTile = [u32; PACKED];
/// Side of the largest tile.
pub const SIDE: usize = 2 * LINES;

const _: () = assert!(PACKED == LINES * PLACES / 2);

/// Some lines of an operand and the steps between its elements.
#[derive(Clone, Copy)]
pub struct Operand<'a> {
    /// The elements, from the first.
    pub data: &'a [f32],
    /// Between lines.
    pub line: usize,
    /// Between places of k.
    pub place: usize,
}

impl Operand<'_> {
    /// The same, from a line on.
    pub fn from(self, line: usize) -> Self {
        Operand { data: &self.data[line * self.line..], ..self }
    }
}

/// Which way the words of a packed tile lie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Line by line.
    A,
    /// Pair by pair.
    B,
}

/// The numbers of a block: either its lines or its places of k are runs.
pub enum Runs<'a> {
    /// Sixteen lines of 32 places, this far apart.
    Lines(&'a [f32], usize),
    /// 32 places of sixteen lines, this far apart.
    Places(&'a [f32], usize),
}

impl<'a> Runs<'a> {
    /// The numbers, the distance of the runs, and whether the runs are lines.
    pub fn view(&self) -> (&'a [f32], usize, bool) {
        match *self {
            Runs::Lines(data, step) => (data, step, true),
            Runs::Places(data, step) => (data, step, false),
        }
    }
}
