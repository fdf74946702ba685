//! Draws of tokens from logits.

use super::attrs::SampleAttrs;
use super::check_rng_key;
use crate::ensure;
use crate::kernels::random::sample::Sampling;
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::infer::Infer;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, OpDef};
use crate::nodes::ops::random::lower;
use Domain::{Bits, Real};

fn infer_types(cx: &mut Infer<'_>) -> Result<(), String> {
    cx.float(0)?;
    check_rng_key(cx, 1)?;
    let SampleAttrs { temperature, top_k, top_p, .. } = SampleAttrs::of(&cx.attrs);
    let top_k = usize::try_from(top_k).map_err(|_| format!("top_k is {top_k}; it must be 0 or more"))?;
    Sampling::default().temperature(temperature).top_k(top_k).top_p(top_p).check()?;
    let d = cx.dims(0);
    let n = d.last().copied().ok_or("the logits are a scalar; they need an axis of tokens")?;
    ensure!(n > 0, "the logits have shape {d}; there is no token to choose");
    ensure!(i32::try_from(n).is_ok(), "the last axis of {d} is too long for i32 tokens");
    cx.result(DType::I32, &d[..d.len() - 1])
}

/// One token at random for each row of logits.
pub const SAMPLE: OpDef = OpDef {
    name: "sample",
    doc: "a token (i32) for each row of the last axis, of stream `stream` under the key: of the logits divided by \
          `temperature`, the `top_k` largest (0: all), of these the fewest whose softmax reaches `top_p`; one uniform \
          number chooses among them by their softmax; the largest if `temperature` is 0; ties go to the smaller index",
    arity: Arity::Exactly(2),
    attrs: SampleAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::STEP),
    infer: infer_types,
    deriv: Deriv::Zero,
    // Members with one key are further rows, with numbers of their own.
    batch: Batch::Draws(|s| {
        if s.batched[1] { None } else { s.emit(&[s.arg(0), s.site.args[1]], &SampleAttrs::of(&s.site.attrs).list()) }
    }),
    lower: Lower::Kernel(lower::emit_sample),
    cost: |cx| cx.arg(0),
    cases: &[
        Case { args: "f[3,17] u32[4]", attrs: "stream=3 temperature=1 top_k=0 top_p=1", domains: &[Real, Bits] },
        Case { args: "f[2,300,5] u32[4]", attrs: "stream=4 temperature=0.7 top_k=3 top_p=0.9", domains: &[Real, Bits] },
        Case { args: "f[40] u32[4]", attrs: "stream=5 temperature=0 top_k=2 top_p=0.5", domains: &[Real, Bits] },
        Case { args: "f[0,4] u32[4]", attrs: "stream=6 temperature=1 top_k=9 top_p=1", domains: &[Real, Bits] },
    ],
    ..OpDef::BLANK
};
