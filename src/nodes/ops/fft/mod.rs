//! Fourier transforms along the last axis, of any length from 1 on. The ops multiply by any factor, the attribute
//! `scale`. The methods have NumPy's names and take the factor from NumPy's norms.
//!
//! Derivatives follow the convention of complex cotangents (see [`complex`](crate::nodes::ops::complex)): the transpose
//! of a transform is the transform in the other direction with the same factor.

pub mod attrs;
pub mod lower;
pub mod norm;
pub mod var;

use crate::arena::dims::Dims;
use crate::ensure;
use crate::kernels::cost_model::CostClass;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::cost_cx::CostCx;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::pack::Pack;
use crate::nodes::ir::site::Site;
use Domain::Real;
use attrs::{FftAttrs, IrfftAttrs, RfftAttrs};

/// Fourier transforms. An estimate: half the rate of convolutions and less.
pub const TRANSFORM: CostClass = CostClass::new(200, 60_000, 30_000);

/// What the engine knows of the family beside its definitions.
pub static PACK: Pack = Pack::new("fft").costs(&[("FFT", TRANSFORM)]);

/// The longest transform: its tables take at most about a gibibyte.
pub const LONGEST_FFT: usize = 1 << 24;

/// The length of a transform of operand 0, which has `n` elements along its last axis.
fn check_length(n: usize) -> Result<usize, String> {
    ensure!(n >= 1, "the last axis is empty; a transform has 1 element or more");
    ensure!(n <= LONGEST_FFT, "a transform of {n} elements; at most {LONGEST_FFT} are allowed");
    Ok(n)
}

/// The dimensions of operand 0 before the last axis, and the length of that.
fn check_rows(cx: &Infer<'_>) -> Result<(Dims, usize), String> {
    let d = cx.dims(0);
    let n = d.last().copied().ok_or("a scalar has no axis to transform along")?;
    Ok((d, n))
}

/// 5·n·log₂ n for each row, the usual count of a complex transform.
fn count_flops(cx: &CostCx<'_>) -> u64 {
    let elements = cx.out().max(cx.args());
    elements.saturating_mul(5 * u64::from(u64::BITS - elements.leading_zeros()))
}

/// Complex transforms.
pub const FFT: OpDef = OpDef {
    name: "fft",
    doc: "yₖ = scale·Σₙ zₙ·e^(∓2πikn/N) along the last axis; + if `inverse`",
    arity: Arity::Exactly(1),
    attrs: FftAttrs::FIELDS,
    flags: Flags::PURE,
    infer: |cx| {
        cx.complex(0)?;
        let (_, n) = check_rows(cx)?;
        check_length(n)?;
        cx.same_as(0)
    },
    deriv: Deriv::Linear(|s, _, g| {
        let FftAttrs { inverse, scale } = FftAttrs::of(&s.attrs);
        Some(g.scaled_fft(!inverse, scale))
    }),
    batch: Batch::Leading,
    lower: Lower::Kernel(lower::emit_fft),
    cost: count_flops,
    cases: &[
        Case { args: "c[3,8]", attrs: "inverse=false scale=1", domains: &[Real] },
        Case { args: "c[2,5]", attrs: "inverse=true scale=0.2", domains: &[Real] },
        Case { args: "c[1]", attrs: "inverse=false scale=2", domains: &[Real] },
        Case { args: "c[700,7]", attrs: "inverse=false scale=1", domains: &[Real] },
        Case { args: "c[0,4]", attrs: "inverse=false scale=1", domains: &[Real] },
    ],
    pack: Some(&PACK),
    ..OpDef::BLANK
};

