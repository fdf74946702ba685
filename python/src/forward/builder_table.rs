//! Methods of builders: leaves, constants, random numbers, loops and branches.

use super::{Args, Forward, forwards};
use arenagrad::graph::{Loop, SwitchBranch};
use pyo3::prelude::*;

pub const TABLE: &[Forward] = forwards! {
    "input" "(name: str, shape: Shape, dtype: DTypeLike = \"f32\", default: float | None = None) -> Var"
    "A value that the caller writes before each step; until then, `default`."
    => |a| match a.maybe_f64(3)? { Some(x) => a.g.input_or(&a.text(0)?, a.dims(1)?, a.dtype(2)?, x),
        None => a.g.input(&a.text(0)?, a.dims(1)?, a.dtype(2)?) };
    "param"
    "(name: str, shape: Shape, init: InitLike = \"zeros\", dtype: DTypeLike = \"f32\", frozen: bool = False) -> Var"
    "A value that training changes."
    => |a| if a.bool(4)? { a.g.frozen_param(&a.text(0)?, a.dims(1)?, a.dtype(3)?,
        a.init(2)?) } else { a.g.param(&a.text(0)?, a.dims(1)?, a.dtype(3)?, a.init(2)?) };
    "state" "(name: str, shape: Shape, init: InitLike = \"zeros\", dtype: DTypeLike = \"f32\") -> Var"
    "A value that persists from step to step and changes by `update` only."
    => |a| a.g.state(&a.text(0)?, a.dims(1)?, a.dtype(3)?, a.init(2)?);
    "buffer" "(name: str, shape: Shape, init: InitLike = \"zeros\", dtype: DTypeLike = \"f32\") -> Var"
    "A state that belongs to a layer: files of weights hold it."
    => |a| a.g.buffer(&a.text(0)?, a.dims(1)?, a.dtype(3)?, a.init(2)?);
    "full" "(value: float, shape: Shape = (), dtype: DTypeLike = \"f32\") -> Var"
    "A fill."
    => |a| a.g.full(a.f64(0)?, a.dims(1)?, a.dtype(2)?);
    "iota" "(axis: int, shape: Shape, dtype: DTypeLike = \"i32\") -> Var"
    "The position along an axis."
    => |a| a.g.iota(a.i64(0)?, a.dims(1)?, a.dtype(2)?);
    "uniform" "(shape: Shape, dtype: DTypeLike = \"f32\") -> Var"
    "Uniform numbers in [0, 1), new ones in each step."
    => |a| a.g.uniform(a.dims(0)?, a.dtype(1)?);
    "normal" "(shape: Shape, dtype: DTypeLike = \"f32\") -> Var"
    "Numbers from the standard normal distribution."
    => |a| a.g.normal(a.dims(0)?, a.dtype(1)?);
    "randint" "(shape: Shape, low: int, high: int, dtype: DTypeLike = \"i32\") -> Var"
    "Integers from `low` to `high − 1`."
    => |a| a.g.randint(a.dims(0)?, a.dtype(3)?, a.i64(1)?, a.i64(2)?);
    "permutation" "(n: int) -> Var"
    "The numbers 0 … n − 1 in random order."
    => |a| a.g.permutation(a.size(0)?);
    "einsum" "(equation: str, *operands: Var) -> Var"
    "The Einstein sum, as `bij,bjk->bik`."
    => |a| a.g.einsum(&a.text(0)?, &a.vars(1)?);
    "cond" "(pred: Var, then: Callable[[], Vars], otherwise: Callable[[], Vars]) -> tuple[Var, ...]"
    "The results of `then` if `pred` is true, else those of `otherwise`; only that branch runs."
    => |a| a.g.cond(a.var(0)?, || a.region(1, &[]), || a.region(2, &[]));
    "scan"
    "(carries: Vars, xs: Vars, body: Callable[..., Vars], length: int | None = None, reverse: bool = False) -> \
     tuple[Var, ...]"
    "A loop over the first axis of `xs`: `body(*carries, *slices)` gives the next carries, then one slice of each \
     stacked result. Gives the last carries, then the stacked results."
    => |a| scan(a)?;
    "fori" "(n: Var, bound: int, carries: Vars, body: Callable[..., Vars]) -> tuple[Var, ...]"
    "Runs `carries = body(i, *carries)` n times; `n` is known when the step runs."
    => |a| a.g.fori(a.var(0)?, a.size(1)?, &a.vars(2)?, |i, c| a.region(3, &[&[i], c].concat()));
    "while_loop" "(carries: Vars, bound: int, go_on: Callable[..., Var], body: Callable[..., Vars]) -> tuple[Var, ...]"
    "Runs `carries = body(*carries)` while `go_on(*carries)`. If that still holds after `bound` iterations, the step \
     fails. Gives the last carries, then the number of iterations."
    => |a| while_loop(a)?;
    "vmap" "(xs: Vars, f: Callable[..., Vars]) -> tuple[Var, ...]"
    "`f` of each slice of the first axis of `xs`, stacked."
    => |a| a.g.vmap(&a.vars(0)?, |xs| a.region(1, xs));
    "switch" "(index: Var, branches: Sequence[Callable[[], Vars]]) -> tuple[Var, ...]"
    "The results of branch number `index`; only that branch runs."
    => |a| switch(a)?;
    "custom_fn"
    "(name: str, args: Vars, body: Callable[..., Vars], vjp: Callable[..., Any] | None = None, jvp: Callable[..., Any] \
     | None = None) -> tuple[Var, ...]"
    "A function with derivatives of its own. `vjp(args, results, cotangents)` gives a cotangent of each argument, or \
     None for zero; `jvp(args, results, tangents)` gives a tangent of each result."
    => |a| custom_fn(a)?;
};

