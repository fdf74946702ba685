//! Areas: where the buffers of one graph lie in an arena that several graphs share.
//!
//! The arena has three areas: the *leaves*, which are the params and states of all graphs; for each graph its *own*
//! inputs, constants and outputs, which no other graph touches; and one *workspace* for the activations of whichever
//! graph runs. [`Areas`] divides the buffers of a plan; [`Areas::place`] gives them their offsets in the shared
//! arena and has the plan proved again, with the bytes of the other graphs as [`foreign`](Plan::foreign) bytes.

use super::alias::Alias;
use super::buf_kind::BufKind;
use super::checker::check_plan;
use super::instructions::Instructions;
use super::intervals::Intervals;
use super::pack::lines;
use super::plan::Plan;
use super::planner::Scheduled;
use super::schedule::widen_buffers;
use crate::arena::tensor::LINE;
use crate::clock::Instant;
use crate::error::{Error, Kind, Result};
use std::ops::Range;

/// An area of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Area {
    /// Params and states.
    Leaves,
    /// Inputs, constants and outputs.
    Own,
    /// All else.
    Workspace,
}

/// The buffers of a plan, divided among areas.
pub struct Areas {
    /// Of the root of each class.
    area: Vec<Area>,
    /// First line of each root in its area; not used for leaves.
    at: Vec<u64>,
    /// Lines of the graph's own area.
    pub own: u64,
    /// Lines of the workspace.
    pub workspace: u64,
}

/// Where the areas of one graph lie in the shared arena, in lines.
pub struct Frame<'a> {
    /// First line of each param and state of the graph, by buffer.
    pub leaves: &'a [(u32, u64)],
    /// First line of the graph's own area.
    pub own: u64,
    /// First line of the workspace. All leaves and own areas lie before it.
    pub workspace: u64,
    /// Lines of the whole arena.
    pub lines: u64,
}

impl Areas {
    /// Divides the buffers of `s`. With `red_zones`, a line behind each buffer of the workspace stays free; a line
    /// behind each output always does.
    pub fn new(s: &Scheduled, red_zones: bool) -> Result<Areas> {
        let code = &s.plan.code;
        let area = area_of_each_root(code, &s.alias);
        let mut rest: Intervals = s.live.clone();
        let (mut at, mut own) = (vec![0; area.len()], 0);
        for b in (0..area.len()).filter(|&b| area[b] != Area::Workspace) {
            let lines = u64::from(std::mem::take(&mut rest.lines[b]));
            if area[b] == Area::Own {
                at[b] = own;
                own += lines + u64::from(!code.kind[b].is_pinned() && lines > 0);
            }
        }
        let packed = if red_zones { lines::pack_lines(&widen_buffers(&rest)) } else { lines::pack_lines(&rest) }?;
        for b in (0..area.len()).filter(|&b| area[b] == Area::Workspace) {
            at[b] = packed.at[b];
        }
        Ok(Areas { area, at, own, workspace: packed.height })
    }

    /// The plan of `s` in a shared arena, proved anew. `s` must be what `self` was made from. Errors (kind `Plan`): the
    /// arena is too large; the proof fails.
    pub fn place(&self, s: Scheduled, frame: &Frame<'_>) -> Result<Scheduled> {
        let start = Instant::now();
        let Scheduled { plan, live, alias, slices, bound, order_bound, order, mut phases, mut placements } = s;
        let too_large = || {
            let text = format!("{} lines of memory do not fit the arena's offsets", frame.lines);
            Error::new(Kind::Plan, text)
        };
        if frame.lines > u64::from(u32::MAX) {
            return Err(too_large());
        }
        let bytes = usize::try_from(frame.lines * LINE as u64).map_err(|_| too_large())?;
        let mut at = self.at.clone();
        for &(b, line) in frame.leaves {
            at[b as usize] = line;
        }
        let offset = |b: usize| {
            let root = alias.class[b] as usize;
            let base = match self.area[root] {
                Area::Leaves => 0,
                Area::Own => frame.own,
                Area::Workspace => frame.workspace,
            };
            (base + at[root]) as usize * LINE
        };
        let offset: Vec<usize> = (0..plan.code.bytes.len()).map(offset).collect();
        if let Some(own) = placements.last_mut() {
            (own.lines, own.end) = (offset.iter().map(|at| (at / LINE) as u32).collect(), frame.lines as u32);
        }
        let foreign = self.foreign(&live, frame);
        let plan = check_plan(Plan { offset, bytes, foreign, ..plan.into_plan() })?;
        phases.retain(|p| p.0 != "areas");
        phases.push(("areas", start.elapsed()));
        Ok(Scheduled { plan, live, alias, slices, bound, order_bound, order, phases, placements })
    }

    /// The bytes before the workspace that are neither in a leaf of the graph nor in its own area.
    fn foreign(&self, live: &Intervals, frame: &Frame<'_>) -> Vec<Range<usize>> {
        let leaf = |&(b, line): &(u32, u64)| line..line + u64::from(live.lines[b as usize]);
        let mut mine: Vec<Range<u64>> = frame.leaves.iter().map(leaf).collect();
        mine.push(frame.own..frame.own + self.own);
        mine.sort_by_key(|r| (r.start, r.end));
        let (mut foreign, mut at) = (Vec::new(), 0);
        for r in mine.into_iter().chain(std::iter::once(frame.workspace..frame.workspace)) {
            if at < r.start {
                foreign.push(at as usize * LINE..r.start as usize * LINE);
            }
            at = at.max(r.end);
        }
        foreign
    }
}

