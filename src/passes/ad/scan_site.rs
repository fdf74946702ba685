//! Derivatives of loops: the derivative of a loop is a loop over the derivative of its body.
//!
//! *Forward*: a loop whose carries are the tangents of the carries. *Reverse*: a loop in the other direction, whose
//! carries are the cotangents of the carries and the sums of the cotangents of the loop's constants. Neither runs the
//! whole body again. The values of an iteration that it reads are residuals: results of the loop, stacked by
//! [`mod@crate::passes::ad::residuals`]. Values that are cheap to compute from residuals are recomputed. Invariant:
//! every carry is stacked before either walk starts. The loops themselves are written by [`super::backward`] and
//! [`super::forward`].

use super::activity::{active_from, active_towards};
use super::codes::Codes;
use crate::arena::{Node, Region, Side, Value, Window, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::loop_method;
use crate::nodes::ops::control::scan::trips::trips_carry;
use crate::nodes::ops::control::scan::{Exit, Scan};
use crate::nodes::{Builder, DType, Graph, Op, Ty, Var};

/// From values of the source graph to values of the graph that is written.
#[derive(Clone, Copy)]
pub enum ScanSiteValues<'r, 'g> {
    /// For the values of all regions.
    Whole(&'r Side<Value, Var<'g>>),
    /// For the values of one region.
    Part(&'r Window<Value, Var<'g>>),
}

impl<'g> ScanSiteValues<'_, 'g> {
    /// The value in place of `v`.
    pub fn get(&self, v: Value) -> Var<'g> {
        match self {
            ScanSiteValues::Whole(m) => m[v],
            ScanSiteValues::Part(m) => m[v],
        }
    }
}

/// A region of the source graph, and the builder that its derivative is written to.
#[derive(Clone, Copy)]
pub struct AdContext<'r, 'x, 'g> {
    /// The source graph.
    pub src: Graph<'x>,
    /// Its codes.
    pub codes: &'r Codes<'x>,
    /// The region.
    pub region: Region,
    /// The builder.
    pub g: &'g Builder,
    /// From the region's values to written values.
    pub map: ScanSiteValues<'r, 'g>,
    /// From the source's regions to written regions.
    pub regions: &'r [Region],
    /// Whether cotangents may fade over many iterations of a loop. They are flushed on their way to products and sums:
    /// a product with subnormal numbers takes up to two hundred times as long as others.
    pub fades: bool,
}

/// Writes the context's region into the open region, except the values of `known`, which are given. Returns all values
/// of the region.
pub(super) fn write_context_region<'g>(
    context: AdContext<'_, '_, 'g>,
    known: &[(Value, Var<'g>)],
) -> Window<Value, Var<'g>> {
    let AdContext { src, region, g, .. } = context;
    let mut local = Window::filled(src.region_values(region), g.var(Value::NONE));
    for &(v, x) in known {
        local[v] = x;
    }
    for n in src.region_nodes(region).filter(|n| src.op[n.at()] != Op::ARG) {
        if src.outs_of(n).all(|v| local[v].is_some()) {
            continue;
        }
        g.with(|e| e.set_loc(src.loc[n.at()]));
        let ops: Vec<Value> = src.args_of(n).iter().map(|&a| local[a].v).collect();
        let outs = g.with(|e| e.copy(&src, n, &ops, context.regions));
        for (v, new) in src.outs_of(n).zip(outs.iter()) {
            if !local[v].is_some() {
                local[v] = g.var(new);
            }
        }
    }
    local
}

/// A loop of the source graph.
pub(super) struct ScanSite<'r, 'x, 'g> {
    context: AdContext<'r, 'x, 'g>,
    node: Node,
    pub(super) scan: Scan,
    /// Arguments of the body.
    pub(super) args: Vec<Value>,
    /// Yields of the body.
    pub(super) yields: &'x [Value],
}

/// A body, and its values in place of the arguments and yields of a loop.
struct ScanPaths {
    body: Region,
    args: Vec<Value>,
    yields: Vec<Value>,
}

/// Operands of the loop that its derivative reads: pairs of a value of the body and the loop's operand or result.
pub(super) struct Operands<'g> {
    /// The loop's constants.
    pub(super) consts: Vec<(Value, Var<'g>)>,
    /// Stacked inputs, and stacked results.
    pub(super) stacked: Vec<(Value, Var<'g>)>,
}

/// Operands of a loop that is written.
pub(super) struct LoopOperands<'o, 'g> {
    pub(super) carries: &'o [Var<'g>],
    pub(super) consts: &'o [Var<'g>],
    pub(super) stacked: &'o [Var<'g>],
}

