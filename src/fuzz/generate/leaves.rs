//! New leaves, with plain and with unusual start values. Inside regions, fills take their place.

use super::Generator;
use crate::arena::{DType, Value};
use crate::nodes::ir::attr_types::Choice;
use crate::nodes::ir::dtype::Ty;
use crate::nodes::ir::init::LeafInit;
use crate::nodes::ir::leaf::{InitKind, InputAttrs, ParamAttrs, StateAttrs};
use crate::nodes::ir::opdef::{Domain, Op};
use crate::nodes::ops::constant::attrs::FullAttrs;

/// Numbers that lose something in a careless text form.
const NUMBERS: &[f64] =
    &[0.0, -0.0, 1.0, 0.1, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e300, 5e-324, -1.0 / 3.0, 16777217.0];

/// Such numbers that are scales of start values of any type.
const SCALES: &[f64] = &[0.0, -0.0, 1.0, 0.1, 5e-324, 1.0 / 3.0, 65504.0];

/// A number of `domain` that every dtype which operands of this domain have can hold.
fn generated_leaf_number(domain: Domain) -> f64 {
    match domain {
        Domain::Real | Domain::Distinct | Domain::Dominant | Domain::Unit | Domain::Chance => 0.5,
        Domain::Positive | Domain::Count(_) | Domain::Bit | Domain::Bits | Domain::Code => 1.0,
        Domain::Beyond => 3.0,
        Domain::Index(_) => 0.0,
    }
}

impl Generator<'_, '_> {
    /// Updates of some params and states.
    pub(super) fn updates(&mut self) {
        for leaf in self.leaves.clone() {
            let updated = self.e.def(leaf).is_some_and(|def| def.op != Op::INPUT);
            if updated && self.chance(1, 3) {
                let ty = self.e.ty(leaf);
                if let Some(next) = self.adapt_operand(ty, None, false) {
                    self.e.update(leaf, next);
                }
            }
        }
    }

    /// A value from outside of type `ty`: a leaf, or in a region a fill. `domain` is that of its first reader.
    pub(super) fn fresh_leaf(&mut self, ty: Ty, domain: Option<Domain>) -> Option<Value> {
        let kind = (self.draw)(4);
        if self.level > 0 || kind == 3 && !ty.dtype.is_complex() && self.may(Op::FULL) {
            return self.full_leaf(ty, domain);
        }
        let dims = self.e.shapes.dims(ty.shape);
        let begin = self.leaf_start(ty.dtype, dims.numel());
        let (init, scale, start) = (begin.kind, begin.scale, begin.start_attr());
        let called = format!("{}{}", self.pick(&["x", "fc1.weight", "odd name ", "7", "é"]), self.leaves.len());
        let (name, Ty { dtype, shape }) = (self.e.strings.intern(&called), ty);
        let v = match kind {
            0 | 3 => {
                let default = (kind == 3).then_some(1.0);
                let attrs = InputAttrs { name, dtype, shape, default };
                self.e.leaf(Op::INPUT, &called, &attrs.list()[1..])
            }
            1 => {
                let attrs = ParamAttrs { name, dtype, shape, init, scale, frozen: false, start };
                self.e.leaf(Op::PARAM, &called, &attrs.list()[1..])
            }
            _ => {
                let attrs = StateAttrs { name, dtype, shape, init, scale, averages: None, owner: None, start };
                self.e.leaf(Op::STATE, &called, &attrs.list()[1..])
            }
        };
        if self.e.take_error().is_some() {
            return None;
        }
        self.leaves.push(v);
        Some(v)
    }

    /// A fill of type `ty`.
    fn full_leaf(&mut self, ty: Ty, domain: Option<Domain>) -> Option<Value> {
        let Ty { dtype, shape } = ty;
        let held: Vec<f64> = NUMBERS.iter().copied().filter(|&x| dtype.holds(x)).collect();
        let value = match domain {
            Some(domain) => generated_leaf_number(domain),
            None if self.chance(1, 8) => self.pick(&held),
            None => self.pick(&held[..held.len().min(3)]),
        };
        self.emit_one(Op::FULL, &[], &FullAttrs { value, dtype, shape }.list())
    }

    /// Start values of `count` elements: plain ones, a number, or a number for each element.
    fn leaf_start(&mut self, dtype: DType, count: usize) -> LeafInit {
        let held: Vec<f64> = NUMBERS.iter().copied().filter(|&x| dtype.can_hold(x)).collect();
        match (self.draw)(6) {
            4 => LeafInit::new(InitKind::Constant, 0.0, Some(vec![self.pick(&held)])),
            5 if count <= 64 => {
                LeafInit::new(InitKind::Values, 0.0, Some((0..count).map(|_| self.pick(&held)).collect()))
            }
            kind => LeafInit::new(InitKind::from_choice_index(kind % 4), self.pick(SCALES), None),
        }
    }
}
