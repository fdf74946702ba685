//! The counted loop: one op, whose body is a region, and the builder's methods. The caller's closure writes the body;
//! it runs once, while the graph is built. Values from outside that it uses become operands.
//!
//! Operands are carries, then constants of the loop, then stacked inputs; results are the final carries, then stacked
//! results. The body's arguments are carries, constants and one slice (the leading axis removed) of each stacked input;
//! it yields the next carries and one slice of each stacked result. Iterations run for `i` from 0 to `length − 1`, or
//! in the reverse order. Either way, iteration `i` reads slice `i` of each stacked input and writes slice `i` of each
//! stacked result. A loop with an [`Exit`] may end early; the slices of stacked results that it did not reach are
//! zeros. Invariant: a carry keeps its type.

use crate::arena::Value;
use crate::arena::{Region, ids::Id};
use crate::ensure;
use crate::error::{Error, Kind};
use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::attr_types::{attrs, choice};
use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};

#[cfg(test)]
mod tests;
pub mod trips;

choice! {
    /// What ends a loop before its last iteration.
    pub enum Exit {
        /// The first carry, `bool[]`: an iteration runs only if it is true. A loop in which it is still true after
        /// `length` iterations stops the step; with length 0 there is no such bound.
        Flag = "flag",
        /// The first constant, `i64[]`: the number of iterations. A number outside `0..=length` stops the step.
        Count = "count",
    }
}

attrs! {
    /// Attributes of a scan. [`Scan`] has them as `usize`.
    pub struct ScanAttrs {
        /// The body.
        body: Region,
        /// Number of carries.
        carries: i64,
        /// Number of constants of the loop.
        consts: i64,
        /// Number of iterations.
        length: i64,
        /// Whether it runs from the last iteration to the first.
        reverse: bool,
        /// Derivatives keep the carries before every iteration of which the number, in running order, is a multiple
        /// of this one, and compute what lies between again. Absent: they keep what they read of all iterations.
        keep_every: Option<i64>,
        /// Whether all iterations may run at once, as members of a batch. There are no carries then.
        at_once: Option<bool>,
        /// What ends the loop early. Absent: all iterations run.
        exit: Option<Exit>,
        /// Of a loop that a carry ends and that is a stretch of a longer loop: the number of iterations that the error
        /// tells if it is still to go on after its own. 0: then the loop ends, and there is no error. Absent: `length`.
        bound: Option<i64>,
    }
}

/// Iterations of a loop without a bound, for costs.
pub const UNBOUNDED_GUESS: usize = 16;

/// The attributes of a scan that inference has checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scan {
    /// The body.
    pub body: Region,
    /// Number of carries: the first operands, arguments, yields and results.
    pub carries: usize,
    /// Number of constants of the loop: the operands and arguments after the carries.
    pub consts: usize,
    /// Number of iterations.
    pub length: usize,
    /// Whether it runs from the last iteration to the first.
    pub reverse: bool,
    /// Number of iterations between two carries that derivatives keep; `None`: they keep what they read of all.
    pub keep_every: Option<usize>,
    /// Whether all iterations may run at once, as members of a batch. There are no carries then.
    pub at_once: bool,
    /// What ends the loop early; `None`: all iterations run.
    pub exit: Option<Exit>,
    /// For a loop that a carry ends: the number of iterations that the error names if the loop would go on after
    /// `length` iterations. 0: there is no error. `None`: `length`.
    pub bound: Option<usize>,
}

impl Scan {
    /// From the attributes of a scan.
    pub fn of(attrs: &Attrs<'_>) -> Scan {
        let ScanAttrs { body, carries, consts, length, reverse, keep_every, at_once, exit, bound } =
            ScanAttrs::of(attrs);
        let [carries, consts, length] = [carries, consts, length].map(|n| n.max(0) as usize);
        let (keep_every, bound) = (keep_every.map(|n| n.max(1) as usize), bound.map(|n| n.max(0) as usize));
        Scan { body, carries, consts, length, reverse, keep_every, at_once: at_once == Some(true), exit, bound }
    }

