//! The kernel: for each tile of a range of units, it runs all steps on the tile.
//!
//! A call has a table of what steps read and write. The entry of a uniform operand is the whole scalar or the constant,
//! of which loops read the first number. Invariant: the result of an element depends on its index and the inputs alone,
//! not on the range or the tile.

use super::apply;
use super::load::{contiguous_start, fetch_elements, steady_element};
use super::program::MAX_OUTPUTS;
use super::step_code::StepCode;
use super::tile_code::{AccessCode, InputCode, TileCode};
use super::tile_table::{FIRST_INPUT, NONE, NOTHING, TileBytes, TileTable};
use super::{TILE, UNIT};
use crate::abi::Args;
use crate::fault::Cause;
use arenagrad_arena::tensor::LINE;

/// The operands of a call.
pub(super) trait TileOperands<'a> {
    /// Input `i`, whole, or the output that shares its bytes.
    fn input(&self, i: usize) -> Result<&'a [u8], usize>;
    /// The part of output `j` that belongs to the range; may be called once.
    fn output(&mut self, j: usize) -> &'a mut [u8];
    /// This thread's scratch; may be called once.
    fn slots(&mut self) -> &'a mut [u8];
}

/// The operands of a kernel's call.
struct TileArgs<'c, 'a> {
    args: &'c mut Args<'a>,
    /// The write that is scratch.
    scratch: usize,
}

impl<'a> TileOperands<'a> for TileArgs<'_, 'a> {
    #[inline]
    fn input(&self, i: usize) -> Result<&'a [u8], usize> {
        self.args.inplace(i).map_or_else(|| Ok(self.args.read_bytes(i)), Err)
    }

    #[inline]
    fn output(&mut self, j: usize) -> &'a mut [u8] {
        self.args.write_bytes(j)
    }

    #[inline]
    fn slots(&mut self) -> &'a mut [u8] {
        if self.args.writes() > self.scratch { self.args.write_bytes(self.scratch) } else { &mut [] }
    }
}

/// The operands of a program whose result stays with the kernel that asks for it.
struct TermOperands<'c, 'a, 't> {
    args: &'c Args<'a>,
    terms: &'t mut [u8],
    slots: &'t mut [u8],
}

impl<'a: 't, 't> TileOperands<'t> for TermOperands<'_, 'a, 't> {
    fn input(&self, i: usize) -> Result<&'t [u8], usize> {
        Ok(self.args.read_bytes(i))
    }

    fn output(&mut self, _: usize) -> &'t mut [u8] {
        std::mem::take(&mut self.terms)
    }

    fn slots(&mut self) -> &'t mut [u8] {
        std::mem::take(&mut self.slots)
    }
}

/// Computes elements `lo..hi` of the one output of `code` from the reads of a call. `terms` has their bytes, `slots`
/// those of [`program_scratch_len`](super::program_scratch_len).
#[inline(never)]
pub(crate) fn compute_terms(
    args: &Args<'_>,
    code: &TileCode,
    (lo, hi): (usize, usize),
    terms: &mut [u8],
    slots: &mut [u8],
) {
    let mut table = TileTable::new_const();
    let operands = &mut TermOperands { args, terms, slots };
    if let Some(mut call) = TileKernelCall::new(code, &mut table, operands, lo, hi) {
        call.run(&mut |element, cause| args.fault_integer(element, cause));
    }
}

/// The state of a call.
pub(super) struct TileKernelCall<'a, 'c> {
    code: &'a TileCode,
    /// What steps read and write, at the entries that [`TileCode`] names.
    table: &'c mut TileTable<'a>,
    /// For each output, the entry of the input that it is in place of, if that has a copy of the tile; else 0.
    copied: [u16; MAX_OUTPUTS],
    /// Elements of the range.
    lo: usize,
    hi: usize,
}

/// A tile: elements `at..at + n`.
#[derive(Clone, Copy)]
struct Tile {
    at: usize,
    n: usize,
}

/// The tile kernel. `tile/mod.rs` documents its operands.
pub fn tile_kernel(args: &mut Args<'_>) {
    let code: &TileCode = args.prepared();
    if code.direct { run_direct(args, code) } else { run_by_tiles(args, code) }
}

/// Runs a program tile by tile.
fn run_by_tiles<'a>(args: &mut Args<'a>, code: &'a TileCode) {
    let units = args.units();
    let mut table = TileTable::new_const();
    let operands = &mut TileArgs { args, scratch: code.outputs.len() };
    let (lo, hi) = (units.start * UNIT, units.end * UNIT);
    if let Some(mut call) = TileKernelCall::new(code, &mut table, operands, lo, hi) {
        call.run(&mut |element, cause| args.fault_integer(element, cause));
    }
}

