//! The kernel: tiles over a range of units, steps over a tile.
//!
//! Invariant: what an element's result is depends on its index and the inputs alone, not on the range or the tile it
//! is computed in.

use super::apply::{apply, fill};
use super::code::{AccessCode, Code, Place, StepCode};
use super::load::{load, place};
use super::program::{MAX_INPUTS, MAX_OUTPUTS, Program};
use super::{TILE, UNIT, scratch_len};
use crate::arena::tensor::{LINE, Line};
use crate::kernels::abi::Args;
use crate::kernels::elem::Elem;
use bytemuck::{Zeroable, cast_slice, cast_slice_mut};

/// The operands of a call as bytes.
pub(super) struct Operands<'a> {
    /// The inputs, whole; empty for one that is written in place.
    pub inputs: [&'a [u8]; MAX_INPUTS],
    /// For an input that is written in place, the output that it shares its bytes with.
    pub inplace: [Option<u8>; MAX_INPUTS],
    /// The outputs, from the range's first element on.
    pub outs: [&'a mut [u8]; MAX_OUTPUTS],
    /// This thread's scratch.
    pub slots: &'a mut [u8],
}

impl Operands<'_> {
    pub(super) fn new() -> Self {
        Operands { inputs: [&[]; MAX_INPUTS], inplace: [None; MAX_INPUTS], outs: Default::default(), slots: &mut [] }
    }
}

/// A call under way.
struct Call<'a> {
    code: Code<'a>,
    ops: Operands<'a>,
    /// The current tile of each input where it lies in place; empty where it is in the input's slot.
    now: [&'a [u8]; MAX_INPUTS],
    /// Bytes of a slot.
    stride: usize,
    /// First element of the range.
    lo: usize,
}

/// A tile: `n` elements from element `at` on.
#[derive(Clone, Copy)]
struct Tile {
    at: usize,
    n: usize,
}

/// The tile kernel. See the head of the module for its operands.
pub fn run(args: &mut Args<'_>) {
    let code = Code::new(args.params());
    let mut ops = Operands::new();
    for i in 0..code.inputs() {
        ops.inplace[i] = args.inplace(i).map(|j| j as u8);
        if ops.inplace[i].is_none() {
            ops.inputs[i] = match code.input(i).elem.size() {
                1 => args.read::<u8>(i),
                2 => cast_slice(args.read::<u16>(i)),
                4 => cast_slice(args.read::<u32>(i)),
                _ => cast_slice(args.read::<u64>(i)),
            };
        }
    }
    for j in 0..code.outputs() {
        ops.outs[j] = match code.output(j).size() {
            1 => args.write::<u8>(j),
            2 => cast_slice_mut(args.write::<u16>(j)),
            4 => cast_slice_mut(args.write::<u32>(j)),
            _ => cast_slice_mut(args.write::<u64>(j)),
        };
    }
    if args.writes() > code.outputs() {
        ops.slots = cast_slice_mut(args.write::<Line>(code.outputs()));
    }
    let units = args.units();
    execute(code, ops, units.start * UNIT, units.end * UNIT, &mut |element| args.fault(element));
}

/// Computes elements `lo .. hi` of a program, `hi` cut to its length.
pub(super) fn execute(code: Code<'_>, ops: Operands<'_>, lo: usize, hi: usize, fault: &mut dyn FnMut(usize)) {
    let hi = hi.min(code.len());
    if lo >= hi {
        return;
    }
    let mut call = Call { code, ops, now: [&[]; MAX_INPUTS], stride: code.lines() * LINE, lo };
    // One step that needs no slot takes the range in one piece: its loop is the tile loop.
    let piece = if call.prologue(hi) && code.steps() == 1 { hi - lo } else { TILE };
    for at in (lo..hi).step_by(piece) {
        let tile = Tile { at, n: piece.min(hi - at) };
        call.load(tile);
        for step in code.step_codes() {
            if let Some(element) = call.step(&step, tile) {
                fault(at + element);
            }
        }
    }
}

impl<'a> Call<'a> {
    /// Fills the slots that serve every tile. True if no input needs a slot.
    fn prologue(&mut self, hi: usize) -> bool {
        let tile = Tile { at: self.lo, n: TILE.min(hi - self.lo) };
        for step in self.code.once_codes() {
            if let Place::Slot(s) = step.to {
                let slot = &mut self.ops.slots[usize::from(s) * self.stride..][..tile.n * step.out.size()];
                fill(step.out, step.imm, slot);
            }
        }
        let mut whole = true;
        for i in 0..self.code.inputs() {
            let input = self.code.input(i);
            match input.access {
                AccessCode::Unused => {}
                AccessCode::Full => whole &= self.ops.inplace[i].is_none(),
                _ => {
                    whole = false;
                    if once(input.access) {
                        self.fetch(i, input.elem, input.access, input.slot, tile);
                    }
                }
            }
        }
        whole
    }

