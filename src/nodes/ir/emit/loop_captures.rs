//! Loops of the growing graph, and what the bodies of loops and branches capture.
//!
//! A value from outside that the body of a loop uses becomes an argument of the body. A use in an inner body adds an
//! argument to each body in between, once. Users call the builder's `scan` or `custom_fn`, which do this.
//!
//! Invariant: a captured argument stands where it was first needed, until [`Emit::close_loop_region`] moves all
//! arguments to the front, in the order of the loop's operands.

use super::Emit;
use super::body::{Body, Captures, Closed};
use crate::arena::{Node, Region, Value, ids::Id};
use crate::error::{Error, Kind};
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::leaf::ArgAttrs;
use crate::nodes::ir::opdef::{Deriv, Op};

impl Emit {
    /// Opens the body of a loop: like a region, but it may use values from outside.
    pub fn open_loop(&mut self, name: &str) {
        self.open_region(name);
        self.current_mut().captures = Some(Captures::default());
    }

    /// Opens a region that runs once and may use values from outside.
    pub fn open_capturing(&mut self, name: &str) {
        self.open_region(name);
        self.current_mut().captures = Some(Captures { once: true, ..Captures::default() });
    }

    /// The values of the region around the open one that the open one captures, in order of first use.
    pub fn captured(&self) -> Vec<Value> {
        self.current().captures.iter().flat_map(|c| &c.pairs).map(|p| p.0).collect()
    }

    /// Makes the open region capture `outer`, values of the region around it, in this order. They include all that it
    /// captures already.
    pub fn capture_all(&mut self, outer: &[Value]) {
        let level = self.open.len() - 1;
        for &v in outer {
            self.capture(level, v);
        }
        if let Some(captures) = &mut self.current_mut().captures {
            captures.pairs.sort_by_key(|p| outer.iter().position(|&v| v == p.0));
        }
    }

    /// True if a derivative may be asked for that passes through `v`, a value of the open region: it depends
    /// differentiably on a leaf, or on an argument that is not captured from outside.
    pub fn may_carry_gradient(&self, v: Value) -> bool {
        let mut todo = vec![(self.open.len() - 1, v)];
        let mut seen = hashbrown::HashSet::new();
        while let Some((level, v)) = todo.pop() {
            let b = &self.open[level];
            let (Some(n), Some(ty)) = (b.def.get(v.at()).map(|n| n.at()), b.ty.get(v.at())) else { continue };
            if !ty.dtype.is_differentiable() || !seen.insert((level, v)) {
                continue;
            }
            let outer = b.captures.iter().flat_map(|c| &c.pairs).find(|p| p.1 == v);
            match (b.op[n], outer) {
                (Op::ARG, Some(&(outer, _))) => todo.push((level - 1, outer)),
                (Op::ARG, None) => return true,
                (op, _) if op.is_named_leaf() => return true,
                (op, _) if matches!(self.ops[op.0 as usize].deriv, Deriv::Zero) => {}
                _ => todo.extend(b.args_of(n).iter().map(|&a| (level, a))),
            }
        }
        false
    }

    /// The value of the entry that `v`, a value of the open region, is or captures.
    pub(super) fn value_in_entry(&self, v: Value) -> Option<Value> {
        let mut inner = self.open.iter().skip(1).rev();
        inner.try_fold(v, |v, b| b.captures.as_ref()?.pairs.iter().find(|p| p.1 == v).map(|p| p.0))
    }

    /// The value of the open region for value `v` of scope `scope`: `v` itself, or the argument that captures it.
    pub fn import_captured(&mut self, v: Value, scope: u32) -> Value {
        if v == Value::NONE {
            return v;
        }
        if self.region_scope() == scope {
            let known = v.at() < self.current().ty.len();
            return if known { v } else { self.capture_unknown(v) };
        }
        let Some(from) = self.open.iter().position(|b| b.scope == scope) else {
            self.fail(Error::new(Kind::Verify, "a value of a region that is closed is used outside it; yield it"));
            return Value::NONE;
        };
        (from + 1..self.open.len()).fold(v, |v, level| self.capture(level, v))
    }

    fn capture_unknown(&mut self, v: Value) -> Value {
        self.fail(Error::new(Kind::Verify, format!("{v} is no value of this region")));
        Value::NONE
    }

    /// The argument of body `level` that captures value `v` of the region around it.
    fn capture(&mut self, level: usize, v: Value) -> Value {
        let ty = self.open[level - 1].ty.get(v.at()).copied();
        let (Some(captures), Some(ty)) = (&self.open[level].captures, ty) else {
            if v != Value::NONE {
                let why = "a region sees its own arguments only; a value from outside is used in it";
                self.fail(Error::new(Kind::Verify, why));
            }
            return Value::NONE;
        };
        if let Some(&known) = captures.known.get(&v) {
            return known;
        }
        let arg = self.at_region_level(level, |e| e.late_capture_arg(ty));
        if let Some(captures) = &mut self.open[level].captures {
            captures.pairs.push((v, arg));
            captures.known.insert(v, arg);
        }
        arg
    }

