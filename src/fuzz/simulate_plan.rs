//! Simulates a plan without its kernels. Each byte that an instruction writes becomes a hash of the instruction and of
//! all bytes that it reads; a copy copies bytes. Two plans of the same instructions agree on the outputs and the leaves
//! only if no byte that matters was overwritten, except for collisions of 64-bit hashes. The simulation uses no
//! lifetimes and, unlike the checker, does not record which buffer's contents a byte holds. It shares no code with the
//! checker.

use crate::arena::ids::Id;
use crate::kernels::abi::Split;
use crate::sched::instructions::{BufKind, Operand};
use crate::sched::plan::Plan;
use hashbrown::HashSet;
use std::ops::Range;

const POISON: u64 = 0xDEAD_BEEF_0BAD_F00D;

fn mix_simulated_plan(h: u64, x: u64) -> u64 {
    let h = (h ^ x).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    h ^ (h >> 29)
}

fn simulated_extent(p: &Plan, o: &Operand) -> Option<Range<usize>> {
    let start = p.offset[o.buf as usize].checked_add(o.off)?;
    let end = start.checked_add(o.bytes())?;
    (end <= p.bytes).then_some(start..end)
}

fn simulated_whole_plan(p: &Plan, b: usize) -> Option<Range<usize>> {
    simulated_extent(p, &Operand::of_bytes(b as u32, 0, p.code.bytes[b], Split::Whole))
}

/// A hash for each output and each leaf after one step; none if the plan reaches outside its arena.
pub fn simulate_plan(p: &Plan) -> Option<Vec<u64>> {
    let code = &p.code;
    let mut mem = vec![POISON; p.bytes];
    for b in (0..code.bytes.len()).filter(|&b| code.kind[b].is_pinned()) {
        for (i, m) in mem[simulated_whole_plan(p, b)?].iter_mut().enumerate() {
            *m = mix_simulated_plan(b as u64 + 1, i as u64);
        }
    }
    let mut written = HashSet::new();
    for i in 0..code.len() {
        simulate_instruction(p, i, &mut mem, &mut written)?;
    }
    let mut out = Vec::new();
    let digest = |r: Range<usize>| mem[r].iter().fold(7, |h, &x| mix_simulated_plan(h, x));
    for o in &code.outputs {
        out.push(digest(simulated_extent(p, o)?));
    }
    for b in (0..code.bytes.len()).filter(|&b| code.kind[b].is_leaf()) {
        out.push(digest(simulated_whole_plan(p, b)?));
    }
    Some(out)
}

fn simulate_instruction(p: &Plan, i: usize, mem: &mut [u64], written: &mut HashSet<u32>) -> Option<()> {
    let code = &p.code;
    let (reads, writes) = (code.reads_of(i), code.writes_of(i));
    let with = |r: usize| p.inplace[code.read_range(i).start + r];
    // A result keeps the bytes under it until its own are made only if the kernel knows that they are an operand, or
    // if it adds to what an earlier call of its node wrote.
    let knows = |r: usize, w: usize| usize::from(with(r)) == w && code.pairs_of(i).contains(&(r as u8, w as u8));
    let adds = |w: &Operand| written.contains(&w.buf) && !matches!(w.split, Split::PerThread(_));
    for (w, o) in writes.iter().enumerate() {
        if !(0..reads.len()).any(|r| knows(r, w)) && !adds(o) {
            mem[simulated_extent(p, o)?].fill(POISON);
        }
    }
    if code.copies[i] {
        mem.copy_within(simulated_extent(p, &reads[0])?, simulated_extent(p, &writes[0])?.start);
        written.insert(writes[0].buf);
        return Some(());
    }
    // Which call of which node: positions in the code would change where a copy is dropped.
    let call = (0..i).rev().take_while(|&j| code.node[j] == code.node[i]).count();
    let mut h = mix_simulated_plan(call as u64, code.node[i].at() as u64);
    for (r, o) in reads.iter().enumerate() {
        // In place, the kernel finds the operand where it writes.
        let from = if with(r) == u8::MAX { o } else { writes.get(usize::from(with(r)))? };
        let honest = with(r) == u8::MAX || knows(r, usize::from(with(r)));
        let at = simulated_extent(p, from)?;
        let at = at.start..at.end.min(at.start + o.bytes());
        h = mem[at].iter().fold(if honest { h } else { POISON }, |h, &x| mix_simulated_plan(h, x));
    }
    for o in writes.iter().filter(|o| adds(o)) {
        h = mem[simulated_extent(p, o)?].iter().fold(h, |h, &x| mix_simulated_plan(h, x));
    }
    for (w, o) in writes.iter().enumerate() {
        // Scratch of a thread has no defined contents after the instruction.
        let seed = if matches!(o.split, Split::PerThread(_)) { POISON } else { mix_simulated_plan(h, w as u64) };
        for (k, m) in mem[simulated_extent(p, o)?].iter_mut().enumerate() {
            *m = mix_simulated_plan(seed, k as u64);
        }
        written.insert(o.buf);
    }
    Some(())
}

/// Whether buffer `b` is one that a plan is free to place.
pub fn is_free_in_simulated_plan(p: &Plan, b: usize) -> bool {
    p.code.bytes[b] > 0 && matches!(p.code.kind[b], BufKind::Activation | BufKind::Output | BufKind::Scratch)
}
