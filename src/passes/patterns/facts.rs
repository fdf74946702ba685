//! What rules ask of fills, products and moves.

use crate::arena::{Node, Value, ids::Id};
use crate::nodes::Op;
use crate::nodes::ir::leaf::ArgAttrs;
use crate::nodes::ir::pattern::PatternFacts;
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::ops::matmul::activation::Activation;
use crate::nodes::ops::matmul::attrs::{MatmulAttrs, MatmulBiasActAttrs};

/// A value times a number.
pub(super) struct Scaled {
    /// The multiplication.
    pub(super) node: Node,
    pub(super) value: Value,
    pub(super) factor: f64,
}

/// The operands of `x·weight`, and whether each is transposed.
pub(super) struct Linear {
    pub(super) x: Value,
    pub(super) weight: Value,
    pub(super) transposed: [bool; 2],
}

impl PatternFacts<'_> {
    /// True if `next` is what the region yields for its argument `v`, as a loop's carry and its next value.
    pub(super) fn is_carried_to(&self, v: Value, next: Value) -> bool {
        let Some(arg) = self.is(v, Op::ARG) else { return false };
        let r = self.g.region_of(arg);
        self.g.region_yields(r).get(ArgAttrs::of(&self.g.attrs(arg)).index as usize) == Some(&next)
    }

    /// The number that fills `v`.
    pub(super) fn fill(&self, v: Value) -> Option<f64> {
        self.is(v, Op::FULL).map(|n| FullAttrs::of(&self.attrs(n)).value)
    }

    /// The operand of `v`, if `v` is a broadcast.
    pub(super) fn repeated(&self, v: Value) -> Option<Value> {
        self.is(v, Op::BROADCAST).map(|n| self.args(n)[0])
    }

    /// The parts of `v`, if `v` is a multiplication by a fill.
    pub(super) fn scaled(&self, v: Value) -> Option<Scaled> {
        let n = self.is(v, Op::MUL)?;
        let a = self.args(n);
        [(0, 1), (1, 0)].into_iter().find_map(|(i, j)| Some(Scaled { node: n, value: a[i], factor: self.fill(a[j])? }))
    }

    /// The operand of `v`, if `v` is a reshape with one reader; its node is pushed to `nodes`. Else `v`.
    pub(super) fn through(&self, v: Value, nodes: &mut Vec<Node>) -> Value {
        match self.is(v, Op::RESHAPE).filter(|_| self.alone(v)) {
            Some(n) => {
                nodes.push(n);
                self.args(n)[0]
            }
            None => v,
        }
    }

    /// The operands of `n`, if `n` is a product by a matrix, biased or not, without an activation.
    pub(super) fn linear(&self, n: Node) -> Option<Linear> {
        let (a, attrs) = (self.args(n), self.attrs(n));
        let plain = match self.g.op[n.at()] {
            Op::MATMUL => true,
            Op::MATMUL_BIAS_ACT => MatmulBiasActAttrs::of(&attrs).act == Activation::None,
            _ => false,
        };
        (plain && self.dims(a[1]).len() == 2).then(|| {
            let MatmulAttrs { ta, tb } = MatmulAttrs::of(&attrs);
            Linear { x: a[0], weight: a[1], transposed: [ta, tb] }
        })
    }
}
