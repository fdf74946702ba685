//! The loss curve.
//!
//! Invariant: a loss that is not finite is left out of the line, not drawn as zero.

use crate::measure::{Evaluation, Measure};
use arenagrad::tools::report::ticks;
use std::fmt::Write;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;
const RIGHT: f64 = 60.0;
/// Most points of a line. The picture has about as many pixels across.
const POINTS: usize = 1000;

/// The course of a run.
#[derive(Clone, Copy)]
pub struct Curve<'a> {
    /// Steps before the first loss.
    pub before: u64,
    /// Training loss of each step after those.
    pub losses: &'a [f64],
    /// The measure of the evaluations.
    pub measure: Measure,
    /// The evaluations, by step.
    pub evaluations: &'a [Evaluation],
}

/// The curve as an SVG element. Validation losses share the axis of the training losses. Accuracies have an axis from 0
/// to 100 %.
pub fn curve_svg(curve: &Curve<'_>) -> String {
    let &Curve { before, losses, measure, evaluations } = curve;
    let shown = evaluations.iter().filter(|_| measure == Measure::Loss).map(|e| &e.value);
    let finite = losses.iter().chain(shown).copied().filter(|l| l.is_finite());
    let top = finite.fold(0.0, f64::max).max(1e-12);
    let n = (before + losses.len() as u64).max(1) as f64;
    let x = |step: f64| LEFT + step / n * (WIDTH - LEFT - RIGHT);
    let y = |part: f64| HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
    let mut s = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"11\"><title>Loss curve</title>\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>"
    );
    curve_grid(&mut s, top, n, &x, &y);
    let smooth = smoothed_curve(losses);
    for (values, colour, width) in [(losses, "#a9c3e0", 1.0), (&smooth, "#3b6ea5", 2.0)] {
        let points = values.iter().zip(before + 1..).map(|(&l, step)| (step as f64, l));
        curve_line(&mut s, points, values.len(), colour, width, &x, &|l| y(l / top));
    }
    for &Evaluation { step, value } in evaluations.iter().filter(|e| e.value.is_finite()) {
        let _ = write!(
            s,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"#c2463d\">\
             <title>{} {} after step {step}</title></circle>",
            x(step as f64),
            y(if measure == Measure::Loss { value / top } else { value }),
            measure.label(),
            measure.text(value)
        );
    }
    for part in [0.0, 0.25, 0.5, 0.75, 1.0].into_iter().filter(|_| measure == Measure::Accuracy) {
        let _ = write!(
            s,
            "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#c2463d\">{} %</text>",
            WIDTH - RIGHT + 8.0,
            y(part) + 4.0,
            100.0 * part
        );
    }
    let _ = write!(
        s,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#222\">step \
         (blue: training loss and its running mean; red: {})</text></svg>",
        WIDTH / 2.0,
        HEIGHT - 6.0,
        measure.label()
    );
    s
}

/// Draws the lines and labels of losses up to `top` and the labels of `steps` steps.
fn curve_grid(s: &mut String, top: f64, steps: f64, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) {
    for t in ticks(top, 5) {
        let _ = write!(
            s,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#e3e6ea\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#3b6ea5\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y(t / top) + 4.0,
            (t * 1e6).round() / 1e6,
            at = y(t / top)
        );
    }
    for t in ticks(steps, 10) {
        let _ = write!(
            s,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#444\">{t}</text>",
            x(t),
            HEIGHT - BOTTOM + 16.0
        );
    }
}

/// The exponential mean over about a hundredth of the run.
fn smoothed_curve(losses: &[f64]) -> Vec<f64> {
    let keep = 1.0 - 1.0 / (losses.len() as f64 / 100.0).max(1.0);
    let mut mean = f64::NAN;
    let step = |&l: &f64| {
        mean = match (mean.is_finite(), l.is_finite()) {
            (_, false) => mean,
            (false, true) => l,
            (true, true) => keep * mean + (1.0 - keep) * l,
        };
        mean
    };
    losses.iter().map(step).collect()
}

/// Draws a line through `n` points, in the pixel coordinates that `x` and `y` give.
fn curve_line(
    s: &mut String,
    points: impl Iterator<Item = (f64, f64)>,
    n: usize,
    colour: &str,
    width: f64,
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
) {
    let every = n.div_ceil(POINTS).max(1);
    let _ = write!(s, "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" points=\"");
    for (_, (a, b)) in points.enumerate().filter(|(i, p)| i % every == 0 && p.1.is_finite()) {
        let _ = write!(s, "{:.1},{:.1} ", x(a), y(b));
    }
    s.push_str("\"/>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(before: u64, losses: &[f64], measure: Measure, evaluations: &[Evaluation]) -> String {
        curve_svg(&Curve { before, losses, measure, evaluations })
    }

    #[test]
    fn a_curve_has_a_point_a_step_and_leaves_out_nan() {
        let s = drawn(0, &[2.0, f64::NAN, 1.0], Measure::Accuracy, &[Evaluation { step: 3, value: 0.5 }]);
        let points = s.split("points=\"").nth(1).and_then(|p| p.split('"').next()).unwrap();
        assert_eq!(points.split_whitespace().count(), 2);
        assert!(!s.contains("NaN") && s.contains("50.00 %"));
        assert!(!drawn(0, &[], Measure::Loss, &[]).contains("NaN"));
        // A loss is drawn on the axis of losses, which it may stretch.
        let s = drawn(0, &[2.0, 1.0], Measure::Loss, &[Evaluation { step: 1, value: 4.0 }]);
        assert!(
            s.contains(&format!("cy=\"{TOP:.1}\"")) && s.contains("validation loss 4.0000") && !s.contains("100 %")
        );
    }

    #[test]
    fn a_curve_that_begins_late_keeps_its_steps() {
        let s = drawn(3, &[2.0], Measure::Loss, &[]);
        assert!(s.contains(&format!("points=\"{:.1},{TOP:.1} \"", WIDTH - RIGHT)), "{s}");
    }
}
