//! The custom function: a region with derivative rules of its own, which are regions too.
//!
//! Operands are the arguments, then `captures` values from outside; every region takes them all, in this order. `vjp`
//! and `jvp` also take the results. `vjp` then takes a cotangent of each float result, and yields one of each float
//! argument. `jvp` takes a tangent of each float argument, and yields one of each float result.
//!
//! Each closure of a [`CustomFn`] runs once, in [`CustomFn::call`]. The regions of the function and of its rules are
//! set aside until all are written, because each takes what any of them captures.
//!
//! Invariant: a rule gives captured values neither tangents nor cotangents. If the body reads a captured value that
//! needs one, there is no derivative.

use crate::arena::{Region, Value};
use crate::ensure;
use crate::error::{Error, Kind};
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::emit::Aside;
use crate::nodes::ir::infer::{Infer, Signature};
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
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
pub fn has_derivative_rules(g: Graph<'_>, n: crate::arena::Node) -> bool {
    matches!(g.def_of(n).deriv, Deriv::OwnRules) && CustomFnAttrs::of(&g.attrs(n)).has_rules()
}

/// A region on the operands, with derivative rules of its own. It is inlined before lowering.
pub const CUSTOM_FN: OpDef = OpDef {
    name: "custom_fn",
    doc: "the yields of region `body` on the operands; its derivative is what the regions `vjp` and `jvp` compute",
    arity: Arity::AtLeast(0),
    attrs: CustomFnAttrs::FIELDS,
    flags: Flags::PURE,
    infer: infer_types,
    deriv: Deriv::OwnRules,
    batch: Batch::Regions,
    lower: Lower::Control,
    cost: cost_free,
    cases: &[
        Case { args: "f[3] f[3]", attrs: "body=@case_body captures=0", domains: REAL },
        Case { args: "f[3] f[3]", attrs: "body=@case_body captures=0 vjp=@case_vjp", domains: REAL },
        Case { args: "f[2,3] f[2,3]", attrs: "body=@case_body captures=0 jvp=@case_jvp", domains: REAL },
        Case { args: "f[700] f[700]", attrs: "body=@case_body captures=0 vjp=@case_vjp jvp=@case_jvp", domains: REAL },
        Case { args: "f[0] f[0]", attrs: "body=@case_body captures=0 vjp=@case_vjp", domains: REAL },
    ],
    ..OpDef::BLANK
};

const REAL: &[Domain] = &[Domain::Real];

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let attrs = CustomFnAttrs::of(&cx.attrs);
    let n = cx.args.len();
    let captures = usize::try_from(attrs.captures).ok().filter(|&k| k <= n);
    let captures = captures.ok_or_else(|| format!("{} of {n} operands cannot be captures", attrs.captures))?;
    let body = cx.signature(attrs.body)?;
    check_types_fit(cx, "the body", "takes", &body.args, cx.args)?;
    ensure!(!body.yields.is_empty(), "the body yields nothing");
    let floats = |tys: &[Ty]| tys.iter().filter(|ty| ty.dtype.is_differentiable()).copied().collect::<Vec<_>>();
    let (by, of) = (floats(&cx.args[..n - captures]), floats(&body.yields));
    for (name, rule, seeds, results) in [("vjp", attrs.vjp, &of, &by), ("jvp", attrs.jvp, &by, &of)] {
        let Some(rule) = rule else { continue };
        ensure!(!by.is_empty() && !of.is_empty(), "{name} is a rule, and no argument or no result is a float");
        let Signature { args, yields } = cx.signature(rule)?;
        check_types_fit(cx, name, "takes", &args, &[cx.args, &body.yields, seeds].concat())?;
        check_types_fit(cx, name, "yields", &yields, results)?;
    }
    cx.out.extend(body.yields);
    Ok(())
}

/// An error unless `have`, which region `what` takes or yields, is `want`.
fn check_types_fit(cx: &Infer<'_>, what: &str, verb: &str, have: &[Ty], want: &[Ty]) -> Result<(), String> {
    let show = |ty: Ty| format!("{}{}", ty.dtype, cx.shapes.dims(ty.shape));
    ensure!(have.len() == want.len(), "{what} {verb} {} values, and {} are needed", have.len(), want.len());
    for (i, (&have, &want)) in have.iter().zip(want).enumerate() {
        ensure!(have == want, "{what} {verb} {} as value {i}, and {} is needed", show(have), show(want));
    }
    Ok(())
}

