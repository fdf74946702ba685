//! `run.html` of `train`, and the page of `plan --html`.
//!
//! Invariant: the page needs no script, no font and no other file or host.

use super::curve::{self, Curve};
use super::{escape_in_report, memory_map};
use arenagrad::session::PlanReport;
use arenagrad::session::human;
use std::fmt::Write;

/// The contents of the page.
pub struct Page<'a> {
    /// The heading.
    pub title: &'a str,
    /// Names and values of the summary.
    pub facts: &'a [(&'a str, String)],
    /// The loss curve. Left out if it holds no loss.
    pub curve: Option<Curve<'a>>,
    /// The plan of the program.
    pub plan: &'a PlanReport,
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1040px;margin:2rem auto;padding:0 1rem;\
color:#1c2127;background:#fff}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}svg{width:100%;height:auto;\
border:1px solid #e3e6ea}table{border-collapse:collapse}td,th{padding:.15rem .9rem .15rem 0;text-align:left}\
td.n{text-align:right;font-variant-numeric:tabular-nums}p{max-width:46rem}rect:hover{fill-opacity:.75}";

/// The page's text.
pub fn page_html(p: &Page<'_>) -> String {
    let title = escape_in_report(p.title);
    let mut s = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head>\
         <body><h1>{title}</h1><table>"
    );
    for (name, value) in p.facts {
        let _ = write!(s, "<tr><th>{}</th><td>{}</td></tr>", escape_in_report(name), escape_in_report(value));
    }
    s.push_str("</table>");
    if let Some(curve) = p.curve.filter(|c| !c.losses.is_empty()) {
        let _ = write!(s, "<h2>Loss</h2>{}", curve::curve_svg(&curve));
    }
    page_memory_section(&mut s, p.plan);
    s.push_str("</body></html>\n");
    s
}

/// The memory map, its legend in words, and the table of the largest buffers.
fn page_memory_section(s: &mut String, plan: &PlanReport) {
    let _ = write!(
        s,
        "<h2>Memory</h2><p>All bytes of a step are in one arena of {}. Time runs to the right: one column is \
         one instruction of the step. A rectangle is a buffer, as wide as it lives and as high as it is large; later \
         buffers take over the bytes of earlier ones. No order of these instructions with these lifetimes fits in less \
         than {}. Point at a rectangle to see which value it is and which line asked for it.</p>{}",
        human(plan.arena_bytes as u64),
        human(plan.lower_bound_bytes as u64),
        memory_map::memory_map_svg(plan)
    );
    s.push_str("<h2>Largest buffers</h2><table><tr><th>bytes</th><th>offset</th><th>from</th><th>to</th>");
    s.push_str("<th>value</th></tr>");
    for b in plan.largest(10) {
        let _ = write!(
            s,
            "<tr><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td>{}</td></tr>",
            b.size,
            b.offset,
            b.first,
            plan.last(b),
            escape_in_report(&b.to_string())
        );
    }
    s.push_str("</table>");
}
