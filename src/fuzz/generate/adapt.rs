//! Operands: values of the graph, made to fit by casts, broadcasts, slices, reshapes and clamps.

use super::Generator;
use crate::arena::{DType, Value};
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::opdef::{Domain, Op};
use crate::nodes::ops::constant::attrs::{FullAttrs, IotaAttrs};
use crate::nodes::ops::layout::attrs::{SliceAttrs, ToShapeAttrs};
use crate::nodes::ops::pointwise::attrs::{CastAttrs, ClampAttrs};

/// The bounds of a clamp into `domain`, where operands from elsewhere are better limited.
fn clamp_bounds(domain: Domain) -> Option<(f64, f64)> {
    match domain {
        Domain::Real | Domain::Distinct | Domain::Dominant | Domain::Bit | Domain::Bits | Domain::Code => None,
        Domain::Positive => Some((0.5, 2.0)),
        Domain::Beyond => Some((2.5, 4.0)),
        Domain::Chance => Some((0.05, 0.95)),
        Domain::Unit => Some((-0.875, 0.875)),
        Domain::Index(n) => Some((0.0, n.saturating_sub(1) as f64)),
        Domain::Count(n) => Some((1.0, n.max(1) as f64)),
    }
}

impl Generator<'_, '_> {
    /// A value of type `ty` for an operand of `domain`: one of the graph where one can be made to fit, else a new one.
    /// `loose` allows floats outside of the domain, now and then.
    pub(super) fn adapt_operand(&mut self, ty: Ty, domain: Option<Domain>, loose: bool) -> Option<Value> {
        let connect = (self.draw)(16) < self.options.connected;
        let known = if connect { self.adapt_fitting(ty, domain, loose) } else { None };
        let v = known.or_else(|| self.fresh_leaf(ty, domain))?;
        let leaf = self.e.def(v).is_some_and(|d| d.op.is_named_leaf());
        // A new leaf is drawn for its reader.
        if domain == Some(Domain::Dominant) && !leaf { self.adapt_to_dominant(v, ty) } else { Some(v) }
    }

    /// The matrices of `v`, made small, plus three times the identity: they have factors. Those of NaN have none.
    fn adapt_to_dominant(&mut self, v: Value, ty: Ty) -> Option<Value> {
        let rank = self.e.shapes.dims(ty.shape).len();
        let ops = [Op::IOTA, Op::EQ, Op::CAST, Op::MUL, Op::ADD, Op::CLAMP, Op::FULL];
        let dtypes = [DType::I32, DType::Bool];
        if rank < 2 || !ops.iter().all(|&op| self.may(op)) || !dtypes.iter().all(|&d| self.may_have(d)) {
            return None;
        }
        let position = |axis: usize| IotaAttrs { axis: axis as i64, dtype: DType::I32, shape: ty.shape };
        let row = self.emit_one(Op::IOTA, &[], &position(rank - 2).list())?;
        let col = self.emit_one(Op::IOTA, &[], &position(rank - 1).list())?;
        let diagonal = self.emit_one(Op::EQ, &[row, col], &[])?;
        let diagonal = self.emit_one(Op::CAST, &[diagonal], &CastAttrs { to: ty.dtype }.list())?;
        let three = FullAttrs { value: 3.0, dtype: ty.dtype, shape: ty.shape };
        let three = self.emit_one(Op::FULL, &[], &three.list())?;
        let raised = self.emit_one(Op::MUL, &[diagonal, three], &[])?;
        let small = self.emit_one(Op::CLAMP, &[v], &ClampAttrs { lo: -0.0625, hi: 0.0625 }.list())?;
        self.emit_one(Op::ADD, &[small, raised], &[])
    }