/// The function itself: results from arguments.
type Function<'g, 'f> = Box<dyn FnOnce(&[Var<'g>]) -> Vec<Var<'g>> + 'f>;

/// A rule: from arguments, results, and cotangents or tangents.
type Rule<'g, 'f> = Box<dyn FnOnce(&'g Builder, &[Var<'g>], &[Var<'g>], &[Var<'g>]) -> Vec<Option<Var<'g>>> + 'f>;

/// A function with derivative rules of its own, before it is called. [`Builder::custom_fn`] makes it.
#[must_use = "nothing is computed until `call`"]
pub struct CustomFn<'g, 'f> {
    g: &'g Builder,
    name: String,
    args: Vec<Var<'g>>,
    body: Function<'g, 'f>,
    vjp: Option<Rule<'g, 'f>>,
    jvp: Option<Rule<'g, 'f>>,
}

/// A region that is written and set aside.
struct CustomFnRegion {
    region: Option<Aside>,
    /// Number of its first arguments, which are those of the function.
    args: usize,
    /// Number of its other arguments.
    more: usize,
    yields: Vec<Value>,
    /// Types of the yields.
    tys: Vec<Ty>,
    /// What it captures.
    captured: Vec<Value>,
}

impl Builder {
    /// A function `f` of `args` whose derivative you give: [`CustomFn::vjp`] for reverse mode, [`CustomFn::jvp`] for
    /// forward mode, [`CustomFn::call`] to use it. `name` appears in the text form and in errors.
    ///
    /// With one rule, the other mode uses its transpose, so both modes agree. Without a rule, `f` itself is
    /// differentiated. Second derivatives differentiate the rule's own ops.
    ///
    /// `f` and the rules may use values from outside. If there is a rule, a float value from outside that `f` uses is
    /// an error, because it would get no gradient: pass it as an argument, or use its `stop_gradient`.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// // log(1 + eˣ) without overflow, and its derivative as one op.
    /// let g = Builder::new("softplus");
    /// let x = g.input("x", [3], DType::F64);
    /// let y = g
    ///     .custom_fn("log1pexp", &[x], |x| vec![x[0].maximum(0.0) + (-x[0].abs()).exp().log1p()])
    ///     .jvp(|_, x, _, dx| vec![Some(x[0].sigmoid() * dx[0])])
    ///     .call()[0];
    /// let graph = g.finish([y.sum(..).named("loss")])?;
    /// let mut p = Session::new().compile(&grad(&graph, "loss", &GradOptions::wrt(&["x"]))?)?;
    /// p.values_mut::<f64>("x")?.copy_from_slice(&[-1000.0, 0.0, 1000.0]);
    /// p.step()?;
    /// assert_eq!(p.values::<f64>("grad.x")?, [0.0, 0.5, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn custom_fn<'g, 'f>(
        &'g self,
        name: &str,
        args: &[Var<'g>],
        f: impl FnOnce(&[Var<'g>]) -> Vec<Var<'g>> + 'f,
    ) -> CustomFn<'g, 'f> {
        CustomFn { g: self, name: name.to_string(), args: args.to_vec(), body: Box::new(f), vjp: None, jvp: None }
    }
}

impl<'g, 'f> CustomFn<'g, 'f> {
    /// The rule of reverse mode. It gets the arguments, the results, and a cotangent of each result; it returns a
    /// cotangent of each argument, of the argument's type. `None` is zero. An argument that is not a float takes
    /// `None`; the cotangent of a result that is not a float is zeros, and means nothing. A result that nothing reads
    /// has the cotangent zero.
    pub fn vjp(
        self,
        rule: impl FnOnce(&'g Builder, &[Var<'g>], &[Var<'g>], &[Var<'g>]) -> Vec<Option<Var<'g>>> + 'f,
    ) -> Self {
        CustomFn { vjp: Some(Box::new(rule)), ..self }
    }

    /// The rule of forward mode, as [`CustomFn::vjp`]: it gets a tangent of each argument, and returns one of each
    /// result. It must be linear in the tangents.
    pub fn jvp(
        self,
        rule: impl FnOnce(&'g Builder, &[Var<'g>], &[Var<'g>], &[Var<'g>]) -> Vec<Option<Var<'g>>> + 'f,
    ) -> Self {
        CustomFn { jvp: Some(Box::new(rule)), ..self }
    }

    /// The results. After an error there are still as many as without it.
    ///
    /// # Errors
    /// [`Builder::finish`] returns them; they name the function. The function captures a float although there is a
    /// rule; a rule returns the wrong number of values or a wrong type; an op inside is used wrongly.
    #[track_caller]
    pub fn call(self) -> Vec<Var<'g>> {
        let CustomFn { g, name, args, body, vjp, jvp } = self;
        g.record_location();
        g.owns("custom_fn", &args);
        // The closures run even after an error: the number of results follows from them.
        let operands: Vec<Value> = args.iter().map(|x| g.local(*x)).collect();
        let tys: Vec<Ty> = args.iter().map(|x| local_type(g, *x)).collect();
        let title = format!("custom_fn {name:?}");
        let body = call_with_context(g, &title, || write_region(g, &name, &tys, &[], |x| body(x)));
        let outs = body.tys.clone();
        let rule = |suffix: &str, seeds: &[Ty], f: Rule<'g, 'f>| {
            call_with_context(g, &format!("{title}, rule {suffix}"), || {
                write_region(
                    g,
                    &format!("{name}.{suffix}"),
                    &tys,
                    &[&outs, &keep_float_types(seeds)[..]].concat(),
                    |all| {
                        let (x, rest) = all.split_at(tys.len());
                        let (y, seeds) = rest.split_at(outs.len());
                        let (by, of) = if suffix == VJP { (y, x) } else { (x, y) };
                        check_rule_yields(g, suffix, f(g, x, y, &spread_seeds(by, seeds)), of)
                    },
                )
            })
        };
        let vjp = vjp.map(|f| rule(VJP, &outs, f));
        let jvp = jvp.map(|f| rule(JVP, &tys, f));
        g.record_location();
        let found = call_with_context(g, &title, || add_node(g, operands, body, vjp, jvp));
        if found.len() == outs.len() { found } else { vec![g.var(Value::NONE); outs.len()] }
    }
}

