//! An op of your own, with its kernel, an attribute, its derivative and the cases that test it: a leaky sum along the
//! last axis, as neurons and exponential averages have it. The program learns the gain of a signal behind such a sum.
//!
//! Run it with `cargo run --release --example custom_op`; it prints `gain 2.5000`.

use arenagrad::op::{Args, Batch, Buf, Call, Case, CostClass, Deriv, Domain, Lower, LowerCx, OpDef, attrs};
use arenagrad::prelude::*;

attrs! {
    /// Attributes of `leaky_sum`.
    pub struct LeakySumAttrs {
        /// The share of a sum that stays for the next element, in 0..=1.
        decay: f64,
    }
}

/// y₀ = x₀, yᵢ = decay·yᵢ₋₁ + xᵢ.
pub static LEAKY_SUM: OpDef =
    OpDef::new("leaky_sum", "yᵢ = decay·yᵢ₋₁ + xᵢ along the last axis, y₋₁ = 0; x̄ = the same sum from the end")
        .attrs(LeakySumAttrs::FIELDS)
        .infer(|cx| {
            cx.float(0)?;
            let LeakySumAttrs { decay } = LeakySumAttrs::of(&cx.attrs);
            if cx.dims(0).is_empty() {
                return Err("x is a scalar; it needs an axis to run along".to_string());
            }
            if !(0.0..=1.0).contains(&decay) {
                return Err(format!("decay is {decay}; it must be in 0..=1"));
            }
            cx.same_as(0)
        })
        // Linear: forward mode is the op itself, and the transpose is the op on the reversed rows.
        .deriv(Deriv::Linear(|s, _, ct| s.rebuild_with(&[ct.flip(-1)]).first().map(|y| y.flip(-1))))
        .batch(Batch::Members)
        .lower(Lower::Kernel(lower))
        .cost(|cx| 2 * cx.out())
        .cases(&[
            Case::new("f[3,7]", "decay=0.5", &[Domain::Real]),
            Case::new("f[5]", "decay=1.0", &[Domain::Real]),
            Case::new("f[2,3,4]", "decay=0.0", &[Domain::Real]),
            Case::new("f[0,4]", "decay=0.5", &[Domain::Real]),
            // Several units.
            Case::new("f[900,11]", "decay=0.9", &[Domain::Real]),
        ]);

/// Elements of a unit, about: the share of the work that one thread takes at a time.
const UNIT: usize = 4096;

/// The kernel's time, which decides how many threads share a call: nanoseconds of a call, femtoseconds of an operation
/// and of a byte.
const SWEEP: CostClass = CostClass::new(80, 600_000, 30_000);

/// The kernel call of a node: parameters, operands, and how units divide the result.
fn lower(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let d = cx.arg_dims(0);
    let n = d.last().copied().unwrap_or(1).max(1);
    let rows = (UNIT / n).max(1);
    let kernel = if cx.dtype(0) == DType::F32 { leaky_f32 } else { leaky_f64 };
    let params = [n as u64, rows as u64, LeakySumAttrs::of(&cx.attrs()).decay.to_bits()];
    let call = Call::new(kernel, params, (d.numel() / n).div_ceil(rows)).flops(cx.flops()).cost_class(SWEEP);
    cx.call(call.reads_args(1).writes(Buf::Out(0), rows * n).inplace(&[(0, 0)]));
    Ok(())
}

macro_rules! leaky {
    ($($kernel:ident: $t:ty;)*) => {$(
        /// Computes a range of units: whole rows. In place, y holds x already.
        fn $kernel(args: &mut Args<'_>) {
            let [n, rows, decay] = *args.params() else { return };
            let (n, rows, decay) = (n as usize, rows as usize, f64::from_bits(decay) as $t);
            let first = args.units().start * rows * n;
            let x = args.inplace(0).is_none().then(|| args.read::<$t>(0));
            let y = args.write::<$t>(0);
            if let Some(x) = x {
                y.copy_from_slice(&x[first..][..y.len()]);
            }
            for row in y.chunks_exact_mut(n) {
                for i in 1..n {
                    row[i] += decay * row[i - 1];
                }
            }
        }
    )*};
}

leaky! {
    leaky_f32: f32;
    leaky_f64: f64;
}

/// A node of the op.
pub fn leaky_sum(x: Var<'_>, decay: f64) -> Var<'_> {
    x.builder().custom(&LEAKY_SUM, &[x], &LeakySumAttrs { decay }.list())[0]
}

/// Learns `gain` in y = leaky_sum(gain·x) from the answers for gain 2.5.
pub fn learn() -> Result<f32> {
    let g = Builder::new("leaky");
    let (x, y) = (g.input("x", [4, 32], DType::F32), g.input("y", [4, 32], DType::F32));
    let gain = g.param("gain", [], DType::F32, Init::Ones);
    let loss = leaky_sum(x * gain, 0.9).mse(y).named("loss");
    let graph = g.finish([loss])?;
    let mut p = Session::new().compile(&train(&graph, "loss", optim::Sgd::new(0.1))?)?;
    p.init(0)?;
    let signal = |i: usize| ((i * i + 3 * i) % 17) as f32 / 8.0 - 1.0;
    p.values_mut::<f32>("x")?.iter_mut().enumerate().for_each(|(i, x)| *x = signal(i));
    for (r, row) in p.values_mut::<f32>("y")?.chunks_mut(32).enumerate() {
        let mut sum = 0.0;
        for (i, y) in row.iter_mut().enumerate() {
            sum = 0.9 * sum + 2.5 * signal(32 * r + i);
            *y = sum;
        }
    }
    for _ in 0..200 {
        p.step()?;
    }
    Ok(p.values::<f32>("gain")?[0])
}

#[allow(dead_code)] // Tests use this file as a module.
fn main() -> Result<()> {
    println!("gain {:.4}", learn()?);
    Ok(())
}
