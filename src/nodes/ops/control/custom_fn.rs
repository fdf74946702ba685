//! The custom function: a region with derivative rules of its own, which are regions too.
//!
//! Operands are the arguments, then `captures` values from outside; every region takes them all, in this order. `vjp`
//! and `jvp` also take the results. `vjp` then takes a cotangent of each float result, and yields one of each float
//! argument. `jvp` takes a tangent of each float argument, and yields one of each float result. Invariant: a rule gives
//! captured values neither tangents nor cotangents. If the body reads a captured value that needs
//! one, there is no derivative.

use crate::arena::Region;
use crate::ensure;
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::infer::{Infer, Signature};
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ops::common::cost::cost_free;
use crate::nodes::{Graph, Ty};

attrs! {
    /// Attributes of a custom function. They begin with those of a call, as it runs like one.
    pub struct CustomFnAttrs {
        /// The function.
        body: Region,
        /// Number of captured values, the last operands.
        captures: i64,
        /// The cotangents of the arguments.
        vjp: Option<Region>,
        /// The tangents of the results.
        jvp: Option<Region>,
    }
}

impl CustomFnAttrs {
    /// True if the function has a derivative rule.
    pub fn has_rules(&self) -> bool {
        self.vjp.is_some() || self.jvp.is_some()
    }
}

/// True if node `n` is a custom function with a derivative rule.
pub fn has_custom_rules(g: Graph<'_>, n: crate::arena::Node) -> bool {
    matches!(g.def_of(n).deriv, Deriv::OwnRules) && CustomFnAttrs::of(&g.attrs(n)).has_rules()
}

/// A region on the operands, with derivative rules of its own. It is inlined before lowering.
pub const CUSTOM_FN: OpDef = OpDef {
    name: "custom_fn",
    doc: "the yields of region `body` on the operands; its derivative is what the regions `vjp` and `jvp` compute",
    arity: Arity::AtLeast(0),
    attrs: CustomFnAttrs::FIELDS,
    flags: Flags::PURE,
    infer: infer_custom_fn,
    deriv: Deriv::OwnRules,
    decompose: None,
    lower: Lower::Control,
    cost: cost_free,
    cases: &[
        Case { args: "f[3] f[3]", attrs: "body=@case_body captures=0", domains: REAL },
        Case { args: "f[3] f[3]", attrs: "body=@case_body captures=0 vjp=@case_vjp", domains: REAL },
        Case { args: "f[2,3] f[2,3]", attrs: "body=@case_body captures=0 jvp=@case_jvp", domains: REAL },
        Case { args: "f[700] f[700]", attrs: "body=@case_body captures=0 vjp=@case_vjp jvp=@case_jvp", domains: REAL },
        Case { args: "f[0] f[0]", attrs: "body=@case_body captures=0 vjp=@case_vjp", domains: REAL },
    ],
};

const REAL: &[Domain] = &[Domain::Real];

fn infer_custom_fn(cx: &mut Infer<'_>) -> Result<(), String> {
    let attrs = CustomFnAttrs::of(&cx.attrs);
    let n = cx.args.len();
    let captures = usize::try_from(attrs.captures).ok().filter(|&k| k <= n);
    let captures = captures.ok_or_else(|| format!("{} of {n} operands cannot be captures", attrs.captures))?;
    let body = cx.signature(attrs.body)?;
    custom_fn_fits(cx, "the body", "takes", &body.args, cx.args)?;
    ensure!(!body.yields.is_empty(), "the body yields nothing");
    let floats = |tys: &[Ty]| tys.iter().filter(|ty| ty.dtype.is_differentiable()).copied().collect::<Vec<_>>();
    let (by, of) = (floats(&cx.args[..n - captures]), floats(&body.yields));
    for (name, rule, seeds, results) in [("vjp", attrs.vjp, &of, &by), ("jvp", attrs.jvp, &by, &of)] {
        let Some(rule) = rule else { continue };
        ensure!(!by.is_empty() && !of.is_empty(), "{name} is a rule, and no argument or no result is a float");
        let Signature { args, yields } = cx.signature(rule)?;
        custom_fn_fits(cx, name, "takes", &args, &[cx.args, &body.yields, seeds].concat())?;
        custom_fn_fits(cx, name, "yields", &yields, results)?;
    }
    cx.out.extend(body.yields);
    Ok(())
}

/// An error unless `have`, which region `what` takes or yields, is `want`.
fn custom_fn_fits(cx: &Infer<'_>, what: &str, verb: &str, have: &[Ty], want: &[Ty]) -> Result<(), String> {
    let show = |ty: Ty| format!("{}{}", ty.dtype, cx.shapes.dims(ty.shape));
    ensure!(have.len() == want.len(), "{what} {verb} {} values, and {} are needed", have.len(), want.len());
    for (i, (&have, &want)) in have.iter().zip(want).enumerate() {
        ensure!(have == want, "{what} {verb} {} as value {i}, and {} is needed", show(have), show(want));
    }
    Ok(())
}
