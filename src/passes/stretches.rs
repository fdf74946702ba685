//! Writes a loop in stretches: a loop over stretches of iterations, whose body runs the iterations of one stretch.
//!
//! If the last stretch is shorter, it is an outer loop of its own, with one iteration. The first or the last iterations
//! may run in one plain loop, without stretches. A loop that ends early also ends early when it runs in stretches. If
//! its exit is a flag, the flag ends the stretch, and then the loops over stretches. If its exit is a number of
//! iterations, the number of stretches and the number of iterations of each stretch are computed from it.
//!
//! Invariant: iterations keep their order and their slices, so random numbers and results keep their bits. Two passes
//! write such loops: derivatives of loops that keep few carries ([`super::ad`]) and rematerialisation
//! ([`super::remat`]).

use crate::arena::{Node, Region, Side, Value, ids::Id};
use crate::nodes::ir::opdef::planned_regions;
use crate::nodes::ops::control::scan::{Exit, Scan};
use crate::nodes::{Builder, DType, Graph, Op, Ty, Var};
use std::ops::Range;

/// A loop to write in stretches.
pub struct Stretches<'g> {
    /// The builder.
    pub g: &'g Builder,
    /// The place in the source of the loops that are written.
    pub loc: u32,
    /// The method that wrote the loop.
    pub method: &'static str,
    /// Length and direction, and what ends it early. The number of iterations that it counts is constant 0; it is in
    /// range.
    pub scan: Scan,
    /// Number of iterations of a stretch.
    pub each: usize,
    /// The iterations, at either end, that run without stretches.
    pub plain: Range<usize>,
    /// True if stretches would yield nothing: then only the plain part is written.
    pub plain_alone: bool,
    /// Initial carries.
    pub carries: Vec<Var<'g>>,
    /// Constants of the loop.
    pub consts: Vec<Var<'g>>,
    /// Stacked inputs with a slice for each iteration.
    pub xs: Vec<Var<'g>>,
    /// By part of the loop: further operands of the part, stacked by stretch. The parts are those of
    /// [`StretchResults::rows`].
    pub rows: Vec<Vec<Var<'g>>>,
}

/// The arguments of the body that runs one stretch, or the plain part.
pub struct StretchArgs<'a, 'g> {
    /// Number of iterations.
    pub length: usize,
    /// Whether it runs the plain part, and not a stretch.
    pub plain: bool,
    /// The carries.
    pub carries: &'a [Var<'g>],
    /// Constants of the loop. Constant 0 of a loop that counts its iterations is the number of those of the stretch.
    pub consts: &'a [Var<'g>],
    /// Slices of the stacked inputs, stacked by iteration.
    pub xs: &'a [Var<'g>],
    /// One slice of the part's further operands; the operands themselves in the plain part.
    pub row: &'a [Var<'g>],
}

/// The results of a loop in stretches.
pub struct StretchResults<'g> {
    /// Final carries.
    pub carries: Vec<Var<'g>>,
    /// Stacked results with a slice for each iteration.
    pub ys: Vec<Var<'g>>,
    /// By part of the loop: the results of its stretches, stacked, or those of the plain part.
    pub rows: Vec<Vec<Var<'g>>>,
}

/// What the body that runs one stretch yields.
pub struct StretchYields<'g> {
    /// The carries.
    pub carries: Vec<Var<'g>>,
    /// Results that are stacked by iteration.
    pub ys: Vec<Var<'g>>,
    /// Results of the stretch, or of the plain part.
    pub row: Vec<Var<'g>>,
}

/// Iterations that one outer loop runs, all in stretches of the same length; 0: without stretches.
struct StretchPart {
    start: usize,
    len: usize,
    each: usize,
    /// Whether they run behind those of all other parts.
    last: bool,
}

