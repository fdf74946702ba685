//! The kernel: for each tile of a range of units, it runs all steps on the tile.
//!
//! Invariant: the result of an element depends on its index and the inputs alone, not on the range or the tile.

use super::apply::{apply_fill, apply_step};
use super::load::{load_contiguous_tile, load_tile};
use super::program::{MAX_INPUTS, MAX_OUTPUTS, TileProgram};
use super::tile_plan::Storage;
use super::word_code::{AccessCode, InputCode, StepWordCode, WordCode};
use super::{TILE, UNIT, tile_plan_scratch_len};
use crate::abi::Args;
use arenagrad_arena::DType;
use arenagrad_arena::tensor::{LINE, Line};
use bytemuck::{Zeroable, cast_slice, cast_slice_mut};

/// The operands of a call as bytes.
pub(super) struct TileKernelOperands<'a> {
    /// The inputs, whole; empty if written in place.
    pub inputs: [&'a [u8]; MAX_INPUTS],
    /// For an input written in place, the output that shares its bytes.
    pub inplace: [Option<u8>; MAX_INPUTS],
    /// The outputs; element 0 is the first element of the range.
    pub outs: [&'a mut [u8]; MAX_OUTPUTS],
    /// This thread's scratch.
    pub slots: &'a mut [u8],
}

impl TileKernelOperands<'_> {
    pub(super) fn new() -> Self {
        TileKernelOperands {
            inputs: [&[]; MAX_INPUTS],
            inplace: [None; MAX_INPUTS],
            outs: Default::default(),
            slots: &mut [],
        }
    }
}

/// The state of a call.
struct TileKernelCall<'a, 'c> {
    code: WordCode<'c>,
    ops: &'c mut TileKernelOperands<'a>,
    /// The current tile of each input that is read in place; empty if the tile is in the input's slot.
    now: [&'a [u8]; MAX_INPUTS],
    /// Bytes of a slot.
    stride: usize,
    /// First element of the range.
    lo: usize,
}

/// A tile: elements `at..at + n`.
#[derive(Clone, Copy)]
struct Tile {
    at: usize,
    n: usize,
}

/// Read operand `i` of `elem`, as bytes.
#[inline]
fn tile_kernel_read<'a>(args: &Args<'a>, i: usize, elem: DType) -> &'a [u8] {
    match elem.size() {
        1 => args.read::<u8>(i),
        2 => cast_slice(args.read::<u16>(i)),
        4 => cast_slice(args.read::<u32>(i)),
        _ => cast_slice(args.read::<u64>(i)),
    }
}

/// Written operand `j` of `elem`, as bytes.
#[inline]
fn tile_kernel_write<'a>(args: &mut Args<'a>, j: usize, elem: DType) -> &'a mut [u8] {
    match elem.size() {
        1 => args.write::<u8>(j),
        2 => cast_slice_mut(args.write::<u16>(j)),
        4 => cast_slice_mut(args.write::<u32>(j)),
        _ => cast_slice_mut(args.write::<u64>(j)),
    }
}

/// The tile kernel. `tile/mod.rs` documents its operands.
pub fn tile_kernel(args: &mut Args<'_>) {
    let code = WordCode::new(args.params());
    if code.direct() {
        return tile_kernel_direct(args, code);
    }
    let mut ops = TileKernelOperands::new();
    for i in 0..code.inputs() {
        match args.inplace(i) {
            Some(j) => ops.inplace[i] = Some(j as u8),
            None => ops.inputs[i] = tile_kernel_read(args, i, code.input_elem(i)),
        }
    }
    for j in 0..code.outputs() {
        ops.outs[j] = tile_kernel_write(args, j, code.output(j));
    }
    if args.writes() > code.outputs() {
        ops.slots = cast_slice_mut(args.write::<Line>(code.outputs()));
    }
    let units = args.units();
    execute_tile_kernel(code, &mut ops, units.start * UNIT, units.end * UNIT, &mut |element| {
        args.fault_divisor(element)
    });
}

