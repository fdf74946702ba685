//! The call of a region, which is inlined before it is lowered.

use crate::arena::Region;
use crate::ensure;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::typed::attrs;
use crate::nodes::ops::cost_free;

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
    decompose: None,
    lower: Lower::Control,
    cost: cost_free,
    cases: &[Case { args: "f[3] f[3]", attrs: "body=@case_body", domains: &[Domain::Real] }],
};