    /// Adds an argument that gets its number when the body is closed.
    fn late_capture_arg(&mut self, ty: Ty) -> Value {
        self.emit(Op::ARG, &[], &ArgAttrs { index: 0, dtype: ty.dtype, shape: ty.shape }.list()).at(0)
    }

    /// The random key of the open region, given that of the entry. In the body of a loop, the key is folded with the
    /// number of the iteration.
    pub fn loop_key_here(&mut self, key: Value) -> Value {
        (1..self.open.len()).fold(key, |key, level| self.loop_key_at(level, key))
    }

    fn loop_key_at(&mut self, level: usize, outer: Value) -> Value {
        if let Some(key) = self.open[level].captures.as_ref().and_then(|c| c.key) {
            return key;
        }
        let captured = self.capture(level, outer);
        if self.open[level].captures.as_ref().is_some_and(|c| c.once) {
            return captured;
        }
        let Ok(shape) = self.shapes.intern(&[]) else { return Value::NONE };
        let (index, key) = self.at_region_level(level, |e| {
            let index = e.late_capture_arg(Ty { dtype: DType::U32, shape });
            (index, e.emit(Op::RNG_FOLD, &[captured, index], &[]).at(0))
        });
        if let Some(captures) = &mut self.open[level].captures {
            (captures.index, captures.key) = (Some(index), Some(key));
        }
        key
    }

    /// Makes the number of the iteration the last carry of the open body, if the body uses it: its argument, a `u32`.
    /// The caller gives it a start and yields the next number.
    pub fn carry_iteration_number(&mut self) -> Option<Value> {
        let captures = self.current_mut().captures.as_mut()?;
        captures.index_is_carry = captures.index.is_some();
        captures.index
    }

    /// Closes the body of a loop whose first arguments are `carries` carries and then `xs` slices of stacked inputs.
    pub fn close_loop_region(&mut self, carries: usize, xs: usize, yields: &[Value]) -> Closed {
        let none = Closed { region: Region::NONE, captures: Vec::new(), indexed: false };
        let Some(captures) = self.current_mut().captures.take() else {
            self.fail(Error::new(Kind::Verify, "the body of a loop is closed that was not opened"));
            return none;
        };
        let body = self.current();
        let node = |v: &Value| body.def.get(v.at()).map(|n| n.at());
        let caught = captures.pairs.iter().filter_map(|p| node(&p.1));
        let index = captures.index.as_ref().and_then(node);
        let (last_carry, last) = if captures.index_is_carry { (index, None) } else { (None, index) };
        let own = (0..carries).chain(last_carry);
        let order: Vec<usize> = own.chain(caught).chain(carries..carries + xs).chain(last).collect();
        if order.iter().any(|&n| body.op.get(n) != Some(&Op::ARG)) {
            self.fail(Error::new(Kind::Verify, "the body of a loop has fewer arguments than it was opened with"));
            self.close_region(&[]);
            return none;
        }
        let map = self.hoist_captures(&order);
        let yields: Vec<Value> = yields.iter().map(|y| map.get(y.at()).copied().unwrap_or(Value::NONE)).collect();
        let indexed = captures.index.is_some() && !captures.index_is_carry;
        let captures = captures.pairs.iter().map(|p| p.0).collect();
        Closed { region: self.close_region(&yields), captures, indexed }
    }

    /// Moves the arguments `args` of the open region to its front, in this order. The new id of each value.
    fn hoist_captures(&mut self, args: &[usize]) -> Vec<Value> {
        let old = std::mem::replace(self.current_mut(), Body::new());
        let mut first = vec![false; old.op.len()];
        args.iter().for_each(|&n| first[n] = true);
        let rest = (0..old.op.len()).filter(|&n| !first[n]);
        let order: Vec<usize> = args.iter().copied().chain(rest).collect();
        let mut map = vec![Value::NONE; old.def.len()];
        let mut b = Body { name: old.name, scope: old.scope, ..Body::new() };
        for (i, &n) in order.iter().enumerate() {
            if old.op[n] == Op::ARG {
                // The first attribute word of an argument is its number. Arguments share no words.
                self.extra[old.attr[n] as usize + 1] = i as u32;
            }
            b.op.push(old.op[n]);
            b.attr.push(old.attr[n]);
            b.loc.push(old.loc[n]);
            b.args.extend(old.args_of(n).iter().map(|a| map[a.at()]));
            b.args_at.push(b.args.len() as u32);
            for v in old.outs(n).iter() {
                map[v.at()] = Value::new(b.def.len());
                b.def.push(Node::new(i));
                b.ty.push(old.ty[v.at()]);
                b.names.push(old.names[v.at()]);
            }
            b.outs_at.push(b.def.len() as u32);
        }
        *self.current_mut() = b;
        map
    }
}
