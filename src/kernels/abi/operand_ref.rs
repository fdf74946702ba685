//! The operands of an instruction: their byte ranges in the arena, how units divide them, and how far their offsets
//! advance in each iteration of a loop.

/// How the units of an instruction divide an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Every call gets the whole operand. This is the split of reads, and of writes if the instruction has one unit.
    Whole,
    /// Unit `u` owns elements `u * n .. (u + 1) * n`, clipped at the operand's end.
    PerUnit(usize),
    /// The operand is a matrix with rows of `row` elements. Unit `u` owns columns `u * width .. (u + 1) * width` of
    /// every row, clipped at the row's end. The kernel gets them as a [`MatrixMut`](super::MatrixMut).
    Columns {
        /// Elements of a row.
        row: usize,
        /// Columns of a unit.
        width: usize,
    },
    /// Scratch: thread `t` owns elements `t * n .. (t + 1) * n`.
    PerThread(usize),
}

impl Split {
    /// The row length and the columns of a unit, if units divide columns.
    #[inline]
    pub(super) fn operand_columns(self) -> Option<(usize, usize)> {
        match self {
            Split::Columns { row, width } => Some((row, width)),
            Split::Whole | Split::PerUnit(_) | Split::PerThread(_) => None,
        }
    }
}

/// One operand, resolved to a byte range of the arena.
#[derive(Clone, Copy, Debug)]
pub struct OperandRef {
    /// Byte offset from the start of the arena; a multiple of the element size.
    pub off: usize,
    /// Number of elements.
    pub len: usize,
    /// Bytes of one element. A kernel that asks for elements of another size panics, so it cannot reach bytes beyond
    /// the operand.
    pub size: usize,
    /// The part that one call may touch.
    pub split: Split,
    /// For a read: the index of the write that shares its bytes. Such a read is reached through that write only.
    pub inplace: Option<u8>,
    /// Index into [`LoopOffsets::strides`] for an operand whose offset changes with the iterations of enclosing loops;
    /// 0 if the offset is fixed.
    pub moves: u32,
}

impl OperandRef {
    /// An operand at a fixed offset, not in place.
    pub fn new(off: usize, len: usize, size: usize, split: Split) -> OperandRef {
        OperandRef { off, len, size, split, inplace: None, moves: 0 }
    }
}

/// Maximal nesting depth of loops and branches.
pub const DEPTH: usize = 16;

/// Bytes that an operand advances per iteration of each enclosing loop, outermost first.
pub type Strides = [usize; DEPTH];

/// The current iteration of the loops around an instruction, and the strides of operands that depend on it.
#[derive(Clone, Copy)]
pub struct LoopOffsets<'a> {
    /// Strides of the moving operands. Entry 0 is for operands that do not move.
    pub strides: &'a [Strides],
    /// Current iteration of each loop, outermost first.
    pub at: [usize; DEPTH],
    /// Number of loops around the instruction.
    pub depth: usize,
}

impl LoopOffsets<'_> {
    /// For an instruction outside all loops.
    pub const NONE: LoopOffsets<'static> = LoopOffsets { strides: &[], at: [0; DEPTH], depth: 0 };

    /// Byte offset of `s` in the current iteration. The arithmetic wraps; [`Args`](super::Args) checks bounds
    /// afterwards.
    #[inline]
    pub fn operand_offset(&self, s: &OperandRef) -> usize {
        match s.moves {
            0 => s.off,
            m => self.strides[m as usize]
                .iter()
                .zip(&self.at)
                .take(self.depth)
                .fold(s.off, |off, (stride, i)| off.wrapping_add(stride.wrapping_mul(*i))),
        }
    }
}
