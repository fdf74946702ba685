//! Proof of a packing: a sweep through time with an ordered map of the live buffers.
//!
//! It shares no code with the packers. It cannot see whether lifetimes and sizes are right. The plan checker proves
//! that: it walks the instructions.

use super::buffers::Buffers;
use crate::error::{Error, Kind, Result};
use std::collections::BTreeMap;

/// The start or the end of a lifetime. In order, ends of a moment come before its starts, so touching lifetimes do not
/// overlap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    now: u64,
    starts: bool,
    buffer: usize,
}

/// Proves that each buffer has an offset that is a multiple of `align`, ends at `height` or below, and overlaps no
/// other live buffer.
///
/// Buffer `i` occupies `at[i]..at[i] + size[i]` during `first[i]..end[i]`. Empty buffers may have any offset. The error
/// names the buffers, their ranges and the moment. O(N log N).
pub fn prove_packing(v: &Buffers, at: &[u64], height: u64, align: u64) -> Result<()> {
    let (first, end, size) = (&v.first, &v.end, &v.size);
    let n = first.len();
    let bad = |text: String| Err(Error::new(Kind::Plan, text));
    if end.len() != n || size.len() != n || at.len() != n {
        return bad(format!("{n} starts, {} ends, {} sizes and {} offsets", end.len(), size.len(), at.len()));
    }
    let mut events: Vec<Event> = Vec::with_capacity(2 * n);
    for i in 0..n {
        if first[i] >= end[i] || size[i] == 0 {
            continue;
        }
        if at[i].checked_rem(align).is_none_or(|rest| rest != 0) {
            return bad(format!("buffer {i} lies at {}, which is no multiple of {align}", at[i]));
        }
        if at[i].checked_add(size[i]).is_none_or(|top| top > height) {
            return bad(format!("buffer {i} of size {} lies at {}, above the height {height}", size[i], at[i]));
        }
        events.push(Event { now: first[i], starts: true, buffer: i });
        events.push(Event { now: end[i], starts: false, buffer: i });
    }
    events.sort_unstable();
    let mut live: BTreeMap<u64, usize> = BTreeMap::new();
    for Event { now, starts, buffer: i } in events {
        if !starts {
            live.remove(&at[i]);
            continue;
        }
        let below = live.range(..at[i] + size[i]).next_back();
        if let Some((&low, &j)) = below
            && low + size[j] > at[i]
        {
            return bad(format!(
                "at moment {now} buffer {i} at {}..{} overlaps buffer {j} at {low}..{}",
                at[i],
                at[i] + size[i],
                low + size[j]
            ));
        }
        live.insert(at[i], i);
    }
    Ok(())
}
