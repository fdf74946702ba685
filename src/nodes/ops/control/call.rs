//! The call of a region: the op, which is inlined before it is lowered, and the builder's method.

use crate::arena::Region;
use crate::ensure;
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::builder::{Builder, Routine, Var, foreign_value_error};
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::results::Results;
use crate::nodes::ops::common::cost::cost_free;

attrs! {
    /// Attributes of a call.
    pub struct CallAttrs {
        /// The region.
        body: Region,
    }
}

/// A region run once on the operands. It is inlined before lowering.
pub const CALL: OpDef = OpDef {
    name: "call",
    doc: "the yields of region `body` on the operands",
    arity: Arity::AtLeast(0),
    attrs: CallAttrs::FIELDS,
    flags: Flags::PURE,
    infer: |cx| {
        let sig = cx.signature(CallAttrs::of(&cx.attrs).body)?;
        ensure!(sig.args == cx.args, "operand types are not those of the region's {} arguments", sig.args.len());
        ensure!(!sig.yields.is_empty(), "the region yields nothing");
        cx.out.extend(sig.yields);
        Ok(())
    },
    deriv: Deriv::Error("calls are inlined before differentiation"),
    batch: Batch::ViaDecompose,
    lower: Lower::Control,
    cost: cost_free,
    cases: &[Case { args: "f[3] f[3]", attrs: "body=@case_body", domains: &[Domain::Real] }],
    ..OpDef::BLANK
};

impl Builder {
    /// Calls a region of this builder. `args` must have the types of the region's arguments. The results are its
    /// yields.
    #[track_caller]
    pub fn call(&self, routine: Routine<'_>, args: &[Var<'_>]) -> Results<'_> {
        self.record_location();
        if !std::ptr::eq(self, routine.g) {
            self.with(|e| e.fail(foreign_value_error("call")));
            return Results::new(self, Vec::new());
        }
        self.emit(Op::CALL, args, &CallAttrs { body: routine.region }.list())
    }
}