/// Runs a program of one loop from whole inputs to one output: over the range at once or, if the output is in place of
/// an input, tile by tile from a copy.
#[inline]
fn run_direct(args: &mut Args<'_>, code: &TileCode) {
    let units = args.units();
    let (lo, hi) = (units.start * UNIT, (units.end * UNIT).min(code.len));
    let Some(step) = code.steps.first().filter(|_| lo < hi) else { return };
    let own = (0..code.inputs.len()).find(|&i| args.inplace(i).is_some());
    let dst = args.write_bytes(0);
    if own.is_none_or(|i| code.adds_in_place(i, 0)) {
        return run_single_step(args, code, step, lo, dst, &[]);
    }
    let slot = args.write_bytes(1);
    for (t, dst) in dst.chunks_mut(TILE * step.size).enumerate() {
        let copy = &mut slot[..dst.len()];
        copy.copy_from_slice(dst);
        run_single_step(args, code, step, lo + t * TILE, dst, copy);
    }
}

/// The most entries of the table of a program of one loop: nothing, at most four inputs and constants, the output, and
/// the slot for a copy.
const DIRECT_TABLE: usize = 7;

/// Runs the one step of `code` on the elements from `lo`. `own` stands for the input that the output is in place of: a
/// copy of its tile, or nothing.
#[inline(always)]
fn run_single_step(args: &mut Args<'_>, code: &TileCode, step: &StepCode, lo: usize, dst: &mut [u8], own: &[u8]) {
    let hi = lo + dst.len() / step.size;
    let mut table = TileTable::<DIRECT_TABLE>::new_const();
    table.push(NONE);
    for (i, input) in code.inputs.iter().enumerate() {
        table.push(TileBytes::Read(match args.inplace(i) {
            Some(_) => own,
            None => &args.read_bytes(i)[lo * input.elem.size()..hi * input.elem.size()],
        }));
    }
    // No operand of the loop is an output or a slot.
    table.extend((0..code.outputs.len() + code.slots).map(|_| NONE));
    table.extend(code.constants().map(TileBytes::Read));
    if let Some((element, cause)) = (step.run)(step, dst, &table).zip(step.op.cause()) {
        args.fault_integer(lo + element, cause);
    }
}

impl<'a, 'c> TileKernelCall<'a, 'c> {
    /// A call for elements `lo..hi`, which are clipped to the program's length. None if there are none. Fills `table`,
    /// which is empty.
    pub(super) fn new(
        code: &'a TileCode,
        table: &'c mut TileTable<'a>,
        operands: &mut impl TileOperands<'a>,
        lo: usize,
        hi: usize,
    ) -> Option<TileKernelCall<'a, 'c>> {
        let hi = hi.min(code.len);
        if lo >= hi {
            return None;
        }
        let mut copied = [0; MAX_OUTPUTS];
        table.push(NONE);
        for (i, &size) in code.whole.iter().enumerate() {
            table.push(match operands.input(i) {
                Ok(bytes) => TileBytes::Read(&bytes[lo * usize::from(size)..]),
                // The step reads it from its result.
                Err(j) if code.adds_in_place(i, j) => NONE,
                Err(j) => {
                    copied[j] = (FIRST_INPUT + i) as u16;
                    NONE
                }
            });
        }
        table.extend((0..code.outputs.len()).map(|j| TileBytes::Written(operands.output(j))));
        if code.slots > 0 {
            let slots = operands.slots().chunks_exact_mut(code.lines * LINE);
            table.extend(slots.take(code.slots).map(TileBytes::Written));
        }
        debug_assert_eq!(table.len(), FIRST_INPUT + code.inputs.len() + code.outputs.len() + code.slots);
        table.extend(code.fetched.iter().map(|_| NONE));
        table.extend(code.constants().map(TileBytes::Read));
        for (&input, &copy) in copied.iter().zip(&code.copies).filter(|&(&input, _)| input > 0) {
            table.swap(usize::from(input), usize::from(copy));
        }
        Some(TileKernelCall { code, table, copied, lo, hi })
    }

