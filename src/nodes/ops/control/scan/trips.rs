//! The number of iterations that a loop ran, where one of its carries counts them.

use super::Scan;
use crate::arena::{Node, Value, ids::Id};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::graph::Graph;
use crate::nodes::ir::leaf::ArgAttrs;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::constant::attrs::{ConstantAttrs, FullAttrs};
use crate::nodes::ops::pointwise::attrs::MapAttrs;

/// The carry of loop `n`, `i64[]`, that starts at 0 and to which each iteration adds 1: behind the loop it is the
/// number of iterations that ran.
pub fn trips_carry(g: Graph<'_>, n: Node) -> Option<usize> {
    let s = Scan::of(&g.attrs(n));
    let mut carries = g.region_args(s.body).zip(g.region_yields(s.body)).take(s.carries).enumerate();
    let counts = |i: usize, arg: Value, next: Value| {
        let integer = g.dtype[arg.at()] == DType::I64 && g.dims(arg).is_empty();
        integer && Place::of(g, g.args_of(n)[i]).is(0) && Place::of(g, next).follows(arg)
    };
    carries.find(|&(i, (arg, &next))| counts(i, arg, next)).map(|(i, _)| i)
}

/// Where a value is made: a value of a region, or of the region of the `map` node that is given.
#[derive(Clone, Copy)]
struct Place<'x> {
    g: Graph<'x>,
    value: Value,
    map: Option<Node>,
}

impl<'x> Place<'x> {
    /// Where `value` is made, through the regions of `map` nodes.
    fn of(g: Graph<'x>, value: Value) -> Place<'x> {
        let n = g.def[value.at()];
        let inner = (g.op[n.at()] == Op::MAP).then(|| {
            let yields = g.region_yields(MapAttrs::of(&g.attrs(n)).body);
            g.outs_of(n).position(|out| out == value).map(|i| Place { g, value: yields[i], map: Some(n) }.outside())
        });
        inner.flatten().unwrap_or(Place { g, value, map: None })
    }

    /// An argument of a `map` region is what the node reads.
    fn outside(self) -> Place<'x> {
        let Place { g, value, map } = self;
        let n = g.def[value.at()];
        match map.filter(|_| g.op[n.at()] == Op::ARG) {
            Some(map) => Place::of(g, g.args_of(map)[ArgAttrs::of(&g.attrs(n)).index as usize]),
            None => self,
        }
    }

    /// True if it is the number `x`.
    fn is(self, x: i64) -> bool {
        let n = self.g.def[self.value.at()];
        let attrs = self.g.attrs(n);
        match self.g.op[n.at()] {
            Op::FULL => FullAttrs::of(&attrs).value == x as f64,
            Op::CONSTANT => ConstantAttrs::of(&attrs).data == x.to_le_bytes(),
            _ => false,
        }
    }

    /// True if it is `arg` + 1.
    fn follows(self, arg: Value) -> bool {
        let Place { g, value, map } = self;
        let n = g.def[value.at()];
        let operand = |i: usize| Place { g, value: g.args_of(n)[i], map }.outside();
        let plus = |i: usize| operand(i).map.is_none() && operand(i).value == arg && operand(1 - i).is(1);
        g.op[n.at()] == Op::ADD && (plus(0) || plus(1))
    }
}
