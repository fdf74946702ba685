//! The kernel: for each tile of a range of units, it runs all steps on the tile.
//!
//! Invariant: the result of an element depends on its index and the inputs alone, not on the range or the tile.

use super::apply::apply_fill;
use super::load::{load_contiguous_tile, load_tile};
use super::program::{MAX_INPUTS, MAX_OUTPUTS, TileProgram};
use super::tile_code::{AccessCode, InputCode, StepCode, TileCode};
use super::tile_plan::Storage;
use super::{TILE, UNIT, tile_plan_scratch_len};
use crate::abi::Args;
use arenagrad_arena::DType;
use arenagrad_arena::tensor::{LINE, Line};
use bytemuck::{Zeroable, cast_slice, cast_slice_mut};

/// The operands of a call as bytes: room for `I` inputs and `O` outputs.
pub(super) struct TileKernelOperands<'a, const I: usize, const O: usize> {
    /// The inputs, whole; empty if written in place.
    pub inputs: [&'a [u8]; I],
    /// For an input written in place, the output that shares its bytes.
    pub inplace: [Option<u8>; I],
    /// The outputs; element 0 is the first element of the range.
    pub outs: [&'a mut [u8]; O],
    /// This thread's scratch.
    pub slots: &'a mut [u8],
}

impl<const I: usize, const O: usize> TileKernelOperands<'_, I, O> {
    pub(super) fn new() -> Self {
        TileKernelOperands {
            inputs: [&[]; I],
            inplace: [None; I],
            outs: std::array::from_fn(|_| Default::default()),
            slots: &mut [],
        }
    }
}

