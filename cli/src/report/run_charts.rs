//! The charts of a run: losses, evaluations, learning rates, times of steps.

use super::axis::Scale;
use super::chart::{Chart, Line, Mark, chart_svg};
use crate::measure::{Evaluation, Measure};

/// The course of a run.
#[derive(Clone, Copy)]
pub struct Course<'a> {
    /// Steps before the first one that is known.
    pub before: u64,
    /// Steps that the run is to do.
    pub steps: u64,
    /// Training loss of each known step.
    pub losses: &'a [f64],
    /// Learning rate of each known step.
    pub rates: &'a [f64],
    /// Nanoseconds of each known step; NaN if unknown.
    pub ns: &'a [f64],
    /// The measure of the evaluations.
    pub measure: Measure,
    /// The evaluations, by step.
    pub evaluations: &'a [Evaluation],
}

const FREE: [f64; 2] = [f64::MIN, f64::MAX];
const PALE: &str = "#a9c3e0";
const STRONG: &str = "#3b6ea5";

/// The sections of a page with a heading and a chart each; none before the first step.
pub fn run_charts(c: &Course<'_>) -> Vec<(&'static str, String)> {
    if c.losses.is_empty() && c.evaluations.is_empty() {
        return Vec::new();
    }
    let accuracy = c.measure == Measure::Accuracy;
    let mark = |e: &Evaluation| Mark {
        step: e.step,
        value: e.value,
        title: format!("{} {} after step {}", c.measure.label(), c.measure.text(e.value), e.step),
    };
    let marks: Vec<Mark> = c.evaluations.iter().map(mark).collect();
    let mut sections = vec![("Loss", run_loss_chart(c, if accuracy { &[] } else { &marks }))];
    if accuracy && !marks.is_empty() {
        sections.push(("Accuracy", run_accuracy_chart(c, &marks)));
    }
    let rates = [Line { values: c.rates, colour: STRONG, width: 2.0 }];
    let rate =
        plain_run_chart(c, "Learning rate", &rates, Scale::FromZero, &|x| format!("{x:.2e}"), "blue: learning rate");
    sections.push(("Learning rate", chart_svg(&rate)));
    let us: Vec<f64> = c.ns.iter().map(|ns| ns / 1e3).collect();
    let smooth = smoothed_for_run_charts(&us);
    let times = [Line { values: &us, colour: PALE, width: 1.0 }, Line { values: &smooth, colour: STRONG, width: 2.0 }];
    let legend = "blue: microseconds of the program, and their running mean; logarithmic";
    let time = plain_run_chart(
        c,
        "Time of a step",
        &times,
        Scale::Log,
        &|x| format!("{} us", round_for_run_charts(x)),
        legend,
    );
    sections.push(("Time of a step", chart_svg(&time)));
    sections
}

/// A chart of lines.
fn plain_run_chart<'a>(
    c: &Course<'_>,
    title: &'a str,
    lines: &'a [Line<'a>],
    scale: Scale,
    text: &'a dyn Fn(f64) -> String,
    legend: &'a str,
) -> Chart<'a> {
    let (before, steps) = (c.before, c.steps.max(c.before + c.losses.len() as u64));
    Chart { title, before, steps, lines, marks: &[], joined: false, scale, bounds: FREE, text, legend }
}

fn run_loss_chart(c: &Course<'_>, marks: &[Mark]) -> String {
    let smooth = smoothed_for_run_charts(c.losses);
    let lines =
        [Line { values: c.losses, colour: PALE, width: 1.0 }, Line { values: &smooth, colour: STRONG, width: 2.0 }];
    let positive = c.losses.iter().filter(|l| l.is_finite()).all(|&l| l > 0.0);
    let axis = if positive { "logarithmic" } else { "in proportion" };
    let red = if marks.is_empty() { String::new() } else { format!("; red: {}", c.measure.label()) };
    let legend = format!("blue: training loss and its running mean{red}; {axis}");
    let text = |x: f64| round_for_run_charts(x);
    chart_svg(&Chart { marks, ..plain_run_chart(c, "Loss curve", &lines, Scale::Log, &text, &legend) })
}

fn run_accuracy_chart(c: &Course<'_>, marks: &[Mark]) -> String {
    let text = |x: f64| format!("{} %", round_for_run_charts(100.0 * x));
    let legend = format!("red: {}; the axis is the range in use", c.measure.label());
    let chart = plain_run_chart(c, "Accuracy", &[], Scale::InUse, &text, &legend);
    chart_svg(&Chart { marks, joined: true, bounds: [0.0, 1.0], ..chart })
}

/// A number of an axis with at most six digits behind its first one.
fn round_for_run_charts(x: f64) -> String {
    match x == 0.0 || (1e-4..1e7).contains(&x.abs()) {
        true => ((x * 1e6).round() / 1e6).to_string(),
        false => format!("{x:.0e}"),
    }
}

/// The exponential mean over about a hundredth of the run.
fn smoothed_for_run_charts(values: &[f64]) -> Vec<f64> {
    let keep = 1.0 - 1.0 / (values.len() as f64 / 100.0).max(1.0);
    let mut mean = f64::NAN;
    let step = |&x: &f64| {
        mean = match (mean.is_finite(), x.is_finite()) {
            (_, false) => mean,
            (false, true) => x,
            (true, true) => keep * mean + (1.0 - keep) * x,
        };
        mean
    };
    values.iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charts(measure: Measure, losses: &[f64], evaluations: &[Evaluation]) -> Vec<(&'static str, String)> {
        let (rates, ns) = (vec![1e-3; losses.len()], vec![f64::NAN; losses.len()]);
        run_charts(&Course { before: 0, steps: 4, losses, rates: &rates, ns: &ns, measure, evaluations })
    }

    #[test]
    fn accuracies_have_an_axis_of_their_own() {
        let evaluations = [Evaluation { step: 1, value: 0.96 }, Evaluation { step: 3, value: 0.985 }];
        let all = charts(Measure::Accuracy, &[2.0, f64::NAN, 1.0], &evaluations);
        assert_eq!(
            all.iter().map(|s| s.0).collect::<Vec<_>>(),
            ["Loss", "Accuracy", "Learning rate", "Time of a step"]
        );
        assert!(all.iter().all(|s| !s.1.contains("NaN")));
        let accuracy = &all[1].1;
        assert!(accuracy.contains("98.50 %") && accuracy.contains(">97 %<") && !accuracy.contains(">50 %<"));
        assert!(all[0].1.contains("logarithmic") && !all[0].1.contains("red"));
    }

    #[test]
    fn validation_losses_share_the_axis_of_the_losses() {
        let all = charts(Measure::Loss, &[2.0, 1.0], &[Evaluation { step: 1, value: 4.0 }]);
        assert_eq!(all.len(), 3);
        assert!(all[0].1.contains("validation loss 4.0000") && all[0].1.contains(">2<"));
        let negative = charts(Measure::Loss, &[-2.0, 1.0], &[]);
        assert!(negative[0].1.contains("in proportion"));
        assert!(charts(Measure::Loss, &[], &[]).is_empty());
    }
}
