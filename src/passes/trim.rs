//! Dead code elimination for loops and choices: drops results without a reader, carries on which no result depends, and
//! the operands that only these read.
//!
//! A carry stays if its final value is read, if it ends the loop, or if a value that stays reads it in the next
//! iteration. A choice captures what either branch reads for the results that are read. A loop or a choice inside
//! another reads only the operands that its own live results need, so one run trims all depths.

use super::rebuild::{RebuildVisit, nodes_that_stay, rebuild};
use super::simplify::Hits;
use crate::arena::{Node, Region, Side, Value, Window, ids::Id};
use crate::error::Result;
use crate::kernels::abi::DEPTH;
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::{Graph, Op, Ty, Var};
use bumpalo::Bump;
use hashbrown::HashMap;
use std::cell::OnceCell;
use std::rc::Rc;

/// Drops the unused parts of the loops and choices of `g`. Counts those that become smaller in `hits`.
pub fn trim<'b>(g: Graph<'_>, bump: &'b Bump, hits: &mut Hits) -> Result<Graph<'b>> {
    let mut trim = Trim::new(g);
    let read = trim.outermost();
    rebuild(g, bump, &mut |v| {
        let part = trim.part(v.node, read.get(&v.node)?);
        let args: Vec<Value> = v.args.iter().map(|a| a.v).collect();
        let outs = part.changes.then(|| trim.write(v, v.node, &part, &args, hits))?;
        Some(outs.into_iter().map(|o| v.g.var(o)).collect::<Vec<Var<'_>>>())
    })
}

/// The parts of a loop or a choice that stay.
struct Part {
    /// By result, and by yield of each region.
    outs: Vec<bool>,
    /// By operand.
    args: Vec<bool>,
    /// The regions, each with its live values.
    regions: Vec<(Region, Window<Value, bool>)>,
    /// True if the node or one in its regions becomes smaller.
    changes: bool,
    /// The regions in the new graph.
    written: OnceCell<Vec<Region>>,
}

impl Part {
    /// By argument of each region, for a node with `first` operands that its regions do not take.
    fn region_args(&self, first: usize) -> &[bool] {
        &self.args[first..]
    }

    fn becomes_smaller(&self) -> bool {
        self.outs.iter().chain(&self.args).any(|kept| !kept)
    }
}

/// What is known of the loops and choices of a graph.
struct Trim<'x> {
    g: Graph<'x>,
    /// By region: the levels of loops and choices in it.
    levels: Side<Region, usize>,
    /// The operands on which a result of a node depends, or with `None` all of them.
    needs: HashMap<(Node, Option<usize>), Rc<[bool]>>,
    /// By node and its live results.
    parts: HashMap<(Node, Vec<bool>), Rc<Part>>,
}

