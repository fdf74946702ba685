//! Calls and loops as methods of [`Builder`]: closures become bodies, and captured values become operands.
//!
//! Invariant: the closure of a body runs once, while the graph is built; leaves that it declares are in the entry.

use crate::arena::Value;
use crate::error::{Error, Kind};
use crate::nodes::ir::builder::{Builder, Routine, Var, foreign};
use crate::nodes::ir::dtype::{DType, Ty};
use crate::nodes::ir::opdef::Op;
use crate::nodes::ir::results::Results;
use crate::nodes::ops::control::call::CallAttrs;
use crate::nodes::ops::control::scan::ScanAttrs;

/// How a loop runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loop {
    /// Number of iterations; `None`: the number of slices of the stacked inputs.
    pub length: Option<usize>,
    /// Whether it runs from the last slice to the first; results are stacked in the inputs' order either way.
    pub reverse: bool,
}

/// Final carries and stacked results.
pub type Scanned<'g> = (Vec<Var<'g>>, Vec<Var<'g>>);

impl Builder {
    /// Calls a region, which must be of this builder. `args` have the types of its arguments; the results are its
    /// yields.
    #[track_caller]
    pub fn call(&self, routine: Routine<'_>, args: &[Var<'_>]) -> Results<'_> {
        self.record_location();
        if !std::ptr::eq(self, routine.g) {
            self.with(|e| e.fail(foreign("call")));
            return Results::new(self, Vec::new());
        }
        self.emit(Op::CALL, args, &CallAttrs { body: routine.region }.list())
    }

    /// A loop over the leading axis of `xs`. Each iteration computes `(carries, y) = f(carries, x)` with one slice `x`
    /// of each of `xs`; the result is the final carries and the stacked `y`. A carry keeps its type. `f` runs once,
    /// while the graph is built, and may use any value from outside. After an error, the number of results is the same.
    #[track_caller]
    pub fn scan<'g>(
        &'g self,
        carries: &[Var<'g>],
        xs: &[Var<'g>],
        f: impl FnOnce(&[Var<'g>], &[Var<'g>]) -> Scanned<'g>,
    ) -> Scanned<'g> {
        self.scan_with(Loop::default(), carries, xs, f)
    }

    /// As [`Builder::scan`], with its options in `how`. Without stacked inputs `how.length` is needed.
    #[track_caller]
    pub fn scan_with<'g>(
        &'g self,
        how: Loop,
        carries: &[Var<'g>],
        xs: &[Var<'g>],
        f: impl FnOnce(&[Var<'g>], &[Var<'g>]) -> Scanned<'g>,
    ) -> Scanned<'g> {
        self.record_location();
        let dims: Vec<_> = xs.iter().map(|x| x.dims()).collect();
        let length = how.length.or_else(|| dims.first()?.first().copied());
        if length.is_none() {
            self.fail(Kind::Shape, "scan: the number of iterations is that of the first stacked input or a length");
        }
        let length = length.unwrap_or(0);
        // Operands first: they may be captures themselves, if this loop is in another.
        let mut args: Vec<Value> = carries.iter().map(|c| self.local(*c)).collect();
        let stacked: Vec<Value> = xs.iter().map(|x| self.local(*x)).collect();
        let mut tys: Vec<Ty> = carries.iter().map(|c| c.ty()).collect();
        for (x, d) in xs.iter().zip(&dims) {
            // Shape inference of the loop refuses a scalar. Until then its slice is the scalar itself.
            let ty = x.ty();
            tys.push(self.shape(d.get(1..).unwrap_or(&[])).map_or(ty, |shape| Ty { shape, ..ty }));
        }
        // The body is built even after an error: the number of results follows from it.
        self.with(|e| e.open_loop("scan"));
        let inner: Vec<Var<'g>> = tys.iter().map(|&ty| self.var(self.with(|e| e.region_arg(ty)))).collect();
        let (next, ys) = f(&inner[..carries.len()], &inner[carries.len()..]);
        self.record_location();
        let yields: Vec<Value> = next.iter().chain(&ys).map(|y| self.local(*y)).collect();
        let body = self.with(|e| e.close_loop(carries.len(), xs.len(), &yields));
        if next.len() != carries.len() {
            let why = format!("scan: {} carries enter the body and {} leave it", carries.len(), next.len());
            self.with(|e| e.fail(Error::new(Kind::Shape, why)));
        }
        args.extend(&body.captures);
        args.extend(stacked);
        if body.indexed {
            args.push(self.iota(0, [length], DType::U32).v);
        }
        let attrs = ScanAttrs {
            body: body.region,
            carries: carries.len() as i64,
            consts: body.captures.len() as i64,
            length: i64::try_from(length).unwrap_or(-1),
            reverse: how.reverse,
        };
        let failed = self.error().is_some();
        let outs = self.with(|e| e.emit(Op::SCAN, &args, &attrs.list()));
        let count = carries.len() + ys.len();
        let mut all: Vec<Var<'g>> = match failed || outs.len() != count {
            true => vec![self.var(Value::NONE); count],
            false => outs.iter().map(|v| self.var(v)).collect(),
        };
        let ys = all.split_off(carries.len());
        (all, ys)
    }
}
