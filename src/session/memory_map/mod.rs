//! The memory map: instructions from left to right, arena offsets upwards, one rectangle for each buffer.
//!
//! Invariant: a rectangle spans the buffer's bytes and its lifetime, from the first instruction that needs the bytes to
//! the last. Values that share bytes by design (views, in-place results) are one rectangle, and its title names them. A
//! rectangle with room is labelled with value, op and place.

use super::human::human;
use super::markup::{escape, round_ticks};
use super::plan_report::PlanReport;
use std::fmt::Write;

/// Kinds of buffers in the order of the legend, with their colours.
const COLOURS: [(&str, &str); 8] = [
    ("param", "#3b6ea5"),
    ("state", "#7a5ea8"),
    ("input", "#3f9b6c"),
    ("constant", "#8a8f98"),
    ("output", "#c2463d"),
    ("activation", "#e0a33a"),
    ("gradient", "#4a9fb5"),
    ("scratch", "#b8c4d0"),
];

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 80.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 44.0;
const RIGHT: f64 = 12.0;

impl PlanReport {
    /// The memory map as an SVG picture: instructions from left to right, arena offsets upwards, one rectangle for each
    /// buffer, with its value, op and line as a title.
    pub fn svg(&self) -> String {
        draw_svg(self)
    }
}

/// The memory map as an SVG element.
pub(super) fn draw_svg(plan: &PlanReport) -> String {
    let steps = plan.instructions.max(1) as f64;
    let bytes = plan.arena_bytes.max(1) as f64;
    let x = |t: f64| LEFT + t / steps * (WIDTH - LEFT - RIGHT);
    let y = |b: f64| HEIGHT - BOTTOM - b / bytes * (HEIGHT - TOP - BOTTOM);
    let mut s = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"11\"><title>Memory map</title>\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>"
    );
    draw_axes(&mut s, plan, &x, &y);
    // Large rectangles are drawn first, so that small ones stay visible.
    let mut roots: Vec<usize> = (0..plan.buffers.len()).filter(|&i| plan.buffers[i].root as usize == i).collect();
    let mut sharers: Vec<Vec<u32>> = vec![Vec::new(); plan.buffers.len()];
    for (j, b) in plan.buffers.iter().enumerate().filter(|(j, b)| b.root as usize != *j) {
        sharers[b.root as usize].push(j as u32);
    }
    roots.sort_by_key(|&i| std::cmp::Reverse(plan.buffers[i].size));
    for i in roots.into_iter().filter(|&i| plan.buffers[i].size > 0) {
        draw_rectangle(&mut s, plan, i, &sharers[i], &x, &y);
    }
    s.push_str("</svg>");
    s
}

/// Draws buffer `i`, whose bytes the values `sharers` use later.
fn draw_rectangle(
    s: &mut String,
    plan: &PlanReport,
    i: usize,
    sharers: &[u32],
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
) {
    let b = &plan.buffers[i];
    let colour = COLOURS.iter().find(|c| c.0 == b.what()).map_or("#000", |c| c.1);
    let (left, right) = (x(f64::from(b.first)), x(f64::from(b.last.saturating_add(1)).min(plan.instructions as f64)));
    let (top, bottom) = (y((b.offset + b.size) as f64), y(b.offset as f64));
    // At least one pixel each way, so that no buffer vanishes.
    let (w, h) = ((right - left).max(1.0), (bottom - top).max(1.0));
    // A border would hide a thin rectangle.
    let border = if w.min(h) >= 4.0 { " stroke=\"#fff\" stroke-width=\"0.5\"" } else { "" };
    let _ = write!(
        s,
        "<rect x=\"{left:.2}\" y=\"{top:.2}\" width=\"{w:.2}\" height=\"{h:.2}\" fill=\"{colour}\"{border}>\
         <title>{}</title></rect>",
        escape(&rectangle_title(plan, i, sharers))
    );
    let fits = (w / 6.5) as usize;
    if h >= 13.0
        && let Some(label) = b.labels().iter().find(|l| l.chars().count() < fits)
    {
        let _ = write!(
            s,
            "<text x=\"{:.2}\" y=\"{:.2}\" fill=\"#fff\" pointer-events=\"none\">{}</text>",
            left + 4.0,
            (top + bottom) / 2.0 + 4.0,
            escape(label)
        );
    }
}

/// The title of a rectangle, which a browser shows under the pointer.
fn rectangle_title(plan: &PlanReport, i: usize, sharers: &[u32]) -> String {
    let b = &plan.buffers[i];
    let mut text = b.to_string();
    let _ =
        write!(text, "\n{} at offset {}, instructions {} to {}", human(b.size as u64), b.offset, b.first, plan.last(b));
    for &j in sharers.iter().take(8) {
        let _ = write!(text, "\nthen {}", plan.buffers[j as usize]);
    }
    text
}

/// Draws both axes and the legend.
fn draw_axes(s: &mut String, plan: &PlanReport, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) {
    let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for b in binary_ticks(plan.arena_bytes as f64) {
        let at = y(b);
        let _ = write!(
            s,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.2}\" y2=\"{at:.2}\" stroke=\"#e3e6ea\"/>\
             <text x=\"{:.2}\" y=\"{:.2}\" text-anchor=\"end\" fill=\"#444\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            human(b as u64)
        );
    }
    for t in round_ticks(plan.instructions as f64, 10).into_iter().filter(|t| t.fract() == 0.0) {
        let _ = write!(
            s,
            "<text x=\"{:.2}\" y=\"{:.2}\" text-anchor=\"middle\" fill=\"#444\">{t}</text>",
            x(t),
            floor + 16.0
        );
    }
    let _ = write!(
        s,
        "<text x=\"{:.2}\" y=\"{:.2}\" text-anchor=\"middle\" fill=\"#222\">instruction of the step</text>\
         <text x=\"14\" y=\"{:.2}\" text-anchor=\"middle\" fill=\"#222\" \
         transform=\"rotate(-90 14 {:.2})\">offset in the arena</text>",
        (LEFT + right) / 2.0,
        HEIGHT - 8.0,
        HEIGHT / 2.0,
        HEIGHT / 2.0
    );
    let mut at = LEFT;
    for (name, colour) in COLOURS.iter().filter(|c| plan.buffers.iter().any(|b| b.what() == c.0 && b.size > 0)) {
        let _ = write!(
            s,
            "<rect x=\"{at}\" y=\"10\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"20\" fill=\"#222\">{}</text>",
            at + 17.0,
            name
        );
        at += 34.0 + 6.5 * name.len() as f64;
    }
}

/// Multiples of a power of two, in bytes, from 0 to at most `max`.
fn binary_ticks(max: f64) -> Vec<f64> {
    let step = (max / 6.0).max(1.0).log2().ceil().exp2();
    (0..=(max / step) as usize).map(|i| i as f64 * step).collect()
}

#[cfg(test)]
mod tests;
