//! Connectionist temporal classification: the loss of label sequences that are shorter than their inputs.

use super::lengths::check_at_most;
use crate::error::Kind;
use crate::nodes::arguments::setters::setters;
use crate::nodes::{DType, Reduction, Var};

/// Options of [`ctc_loss`], with torch's defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ctc {
    /// The class of blanks.
    pub blank: usize,
    /// How the losses of the sequences are reduced. The mean is that of loss / max(target length, 1), as in torch.
    pub reduction: Reduction,
    /// Whether the loss of a sequence that has no alignment is 0, with gradient 0, instead of ∞.
    pub zero_infinity: bool,
}

setters! {
    [] Ctc { blank: usize, reduction: Reduction, zero_infinity: bool }
}

/// −ln of the sum of the probabilities of all alignments of each target sequence, as in `torch.nn.CTCLoss`. `log_probs`
/// `[T, N, classes]` are logarithms of probabilities (`log_softmax` of logits); `targets` `[N, S]` are labels; the
/// first `input_lengths[n]` steps and the first `target_lengths[n]` labels of each sequence count. Labels and lengths
/// are `i32` or `i64`; labels beyond a length may be any numbers. Without a reduction the result is `[N]`.
///
/// The sum is the forward recursion over time in log space, as a loop; its reverse mode is the backward recursion. The
/// gradient is the derivative in `log_probs` (torch's assumes that a `log_softmax` stands before it: both give the same
/// gradient of the logits). A label outside of the classes, or a length outside of its axis, is an error of the step.
/// Source: Graves et al., "Connectionist temporal classification", 2006.
///
/// ```
/// use arenagrad::prelude::*;
/// # fn main() -> Result<()> {
/// let g = Builder::new("ctc");
/// let x = g.input("x", [50, 4, 20], DType::F32);
/// let labels = g.input("labels", [4, 10], DType::I32);
/// let [steps, lengths] = ["steps", "lengths"].map(|name| g.input(name, [4], DType::I32));
/// let loss = nn::ctc_loss(x.log_softmax(-1), labels, steps, lengths, nn::Ctc::default());
/// assert!(g.finish([loss]).is_ok());
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn ctc_loss<'g>(
    log_probs: Var<'g>,
    targets: Var<'g>,
    input_lengths: Var<'g>,
    target_lengths: Var<'g>,
    opt: Ctc,
) -> Var<'g> {
    let g = log_probs.g;
    g.with_caller(|| match check_operands(log_probs, targets, [input_lengths, target_lengths], &opt) {
        Ok(()) => sum_over_alignments(log_probs, targets, [input_lengths, target_lengths], opt),
        Err(why) => g.fail(Kind::Shape, format!("ctc_loss: {why}")),
    })
}

fn check_operands<'g>(x: Var<'g>, targets: Var<'g>, lengths: [Var<'g>; 2], opt: &Ctc) -> Result<(), String> {
    let (d, t) = (x.dims(), targets.dims());
    if x.is_some() && (d.len() != 3 || !x.dtype().is_float()) {
        return Err(format!("log-probabilities are {}{d}; floats [T, N, classes] are needed", x.dtype()));
    }
    if x.is_some() && opt.blank >= d[2] {
        return Err(format!("the blank is class {} of {}", opt.blank, d[2]));
    }
    let rows = d.get(1).copied().unwrap_or(0);
    let names = ["targets", "input lengths", "target lengths"];
    for (i, (name, v)) in
        names.into_iter().zip([targets, lengths[0], lengths[1]]).enumerate().filter(|v| v.1.1.is_some())
    {
        let fits = v.dims().first() == Some(&rows) && v.rank() == if i == 0 { 2 } else { 1 };
        if x.is_some() && (!fits || !matches!(v.dtype(), DType::I32 | DType::I64)) {
            let want = if i == 0 { "[N, S]" } else { "[N]" };
            return Err(format!("{name} are {}{}; i32 or i64 {want} is needed, N = {rows}", v.dtype(), v.dims()));
        }
    }
    if t.get(1).is_some_and(|&s| s > (i32::MAX / 4) as usize) {
        return Err(format!("targets of {} labels are too long", t[1]));
    }
    Ok(())
}

/// The labels with a blank before, between and after them, `[N, 2S + 1]`, and whether a path may come to each place
/// from two places before: to a label that differs from the one before it.
fn insert_blanks<'g>(targets: Var<'g>, lengths: Var<'g>, blank: usize) -> [Var<'g>; 2] {
    let (g, d) = (targets.g, targets.dims());
    let (n, s) = (d[0], d[1]);
    let inside = g.iota(1, [n, s], DType::I64).less(lengths.unsqueeze(1));
    let labels = inside.select(targets.cast(DType::I64), blank as f64);
    let blanks = |width: usize| g.full(blank as f64, [n, width], DType::I64);
    let all = blanks(s).stack(&[labels], 2).flatten(1, 2).concat(&[blanks(1)], 1);
    let before = g.full(-1.0, [n, 2], DType::I64).concat(&[all], 1).narrow(1, 0, 2 * s + 1);
    [all, all.not_equal(blank as f64).logical_and(all.not_equal(before))]
}

/// ln(eᵃ + …) of values of one shape; −∞ gives −∞, with gradient 0.
fn log_sum_exp<'g>(first: Var<'g>, rest: &[Var<'g>]) -> Var<'g> {
    first.stack(rest, 0).logsumexp(0)
}

fn sum_over_alignments<'g>(
    x: Var<'g>,
    targets: Var<'g>,
    [input_lengths, target_lengths]: [Var<'g>; 2],
    opt: Ctc,
) -> Var<'g> {
    if let Some(none) = [x, targets, input_lengths, target_lengths].into_iter().find(|v| !v.is_some()) {
        return none;
    }
    let (g, d, dtype) = (x.g, x.dims(), x.dtype());
    let (steps, n, places) = (d[0], d[1], 2 * targets.dims()[1] + 1);
    let (used, lengths) = (check_at_most(input_lengths, steps), check_at_most(target_lengths, targets.dims()[1]));
    let [labels, jumps] = insert_blanks(targets, lengths, opt.blank);
    let minus_infinity = |width: usize| g.full(f64::NEG_INFINITY, [n, width], dtype);
    // Before the first step all paths are at the first place, so that they may begin there or at the first label.
    let start = g.full(0.0, [n, 1], dtype).concat(&[minus_infinity(places - 1)], 1);
    let (last, _) = g.scan(&[start], &[x, g.iota(0, [steps], DType::I64)], |state, now| {
        let a = state[0];
        let back = |by: usize| minus_infinity(by).concat(&[a], 1).narrow(1, 0, places);
        let jumped = jumps.select(back(2), f64::NEG_INFINITY);
        let next = log_sum_exp(a, &[back(1), jumped]) + now[0].take_along_axis(labels, 1);
        let runs = now[1].less(used).unsqueeze(1);
        (vec![runs.select(next, a)], vec![])
    });
    // Paths end at the last label or at the blank after it.
    let end = lengths + lengths;
    let at = |place: Var<'g>| last[0].take_along_axis(place.unsqueeze(1), 1).squeeze(1);
    let some = lengths.greater(0.0);
    let label = some.select(at(some.select(end - 1.0, 0.0)), f64::NEG_INFINITY);
    let each = -log_sum_exp(at(end), &[label]);
    let each = if opt.zero_infinity { each.equal(f64::INFINITY).select(0.0, each) } else { each };
    match opt.reduction {
        Reduction::Mean => (each / lengths.maximum(1.0).cast(dtype)).mean(..),
        other => other.of(each),
    }
}