    /// The attributes of this loop over another body, with other numbers of carries and constants.
    pub fn over(&self, body: Region, carries: usize, consts: usize) -> ScanAttrs {
        let (keep_every, bound) = (self.keep_every.map(|n| n as i64), self.bound.map(|n| n as i64));
        let (carries, consts, length) = (carries as i64, consts as i64, self.length as i64);
        let (reverse, at_once, exit) = (self.reverse, self.at_once.then_some(true), self.exit);
        ScanAttrs { body, carries, consts, length, reverse, keep_every, at_once, exit, bound }
    }

    /// The number of iterations between two kept carries. `None`: derivatives keep what they read of all iterations.
    pub fn stretch(&self) -> Option<usize> {
        self.keep_every.map(|n| n.min(self.length))
    }

    /// True if derivatives keep only the carries of each iteration.
    pub fn keeps_carries_only(&self) -> bool {
        self.stretch().is_some_and(|n| n <= 1)
    }

    /// The number of iterations that costs are counted for.
    pub fn expected(&self) -> usize {
        if self.is_unbounded() { UNBOUNDED_GUESS } else { self.length }
    }

    /// True if the number of iterations has no bound.
    pub fn is_unbounded(&self) -> bool {
        self.exit == Some(Exit::Flag) && self.length == 0
    }

    /// The operand that ends the loop early: its position among the operands.
    pub fn exit_operand(&self) -> Option<usize> {
        self.exit.map(|exit| if exit == Exit::Flag { 0 } else { self.carries })
    }

    /// Position of the first stacked input among the operands.
    pub fn xs(&self) -> usize {
        self.carries + self.consts
    }
}

/// A counted loop over a region.
pub const SCAN: OpDef = OpDef {
    name: "scan",
    doc: "(c, yᵢ) ← body(c, consts, xᵢ) for each i < length: the final carries c and the stacked yᵢ",
    arity: Arity::AtLeast(0),
    attrs: ScanAttrs::FIELDS,
    flags: Flags::PURE,
    infer: infer_types,
    deriv: Deriv::Loop,
    batch: Batch::Regions,
    lower: Lower::Loop,
    cost: sum_body_cost,
    cases: &[
        Case { args: "f[3] f[3]", attrs: "body=@case_body carries=1 consts=1 length=3 reverse=false", domains: REAL },
        Case {
            args: "f[3] f[3] f[4,3]",
            attrs: "body=@case_step carries=1 consts=1 length=4 reverse=false",
            domains: REAL,
        },
        Case {
            args: "f[3] f[3] f[4,3]",
            attrs: "body=@case_step carries=1 consts=1 length=4 reverse=true",
            domains: REAL,
        },
        Case {
            args: "f[3] f[3] f[0,3]",
            attrs: "body=@case_step carries=1 consts=1 length=0 reverse=false",
            domains: REAL,
        },
        Case {
            args: "f[3] i32[] f[2,2] f[5,3]",
            attrs: "body=@case_count carries=2 consts=1 length=5 reverse=false",
            domains: &[Domain::Real, Domain::Index(3), Domain::Real],
        },
        Case {
            args: "f[3] f[3] f[4,3]",
            attrs: "body=@case_step carries=0 consts=2 length=4 reverse=false at_once=true",
            domains: REAL,
        },
        Case {
            args: "f[3] i32[] f[2,2] f[5,3]",
            attrs: "body=@case_count carries=2 consts=1 length=5 reverse=false keep_every=2",
            domains: &[Domain::Real, Domain::Index(3), Domain::Real],
        },
        Case {
            args: "f[3] f[3] f[4,3]",
            attrs: "body=@case_step carries=1 consts=1 length=4 reverse=true keep_every=1",
            domains: REAL,
        },
        Case {
            args: "f[3] i64[] f[3] f[4,3]",
            attrs: "body=@case_counted carries=1 consts=2 length=4 reverse=false exit=count",
            domains: &[Domain::Real, Domain::Index(5), Domain::Real],
        },
        Case {
            args: "f[3] i64[] f[3] f[4,3]",
            attrs: "body=@case_counted carries=1 consts=2 length=4 reverse=true exit=count",
            domains: &[Domain::Real, Domain::Index(5), Domain::Real],
        },
        Case {
            args: "bool[] i32[] f[3] f[3]",
            attrs: "body=@case_flag carries=3 consts=1 length=5 reverse=false exit=flag",
            domains: &[Domain::Bit, Domain::Index(3), Domain::Real],
        },
        Case {
            args: "bool[] i32[] f[3] f[3]",
            attrs: "body=@case_flag carries=3 consts=1 length=5 reverse=false keep_every=2 exit=flag",
            domains: &[Domain::Bit, Domain::Index(3), Domain::Real],
        },
        Case {
            args: "bool[] i32[] f[3] f[3]",
            attrs: "body=@case_flag carries=3 consts=1 length=1 reverse=false exit=flag bound=0",
            domains: &[Domain::Bit, Domain::Index(3), Domain::Real],
        },
        Case {
            args: "f[3] i64[] f[3] f[4,3]",
            attrs: "body=@case_counted carries=1 consts=2 length=4 reverse=true keep_every=3 exit=count",
            domains: &[Domain::Real, Domain::Index(5), Domain::Real],
        },
    ],
    ..OpDef::BLANK
};

