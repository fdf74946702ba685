//! The choice: one op that runs one of two regions, and the builder's methods. Each closure runs once, while the graph
//! is built; values that it uses from outside become operands.
//!
//! Operands are the predicate, then the captured values. Both regions take all captured values, in the same order, and
//! yield the same number of values, of the same types. Only the region that the predicate picks runs. Invariant: a
//! region computes nothing that outlives it but its yields.

use super::index_check_name;
use crate::arena::Value;
use crate::arena::dims::Dims;
use crate::arena::{Region, ids::Id};
use crate::ensure;
use crate::error::{Error, Kind};
use crate::kernels::abi::DEPTH;
use crate::nodes::ir::attr_types::attrs;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::emit::Aside;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use hashbrown::HashSet;
use std::cell::RefCell;
use std::panic;

attrs! {
    /// Attributes of a choice.
    pub struct IfAttrs {
        /// The region that runs if the predicate is true.
        then: Region,
        /// The region that runs if it is false.
        otherwise: Region,
    }
}

/// A choice of two regions.
pub const IF: OpDef = OpDef {
    name: "if",
    doc: "the yields of region `then` on the captured values if the predicate is true, else those of `otherwise`",
    arity: Arity::AtLeast(1),
    attrs: IfAttrs::FIELDS,
    flags: Flags::PURE,
    infer: infer_if,
    deriv: Deriv::Choice,
    batch: Batch::Regions,
    lower: Lower::Choice,
    cost: if_cost,
    cases: &[
        Case { args: "bool[] f[3] f[3]", attrs: "then=@case_then otherwise=@case_else", domains: BRANCHES },
        Case { args: "bool[] f[3] f[3]", attrs: "then=@case_else otherwise=@case_then", domains: BRANCHES },
        Case { args: "bool[] f[2,700] f[2,700]", attrs: "then=@case_then otherwise=@case_else", domains: BRANCHES },
        Case { args: "bool[] f[0] f[0]", attrs: "then=@case_then otherwise=@case_else", domains: BRANCHES },
    ],
    ..OpDef::BLANK
};

const BRANCHES: &[Domain] = &[Domain::Real];

fn infer_if(cx: &mut Infer<'_>) -> Result<(), String> {
    let attrs = IfAttrs::of(&cx.attrs);
    let show = |cx: &Infer<'_>, ty: Ty| format!("{}{}", ty.dtype, cx.shapes.dims(ty.shape));
    let pred = cx.args[0];
    let is = show(cx, pred);
    ensure!(pred.dtype == DType::Bool, "the predicate is {is}; it must be bool[]: compare it, or cast it to bool");
    ensure!(cx.dims(0).is_empty(), "the predicate is {is}; it must be bool[]: reshape it to []");
    let (then, otherwise) = (cx.signature(attrs.then)?, cx.signature(attrs.otherwise)?);
    let n = cx.args.len() - 1;
    for (name, sig) in [("then", &then), ("otherwise", &otherwise)] {
        ensure!(sig.args.len() == n, "{n} captured values, and branch {name} has {} arguments", sig.args.len());
        for i in 0..n {
            let (have, want) = (cx.args[i + 1], sig.args[i]);
            let text = || (show(cx, have), show(cx, want));
            ensure!(have == want, "operand {} is {}, and branch {name} takes {}", i + 1, text().0, text().1);
        }
    }
    let (a, b) = (then.yields.len(), otherwise.yields.len());
    ensure!(a == b, "branch then yields {a} values, and branch otherwise {b}");
    ensure!(a > 0, "the branches yield nothing");
    for (i, (&a, &b)) in then.yields.iter().zip(&otherwise.yields).enumerate() {
        ensure!(a == b, "yield {i} is {} in branch then, and {} in branch otherwise", show(cx, a), show(cx, b));
    }
    cx.out.extend(&then.yields);
    Ok(())
}

/// The cost of the more expensive branch.
fn if_cost(cx: &CostCx<'_>) -> u64 {
    let IfAttrs { then, otherwise } = IfAttrs::of(&cx.graph.attrs(cx.node));
    let one = |n| (cx.graph.def_of(n).cost)(&CostCx { graph: cx.graph, node: n });
    let cost = |r: Region| cx.graph.region_nodes(r).map(one).fold(0, u64::saturating_add);
    [then, otherwise].into_iter().filter(|r| r.at() < cx.graph.regions()).map(cost).max().unwrap_or(0)
}