/// Runs a program of one step from whole inputs to one output: over the range at once or, if the output is in place of
/// an input, tile by tile from a copy.
#[inline]
fn tile_kernel_direct(args: &mut Args<'_>, code: WordCode<'_>) {
    let units = args.units();
    let (lo, hi) = (units.start * UNIT, (units.end * UNIT).min(code.len()));
    let Some(step) = code.step_codes().next().filter(|_| lo < hi) else { return };
    let own = (0..code.inputs()).find(|&i| args.inplace(i).is_some());
    let source = |k: usize| match step.args[k].storage() {
        Storage::Input(i, _) if Some(usize::from(i)) != own => {
            let elem = step.op.operand(step.elem, k);
            &tile_kernel_read(args, usize::from(i), elem)[lo * elem.size()..hi * elem.size()]
        }
        _ => &[],
    };
    let sources = [source(0), source(1), source(2)];
    let dst = tile_kernel_write(args, 0, step.out);
    let Some(own) = own else {
        let [a, b, c] = sources;
        if let Some(element) = apply_step(&step, dst, a, b, c) {
            args.fault_divisor(lo + element);
        }
        return;
    };
    let slot: &mut [u8] = cast_slice_mut(args.write::<Line>(1));
    for (t, dst) in dst.chunks_mut(TILE * step.out.size()).enumerate() {
        let (n, copy) = (dst.len() / step.out.size(), &mut slot[..dst.len()]);
        copy.copy_from_slice(dst);
        let tile = |k: usize| match step.args[k].storage() {
            Storage::Input(i, _) if usize::from(i) == own => &*copy,
            Storage::Input(..) => {
                let size = step.op.operand(step.elem, k).size();
                &sources[k][t * TILE * size..][..n * size]
            }
            _ => &[],
        };
        if let Some(element) = apply_step(&step, dst, tile(0), tile(1), tile(2)) {
            args.fault_divisor(lo + t * TILE + element);
        }
    }
}

/// Computes elements `lo..hi` of a program; `hi` is clipped to its length.
pub(super) fn execute_tile_kernel(
    code: WordCode<'_>,
    ops: &mut TileKernelOperands<'_>,
    lo: usize,
    hi: usize,
    fault: &mut dyn FnMut(usize),
) {
    let hi = hi.min(code.len());
    if lo >= hi {
        return;
    }
    let mut call = TileKernelCall { code, ops, now: [&[]; MAX_INPUTS], stride: code.lines() * LINE, lo };
    call.prologue(hi);
    for at in (lo..hi).step_by(TILE) {
        let tile = Tile { at, n: TILE.min(hi - at) };
        call.load(tile);
        for step in code.step_codes() {
            if let Some(element) = call.step(&step, tile) {
                fault(at + element);
            }
        }
    }
}

