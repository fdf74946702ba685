//! Plans for people: figures, what is alive at the peak, buffers with the op and the line that made them.
//!
//! Invariant: a plan reads the same wherever it is printed: by a program or by a tool.

use super::plan_report::{BufferReport, PlanReport};
use crate::kernels::gemm::{Precision, bf16_engine};
use std::cmp::Reverse;
use std::fmt;

/// Buffers that each list of a plan has, unless all are asked for.
const SHOWN: usize = 10;

/// A size for people: `1.5 KiB`.
pub fn human(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut x, mut unit) = (bytes as f64, 0);
    while x >= 1024.0 && unit + 1 < units.len() {
        x /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{x:.1} {}", units[unit]) }
}

impl BufferReport {
    /// What it holds, as one word: `gradient` for an activation of the backward half, else the name of its kind.
    pub fn what(&self) -> &'static str {
        if self.gradient { "gradient" } else { self.kind.name() }
    }

    /// The source line of its node: `src/main.rs:12`, or `line 12:3` of a text.
    pub fn origin(&self) -> Option<String> {
        self.location.origin()
    }
}

/// Its value, what it is, the op that makes it, and the line that asked for it: `h (activation), tanh, src/main.rs:12`.
impl fmt::Display for BufferReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.name != self.what() {
            write!(f, " ({})", self.what())?;
        }
        if ![self.what(), &self.name, ""].contains(&self.op) {
            write!(f, ", {}", self.op)?;
        }
        self.origin().map_or(Ok(()), |at| write!(f, ", {at}"))
    }
}

impl PlanReport {
    /// The arena's bytes divided by their lower bound.
    pub fn fragmentation(&self) -> f64 {
        if self.lower_bound_bytes > 0 { self.arena_bytes as f64 / self.lower_bound_bytes as f64 } else { 1.0 }
    }

    /// The `n` largest buffers that take bytes of their own.
    pub fn largest(&self, n: usize) -> Vec<&BufferReport> {
        let own = self.buffers.iter().enumerate().filter(|(i, b)| b.root as usize == *i && b.size > 0);
        let mut all: Vec<_> = own.map(|(_, b)| b).collect();
        all.sort_by_key(|b| (Reverse(b.size), b.offset, b.first));
        all.truncate(n);
        all
    }

    /// The last instruction that needs `b`. If `b` is needed after the step, this is the program's last instruction.
    pub fn last(&self, b: &BufferReport) -> u32 {
        b.last.min(self.instructions.saturating_sub(1) as u32)
    }

    /// The same plan, with `file` as the name of the text that its locations refer to.
    pub fn in_file(mut self, file: &str) -> PlanReport {
        self.buffers.iter_mut().for_each(|b| b.location = std::mem::take(&mut b.location).in_file(file));
        self
    }

    /// How many products are computed how, and by which units.
    fn products_text(&self) -> String {
        let of = |&(p, name): &(Precision, &str)| match self.products[p as usize] {
            0 => None,
            n => Some(format!("{n} in {name}")),
        };
        let list: Vec<String> = Precision::ALL.iter().filter_map(of).collect();
        let units = match self.products[1..].iter().all(|&n| n == 0) {
            true => String::new(),
            false => bf16_engine().map_or_else(|e| e, |e| format!(" ({e})")),
        };
        if list.is_empty() { "none of f32 matrices".into() } else { list.join(", ") + &units }
    }

    /// The figures, by name.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let modelled = self.modelled.as_secs_f64() * 1e6;
        let mut facts = vec![
            ("arena", format!("{} bytes ({})", self.arena_bytes, human(self.arena_bytes as u64))),
            ("max live", format!("{} bytes: the lower bound for this order", self.lower_bound_bytes)),
            ("any order", format!("{} bytes at least", self.order_bound_bytes)),
            ("fragmentation", format!("{:.4}", self.fragmentation())),
            ("pinned", format!("{} bytes of params, states, inputs and constants", self.pinned_bytes)),
            ("instructions", format!("{} (order: {})", self.instructions, self.order)),
            ("operations", format!("{} a step", self.flops)),
            ("moved", format!("{} bytes a step at least: leaves, next values and outputs", self.moved_bytes)),
            ("modelled", format!("{modelled:.1} us a step, on {} threads", self.threads)),
            ("products", self.products_text()),
        ];
        let again = &self.recomputed;
        if !again.what.is_empty() {
            let share = 100.0 * again.flops as f64 / self.flops.saturating_sub(again.flops).max(1) as f64;
            let text = format!("{}: {} nodes, {} operations (+{share:.2} %)", again.what, again.nodes, again.flops);
            facts.push(("computed twice", text));
        }
        let phases: Vec<String> =
            self.phases.iter().map(|(name, time)| format!("{name} {:.2} ms", time.as_secs_f64() * 1e3)).collect();
        facts.push(("phases", phases.join(", ")));
        facts
    }
}

/// The figures, what is alive at the peak, and the largest buffers, ten of each; with `{:#}`, all of them.
impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if f.alternate() { usize::MAX } else { SHOWN };
        for (name, value) in self.facts() {
            writeln!(f, "{name:<15}{value}")?;
        }
        let (peak, live) = self.peak();
        writeln!(f, "{:<15}{live} bytes live at instruction {peak}, the largest of them:", "peak")?;
        let all = self.largest(usize::MAX);
        let alive = all.iter().filter(|b| b.first as usize <= peak && peak <= b.last as usize);
        for b in alive.take(shown) {
            writeln!(f, "  {:>12}  {b}", b.size)?;
        }
        writeln!(f, "largest buffers")?;
        writeln!(f, "  {:>12} {:>12} {:>6} {:>6}  value", "bytes", "offset", "from", "to")?;
        for b in all.iter().take(shown) {
            writeln!(f, "  {:>12} {:>12} {:>6} {:>6}  {b}", b.size, b.offset, b.first, self.last(b))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn sizes_read_well() {
        assert_eq!([0, 1023, 1024, 1536, 5 << 30].map(human), ["0 B", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 GiB"]);
    }
}
