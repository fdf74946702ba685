//! Plans a program: finds the live steps and decides where each value is stored. [`super::tile_code`] makes the code of
//! the plan.
//!
//! Invariant: a step's result is never in the slot of one of its operands. A slot that is filled once per call is never
//! reused. Every other slot is free after the last use of its value.

use super::TILE;
use super::program::{Access, TileProgram, TileStep, merged_tile_program_dims};
use super::tile_op::TileOp;
use arenagrad_arena::DType;
use arenagrad_arena::tensor::LINE;

/// How an input is read, with trivial cases reduced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No step reads it.
    Unused,
    Full,
    Scalar,
    Suffix(usize),
    Prefix(usize),
    /// `(dim, stride)`, outermost first.
    Strided {
        base: usize,
        walk: Vec<(usize, isize)>,
    },
}

/// Where a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    None,
    /// An input, and the slot of its tile if it is not read in place.
    Input(u16, u16),
    Slot(u16),
    Out(u16),
}

/// An input's access, with trivial cases reduced to simpler ones.
fn plan_tile_access(access: &Access, len: usize) -> Kind {
    match access {
        Access::Full => Kind::Full,
        Access::Scalar => Kind::Scalar,
        Access::Suffix(1) => Kind::Scalar,
        Access::Suffix(n) if *n >= len => Kind::Full,
        Access::Suffix(n) => Kind::Suffix(*n),
        Access::Prefix(1) => Kind::Full,
        Access::Prefix(n) if *n >= len => Kind::Scalar,
        Access::Prefix(n) => Kind::Prefix(*n),
        Access::Strided { dims, strides, base } => {
            let walk = merged_tile_program_dims(dims, strides);
            match walk.as_slice() {
                [] if *base == 0 => Kind::Scalar,
                [(_, 0)] if *base == 0 => Kind::Scalar,
                [(_, 1)] if *base == 0 => Kind::Full,
                [(_, 0), (n, 1)] if *base == 0 => Kind::Suffix(*n),
                [(_, 1), (n, 0)] if *base == 0 => Kind::Prefix(*n),
                _ => Kind::Strided { base: *base, walk },
            }
        }
    }
}

/// Allocates slots, first fit.
#[derive(Default)]
struct TilePlanSlots {
    free: Vec<u16>,
    count: u16,
    widest: usize,
}

impl TilePlanSlots {
    fn take(&mut self, elem: DType) -> u16 {
        self.widest = self.widest.max(elem.size());
        self.free.pop().unwrap_or_else(|| {
            self.count += 1;
            self.count - 1
        })
    }
}

/// An input of a plan.
pub(super) struct PlannedInput {
    pub kind: Kind,
    pub elem: DType,
    /// Receives tiles that cannot be read in place.
    pub slot: Option<u16>,
}

/// A step of a plan.
pub(super) struct PlannedStep {
    pub step: TileStep,
    pub to: Storage,
    pub args: [Storage; 3],
}

/// A program, its dead steps removed, with storage for each value.
pub(super) struct TilePlan {
    pub len: usize,
    pub inputs: Vec<PlannedInput>,
    /// Constants, computed once per call.
    pub once: Vec<PlannedStep>,
    /// The other live steps.
    pub steps: Vec<PlannedStep>,
    pub outputs: Vec<DType>,
    pub slots: u16,
    /// Cache lines of a slot.
    pub lines: usize,
}

/// Liveness of one value.
#[derive(Clone, Copy, Default)]
struct Life {
    /// One past the last step that reads it; 0 if no step does.
    end: usize,
    /// The output that it becomes, if any.
    out: Option<u16>,
}

/// The steps, with a copy appended for each output that is an input or repeats an earlier output.
fn plan_tile_copies(p: &TileProgram) -> (Vec<TileStep>, Vec<Life>) {
    let mut steps = p.steps.clone();
    let mut life = vec![Life::default(); p.inputs.len() + steps.len()];
    for (j, &v) in p.outputs.iter().enumerate() {
        let at = usize::from(v);
        if at >= p.inputs.len() && life[at].out.is_none() {
            life[at].out = Some(j as u16);
        } else if let Some(elem) = p.elem(v) {
            steps.push(TileStep::new(TileOp::Copy, elem, &[v], [0.0; 2]));
            life.push(Life { end: 0, out: Some(j as u16) });
        }
    }
    // In reverse order, so that a dead step keeps nothing alive.
    for (s, step) in steps.iter().enumerate().rev() {
        let v = p.inputs.len() + s;
        if life[v].out.is_some() || life[v].end > 0 {
            for a in step.args.iter().take(step.op.arity()) {
                let end = &mut life[usize::from(*a)].end;
                *end = (*end).max(s + 1);
            }
        }
    }
    (steps, life)
}