impl<'g> Stretches<'g> {
    /// Writes the loop. `body` writes what runs one stretch.
    pub fn write(self, mut body: impl FnMut(StretchArgs<'_, 'g>) -> StretchYields<'g>) -> StretchResults<'g> {
        let parts = self.parts();
        let order: Vec<usize> = match self.scan.reverse {
            true => (0..parts.len()).rev().collect(),
            false => (0..parts.len()).collect(),
        };
        let mut carries = self.carries.clone();
        let mut ys = vec![Vec::new(); parts.len()];
        let mut rows = ys.clone();
        for i in order.into_iter().filter(|&i| parts[i].each == 0 || !self.plain_alone) {
            let given = self.rows.get(i).map_or(&[][..], |rows| rows);
            let part = self.part(&parts[i], &carries, given, &mut body);
            (carries, ys[i], rows[i]) = (part.carries, part.ys, part.row);
        }
        let mut by_part = ys.into_iter();
        let first = by_part.next().unwrap_or_default();
        let rest: Vec<Vec<Var<'g>>> = by_part.collect();
        let joined = |(i, y): (usize, &Var<'g>)| {
            let more: Vec<Var<'g>> = rest.iter().filter_map(|part| part.get(i).copied()).collect();
            if more.is_empty() { *y } else { y.concat(&more, 0) }
        };
        StretchResults { carries, ys: first.iter().enumerate().map(joined).collect(), rows }
    }

    /// The whole stretches, the shorter one, and the plain part before or behind them.
    fn parts(&self) -> Vec<StretchPart> {
        let (length, each) = (self.scan.length, self.each.max(1));
        let front = self.plain.start == 0 && !self.plain.is_empty();
        let (from, to) = if front { (self.plain.end, length) } else { (0, length - self.plain.len()) };
        let whole = from + (to - from) / each * each;
        let one = |start: usize, end: usize, each: usize| StretchPart { start, len: end - start, each, last: false };
        let parts = [one(0, from, 0), one(from, whole, each), one(whole, to, to - whole), one(to, length, 0)];
        let mut parts: Vec<StretchPart> = parts.into_iter().filter(|p| p.len > 0).collect();
        let last = if self.scan.reverse { parts.first_mut() } else { parts.last_mut() };
        last.into_iter().for_each(|part| part.last = true);
        parts
    }

    /// The outer loop of `part`, which runs `count` stretches.
    fn outer(&self, part: &StretchPart, count: usize) -> Scan {
        let told = self.scan.bound.unwrap_or(self.scan.length);
        let bound = (self.scan.exit == Some(Exit::Flag)).then_some(if part.last { told } else { 0 });
        Scan { length: count, keep_every: Some(1), bound, ..self.scan }
    }

    /// Of a loop that counts its iterations: how many of the stretches of `part` run, and the iterations before each
    /// stretch.
    fn counts(&self, part: &StretchPart, count: usize) -> Option<(Var<'g>, Var<'g>)> {
        let n = self.consts.first().copied().filter(|_| self.scan.exit == Some(Exit::Count))?;
        let [start, len, each] = [part.start, part.len, part.each].map(|n| n as f64);
        let stretches = (n.clamp(start, start + len) + (each - 1.0 - start)) / each;
        Some((stretches, self.g.iota(0, [count], DType::I64) * each + start))
    }

    /// Runs the iterations of `part`. Its results: carries, results stacked by iteration and by stretch.
    fn part(
        &self,
        part: &StretchPart,
        carries: &[Var<'g>],
        rows: &[Var<'g>],
        body: &mut impl FnMut(StretchArgs<'_, 'g>) -> StretchYields<'g>,
    ) -> StretchYields<'g> {
        let g = self.g;
        let of_part = |x: &Var<'g>| match part.len == self.scan.length {
            true => *x,
            false => x.narrow(0, part.start, part.len),
        };
        let xs: Vec<Var<'g>> = self.xs.iter().map(of_part).collect();
        let Some(count) = part.len.checked_div(part.each) else {
            let (consts, length) = (&self.consts[..], part.len);
            return body(StretchArgs { length, plain: true, carries, consts, xs: &xs, row: rows });
        };
        g.with(|e| e.set_loc(self.loc));
        let counts = self.counts(part, count);
        let stack = |x: &Var<'g>| x.reshape([&[count, part.each], x.dims().get(1..).unwrap_or(&[])].concat());
        let stacked: Vec<Var<'g>> =
            xs.iter().map(stack).chain(rows.iter().copied()).chain(counts.map(|c| c.1)).collect();
        let consts: Vec<Var<'g>> = counts.iter().map(|c| c.0).chain(self.consts.iter().copied()).collect();
        let slice = |x: &Var<'g>| {
            let ty = x.ty();
            g.shape(x.dims().get(1..).unwrap_or(&[])).map_or(ty, |shape| Ty { shape, ..ty })
        };
        let whole = carries.iter().chain(&consts).map(|x| x.ty());
        let tys: Vec<Ty> = whole.chain(stacked.iter().map(slice)).collect();
        g.with(|e| e.open_region(&format!("{}.stretch", self.method)));
        let args: Vec<Var<'g>> = tys.iter().map(|&ty| g.var(g.with(|e| e.region_arg(ty)))).collect();
        let (inner, rest) = args.split_at(carries.len());
        let (own, rest) = rest.split_at(consts.len());
        let (xs, row) = rest.split_at(self.xs.len());
        let (row, before) = row.split_at(row.len() - counts.iter().len());
        let mut own = own[counts.iter().len()..].to_vec();
        if let (Some(n), Some(&before)) = (own.first_mut(), before.first()) {
            *n = (*n - before).clamp(0.0, part.each as f64);
        }
        let yields = body(StretchArgs { length: part.each, plain: false, carries: inner, consts: &own, xs, row });
        let all = yields.carries.iter().chain(&yields.ys).chain(&yields.row);
        let ids: Vec<Value> = all.map(|y| y.v).collect();
        let region = g.with(|e| e.close_region(&ids));
        g.with(|e| e.set_loc(self.loc));
        let operands = [carries, &consts, &stacked].concat();
        let outer = self.outer(part, count).over(region, carries.len(), consts.len());
        let outs = g.emit(Op::SCAN, &operands, &outer.list());
        let mut outs = Vec::from(outs).into_iter();
        let mut next = |n: usize| -> Vec<Var<'g>> { outs.by_ref().take(n).collect() };
        let (carries, ys, row) = (next(carries.len()), next(yields.ys.len()), next(yields.row.len()));
        let flat = |y: Var<'g>| y.reshape([&[part.len], y.dims().get(2..).unwrap_or(&[])].concat());
        StretchYields { carries, ys: ys.into_iter().map(flat).collect(), row }
    }
}

/// For each region, the number of loops and branches that stand in one another inside it. `weight` is that of a node.
pub fn stretch_levels_inside(g: Graph<'_>, weight: impl Fn(Node) -> usize) -> Side<Region, usize> {
    let mut inside = Side::filled(g.regions(), 0);
    for r in (0..g.regions()).map(Region::new) {
        for n in g.region_nodes(r) {
            let deepest = planned_regions(g, n).map(|body| weight(n) + inside[body]).max().unwrap_or(0);
            inside[r] = inside[r].max(deepest);
        }
    }
    inside
}

/// For each region, the number of loops and branches that it stands in. `weight` is that of a node.
pub fn stretch_levels_above(g: Graph<'_>, weight: impl Fn(Node) -> usize) -> Side<Region, usize> {
    let mut above = Side::filled(g.regions(), 0);
    // A region has a larger number than those that its nodes run.
    for r in (0..g.regions()).rev().map(Region::new) {
        for n in g.region_nodes(r) {
            for body in planned_regions(g, n) {
                above[body] = above[body].max(above[r] + weight(n));
            }
        }
    }
    above
}