impl<'a> TileKernelCall<'a, '_> {
    /// Fills the slots that hold once-per-call values.
    fn prologue(&mut self, hi: usize) {
        let tile = Tile { at: self.lo, n: TILE.min(hi - self.lo) };
        for step in self.code.once_codes() {
            if let Storage::Slot(s) = step.to.storage() {
                let slot = &mut self.ops.slots[usize::from(s) * self.stride..][..tile.n * step.out.size()];
                apply_fill(step.out, step.imm, slot);
            }
        }
        for i in 0..self.code.inputs() {
            let input = self.code.input(i);
            if tile_kernel_loads_once(input.access) {
                self.fetch(i, &input, tile);
            }
        }
    }

    /// Locates or fetches this tile of every input.
    #[inline]
    fn load(&mut self, tile: Tile) {
        for i in 0..self.code.inputs() {
            let input = self.code.input(i);
            let size = input.elem.size();
            match (input.access, self.ops.inplace[i]) {
                (AccessCode::Unused, _) => {}
                (AccessCode::Full, None) => {
                    self.now[i] = &self.ops.inputs[i][tile.at * size..(tile.at + tile.n) * size];
                }
                (AccessCode::Full, Some(j)) => {
                    // Before any step writes: an output is about to overwrite these bytes.
                    let from = &self.ops.outs[usize::from(j)][(tile.at - self.lo) * size..][..tile.n * size];
                    self.ops.slots[input.slot * self.stride..][..from.len()].copy_from_slice(from);
                }
                (access, _) if tile_kernel_loads_once(access) => {}
                _ => self.fetch(i, &input, tile),
            }
        }
    }

    fn fetch(&mut self, i: usize, input: &InputCode<'_>, tile: Tile) {
        let (src, size, access) = (self.ops.inputs[i], input.elem.size(), input.access);
        self.now[i] = &[];
        if let Some(at) = load_contiguous_tile(access, tile.at, tile.n) {
            self.now[i] = &src[at * size..(at + tile.n) * size];
            return;
        }
        let dst = &mut self.ops.slots[input.slot * self.stride..][..tile.n * size];
        match size {
            1 => load_tile::<u8>(dst, src, access, tile.at),
            2 => load_tile::<u16>(dst, src, access, tile.at),
            4 => load_tile::<u32>(dst, src, access, tile.at),
            _ => load_tile::<u64>(dst, src, access, tile.at),
        }
    }

    /// Runs one step on one tile. Returns its first bad element.
    #[inline]
    fn step(&mut self, step: &StepWordCode, tile: Tile) -> Option<usize> {
        let (stride, len) = (self.stride, tile.n * step.out.size());
        // The destination is moved out, so that everything else can be borrowed.
        match step.to.storage() {
            Storage::Out(j) => {
                let j = usize::from(j);
                let out = std::mem::take(&mut self.ops.outs[j]);
                let slots = &*self.ops.slots;
                let dst = &mut out[(tile.at - self.lo) * step.out.size()..][..len];
                let bad = self.apply(step, dst, tile, |s| &slots[s * stride..][..stride]);
                self.ops.outs[j] = out;
                bad
            }
            Storage::Slot(to) => {
                let to = usize::from(to);
                let slots = std::mem::take(&mut self.ops.slots);
                let (low, rest) = slots.split_at_mut(to * stride);
                let (dst, high) = rest.split_at_mut(stride);
                let bad = self.apply(step, &mut dst[..len], tile, |s| match s.checked_sub(to + 1) {
                    None => &low[s * stride..][..stride],
                    Some(s) => &high[s * stride..][..stride],
                });
                self.ops.slots = slots;
                bad
            }
            Storage::None | Storage::Input(..) => None,
        }
    }

    /// Applies `step`; `slot` returns operands that are in slots.
    #[inline(always)]
    fn apply<'s>(
        &'s self,
        step: &StepWordCode,
        dst: &mut [u8],
        tile: Tile,
        slot: impl Fn(usize) -> &'s [u8],
    ) -> Option<usize> {
        let arity = step.op.arity();
        let source = |k: usize| -> &[u8] {
            if k >= arity {
                return &[];
            }
            match step.args[k].storage() {
                Storage::None => &[],
                Storage::Slot(s) => slot(usize::from(s)),
                Storage::Input(i, s) => match self.now[usize::from(i)] {
                    [] => slot(usize::from(s)),
                    bytes => bytes,
                },
                Storage::Out(j) => {
                    let size = step.op.operand(step.elem, k).size();
                    &self.ops.outs[usize::from(j)][(tile.at - self.lo) * size..][..tile.n * size]
                }
            }
        };
        apply_step(step, dst, source(0), source(1), source(2))
    }
}

/// Whether one fetch serves all tiles of a call.
#[inline]
fn tile_kernel_loads_once(access: AccessCode<'_>) -> bool {
    match access {
        AccessCode::Scalar => true,
        AccessCode::Suffix(n) => TILE.is_multiple_of(n),
        _ => false,
    }
}

/// Runs a whole program on byte buffers of any alignment, for constant folding and tests. `Err` holds the first element
/// that faulted (an integer division by zero).
///
/// # Panics
/// If [`TileProgram::check`] does not hold, or a buffer is too short.
pub fn tile_kernel_eval(program: &TileProgram, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), usize> {
    let words = program.to_word_code();
    let code = WordCode::new(&words);
    let lines = |bytes: &[u8]| {
        let mut copy = vec![Line::zeroed(); bytes.len().div_ceil(LINE)];
        cast_slice_mut::<Line, u8>(&mut copy)[..bytes.len()].copy_from_slice(bytes);
        copy
    };
    let ins: Vec<Vec<Line>> = inputs.iter().map(|b| lines(b)).collect();
    let mut outs: Vec<Vec<Line>> = outputs.iter().map(|b| lines(b)).collect();
    let mut scratch = vec![Line::zeroed(); tile_plan_scratch_len(program) / LINE];
    let mut ops = TileKernelOperands::new();
    for ((to, from), bytes) in ops.inputs.iter_mut().zip(&ins).zip(inputs) {
        *to = &cast_slice(from)[..bytes.len()];
    }
    for (to, from) in ops.outs.iter_mut().zip(&mut outs) {
        *to = cast_slice_mut(from);
    }
    ops.slots = cast_slice_mut(&mut scratch);
    let mut first = None;
    execute_tile_kernel(code, &mut ops, 0, program.len, &mut |e| first = Some(first.map_or(e, |f: usize| f.min(e))));
    for (to, from) in outputs.iter_mut().zip(&outs) {
        let bytes: &[u8] = cast_slice(from);
        to.copy_from_slice(&bytes[..to.len()]);
    }
    first.map_or(Ok(()), Err)
}
