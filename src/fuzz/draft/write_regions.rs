//! Writes regions: where they stood, in the place of a call, and as nodes that move into one.

use super::unfit_error;
use super::write::DraftWriter;
use crate::arena::{Node, Region, Value, ids::Id};
use crate::error::Result;
use crate::nodes::Op;
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ops::control::call::CallAttrs;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::ops::layout::attrs::{SliceAttrs, ToShapeAttrs};

impl DraftWriter<'_, '_> {
    /// Writes region `r`, which stands where it stood.
    pub(super) fn region(&mut self, r: Region) -> Result<()> {
        let src = self.d.src;
        let entry = r == src.entry();
        if !entry {
            self.e.open_region(src.str(src.region_names[r.at()]));
        }
        let outlined = self.d.outlined.clone().filter(|_| entry).unwrap_or(0..0);
        let args: Vec<Value> = src.region_args(r).collect();
        for &v in &args {
            self.arg(v)?;
        }
        args.iter().try_for_each(|&v| self.stand(v))?;
        for n in src.region_nodes(r).skip(args.len()) {
            if outlined.start == n.at() && !outlined.is_empty() {
                self.outline_region(outlined.clone())?;
            }
            if !outlined.contains(&n.at()) {
                self.node(n)?;
            }
        }
        if !entry {
            let yields = self.kept_yields(r)?;
            self.regions[r.at()] = self.e.close_region(&yields);
        }
        self.checked()
    }

    pub(super) fn kept_yields(&self, r: Region) -> Result<Vec<Value>> {
        self.d.yields_of(r).iter().flatten().map(|&v| self.value(v)).collect()
    }

    /// Writes the body `r` of node `n` once in its place: that of a loop for its first iteration, and one branch of a
    /// choice.
    pub(super) fn splice_region(&mut self, n: Node, r: Region) -> Result<Vec<Value>> {
        let (d, src) = (self.d, self.d.src);
        let scan = (src.op[n.at()] == Op::SCAN).then(|| Scan::of(&src.attrs(n)));
        if scan.is_some_and(|s| s.length == 0) {
            return Err(unfit_error("a loop without an iteration has no first one"));
        }
        let args: Vec<Value> = src.region_args(r).collect();
        let predicates = usize::from(src.op[n.at()] == Op::IF);
        for (i, (&arg, &v)) in args.iter().zip(&d.args_of(n)[predicates..]).enumerate() {
            let v = self.value(v)?;
            self.map[arg] = match scan {
                Some(s) if i >= s.xs() => self.first_row_of_region(v)?,
                _ => v,
            };
        }
        args.iter().try_for_each(|&arg| self.stand(arg))?;
        for inner in src.region_nodes(r).skip(args.len()) {
            self.node(inner)?;
        }
        let yields = self.kept_yields(r)?.into_iter().enumerate();
        let outs = yields.map(|(i, v)| match scan {
            Some(s) if i >= s.carries => self.repeated_for_region(v, s.length),
            _ => Ok(v),
        });
        outs.collect()
    }

    /// The first slice of `v` along its leading axis.
    fn first_row_of_region(&mut self, v: Value) -> Result<Value> {
        let dims = self.e.dims(v);
        let limits: Vec<i64> = dims.iter().enumerate().map(|(i, &n)| if i == 0 { 1 } else { n as i64 }).collect();
        let attrs = SliceAttrs { starts: vec![0; dims.len()], limits, steps: vec![1; dims.len()] };
        let row = self.e.emit(Op::SLICE, &[v], &attrs.list()).at(0);
        self.reshaped_for_region(Op::RESHAPE, row, dims.get(1..).unwrap_or(&[]))
    }

    /// `v`, `length` times along a new leading axis.
    fn repeated_for_region(&mut self, v: Value, length: usize) -> Result<Value> {
        let dims = [&[length], &self.e.dims(v)[..]].concat();
        self.reshaped_for_region(Op::BROADCAST, v, &dims)
    }

    fn reshaped_for_region(&mut self, op: Op, v: Value, dims: &[usize]) -> Result<Value> {
        let shape = self.e.shapes.intern(dims).map_err(unfit_error)?;
        Ok(self.e.emit(op, &[v], &ToShapeAttrs { shape }.list()).at(0))
    }

    /// Writes the nodes of `range` into a region, and calls it.
    pub(super) fn outline_region(&mut self, range: std::ops::Range<usize>) -> Result<()> {
        let (d, src) = (self.d, self.d.src);
        let nodes = || range.clone().map(Node::new).filter(|&n| self.is_live(n));
        let inside = |v: Value| range.contains(&src.def[v.at()].at());
        let mut outer: Vec<Value> = nodes().flat_map(|n| d.args_of(n)).map(|&v| d.read(v).0).collect();
        outer.retain(|&v| !inside(v));
        outer.sort_unstable();
        outer.dedup();
        let operands = outer.iter().map(|&v| self.value(v)).collect::<Result<Vec<Value>>>()?;
        let results: Vec<Value> = nodes().flat_map(|n| src.outs_of(n)).filter(|&v| self.wanted[v]).collect();
        let tys: Vec<Ty> = operands.iter().map(|&v| self.e.ty(v)).collect();
        self.e.open_region("outlined");
        for (&v, ty) in outer.iter().zip(tys) {
            self.map[v] = self.e.region_arg(ty);
        }
        for n in range.clone().map(Node::new) {
            self.node(n)?;
        }
        let yields = results.iter().map(|&v| self.value(v)).collect::<Result<Vec<Value>>>()?;
        let body = self.e.close_region(&yields);
        outer.iter().zip(&operands).for_each(|(&v, &new)| self.map[v] = new);
        let outs = self.e.emit(Op::CALL, &operands, &CallAttrs { body }.list());
        results.iter().zip(outs.iter()).for_each(|(&v, new)| self.map[v] = new);
        self.checked()
    }
}
