//! The word code of a tile program: [`plan_word_code`] writes it once, [`WordCode`] reads it on every call without
//! decoding ahead.
//!
//! Layout: 2 words of header, 3 for each input, 4 for each step (constants first), 1 for each output, then the
//! dimensions and strides of strided inputs.

use super::program::TileProgram;
use super::tile_op::TileOp;
use super::tile_plan::{Kind, PlannedInput, PlannedStep, Storage, TilePlan};
use arenagrad_arena::DType;

/// A parameter word.
pub(super) type Word = u64;

/// Encodes where a value is stored.
fn storage_word_code(storage: Storage) -> Word {
    match storage {
        Storage::None => 0,
        Storage::Input(i, s) => 1 << 14 | Word::from(i) << 10 | Word::from(s),
        Storage::Slot(s) => 2 << 14 | Word::from(s),
        Storage::Out(j) => 3 << 14 | Word::from(j),
    }
}

/// A [`Storage`] in a word. Decoding it at its use saves a branch.
#[derive(Clone, Copy)]
pub(super) struct StorageWordCode(u16);

impl StorageWordCode {
    #[inline(always)]
    pub(super) fn storage(self) -> Storage {
        let at = self.0 & 0x3fff;
        match self.0 >> 14 {
            0 => Storage::None,
            1 => Storage::Input(at >> 10, at & 0x3ff),
            2 => Storage::Slot(at),
            _ => Storage::Out(at),
        }
    }
}

const HEAD: usize = 2;
const INPUT: usize = 3;
const STEP: usize = 4;

fn step_word_code(words: &mut Vec<Word>, PlannedStep { step, to, args }: &PlannedStep) {
    words.push(step.op as Word | (step.elem as Word) << 8 | (step.out as Word) << 16 | storage_word_code(*to) << 32);
    words.push(storage_word_code(args[0]) | storage_word_code(args[1]) << 16 | storage_word_code(args[2]) << 32);
    words.extend(step.imm.map(f64::to_bits));
}

/// Encodes a plan.
fn plan_word_code(plan: &TilePlan) -> Vec<Word> {
    let counts = [plan.inputs.len(), plan.once.len(), plan.steps.len(), plan.outputs.len()];
    let packed = counts.iter().rev().fold(0, |w, n| w << 10 | *n as Word);
    let direct = counts[1..] == [0, 1, 1] && plan.inputs.iter().all(|input| input.kind == Kind::Full);
    let mut words = vec![plan.len as Word, packed | (direct as Word) << 47 | (plan.lines as Word) << 48];
    let body = INPUT * counts[0] + STEP * (counts[1] + counts[2]) + counts[3];
    let mut tail: Vec<Word> = Vec::new();
    for PlannedInput { kind, elem, slot } in &plan.inputs {
        let slot = slot.map_or(0, Word::from);
        let (code, x, y) = match kind {
            Kind::Unused => (0, 0, 0),
            Kind::Full => (1, 0, 0),
            Kind::Scalar => (2, 0, 0),
            Kind::Suffix(n) => (3, *n, 0),
            Kind::Prefix(n) => (4, *n, 0),
            Kind::Strided { base, walk } => {
                let at = HEAD + body + tail.len();
                tail.extend(walk.iter().flat_map(|(dim, stride)| [*dim as Word, *stride as Word]));
                (5, *base, at << 8 | walk.len())
            }
        };
        words.extend([code | (*elem as Word) << 8 | slot << 16, x as Word, y as Word]);
    }
    for step in plan.once.iter().chain(&plan.steps) {
        step_word_code(&mut words, step);
    }
    words.extend(plan.outputs.iter().map(|e| *e as Word));
    words.extend(tail);
    words
}

impl TileProgram {
    /// The parameter words of the kernel.
    ///
    /// # Panics
    /// If [`TileProgram::check`] does not hold.
    pub fn to_word_code(&self) -> Vec<Word> {
        plan_word_code(&TilePlan::new(self))
    }
}

/// A step as the kernel reads it.
#[derive(Clone, Copy)]
pub(super) struct StepWordCode {
    pub op: TileOp,
    pub elem: DType,
    pub out: DType,
    pub to: StorageWordCode,
    pub args: [StorageWordCode; 3],
    pub imm: [f64; 2],
}

