//! [`Draft::write`]: the columns as a graph.

use super::{Draft, Resize, Stand, bodies_of, regions_of};
use crate::arena::{DType, Node, Region, Shape, Side, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::attrs::{Attr, Owned};
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::leaf::InputAttrs;
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::ops::control::call::CallAttrs;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::ops::layout::attrs::{SliceAttrs, ToShapeAttrs};
use crate::nodes::{Emit, GraphBuf, Op};

/// A graph that is being written from a draft.
struct Writing<'d, 'g> {
    d: &'d Draft<'g>,
    e: Emit,
    /// Source value → value of the region that is written.
    map: Side<Value, Value>,
    regions: Vec<Region>,
    /// Values that something reads.
    wanted: Side<Value, bool>,
    /// Regions that something runs.
    used: Vec<bool>,
    /// New names of leaves so far.
    names: usize,
}

/// Attribute `name` of a node whose operand loses its first axis, or its last: axes move down, and lists with an entry
/// for each axis lose one.
fn without_axis(name: &str, attr: &mut Owned, first: bool) {
    let down = i64::from(first);
    match (name, attr) {
        ("axis", Owned::Int(axis)) => *axis -= down,
        ("axes", Owned::Ints(axes)) => axes.iter_mut().for_each(|axis| *axis -= down),
        ("starts" | "limits" | "steps" | "low" | "high" | "perm", Owned::Ints(list)) if !list.is_empty() => {
            list.remove(if first { 0 } else { list.len() - 1 });
            if name == "perm" {
                list.iter_mut().for_each(|axis| *axis -= down);
            }
        }
        _ => {}
    }
}

fn unfit(text: impl Into<String>) -> Error {
    Error::new(Kind::Verify, text)
}

impl Draft<'_> {
    /// The graph of these columns.
    ///
    /// # Errors
    /// Columns that are no graph: types that do not fit, or a value that is read and not there.
    pub(in crate::fuzz) fn write(&self) -> Result<GraphBuf> {
        let src = self.src;
        let mut w = Writing {
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

impl Writing<'_, '_> {
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

    fn is_live(&self, n: Node) -> bool {
        let (d, src) = (self.d, self.d.src);
        let wanted = |v: Value| self.wanted[v] && d.stand[v.at()] == Stand::Itself;
        let kept = !d.sweep || !src.def_of(n).is_pure() && !src.def_of(n).is_leaf();
        let gone = src.outs_of(n).len() > 0 && src.outs_of(n).all(|v| d.stand[v.at()] != Stand::Itself);
        src.outs_of(n).any(wanted) || kept && !gone
    }

    fn region(&mut self, r: Region) -> Result<()> {
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
                self.outline(outlined.clone())?;
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

    fn kept_yields(&self, r: Region) -> Result<Vec<Value>> {
        self.d.yields_of(r).iter().flatten().map(|&v| self.value(v)).collect()
    }

    fn checked(&mut self) -> Result<()> {
        self.e.take_error().map_or(Ok(()), Err)
    }

    /// The value that is read where the source reads `v`.
    fn value(&self, v: Value) -> Result<Value> {
        let new = self.map[self.d.read(v).0];
        if new.is_some() { Ok(new) } else { Err(unfit(format!("{v} is read, and it is left out"))) }
    }

    /// Type `ty` of the source, under the rules of the draft.
    fn ty(&mut self, ty: Ty) -> Result<Ty> {
        Ok(Ty { dtype: self.dtype(ty.dtype), shape: self.shape(ty.shape)? })
    }

    fn dtype(&self, dtype: DType) -> DType {
        self.d.dtype.filter(|d| d.0 == dtype).map_or(dtype, |d| d.1)
    }

    fn shape(&mut self, s: Shape) -> Result<Shape> {
        let Some(resize) = self.d.resize else { return Ok(s) };
        let dims = resize.dims(&self.e.shapes.dims(s));
        self.e.shapes.intern(&dims).map_err(unfit)
    }

    /// Writes argument `v` of the open region.
    fn arg(&mut self, v: Value) -> Result<()> {
        if !self.d.dropped_args[v.at()] {
            let ty = self.ty(self.d.src.ty(v))?;
            self.map[v] = self.e.region_arg(ty);
            self.e.set_name(self.map[v], self.d.src.names[v.at()]);
        }
        self.checked()
    }

    /// Writes node `n` of the source, which is no argument.
    fn node(&mut self, n: Node) -> Result<()> {
        let (d, src) = (self.d, self.d.src);
        self.e.set_loc(src.loc[n.at()]);
        if self.is_live(n) {
            let outs = match bodies_of(src, n).find(|r| d.inlined[r.at()]) {
                Some(r) => self.splice(n, r)?,
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
    fn stand(&mut self, v: Value) -> Result<()> {
        if !self.wanted[v] {
            return Ok(());
        }
        let ty = self.ty(self.d.src.ty(v))?;
        match self.d.stand[v.at()] {
            Stand::Itself | Stand::Other(_) => {}
            Stand::Full(value) => {
                let attrs = FullAttrs { value, dtype: ty.dtype, shape: ty.shape };
                self.map[v] = self.e.emit(Op::FULL, &[], &attrs.list()).at(0);
            }
            Stand::Input => {
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

    /// The attributes of `n` in the new graph.
    fn attrs(&mut self, n: Node) -> Result<Vec<Owned>> {
        let mut attrs = self.d.attrs_of(n);
        self.count_operands(n, &mut attrs);
        let fields = self.d.src.def_of(n).attrs;
        for (a, f) in attrs.iter_mut().zip(fields) {
            if let Some(first) = self.loses_axis(n) {
                without_axis(f.name, a, first);
            }
            match a {
                Owned::Region(r) => *r = self.regions.get(r.at()).copied().unwrap_or(Region::NONE),
                Owned::Shape(s) => *s = self.shape(*s)?,
                Owned::DType(t) => *t = self.dtype(*t),
                Owned::Int(i) => *i = self.int(*i),
                Owned::Ints(list) => list.iter_mut().for_each(|i| *i = self.int(*i)),
                _ => {}
            }
        }
        Ok(attrs)
    }

    /// Whether the first operand of `n` loses its first axis, or its last.
    fn loses_axis(&self, n: Node) -> Option<bool> {
        let src = self.d.src;
        let dims = src.args_of(n).first().map(|&v| src.dims(v))?;
        match self.d.resize? {
            Resize::DropFirst(size) if dims.first() == Some(&size) => Some(true),
            Resize::DropLast(size) if dims.last() == Some(&size) => Some(false),
            _ => None,
        }
    }

    fn int(&self, i: i64) -> i64 {
        match (self.d.resize, usize::try_from(i)) {
            (Some(r @ (Resize::Exactly(from, _) | Resize::Multiples(from, _))), Ok(n)) if n >= from => r.size(n) as i64,
            _ => i,
        }
    }

    /// Lowers the numbers of carries, constants and captures by the operands that go.
    fn count_operands(&self, n: Node, attrs: &mut [Owned]) {
        let src = self.d.src;
        let gone = |range: std::ops::Range<usize>| range.filter(|&i| !self.keeps_operand(n, i)).count() as i64;
        let operands = src.args_of(n).len();
        let mut less = |name: &str, range| {
            let at = src.def_of(n).attrs.iter().position(|f| f.name == name);
            if let Some(Owned::Int(count)) = at.and_then(|at| attrs.get_mut(at)) {
                *count -= gone(range);
            }
        };
        match src.op[n.at()] {
            Op::SCAN => {
                let scan = Scan::of(&src.attrs(n));
                less("carries", 0..scan.carries);
                less("consts", scan.carries..scan.xs());
            }
            Op::CUSTOM_FN => {
                let captures = src.attrs(n).int(1).max(0) as usize;
                less("captures", operands.saturating_sub(captures)..operands);
            }
            _ => {}
        }
    }

    /// Whether the region of `n` still takes operand `i`.
    fn keeps_operand(&self, n: Node, i: usize) -> bool {
        let src = self.d.src;
        let arg = regions_of(src, n).next().and_then(|r| src.region_args(r).nth(i));
        arg.is_none_or(|arg| !self.d.dropped_args[arg.at()])
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
            let attrs: Vec<Attr<'_>> = attrs.iter().skip(1).map(Owned::borrow).collect();
            return Ok(vec![self.e.leaf(src.op[n.at()], name, &attrs)]);
        }
        let op = d.op[n.at()];
        let kept = d.args_of(n).iter().enumerate().filter(|(i, _)| self.keeps_operand(n, *i));
        let args = kept.map(|(_, &v)| self.value(v)).collect::<Result<Vec<Value>>>()?;
        let attrs = self.attrs(n)?;
        let attrs: Vec<Attr<'_>> = attrs.iter().map(Owned::borrow).collect();
        let outs = self.e.emit(op, &args, &attrs);
        for &(_, at, other) in d.copies.iter().filter(|c| c.0 == n) {
            let mut args = args.clone();
            args[at] = self.value(other)?;
            let copy = self.e.emit(op, &args, &attrs).at(0);
            let name = (0..).map(|i| format!("copy{i}")).find(|name| src.find_output(name).is_none());
            self.e.output(&name.unwrap_or_default(), copy);
        }
        let mut new = outs.iter();
        let yields = regions_of(src, n).next().map(|r| d.yields_of(r));
        let kept = |i: usize| yields.is_none_or(|y| y.get(i).is_none_or(Option::is_some));
        Ok((0..src.outs_of(n).len())
            .map(|i| if kept(i) { new.next().unwrap_or(Value::NONE) } else { Value::NONE })
            .collect())
    }

    /// Writes the body `r` of node `n` once in its place: that of a loop for its first iteration, and one branch of a
    /// choice.
    fn splice(&mut self, n: Node, r: Region) -> Result<Vec<Value>> {
        let (d, src) = (self.d, self.d.src);
        let scan = (src.op[n.at()] == Op::SCAN).then(|| Scan::of(&src.attrs(n)));
        if scan.is_some_and(|s| s.length == 0) {
            return Err(unfit("a loop without an iteration has no first one"));
        }
        let args: Vec<Value> = src.region_args(r).collect();
        let predicates = usize::from(src.op[n.at()] == Op::IF);
        for (i, (&arg, &v)) in args.iter().zip(&d.args_of(n)[predicates..]).enumerate() {
            let v = self.value(v)?;
            self.map[arg] = match scan {
                Some(s) if i >= s.xs() => self.first_row(v)?,
                _ => v,
            };
        }
        args.iter().try_for_each(|&arg| self.stand(arg))?;
        for inner in src.region_nodes(r).skip(args.len()) {
            self.node(inner)?;
        }
        let yields = self.kept_yields(r)?.into_iter().enumerate();
        let outs = yields.map(|(i, v)| match scan {
            Some(s) if i >= s.carries => self.repeated(v, s.length),
            _ => Ok(v),
        });
        outs.collect()
    }

    /// The first slice of `v` along its leading axis.
    fn first_row(&mut self, v: Value) -> Result<Value> {
        let dims = self.e.dims(v);
        let limits: Vec<i64> = dims.iter().enumerate().map(|(i, &n)| if i == 0 { 1 } else { n as i64 }).collect();
        let attrs = SliceAttrs { starts: vec![0; dims.len()], limits, steps: vec![1; dims.len()] };
        let row = self.e.emit(Op::SLICE, &[v], &attrs.list()).at(0);
        self.reshaped(Op::RESHAPE, row, dims.get(1..).unwrap_or(&[]))
    }

    /// `v`, `length` times along a new leading axis.
    fn repeated(&mut self, v: Value, length: usize) -> Result<Value> {
        let dims = [&[length], &self.e.dims(v)[..]].concat();
        self.reshaped(Op::BROADCAST, v, &dims)
    }

    fn reshaped(&mut self, op: Op, v: Value, dims: &[usize]) -> Result<Value> {
        let shape = self.e.shapes.intern(dims).map_err(unfit)?;
        Ok(self.e.emit(op, &[v], &ToShapeAttrs { shape }.list()).at(0))
    }

    /// Writes the nodes of `range` into a region, and calls it.
    fn outline(&mut self, range: std::ops::Range<usize>) -> Result<()> {
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