/// The state of a call.
struct TileKernelCall<'a, 'c, const I: usize, const O: usize> {
    code: &'c TileCode,
    ops: &'c mut TileKernelOperands<'a, I, O>,
    /// The current tile of each input that is read in place; empty if the tile is in the input's slot.
    now: [&'a [u8]; I],
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
    let code: &TileCode = args.prepared();
    match (code.inputs.len(), code.outputs.len()) {
        _ if code.direct => tile_kernel_direct(args, code),
        // Room for many operands takes time to set up.
        (..=8, ..=2) => tile_kernel_tiles::<8, 2>(args, code),
        (..=16, ..=8) => tile_kernel_tiles::<16, 8>(args, code),
        _ => tile_kernel_tiles::<MAX_INPUTS, MAX_OUTPUTS>(args, code),
    }
}

/// Runs a program tile by tile. It has at most `I` inputs and `O` outputs.
fn tile_kernel_tiles<const I: usize, const O: usize>(args: &mut Args<'_>, code: &TileCode) {
    let mut ops = TileKernelOperands::<I, O>::new();
    for (i, input) in code.inputs.iter().enumerate() {
        match args.inplace(i) {
            Some(j) => ops.inplace[i] = Some(j as u8),
            None => ops.inputs[i] = tile_kernel_read(args, i, input.elem),
        }
    }
    for (j, &elem) in code.outputs.iter().enumerate() {
        ops.outs[j] = tile_kernel_write(args, j, elem);
    }
    if args.writes() > code.outputs.len() {
        ops.slots = cast_slice_mut(args.write::<Line>(code.outputs.len()));
    }
    let units = args.units();
    execute_tile_kernel(code, &mut ops, units.start * UNIT, units.end * UNIT, &mut |element| {
        args.fault_divisor(element)
    });
}

/// Runs a program of one step from whole inputs to one output: over the range at once or, if the output is in place of
/// an input, tile by tile from a copy.
#[inline]
fn tile_kernel_direct(args: &mut Args<'_>, code: &TileCode) {
    let units = args.units();
    let (lo, hi) = (units.start * UNIT, (units.end * UNIT).min(code.len));
    let Some(step) = code.steps.first().filter(|_| lo < hi) else { return };
    let own = (0..code.inputs.len()).find(|&i| args.inplace(i).is_some());
    let source = |k: usize| match step.args[k] {
        Storage::Input(i, _) if Some(usize::from(i)) != own => {
            let size = step.sizes[k];
            &tile_kernel_read(args, usize::from(i), step.op.operand(step.elem, k))[lo * size..hi * size]
        }
        _ => &[],
    };
    let sources = [source(0), source(1), source(2)];
    let dst = tile_kernel_write(args, 0, step.out);
    let Some(own) = own else {
        let [a, b, c] = sources;
        if let Some(element) = (step.run)(step, dst, a, b, c) {
            args.fault_divisor(lo + element);
        }
        return;
    };
    let slot: &mut [u8] = cast_slice_mut(args.write::<Line>(1));
    for (t, dst) in dst.chunks_mut(TILE * step.out.size()).enumerate() {
        let (n, copy) = (dst.len() / step.out.size(), &mut slot[..dst.len()]);
        copy.copy_from_slice(dst);
        let tile = |k: usize| match step.args[k] {
            Storage::Input(i, _) if usize::from(i) == own => &*copy,
            Storage::Input(..) => &sources[k][t * TILE * step.sizes[k]..][..n * step.sizes[k]],
            _ => &[],
        };
        if let Some(element) = (step.run)(step, dst, tile(0), tile(1), tile(2)) {
            args.fault_divisor(lo + t * TILE + element);
        }
    }
}

/// Computes elements `lo..hi` of a program; `hi` is clipped to its length.
pub(super) fn execute_tile_kernel<const I: usize, const O: usize>(
    code: &TileCode,
    ops: &mut TileKernelOperands<'_, I, O>,
    lo: usize,
    hi: usize,
    fault: &mut dyn FnMut(usize),
) {
    let hi = hi.min(code.len);
    if lo >= hi {
        return;
    }
    let mut call = TileKernelCall { code, ops, now: [&[]; I], stride: code.lines * LINE, lo };
    call.prologue(hi);
    for at in (lo..hi).step_by(TILE) {
        let tile = Tile { at, n: TILE.min(hi - at) };
        call.load(tile);
        for step in &code.steps {
            if let Some(element) = call.step(step, tile) {
                fault(at + element);
            }
        }
    }
}

impl<'a, const I: usize, const O: usize> TileKernelCall<'a, '_, I, O> {
    /// Fills the slots that hold once-per-call values.
    fn prologue(&mut self, hi: usize) {
        let tile = Tile { at: self.lo, n: TILE.min(hi - self.lo) };
        for step in &self.code.once {
            if let Storage::Slot(s) = step.to {
                let slot = &mut self.ops.slots[usize::from(s) * self.stride..][..tile.n * step.out.size()];
                apply_fill(step.out, step.imm, slot);
            }
        }
        for (i, input) in self.code.inputs.iter().enumerate() {
            if tile_kernel_loads_once(input.access()) {
                self.fetch(i, input, tile);
            }
        }
    }

    /// Locates or fetches this tile of every input.
    #[inline]
    fn load(&mut self, tile: Tile) {
        for (i, input) in self.code.inputs.iter().enumerate() {
            let size = input.elem.size();
            match (input.access(), self.ops.inplace[i]) {
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
                _ => self.fetch(i, input, tile),
            }
        }
    }

