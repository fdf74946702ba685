//! Random numbers as methods of [`Var`] and [`Builder`].

use crate::arena::Value;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::emit::Emit;
use crate::nodes::ir::leaf::{InitKind, StateAttrs};
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::random::DropoutAttrs;

impl<'g> Var<'g> {
    /// Zeroes each element with probability `p` and scales the others by 1/(1 − p), of `f32` or `f64`. The mask follows
    /// from the seed, the step and this call alone. `p` outside of [0, 1] is an error.
    #[track_caller]
    pub fn dropout(self, p: f64) -> Var<'g> {
        let (key, stream) = (self.g.rng(), self.g.fresh_stream());
        self.g.emit1(Op::DROPOUT, &[self, key], &DropoutAttrs { p, stream }.list())
    }
}

/// The name of the state that is the key of all random ops.
pub const RNG_STATE: &str = "rng";

impl Emit {
    /// The state that is the key of all random ops; each step advances it. The entry must be the open region.
    fn rng_state(&mut self) -> Value {
        let known = self.leaf_called(RNG_STATE).filter(|&v| self.def(v).is_some_and(|d| d.op == Op::STATE));
        if let Some(v) = known {
            return v;
        }
        let Ok(shape) = self.shapes.intern(&[4]) else { return Value::NONE };
        let init = InitKind::Zeros;
        let name = self.strings.intern(RNG_STATE);
        let attrs = StateAttrs { name, dtype: DType::U32, shape, init, scale: 0.0, averages: None, start: None };
        let key = self.leaf(Op::STATE, RNG_STATE, &attrs.list()[1..]);
        let next = self.emit(Op::RNG_NEXT, &[key], &[]).at(0);
        self.update(key, next);
        key
    }
}

impl Builder {
    /// The random key, `u32[4]`: a state with the seed and the step, which each step advances by one. All random ops of
    /// a graph share it; each call returns the same state. In the body of a loop it is the key of the iteration, made
    /// from the state and the iteration's number.
    #[track_caller]
    pub fn rng(&self) -> Var<'_> {
        self.record_location();
        let key = self.with(|e| {
            let key = e.in_entry_region(Emit::rng_state);
            e.loop_key_here(key)
        });
        self.var(key)
    }

    /// A number that tells the draws of one random op from those of others: different for each call in this graph.
    pub fn fresh_stream(&self) -> i64 {
        self.with(|e| e.all_values()) as i64
    }
}
