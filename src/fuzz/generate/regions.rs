//! Loops, choices, calls and custom functions with drawn bodies.

use super::Generator;
use crate::arena::{Region, Value};
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::ops::control::call::CallAttrs;
use crate::nodes::ops::control::cond::IfAttrs;
use crate::nodes::ops::control::custom_fn::CustomFnAttrs;
use crate::nodes::ops::control::scan::{Exit, ScanAttrs};

/// The most regions inside one another.
const MAX_LEVEL: u32 = 3;

impl Generator<'_, '_> {
    /// A node of `op`, which runs a region, with a drawn body.
    pub(super) fn node_with_region(&mut self, op: Op) -> Vec<Value> {
        if self.level >= MAX_LEVEL || self.region_nodes == 0 {
            return Vec::new();
        }
        match op {
            Op::SCAN => self.scan(),
            Op::IF => self.choice(),
            Op::CALL if !self.regions.is_empty() && self.chance(1, 2) => self.call_region_again(),
            Op::CALL | Op::CUSTOM_FN => self.call(op),
            _ => Vec::new(),
        }
    }

    /// Up to `most` recent values, and at least one where there is any.
    fn some_for_region(&mut self, most: u32) -> Vec<Value> {
        (0..=(self.draw)(most)).filter_map(|_| self.recent()).collect()
    }

    /// Opens a region of these arguments and draws nodes into it.
    fn open_region_body(&mut self, tys: &[Ty]) {
        let name = self.pick(&["body", "twice", "odd body", "", "1"]);
        self.e.open_region(name);
        self.level += 1;
        for &ty in tys {
            let v = self.e.region_arg(ty);
            self.name(v);
        }
        for _ in 0..=(self.draw)(6) {
            if self.region_nodes > 0 {
                self.region_nodes -= 1;
                self.node();
            }
        }
    }

    fn close_region_body(&mut self, yields: &[Value]) -> Region {
        self.level -= 1;
        self.e.close_region(yields)
    }

    /// A call or a custom function of a new region.
    fn call(&mut self, op: Op) -> Vec<Value> {
        let args = self.some_for_region(3);
        let tys: Vec<Ty> = args.iter().map(|&v| self.e.ty(v)).collect();
        self.open_region_body(&tys);
        let yields = self.some_for_region(2);
        let body = self.close_region_body(&yields);
        if yields.is_empty() {
            return Vec::new();
        }
        if op == Op::CALL {
            self.regions.push((body, tys));
            return self.emit(op, &args, &CallAttrs { body }.list());
        }
        let captures = i64::from((self.draw)(args.len() as u32 + 1));
        self.emit(op, &args, &CustomFnAttrs { body, captures, vjp: None, jvp: None }.list())
    }

    /// A call of a region that there is already.
    fn call_region_again(&mut self) -> Vec<Value> {
        let i = (self.draw)(self.regions.len() as u32) as usize;
        let (body, tys) = self.regions[i].clone();
        let args: Vec<Value> = tys.into_iter().map_while(|ty| self.adapt_operand(ty, None, false)).collect();
        self.emit(Op::CALL, &args, &CallAttrs { body }.list())
    }

    /// A choice: two branches of the same captured values, whose yields have the types of those of the first.
    fn choice(&mut self) -> Vec<Value> {
        let Ok(shape) = self.e.shapes.intern(&[]) else { return Vec::new() };
        let Some(predicate) = self.adapt_operand(Ty { dtype: DType::Bool, shape }, None, false) else {
            return Vec::new();
        };
        let captured = self.some_for_region(3);
        let tys: Vec<Ty> = captured.iter().map(|&v| self.e.ty(v)).collect();
        self.open_region_body(&tys);
        let yields = self.some_for_region(2);
        let types: Vec<Ty> = yields.iter().map(|&y| self.e.ty(y)).collect();
        let then = self.close_region_body(&yields);
        self.open_region_body(&tys);
        let yields: Vec<Value> = types.iter().map_while(|&ty| self.adapt_operand(ty, None, false)).collect();
        let otherwise = self.close_region_body(&yields);
        if yields.is_empty() || yields.len() < types.len() {
            return Vec::new();
        }
        let args = [&[predicate], &captured[..]].concat();
        self.emit(Op::IF, &args, &IfAttrs { then, otherwise }.list())
    }

