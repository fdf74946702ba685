//! The counted loop: one op, whose body is a region.
//!
//! Operands are carries, then constants of the loop, then stacked inputs; results are the final carries, then stacked
//! results. The body's arguments are carries, constants and one slice (the leading axis removed) of each stacked
//! input; it yields the next carries and one slice of each stacked result. Iteration `i` runs from 0 to `length − 1`,
//! or backwards, and slices and stacks by `i` either way. Invariant: a carry keeps its type.

use crate::arena::Region;
use crate::arena::ids::Id;
use crate::ensure;
use crate::nodes::ir::attrs::Attrs;
use crate::nodes::ir::call::CostCx;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ir::typed::attrs;

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
    }
}

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
}

impl Scan {
    /// From the attributes of a scan.
    pub fn of(attrs: &Attrs<'_>) -> Scan {
        let ScanAttrs { body, carries, consts, length, reverse } = ScanAttrs::of(attrs);
        let [carries, consts, length] = [carries, consts, length].map(|n| n.max(0) as usize);
        Scan { body, carries, consts, length, reverse }
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
    infer: infer_scan,
    deriv: Deriv::Loop,
    decompose: None,
    lower: Lower::Loop,
    cost: scan_cost,
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

/// Attribute `name` as a number that is not negative.
fn scan_count(name: &str, n: i64) -> Result<usize, String> {
    usize::try_from(n).map_err(|_| format!("{name} is {n}; it must not be negative"))
}

fn infer_scan(cx: &mut Infer<'_>) -> Result<(), String> {
    let attrs = ScanAttrs::of(&cx.attrs);
    let (carries, consts) = (scan_count("carries", attrs.carries)?, scan_count("consts", attrs.consts)?);
    let length = scan_count("length", attrs.length)?;
    let sig = cx.signature(attrs.body)?;
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

/// The cost of all nodes of the body, times the number of iterations.
fn scan_cost(cx: &CostCx<'_>) -> u64 {
    let s = Scan::of(&cx.graph.attrs(cx.node));
    if s.body.at() >= cx.graph.regions() {
        return 0;
    }
    let one = |n| (cx.graph.def_of(n).cost)(&CostCx { graph: cx.graph, node: n });
    let body: u64 = cx.graph.region_nodes(s.body).map(one).fold(0, u64::saturating_add);
    body.saturating_mul(s.length as u64)
}