    /// Finds or fetches this tile of every input.
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
                    // Before any step writes: the bytes are about to be the output's.
                    let from = &self.ops.outs[usize::from(j)][(tile.at - self.lo) * size..][..tile.n * size];
                    if let Some(slot) = input.slot {
                        self.ops.slots[slot * self.stride..][..from.len()].copy_from_slice(from);
                    }
                }
                (access, _) if once(access) => {}
                (access, _) => self.fetch(i, input.elem, access, input.slot, tile),
            }
        }
    }

    fn fetch(&mut self, i: usize, elem: Elem, access: AccessCode<'_>, slot: Option<usize>, tile: Tile) {
        let (src, size) = (self.ops.inputs[i], elem.size());
        self.now[i] = &[];
        if let Some(at) = place(access, tile.at, tile.n) {
            self.now[i] = &src[at * size..(at + tile.n) * size];
        } else if let Some(slot) = slot {
            let dst = &mut self.ops.slots[slot * self.stride..][..tile.n * size];
            match size {
                1 => load::<u8>(dst, src, access, tile.at),
                2 => load::<u16>(dst, src, access, tile.at),
                4 => load::<u32>(dst, src, access, tile.at),
                _ => load::<u64>(dst, src, access, tile.at),
            }
        }
    }

    /// Does one step on one tile; the first bad element of it, if there is one.
    #[inline]
    fn step(&mut self, step: &StepCode, tile: Tile) -> Option<usize> {
        let from = tile.at - self.lo;
        let cut = |j: usize| {
            let size = self.code.output(j).size();
            from * size..(from + tile.n) * size
        };
        // The result's bytes are split off; what is left on either side of them may be read.
        let (dst, slots, outs) = match step.to {
            Place::Out(j) => {
                let j = usize::from(j);
                let (low, rest) = self.ops.outs.split_at_mut(j);
                let (d, high) = rest.split_first_mut()?;
                (&mut d[cut(j)], (&*self.ops.slots, &[][..], usize::MAX), (&*low, &*high, j))
            }
            Place::Slot(s) => {
                let s = usize::from(s);
                let (low, rest) = self.ops.slots.split_at_mut(s * self.stride);
                let (d, high) = rest.split_at_mut(self.stride);
                (&mut d[..tile.n * step.out.size()], (&*low, &*high, s), (&self.ops.outs[..], &[][..], usize::MAX))
            }
            Place::None | Place::Input(_) => return None,
        };
        let slot = |s: usize| {
            if s < slots.2 {
                &slots.0[s * self.stride..][..self.stride]
            } else {
                &slots.1[(s - slots.2 - 1) * self.stride..][..self.stride]
            }
        };
        let source = |p: Place| -> &[u8] {
            match p {
                Place::None => &[],
                Place::Slot(s) => slot(usize::from(s)),
                Place::Out(j) => {
                    let j = usize::from(j);
                    let whole = if j < outs.2 { &outs.0[j] } else { &outs.1[j - outs.2 - 1] };
                    &whole[cut(j)]
                }
                Place::Input(i) => {
                    let i = usize::from(i);
                    match self.code.input(i).slot {
                        Some(s) if self.now[i].is_empty() => slot(s),
                        _ => self.now[i],
                    }
                }
            }
        };
        let [a, b, c] = step.args;
        apply(step, dst, source(a), source(b), source(c))
    }
}

/// Whether one fetch serves every tile of a call.
#[inline]
fn once(access: AccessCode<'_>) -> bool {
    match access {
        AccessCode::Scalar => true,
        AccessCode::Suffix(n) => TILE.is_multiple_of(n),
        _ => false,
    }
}

/// Runs a whole program on byte buffers of any alignment: for constant folding and tests. `Err` holds the first
/// element at which the program faulted (an integer division by zero).
///
/// # Panics
/// If [`Program::check`] does not hold, or a buffer is too short.
pub fn eval(program: &Program, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), usize> {
    let words = program.to_words();
    let code = Code::new(&words);
    let lines = |bytes: &[u8]| {
        let mut copy = vec![Line::zeroed(); bytes.len().div_ceil(LINE)];
        cast_slice_mut::<Line, u8>(&mut copy)[..bytes.len()].copy_from_slice(bytes);
        copy
    };
    let ins: Vec<Vec<Line>> = inputs.iter().map(|b| lines(b)).collect();
    let mut outs: Vec<Vec<Line>> = outputs.iter().map(|b| lines(b)).collect();
    let mut scratch = vec![Line::zeroed(); scratch_len(program) / LINE];
    let mut ops = Operands::new();
    for ((to, from), bytes) in ops.inputs.iter_mut().zip(&ins).zip(inputs) {
        *to = &cast_slice(from)[..bytes.len()];
    }
    for (to, from) in ops.outs.iter_mut().zip(&mut outs) {
        *to = cast_slice_mut(from);
    }
    ops.slots = cast_slice_mut(&mut scratch);
    let mut first = None;
    execute(code, ops, 0, program.len, &mut |e| first = Some(first.map_or(e, |f: usize| f.min(e))));
    for (to, from) in outputs.iter_mut().zip(&outs) {
        let bytes: &[u8] = cast_slice(from);
        to.copy_from_slice(&bytes[..to.len()]);
    }
    first.map_or(Ok(()), Err)
}