    /// A loop: carries and constants of any type, stacked inputs where values have as many rows as there are
    /// iterations.
    fn scan(&mut self) -> Vec<Value> {
        let until = self.chance(1, 4).then(|| self.region_exit_carries()).flatten();
        let mut args: Vec<Value> = until.into_iter().flatten().collect();
        let counted = args.len();
        if !self.chance(1, 4) {
            args.extend(self.some_for_region(2));
        }
        let carries = args.len();
        let consts = (self.draw)(3) as usize;
        args.extend((0..consts).filter_map(|_| self.recent()));
        let mut stacked: Vec<Value> = self.some_for_region(3);
        stacked.retain(|&v| matches!(self.e.dims(v).first(), Some(1..=64)));
        let length = match stacked.first() {
            Some(&v) => self.e.dims(v)[0],
            None => (self.draw)(5) as usize,
        };
        stacked.retain(|&v| self.e.dims(v)[0] == length);
        let mut tys: Vec<Ty> = args.iter().map(|&v| self.e.ty(v)).collect();
        for &v in &stacked {
            let (dtype, dims) = (self.e.dtype(v), self.e.dims(v));
            let Ok(shape) = self.e.shapes.intern(&dims[1..]) else { return Vec::new() };
            tys.push(Ty { dtype, shape });
        }
        self.open_region_body(&tys);
        let last = 1 + (self.draw)(length.max(1) as u32);
        let exit = (counted > 0 && length > 0).then_some(Exit::Flag);
        let mut yields: Vec<Value> = self.region_exit_yields(&tys[..counted], last);
        for (i, &ty) in tys.iter().enumerate().take(carries).skip(yields.len()) {
            yields.push(self.adapt_operand(ty, None, false).unwrap_or(Value(i as u32)));
        }
        let rows = (0..(self.draw)(3)).filter_map(|_| self.recent()).collect::<Vec<_>>();
        let room = self.options.largest_value / length.max(1);
        yields.extend(rows.into_iter().filter(|&v| self.e.dims(v).numel() <= room && self.e.dims(v).len() < 8));
        let consts = (args.len() - carries) as i64;
        let body = self.close_region_body(&yields);
        if yields.is_empty() {
            return Vec::new();
        }
        args.extend(stacked);
        let plain = exit.is_none();
        let keep_every = self.chance(1, 2).then(|| 1 + i64::from((self.draw)(length as u32 + 1)));
        // The bound of a stretch: it ends, or stops the step, with an error that tells another number.
        let bound = (!plain && self.chance(1, 4)).then(|| i64::from((self.draw)(3)));
        let (carries, length, reverse) = (carries as i64, length as i64, plain && self.chance(1, 3));
        let at_once = (carries == 0 && self.chance(1, 2)).then_some(true);
        let attrs = ScanAttrs { body, carries, consts, length, reverse, keep_every, at_once, exit, bound };
        self.emit(Op::SCAN, &args, &attrs.list())
    }

    fn region_exit_full(&mut self, value: f64, dtype: DType) -> Option<Value> {
        let shape = self.e.shapes.intern(&[]).ok()?;
        self.emit_one(Op::FULL, &[], &FullAttrs { value, dtype, shape }.list())
    }

    /// The first carries of a loop that ends early: its flag, and the number of iterations.
    fn region_exit_carries(&mut self) -> Option<[Value; 2]> {
        if ![Op::FULL, Op::ADD, Op::LT].into_iter().all(|op| self.may(op)) {
            return None;
        }
        let on = f64::from(u8::from(!self.chance(1, 4)));
        Some([self.region_exit_full(on, DType::Bool)?, self.region_exit_full(0.0, DType::I64)?])
    }

    /// The next of [`Generator::region_exit_carries`], of types `tys`, in the open body: the loop ends after iteration
    /// `last`.
    fn region_exit_yields(&mut self, tys: &[Ty], last: u32) -> Vec<Value> {
        let next = |d: &mut Self| {
            let (one, last) = (d.region_exit_full(1.0, DType::I64)?, d.region_exit_full(f64::from(last), DType::I64)?);
            let count = d.emit_one(Op::ADD, &[Value(1), one], &[])?;
            Some(vec![d.emit_one(Op::LT, &[count, last], &[])?, count])
        };
        if tys.is_empty() { Vec::new() } else { next(self).unwrap_or_default() }
    }
}