type Values<'g> = Vec<arenagrad::graph::Var<'g>>;

fn scan<'g>(a: &Args<'_, 'g, '_>) -> PyResult<Values<'g>> {
    let (carries, xs) = (a.vars(0)?, a.vars(1)?);
    let mut how = Loop::default().reverse(a.bool(4)?);
    how.length = a.maybe_size(3)?;
    let n = carries.len();
    let (mut last, stacked) = a.g.scan_with(how, &carries, &xs, |c, x| {
        let mut next = a.region(2, &[c, x].concat());
        let slices = next.split_off(n.min(next.len()));
        (next, slices)
    });
    last.extend(stacked);
    Ok(last)
}

fn while_loop<'g>(a: &Args<'_, 'g, '_>) -> PyResult<Values<'g>> {
    let go_on = |c: &[arenagrad::graph::Var<'g>]| {
        let none = || a.g.fail(arenagrad::error::Kind::Arity, "while_loop: go_on gives one bool");
        a.region(2, c).first().copied().unwrap_or_else(none)
    };
    let (mut last, trips) = a.g.while_loop(&a.vars(0)?, a.size(1)?, go_on, |c| a.region(3, c));
    last.push(trips);
    Ok(last)
}

fn switch<'g>(a: &Args<'_, 'g, '_>) -> PyResult<Values<'g>> {
    let n = a.at(1)?.len()?;
    Ok(a.g.switch(a.var(0)?, (0..n).map(|k| Box::new(move || a.region_of(1, k)) as SwitchBranch<'_, 'g>).collect()))
}

fn custom_fn<'g>(a: &Args<'_, 'g, '_>) -> PyResult<Values<'g>> {
    let mut f = a.g.custom_fn(&a.text(0)?, &a.vars(1)?, |x| a.region(2, x));
    if !a.at(3)?.is_none() {
        f = f.vjp(|_, x, y, dy| a.rule(3, [x, y, dy]));
    }
    if !a.at(4)?.is_none() {
        f = f.jvp(|_, x, y, dx| a.rule(4, [x, y, dx]));
    }
    Ok(f.call())
}
