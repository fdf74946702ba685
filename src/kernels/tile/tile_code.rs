//! The code of a tile program, as the kernel reads it: the steps of its plan, each with the loop that computes it.
//!
//! [`TileCode`] is made once, when a program is compiled, and is the prepared data of a call. Invariant: a loop
//! computes what [`apply_step`](super::apply::apply_step) does, bit for bit.

use super::program::TileProgram;
use super::step_loops::{StepLoop, loop_with_constant, step_loop};
use super::tile_op::TileOp;
use super::tile_plan::{Kind, PlannedInput, PlannedStep, Storage, TilePlan};
use arenagrad_arena::DType;

/// A dimension or a stride.
pub(super) type Word = u64;

/// A step as the kernel reads it.
#[derive(Clone, Copy)]
pub(super) struct StepCode {
    /// Computes the step.
    pub run: StepLoop,
    pub op: TileOp,
    pub elem: DType,
    pub out: DType,
    pub to: Storage,
    pub args: [Storage; 3],
    /// Bytes of an element of each operand.
    pub sizes: [usize; 3],
    /// The immediates, or the constant that an operand is.
    pub imm: [f64; 2],
}

impl StepCode {
    fn new(PlannedStep { step, to, args }: &PlannedStep) -> StepCode {
        let &super::program::TileStep { op, elem, out, imm, .. } = step;
        let size = |k: usize| if k < op.arity() { op.operand(elem, k).size() } else { 0 };
        StepCode { run: step_loop(op, elem), op, elem, out, to: *to, args: *args, sizes: [0, 1, 2].map(size), imm }
    }

    /// The step with operand `k`, a constant, in its loop.
    fn with_constant(self, k: usize, constant: [f64; 2]) -> Option<StepCode> {
        let number = !constant.iter().any(|x| x.is_nan());
        let run = loop_with_constant(self.op, self.elem, k).filter(|_| number)?;
        let mut args = self.args;
        args[k] = Storage::None;
        Some(StepCode { run, args, imm: constant, ..self })
    }
}

/// An input as the kernel reads it.
pub(super) struct InputCode {
    pub elem: DType,
    /// The slot of its tile if it is not read in place.
    pub slot: usize,
    kind: Kind,
    /// Of a strided view: a dimension and a stride for each axis, outermost first.
    walk: Vec<Word>,
}

impl InputCode {
    fn new(PlannedInput { kind, elem, slot }: &PlannedInput) -> InputCode {
        let walk = match kind {
            Kind::Strided { walk, .. } => {
                walk.iter().flat_map(|(dim, stride)| [*dim as Word, *stride as Word]).collect()
            }
            _ => Vec::new(),
        };
        InputCode { elem: *elem, slot: slot.map_or(0, usize::from), kind: kind.clone(), walk }
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
    /// Whether the program is one step from whole inputs, in the order of its operands or not, to one output.
    pub(super) direct: bool,
    /// Lines of a slot.
    pub(super) lines: usize,
    pub(super) inputs: Vec<InputCode>,
    /// The constants that no loop has in it.
    pub(super) once: Vec<StepCode>,
    /// The other steps.
    pub(super) steps: Vec<StepCode>,
    /// The types of the outputs.
    pub(super) outputs: Vec<DType>,
}

impl TileCode {
    /// The code of `program`.
    ///
    /// # Panics
    /// If [`TileProgram::check`] does not hold.
    pub fn new(program: &TileProgram) -> TileCode {
        let plan = TilePlan::new(program);
        let whole = plan.inputs.iter().all(|input| input.kind == Kind::Full);
        let direct = plan.once.is_empty() && plan.steps.len() == 1 && plan.outputs.len() == 1 && whole;
        let mut once: Vec<StepCode> = plan.once.iter().map(StepCode::new).collect();
        let constant = |at: Storage| once.iter().find(|c| c.to == at && at != Storage::None).map(|c| c.imm);
        let with_constant = |step: &PlannedStep| {
            let step = StepCode::new(step);
            let one = |k: usize| constant(step.args[k]).and_then(|imm| step.with_constant(k, imm));
            (0..step.op.arity()).find_map(one).unwrap_or(step)
        };
        let steps: Vec<StepCode> = plan.steps.iter().map(with_constant).collect();
        once.retain(|c| steps.iter().any(|s| s.args.contains(&c.to)));
        let inputs = plan.inputs.iter().map(InputCode::new).collect();
        TileCode { len: plan.len, direct, lines: plan.lines, inputs, once, steps, outputs: plan.outputs }
    }
}
