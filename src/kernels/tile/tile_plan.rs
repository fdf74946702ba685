//! Plans a program: finds the live steps and decides where each value is stored. [`super::tile_code`] makes the code of
//! the plan.
//!
//! Inputs that are scalars, and constants, are *uniform*: one number for all elements. So are inputs of which each tile
//! has one element, such as the channels of a large image. A loop that has a form for a uniform operand reads the
//! number where it is. Only if some loop reads the elements do they get a slot.
//!
//! Invariant: a step's result is never in the slot of one of its operands. Slots of inputs and constants are never
//! reused. Every other slot is free after the last use of its value.

use super::TILE;
use super::paired_loops::paired_step;
use super::program::{Access, TileProgram, TileStep, merge_dims};
use super::step_code::StepLoop;
use super::step_loops::{Operand, StepForm};
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

impl Kind {
    /// Whether each tile has one element of the input.
    pub(super) fn is_steady(&self) -> bool {
        match self {
            Kind::Prefix(n) => n.is_multiple_of(TILE),
            Kind::Strided { walk, .. } => matches!(walk.last(), Some((n, 0)) if n.is_multiple_of(TILE)),
            _ => false,
        }
    }
}

/// Where a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    None,
    Input(u16),
    /// An input that is one number, in each tile or everywhere.
    Number(u16),
    Constant(u16),
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
            let walk = merge_dims(dims, strides);
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
    /// Receives tiles that are not contiguous. None if no step reads the input element by element.
    pub slot: Option<u16>,
}

/// A step of a plan.
pub(super) struct PlannedStep {
    pub step: TileStep,
    /// Computes it, and the step before it if the two are a pair.
    pub run: StepLoop,
    pub to: Storage,
    pub args: [Storage; 4],
}

/// A program, its dead steps removed, with storage for each value.
#[derive(Default)]
pub(super) struct TilePlan {
    pub len: usize,
    pub inputs: Vec<PlannedInput>,
    /// Constants that loops read as one number.
    pub constants: Vec<TileStep>,
    /// Constants that some loop reads element by element, computed once per call.
    pub once: Vec<PlannedStep>,
    /// The other live steps.
    pub steps: Vec<PlannedStep>,
    pub outputs: Vec<DType>,
    /// For each output, what receives the tile of an input that it is in place of. None if it cannot be.
    pub copies: Vec<Option<u16>>,
    /// For each output, the inputs that its step alone reads, and adds or subtracts. If the output is in place of one,
    /// nothing is copied.
    pub addends: Vec<[Option<u16>; 2]>,
    pub slots: u16,
    /// Cache lines of a slot.
    pub lines: usize,
}

/// Liveness of one value.
#[derive(Clone, Copy, Default)]
struct Life {
    /// One past the last step that reads it; 0 if no step does.
    end: usize,
    /// How often live steps read it.
    reads: usize,
    /// The output that it becomes, if any.
    out: Option<u16>,
}

/// A step that is to be planned.
struct LiveStep {
    step: TileStep,
    form: StepForm,
    /// Whether the form computes the step before this one, too.
    paired: bool,
    /// Whether the step that reads it computes it, too.
    inside: bool,
}

/// The steps, with a copy appended for each output that is an input or repeats an earlier output. `kinds` are those of
/// the inputs.
fn plan_tile_copies(p: &TileProgram, kinds: &[Kind]) -> (Vec<LiveStep>, Vec<Life>) {
    let mut steps = p.steps.clone();
    let mut life = vec![Life::default(); p.inputs.len() + steps.len()];
    for (j, &v) in p.outputs.iter().enumerate() {
        let at = usize::from(v);
        if at >= p.inputs.len() && life[at].out.is_none() {
            life[at].out = Some(j as u16);
        } else if let Some(elem) = p.elem(v) {
            steps.push(TileStep::new(TileOp::Copy, elem, &[v], [0.0; 2]));
            life.push(Life { out: Some(j as u16), ..Life::default() });
        }
    }
    // In reverse order, so that a dead step keeps nothing alive.
    for (s, step) in steps.iter().enumerate().rev() {
        let v = p.inputs.len() + s;
        if life[v].out.is_some() || life[v].end > 0 {
            for a in step.args.iter().take(step.op.arity()) {
                let life = &mut life[usize::from(*a)];
                (life.end, life.reads) = (life.end.max(s + 1), life.reads + 1);
            }
        }
    }
    let steps = plan_tile_pairs(kinds, steps, &mut life);
    (steps, life)
}

/// Joins a step with the one that makes an operand of it, where a loop computes both and nothing else reads what is
/// between.
fn plan_tile_pairs(kinds: &[Kind], steps: Vec<TileStep>, life: &mut [Life]) -> Vec<LiveStep> {
    let inputs = kinds.len();
    let uniform = |v: u16| match usize::from(v).checked_sub(inputs) {
        Some(s) => steps[s].op == TileOp::Fill,
        None => kinds[usize::from(v)] == Kind::Scalar || kinds[usize::from(v)].is_steady(),
    };
    let alone =
        |step: &TileStep| LiveStep { step: *step, form: StepForm::new(step, &uniform), paired: false, inside: false };
    let mut live: Vec<LiveStep> = steps.iter().map(alone).collect();
    for (s, step) in steps.iter().enumerate() {
        if life[inputs + s].end == 0 && life[inputs + s].out.is_none() {
            continue;
        }
        let pair = (0..step.op.arity()).find_map(|k| {
            let at = usize::from(step.args[k]);
            let first = &live[at.checked_sub(inputs)?];
            let alone = life[at].out.is_none() && life[at].reads == 1 && !first.paired;
            Some((at, paired_step(&first.step, step, k, &uniform).filter(|_| alone)?))
        });
        if let Some((at, form)) = pair {
            for a in form.reads().map(usize::from) {
                life[a].end = life[a].end.max(s + 1);
            }
            live[at - inputs].inside = true;
            live[s] = LiveStep { step: *step, form, paired: true, inside: false };
        }
    }
    live
}