const VJP: &str = "vjp";
const JVP: &str = "jvp";

/// The type of `x` in the tables of `g`, of which `x` may be no value.
fn local_type(g: &Builder, x: Var<'_>) -> Ty {
    let ty = x.ty();
    match std::ptr::eq(g, x.g) {
        true => ty,
        false => g.shape(&x.dims()).map_or(g.var(Value::NONE).ty(), |shape| Ty { shape, ..ty }),
    }
}

/// The types that carry derivatives.
fn keep_float_types(tys: &[Ty]) -> Vec<Ty> {
    tys.iter().filter(|ty| ty.dtype.is_differentiable()).copied().collect()
}

/// One of `seeds` for each float of `values`, and zeros for each other value.
fn spread_seeds<'g>(values: &[Var<'g>], seeds: &[Var<'g>]) -> Vec<Var<'g>> {
    let mut seeds = seeds.iter().copied();
    let one = |x: &Var<'g>| match x.dtype().is_differentiable() {
        true => seeds.next().unwrap_or(*x),
        false => x.full_like(0.0),
    };
    values.iter().map(one).collect()
}

/// Calls `f`. An error that it records says `what`.
fn call_with_context<R>(g: &Builder, what: &str, f: impl FnOnce() -> R) -> R {
    let before = g.error().is_some();
    let result = g.in_region(what, f);
    g.with(|e| {
        if let Some(error) = (!before).then(|| e.take_error()).flatten() {
            e.fail(error.context(what));
        }
    });
    result
}

