//! [`Draft::write`]: the columns as a graph.

use super::{Draft, DraftStandIn, bodies_of_node, unfit_error};
use crate::arena::{DType, Node, Region, Shape, Side, Value, ids::Id};
use crate::error::Result;
use crate::nodes::ir::attrs::{Attr, Owned};
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::leaf::InputAttrs;
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::{Emit, GraphBuf, Op};
use crate::passes::region_users::regions_of_node;

/// A graph that is being written from a draft.
pub(super) struct DraftWriter<'d, 'g> {
    pub(super) d: &'d Draft<'g>,
    pub(super) e: Emit,
    /// Source value → value of the region that is written.
    pub(super) map: Side<Value, Value>,
    pub(super) regions: Vec<Region>,
    /// Values that something reads.
    pub(super) wanted: Side<Value, bool>,
    /// Regions that something runs.
    used: Vec<bool>,
    /// New names of leaves so far.
    names: usize,
}

impl Draft<'_> {
    /// The graph of these columns.
    ///
    /// # Errors
    /// Columns that are no graph: types that do not fit, or a value that is read and not there.
    pub(in crate::fuzz) fn write(&self) -> Result<GraphBuf> {
        let src = self.src;
        let mut w = DraftWriter {
            d: self,
            e: Emit::like(&src),
            map: Side::filled(src.values(), Value::NONE),
            regions: vec![Region::NONE; src.regions()],
            wanted: Side::filled(src.values(), false),
            used: vec![!self.sweep; src.regions()],
            names: 0,
        };
        w.want();
        for r in (0..src.regions()).map(Region::new) {
            if (w.used[r.at()] && !self.inlined[r.at()]) || r == src.entry() {
                w.region(r)?;
            }
        }
        w.signature()?;
        let e = w.e;
        GraphBuf::make(|bump| e.finish(bump))
    }
}

impl DraftWriter<'_, '_> {
    /// Marks what is read: one reverse scan.
    fn want(&mut self) {
        let (d, src) = (self.d, self.d.src);
        self.used[src.entry().at()] = true;
        let read = |wanted: &mut Side<Value, bool>, v: Value| wanted[d.read(v).0] = true;
        d.outputs.iter().chain(d.updates.iter().flatten()).for_each(|&v| read(&mut self.wanted, v));
        let updated = src.updates.iter().zip(&d.updates).filter(|(_, next)| next.is_some());
        updated.for_each(|(u, _)| read(&mut self.wanted, u.0));
        for r in (0..src.regions()).rev().map(Region::new) {
            if !self.used[r.at()] {
                continue;
            }
            d.yields_of(r).iter().flatten().for_each(|&v| read(&mut self.wanted, v));
            for n in src.region_nodes(r).rev().filter(|&n| src.op[n.at()] != Op::ARG) {
                if !self.is_live(n) {
                    continue;
                }
                d.args_of(n).iter().for_each(|&v| read(&mut self.wanted, v));
                for (_, _, v) in d.copies.iter().filter(|c| c.0 == n) {
                    read(&mut self.wanted, *v);
                }
                for attr in d.attrs_of(n) {
                    if let Owned::Region(callee) = attr {
                        self.used[callee.at()] = true;
                    }
                }
            }
        }
    }

    pub(super) fn is_live(&self, n: Node) -> bool {
        let (d, src) = (self.d, self.d.src);
        let wanted = |v: Value| self.wanted[v] && d.stand[v.at()] == DraftStandIn::Itself;
        let kept = !d.sweep || !src.def_of(n).is_pure() && !src.def_of(n).is_leaf();
        let gone = src.outs_of(n).len() > 0 && src.outs_of(n).all(|v| d.stand[v.at()] != DraftStandIn::Itself);
        src.outs_of(n).any(wanted) || kept && !gone
    }

    pub(super) fn checked(&mut self) -> Result<()> {
        self.e.take_error().map_or(Ok(()), Err)
    }

    /// The value that is read where the source reads `v`.
    pub(super) fn value(&self, v: Value) -> Result<Value> {
        let new = self.map[self.d.read(v).0];
        if new.is_some() { Ok(new) } else { Err(unfit_error(format!("{v} is read, and it is left out"))) }
    }

    /// Type `ty` of the source, under the rules of the draft.
    fn ty(&mut self, ty: Ty) -> Result<Ty> {
        Ok(Ty { dtype: self.dtype(ty.dtype), shape: self.shape(ty.shape)? })
    }

    pub(super) fn dtype(&self, dtype: DType) -> DType {
        self.d.dtype.filter(|d| d.0 == dtype).map_or(dtype, |d| d.1)
    }

    pub(super) fn shape(&mut self, s: Shape) -> Result<Shape> {
        let Some(resize) = self.d.resize else { return Ok(s) };
        let dims = resize.dims(&self.e.shapes.dims(s));
        self.e.shapes.intern(&dims).map_err(unfit_error)
    }

    /// Writes argument `v` of the open region.
    pub(super) fn arg(&mut self, v: Value) -> Result<()> {
        if !self.d.dropped_args[v.at()] {
            let ty = self.ty(self.d.src.ty(v))?;
            self.map[v] = self.e.region_arg(ty);
            self.e.set_name(self.map[v], self.d.src.names[v.at()]);
        }
        self.checked()
    }