const REAL: &[Domain] = &[Domain::Real];

/// Attribute `name` as a number that is not negative.
fn check_count(name: &str, n: i64) -> Result<usize, String> {
    usize::try_from(n).map_err(|_| format!("{name} is {n}; it must not be negative"))
}

/// What a loop that may end early must be.
fn check_early_exit(cx: &Infer<'_>, attrs: &ScanAttrs, yields: usize) -> Result<(), String> {
    let Some(exit) = attrs.exit else {
        ensure!(attrs.bound.is_none(), "only a loop that a carry ends has a bound");
        return Ok(());
    };
    let (at, there, want) = match exit {
        Exit::Flag => (0, attrs.carries > 0, ("carry 0", DType::Bool)),
        Exit::Count => (attrs.carries as usize, attrs.consts > 0, ("constant 0", DType::I64)),
    };
    ensure!(there, "the loop ends early, and there is no {}", want.0);
    let dims = cx.dims(at);
    let fits = cx.dtype(at) == want.1 && dims.is_empty();
    ensure!(fits, "{} is {}{dims}; it ends the loop, so it must be {}[]", want.0, cx.dtype(at), want.1);
    let free = attrs.at_once != Some(true);
    ensure!(free, "at_once would run all iterations, and a loop that ends early must not run those behind its end");
    let bound = attrs.bound.is_none_or(|n| n >= 0 && exit == Exit::Flag && attrs.length > 0);
    ensure!(bound, "bound is not negative, and only a loop with a length that a carry ends has it");
    if attrs.length == 0 {
        ensure!(exit == Exit::Flag, "a loop that counts its iterations needs a length of at least 1");
        ensure!(attrs.keep_every.is_none(), "a loop without a bound has no gradient, so it has no keep_every");
        let stacked = cx.args.len() as i64 > attrs.carries + attrs.consts || yields as i64 > attrs.carries;
        ensure!(!stacked, "a loop without a bound has neither stacked inputs nor stacked results");
    }
    ensure!(exit == Exit::Count || !attrs.reverse, "a loop that a carry ends cannot run backwards");
    Ok(())
}

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let attrs = ScanAttrs::of(&cx.attrs);
    let (carries, consts) = (check_count("carries", attrs.carries)?, check_count("consts", attrs.consts)?);
    let length = check_count("length", attrs.length)?;
    if let Some(n) = attrs.keep_every.filter(|&n| n < 1) {
        return Err(format!("keep_every is {n}; it must be at least 1"));
    }
    let sig = cx.signature(attrs.body)?;
    let show = |cx: &Infer<'_>, ty: Ty| format!("{}{}", ty.dtype, cx.shapes.dims(ty.shape));
    let n = cx.args.len();
    ensure!(sig.args.len() == n, "{n} operands, and the body has {} arguments", sig.args.len());
    let before = carries.checked_add(consts).filter(|&k| k <= n);
    let before = before.ok_or_else(|| format!("{carries} carries and {consts} consts, and there are {n} operands"))?;
    ensure!(carries == 0 || attrs.at_once != Some(true), "{carries} carries: the iterations cannot run at once");
    ensure!(sig.yields.len() >= carries, "{carries} carries, and the body yields {} values", sig.yields.len());
    ensure!(!sig.yields.is_empty(), "the body yields nothing");
    check_early_exit(cx, &attrs, sig.yields.len())?;
    for i in 0..before {
        let (have, want) = (cx.args[i], sig.args[i]);
        ensure!(have == want, "operand {i} is {}, and the body takes {}", show(cx, have), show(cx, want));
    }
    for i in 0..carries {
        let (is, next) = (cx.args[i], sig.yields[i]);
        ensure!(is == next, "carry {i} enters the body as {} and leaves it as {}", show(cx, is), show(cx, next));
    }
    for i in before..n {
        let dims = cx.dims(i);
        let Some((&rows, slice)) = dims.split_first() else {
            return Err(format!("stacked input {} is a scalar", i - before));
        };
        ensure!(rows == length, "stacked input {} has {rows} slices, and the loop {length} iterations", i - before);
        let (d, arg) = (cx.dtype(i), sig.args[i]);
        let fits = d == arg.dtype && *slice == *cx.shapes.dims(arg.shape);
        ensure!(
            fits,
            "a slice of stacked input {} is {d}{}, and the body takes {}",
            i - before,
            Infer::show_dims(slice),
            show(cx, arg)
        );
    }
    for (i, &y) in sig.yields.iter().enumerate() {
        match i < carries {
            true => cx.out.push(y),
            false => {
                let dims = [&[length], &cx.shapes.dims(y.shape)[..]].concat();
                cx.result(y.dtype, &dims)?;
            }
        }
    }
    Ok(())
}

