//! Branch and bound over packings in which each buffer rests on offset 0 or on another buffer.
//!
//! A node decides whether one buffer is at its lowest possible offset. If it is, the lower bounds of its neighbours
//! rise. If not, it will rest on a neighbour that is not placed yet, and its own lower bound rises. After either,
//! `floor + total` of each section must be within the cap. The buffer is chosen in a valley of the floors, where these
//! two branches cover all packings (see [`branching`](super::branching)). Ranges of sections that no unplaced buffer
//! connects are solved one by one.
//!
//! The search does not recurse. Every change of the state goes to a *trail*, from which it is undone. A *goal* is a
//! range of sections that is still to be solved; goals are a linked list.

use super::branching::Choice;
use super::height::Height;
use super::search_state::{NONE, SearchState};

/// The result of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A packing: the offset of each buffer of the part, in units.
    Found(Vec<u64>),
    /// No packing has the height of the cap or less.
    Refuted,
    /// The budget of nodes ran out.
    Limit,
}

/// A range of sections to solve, as an item of a linked list.
#[derive(Clone, Copy)]
struct Goal {
    low: u32,
    high: u32,
    /// The frame whose decision led here; a failure goes back to it.
    cause: u32,
    /// The next goal, or [`NONE`].
    next: u32,
}

/// A buffer that was placed and may still be postponed.
#[derive(Clone, Copy)]
struct Frame {
    buffer: u32,
    /// The goal that it was chosen for.
    goal: u32,
    /// Number of goals before it was placed.
    goals: u32,
    /// Number of changes before it was placed.
    trail: u32,
}

/// Searches for a packing of `state` at its cap, with at most `limit` nodes; adds the nodes that it uses to `nodes`.
pub fn search<H: Height>(state: &mut SearchState<H>, choice: Choice, limit: u64, nodes: &mut u64) -> Outcome {
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
        let candidate = match split_goal(state, goal, &mut goals) {
            Split::Into(first) => {
                top = first;
                continue;
            }
            Split::Whole => state.branch_candidate(goal.low, goal.high, choice),
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
        if !ok && !backtrack_to_branch(state, &mut goals, &mut frames, &mut top) {
            return Outcome::Refuted;
        }
    }
}

/// Goes back to the last decision that the failed goal depends on and that has a branch left. False if there is none.
fn backtrack_to_branch<H: Height>(
    state: &mut SearchState<H>,
    goals: &mut Vec<Goal>,
    frames: &mut Vec<Frame>,
    top: &mut u32,
) -> bool {
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

/// What [`split_goal`] did.
enum Split {
    /// The goal is one connected range.
    Whole,
    /// The goal was replaced by the list that starts here.
    Into(u32),
}

/// Replaces a goal by its connected ranges that have unplaced buffers, unless it is one such range itself.
fn split_goal<H: Height>(state: &SearchState<H>, goal: Goal, goals: &mut Vec<Goal>) -> Split {
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
