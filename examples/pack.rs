//! A pack of one op, written outside of the library: `thin_plate`, y = x²·ln x for x > 0, the radial basis of
//! thin-plate splines, with a kernel, a fault, a pattern, a class of cost and a function of the oracle of its own.
//!
//! An operand that is 0 or less ends the step with an error; NaN passes. The pattern `thin-plate` puts the op in the
//! place of `x·x·ln x` (or `x·(x·ln x)`), both before derivatives are taken and before lowering. It changes bits: the
//! logarithm is that of the standard library.

use arenagrad::error::{Error, Kind as ErrorKind};
use arenagrad::op::{
    Args, Batch, Buf, Call, Case, Cause, CostClass, Deriv, Domain, Found, Lower, LowerCx, Match, Op, OpDef, Pack,
    Pattern, PatternFacts, Roots,
};
use arenagrad::prelude::*;
use arenagrad::tools::arena::{Node, Value, ids::Id};
use arenagrad::tools::fuzz::{Array, OracleOps, Stop};

/// y = x²·ln x.
pub static THIN_PLATE: OpDef = OpDef::new("thin_plate", "y = x²·ln x, x > 0 (else a fault); y' = x·(2·ln x + 1)")
    .infer(|cx| {
        cx.float(0)?;
        cx.same_as(0)
    })
    .deriv(Deriv::Pointwise(|s, _| Some(s.args[0] * (s.args[0].log() * 2.0 + 1.0))))
    .batch(Batch::Leading)
    .decompose(|s| vec![s.args[0] * s.args[0] * s.args[0].log()])
    .lower(Lower::Kernel(lower))
    .cost(|cx| 3 * cx.out())
    .cases(&[
        Case::new("f[3,4]", "", &[Domain::Positive]),
        Case::new("f[]", "", &[Domain::Beyond]),
        Case::new("f[0,3]", "", &[Domain::Positive]),
        Case::new("f[9000]", "", &[Domain::Chance]),
    ])
    .pack(&PACK);

/// All that the engine must know of the op. `before_ad` finds the pattern in a graph that is to be trained.
pub static PACK: Pack = Pack::new("thin-plate")
    .ops(&[&THIN_PLATE])
    .before_ad(&[Pattern::new("thin-plate-ad", Roots::Picked(|op| op == Op::MUL), find)])
    .patterns(&[Pattern::new("thin-plate", Roots::Picked(|op| op == Op::MUL), find)])
    .costs(&[("THIN_PLATE", SWEEP)])
    .oracle(&ORACLE);