impl<'r, 'x, 'g> ScanSite<'r, 'x, 'g> {
    pub(super) fn new(context: AdContext<'r, 'x, 'g>, node: Node) -> Self {
        let scan = Scan::of(&context.src.attrs(node));
        let (args, yields) = (context.src.region_args(scan.body).collect(), context.src.region_yields(scan.body));
        ScanSite { context, node, scan, args, yields }
    }

    /// Pairs of an argument of the body and the operand in its place, for operands `range`.
    pub(super) fn given(&self, range: std::ops::Range<usize>) -> Vec<(Value, Var<'g>)> {
        let AdContext { src, map, .. } = self.context;
        range.map(|i| (self.args[i], map.get(src.args_of(self.node)[i]))).collect()
    }

    /// The operands and results that the derivative reads: all constants, stacked inputs and stacked results; of the
    /// results only the carries, if the loop keeps only these.
    pub(super) fn operands(&self) -> Operands<'g> {
        let (src, s) = (self.context.src, &self.scan);
        let (consts, mut stacked) = (self.given(s.carries..s.xs()), self.given(s.xs()..self.args.len()));
        for (&y, out) in self.yields.iter().zip(src.outs_of(self.node)).skip(s.carries) {
            let is_arg = self.args[s.carries..].contains(&y);
            let kept = !s.keeps_carries_only() || self.args[..s.carries].contains(&y);
            if kept && !is_arg && stacked.iter().all(|x| x.0 != y) {
                stacked.push((y, self.context.map.get(out)));
            }
        }
        Operands { consts, stacked }
    }

    /// Writes the body into the open region again, except the values of `known`, which are given. Returns all values of
    /// the body.
    pub(super) fn recompute(&self, known: &[(Value, Var<'g>)]) -> Window<Value, Var<'g>> {
        write_context_region(AdContext { region: self.scan.body, ..self.context }, known)
    }

    /// The body, with `local` in place of its values.
    pub(super) fn inner<'l>(&self, local: &'l Window<Value, Var<'g>>) -> AdContext<'l, 'x, 'g>
    where
        'r: 'l,
    {
        AdContext { region: self.scan.body, map: ScanSiteValues::Part(local), ..self.context }
    }

    /// The types of one iteration's slices of `xs`: without the first axis.
    fn slices(&self, xs: impl Iterator<Item = Var<'g>>) -> Vec<Ty> {
        let one = |x: Var<'g>| {
            let shape = self.context.g.shape(x.dims().get(1..).unwrap_or(&[]));
            Ty { dtype: x.dtype(), shape: shape.unwrap_or(x.ty().shape) }
        };
        xs.map(one).collect()
    }

    /// The number of iterations that a loop ran that a carry ends. Where no carry counts them, its flag does: it is
    /// stacked, true in each of them and false in the others.
    fn trips(&self) -> Result<Var<'g>> {
        let AdContext { src, map, .. } = self.context;
        if let Some(carry) = trips_carry(src, self.node) {
            return Ok(map.get(Value::new(src.out(self.node).at() + carry)));
        }
        let flags = self.operands().stacked.into_iter().find(|x| x.0 == self.args[0]);
        let missing = || Error::new(Kind::Verify, "scan is not prepared").at(self.context.src.location(self.node));
        flags.map(|(_, flags)| flags.cast(DType::I64).sum(..)).ok_or_else(missing)
    }

    /// Writes a loop over `operands` that runs as many iterations as this one. `body` gets the arguments of the new
    /// body and returns its yields.
    pub(super) fn emit(
        &self,
        name: &str,
        reverse: bool,
        operands: LoopOperands<'_, 'g>,
        body: impl FnOnce(&[Var<'g>]) -> Result<Vec<Var<'g>>>,
    ) -> Result<Vec<Var<'g>>> {
        let scan = Scan { reverse, ..self.scan };
        if self.scan.exit != Some(Exit::Flag) {
            return self.emit_as(scan, name, operands, body);
        }
        // The number of iterations is the first constant, which `body` does not see.
        let LoopOperands { carries, consts, stacked } = operands;
        let consts = [&[self.trips()?], consts].concat();
        let operands = LoopOperands { carries, consts: &consts, stacked };
        self.emit_as(Scan { exit: Some(Exit::Count), bound: None, ..scan }, name, operands, |args| {
            body(&[&args[..carries.len()], &args[carries.len() + 1..]].concat())
        })
    }

    /// Writes a loop as `scan` over `operands`.
    pub(super) fn emit_as(
        &self,
        scan: Scan,
        name: &str,
        operands: LoopOperands<'_, 'g>,
        body: impl FnOnce(&[Var<'g>]) -> Result<Vec<Var<'g>>>,
    ) -> Result<Vec<Var<'g>>> {
        let (g, LoopOperands { carries, consts, stacked }) = (self.context.g, operands);
        let mut tys: Vec<Ty> = carries.iter().chain(consts).map(|x| x.ty()).collect();
        tys.extend(self.slices(stacked.iter().copied()));
        let method = loop_method(self.context.src, self.scan.body);
        g.with(|e| e.open_region(&format!("{method}.{name}")));
        let args: Vec<Var<'g>> = tys.iter().map(|&ty| g.var(g.with(|e| e.region_arg(ty)))).collect();
        let yields = body(&args);
        let ids: Vec<Value> = yields.iter().flatten().map(|y| y.v).collect();
        let region = g.with(|e| e.close_region(&ids));
        yields?;
        g.with(|e| e.set_loc(self.context.src.loc[self.node.at()]));
        let attrs = Scan { at_once: false, ..scan }.over(region, carries.len(), consts.len());
        Ok(g.emit(Op::SCAN, &[carries, consts, stacked].concat(), &attrs.list()).into())
    }

    /// An error if a carry is neither stacked nor given.
    pub(super) fn check(&self, local: &Window<Value, Var<'g>>) -> Result<()> {
        let missing = self.args[..self.scan.carries].iter().any(|&a| !local[a].is_some());
        match missing && self.context.g.error().is_none() {
            true => Err(Error::new(Kind::Verify, "scan is not prepared").at(self.context.src.location(self.node))),
            false => Ok(()),
        }
    }

    /// The paths through one iteration. If the body is another loop with the same operands and carries, as that of a
    /// loop in stretches is, they are those of the other loop's body: activity would take that loop for one op.
    fn paths(&self) -> ScanPaths {
        let src = self.context.src;
        let own = || ScanPaths { body: self.scan.body, args: self.args.clone(), yields: self.yields.to_vec() };
        let mut nodes = src.region_nodes(self.scan.body).filter(|n| src.op[n.at()] != Op::ARG);
        let (Some(n), None) = (nodes.next(), nodes.next()) else { return own() };
        if !matches!(src.def_of(n).lower, Lower::Loop) || src.args_of(n) != self.args {
            return own();
        }
        let (inner, k) = (ScanSite::new(self.context, n), self.scan.carries);
        let outs: Vec<Value> = src.outs_of(n).collect();
        if inner.scan.exit == Some(Exit::Count) || inner.scan.carries != k || outs[..k] != self.yields[..k] {
            return own();
        }
        let inner = inner.paths();
        let place = |y: &Value| match outs.iter().position(|o| o == y) {
            Some(j) => Some(inner.yields[j]),
            None => self.args.iter().position(|a| a == y).map(|i| inner.args[i]),
        };
        let yields: Option<Vec<Value>> = self.yields.iter().map(place).collect();
        yields.map_or_else(own, |yields| ScanPaths { yields, ..inner })
    }

    /// For each operand, whether its tangent may be nonzero in some iteration. `has` says which operands start with a
    /// tangent. A tangent reaches further carries through the yields.
    pub(super) fn dependent(&self, has: &[bool]) -> Vec<bool> {
        let mut has = has.to_vec();
        let ScanPaths { body, args, yields } = self.paths();
        loop {
            let roots: Vec<Value> = args.iter().zip(&has).filter(|(_, h)| **h).map(|(&a, _)| a).collect();
            let d = active_from(self.context.codes, body, &roots);
            let new = (0..self.scan.carries).find(|&i| !has[i] && d[yields[i]]);
            match new {
                Some(i) => has[i] = true,
                None => return has,
            }
        }
    }

    /// For each argument, whether a result with a cotangent depends on it. `has` says which results have one.
    pub(super) fn reached(&self, has: &[bool]) -> Vec<bool> {
        let mut has = has.to_vec();
        let ScanPaths { body, args, yields } = self.paths();
        loop {
            let roots: Vec<Value> = yields.iter().zip(&has).filter(|(_, h)| **h).map(|(&y, _)| y).collect();
            let r = active_towards(self.context.codes, body, &roots);
            let reached = |i: usize| self.context.codes.carries(args[i]) && r[args[i]];
            match (0..self.scan.carries).find(|&i| !has[i] && reached(i)) {
                Some(i) => has[i] = true,
                None => return (0..self.args.len()).map(|i| reached(i) || (i < self.scan.carries && has[i])).collect(),
            }
        }
    }
}
