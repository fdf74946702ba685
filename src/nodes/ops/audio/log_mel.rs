//! The log-mel spectrum: energies of mel bins as logarithms that are cut off below their maximum.

use super::attrs::{LogMelAttrs, LogMelOver, SpectrumLayout};
use crate::ensure;
use crate::nodes::arguments::setters::setters;
use crate::nodes::ir::builder::Var;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ir::site::Site;
use Domain::{Bit, Positive, Real};

/// Checks the floor and the range as numbers of `dtype`.
fn check_floor_and_range(a: &LogMelAttrs, dtype: DType) -> Result<(), String> {
    let (least, most) = match dtype {
        DType::F32 => (f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX)),
        _ => (f64::MIN_POSITIVE, f64::MAX),
    };
    ensure!((least..=most).contains(&a.floor), "floor is {:e}; it must be {least:e} to {most:e} in {dtype}", a.floor);
    ensure!((0.0..=most).contains(&a.range), "range is {:e}; it must be 0 to {most:e} in {dtype}", a.range);
    Ok(())
}

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    let a = LogMelAttrs::of(&cx.attrs);
    let part = match a.layout {
        SpectrumLayout::Complex => cx.complex(0)?,
        SpectrumLayout::Block => cx.float(0)?,
    };
    ensure!(cx.dtype(1) == part, "the filters are {}; {part} is needed", cx.dtype(1));
    let (d, filters) = (cx.dims(0), cx.rank(1, "filters", 2)?);
    let Some((&last, lead)) = d.split_last() else { return Err("the spectrum is a scalar; it needs an axis".into()) };
    let (n_mels, bins) = (filters[0], filters[1]);
    let n = match a.layout {
        SpectrumLayout::Complex => last,
        SpectrumLayout::Block => {
            ensure!(last.is_multiple_of(2), "the last axis has {last} elements; a block has an even number");
            last / 2
        }
    };
    ensure!(n_mels >= 1, "there is no filter");
    ensure!(bins >= 1, "the filters have no bin");
    ensure!(
        bins == n || bins == n / 2 + 1,
        "the filters have {bins} bins; a spectrum of {n} has {n}, or {} up to half the rate",
        n / 2 + 1
    );
    if a.over == LogMelOver::Clip {
        let frames = lead.last().ok_or("a clip needs an axis of frames before that of bins")?;
        ensure!(*frames >= 1, "the clip has no frame");
    }
    check_floor_and_range(&a, part)?;
    cx.result(part, &[lead, &[n_mels]].concat())
}

fn decompose_node<'g>(s: &Site<'_, 'g>) -> Vec<Var<'g>> {
    let LogMelAttrs { floor, range, over, layout } = LogMelAttrs::of(&s.attrs);
    let (spectrum, filters) = (s.args[0], s.args[1]);
    let (d, [n_mels, bins]) = (spectrum.dims(), [filters.dims()[0], filters.dims()[1]]);
    let first_bins = |from: usize| spectrum.narrow(-1, from, bins);
    let power = match layout {
        SpectrumLayout::Complex => first_bins(0).abs2(),
        SpectrumLayout::Block => {
            let imag = d.last().map_or(0, |last| last / 2);
            first_bins(0).square() + first_bins(imag).square()
        }
    };
    let lead = &d[..d.len() - 1];
    let rows = power.reshape([lead.iter().product(), bins]);
    let mel = rows.matmul_t(filters, false, true).reshape([lead, &[n_mels]].concat());
    // Selects instead of `maximum`: a bin that is cut off gets exactly 0, and one at the limit all that is its own. NaN
    // stays NaN.
    let log = mel.less_equal(floor).select(mel.full_like(floor), mel).log10();
    let most = match over {
        LogMelOver::Frame => log.reduce(Op::REDUCE_MAX, -1, true),
        LogMelOver::Clip => log.reduce(Op::REDUCE_MAX, [-2, -1], true),
    };
    let lowest = (most - range).broadcast(log.dims());
    vec![(log.greater_equal(lowest).select(log, lowest) + 4.0) * 0.25]
}

/// Log-mel spectra, as Whisper hears them.
pub const LOG_MEL: OpDef = OpDef {
    name: "log_mel",
    doc: "y = (max(L, m − range) + 4)/4, L = log₁₀ max(P·Fᵀ, floor), P = re² + im² of the spectrum, F the filters, m = \
          max L `over` a frame or a clip; mel ≤ floor gets no gradient; of what L < m − range get, bins that tie for m \
          take equal shares",
    arity: Arity::Exactly(2),
    attrs: LogMelAttrs::FIELDS,
    flags: Flags::PURE,
    infer: infer_types,
    deriv: Deriv::ViaDecompose,
    batch: Batch::ViaDecompose,
    decompose: Some(decompose_node),
    lower: Lower::Expand,
    cost: |cx| {
        let bins = cx.graph.dims(cx.graph.args_of(cx.node)[1]).last().copied().unwrap_or(0) as u64;
        cx.out().saturating_mul(2 * bins + 6).saturating_add(3 * cx.arg(0))
    },
    cases: &[
        Case {
            args: "c[2,3,5] f[4,5]",
            attrs: "floor=1e-10 range=8 over=clip layout=complex",
            domains: &[Real, Positive],
        },
        Case { args: "c[3,5] f[6,5]", attrs: "floor=0.5 range=0.3 over=frame layout=complex", domains: &[Real, Bit] },
        Case { args: "f[4,3,8] f[5,3]", attrs: "floor=3 range=0.2 over=clip layout=block", domains: &[Real, Positive] },
        Case { args: "f[10] f[3,5]", attrs: "floor=0.1 range=0.1 over=frame layout=block", domains: &[Real, Positive] },
        Case {
            args: "c[90,9] f[7,9]",
            attrs: "floor=0.001 range=8 over=frame layout=complex",
            domains: &[Real, Positive],
        },
        Case { args: "c[0,2,3] f[2,3]", attrs: "floor=1 range=1 over=clip layout=complex", domains: &[Real] },
    ],
    ..OpDef::BLANK
};

/// Options of [`Var::log_mel`]. The defaults are Whisper's.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LogMel {
    /// The least energy of a mel bin; a smaller one counts as this.
    pub floor: f64,
    /// How many powers of ten below the maximum a bin may lie; a lower one counts as this.
    pub range: f64,
    /// Over what the maximum is taken.
    pub over: LogMelOver,
}

impl Default for LogMel {
    fn default() -> LogMel {
        LogMel { floor: 1e-10, range: 8.0, over: LogMelOver::Clip }
    }
}

setters! {
    [] LogMel {
        floor: f64,
        range: f64,
        over: LogMelOver,
    }
}
