//! Test harness: runs a kernel as the executor does, with operands in an arena and units in several ranges.
//!
//! Invariant: the result does not depend on the division of the units, or the test fails. Under the AddressSanitizer
//! (`tools/sanitize asan`), an access to a byte outside of all operands ends the test, also to a byte between two
//! operands.

#![allow(clippy::unwrap_used, reason = "what it meets ends a test")]

use crate::abi::{ArenaPtr, Args, Kernel, OperandRef, Prepared, Split};
use crate::fault::Fault;
use crate::float::Float;
use arenagrad_arena::tensor::{LINE, TensorArena};
use bytemuck::Pod;
use std::ops::Range;

/// A read operand: bytes, element size, and the write that shares its bytes.
#[derive(Clone)]
pub struct In {
    bytes: Vec<u8>,
    size: usize,
    inplace: Option<u8>,
}

impl In {
    /// A read of `x`.
    pub fn of<T: Pod>(x: &[T]) -> In {
        In { bytes: bytemuck::cast_slice(x).to_vec(), size: size_of::<T>(), inplace: None }
    }

    /// The same read, in place of write `j`.
    pub fn over(self, j: u8) -> In {
        In { inplace: Some(j), ..self }
    }
}

/// A written operand: number of elements, bytes per element, split.
pub struct Out(pub usize, pub usize, pub Split);

impl Out {
    /// `len` elements of `T`, `per` in each unit.
    pub fn of<T>(len: usize, per: usize) -> Out {
        Out(len, size_of::<T>(), Split::PerUnit(per))
    }
}

/// The bytes of each write, or the element of the fault.
pub type Outcome = Result<Vec<Vec<u8>>, usize>;

/// The elements of write `j`.
pub fn written_elements<T: Pod>(outcome: &Outcome, j: usize) -> Vec<T> {
    bytemuck::pod_collect_to_vec(&outcome.as_ref().unwrap()[j])
}

fn round_up_to_line(bytes: usize) -> usize {
    // An empty operand gets a line, too.
    bytes.max(1).next_multiple_of(LINE)
}

/// The bytes of a written operand. Scratch counts as empty: its contents depend on the last range.
fn bytes_written(arena: &TensorArena, slot: &OperandRef, out: &Out) -> Vec<u8> {
    let len = if matches!(out.2, Split::PerThread(_)) { 0 } else { out.0 * out.1 };
    arena.bytes()[slot.off..slot.off + len].to_vec()
}

#[allow(unsafe_code)]
fn run_once(
    kernel: Kernel,
    (params, prepared): (&[u64], Option<&Prepared>),
    reads: &[In],
    writes: &[Out],
    units: usize,
    ranges: usize,
) -> Outcome {
    let size: usize = reads
        .iter()
        .map(|r| round_up_to_line(r.bytes.len()))
        .chain(writes.iter().map(|w| round_up_to_line(w.0 * w.1)))
        .sum();
    let mut arena = TensorArena::new(size).unwrap();
    arena.bytes_mut().fill(0xA5);
    let mut at = 0;
    let mut take = |bytes: usize| {
        let off = at;
        at += round_up_to_line(bytes);
        off
    };
    let slots: Vec<OperandRef> = writes.iter().map(|w| OperandRef::new(take(w.0 * w.1), w.0, w.1, w.2)).collect();
    let mut read_slots = Vec::new();
    for r in reads {
        let off = match r.inplace {
            Some(j) => slots[usize::from(j)].off,
            None => take(r.bytes.len()),
        };
        arena.bytes_mut()[off..off + r.bytes.len()].copy_from_slice(&r.bytes);
        read_slots.push(OperandRef {
            off,
            len: r.bytes.len() / r.size,
            size: r.size,
            split: Split::Whole,
            inplace: r.inplace,
            moves: 0,
        });
    }
    let frame = ArenaPtr::new(arena.bytes_mut());
    let only = Operands::new(frame, slots.iter().chain(&read_slots));
    let fault = Fault::default();
    // Ranges run in descending order: the order must not matter.
    for i in (0..ranges).rev() {
        let range = units * i / ranges..units * (i + 1) / ranges;
        // SAFETY: every operand has its own lines of the arena, an in-place read is reached through its write only,
        // and calls follow one another.
        let args = unsafe { Args::new(frame, &read_slots, &slots, params, range, 0, &fault) };
        kernel(&mut args.with_prepared(prepared));
    }
    drop(only);
    match fault.get() {
        Some(bad) => Err(bad.element),
        None => Ok(slots.iter().zip(writes).map(|(s, w)| bytes_written(&arena, s, w)).collect()),
    }
}

/// While this lives, the AddressSanitizer lets nothing touch an arena but the bytes of some operands. Does nothing in
/// tests that are compiled without `--cfg asan`.
pub struct Operands(ArenaPtr);

