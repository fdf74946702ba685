//! The code of a tile program, as the kernel reads it: the steps of its plan, each with the loop that computes it.
//!
//! [`TileCode`] is made once, when a program is compiled, and is the prepared data of a call. Invariant: a loop
//! computes what [`run_step`](super::apply::run_step) does, bit for bit.

use super::apply;
use super::program::TileProgram;
use super::step_code::StepCode;
use super::tile_plan::{Kind, PlannedInput, PlannedStep, Storage, TilePlan};
use super::tile_table::{FIRST_INPUT, NOTHING};
use arenagrad_arena::DType;
use bytemuck::{bytes_of, bytes_of_mut};

/// A dimension or a stride.
pub(super) type Word = u64;

impl StepCode {
    fn new(&PlannedStep { step, run, to, args }: &PlannedStep, entry: impl Fn(Storage) -> u16) -> StepCode {
        let super::program::TileStep { op, elem, out, imm, .. } = step;
        StepCode { run, op, elem, out, size: out.size(), to: entry(to), args: args.map(entry), imm }
    }
}

/// An input as the kernel reads it.
pub(super) struct InputCode {
    pub elem: DType,
    /// The entry of its tile in the table of a call, and that of the slot for the tile if it is not contiguous. It has
    /// no slot if it is read as one number only, and no entry if that is the same in all tiles.
    pub tile: u16,
    pub slot: u16,
    kind: Kind,
    /// Of a strided view: a dimension and a stride for each axis, outermost first.
    walk: Vec<Word>,
}

impl InputCode {
    fn new(PlannedInput { kind, elem, slot }: &PlannedInput, tile: u16, entry: impl Fn(Storage) -> u16) -> InputCode {
        let walk = match kind {
            Kind::Strided { walk, .. } => {
                walk.iter().flat_map(|(dim, stride)| [*dim as Word, *stride as Word]).collect()
            }
            _ => Vec::new(),
        };
        let slot = entry(slot.map_or(Storage::None, Storage::Slot));
        InputCode { elem: *elem, slot, tile, kind: kind.clone(), walk }
    }

    #[inline(always)]
    pub(super) fn access(&self) -> AccessCode<'_> {
        match self.kind {
            Kind::Unused => AccessCode::Unused,
            Kind::Full => AccessCode::Full,
            Kind::Scalar => AccessCode::Scalar,
            Kind::Suffix(n) => AccessCode::Suffix(n),
            Kind::Prefix(n) => AccessCode::Prefix(n),
            Kind::Strided { base, .. } => AccessCode::Strided { base, walk: &self.walk },
        }
    }
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

/// A program as the kernel reads it: what is prepared for a call of [`tile_kernel`](super::tile_kernel()).
pub struct TileCode {
    pub(super) len: usize,
    /// Whether the program is one loop from whole inputs to one output.
    pub(super) direct: bool,
    /// Lines of a slot.
    pub(super) lines: usize,
    /// How many slots a call has.
    pub(super) slots: usize,
    pub(super) inputs: Vec<InputCode>,
    /// For each input, the bytes of an element if tiles of it are read where they are, else 0.
    pub(super) whole: Vec<u8>,
    /// The inputs of which tiles are fetched, as they are not read where they are.
    pub(super) fetched: Vec<u16>,
    /// The constants that loops read as one number, each in the bytes of a word.
    constants: Vec<Word>,
    /// The constants that some loop reads element by element.
    pub(super) once: Vec<StepCode>,
    /// The other steps.
    pub(super) steps: Vec<StepCode>,
    /// The types of the outputs.
    pub(super) outputs: Vec<DType>,
    /// For each output, the entry of the slot for the tile of an input that it is in place of.
    pub(super) copies: Vec<u16>,
    /// For each output, the inputs that its step reads from the output if that is in place of them.
    pub(super) addends: Vec<[Option<u16>; 2]>,
    /// What it is the code of.
    program: TileProgram,
}

impl TileCode {
    /// The program that it is the code of.
    pub fn program(&self) -> &TileProgram {
        &self.program
    }

    /// Whether the step of output `j` reads input `i` from the output, if that is in place of it.
    #[inline]
    pub(super) fn adds_in_place(&self, i: usize, j: usize) -> bool {
        self.addends[j].contains(&Some(i as u16))
    }

    /// The constants that loops read as one number, in the order of their entries.
    #[inline]
    pub(super) fn constants(&self) -> impl Iterator<Item = &[u8]> {
        self.constants.iter().map(bytes_of)
    }

    /// The code of `program`.
    ///
    /// # Panics
    /// If [`TileProgram::check`] does not hold.
    pub fn new(program: &TileProgram) -> TileCode {
        let plan = TilePlan::new(program);
        let first_out = FIRST_INPUT + plan.inputs.len();
        let first_slot = first_out + plan.outputs.len();
        let slots = usize::from(plan.slots);
        let mut first_constant = first_slot + slots;
        let mut tile = |(i, input): (usize, &PlannedInput)| match (&input.kind, input.slot) {
            (Kind::Full, _) => (FIRST_INPUT + i) as u16,
            (kind, None) if !kind.is_steady() => NOTHING,
            _ => {
                first_constant += 1;
                (first_constant - 1) as u16
            }
        };
        let tiles: Vec<u16> = plan.inputs.iter().enumerate().map(&mut tile).collect();
        let entry = |at: Storage| match at {
            Storage::None => NOTHING,
            Storage::Input(i) => tiles[usize::from(i)],
            Storage::Number(i) if plan.inputs[usize::from(i)].kind.is_steady() => tiles[usize::from(i)],
            Storage::Number(i) => FIRST_INPUT as u16 + i,
            Storage::Constant(k) => first_constant as u16 + k,
            Storage::Out(j) => first_out as u16 + j,
            Storage::Slot(s) => first_slot as u16 + s,
        };
        let once: Vec<StepCode> = plan.once.iter().map(|step| StepCode::new(step, entry)).collect();
        let steps: Vec<StepCode> = plan.steps.iter().map(|step| StepCode::new(step, entry)).collect();
        let mut constants = vec![0; plan.constants.len()];
        for (word, fill) in constants.iter_mut().zip(&plan.constants) {
            apply::fill_constant(fill.elem, fill.imm, &mut bytes_of_mut(word)[..fill.elem.size()]);
        }
        let size = |input: &PlannedInput| if input.kind == Kind::Full { input.elem.size() as u8 } else { 0 };
        let whole: Vec<u8> = plan.inputs.iter().map(size).collect();
        let direct = once.is_empty() && steps.len() == 1 && plan.outputs.len() == 1 && !whole.contains(&0);
        let inputs = plan.inputs.iter().zip(&tiles).map(|(input, &tile)| InputCode::new(input, tile, entry)).collect();
        let is_fetched = |input: &PlannedInput| input.slot.is_some() || input.kind.is_steady();
        let fetched = (0..plan.inputs.len()).filter(|&i| is_fetched(&plan.inputs[i])).map(|i| i as u16).collect();
        let copies = plan.copies.iter().map(|slot| entry(slot.map_or(Storage::None, Storage::Slot))).collect();
        TileCode {
            len: plan.len,
            direct,
            lines: plan.lines,
            slots,
            inputs,
            whole,
            fetched,
            constants,
            once,
            steps,
            outputs: plan.outputs,
            copies,
            addends: plan.addends,
            program: program.clone(),
        }
    }
}