/// The cost of all nodes of the body, times the number of iterations.
fn sum_body_cost(cx: &CostCx<'_>) -> u64 {
    let s = Scan::of(&cx.graph.attrs(cx.node));
    if s.body.at() >= cx.graph.regions() {
        return 0;
    }
    let one = |n| (cx.graph.def_of(n).cost)(&CostCx { graph: cx.graph, node: n });
    let body: u64 = cx.graph.region_nodes(s.body).map(one).fold(0, u64::saturating_add);
    body.saturating_mul(s.expected() as u64)
}

/// What ends a loop that a builder writes.
#[derive(Clone, Copy)]
pub(crate) enum ScanEnd<'g> {
    /// Its last iteration.
    Length,
    /// The first carry: [`Exit::Flag`].
    Flag,
    /// This number of iterations: [`Exit::Count`].
    Count(Var<'g>),
}

impl ScanEnd<'_> {
    fn is_flag(self) -> bool {
        matches!(self, ScanEnd::Flag)
    }
}

/// Options of [`Builder::scan_with`] and [`Builder::while_loop_with`]: how a loop runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loop {
    /// Number of iterations; `None`: the number of slices of the stacked inputs.
    pub length: Option<usize>,
    /// Whether it runs from the last slice to the first; results are stacked in the inputs' order either way.
    pub reverse: bool,
    /// What derivatives keep of the iterations. `None`: all that they read, so memory grows with the length.
    ///
    /// `Some(n)`: the carries before every `n`-th iteration. A derivative then runs the `n` iterations of one stretch
    /// again, keeps what it reads of these, and goes on to the next stretch. So a gradient takes the memory of
    /// `length / n` sets of carries and of `n` iterations, and the time of one more run of the loop. With `n` near the
    /// square root of the length, memory is least. Values and gradients have the same bits for every `n`. An `n` that
    /// divides the length is best: else stacked results and gradients of stacked inputs are copied once more.
    pub keep_every: Option<usize>,
    /// Whether all iterations may run at once: see [`Builder::vmap`]. There are no carries then.
    pub at_once: bool,
}
setters! {
    [] Loop {
        length: impl Into<Option<usize>> => length.into(),
        reverse: bool,
        keep_every: impl Into<Option<usize>> => keep_every.into(),
        at_once: bool,
    }
}

