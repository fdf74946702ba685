//! Branch and bound over packings in which each buffer rests on the floor or on another one.
//!
//! A node asks of one buffer whether it lies at the lowest place that is left for it. Yes raises its neighbours; no
//! means that it will rest on a neighbour that is not placed yet, which raises itself. Each section then needs
//! `floor + total <= cap`. The buffer is asked for in a valley of the floors, where nothing can slip below it, so that
//! the two answers are all there is; and in the valley's section that leaves the fewest answers. Ranges of sections
//! that no unplaced buffer connects are solved one by one.
//!
//! There is no recursion and no allocation in a node: changes go to one trail, goals to a persistent list.

use super::branching::Choice;
use super::height::Height;
use super::state::{NONE, State};

/// What a search came to.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// First unit of each buffer of the part.
    Found(Vec<u64>),
    /// No packing fits below the cap.
    Refuted,
    /// The budget of nodes ran out.
    Limit,
}

/// A range of sections to solve, and the rest of them.
#[derive(Clone, Copy)]
struct Goal {
    low: u32,
    high: u32,
    /// The frame whose decision led here: what a failure goes back to.
    cause: u32,
    next: u32,
}

/// A buffer that was placed and may yet be postponed.
#[derive(Clone, Copy)]
struct Frame {
    buffer: u32,
    goal: u32,
    goals: u32,
    trail: u32,
}

/// Looks for a packing of `state` at its cap, in at most `limit` nodes; adds the nodes to `nodes`.
pub fn search<H: Height>(state: &mut State<H>, choice: Choice, limit: u64, nodes: &mut u64) -> Outcome {
    if !state.sound() {
        return Outcome::Refuted;
    }
    let mut goals = vec![Goal { low: 0, high: state.sections, cause: NONE, next: NONE }];
    let mut frames: Vec<Frame> = Vec::new();
    let mut top = 0u32;
    let mut left = limit;
    loop {
        if top == NONE {
            return Outcome::Found(state.offsets());
        }
        let goal = goals[top as usize];
        let candidate = match split(state, goal, &mut goals) {
            Split::Into(first) => {
                top = first;
                continue;
            }
            Split::Whole => state.candidate(goal.low, goal.high, choice),
        };
        let ok = match candidate {
            None => false,
            Some(c) => {
                if left == 0 {
                    return Outcome::Limit;
                }
                (left, *nodes) = (left - 1, *nodes + 1);
                frames.push(Frame { buffer: c, goal: top, goals: goals.len() as u32, trail: state.mark() });
                // The goal again, with this decision as the cause of what follows.
                goals.push(Goal { cause: frames.len() as u32 - 1, ..goal });
                top = goals.len() as u32 - 1;
                state.place(c)
            }
        };
        if !ok && !back(state, &mut goals, &mut frames, &mut top) {
            return Outcome::Refuted;
        }
    }
}

/// Goes back to the last decision that the failed goal depends on and that has an answer left. False if there is none.
fn back<H: Height>(state: &mut State<H>, goals: &mut Vec<Goal>, frames: &mut Vec<Frame>, top: &mut u32) -> bool {
    loop {
        let cause = goals[*top as usize].cause;
        if cause == NONE {
            return false;
        }
        let f = frames[cause as usize];
        frames.truncate(cause as usize);
        goals.truncate(f.goals as usize);
        state.undo(f.trail);
        *top = f.goal;
        if state.postpone(f.buffer) {
            return true;
        }
    }
}

enum Split {
    /// The goal is one connected range.
    Whole,
    /// It was replaced by this list.
    Into(u32),
}

/// Replaces a goal by those of its ranges that hold unplaced buffers, unless it is one such range itself.
fn split<H: Height>(state: &State<H>, goal: Goal, goals: &mut Vec<Goal>) -> Split {
    let (from, to) = (goal.low as usize, goal.high as usize);
    if !state.cuts[from + 1..to].contains(&0) && state.total[from] > H::ZERO {
        return Split::Whole;
    }
    let (mut first, mut low) = (goal.next, goal.low);
    for s in goal.low + 1..=goal.high {
        if s < goal.high && state.cuts[s as usize] > 0 {
            continue;
        }
        if state.total[low as usize] > H::ZERO {
            goals.push(Goal { low, high: s, cause: goal.cause, next: first });
            first = goals.len() as u32 - 1;
        }
        low = s;
    }
    Split::Into(first)
}
