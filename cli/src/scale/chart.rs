//! The efficiency of networks by ranks, as SVG.
//!
//! Invariant: both axes are round numbers; ranks are logarithmic.

use super::GOOD;
use super::table::{Course, Table};
use crate::report::axis::{Axis, Scale};
use arenagrad::tools::report::escape;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 44.0;
/// Height of a line of the legend.
const LINE: f64 = 15.0;
const COLOURS: [&str; 6] = ["#3b6ea5", "#c2463d", "#4f8a4c", "#8a5ea8", "#b07d2b", "#3c8f8f"];

/// The chart of a table as an SVG file.
pub fn draw(t: &Table) -> String {
    let ranks = t.networks.iter().flat_map(|c| c.rows.iter().map(|r| r.ranks as f64));
    let axis = Axis::new(Scale::Log, ranks, [1.0, f64::MAX]);
    let x = |ranks: f64| LEFT + axis.part(ranks) * (WIDTH - LEFT - RIGHT);
    let y = |part: f64| HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
    let title = escape(&format!("Efficiency of {} by ranks", t.target));
    let height = HEIGHT + LINE * t.networks.len() as f64;
    let mut s = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"11\"><title>{title}</title>\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#fff\"/>\
         <text x=\"{LEFT}\" y=\"18\" font-size=\"13\" fill=\"#222\">{title}</text>"
    );
    for tenth in (0..=10).step_by(2) {
        grid_line(&mut s, y(f64::from(tenth) / 10.0), &format!("{}", f64::from(tenth) / 10.0), "#e3e6ea");
    }
    grid_line(&mut s, y(GOOD), &GOOD.to_string(), "#9aa3ad");
    for n in axis.ticks() {
        let _ = write!(
            s,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#444\">{n}</text>",
            x(n),
            HEIGHT - BOTTOM + 16.0
        );
    }
    let _ = write!(
        s,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#222\">ranks</text>",
        WIDTH / 2.0,
        HEIGHT - 10.0
    );
    for (i, c) in t.networks.iter().enumerate() {
        draw_course(&mut s, c, i, &x, &y);
    }
    s.push_str("</svg>\n");
    s
}

/// A horizontal line of the grid with its label.
fn grid_line(s: &mut String, at: f64, label: &str, colour: &str) {
    let _ = write!(
        s,
        "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#444\">{label}</text>",
        WIDTH - RIGHT,
        LEFT - 6.0,
        at + 4.0
    );
}

/// The line of a network and its entry in the legend.
fn draw_course(s: &mut String, c: &Course, i: usize, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) {
    let (colour, name) = (COLOURS[i % COLOURS.len()], escape(&c.network));
    let mut points: Vec<(usize, f64)> = c.rows.iter().map(|r| (r.ranks, r.efficiency)).collect();
    points.sort_by_key(|p| p.0);
    let at = |&(ranks, part): &(usize, f64)| (x(ranks as f64), y(part.clamp(0.0, 1.0)));
    let _ = write!(s, "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"");
    for (a, b) in points.iter().map(at) {
        let _ = write!(s, "{a:.1},{b:.1} ");
    }
    s.push_str("\"/>");
    for p in &points {
        let (a, b) = at(p);
        let title = format!("{name}, {} ranks: {:.3}", p.0, p.1);
        let _ =
            write!(s, "<circle cx=\"{a:.1}\" cy=\"{b:.1}\" r=\"3\" fill=\"{colour}\"><title>{title}</title></circle>");
    }
    let below = HEIGHT + LINE * i as f64;
    let _ = write!(
        s,
        "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"2\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#222\">{name}</text>",
        LEFT + 20.0,
        below - 4.0,
        below - 4.0,
        LEFT + 26.0,
        below
    );
}