impl Operands {
    /// Only `operands` of `arena` may be touched.
    pub fn new<'a>(arena: ArenaPtr, operands: impl Iterator<Item = &'a OperandRef>) -> Operands {
        mark_region(arena, 0..arena.parts().len, false);
        operands.for_each(|s| mark_region(arena, s.off..s.off + s.len * s.size, true));
        Operands(arena)
    }
}

impl Drop for Operands {
    fn drop(&mut self) {
        mark_region(self.0, 0..self.0.parts().len, true);
    }
}

/// Tells the AddressSanitizer whether the `bytes` of `arena` may be touched.
#[cfg(asan)]
#[allow(unsafe_code)]
fn mark_region(arena: ArenaPtr, bytes: Range<usize>, open: bool) {
    unsafe extern "C" {
        fn __asan_poison_memory_region(at: *const u8, len: usize);
        fn __asan_unpoison_memory_region(at: *const u8, len: usize);
    }
    let whole = arena.parts();
    assert!(bytes.end <= whole.len && whole.split == 0);
    let (at, len) = (whole.base.wrapping_add(bytes.start).cast_const(), bytes.len());
    // SAFETY: the region lies in the arena; the calls change the sanitizer's notes only.
    unsafe {
        match open {
            true => __asan_unpoison_memory_region(at, len),
            false => __asan_poison_memory_region(at, len),
        }
    }
}

#[cfg(not(asan))]
fn mark_region(_: ArenaPtr, _: Range<usize>, _: bool) {}

/// `few` under Miri, which takes a thousand times as long as the CPU; `all` otherwise.
pub fn fewer_under_miri<T>(all: T, few: T) -> T {
    if cfg!(miri) { few } else { all }
}

/// Runs `kernel` over its units in 1, 2, 3 and 7 ranges, under Miri in 1 and 3. Asserts that the bits agree, and
/// returns them.
pub fn run_in_ranges(kernel: Kernel, params: &[u64], reads: &[In], writes: &[Out], units: usize) -> Outcome {
    run_prepared(kernel, (params, None), reads, writes, units)
}

/// As [`run_in_ranges`], for a kernel that reads what was prepared for it.
pub fn run_prepared(
    kernel: Kernel,
    params: (&[u64], Option<&Prepared>),
    reads: &[In],
    writes: &[Out],
    units: usize,
) -> Outcome {
    for w in writes {
        let (per, all) = match w.2 {
            Split::PerUnit(per) => (per, w.0),
            Split::Columns { row, width } => (width, row),
            _ => continue,
        };
        assert!(per * units >= all, "{units} units of {per} do not cover {all}");
    }
    let whole = run_once(kernel, params, reads, writes, units, 1);
    for &ranges in fewer_under_miri(&[2, 3, 7][..], &[3]) {
        assert_eq!(run_once(kernel, params, reads, writes, units, ranges), whole, "{ranges} ranges");
    }
    whole
}

/// `n` pseudo-random numbers in −1..1 (xorshift64).
pub fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(0x1234_5678_9ABC_DEF1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// [`noise`], rounded to `f32`.
pub fn noise32(n: usize, seed: u64) -> Vec<f32> {
    noise(n, seed).iter().map(|x| *x as f32).collect()
}

/// Number `i` in −1..1 of the stream of `seed`.
pub fn hash_number(i: usize, seed: usize) -> f64 {
    let h = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (seed as u64 + 7).wrapping_mul(0xD1B5_4A32_D192_ED03);
    let h = (h ^ (h >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    ((h >> 11) as f64) / (1u64 << 52) as f64 - 1.0
}

/// The first `len` numbers of [`hash_number`].
pub fn hash_numbers<T: Float>(len: usize, seed: usize) -> Vec<T> {
    (0..len).map(|i| T::from_f64(hash_number(i, seed))).collect()
}

/// Asserts that `a` equals `b` within `tol`, relative to max(1, |b|). Equal infinities agree, and so do NaNs.
pub fn close<A: Copy + Into<f64>, B: Copy + Into<f64>>(a: &[A], b: &[B], tol: f64) {
    assert_eq!(a.len(), b.len());
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        let (a, b): (f64, f64) = ((*a).into(), (*b).into());
        let same = a == b || (a.is_nan() && b.is_nan());
        assert!(same || (a - b).abs() <= tol * b.abs().max(1.0), "element {i}: {a} against {b}");
    }
}

/// A kernel that reads one byte behind its operand is stopped by the sanitizer.
#[cfg(asan)]
#[test]
#[ignore = "ends the process: tools/sanitize runs it and expects that"]
fn asan_sees_an_overrun_between_operands() {
    let reach = |args: &mut Args<'_>| {
        let x = args.read::<u8>(0);
        // SAFETY: none: a planted bug. The byte lies in the arena, behind the operand's end.
        #[allow(unsafe_code)]
        let behind = unsafe { std::hint::black_box(x.as_ptr()).add(x.len()).read_volatile() };
        args.write::<u8>(0)[0] = behind;
    };
    let _ = run_once(reach, (&[], None), &[In::of(&[1u8; 13])], &[Out::of::<u8>(1, 1)], 1, 1);
}