    fn fetch(&mut self, i: usize, input: &InputCode, tile: Tile) {
        let (src, size, access) = (self.ops.inputs[i], input.elem.size(), input.access());
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
    fn step(&mut self, step: &StepCode, tile: Tile) -> Option<usize> {
        let (stride, from) = (self.stride, tile.at - self.lo);
        let TileKernelOperands { outs, slots, .. } = &mut *self.ops;
        let len = tile.n * step.out.size();
        // What is written is cut out, so that everything else can be borrowed.
        let (dst, others) = match step.to {
            Storage::Slot(to) => {
                let to = usize::from(to);
                let (low, rest) = slots.split_at_mut(to * stride);
                let (dst, high) = rest.split_at_mut(stride);
                (
                    &mut dst[..len],
                    TileKernelStepOperands { slots: [low, high], slot: to, outs: [outs, &[]], out: usize::MAX },
                )
            }
            Storage::Out(to) => {
                let to = usize::from(to);
                let (low, rest) = outs.split_at_mut(to);
                let (dst, high) = rest.split_first_mut()?;
                let dst = &mut dst[from * step.out.size()..][..len];
                (dst, TileKernelStepOperands { slots: [slots, &[]], slot: usize::MAX, outs: [low, high], out: to })
            }
            Storage::None | Storage::Input(..) => return None,
        };
        let (args, sizes, at) = (&step.args, &step.sizes, (from, tile.n));
        let a = others.operand((args[0], sizes[0]), stride, at, &self.now);
        let b = others.operand((args[1], sizes[1]), stride, at, &self.now);
        let c = others.operand((args[2], sizes[2]), stride, at, &self.now);
        (step.run)(step, dst, a, b, c)
    }
}

/// What a step may read beside inputs: all slots and outputs but the one that it writes. The lists are those before it
/// and those behind it.
struct TileKernelStepOperands<'s, 'a> {
    slots: [&'s [u8]; 2],
    /// The slot that is written; `usize::MAX` if none is.
    slot: usize,
    outs: [&'s [&'a mut [u8]]; 2],
    /// The output that is written; `usize::MAX` if none is.
    out: usize,
}

impl<'s> TileKernelStepOperands<'s, '_> {
    /// The elements of a tile, `from` on, of an operand whose elements have `size` bytes. `now` has the tiles of the
    /// inputs that are read in place.
    #[inline(always)]
    fn operand(
        &self,
        (at, size): (Storage, usize),
        stride: usize,
        (from, n): (usize, usize),
        now: &[&'s [u8]],
    ) -> &'s [u8] {
        match at {
            Storage::None => &[],
            Storage::Slot(s) => self.slot(s, stride),
            Storage::Input(i, s) => match now[usize::from(i)] {
                [] => self.slot(s, stride),
                bytes => bytes,
            },
            Storage::Out(j) => &self.out(j)[from * size..][..n * size],
        }
    }

    #[inline(always)]
    fn slot(&self, s: u16, stride: usize) -> &'s [u8] {
        let s = usize::from(s);
        if s < self.slot {
            &self.slots[0][s * stride..][..stride]
        } else {
            &self.slots[1][(s - self.slot - 1) * stride..][..stride]
        }
    }

    #[inline(always)]
    fn out(&self, j: u16) -> &'s [u8] {
        let j = usize::from(j);
        if j < self.out { &*self.outs[0][j] } else { &*self.outs[1][j - self.out - 1] }
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
    let code = TileCode::new(program);
    let lines = |bytes: &[u8]| {
        let mut copy = vec![Line::zeroed(); bytes.len().div_ceil(LINE)];
        cast_slice_mut::<Line, u8>(&mut copy)[..bytes.len()].copy_from_slice(bytes);
        copy
    };
    let ins: Vec<Vec<Line>> = inputs.iter().map(|b| lines(b)).collect();
    let mut outs: Vec<Vec<Line>> = outputs.iter().map(|b| lines(b)).collect();
    let mut scratch = vec![Line::zeroed(); tile_plan_scratch_len(program) / LINE];
    let mut ops = TileKernelOperands::<MAX_INPUTS, MAX_OUTPUTS>::new();
    for ((to, from), bytes) in ops.inputs.iter_mut().zip(&ins).zip(inputs) {
        *to = &cast_slice(from)[..bytes.len()];
    }
    for (to, from) in ops.outs.iter_mut().zip(&mut outs) {
        *to = cast_slice_mut(from);
    }
    ops.slots = cast_slice_mut(&mut scratch);
    let mut first = None;
    execute_tile_kernel(&code, &mut ops, 0, program.len, &mut |e| first = Some(first.map_or(e, |f: usize| f.min(e))));
    for (to, from) in outputs.iter_mut().zip(&outs) {
        let bytes: &[u8] = cast_slice(from);
        to.copy_from_slice(&bytes[..to.len()]);
    }
    first.map_or(Ok(()), Err)
}
