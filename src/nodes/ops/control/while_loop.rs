//! Loops whose number of iterations is known when the step runs, as builder methods: a scan over the largest number of
//! iterations, whose body is a choice. So all that holds of scans and choices holds of them, derivatives included.
//!
//! An iteration that is not run computes nothing; it hands its carries on. Invariant: a loop that would go on after its
//! bound stops the step. The check is part of what decides whether an iteration runs, so no pass can drop it.

use super::scan::Loop;
use crate::error::{Error, Kind};
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;
use std::panic::Location;

/// Final carries, and the number of iterations, `i64[]`.
pub type Looped<'g> = (Vec<Var<'g>>, Var<'g>);

impl Builder {
    /// Runs `carries = body(carries)` for as long as `go_on(carries)` is true; it is asked before each iteration. The
    /// result is the final carries and the number of iterations, `i64[]`. A carry keeps its type. A loop that would go
    /// on after `bound` iterations stops the step with an error: `bound` is not in `0..bound`.
    ///
    /// `body` runs once, while the graph is built, and `go_on` twice. Both may use any value from outside. Gradients
    /// are those of the iterations that ran. The carries that gradients keep take the memory of `bound` iterations. An
    /// iteration that does not run costs a copy of the carries.
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
        let at = Location::caller();
        if bound == 0 {
            self.fail(Kind::Shape, "while_loop: the bound is 0; it must be the most iterations that may run");
        }
        let first = self.loop_condition(at, go_on(carries));
        // The number of iterations so far, n; −n − 1 once the loop has ended.
        let start = self.with_location(at, || first.select_as(0.0, -1.0, DType::I64));
        let all: Vec<Var<'g>> = std::iter::once(start).chain(carries.iter().copied()).collect();
        let iterations = self.with_location(at, || self.iota(0, [bound.saturating_add(1)], DType::I64));
        let (mut last, _) = self.scan_with(Loop::default(), &all, &[iterations], |c, i| {
            let runs = self.with_location(at, || c[0].greater_equal(0.0));
            let iteration = || {
                // The gather checks that the iteration is below the bound.
                let n = self.with_location(at, || self.iota(0, [bound], DType::I64).gather(i[0], 0) + 1.0);
                let next = self.loop_carries(at, &c[1..], body(&c[1..]));
                let on = self.loop_condition(at, go_on(&next));
                let state = self.with_location(at, || on.select(n, -n - 1.0));
                std::iter::once(state).chain(next).collect()
            };
            (self.choose(at, runs, iteration, || c.to_vec()), Vec::new())
        });
        let ended = last.remove(0);
        (last, self.with_location(at, || -ended - 1.0))
    }

    /// Runs `carries = body(i, carries)` for i from 0 to `n − 1`; `i` is `i64[]`. `n`, `i32[]` or `i64[]`, is known
    /// when the step runs; a number outside `0..=bound` stops the step with an error. The result is the final carries.
    /// Otherwise as [`Builder::while_loop`].
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
        let at = Location::caller();
        if !matches!(n.dtype(), DType::I32 | DType::I64) || !n.dims().is_empty() {
            let is = format!("{}{}", n.dtype(), n.dims());
            self.fail(Kind::Shape, format!("fori: the number of iterations is {is}; it must be i32[] or i64[]"));
        }
        // The gather checks the number.
        let n = self.with_location(at, || self.iota(0, [bound.saturating_add(1)], DType::I64).gather(n, 0));
        let iterations = self.with_location(at, || self.iota(0, [bound], DType::I64));
        let (last, _) = self.scan_with(Loop::default(), carries, &[iterations], |c, i| {
            let runs = self.with_location(at, || i[0].less(n));
            let iteration = || self.loop_carries(at, c, body(i[0], c));
            (self.choose(at, runs, iteration, || c.to_vec()), Vec::new())
        });
        last
    }

    /// `on`, or an error if it is no predicate.
    fn loop_condition<'g>(&'g self, at: &'static Location<'static>, on: Var<'g>) -> Var<'g> {
        if on.dtype() == DType::Bool && on.dims().is_empty() {
            return on;
        }
        let is = format!("{}{}", on.dtype(), on.dims());
        self.loop_error(at, format!("while_loop: the condition is {is}; it must be bool[]"));
        self.with_location(at, || self.full(0.0, [], DType::Bool))
    }

    /// The next carries, or an error if they have not the types of the old ones.
    fn loop_carries<'g>(&'g self, at: &'static Location<'static>, old: &[Var<'g>], new: Vec<Var<'g>>) -> Vec<Var<'g>> {
        let (n, m) = (old.len(), new.len());
        if n != m {
            self.loop_error(at, format!("loop: {n} carries enter the body and {m} leave it"));
            return old.to_vec();
        }
        let show = |x: Var<'g>| format!("{}{}", x.dtype(), x.dims());
        if let Some(i) = (0..n).find(|&i| old[i].ty() != new[i].ty()) {
            let (is, next) = (show(old[i]), show(new[i]));
            self.loop_error(at, format!("loop: carry {i} enters the body as {is} and leaves it as {next}"));
            return old.to_vec();
        }
        new
    }

    fn loop_error(&self, at: &'static Location<'static>, why: String) {
        self.with_location(at, || self.with(|e| e.fail(Error::new(Kind::Shape, why))));
    }
}