/// The half spectrum of real rows.
pub const RFFT: OpDef = OpDef {
    name: "rfft",
    doc: "yₖ = scale·Σₙ xₙ·e^(−2πikn/N) along the last axis for k = 0 … N/2; the rest is conjugate",
    attrs: RfftAttrs::FIELDS,
    infer: |cx| {
        let float = cx.float(0)?;
        let (d, n) = check_rows(cx)?;
        let half = check_length(n)? / 2 + 1;
        let to = float.complex().ok_or_else(|| format!("there are no complex numbers of {float}"))?;
        cx.result(to, &[&d[..d.len() - 1], &[half]].concat())
    },
    // Zeros stand for the half that is left out: no element is counted twice.
    deriv: Deriv::Linear(|s, _, g| {
        let (d, half) = (s.args[0].dims(), g.dims());
        let missing = d.last().copied()? - half.last().copied()?;
        let mut high = vec![0; d.len()];
        *high.last_mut()? = missing;
        Some(g.pad(&vec![0; d.len()], &high, 0.0).scaled_fft(true, RfftAttrs::of(&s.attrs).scale).real())
    }),
    lower: Lower::Kernel(lower::emit_rfft),
    cases: &[
        Case { args: "f[3,8]", attrs: "scale=1", domains: &[Real] },
        Case { args: "f[2,5]", attrs: "scale=0.5", domains: &[Real] },
        Case { args: "f[1]", attrs: "scale=1", domains: &[Real] },
        Case { args: "f[600,9]", attrs: "scale=1", domains: &[Real] },
        Case { args: "f[2,2]", attrs: "scale=1", domains: &[Real] },
    ],
    ..FFT
};

/// 2 for each element of a half spectrum that stands for two, 1 for the others; with `imag`, 0 for those whose
/// imaginary part is ignored.
fn weigh_half_spectrum<'g>(g: Var<'g>, n: usize, imag: bool) -> Var<'g> {
    let k = g.g.iota(0, [n / 2 + 1], DType::I64);
    let alone = k.equal(0.0).logical_or((k * 2.0).equal(n as f64));
    alone.select_as(if imag { 0.0 } else { 1.0 }, 2.0, g.dtype().part()).broadcast(g.dims())
}

fn transpose_irfft<'g>(s: &Site<'_, 'g>, _: usize, g: Var<'g>) -> Option<Var<'g>> {
    let IrfftAttrs { n, scale } = IrfftAttrs::of(&s.attrs);
    let n = usize::try_from(n).ok()?;
    let z = s.g.emit1(Op::RFFT, &[g], &RfftAttrs { scale }.list());
    Some((z.real() * weigh_half_spectrum(z, n, false)).complex(z.imag() * weigh_half_spectrum(z, n, true)))
}

/// Real rows of a half spectrum.
pub const IRFFT: OpDef = OpDef {
    name: "irfft",
    doc: "yₙ = scale·Σₖ zₖ·e^(2πikn/N) along the last axis, N = `n`, z being the half 0 … N/2 of a conjugate-even \
          spectrum; Im z₀ and, for an even N, Im z of N/2 are ignored",
    attrs: IrfftAttrs::FIELDS,
    infer: |cx| {
        let part = cx.complex(0)?;
        let (d, half) = check_rows(cx)?;
        let n = IrfftAttrs::of(&cx.attrs).n;
        let size = usize::try_from(n).map_err(|_| format!("n is {n}; it must be 1 or more"))?;
        ensure!(size >= 1, "n is 0; it must be 1 or more");
        check_length(size)?;
        let want = size / 2 + 1;
        ensure!(half == want, "the last axis has {half} elements; the half spectrum of {n} has {want}");
        cx.result(part, &[&d[..d.len() - 1], &[size]].concat())
    },
    deriv: Deriv::Linear(transpose_irfft),
    lower: Lower::Kernel(lower::emit_irfft),
    cases: &[
        Case { args: "c[3,5]", attrs: "n=8 scale=0.125", domains: &[Real] },
        Case { args: "c[2,3]", attrs: "n=5 scale=1", domains: &[Real] },
        Case { args: "c[1]", attrs: "n=1 scale=1", domains: &[Real] },
        Case { args: "c[2]", attrs: "n=2 scale=1", domains: &[Real] },
        Case { args: "c[600,5]", attrs: "n=9 scale=1", domains: &[Real] },
    ],
    ..FFT
};