/// A node of the op.
#[track_caller]
pub fn thin_plate(x: Var<'_>) -> Var<'_> {
    x.builder().custom(&THIN_PLATE, &[x], &[])[0]
}

/// An operation is a third of an element: about 9 ns of a scalar logarithm.
const SWEEP: CostClass = CostClass::new(80, 3_000_000, 30_000);

/// Elements of a unit.
const UNIT: usize = 4096;

/// What a step says of an operand that is 0 or less.
static NOT_POSITIVE: Cause = Cause::new("thin_plate of no positive number", |bad, f| {
    write!(f, "element {} of x is 0 or less; it must be above 0", bad.element)
});

fn lower(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let len = cx.arg_dims(0).numel();
    let kernel = if cx.dtype(0) == DType::F32 { sweep_f32 } else { sweep_f64 };
    let call = Call::new(kernel, [], len.div_ceil(UNIT)).flops(cx.flops()).cost_class(SWEEP).faults();
    cx.call(call.reads_args(1).writes(Buf::Out(0), UNIT).inplace(&[(0, 0)]));
    Ok(())
}

macro_rules! sweeps {
    ($($kernel:ident: $t:ty;)*) => {$(
        fn $kernel(args: &mut Args<'_>) {
            let first = args.units().start * UNIT;
            let x = args.inplace(0).is_none().then(|| args.read::<$t>(0));
            let y = args.write::<$t>(0);
            if let Some(x) = x {
                y.copy_from_slice(&x[first..][..y.len()]);
            }
            if let Some(i) = y.iter().position(|x| *x <= 0.0) {
                return args.report(&NOT_POSITIVE, first + i, None);
            }
            for y in y {
                *y = *y * *y * y.ln();
            }
        }
    )*};
}

sweeps! {
    sweep_f32: f32;
    sweep_f64: f64;
}

/// The two values whose product is `v`, if it is one.
fn factors(f: &PatternFacts<'_>, v: Value) -> Option<(Node, [Value; 2])> {
    let mul = f.is(v, Op::MUL)?;
    Some((mul, [f.args(mul)[0], f.args(mul)[1]]))
}

/// `x·x·ln x`, in any order of the factors.
fn find(f: &PatternFacts<'_>, root: Node) -> Found {
    let Some((_, ends)) = factors(f, f.g.out(root)) else {
        return Found::No;
    };
    for (product, third) in [(ends[0], ends[1]), (ends[1], ends[0])] {
        let Some((mul, inner)) = factors(f, product) else {
            continue;
        };
        let all = [inner[0], inner[1], third];
        for at in 0..3 {
            let Some(log) = f.is(all[at], Op::LOG) else {
                continue;
            };
            let x = f.args(log)[0];
            if !f.g.dtype[x.at()].is_float() || all[(at + 1) % 3] != x || all[(at + 2) % 3] != x {
                continue;
            }
            for (what, v) in [("the product", product), ("the logarithm", all[at])] {
                if !f.alone(v) {
                    return Found::Missed(f.reads_of(what, v));
                }
            }
            return Found::Fired(Match::one(f.g.out(root), vec![x], vec![mul, log], |g, a| {
                g.custom(&THIN_PLATE, a, &[])[0]
            }));
        }
    }
    Found::No
}

/// The op by the oracle: in f64, with a bound of what rounding of the operand's type may do. |y'| ≤ 2·|x·ln x| + x.
static ORACLE: OracleOps = OracleOps {
    names: &["thin_plate"],
    run: |node| {
        let x = node.args[0];
        node.spend(2 * x.len() as u64)?;
        let unit = if node.dtypes[0] == DType::F32 { f32::EPSILON as f64 } else { f64::EPSILON };
        if let Some(i) = (0..x.len()).find(|&i| x.number(i) + x.bounds()[i] <= 0.0) {
            return Err(Stop::Fault(Error::new(ErrorKind::Data, format!("element {i} of x is 0 or less"))));
        }
        let mut open = false;
        let all: Vec<_> = (0..x.len())
            .map(|i| {
                let (x, off) = (x.number(i), x.bounds()[i]);
                open |= x - off <= 0.0;
                let most = x + off;
                let slope = 2.0 * (most * most.ln()).abs().max((x * x.ln()).abs()) + 2.0 * most;
                let y = x * x * x.ln();
                (y, slope * off + 4.0 * unit * y.abs())
            })
            .collect();
        *node.may_fault() |= open;
        Ok(vec![Array::reals(node.dtypes[0], &node.dims[0], all.into_iter())])
    },
};

/// Learns `w` in y = thin_plate(w·x) from the answers for w = 1.3. The net writes the function out; the pattern finds
/// it. Returns the weight, and the error of a step whose fifth operand is below 0.
pub fn learn() -> Result<(f64, String)> {
    let g = Builder::new("spline");
    g.pack(&PACK);
    let (x, y) = (g.input("x", [6], DType::F64), g.input("y", [6], DType::F64));
    let r = x * g.param("w", [], DType::F64, Init::Ones);
    let loss = (r * r * r.log()).mse(y).named("loss");
    let step = train(&g.finish([loss])?, "loss", optim::Sgd::new(0.02))?;
    let mut p = Session::new().compile(&step)?;
    p.init(0)?;
    for i in 0..6 {
        let x = 0.4 + 0.3 * i as f64;
        p.values_mut::<f64>("x")?[i] = x;
        p.values_mut::<f64>("y")?[i] = (1.3 * x).powi(2) * (1.3 * x).ln();
    }
    for _ in 0..400 {
        p.step()?;
    }
    let learnt = p.values::<f64>("w")?[0];
    p.values_mut::<f64>("x")?[4] = -0.5;
    let fault = p.step().err().map(|e| e.to_string()).unwrap_or_default();
    Ok((learnt, fault))
}

#[allow(dead_code)] // Tests use this file as a module.
fn main() -> Result<()> {
    let (weight, fault) = learn()?;
    println!("w {weight:.4}\n{fault}");
    Ok(())
}