/// The bytes of inputs, constants and outputs: what other plans in the same arena must keep.
pub fn own_bytes(plan: &Plan) -> Vec<Range<usize>> {
    let code = &plan.code;
    let kept = |b: &usize| matches!(code.kind[*b], BufKind::Input | BufKind::Constant);
    let buffers = (0..code.bytes.len()).filter(kept).chain(code.outputs.iter().map(|o| o.buf as usize));
    buffers.map(|b| plan.offset[b]..plan.offset[b] + code.bytes[b]).filter(|r| !r.is_empty()).collect()
}

/// `s`, proved anew not to touch `foreign`, which other plans in the same arena keep.
pub fn prove_beside(s: Scheduled, foreign: Vec<Range<usize>>) -> Result<Scheduled> {
    let plan = check_plan(Plan { foreign: join_ranges(foreign), ..s.plan.into_plan() })?;
    Ok(Scheduled { plan, ..s })
}

/// The same bytes as few ranges, by rising start. Empty ranges are left out.
pub(super) fn join_ranges(mut all: Vec<Range<usize>>) -> Vec<Range<usize>> {
    all.retain(|r| !r.is_empty());
    all.sort_by_key(|r| (r.start, r.end));
    all.dedup_by(|r, last| {
        let met = r.start <= last.end;
        last.end = if met { last.end.max(r.end) } else { last.end };
        met
    });
    all
}

/// The area of each root.
fn area_of_each_root(code: &Instructions, alias: &Alias) -> Vec<Area> {
    let of = |kind: &BufKind| match kind {
        BufKind::Param | BufKind::State => Area::Leaves,
        BufKind::Input | BufKind::Constant => Area::Own,
        BufKind::Output | BufKind::Activation | BufKind::Scratch => Area::Workspace,
    };
    let mut area: Vec<Area> = code.kind.iter().map(of).collect();
    for b in (0..area.len()).filter(|&b| code.kind[b] == BufKind::Output) {
        let root = &mut area[alias.class[b] as usize];
        if *root == Area::Workspace {
            *root = Area::Own;
        }
    }
    area
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Builder, DType, Init};
    use crate::sched::schedule;
    use crate::sched::tests::ops::{ADD, FRESH, one};

    #[test]
    fn an_arena_has_as_many_lines_as_an_offset_can_count() {
        let g = Builder::new("g");
        let y = g.input("x", [64], DType::F32).exp().named("y");
        let graph = g.finish([y]).unwrap();
        let place = |lines: u64| {
            let s = schedule(graph.view(), 1).unwrap();
            let areas = Areas::new(&s, false).unwrap();
            let frame = Frame { leaves: &[], own: 0, workspace: lines - areas.workspace, lines };
            areas.place(s, &frame).map(|s| s.plan.bytes).map_err(|e| e.message)
        };
        let most = u64::from(u32::MAX);
        assert_eq!(place(most), Ok(most as usize * LINE));
        let told = "4294967296 lines of memory do not fit the arena's offsets";
        assert_eq!(place(most + 1), Err(told.to_string()));
    }

    /// A line behind each output that is not empty stays free, and with red zones one behind what is in the workspace.
    #[test]
    fn each_buffer_lies_in_its_area() {
        let g = Builder::new("g");
        let input = |name: &str, n: usize| g.input(name, [n], DType::F32);
        let (x, e, s) = (input("x", 64), input("e", 0), input("s", 1));
        let (_w, _v) = (g.param("w", [64], DType::F32, Init::Ones), g.state("v", [16], DType::F32, Init::Zeros));
        let c = g.constant(&[1.0; 64], [64]);
        let a = one(&g, &FRESH, &[x]);
        // Made in the bytes of an activation.
        g.output("y", one(&g, &ADD, &[one(&g, &FRESH, &[a]), c]));
        g.output("small", one(&g, &FRESH, &[s]));
        g.output("none", one(&g, &FRESH, &[e]));
        let plan = schedule(g.finish([]).unwrap().view(), 1).unwrap();
        let zones = Areas::new(&plan, true).unwrap();
        assert_eq!((zones.own, zones.workspace), (16, 5));
        let areas = Areas::new(&plan, false).unwrap();
        assert_eq!((areas.own, areas.workspace), (16, 4));
        let frame = Frame { leaves: &[(4, 34), (3, 30)], own: 10, workspace: 40, lines: 44 };
        let placed = areas.place(plan, &frame).unwrap();
        // x, e, s, w, v, c, a, the value before y, y, small, none.
        let lines = [10, 14, 14, 30, 34, 15, 40, 19, 19, 24, 26];
        assert_eq!(placed.plan.offset, lines.map(|line| line * LINE));
        assert_eq!(placed.plan.bytes, 44 * LINE);
        let others = [(0, 10), (26, 30), (35, 40)].map(|(from, to)| from * LINE..to * LINE);
        assert_eq!(placed.plan.foreign, others);
        // Placed again, the phase is told once.
        let placed = areas.place(placed, &frame).unwrap();
        let phases: Vec<&str> = placed.phases.iter().map(|p| p.0).collect();
        assert_eq!(phases, ["lower", "order", "pack", "check", "areas"]);
    }
}
