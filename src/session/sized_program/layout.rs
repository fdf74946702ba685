//! Where the parts of a sized program's arena lie.
//!
//! ```text
//! [ params, states | own areas of the kept plans, and gaps | workspace ]
//! ```
//!
//! Invariant: own areas are disjoint, behind the leaves and before the workspace. A plan keeps its place until
//! [`Layout::version`] changes, so a new plan usually moves nothing: it takes a gap, and the workspace, which is last,
//! becomes longer.

use crate::sched::areas::{Areas, Frame};
use std::ops::Range;

/// The places, in lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// Lines of params and states.
    pub leaves: u64,
    /// First line of the workspace.
    pub workspace: u64,
    /// Lines of the arena.
    pub lines: u64,
    /// Plans that were placed under another version must be placed again.
    pub version: u64,
}

/// Lines that a plan takes.
#[derive(Clone, Debug, PartialEq)]
pub struct LayoutPlanLines {
    /// Its own area; before the plan is placed, only the length counts.
    pub own: Range<u64>,
    /// Lines of its workspace.
    pub workspace: u64,
}

impl LayoutPlanLines {
    fn own_lines(&self) -> u64 {
        self.own.end.saturating_sub(self.own.start)
    }
}

/// A layout with places for all plans.
pub struct Placed {
    pub layout: Layout,
    /// The own area of each kept plan, and last that of the new one.
    pub own: Vec<Range<u64>>,
}

impl LayoutPlanLines {
    /// The lines that a plan of these areas takes; its own area has no place yet.
    pub fn of(areas: &Areas) -> LayoutPlanLines {
        LayoutPlanLines { own: 0..areas.own, workspace: areas.workspace }
    }
}