/// Final carries and stacked results.
pub type Scanned<'g> = (Vec<Var<'g>>, Vec<Var<'g>>);

impl Builder {
    /// A loop over the leading axis of `xs`. Each iteration computes `(carries, y) = f(carries, x)` with one slice `x`
    /// of each of `xs`; the result is the final carries and the stacked `y`. All of `xs` must have the same number of
    /// slices, and a carry must keep its type. `f` runs once, while the graph is built, and may use any value from
    /// outside. After an error there are still as many results as without it.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// // A balance with interest: s' = rate·s + x, and the balance after each year.
    /// let g = Builder::new("balance");
    /// let (x, rate) = (g.input("x", [3], DType::F64), g.input("rate", [], DType::F64));
    /// let start = g.full(0.0, [], DType::F64);
    /// let (last, years) = g.scan(&[start], &[x], |s, x| {
    ///     let s = s[0] * rate + x[0];
    ///     (vec![s], vec![s])
    /// });
    /// let graph = g.finish([last[0].named("last"), years[0].named("years")])?;
    /// let graph = graph.grad("last", &GradOptions::wrt(&["rate"]))?;
    /// let mut p = Session::new().compile(&graph)?;
    /// p.values_mut::<f64>("x")?.copy_from_slice(&[100.0, 100.0, 100.0]);
    /// p.values_mut::<f64>("rate")?[0] = 1.5;
    /// p.step()?;
    /// assert_eq!(p.values::<f64>("years")?, [100.0, 250.0, 475.0]);
    /// assert_eq!(p.values::<f64>("grad.rate")?, [400.0]); // 100·(1 + 2·rate)
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn scan<'g>(
        &'g self,
        carries: &[Var<'g>],
        xs: &[Var<'g>],
        f: impl FnOnce(&[Var<'g>], &[Var<'g>]) -> Scanned<'g>,
    ) -> Scanned<'g> {
        self.scan_with(Loop::default(), carries, xs, f)
    }

    /// As [`Builder::scan`], with options `how`. If `xs` is empty, `how.length` must be given.
    #[track_caller]
    pub fn scan_with<'g>(
        &'g self,
        how: Loop,
        carries: &[Var<'g>],
        xs: &[Var<'g>],
        f: impl FnOnce(&[Var<'g>], &[Var<'g>]) -> Scanned<'g>,
    ) -> Scanned<'g> {
        self.scan_until("scan", ScanEnd::Length, how, carries, xs, f)
    }

