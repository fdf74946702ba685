//! Methods of [`Var`] and [`Builder`] that draw random numbers.

use crate::arena::Value;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::emit::Emit;
use crate::nodes::ir::leaf::Init;
use crate::nodes::ir::leaf::StateAttrs;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::random::DropoutAttrs;

impl<'g> Var<'g> {
    /// Zeroes each element with probability `p` and scales the rest by 1/(1 − p). The mask follows from the seed, the
    /// step and this call alone.
    #[track_caller]
    pub fn dropout(self, p: f64) -> Var<'g> {
        let (key, stream) = (self.g.rng(), self.g.fresh_stream());
        self.g.emit1(Op::DROPOUT, &[self, key], &DropoutAttrs { p, stream }.list())
    }
}

/// Name of the state that random ops are keyed by.
pub const RNG_STATE: &str = "rng";

impl Emit {
    /// The state that random ops are keyed by, which each step advances. The entry is open.
    fn rng(&mut self) -> Value {
        let known = self.leaf_called(RNG_STATE).filter(|&v| self.def(v).is_some_and(|d| d.op == Op::STATE));
        if let Some(v) = known {
            return v;
        }
        let Ok(shape) = self.shapes.intern(&[4]) else { return Value::NONE };
        let (init, scale) = Init::Zeros.attrs();
        let name = self.strings.intern(RNG_STATE);
        let attrs = StateAttrs { name, dtype: DType::U32, shape, init, scale, averages: None };
        let key = self.leaf(Op::STATE, RNG_STATE, &attrs.list()[1..]);
        let next = self.emit(Op::RNG_NEXT, &[key], &[]).at(0);
        self.update(key, next);
        key
    }
}

impl Builder {
    /// The random key: a state that holds the seed and the step, and that each step advances by one.
    /// All random ops of a graph share it; each call returns the same state. In the body of a loop: the key of the
    /// iteration, made from the state and the iteration's number.
    #[track_caller]
    pub fn rng(&self) -> Var<'_> {
        self.record_location();
        let key = self.with(|e| {
            let key = e.in_entry(Emit::rng);
            e.key_here(key)
        });
        self.var(key)
    }

    /// A number for one random op: different for each call in this graph.
    pub fn fresh_stream(&self) -> i64 {
        self.with(|e| e.all_values()) as i64
    }
}