impl TilePlan {
    /// Plans a checked program.
    pub(super) fn new(p: &TileProgram) -> TilePlan {
        assert_eq!(p.check(), Ok(()), "a tile program that does not hold together");
        let (steps, life) = plan_tile_copies(p);
        let outputs: Vec<DType> = p.outputs.iter().filter_map(|o| p.elem(*o)).collect();
        let mut slots = TilePlanSlots::default();
        let mut plan =
            TilePlan { len: p.len, inputs: vec![], once: vec![], steps: vec![], outputs, slots: 0, lines: 0 };
        let mut storage = vec![Storage::None; life.len()];
        // Slots of once-per-call values come first: they must neither come from the free list nor return to it.
        let once = |kind: &Kind| match kind {
            Kind::Scalar => true,
            Kind::Suffix(n) => TILE.is_multiple_of(*n),
            _ => false,
        };
        for (i, input) in p.inputs.iter().enumerate() {
            let kind = if life[i].end == 0 { Kind::Unused } else { plan_tile_access(&input.access, p.len) };
            let slot = once(&kind).then(|| slots.take(input.elem));
            plan.inputs.push(PlannedInput { kind, elem: input.elem, slot });
        }
        for (s, step) in steps.iter().enumerate() {
            let v = p.inputs.len() + s;
            if step.op == TileOp::Fill && life[v].out.is_none() && life[v].end > 0 {
                storage[v] = Storage::Slot(slots.take(step.elem));
                plan.once.push(PlannedStep { step: *step, to: storage[v], args: [Storage::None; 3] });
            }
        }
        // An input with access `Full` uses its slot only if it is written in place.
        for input in &mut plan.inputs {
            let inplace = plan.outputs.iter().any(|o| o.size() == input.elem.size());
            if input.slot.is_none() && input.kind != Kind::Unused && (input.kind != Kind::Full || inplace) {
                input.slot = Some(slots.take(input.elem));
            }
        }
        for (i, input) in plan.inputs.iter().enumerate() {
            storage[i] = Storage::Input(i as u16, input.slot.unwrap_or(0));
        }
        plan.store_steps(p.inputs.len(), &steps, &life, &mut storage, &mut slots, once);
        plan.slots = slots.count;
        let tile = TILE.min(p.len.next_multiple_of(LINE));
        plan.lines = (tile * slots.widest).div_ceil(LINE);
        plan
    }

    fn store_steps(
        &mut self,
        inputs: usize,
        steps: &[TileStep],
        life: &[Life],
        storage: &mut [Storage],
        slots: &mut TilePlanSlots,
        once: impl Fn(&Kind) -> bool,
    ) {
        for (s, step) in steps.iter().enumerate() {
            let v = inputs + s;
            let constant = storage[v] != Storage::None;
            if constant || (life[v].end == 0 && life[v].out.is_none()) {
                continue;
            }
            storage[v] = match life[v].out {
                Some(j) => Storage::Out(j),
                None => Storage::Slot(slots.take(step.out)),
            };
            let mut args = [Storage::None; 3];
            for (to, from) in args.iter_mut().zip(step.args).take(step.op.arity()) {
                *to = storage[usize::from(from)];
            }
            self.steps.push(PlannedStep { step: *step, to: storage[v], args });
            // After the result has its slot, so that it cannot be an operand's slot.
            let mut dead = step.args;
            dead[..step.op.arity()].sort_unstable();
            for (k, a) in dead.iter().take(step.op.arity()).enumerate() {
                let a = usize::from(*a);
                if life[a].end != s + 1 || (k > 0 && usize::from(dead[k - 1]) == a) {
                    continue;
                }
                match storage[a] {
                    Storage::Slot(slot) if steps[a - inputs].op != TileOp::Fill => slots.free.push(slot),
                    Storage::Input(i, _) => match &self.inputs[usize::from(i)] {
                        PlannedInput { kind, slot: Some(slot), .. } if !once(kind) => slots.free.push(*slot),
                        _ => {}
                    },
                    _ => {}
                }
            }
        }
    }
}

/// Bytes of scratch for one thread: a multiple of [`LINE`].
///
/// # Panics
/// If [`TileProgram::check`] does not hold.
pub fn tile_plan_scratch_len(program: &TileProgram) -> usize {
    let plan = TilePlan::new(program);
    usize::from(plan.slots) * plan.lines * LINE
}