/// Writes a region called `name` with arguments `args` and `more`, and sets it aside.
fn write_region<'g>(
    g: &'g Builder,
    name: &str,
    args: &[Ty],
    more: &[Ty],
    f: impl FnOnce(&[Var<'g>]) -> Vec<Var<'g>>,
) -> CustomFnRegion {
    g.with(|e| e.open_capturing(name));
    let vars: Vec<Var<'g>> = args.iter().chain(more).map(|&ty| g.var(g.with(|e| e.region_arg(ty)))).collect();
    let yields: Vec<Value> = f(&vars).into_iter().map(|y| g.local(y)).collect();
    g.with(|e| {
        let (tys, captured) = (yields.iter().map(|&y| e.ty(y)).collect(), e.captured());
        CustomFnRegion { region: e.set_region_aside(), args: args.len(), more: more.len(), yields, tys, captured }
    })
}

/// What a rule yields, from what it `gave`: one value for each float of `of`, whose types they must have.
fn check_rule_yields<'g>(g: &'g Builder, rule: &str, gave: Vec<Option<Var<'g>>>, of: &[Var<'g>]) -> Vec<Var<'g>> {
    let (what, which) = if rule == VJP { ("cotangents", "argument") } else { ("tangents", "result") };
    let fail = |kind: Kind, text: String| g.with(|e| e.fail(Error::new(kind, text)));
    if gave.len() != of.len() {
        fail(Kind::Arity, format!("it gives {} {what}, and there are {} {which}s", gave.len(), of.len()));
    }
    let mut yields = Vec::new();
    for (i, (given, x)) in gave.into_iter().zip(of).enumerate() {
        let show = |x: Var<'_>| format!("{}{}", x.dtype(), x.dims());
        match given {
            _ if x.dtype().is_differentiable() => {
                let y = given.unwrap_or_else(|| x.full_like(0.0));
                if y.is_some() && y.ty() != x.ty() {
                    fail(Kind::Shape, format!("{which} {i} is {}, and its {what} are {}", show(*x), show(y)));
                }
                yields.push(y);
            }
            Some(_) => fail(Kind::Shape, format!("{which} {i} is {}: it has no {what}; give None", show(*x))),
            None => {}
        }
    }
    yields
}

/// Closes the regions and adds the node. Its results.
fn add_node<'g>(
    g: &'g Builder,
    mut operands: Vec<Value>,
    body: CustomFnRegion,
    vjp: Option<CustomFnRegion>,
    jvp: Option<CustomFnRegion>,
) -> Vec<Var<'g>> {
    if vjp.is_some() || jvp.is_some() {
        refuse_float_captures(g, &body.captured);
    }
    let mut captured: Vec<Value> = Vec::new();
    for &v in [Some(&body), vjp.as_ref(), jvp.as_ref()].into_iter().flatten().flat_map(|w| &w.captured) {
        if !captured.contains(&v) {
            captured.push(v);
        }
    }
    let attrs = CustomFnAttrs {
        body: close_region(g, body, &captured),
        captures: captured.len() as i64,
        vjp: vjp.map(|w| close_region(g, w, &captured)),
        jvp: jvp.map(|w| close_region(g, w, &captured)),
    };
    operands.extend(captured);
    let outs = g.with(|e| e.emit(Op::CUSTOM_FN, &operands, &attrs.list()));
    outs.iter().map(|v| g.var(v)).collect()
}

/// Closes a region that was set aside; it takes all of `captured`.
fn close_region(g: &Builder, written: CustomFnRegion, captured: &[Value]) -> Region {
    let CustomFnRegion { region: Some(region), args, more, yields, .. } = written else { return Region::NONE };
    g.with(|e| {
        e.resume_region(region);
        e.capture_all(captured);
        e.close_loop_region(args, more, &yields).region
    })
}

/// An error if the function reads a float from outside that may carry a gradient: its rules give it none.
fn refuse_float_captures(g: &Builder, captured: &[Value]) {
    g.with(|e| {
        let Some(&v) = captured.iter().find(|&&v| e.may_carry_gradient(v)) else { return };
        let name = e.strings.str(e.name_of(v)).to_string();
        let (dtype, dims) = (e.dtype(v), e.dims(v));
        let why = "would get no gradient: pass it as an argument or stop its gradient";
        let name = if name.is_empty() { "a value".to_string() } else { format!("{name:?}") };
        e.fail(Error::new(Kind::Derivative, format!("it uses {name} from outside, which is {dtype}{dims} and {why}")));
    });
}
