//! The counted loop: one row, whose body is a region.
//!
//! Operands are carries, then constants of the loop, then stacked inputs; results are the final carries, then stacked
//! results. The body's arguments are carries, constants and one slice (the leading axis removed) of each stacked
//! input; it yields the next carries and one slice of each stacked result. Iteration `i` runs from 0 to `length − 1`,
//! or backwards, and slices and stacks by `i` either way. Invariant: a carry keeps its type.

use crate::arena::Region;
use crate::arena::ids::Id;
use crate::ensure;
use crate::nodes::ir::attrs::{Attrs, Field, Kind};
use crate::nodes::ir::call::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, OpDef};

/// The attributes of a scan.
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
}

impl Scan {
    /// From the attributes of a scan.
    pub fn of(a: &Attrs<'_>) -> Scan {
        Scan { body: a.region(0), carries: a.size(1), consts: a.size(2), length: a.size(3), reverse: a.bool(4) }
    }

    /// Position of the first stacked input among the operands.
    pub fn xs(&self) -> usize {
        self.carries + self.consts
    }
}

/// See `doc`.
pub const SCAN: OpDef = OpDef {
    name: "scan",
    doc: "(c, yᵢ) ← body(c, consts, xᵢ) for each i < length: the final carries c and the stacked yᵢ",
    arity: Arity::AtLeast(0),
    attrs: &[
        Field::new("body", Kind::Region),
        Field::new("carries", Kind::Int),
        Field::new("consts", Kind::Int),
        Field::new("length", Kind::Int),
        Field::new("reverse", Kind::Bool),
    ],
    flags: Flags::PURE,
    infer,
    deriv: Deriv::Loop,
    decompose: None,
    lower: Lower::Loop,
    cost,
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
    ],
};

const REAL: &[Domain] = &[Domain::Real];

fn count(cx: &Infer<'_>, i: usize) -> Result<usize, String> {
    let (name, n) = (cx.attrs.fields[i].name, cx.attrs.int(i));
    usize::try_from(n).map_err(|_| format!("{name} is {n}; it must not be negative"))
}

fn infer(cx: &mut Infer<'_>) -> Result<(), String> {
    let (carries, consts, length) = (count(cx, 1)?, count(cx, 2)?, count(cx, 3)?);
    let sig = cx.signature(0)?;
    let show = |cx: &Infer<'_>, ty: crate::nodes::Ty| format!("{}{}", ty.dtype, cx.shapes.dims(ty.shape));
    let n = cx.args.len();
    ensure!(sig.args.len() == n, "{n} operands, and the body has {} arguments", sig.args.len());
    let before = carries.checked_add(consts).filter(|&k| k <= n);
    let before = before.ok_or_else(|| format!("{carries} carries and {consts} consts, and there are {n} operands"))?;
    ensure!(sig.yields.len() >= carries, "{carries} carries, and the body yields {} values", sig.yields.len());
    ensure!(!sig.yields.is_empty(), "the body yields nothing");
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
            crate::nodes::ir::infer::show(slice),
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

/// That of all nodes of the body, as often as it runs.
fn cost(cx: &CostCx<'_>) -> u64 {
    let s = Scan::of(&cx.graph.attrs(cx.node));
    if s.body.at() >= cx.graph.regions() {
        return 0;
    }
    let one = |n| (cx.graph.def_of(n).cost)(&CostCx { graph: cx.graph, node: n });
    let body: u64 = cx.graph.region_nodes(s.body).map(one).fold(0, u64::saturating_add);
    body.saturating_mul(s.length as u64)
}
