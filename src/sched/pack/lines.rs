//! Packing of a program's buffers: lifetimes counted in instructions, sizes in lines of the arena.

use super::buffers::Buffers;
use super::greedy::Placed;
use super::{Options, Packing};
use crate::error::{Error, Kind, Result};
use crate::sched::intervals::Intervals;

/// Most nodes of branch and bound for a program. Training graphs need none: a skyline reaches the bound.
const NODES: u64 = 20_000;

/// The lowest packing of `v` that [`super::pack`] finds, in lines. An error above `u32::MAX` lines.
pub fn pack_lines(v: &Intervals) -> Result<Packing> {
    check_offsets_fit(super::pack(&convert_sizes(v), &Options { nodes: NODES, ..Options::default() })?)
}

/// The packing of `v` by another packer, for comparisons, and for tests that need unusual plans.
pub fn pack_lines_with(v: &Intervals, packer: impl Fn(&Buffers) -> Placed) -> Result<Packing> {
    let (at, height) = packer(&convert_sizes(v));
    let max_live = v.max_live();
    check_offsets_fit(Packing { at, height, max_live, bound: max_live, nodes: 0, solved: height == max_live })
}

fn convert_sizes(v: &Intervals) -> Buffers {
    let wide = |column: &[u32]| column.iter().map(|&x| u64::from(x)).collect();
    Buffers { first: wide(&v.first), end: wide(&v.end), size: wide(&v.lines) }
}

fn check_offsets_fit(p: Packing) -> Result<Packing> {
    match p.height <= u64::from(u32::MAX) {
        true => Ok(p),
        false => Err(Error::new(Kind::Plan, format!("{} lines of memory do not fit the arena's offsets", p.height))),
    }
}
