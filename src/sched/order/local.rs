//! Local search: where the best order is above the certificate, single groups move away from its fullest instruction,
//! the one with the most live lines.
//!
//! A group before that instruction moves after it if its results are needed only later. A group after it moves before
//! it if that group ends lifetimes. Deterministic: moves are tried in a fixed order, the first that helps is kept, and
//! the budget counts groups scored.

use super::deps::Deps;
use crate::error::Result;
use crate::sched::alias;
use crate::sched::instructions::Instructions;
use crate::sched::intervals::{Intervals, lifetimes_in_order};
use std::cmp::Reverse;

/// Most groups to score, over all tries.
pub const BUDGET: usize = 1 << 16;
/// Number of groups before, and behind, the fullest that may move.
const WINDOW: usize = 256;
/// Moves tried from one order before the search ends.
const TRIES: usize = 48;

/// An order and its cost.
struct LocalState {
    order: Vec<u32>,
    /// Live lines of the fullest instruction, and the number of such instructions. Less is better.
    cost: (u64, usize),
    /// Position in `order` of the fullest instruction's group.
    full: usize,
    live: Intervals,
    class: Vec<u32>,
    /// First instruction of each position.
    start: Vec<u32>,
}

fn start_state(code: &Instructions, order: Vec<u32>) -> Result<LocalState> {
    let mut seq = Vec::with_capacity(code.len());
    let mut start = Vec::with_capacity(order.len() + 1);
    for &g in &order {
        start.push(seq.len() as u32);
        seq.extend(code.group(g as usize).map(|i| i as u32));
    }
    let (alias, copies) = alias::decide_aliases(code, &seq);
    let live = lifetimes_in_order(code, &seq, &copies, &alias)?;
    let alive = live.alive();
    let most = alive.iter().copied().max().unwrap_or(0);
    let at = alive.iter().position(|&a| a == most).unwrap_or(0);
    // The copies behind the last group count as part of it.
    let full = start.partition_point(|&s| s as usize <= at).saturating_sub(1);
    let count = alive.iter().filter(|&&a| a == most).count();
    Ok(LocalState { order, cost: (most, count), full, live, class: alias.class, start })
}

/// Improves `order` until its peak is `bound`, no move helps, or the budget is spent.
pub fn improve_by_moves(code: &Instructions, d: &Deps, order: &[u32], bound: u64) -> Result<Vec<u32>> {
    let mut left = BUDGET / order.len().max(1);
    let mut now = start_state(code, order.to_vec())?;
    while now.cost.0 > bound {
        let mut better = None;
        for LocalMove { from, to, .. } in possible_moves(code, d, &now).into_iter().take(TRIES) {
            if left == 0 {
                return Ok(now.order);
            }
            left -= 1;
            let mut order = now.order.clone();
            let g = order.remove(from);
            order.insert(to, g);
            let next = start_state(code, order)?;
            if next.cost < now.cost {
                better = Some(next);
                break;
            }
        }
        match better {
            Some(next) => now = next,
            None => break,
        }
    }
    Ok(now.order)
}

/// A move of one group across the fullest position.
#[derive(Clone, Copy, PartialEq)]
struct LocalMove {
    /// Lines that it takes away from the fullest instruction.
    lines: u64,
    /// Position of the group.
    from: usize,
    /// Its new position, once it has been removed.
    to: usize,
}