/// The most branches of a switch: choices stand at most [`DEPTH`] deep in one another.
pub const MOST_BRANCHES: usize = 1 << DEPTH;

/// A branch of [`Builder::switch`].
pub type SwitchBranch<'f, 'g> = Box<dyn FnOnce() -> Vec<Var<'g>> + 'f>;

/// A branch that is set aside until both are written.
struct Branch {
    region: Option<Aside>,
    yields: Vec<Value>,
    captured: Vec<Value>,
}

impl Builder {
    /// The results of `then` if `pred` is true, else those of `otherwise`. Only that branch runs. Both closures run
    /// once, while the graph is built, and may use any value from outside. Both must return the same number of values,
    /// of the same types. A branch that does not run adds nothing to the gradients of the values that it uses. `pred`
    /// is `bool[]`.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// // The square root where there is one.
    /// let g = Builder::new("root");
    /// let x = g.input("x", [], DType::F64);
    /// let y = g.cond(x.greater(0.0), || vec![x.sqrt()], || vec![x * 0.0]);
    /// let graph = g.finish([y[0].named("y")])?.grad("y", &GradOptions::wrt(&["x"]))?;
    /// let mut p = Session::new().compile(&graph)?;
    /// p.values_mut::<f64>("x")?[0] = -1.0;
    /// p.step()?;
    /// assert_eq!((p.values::<f64>("y")?[0], p.values::<f64>("grad.x")?[0]), (0.0, 0.0));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn cond<'g>(
        &'g self,
        pred: Var<'g>,
        then: impl FnOnce() -> Vec<Var<'g>>,
        otherwise: impl FnOnce() -> Vec<Var<'g>>,
    ) -> Vec<Var<'g>> {
        self.choose("if", panic::Location::caller(), pred, then, otherwise)
    }

    /// The results of branch number `index`. Only that branch runs. `index` is `i32[]` or `i64[]`; a number that is no
    /// branch stops the step with an error. It is written as ⌈log₂ n⌉ levels of [`Builder::cond`], whose other rules
    /// hold; loops and branches stand at most 16 deep in one another, so there are at most 65,536 branches.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("mode");
    /// let (mode, x) = (g.input("mode", [], DType::I32), g.input("x", [], DType::F64));
    /// let y = g.switch(mode, vec![Box::new(|| vec![x.sin()]), Box::new(|| vec![x.cos()]), Box::new(|| vec![x])]);
    /// let mut p = Session::new().compile(&g.finish([y[0].named("y")])?)?;
    /// (p.values_mut::<i32>("mode")?[0], p.values_mut::<f64>("x")?[0]) = (2, 0.5);
    /// p.step()?;
    /// assert_eq!(p.values::<f64>("y")?, [0.5]);
    /// p.values_mut::<i32>("mode")?[0] = 3;
    /// assert!(p.step().unwrap_err().to_string().contains("is 3; it must be in 0..3"));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn switch<'g>(&'g self, index: Var<'g>, mut branches: Vec<SwitchBranch<'_, 'g>>) -> Vec<Var<'g>> {
        let at = panic::Location::caller();
        let checked = self.with_location(at, || {
            let dims = index.dims();
            if !matches!(index.dtype(), DType::I32 | DType::I64) || !dims.is_empty() {
                let is = format!("{}{dims}", index.dtype());
                self.fail(
                    Kind::Shape,
                    format!("switch: the index is {is}; it must be i32[] or i64[]: cast it, or reshape it to []"),
                );
            }
            // The gather checks the index.
            let name = index_check_name("switch", self.with(|e| e.nodes()));
            self.iota(0, [branches.len()], DType::I32).gather(index, 0).named(&name)
        });
        if branches.is_empty() {
            self.fail(Kind::Shape, "switch: there is no branch");
        }
        if branches.len() > MOST_BRANCHES {
            let why = format!(
                "switch: {} branches; at most {MOST_BRANCHES}, because each of {DEPTH} levels of choices halves their \
                 number; gather what differs from a table",
                branches.len()
            );
            self.fail(Kind::Shape, why);
            branches.truncate(1);
        }
        if branches.len() == 1 {
            return self.only_branch(at, checked, branches.remove(0));
        }
        self.switch_from(at, checked, 0, &mut branches)
    }

    /// The switch of one branch. It is a choice, so that the index is checked.
    fn only_branch<'g>(
        &'g self,
        at: &'static panic::Location<'static>,
        index: Var<'g>,
        branch: SwitchBranch<'_, 'g>,
    ) -> Vec<Var<'g>> {
        let types = RefCell::new(Vec::new());
        let then = || {
            let y = branch();
            types.borrow_mut().extend(y.iter().map(|y| (y.dims(), y.dtype())));
            y
        };
        let zeros = || {
            let zero = |(dims, dtype): &(Dims, DType)| self.with_location(at, || self.full(0.0, &dims[..], *dtype));
            types.borrow().iter().map(zero).collect()
        };
        self.choose("switch", at, self.with_location(at, || index.less(1.0)), then, zeros)
    }

    /// A switch over `branches`, the first of which has number `first`, in line `at`.
    fn switch_from<'g>(
        &'g self,
        at: &'static panic::Location<'static>,
        index: Var<'g>,
        first: usize,
        branches: &mut Vec<SwitchBranch<'_, 'g>>,
    ) -> Vec<Var<'g>> {
        if branches.len() < 2 {
            return branches.pop().map_or_else(Vec::new, |f| f());
        }
        let mut upper = branches.split_off(branches.len().div_ceil(2));
        let middle = first + branches.len();
        let below = self.with_location(at, || index.less(middle as f64));
        let (then, otherwise) =
            (|| self.switch_from(at, index, first, branches), || self.switch_from(at, index, middle, &mut upper));
        self.choose("switch", at, below, then, otherwise)
    }

    /// As [`Builder::cond`], in line `at`. Errors name `what`.
    fn choose<'g>(
        &'g self,
        what: &str,
        at: &'static panic::Location<'static>,
        pred: Var<'g>,
        then: impl FnOnce() -> Vec<Var<'g>>,
        otherwise: impl FnOnce() -> Vec<Var<'g>>,
    ) -> Vec<Var<'g>> {
        let pred = self.with_location(at, || self.local(pred));
        let (then, otherwise) = (self.cond_branch(what, "then", then), self.cond_branch(what, "otherwise", otherwise));
        self.with_location(at, || self.close_cond(what, pred, then, otherwise))
    }

    /// The choice of two branches that are set aside.
    fn close_cond<'g>(&'g self, what: &str, pred: Value, then: Branch, otherwise: Branch) -> Vec<Var<'g>> {
        let count = then.yields.len();
        if count != otherwise.yields.len() {
            let other = otherwise.yields.len();
            let why = match what {
                "switch" => format!("switch: one branch yields {count} values, and a later one {other}"),
                _ => format!("{what}: branch then yields {count} values, and branch otherwise {other}"),
            };
            self.with(|e| e.fail(Error::new(Kind::Shape, why)));
        }
        let mut captured = then.captured.clone();
        let known: HashSet<Value> = captured.iter().copied().collect();
        captured.extend(otherwise.captured.iter().filter(|&v| !known.contains(v)));
        let attrs = IfAttrs {
            then: self.close_cond_branch(then, &captured),
            otherwise: self.close_cond_branch(otherwise, &captured),
        };
        let failed = self.error().is_some();
        let outs = self.with(|e| e.emit_as(what, Op::IF, &[&[pred], &captured[..]].concat(), &attrs.list()));
        match failed || outs.len() != count {
            true => vec![self.var(Value::NONE); count],
            false => outs.iter().map(|v| self.var(v)).collect(),
        }
    }

    fn cond_branch<'g>(&'g self, what: &str, name: &str, f: impl FnOnce() -> Vec<Var<'g>>) -> Branch {
        self.with(|e| e.open_capturing(name));
        let yields: Vec<Value> = self.in_region(what, f).into_iter().map(|y| self.local(y)).collect();
        self.with(|e| Branch { captured: e.captured(), yields, region: e.set_region_aside() })
    }

    fn close_cond_branch(&self, b: Branch, captured: &[Value]) -> Region {
        let Some(region) = b.region else { return Region::NONE };
        self.with(|e| {
            e.resume_region(region);
            e.capture_all(captured);
            e.close_loop_region(0, 0, &b.yields).region
        })
    }
}