impl StepWordCode {
    // The fields stay in registers: a struct of bytes that is stored and reloaded as words stalls on store forwarding.
    #[inline(always)]
    fn read(w: &[Word]) -> StepWordCode {
        StepWordCode {
            op: TileOp::ALL[(w[0] & 0xff) as usize],
            elem: elem_of_word_code(w[0] >> 8),
            out: elem_of_word_code(w[0] >> 16),
            to: StorageWordCode((w[0] >> 32) as u16),
            args: [
                StorageWordCode(w[1] as u16),
                StorageWordCode((w[1] >> 16) as u16),
                StorageWordCode((w[1] >> 32) as u16),
            ],
            imm: [f64::from_bits(w[2]), f64::from_bits(w[3])],
        }
    }
}

/// The type in the low byte of a word.
#[inline]
fn elem_of_word_code(w: Word) -> DType {
    DType::REAL[(w & 0xff) as usize]
}

/// An input as the kernel reads it.
#[derive(Clone, Copy)]
pub(super) struct InputCode<'a> {
    pub elem: DType,
    /// The slot of its tile if it is not read in place.
    pub slot: usize,
    pub access: AccessCode<'a>,
}

/// An access as the kernel reads it.
#[derive(Clone, Copy)]
pub(super) enum AccessCode<'a> {
    Unused,
    Full,
    Scalar,
    Suffix(usize),
    Prefix(usize),
    /// `walk` has a dimension and a stride for each axis, outermost first.
    Strided {
        base: usize,
        walk: &'a [Word],
    },
}

/// A program in words.
#[derive(Clone, Copy)]
pub(super) struct WordCode<'a> {
    words: &'a [Word],
}

impl<'a> WordCode<'a> {
    #[inline]
    pub(super) fn new(words: &'a [Word]) -> WordCode<'a> {
        WordCode { words }
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        self.words[0] as usize
    }

    #[inline]
    fn count(self, k: usize) -> usize {
        (self.words[1] >> (10 * k) & 0x3ff) as usize
    }

    #[inline]
    pub(super) fn inputs(self) -> usize {
        self.count(0)
    }

    #[inline]
    pub(super) fn outputs(self) -> usize {
        self.count(3)
    }

    #[inline]
    pub(super) fn steps(self) -> usize {
        self.count(2)
    }

    /// Whether the program is one step from whole inputs, in the order of its operands or not, to one output.
    #[inline]
    pub(super) fn direct(self) -> bool {
        self.words[1] >> 47 & 1 != 0
    }

    /// Lines of a slot.
    #[inline]
    pub(super) fn lines(self) -> usize {
        (self.words[1] >> 48) as usize
    }

    /// The type of input `i`.
    #[inline]
    pub(super) fn input_elem(self, i: usize) -> DType {
        elem_of_word_code(self.words[HEAD + INPUT * i] >> 8)
    }

    #[inline(always)]
    pub(super) fn input(self, i: usize) -> InputCode<'a> {
        let w = &self.words[HEAD + INPUT * i..][..INPUT];
        let slot = (w[0] >> 16) as usize;
        let access = match w[0] & 0xff {
            0 => AccessCode::Unused,
            1 => AccessCode::Full,
            2 => AccessCode::Scalar,
            3 => AccessCode::Suffix(w[1] as usize),
            4 => AccessCode::Prefix(w[1] as usize),
            _ => {
                let walk = &self.words[(w[2] >> 8) as usize..][..2 * (w[2] & 0xff) as usize];
                AccessCode::Strided { base: w[1] as usize, walk }
            }
        };
        InputCode { elem: elem_of_word_code(w[0] >> 8), slot, access }
    }

    /// The constants.
    #[inline]
    pub(super) fn once_codes(self) -> impl Iterator<Item = StepWordCode> + 'a {
        let words = &self.words[HEAD + INPUT * self.inputs()..][..STEP * self.count(1)];
        words.chunks_exact(STEP).map(StepWordCode::read)
    }

    /// The other steps.
    #[inline]
    pub(super) fn step_codes(self) -> impl Iterator<Item = StepWordCode> + 'a {
        let words = &self.words[HEAD + INPUT * self.inputs() + STEP * self.count(1)..][..STEP * self.steps()];
        words.chunks_exact(STEP).map(StepWordCode::read)
    }

    #[inline]
    pub(super) fn output(self, j: usize) -> DType {
        elem_of_word_code(self.words[HEAD + INPUT * self.inputs() + STEP * (self.count(1) + self.steps()) + j])
    }
}
