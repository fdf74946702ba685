//! What plans are compared with: program order, updates where the program has them (at the end), next values in their
//! leaves, no other result in place, and XLA's heap: each buffer in the smallest free chunk that holds it, larger
//! buffers first or longer-lived ones first, whichever is lower.

use arenagrad::sched::code::Code;
use arenagrad::sched::live::{Intervals, intervals};
use arenagrad::sched::{alias, places, plan::Offsets};
use std::cmp::Reverse;

/// Bytes of the arena, and lines alive at once.
pub fn baseline(code: &Code) -> (usize, u64) {
    let mut code = code.clone();
    let alias = alias::leaves(&mut code);
    let live = intervals(&code, &alias).expect("lifetimes");
    let pack = |by_size: bool| {
        let (_, bytes) = places(&code, &alias, &live, |v| Ok(heap(v, by_size))).expect("a plan");
        bytes
    };
    (pack(true).min(pack(false)), live.max_live())
}

fn heap(v: &Intervals, by_size: bool) -> Offsets {
    let takes = |&i: &usize| v.lines[i] > 0 && v.first[i] < v.end[i];
    let mut order: Vec<usize> = (0..v.len()).filter(takes).collect();
    order.sort_by_key(|&i| {
        let (size, time) = (v.lines[i], v.end[i] - v.first[i]);
        Reverse(if by_size { (size, time) } else { (time, size) })
    });
    let mut o = Offsets { at: vec![0; v.len()], height: 0 };
    let mut placed: Vec<usize> = Vec::with_capacity(order.len());
    for &i in &order {
        let (mut low, mut best) = (0u32, None::<(u32, u32)>);
        for &p in placed.iter().filter(|&&p| v.overlap(i, p)) {
            let gap = o.at[p].saturating_sub(low);
            if gap >= v.lines[i] && best.is_none_or(|b| gap < b.0) {
                best = Some((gap, low));
            }
            low = low.max(o.at[p] + v.lines[p]);
        }
        o.at[i] = best.map_or(low, |b| b.1);
        o.height = o.height.max(u64::from(o.at[i] + v.lines[i]));
        let slot = placed.partition_point(|&p| o.at[p] <= o.at[i]);
        placed.insert(slot, i);
    }
    o
}
