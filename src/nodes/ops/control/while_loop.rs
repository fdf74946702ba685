//! Loops whose number of iterations is known when the step runs, as builder methods: scans that end early
//! ([`Exit`](super::scan::Exit)), so an iteration that does not run costs nothing.
//!
//! The condition is a carry: it is computed before the loop and at the end of the body. Invariant: a loop that would go
//! on after its bound ends the step with an error.

use super::scan::{Loop, ScanEnd};
use crate::error::{Error, Kind};
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;
use std::panic::Location;

/// Final carries, and the number of iterations, `i64[]`.
pub type Looped<'g> = (Vec<Var<'g>>, Var<'g>);

impl Builder {
    /// Runs `carries = body(carries)` for as long as `go_on(carries)` is true; it is asked before each iteration. The
    /// result is the final carries and the number of iterations, `i64[]`. A carry keeps its type. A loop that would go
    /// on after `bound` iterations stops the step with an error: "still going after 100 iterations". With `bound` 0
    /// there is no bound.
    ///
    /// `body` runs once, while the graph is built, and `go_on` twice. Both may use any value from outside. An iteration
    /// that does not run costs nothing. Gradients are those of the iterations that ran, and cost their time. A gradient
    /// in reverse mode needs a bound: the arena has addresses for what it reads of `bound` iterations, or fewer with
    /// [`keep_every`](Builder::while_loop_with). [`jvp`](crate::graph::GraphBuf::jvp) needs none. A body that draws
    /// random numbers draws new ones in each iteration.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// // Newton's method for √a. It stops when y² is a to twelve digits.
    /// let g = Builder::new("root");
    /// let a = g.input("a", [], DType::F64);
    /// let (y, steps) = g.while_loop(
    ///     &[a],
    ///     50,
    ///     |y| (y[0] * y[0] - a).abs().greater(1e-12),
    ///     |y| vec![(y[0] + a / y[0]) * 0.5],
    /// );
    /// let graph = g.finish([y[0].named("root"), steps.named("steps")])?;
    /// let graph = graph.grad("root", &GradOptions::wrt(&["a"]))?;
    /// let mut p = Session::new().compile(&graph)?;
    /// p.values_mut::<f64>("a")?[0] = 4.0;
    /// p.step()?;
    /// assert!((p.values::<f64>("root")?[0] - 2.0).abs() < 1e-12);
    /// assert!((p.values::<f64>("grad.a")?[0] - 0.25).abs() < 1e-9);
    /// assert_eq!(p.values::<i64>("steps")?, [5]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn while_loop<'g>(
        &'g self,
        carries: &[Var<'g>],
        bound: usize,
        go_on: impl Fn(&[Var<'g>]) -> Var<'g>,
        body: impl FnOnce(&[Var<'g>]) -> Vec<Var<'g>>,
    ) -> Looped<'g> {
        self.while_loop_with(Loop { length: Some(bound), ..Loop::default() }, carries, go_on, body)
    }

    /// As [`Builder::while_loop`], with its options in `how`. Its length is the bound; without one there is no bound.
    /// With [`keep_every`](Loop::keep_every) a gradient keeps the carries of some iterations and runs those between
    /// them again: memory is least with the square root of the bound.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// // The square root of a, by steps that become smaller; a gradient keeps 32 of at most 1,024.
    /// let g = Builder::new("root");
    /// let a = g.input("a", [], DType::F64);
    /// let how = Loop::default().length(1024).keep_every(32);
    /// let (y, _) = g.while_loop_with(
    ///     how,
    ///     &[a],
    ///     |y| (y[0] * y[0] - a).abs().greater(1e-9),
    ///     |y| vec![y[0] - (y[0] * y[0] - a) * 0.1],
    /// );
    /// let graph = g.finish([y[0].named("root")])?.grad("root", &GradOptions::wrt(&["a"]))?;
    /// let mut p = Session::new().compile(&graph)?;
    /// p.values_mut::<f64>("a")?[0] = 4.0;
    /// p.step()?;
    /// assert!((p.values::<f64>("grad.a")?[0] - 0.25).abs() < 1e-6);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Builder::while_loop`]; a loop that runs backwards or at once; `keep_every` without a bound.
    #[track_caller]
    pub fn while_loop_with<'g>(
        &'g self,
        how: Loop,
        carries: &[Var<'g>],
        go_on: impl Fn(&[Var<'g>]) -> Var<'g>,
        body: impl FnOnce(&[Var<'g>]) -> Vec<Var<'g>>,
    ) -> Looped<'g> {
        let at = Location::caller();
        let on = self.loop_condition(at, go_on(carries));
        let trips = self.with_location(at, || self.full(0.0, [], DType::I64));
        let all: Vec<Var<'g>> = [on, trips].into_iter().chain(carries.iter().copied()).collect();
        let how = Loop { length: Some(how.length.unwrap_or(0)), ..how };
        let (mut last, _) = self.scan_until("while_loop", ScanEnd::Flag, how, &all, &[], |c, _| {
            let next = self.while_loop_carries(at, &c[2..], body(&c[2..]));
            let on = self.loop_condition(at, go_on(&next));
            let trips = self.with_location(at, || c[1] + 1.0);
            ([on, trips].into_iter().chain(next).collect(), Vec::new())
        });
        let trips = last.remove(1);
        last.remove(0);
        (last, trips)
    }

    /// Runs `carries = body(i, carries)` for i from 0 to `n − 1`; `i` is `i64[]`. `n`, `i32[]` or `i64[]`, is known
    /// when the step runs; a number outside `0..=bound` stops the step with an error. The result is the final carries.
    /// With `bound` 0 there is no bound, and no iteration runs for a number below 0. Otherwise as
    /// [`Builder::while_loop`].
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("power");
    /// let (x, n) = (g.input("x", [], DType::F64), g.input("n", [], DType::I32));
    /// let y = g.fori(n, 8, &[g.full(1.0, [], DType::F64)], |_, y| vec![y[0] * x]);
    /// let mut p = Session::new().compile(&g.finish([y[0].named("y")])?)?;
    /// (p.values_mut::<f64>("x")?[0], p.values_mut::<i32>("n")?[0]) = (2.0, 5);
    /// p.step()?;
    /// assert_eq!(p.values::<f64>("y")?, [32.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn fori<'g>(
        &'g self,
        n: Var<'g>,
        bound: usize,
        carries: &[Var<'g>],
        body: impl FnOnce(Var<'g>, &[Var<'g>]) -> Vec<Var<'g>>,
    ) -> Vec<Var<'g>> {
        self.fori_with(Loop { length: Some(bound), ..Loop::default() }, n, carries, body)
    }

    /// As [`Builder::fori`], with its options in `how`. Its length is the bound; without one there is no bound. If it
    /// runs backwards, `i` falls from `n − 1` to 0. [`keep_every`](Loop::keep_every) is as for
    /// [`Builder::while_loop_with`].
    ///
    /// # Errors
    /// Those of [`Builder::fori`]; a loop that runs at once; `keep_every`, or a loop that runs backwards, without a
    /// bound.
    #[track_caller]
    pub fn fori_with<'g>(
        &'g self,
        how: Loop,
        n: Var<'g>,
        carries: &[Var<'g>],
        body: impl FnOnce(Var<'g>, &[Var<'g>]) -> Vec<Var<'g>>,
    ) -> Vec<Var<'g>> {
        let at = Location::caller();
        if !matches!(n.dtype(), DType::I32 | DType::I64) || !n.dims().is_empty() {
            let is = format!("{}{}", n.dtype(), n.dims());
            self.fail(Kind::Shape, format!("fori: the number of iterations is {is}; it must be i32[] or i64[]"));
        }
        let n = self.with_location(at, || n.cast(DType::I64));
        let bound = self.loop_length("fori", how.length.or(Some(0)));
        let how = Loop { length: Some(bound), ..how };
        if bound == 0 {
            return self.fori_unbounded(at, how, n, carries, body);
        }
        let iterations = self.with_location(at, || self.iota(0, [bound], DType::I64));
        let end = ScanEnd::Count(n);
        let (last, _) = self.scan_until("fori", end, how, carries, &[iterations], |c, i| {
            (self.while_loop_carries(at, c, body(i[0], c)), Vec::new())
        });
        last
    }

    /// As [`Builder::fori`], without a bound.
    #[track_caller]
    fn fori_unbounded<'g>(
        &'g self,
        at: &'static Location<'static>,
        how: Loop,
        n: Var<'g>,
        carries: &[Var<'g>],
        body: impl FnOnce(Var<'g>, &[Var<'g>]) -> Vec<Var<'g>>,
    ) -> Vec<Var<'g>> {
        let first = self.with_location(at, || self.full(0.0, [], DType::I64));
        let all: Vec<Var<'g>> = std::iter::once(first).chain(carries.iter().copied()).collect();
        let less = |c: &[Var<'g>]| self.with_location(at, || c[0].less(n));
        let (mut last, _) = self.while_loop_with(how, &all, less, |c| {
            let next = self.while_loop_carries(at, &c[1..], body(c[0], &c[1..]));
            std::iter::once(self.with_location(at, || c[0] + 1.0)).chain(next).collect()
        });
        last.remove(0);
        last
    }

    /// `on`, or an error if it is no predicate.
    fn loop_condition<'g>(&'g self, at: &'static Location<'static>, on: Var<'g>) -> Var<'g> {
        if on.dtype() == DType::Bool && on.dims().is_empty() {
            return on;
        }
        let is = format!("{}{}", on.dtype(), on.dims());
        self.while_loop_error(at, format!("while_loop: the condition is {is}; it must be bool[]"));
        self.with_location(at, || self.full(0.0, [], DType::Bool))
    }

    /// The next carries, or an error if they have not the types of the old ones.
    fn while_loop_carries<'g>(
        &'g self,
        at: &'static Location<'static>,
        old: &[Var<'g>],
        new: Vec<Var<'g>>,
    ) -> Vec<Var<'g>> {
        let (n, m) = (old.len(), new.len());
        if n != m {
            self.while_loop_error(at, format!("loop: {n} carries enter the body and {m} leave it"));
            return old.to_vec();
        }
        let show = |x: Var<'g>| format!("{}{}", x.dtype(), x.dims());
        if let Some(i) = (0..n).find(|&i| old[i].ty() != new[i].ty()) {
            let (is, next) = (show(old[i]), show(new[i]));
            self.while_loop_error(at, format!("loop: carry {i} enters the body as {is} and leaves it as {next}"));
            return old.to_vec();
        }
        new
    }

    fn while_loop_error(&self, at: &'static Location<'static>, why: String) {
        self.with_location(at, || self.with(|e| e.fail(Error::new(Kind::Shape, why))));
    }
}