/// The moves that data and effects allow, most lines first.
fn possible_moves(code: &Instructions, d: &Deps, s: &LocalState) -> Vec<LocalMove> {
    let mut position = vec![0u32; s.order.len()];
    s.order.iter().enumerate().for_each(|(at, &g)| position[g as usize] = at as u32);
    let at = s.start[s.full];
    let lines = |bufs: &[u32], wanted: &dyn Fn(usize) -> bool| -> u64 {
        let roots = bufs.iter().map(|&b| s.class[b as usize] as usize).filter(|&r| !code.kind[r].is_pinned());
        roots.filter(|&r| wanted(r)).map(|r| u64::from(s.live.lines[r])).sum()
    };
    let mut found = Vec::new();
    for from in s.full.saturating_sub(WINDOW)..s.full {
        let g = s.order[from] as usize;
        let needed = d.after.of(g).iter().map(|&x| position[x as usize] as usize).min().unwrap_or(s.order.len());
        let made = lines(d.writes.of(g), &|r| s.live.first[r] >= s.start[from] && s.live.end[r] > at);
        if needed > s.full && made > 0 {
            // Right behind the fullest, or right before the first reader.
            found.extend([s.full, needed - 1].map(|to| LocalMove { lines: made, from, to }));
        }
    }
    for from in s.full + 1..(s.full + WINDOW).min(s.order.len()) {
        let g = s.order[from] as usize;
        let ready = d.before.of(g).iter().map(|&x| position[x as usize] as usize + 1).max().unwrap_or(0);
        let end = s.start.get(from + 1).copied().unwrap_or(u32::MAX);
        let freed = lines(d.reads.of(g), &|r| s.live.first[r] <= at && s.live.end[r] <= end);
        if ready <= s.full && freed > 0 {
            found.extend([s.full, ready].map(|to| LocalMove { lines: freed, from, to }));
        }
    }
    found.sort_by_key(|m: &LocalMove| (Reverse(m.lines), m.from.abs_diff(s.full), m.from, m.to));
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Builder, DType};
    use crate::sched::lower::lower;
    use crate::sched::tests::code::Code;

    /// Right behind the fullest group is right behind what the last group reads here: one move, not two.
    #[test]
    fn each_move_is_tried_once() {
        let g = Builder::new("g");
        let a = g.input("x", [64], DType::F32).exp();
        g.output("sum", g.input("large", [1024], DType::F32).exp().sum(..));
        g.output("y", a.exp());
        let code = lower(g.finish([]).unwrap().view(), 1).unwrap().code;
        assert_eq!(code.groups(), 4);
        let state = start_state(&code, vec![0, 1, 2, 3]).unwrap();
        let moves = possible_moves(&code, &Deps::new(&code), &state);
        let ends: Vec<(usize, usize)> = moves.iter().map(|m| (m.from, m.to)).collect();
        assert_eq!((state.full, ends), (1, vec![(0, 1), (0, 2), (3, 1)]));
    }

    /// Groups before the fullest one move if they make what is alive there and is needed later. Groups behind it move
    /// if they end the life of what is alive there. What takes away the most lines is tried first.
    #[test]
    fn what_is_alive_in_the_fullest_group_moves_out_of_it() {
        let mut c = Code::new();
        let (x, next) = (c.input(1), c.next(1));
        let (a, h, t, b, long, unread) = (c.made(3), c.made(1), c.scratch(1), c.made(2), c.made(2), c.made(1));
        let (f, k, dead, early) = (c.made(1), c.made(1), c.made(1), c.output(1));
        let (s, e) = (c.scratch(8), c.made(1));
        let y = [(); 5].map(|()| c.output(1));
        c.group(&[x], &[a, h]);
        // In two instructions, so positions of groups and of instructions differ.
        c.push(&[x], &[t], &[]);
        c.push(&[t], &[b], &[]);
        c.close();
        c.group(&[b], &[long, unread]);
        c.group(&[x], &[next]); // made in its leaf
        c.group(&[x], &[f]); // needed by the fullest
        c.group(&[x], &[k, dead, early]);
        c.group(&[f], &[s, e]); // the fullest
        c.group(&[e], &[y[0]]); // needs what the fullest makes
        c.group(&[a, h], &[y[1]]); // `h` lives on
        c.group(&[long, h], &[y[2]]);
        c.group(&[k], &[y[3]]);
        c.group(&[x], &[y[4]]); // frees nothing
        let state = start_state(&c.0, (0..12).collect()).unwrap();
        // The leaves, `a`, `h`, `long`, `f`, `k`, `early`, and the fullest's own results.
        assert_eq!((state.cost, state.full), ((2 + 3 + 1 + 2 + 1 + 1 + 1 + 8 + 1, 1), 6));
        let moves = possible_moves(&c.0, &Deps::new(&c.0), &state);
        let lines: Vec<u64> = moves.iter().map(|m| m.lines).collect();
        assert_eq!(lines, [4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 1]);
        let ends: Vec<(usize, usize)> = moves.iter().map(|m| (m.from, m.to)).collect();
        let first = [(0, 6), (0, 7), (8, 1), (8, 6), (9, 3), (9, 6)];
        let second = [(5, 6), (5, 9), (2, 6), (2, 8), (10, 6)];
        assert_eq!(ends, [&first[..], &second[..]].concat());
    }

    /// Two values that wait while a third group needs many lines, and `fillers` groups without operands.
    fn two_that_wait(fillers: usize) -> Code {
        let mut c = Code::new();
        let (x, a, b, s) = (c.input(1), c.made(4), c.made(4), c.scratch(9));
        let y = [(); 3].map(|()| c.output(1));
        c.group(&[x], &[a]);
        c.group(&[x], &[b]);
        c.group(&[x], &[s, y[0]]);
        c.group(&[a], &[y[1]]);
        c.group(&[b], &[y[2]]);
        (0..fillers).for_each(|_| c.group(&[], &[]));
        c
    }

    fn improved(c: &Code, bound: u64) -> Vec<u32> {
        let program: Vec<u32> = (0..c.0.groups() as u32).collect();
        improve_by_moves(&c.0, &Deps::new(&c.0), &program, bound).unwrap()
    }

    /// 19 lines at first, 15 behind one move, 11 behind two.
    #[test]
    fn moves_end_at_the_bound() {
        let c = two_that_wait(0);
        let orders = [19, 18, 15, 14, 0].map(|bound| improved(&c, bound));
        let (one, two) = ([0, 2, 1, 3, 4], [2, 0, 1, 3, 4]);
        assert_eq!(orders, [[0, 1, 2, 3, 4], one, one, two, two]);
        assert_eq!(improved(&Code::new(), 0), [0; 0]);
    }

    /// In a program of more than half as many groups as may be scored, one order is.
    #[test]
    fn moves_end_where_the_budget_is_spent() {
        assert_eq!(improved(&two_that_wait(BUDGET / 2), 0)[..6], [0, 2, 1, 3, 4, 5]);
        // None is scored here.
        assert_eq!(improved(&two_that_wait(BUDGET), 0)[..6], [0, 1, 2, 3, 4, 5]);
    }

    /// A move that only changes where the peak is does not help.
    #[test]
    fn a_move_must_lower_the_peak() {
        let mut c = Code::new();
        let (x, a, s) = (c.input(1), c.made(1), c.scratch(3));
        let (t, y, z) = (c.scratch(3), c.output(2), c.output(1));
        c.group(&[x], &[a, s]);
        c.group(&[x], &[t, y]);
        c.group(&[a], &[z]);
        assert_eq!(improved(&c, 0), [0, 1, 2]);
    }
}
