//! A chart over the steps of a run, as SVG.
//!
//! Invariant: a value that is not finite is left out of its line, not drawn as zero.

use super::axis::{Axis, Scale};
use arenagrad::tools::report::{escape, round_ticks};
use std::fmt::Write;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;
const RIGHT: f64 = 20.0;
/// Most points of a line. The picture has about as many pixels across.
const POINTS: usize = 1000;

/// A line: the values of the steps after [`Chart::before`].
pub struct Line<'a> {
    /// The values.
    pub values: &'a [f64],
    /// Colour, as in CSS.
    pub colour: &'a str,
    /// Width in pixels.
    pub width: f64,
}

/// A value after a step.
pub struct Mark {
    /// Steps done.
    pub step: u64,
    /// Height.
    pub value: f64,
    /// What a browser shows under the pointer.
    pub title: String,
}

/// What a chart shows.
pub struct Chart<'a> {
    /// Its name.
    pub title: &'a str,
    /// Steps before the first value of each line.
    pub before: u64,
    /// Steps of the whole width.
    pub steps: u64,
    /// Lines.
    pub lines: &'a [Line<'a>],
    /// Values after some steps, which a line joins if `joined`.
    pub marks: &'a [Mark],
    /// Whether a line joins the marks.
    pub joined: bool,
    /// How values become heights.
    pub scale: Scale,
    /// Values beyond which the axis does not go.
    pub bounds: [f64; 2],
    /// A value as text.
    pub text: &'a dyn Fn(f64) -> String,
    /// What is drawn, in words.
    pub legend: &'a str,
}

const MARKS: &str = "#c2463d";

/// The chart as an SVG element.
pub fn chart_svg(c: &Chart<'_>) -> String {
    let values = c.lines.iter().flat_map(|l| l.values.iter().copied());
    let axis = Axis::new(c.scale, values.chain(c.marks.iter().map(|m| m.value)), c.bounds);
    let steps = c.steps.max(1) as f64;
    let x = |step: f64| LEFT + step / steps * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - axis.part(value) * (HEIGHT - TOP - BOTTOM);
    let title = escape(c.title);
    let mut s = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"11\"><title>{title}</title>\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>"
    );
    chart_grid(&mut s, c, &axis, steps, &x, &y);
    for line in c.lines {
        let points = chart_points(line.values).into_iter().map(|(i, v)| ((c.before + i as u64 + 1) as f64, v));
        chart_line(&mut s, points, line.colour, line.width, &x, &y);
    }
    let finite = || c.marks.iter().filter(|m| m.value.is_finite());
    if c.joined {
        chart_line(&mut s, finite().map(|m| (m.step as f64, m.value)), MARKS, 1.5, &x, &y);
    }
    for m in finite() {
        let (cx, cy, title) = (x(m.step as f64), y(m.value), escape(&m.title));
        let _ = write!(
            s,
            "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"3.5\" fill=\"{MARKS}\"><title>{title}</title></circle>"
        );
    }
    let _ = write!(
        s,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#222\">step ({})</text></svg>",
        WIDTH / 2.0,
        HEIGHT - 6.0,
        escape(c.legend)
    );
    s
}

/// Draws the lines and labels of both axes.
fn chart_grid(s: &mut String, c: &Chart<'_>, axis: &Axis, steps: f64, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) {
    for t in axis.ticks() {
        let at = y(t);
        let _ = write!(
            s,
            "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#e3e6ea\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#3b6ea5\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            at + 4.0,
            escape(&(c.text)(t))
        );
    }
    for t in round_ticks(steps, 10) {
        let (at, below) = (x(t), HEIGHT - BOTTOM + 16.0);
        let _ = write!(s, "<text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\" fill=\"#444\">{t}</text>");
    }
}

/// At most about [`POINTS`] of the values, with their indices: of each of as many equal parts the smallest and the
/// largest, so that no spike is lost.
fn chart_points(values: &[f64]) -> Vec<(usize, f64)> {
    let every = (2 * values.len()).div_ceil(POINTS).max(1);
    let mut points = Vec::new();
    for (k, part) in values.chunks(every).enumerate() {
        let finite = || part.iter().copied().enumerate().filter(|p| p.1.is_finite());
        let (low, high) = (finite().min_by(|a, b| a.1.total_cmp(&b.1)), finite().max_by(|a, b| a.1.total_cmp(&b.1)));
        let (Some(low), Some(high)) = (low, high) else { continue };
        let at = |(i, v): (usize, f64)| (k * every + i, v);
        match low.0.cmp(&high.0) {
            std::cmp::Ordering::Less => points.extend([at(low), at(high)]),
            std::cmp::Ordering::Greater => points.extend([at(high), at(low)]),
            std::cmp::Ordering::Equal => points.push(at(low)),
        }
    }
    points
}

/// Draws a line through points.
fn chart_line(
    s: &mut String,
    points: impl Iterator<Item = (f64, f64)>,
    colour: &str,
    width: f64,
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
) {
    let _ = write!(s, "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" points=\"");
    for (a, b) in points {
        let _ = write!(s, "{:.1},{:.1} ", x(a), y(b));
    }
    s.push_str("\"/>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(before: u64, steps: u64, values: &[f64], marks: &[Mark]) -> String {
        let lines = [Line { values, colour: "blue", width: 1.0 }];
        let text = |v: f64| format!("{v:.3}");
        let (scale, bounds) = (Scale::Log, [f64::MIN, f64::MAX]);
        let legend = "a <legend>";
        chart_svg(&Chart {
            title: "t",
            before,
            steps,
            lines: &lines,
            marks,
            joined: false,
            scale,
            bounds,
            text: &text,
            legend,
        })
    }

    fn points(svg: &str) -> Vec<[f64; 2]> {
        let text = svg.split("points=\"").nth(1).and_then(|p| p.split('"').next()).unwrap();
        let pair = |p: &str| p.split(',').map(|x| x.parse().unwrap()).collect::<Vec<f64>>().try_into().unwrap();
        text.split_whitespace().map(pair).collect()
    }

    #[test]
    fn a_line_has_a_point_a_step_and_leaves_out_nan() {
        let mark = Mark { step: 3, value: 1.5, title: "m & n".into() };
        let s = drawn(0, 3, &[2.0, f64::NAN, 1.0], &[mark]);
        let p = points(&s);
        assert_eq!((p.len(), p[1][0]), (2, WIDTH - RIGHT));
        assert!(p[0][1] < p[1][1] && !s.contains("NaN") && s.contains("m &amp; n") && s.contains("a &lt;legend&gt;"));
        assert!(!drawn(0, 0, &[], &[]).contains("NaN"));
        // A line that begins late keeps its steps.
        assert_eq!(points(&drawn(3, 4, &[2.0], &[]))[0][0], WIDTH - RIGHT);
    }

    #[test]
    fn long_lines_keep_their_spikes() {
        let mut values = vec![1.0; 100_000];
        values[54_321] = 9.0;
        values[77_777] = 0.1;
        let p = chart_points(&values);
        assert!(p.len() <= POINTS && p.contains(&(54_321, 9.0)) && p.contains(&(77_777, 0.1)));
        assert!(p.windows(2).all(|w| w[0].0 < w[1].0));
    }
}