impl<'x> Trim<'x> {
    fn new(g: Graph<'x>) -> Trim<'x> {
        let mut levels = Side::filled(g.regions(), 0);
        for r in (0..g.regions()).map(Region::new) {
            let inner = g.region_nodes(r).flat_map(|n| loop_or_choice_regions(g, n)).map(|inner| levels[inner] + 1);
            levels[r] = inner.max().unwrap_or(0);
        }
        Trim { g, levels, needs: HashMap::new(), parts: HashMap::new() }
    }

    /// True if `n` is a loop or a choice. One with more levels inside than a plan may have is like any other node.
    fn is_trimmed(&self, n: Node) -> bool {
        let mut regions = loop_or_choice_regions(self.g, n).peekable();
        regions.peek().is_some() && regions.all(|r| self.levels[r] < DEPTH)
    }

    /// The operands of node `n` that its region's arguments do not mirror: the predicate of a choice.
    fn first_captured(&self, n: Node) -> usize {
        usize::from(matches!(self.g.def_of(n).lower, Lower::Choice))
    }

    /// The loops and choices that stand in no other, with their live results.
    fn outermost(&mut self) -> HashMap<Node, Vec<bool>> {
        let g = self.g;
        let nodes = nodes_that_stay(g);
        let mut whole = Side::<Region, bool>::filled(g.regions(), false);
        whole[g.entry()] = true;
        for n in (0..g.nodes()).map(Node::new).filter(|&n| nodes[n] && !self.is_trimmed(n)) {
            for (_, a) in g.attrs(n).iter() {
                if let Attr::Region(r) = a.as_attr() {
                    whole[r] = true;
                }
            }
        }
        let mut read = HashMap::new();
        for r in (0..g.regions()).map(Region::new).filter(|&r| whole[r]) {
            let mut live = Window::filled(g.region_values(r), false);
            g.region_yields(r).iter().for_each(|&y| live[y] = true);
            if r == g.entry() {
                g.updates.iter().for_each(|u| live[u.1] = true);
            }
            self.spread(r, &mut live);
            for n in g.region_nodes(r).filter(|&n| self.is_trimmed(n)) {
                let outs: Vec<bool> = g.outs_of(n).map(|o| live[o]).collect();
                if outs.contains(&true) {
                    read.insert(n, outs);
                }
            }
        }
        read
    }

    /// Marks in `live` what the values of region `r` that are marked depend on.
    fn spread(&mut self, r: Region, live: &mut Window<Value, bool>) {
        let g = self.g;
        for n in g.region_nodes(r).rev().filter(|&n| !g.def_of(n).is_leaf()) {
            let outs: Vec<Option<usize>> = g.outs_of(n).enumerate().filter(|o| live[o.1]).map(|o| Some(o.0)).collect();
            if self.is_trimmed(n) {
                let results = if outs.len() == g.outs_of(n).len() { vec![None] } else { outs };
                for which in results {
                    let needs = self.needs(n, which);
                    g.args_of(n).iter().zip(&*needs).filter(|a| *a.1).for_each(|a| live[*a.0] = true);
                }
            } else if !outs.is_empty() || !g.def_of(n).is_pure() {
                g.args_of(n).iter().for_each(|&a| live[a] = true);
            }
        }
    }

    /// The operands on which result `which` of the loop or choice `n` depends; with `None`, all of its results.
    fn needs(&mut self, n: Node, which: Option<usize>) -> Rc<[bool]> {
        if let Some(known) = self.needs.get(&(n, which)) {
            return known.clone();
        }
        let outs = (0..self.g.outs_of(n).len()).map(|o| which.is_none_or(|i| i == o)).collect();
        let needs: Rc<[bool]> = Rc::from(self.kept(n, outs).args);
        self.needs.insert((n, which), needs.clone());
        needs
    }

    /// What stays of the loop or choice `n` for the results `outs`.
    fn kept(&mut self, n: Node, mut outs: Vec<bool>) -> Part {
        let g = self.g;
        let (carries, exit) = match g.def_of(n).lower {
            Lower::Loop => {
                let scan = Scan::of(&g.attrs(n));
                (scan.carries, scan.exit_operand())
            }
            _ => (0, Some(0)),
        };
        if let Some(flag) = exit.filter(|&i| i < carries) {
            outs[flag] = true;
        }
        let first = self.first_captured(n);
        loop {
            let regions: Vec<_> = loop_or_choice_regions(g, n).map(|r| (r, self.live(r, &outs))).collect();
            let reads = |i: usize| regions.iter().any(|(r, live)| g.region_args(*r).nth(i).is_some_and(|a| live[a]));
            let more: Vec<usize> = (0..carries).filter(|&i| !outs[i] && reads(i)).collect();
            if more.is_empty() {
                // The body may not read a carry whose final value is read.
                let stays = |i: usize| exit == Some(i) || if i < carries { outs[i] } else { reads(i - first) };
                let args = (0..g.args_of(n).len()).map(stays).collect();
                return Part { outs, args, regions, changes: false, written: OnceCell::new() };
            }
            more.into_iter().for_each(|i| outs[i] = true);
        }
    }

    /// The values of region `r` on which those of its yields depend that are true in `yields`.
    fn live(&mut self, r: Region, yields: &[bool]) -> Window<Value, bool> {
        let mut live = Window::filled(self.g.region_values(r), false);
        self.g.region_yields(r).iter().zip(yields).filter(|y| *y.1).for_each(|(&y, _)| live[y] = true);
        self.spread(r, &mut live);
        live
    }

    /// What stays of the loop or choice `n` for the results `outs`, of which one is true.
    fn part(&mut self, n: Node, outs: &[bool]) -> Rc<Part> {
        let key = (n, outs.to_vec());
        if let Some(known) = self.parts.get(&key) {
            return known.clone();
        }
        let (g, mut part) = (self.g, self.kept(n, outs.to_vec()));
        part.changes = part.becomes_smaller();
        for (r, live) in &part.regions {
            for inner in g.region_nodes(*r).filter(|&inner| self.is_trimmed(inner)).collect::<Vec<_>>() {
                let outs: Vec<bool> = g.outs_of(inner).map(|o| live[o]).collect();
                part.changes |= outs.contains(&true) && self.part(inner, &outs).changes;
            }
        }
        let part = Rc::new(part);
        self.parts.insert(key, part.clone());
        part
    }

    /// Writes `part` of node `n` with operands `args`. Its results; dropped ones are [`Value::NONE`].
    fn write(&mut self, v: &RebuildVisit<'_, '_>, n: Node, part: &Part, args: &[Value], hits: &mut Hits) -> Vec<Value> {
        let src = self.g;
        let is_loop = matches!(src.def_of(n).lower, Lower::Loop);
        if part.becomes_smaller() {
            *hits.entry(if is_loop { "loop-trim" } else { "choice-trim" }).or_default() += 1;
        }
        let first = self.first_captured(n);
        if part.written.get().is_none() {
            let write = |(r, live): &_| self.write_region(v, *r, (part.region_args(first), &part.outs), live, hits);
            let _ = part.written.set(part.regions.iter().map(write).collect());
        }
        let regions = part.written.get().map_or(&[][..], |w| w);
        let args: Vec<Value> = args.iter().zip(&part.args).filter(|a| *a.1).map(|a| *a.0).collect();
        let mut outs = v.g.with(|e| {
            e.set_loc(src.loc[n.at()]);
            match *regions {
                [body] if is_loop => {
                    let scan = Scan::of(&src.attrs(n));
                    let count = |r: std::ops::Range<usize>| part.args[r].iter().filter(|k| **k).count();
                    let attrs = scan.over(body, count(0..scan.carries), count(scan.carries..scan.xs()));
                    e.emit(Op::SCAN, &args, &attrs.list())
                }
                [then, otherwise] => e.emit(Op::IF, &args, &IfAttrs { then, otherwise }.list()),
                _ => e.emit(src.op[n.at()], &args, &[]),
            }
            .iter()
            .collect::<Vec<Value>>()
            .into_iter()
        });
        part.outs.iter().map(|kept| kept.then(|| outs.next()).flatten().unwrap_or(Value::NONE)).collect()
    }

    /// Writes region `r` with the arguments and yields that are true in `args` and `yields`, and the nodes of `live`
    /// values. The new region.
    fn write_region(
        &mut self,
        v: &RebuildVisit<'_, '_>,
        r: Region,
        (args, yields): (&[bool], &[bool]),
        live: &Window<Value, bool>,
        hits: &mut Hits,
    ) -> Region {
        let (src, g) = (self.g, v.g);
        let kept: Vec<Value> = src.region_args(r).zip(args).filter(|a| *a.1).map(|a| a.0).collect();
        let tys: Vec<Ty> = kept.iter().map(|&a| src.ty(a)).collect();
        let body = g.region(src.str(src.region_names[r.at()]), &tys, |args| {
            let mut map = Window::filled(src.region_values(r), Value::NONE);
            kept.iter().zip(args).for_each(|(&a, x)| map[a] = x.v);
            for n in src.region_nodes(r).filter(|&n| src.op[n.at()] != Op::ARG) {
                let outs: Vec<bool> = src.outs_of(n).map(|o| live[o]).collect();
                if !outs.contains(&true) && src.def_of(n).is_pure() {
                    continue;
                }
                let args: Vec<Value> = src.args_of(n).iter().map(|&a| map[a]).collect();
                let part = self.is_trimmed(n).then(|| self.part(n, &outs)).filter(|part| part.changes);
                let new: Vec<Value> = match part {
                    Some(part) => self.write(v, n, &part, &args, hits),
                    None => g.with(|e| {
                        e.set_loc(src.loc[n.at()]);
                        e.copy(&src, n, &args, v.regions).iter().collect()
                    }),
                };
                for (o, new) in src.outs_of(n).zip(new) {
                    map[o] = new;
                    if new.is_some() && src.names[o.at()].is_some() {
                        g.with(|e| e.set_name(new, src.names[o.at()]));
                    }
                }
            }
            let kept = src.region_yields(r).iter().zip(yields).filter(|y| *y.1);
            kept.map(|(&y, _)| g.var(map[y])).collect()
        });
        body.region
    }
}

/// The regions of `n`, if it is a loop or a choice.
fn loop_or_choice_regions(g: Graph<'_>, n: Node) -> impl Iterator<Item = Region> {
    let regions = match g.def_of(n).lower {
        Lower::Loop => [Some(Scan::of(&g.attrs(n)).body), None],
        Lower::Choice => {
            let IfAttrs { then, otherwise } = IfAttrs::of(&g.attrs(n));
            [Some(then), Some(otherwise)]
        }
        _ => [None, None],
    };
    regions.into_iter().flatten()
}