    /// As [`Builder::scan_with`]; `end` says what ends the loop. Errors and the name of the body say `what` writes it.
    #[track_caller]
    pub(crate) fn scan_until<'g>(
        &'g self,
        what: &str,
        end: ScanEnd<'g>,
        how: Loop,
        carries: &[Var<'g>],
        xs: &[Var<'g>],
        f: impl FnOnce(&[Var<'g>], &[Var<'g>]) -> Scanned<'g>,
    ) -> Scanned<'g> {
        self.record_location();
        let dims: Vec<_> = xs.iter().map(|x| x.dims()).collect();
        let length = self.loop_length(what, how.length.or_else(|| dims.first()?.first().copied()));
        // Operands first: they may be captures themselves, if this loop is in another.
        let mut args: Vec<Value> = carries.iter().map(|c| self.local(*c)).collect();
        let stacked: Vec<Value> = xs.iter().map(|x| self.local(*x)).collect();
        let (exit, count) = match end {
            ScanEnd::Length => (None, None),
            ScanEnd::Flag => (Some(Exit::Flag), None),
            ScanEnd::Count(n) => (Some(Exit::Count), Some(self.local(n))),
        };
        let mut tys: Vec<Ty> = carries.iter().map(|c| c.ty()).collect();
        for (x, d) in xs.iter().zip(&dims) {
            // Shape inference of the loop refuses a scalar. Until then its slice is the scalar itself.
            let ty = x.ty();
            tys.push(self.shape(d.get(1..).unwrap_or(&[])).map_or(ty, |shape| Ty { shape, ..ty }));
        }
        // The body is built even after an error: the number of results follows from it.
        self.with(|e| e.open_loop(what));
        let inner: Vec<Var<'g>> = tys.iter().map(|&ty| self.var(self.with(|e| e.region_arg(ty)))).collect();
        // The number of iterations is the first constant of the loop.
        self.with(|e| e.capture_all(count.as_slice()));
        let (next, ys) = self.in_region(what, || f(&inner[..carries.len()], &inner[carries.len()..]));
        self.record_location();
        let mut yields: Vec<Value> = next.iter().chain(&ys).map(|y| self.local(*y)).collect();
        // Without a bound there is no stack of the numbers of iterations, so that number is one more carry.
        let number = if end.is_flag() && length == 0 { self.with(|e| e.carry_iteration_number()) } else { None };
        if let Some(number) = number {
            yields.insert(next.len(), (self.var(number) + 1.0).v);
        }
        let body = self.with(|e| e.close_loop_region(carries.len(), xs.len(), &yields));
        if next.len() != carries.len() {
            let why = format!("{what}: {} carries enter the body and {} leave it", carries.len(), next.len());
            self.with(|e| e.fail(Error::new(Kind::Shape, why)));
        }
        args.extend(number.map(|_| self.full(0.0, [], DType::U32).v));
        args.extend(&body.captures);
        args.extend(stacked);
        if body.indexed {
            args.push(self.iota(0, [length], DType::U32).v);
        }
        let attrs = ScanAttrs {
            body: body.region,
            carries: (carries.len() + usize::from(number.is_some())) as i64,
            consts: body.captures.len() as i64,
            length: i64::try_from(length).unwrap_or(-1),
            reverse: how.reverse,
            keep_every: how.keep_every.map(|n| i64::try_from(n).unwrap_or(i64::MAX)),
            at_once: how.at_once.then_some(true),
            exit,
            bound: None,
        };
        let failed = self.error().is_some();
        let outs = self.with(|e| e.emit_as(what, Op::SCAN, &args, &attrs.list()));
        let outs = outs.iter().enumerate().filter(|o| number.is_none() || o.0 != carries.len()).map(|o| o.1);
        self.scan_results(outs.collect(), failed, [carries.len(), ys.len()])
    }

    /// The results of a loop that was emitted: final carries and stacked results, of these numbers also after an error.
    fn scan_results<'g>(&'g self, outs: Vec<Value>, failed: bool, [carries, ys]: [usize; 2]) -> Scanned<'g> {
        let mut all: Vec<Var<'g>> = match failed || outs.len() != carries + ys {
            true => vec![self.var(Value::NONE); carries + ys],
            false => outs.into_iter().map(|v| self.var(v)).collect(),
        };
        let ys = all.split_off(carries);
        (all, ys)
    }
}