    /// Writes node `n` of the source, which is no argument.
    pub(super) fn node(&mut self, n: Node) -> Result<()> {
        let (d, src) = (self.d, self.d.src);
        self.e.set_loc(src.loc[n.at()]);
        if self.is_live(n) {
            let outs = match bodies_of_node(src, n).find(|r| d.inlined[r.at()]) {
                Some(r) => self.splice_region(n, r)?,
                None => self.emit(n)?,
            };
            for (v, new) in src.outs_of(n).zip(outs) {
                self.map[v] = new;
            }
        }
        for v in src.outs_of(n) {
            let new = self.map[v];
            if new.is_some() && src.leaf(v).is_none() {
                self.e.set_name(new, src.names[v.at()]);
            }
            self.stand(v)?;
        }
        self.checked()
    }

    /// Writes what stands for `v`, if something reads it.
    pub(super) fn stand(&mut self, v: Value) -> Result<()> {
        if !self.wanted[v] {
            return Ok(());
        }
        let ty = self.ty(self.d.src.ty(v))?;
        match self.d.stand[v.at()] {
            DraftStandIn::Itself | DraftStandIn::Other(_) => {}
            DraftStandIn::Full(value) => {
                let attrs = FullAttrs { value, dtype: ty.dtype, shape: ty.shape };
                self.map[v] = self.e.emit(Op::FULL, &[], &attrs.list()).at(0);
            }
            DraftStandIn::Input => {
                let name = self.new_name();
                self.map[v] = self.input(&name, ty);
            }
        }
        Ok(())
    }

    fn input(&mut self, name: &str, ty: Ty) -> Value {
        let sym = self.e.strings.intern(name);
        let attrs = InputAttrs { name: sym, dtype: ty.dtype, shape: ty.shape, default: None };
        self.e.leaf(Op::INPUT, name, &attrs.list()[1..])
    }

    /// A name that no leaf of the source has.
    fn new_name(&mut self) -> String {
        loop {
            let name = format!("in{}", self.names);
            self.names += 1;
            if self.d.src.find_leaf(&name).is_none() {
                return name;
            }
        }
    }

    /// Writes `n` as one node, and its copies. The new value of each result; `NONE` for one that goes.
    fn emit(&mut self, n: Node) -> Result<Vec<Value>> {
        let (d, src) = (self.d, self.d.src);
        if let Some((_, name)) = src.leaf(src.out(n)) {
            if d.as_input[n.at()] {
                let ty = self.ty(src.ty(src.out(n)))?;
                return Ok(vec![self.input(name, ty)]);
            }
            let attrs = self.attrs(n)?;
            let attrs: Vec<Attr<'_>> = attrs.iter().skip(1).map(Owned::as_attr).collect();
            return Ok(vec![self.e.leaf(src.op[n.at()], name, &attrs)]);
        }
        let op = d.op[n.at()];
        let kept = d.args_of(n).iter().enumerate().filter(|(i, _)| self.attrs_keep_operand(n, *i));
        let args = kept.map(|(_, &v)| self.value(v)).collect::<Result<Vec<Value>>>()?;
        let attrs = self.attrs(n)?;
        let attrs: Vec<Attr<'_>> = attrs.iter().map(Owned::as_attr).collect();
        let outs = self.e.emit(op, &args, &attrs);
        for &(_, at, other) in d.copies.iter().filter(|c| c.0 == n) {
            let mut args = args.clone();
            args[at] = self.value(other)?;
            let copy = self.e.emit(op, &args, &attrs).at(0);
            let name = (0..).map(|i| format!("copy{i}")).find(|name| src.find_output(name).is_none());
            self.e.output(&name.unwrap_or_default(), copy);
        }
        let mut new = outs.iter();
        let yields = regions_of_node(src, n).next().map(|r| d.yields_of(r));
        let kept = |i: usize| yields.is_none_or(|y| y.get(i).is_none_or(Option::is_some));
        Ok((0..src.outs_of(n).len())
            .map(|i| if kept(i) { new.next().unwrap_or(Value::NONE) } else { Value::NONE })
            .collect())
    }

    /// Outputs and updates.
    fn signature(&mut self) -> Result<()> {
        let (d, src) = (self.d, self.d.src);
        self.e.set_loc(u32::MAX);
        for (v, &name) in d.yields_of(src.entry()).iter().zip(src.output_names) {
            if let Some(v) = v {
                let v = self.value(*v)?;
                self.e.output(src.str(name), v);
            }
        }
        for &v in &d.outputs {
            let v = self.value(v)?;
            let name = (0..).map(|i| format!("more{i}")).find(|name| {
                let sym = self.e.strings.intern(name);
                self.e.output_called(sym).is_none()
            });
            self.e.output(&name.unwrap_or_default(), v);
        }
        for (&(leaf, _), next) in src.updates.iter().zip(&d.updates) {
            if let Some(next) = next {
                let (leaf, next) = (self.value(leaf)?, self.value(*next)?);
                self.e.update(leaf, next);
            }
        }
        self.checked()
    }
}