/// For each output, the whole inputs that its step alone reads, and adds or subtracts.
fn plan_tile_addends(plan: &TilePlan, steps: &[LiveStep], life: &[Life]) -> Vec<[Option<u16>; 2]> {
    let (first, mut all) = (plan.inputs.len(), vec![[None; 2]; plan.outputs.len()]);
    let whole = |v: &u16| plan.inputs.get(usize::from(*v)).is_some_and(|i| i.kind == Kind::Full);
    let alone = |v: &u16| whole(v) && life[usize::from(*v)].reads == 1;
    for (live, result) in steps.iter().zip(&life[first..]) {
        if let Some(j) = result.out.filter(|_| !live.inside) {
            all[usize::from(j)] = live.form.addends.map(|v| v.filter(alone));
        }
    }
    all
}

/// For each value, whether a live step reads its elements.
fn plan_tile_reads(inputs: usize, steps: &[LiveStep], life: &[Life]) -> Vec<bool> {
    let mut read = vec![false; life.len()];
    for (live, result) in steps.iter().zip(&life[inputs..]) {
        if !live.inside && (result.end > 0 || result.out.is_some()) {
            for arg in live.form.args {
                if let Operand::Values(v) = arg {
                    read[usize::from(v)] = true;
                }
            }
        }
    }
    read
}

impl TilePlan {
    /// Plans a checked program.
    pub(super) fn new(p: &TileProgram) -> TilePlan {
        assert_eq!(p.check(), Ok(()), "a tile program that does not hold together");
        let kinds: Vec<Kind> = p.inputs.iter().map(|input| plan_tile_access(&input.access, p.len)).collect();
        let (steps, life) = plan_tile_copies(p, &kinds);
        let read = plan_tile_reads(p.inputs.len(), &steps, &life);
        let outputs: Vec<DType> = p.outputs.iter().filter_map(|o| p.elem(*o)).collect();
        let mut slots = TilePlanSlots::default();
        let mut plan = TilePlan { len: p.len, outputs, ..TilePlan::default() };
        let mut storage = vec![Storage::None; life.len()];
        // Slots of inputs and constants come first: they must neither come from the free list nor return to it.
        for (i, (input, kind)) in p.inputs.iter().zip(kinds).enumerate() {
            let kind = if life[i].end == 0 { Kind::Unused } else { kind };
            let slot = (read[i] && kind != Kind::Full).then(|| slots.take(input.elem));
            plan.inputs.push(PlannedInput { kind, elem: input.elem, slot });
        }
        let whole = |elem: DType| plan.inputs.iter().any(|i| i.kind == Kind::Full && i.elem.size() == elem.size());
        plan.copies = plan.outputs.iter().map(|&elem| whole(elem).then(|| slots.take(elem))).collect();
        plan.addends = plan_tile_addends(&plan, &steps, &life);
        for (s, LiveStep { step, form, .. }) in steps.iter().enumerate() {
            let v = p.inputs.len() + s;
            if step.op == TileOp::Fill && life[v].out.is_none() && read[v] {
                storage[v] = Storage::Slot(slots.take(step.elem));
                plan.once.push(PlannedStep { step: *step, run: form.run, to: storage[v], args: [Storage::None; 4] });
            }
        }
        for (i, storage) in storage.iter_mut().enumerate().take(p.inputs.len()) {
            *storage = Storage::Input(i as u16);
        }
        plan.store_steps(p.inputs.len(), &steps, &life, &mut storage, &mut slots);
        plan.slots = slots.count;
        let tile = TILE.min(p.len.next_multiple_of(LINE));
        plan.lines = (tile * slots.widest).div_ceil(LINE);
        plan
    }

    fn store_steps(
        &mut self,
        inputs: usize,
        steps: &[LiveStep],
        life: &[Life],
        storage: &mut [Storage],
        slots: &mut TilePlanSlots,
    ) {
        // The constant that each step is.
        let mut constants = vec![None; steps.len()];
        for (s, live) in steps.iter().enumerate() {
            let (v, step) = (inputs + s, live.step);
            let constant = step.op == TileOp::Fill && life[v].out.is_none();
            if constant || live.inside || (life[v].end == 0 && life[v].out.is_none()) {
                continue;
            }
            storage[v] = match life[v].out {
                Some(j) => Storage::Out(j),
                None => Storage::Slot(slots.take(step.out)),
            };
            let args = live.form.args.map(|arg| match arg {
                Operand::Nothing => Storage::None,
                Operand::Values(v) => storage[usize::from(v)],
                Operand::Uniform(v) => match usize::from(v).checked_sub(inputs) {
                    None => Storage::Number(v),
                    Some(fill) => Storage::Constant(*constants[fill].get_or_insert_with(|| {
                        self.constants.push(steps[fill].step);
                        self.constants.len() as u16 - 1
                    })),
                },
            });
            self.steps.push(PlannedStep { step, run: live.form.run, to: storage[v], args });
            // After the result has its slot, so that it cannot be an operand's slot.
            let mut dead: Vec<u16> = live.form.reads().collect();
            dead.sort_unstable();
            dead.dedup();
            for a in dead.into_iter().map(usize::from).filter(|&a| life[a].end == s + 1) {
                match storage[a] {
                    Storage::Slot(slot) if steps[a - inputs].step.op != TileOp::Fill => slots.free.push(slot),
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
pub fn program_scratch_len(program: &TileProgram) -> usize {
    let plan = TilePlan::new(program);
    usize::from(plan.slots) * plan.lines * LINE
}