impl Layout {
    /// Where the areas of a plan lie whose params and states have these places, and whose own area begins at `own`.
    pub fn frame<'a>(&self, leaves: &'a [(u32, u64)], own: u64) -> Frame<'a> {
        Frame { leaves, own, workspace: self.workspace, lines: self.lines }
    }

    /// A layout for the `kept` plans and a new one, with `leaves` lines of params and states. If all lines have to be
    /// at most `most`, the plans alone must fit them. Nothing moves if there is a gap for the new plan's own area.
    pub fn with(&self, leaves: u64, kept: &[LayoutPlanLines], new: &LayoutPlanLines, most: Option<u64>) -> Placed {
        let fits = |lines: u64| most.is_none_or(|most| lines <= most);
        let lines = self.lines.max(self.workspace.saturating_add(new.workspace));
        if let Some(at) = self.gap(kept, new.own_lines()).filter(|_| leaves == self.leaves && fits(lines)) {
            let mut own: Vec<Range<u64>> = kept.iter().map(|p| p.own.clone()).collect();
            own.push(at..at + new.own_lines());
            return Placed { layout: Layout { lines, ..self.clone() }, own };
        }
        let (mut own, mut at) = (Vec::new(), leaves);
        for p in kept.iter().chain([new]) {
            let end = at.saturating_add(p.own_lines());
            own.push(at..end);
            at = end;
        }
        let widest = kept.iter().chain([new]).map(|p| p.workspace).max().unwrap_or(0);
        // As much again as a gap, where it is allowed: so own areas move a logarithmic number of times.
        let spare = most.map_or(u64::MAX, |most| most.saturating_sub(at.saturating_add(widest)));
        let workspace = at.saturating_add(spare.min(at - leaves));
        let lines = workspace.saturating_add(widest);
        Placed { layout: Layout { leaves, workspace, lines, version: self.version + 1 }, own }
    }

    /// The first line of the lowest gap of `lines` lines between own areas. `None` before the first plan.
    fn gap(&self, kept: &[LayoutPlanLines], lines: u64) -> Option<u64> {
        if self.version == 0 {
            return None;
        }
        let mut taken: Vec<&Range<u64>> = kept.iter().map(|p| &p.own).collect();
        taken.sort_unstable_by_key(|r| (r.start, r.end));
        let mut at = self.leaves;
        for r in taken {
            if r.start.saturating_sub(at) >= lines {
                return Some(at);
            }
            at = at.max(r.end);
        }
        (self.workspace.saturating_sub(at) >= lines).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(own: Range<u64>, workspace: u64) -> LayoutPlanLines {
        LayoutPlanLines { own, workspace }
    }

    /// Own areas lie between leaves and workspace, and none overlaps another.
    fn check(placed: &Placed) {
        let mut own = placed.own.clone();
        own.sort_by_key(|r| (r.start, r.end));
        assert!(own.iter().all(|r| placed.layout.leaves <= r.start && r.end <= placed.layout.workspace), "{own:?}");
        assert!(own.windows(2).all(|w| w[0].end <= w[1].start), "{own:?}");
    }

    #[test]
    fn a_gap_moves_nothing_and_too_small_a_one_moves_all() {
        let first = Layout::default().with(10, &[], &plan(0..6, 20), None);
        check(&first);
        assert_eq!((first.own[0].clone(), first.layout.version), (10..16, 1));
        assert_eq!((first.layout.workspace, first.layout.lines), (22, 42));
        // Six lines of gap hold a plan of five; its workspace makes the arena longer.
        let kept = [plan(first.own[0].clone(), 20)];
        let second = first.layout.with(10, &kept, &plan(0..5, 30), None);
        check(&second);
        assert_eq!((second.own[1].clone(), second.layout.version, second.layout.lines), (16..21, 1, 52));
        // One line is left.
        let kept = [kept[0].clone(), plan(second.own[1].clone(), 30)];
        let third = second.layout.with(10, &kept, &plan(0..2, 1), None);
        check(&third);
        assert_eq!((third.layout.version, third.layout.workspace, third.layout.lines), (2, 36, 66));
        // The area of a dropped plan is a gap.
        let again = second.layout.with(10, &kept[1..], &plan(0..6, 1), None);
        check(&again);
        assert_eq!((again.own[1].clone(), again.layout.version), (10..16, 1));
        // More leaves move all.
        assert_eq!(second.layout.with(11, &kept, &plan(0..1, 1), None).layout.version, 2);
        // The last line is a gap, too, in whatever order the plans are kept.
        for kept in [kept.clone(), [kept[1].clone(), kept[0].clone()]] {
            let last = second.layout.with(10, &kept, &plan(0..1, 1), None);
            check(&last);
            assert_eq!((last.own[2].clone(), last.layout.version), (21..22, 1));
        }
    }

    #[test]
    fn a_gap_is_taken_if_all_lines_are_within_the_limit() {
        let first = Layout::default().with(10, &[], &plan(0..6, 20), None);
        let kept = [plan(first.own[0].clone(), 20)];
        let version = |most| first.layout.with(10, &kept, &plan(0..5, 30), Some(most)).layout.version;
        assert_eq!([51, 52].map(version), [2, 1]);
        // Before the first plan there is no gap.
        assert_eq!(Layout::default().with(0, &[], &plan(0..0, 5), None).layout.version, 1);
    }

    #[test]
    fn a_limit_is_kept() {
        for most in 30..60 {
            let mut layout = Layout::default();
            let mut kept: Vec<LayoutPlanLines> = Vec::new();
            for (own, workspace) in [(3, 5), (2, 9), (4, 7), (1, 20), (6, 4), (0, 0)] {
                let placed = layout.with(2, &kept, &plan(0..own, workspace), Some(most));
                check(&placed);
                let widest = kept.iter().map(|p| p.workspace).max().unwrap_or(0).max(workspace);
                let least = 2 + own + kept.iter().map(LayoutPlanLines::own_lines).sum::<u64>() + widest;
                assert!(placed.layout.lines <= most || least > most, "{most}: {:?}", placed.layout);
                kept.push(plan(0..own, workspace));
                kept.iter_mut().zip(&placed.own).for_each(|(p, own)| p.own = own.clone());
                layout = placed.layout;
            }
        }
    }
}