    /// Computes the range. `fault` gets the first bad element of each step and tile.
    pub(super) fn run(&mut self, fault: &mut dyn FnMut(usize, &'static Cause)) {
        for step in &self.code.once {
            if let TileBytes::Written(slot) = &mut self.table[usize::from(step.to)] {
                apply::fill_constant(step.out, step.imm, &mut slot[..TILE.min(self.hi - self.lo) * step.out.size()]);
            }
        }
        for at in (self.lo..self.hi).step_by(TILE) {
            let tile = Tile { at, n: TILE.min(self.hi - at) };
            if at > self.lo {
                self.advance();
            }
            self.load(tile);
            for step in &self.code.steps {
                if let Some((element, cause)) = self.step(step, tile.n).zip(step.op.cause()) {
                    fault(at + element, cause);
                }
            }
        }
    }

    /// Moves on from a full tile of all operands to the next.
    fn advance(&mut self) {
        let mut entries = self.table.iter_mut().skip(FIRST_INPUT);
        for (&size, entry) in self.code.whole.iter().zip(entries.by_ref()) {
            match entry {
                // Empty: the result is in place of it.
                TileBytes::Read([]) | TileBytes::Written(_) => {}
                TileBytes::Read(bytes) => *bytes = &bytes[TILE * usize::from(size)..],
            }
        }
        for (entry, &elem) in entries.zip(&self.code.outputs) {
            if let TileBytes::Written(bytes) = std::mem::replace(entry, NONE) {
                *entry = TileBytes::Written(&mut bytes[TILE * elem.size()..]);
            }
        }
    }

    /// Fetches this tile of every input that is not read where it is.
    #[inline]
    fn load(&mut self, tile: Tile) {
        for (j, &elem) in self.code.outputs.iter().enumerate() {
            let input = usize::from(self.copied[j]);
            if input > 0 {
                // Before any step writes: the output is about to overwrite these bytes.
                let bytes = tile.n * elem.size();
                let (low, high) = self.table.split_at_mut(FIRST_INPUT + self.code.inputs.len());
                if let TileBytes::Written(copy) = &mut low[input] {
                    copy[..bytes].copy_from_slice(&high[j].bytes()[..bytes]);
                }
            }
        }
        for &i in &self.code.fetched {
            let input = &self.code.inputs[usize::from(i)];
            let access = input.access();
            match self.table[FIRST_INPUT + usize::from(i)] {
                TileBytes::Read(source) if tile.at == self.lo || !is_fetched_once(access) => {
                    self.fetch(input, access, source, tile);
                }
                _ => {}
            }
        }
    }

    /// Fetches a tile of an input that has an entry of its own for it.
    #[inline(never)]
    fn fetch(&mut self, input: &InputCode, access: AccessCode<'_>, source: &'a [u8], tile: Tile) {
        let (size, entry, slot) = (input.elem.size(), usize::from(input.tile), usize::from(input.slot));
        if input.slot == NOTHING {
            self.table[entry] = TileBytes::Read(&source[steady_element(access, tile.at) * size..]);
            return;
        }
        // The slot is at one of its two entries.
        if let Some(at) = contiguous_start(access, tile.at, tile.n) {
            if let TileBytes::Written(_) = self.table[entry] {
                self.table.swap(entry, slot);
            }
            self.table[entry] = TileBytes::Read(&source[at * size..(at + tile.n) * size]);
            return;
        }
        if let TileBytes::Read(_) = self.table[entry] {
            self.table.swap(entry, slot);
        }
        let TileBytes::Written(dst) = &mut self.table[entry] else { return };
        let dst = &mut dst[..tile.n * size];
        match size {
            1 => fetch_elements::<u8>(dst, source, access, tile.at),
            2 => fetch_elements::<u16>(dst, source, access, tile.at),
            4 => fetch_elements::<u32>(dst, source, access, tile.at),
            _ => fetch_elements::<u64>(dst, source, access, tile.at),
        }
    }

    /// Runs one step on a tile of `n` elements. Returns its first bad element.
    #[inline(always)]
    fn step(&mut self, step: &StepCode, n: usize) -> Option<usize> {
        // The result leaves the table, so that everything else can be borrowed.
        let TileBytes::Written(dst) = std::mem::replace(&mut self.table[usize::from(step.to)], NONE) else {
            return None;
        };
        let bad = (step.run)(step, &mut dst[..n * step.size], self.table);
        self.table[usize::from(step.to)] = TileBytes::Written(dst);
        bad
    }
}

/// Whether one fetch serves all tiles of a call.
#[inline]
fn is_fetched_once(access: AccessCode<'_>) -> bool {
    match access {
        AccessCode::Scalar => true,
        AccessCode::Suffix(n) => TILE.is_multiple_of(n),
        _ => false,
    }
}