    /// A recent value that is of type `ty`, or that becomes one.
    fn adapt_fitting(&mut self, ty: Ty, domain: Option<Domain>, loose: bool) -> Option<Value> {
        let found = self.adapt_nearest(ty)?;
        // Keys of random numbers and masks of bits are no numbers.
        if domain == Some(Domain::Bits) && self.e.ty(found) != ty {
            return None;
        }
        let cast = self.adapt_dtype(found, ty.dtype)?;
        let shaped = self.adapt_shape(cast, ty)?;
        match domain.and_then(clamp_bounds) {
            // Outside of the domain of a function, results are NaN. Indices must stay in range, and variances positive.
            Some(_) if loose && ty.dtype.is_float() && self.chance(1, 8) => Some(shaped),
            Some((lo, hi)) if self.may(Op::CLAMP) => self.emit_one(Op::CLAMP, &[shaped], &ClampAttrs { lo, hi }.list()),
            Some(_) => None,
            None => Some(shaped),
        }
    }

    /// The best of a few recent values for an operand of type `ty`.
    fn adapt_nearest(&mut self, ty: Ty) -> Option<Value> {
        let mut best: Option<(u32, Value)> = None;
        for _ in 0..6 {
            let v = self.recent()?;
            let has = self.e.ty(v);
            let leaf = self.e.def(v).is_some_and(|d| d.op.is_named_leaf());
            let fits = u32::from(has.dtype == ty.dtype) * 4 + u32::from(has.shape == ty.shape) * 2 + u32::from(!leaf);
            if best.is_none_or(|b| fits > b.0) {
                best = Some((fits, v));
            }
        }
        best.map(|b| b.1)
    }

    fn adapt_dtype(&mut self, v: Value, to: DType) -> Option<Value> {
        match self.e.dtype(v) == to {
            true => Some(v),
            false if !to.is_complex() && self.may(Op::CAST) => self.emit_one(Op::CAST, &[v], &CastAttrs { to }.list()),
            false => None,
        }
    }

    /// `v` in the shape of `ty`: broadcast if it can be, else its first elements, repeated if there are too few.
    pub(super) fn adapt_shape(&mut self, v: Value, ty: Ty) -> Option<Value> {
        let (from, to) = (self.e.dims(v), self.e.shapes.dims(ty.shape));
        if from == to {
            return Some(v);
        }
        let fits = from.len() <= to.len() && from.iter().rev().zip(to.iter().rev()).all(|(a, b)| a == b || *a == 1);
        if fits {
            return self.adapt_by_reshape(Op::BROADCAST, v, &to);
        }
        let inside = from.len() == to.len() && from.iter().zip(to.iter()).all(|(a, b)| a >= b);
        if inside {
            return self.adapt_to_first_elements(v, &to);
        }
        let (have, want) = (from.numel(), to.numel());
        if have == 0 {
            return None;
        }
        let flat = if from.len() == 1 { v } else { self.adapt_by_reshape(Op::RESHAPE, v, &[have])? };
        let copies = want.div_ceil(have);
        let long = match copies {
            0 | 1 => flat,
            _ => {
                let rows = self.adapt_by_reshape(Op::BROADCAST, flat, &[copies, have])?;
                self.adapt_by_reshape(Op::RESHAPE, rows, &[copies * have])?
            }
        };
        let cut = if have * copies.max(1) == want { long } else { self.adapt_to_first_elements(long, &[want])? };
        if to.len() == 1 { Some(cut) } else { self.adapt_by_reshape(Op::RESHAPE, cut, &to) }
    }

    fn adapt_by_reshape(&mut self, op: Op, v: Value, to: &[usize]) -> Option<Value> {
        let shape = self.e.shapes.intern(to).ok()?;
        if !self.may(op) || !self.fits(Ty { dtype: self.e.dtype(v), shape }) {
            return None;
        }
        self.emit_one(op, &[v], &ToShapeAttrs { shape }.list())
    }

    fn adapt_to_first_elements(&mut self, v: Value, to: &[usize]) -> Option<Value> {
        let limits: Vec<i64> = to.iter().map(|&n| n as i64).collect();
        let (starts, steps) = (vec![0; to.len()], vec![1; to.len()]);
        let attrs = SliceAttrs { starts, limits, steps };
        if self.may(Op::SLICE) { self.emit_one(Op::SLICE, &[v], &attrs.list()) } else { None }
    }
}
