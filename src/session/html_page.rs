//! A plan as a page: figures, the memory map, the largest buffers. `train` adds its charts.
//!
//! Invariant: the page needs no script, no font and no other file or host. Text that comes from a user is escaped.

use super::human::human;
use super::markup::escape;
use super::memory_map;
use super::plan_report::PlanReport;
use std::fmt::Write;

/// The contents of a page.
pub struct Page<'a> {
    /// The heading.
    pub title: &'a str,
    /// Names and values of the summary.
    pub facts: &'a [(&'a str, String)],
    /// The headings of sections before the memory map, and their markup, which is not escaped.
    pub sections: &'a [(&'a str, String)],
    /// The plan of the program.
    pub plan: &'a PlanReport,
}

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1040px;margin:2rem auto;padding:0 1rem;\
color:#1c2127;background:#fff}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}svg{width:100%;height:auto;\
border:1px solid #e3e6ea}table{border-collapse:collapse}td,th{padding:.15rem .9rem .15rem 0;text-align:left}\
td.n{text-align:right;font-variant-numeric:tabular-nums}pre{white-space:pre-wrap}p{max-width:46rem}rect:hover{fill-opacity:.75}";

impl PlanReport {
    /// A page with the figures, the memory map and the largest buffers. It needs no script and no other file.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("g");
    /// let x = g.input("x", [4], DType::F32);
    /// let plan = Session::new().plan(&g.finish([x.exp().named("y")])?)?;
    /// assert!(plan.svg().starts_with("<svg") && plan.html("My net").contains("<h1>My net</h1>"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn html(&self, title: &str) -> String {
        render_html(&Page { title, facts: &self.facts(), sections: &[], plan: self })
    }
}

/// The page's text.
pub fn render_html(p: &Page<'_>) -> String {
    let title = escape(p.title);
    let mut s = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head>\
         <body><h1>{title}</h1><table>"
    );
    for (name, value) in p.facts {
        let _ = write!(s, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(value));
    }
    s.push_str("</table>");
    for (heading, markup) in p.sections {
        let _ = write!(s, "<h2>{}</h2>{markup}", escape(heading));
    }
    write_memory_section(&mut s, p.plan);
    s.push_str("</body></html>\n");
    s
}

/// The memory map, its legend in words, and the table of the largest buffers.
fn write_memory_section(s: &mut String, plan: &PlanReport) {
    let _ = write!(
        s,
        "<h2>Memory</h2><p>All bytes of a step are in one arena of {}. Time runs to the right: one column is \
         one instruction of the step. A rectangle is a buffer, as wide as it lives and as high as it is large; later \
         buffers take over the bytes of earlier ones. No order of these instructions with these lifetimes fits in less \
         than {}. Point at a rectangle to see which value it is and which line asked for it.</p>{}",
        human(plan.arena_bytes as u64),
        human(plan.lower_bound_bytes as u64),
        memory_map::draw_svg(plan)
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
            escape(&b.to_string())
        );
    }
    s.push_str("</table>");
}

#[cfg(test)]
mod tests {
    use crate::session::plan_report::BufferReport;
    use crate::session::plan_report::tests::hand_report;

    #[test]
    fn a_page_closes_what_it_opens_and_lists_ten_buffers() {
        let mut plan = hand_report();
        let first = plan.buffers[0].clone();
        plan.buffers = (0..12).map(|root| BufferReport { root, ..first.clone() }).collect();
        let page = plan.html("a plan");
        for tag in ["html", "head", "style", "title", "body", "h1", "h2", "p", "svg", "table", "tr", "th", "td"] {
            let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert!(opened > 0 && page.matches(&format!("</{tag}>")).count() == opened, "{tag}: {page}");
        }
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</body></html>\n"), "{page}");
        assert_eq!(page.matches("<td class=\"n\">").count(), 4 * 10);
    }
}
