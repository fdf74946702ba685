//! The table of `scale`, as text and as JSON.

use super::GOOD;
use super::exchange::Seconds;
use crate::numbers::grouped_number;
use serde::Serialize;
use std::fmt::Write;

/// What `scale` tells. The names are the keys of `--json`; times are in milliseconds.
#[derive(Serialize)]
pub struct Table {
    /// The workload or the file.
    pub target: String,
    /// Threads of a rank.
    pub threads: usize,
    /// Operations of a step of one process.
    pub flops: u64,
    /// Numbers of the params that are updated.
    pub params: usize,
    /// Bytes of their gradients.
    pub gradient_bytes: usize,
    /// Buckets in which they are exchanged.
    pub buckets: usize,
    /// Whether the time of one process was measured; else it is modelled.
    pub measured: bool,
    /// The symbol that is divided among the ranks.
    pub divided: Option<String>,
    /// Whether messages pass beside the computation.
    pub overlaps: bool,
    /// A step of one process.
    pub one_process_ms: f64,
    /// For each network.
    pub networks: Vec<Course>,
}

/// The rows of one network.
#[derive(Serialize)]
pub struct Course {
    /// Its name.
    pub network: String,
    /// Where its figures are from.
    pub source: String,
    /// The least number of ranks whose efficiency is below 0.9.
    #[serde(rename = "below_0.9_at")]
    pub falls_at: Option<usize>,
    /// By ranks.
    pub rows: Vec<Row>,
}

/// A step on a number of ranks.
#[derive(Serialize, Clone, Copy)]
pub struct Row {
    /// The number.
    pub ranks: usize,
    /// A rank's share of the work.
    pub compute_ms: f64,
    /// Rounds of messages, as if all were the shortest.
    pub latency_ms: f64,
    /// What messages take beyond that.
    pub transfer_ms: f64,
    /// Copies and sums.
    pub copies_ms: f64,
    /// What of all that does not pass beside the computation.
    pub exposed_ms: f64,
    /// The step.
    pub step_ms: f64,
    /// The part of the ranks' time that is the work of one process.
    pub efficiency: f64,
}

impl Row {
    /// The row of `ranks` ranks that compute for `compute` seconds and exchange for `s`.
    pub fn new(ranks: usize, compute: f64, s: Seconds) -> Row {
        Row {
            ranks,
            compute_ms: 1e3 * compute,
            latency_ms: 1e3 * s.latency,
            transfer_ms: 1e3 * s.transfer,
            copies_ms: 1e3 * s.copies,
            exposed_ms: 1e3 * s.exposed,
            step_ms: 1e3 * (compute + s.exposed),
            efficiency: 1.0,
        }
    }

    /// What takes most of the exchange.
    fn most(&self) -> &'static str {
        let parts = [("latency", self.latency_ms), ("transfer", self.transfer_ms), ("copies", self.copies_ms)];
        parts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("", |p| p.0)
    }
}

/// Milliseconds with four digits or so.
fn ms(x: f64) -> String {
    let decimals = if x >= 100.0 {
        1
    } else if x >= 1.0 {
        2
    } else {
        4
    };
    format!("{x:.decimals$}")
}

impl Table {
    /// The table for people.
    pub fn text(&self) -> String {
        let mut s = format!(
            "{}: {} params in {} of {} bytes, {:.3} operations a byte\n",
            self.target,
            grouped_number(self.params),
            if self.buckets == 1 { "1 bucket".to_string() } else { format!("{} buckets", self.buckets) },
            grouped_number(self.gradient_bytes),
            self.flops as f64 / self.gradient_bytes.max(1) as f64,
        );
        let _ = writeln!(
            s,
            "one process: {} ms on {} thread{} ({})",
            ms(self.one_process_ms),
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            if self.measured { "measured" } else { "modelled" },
        );
        let batch = match &self.divided {
            Some(symbol) => format!("{symbol} is divided among the ranks"),
            None => "each rank has the batch of the graph".to_string(),
        };
        let way = if self.overlaps { "beside" } else { "behind" };
        let _ = writeln!(s, "{batch}; gradients are exchanged {way} the computation");
        self.networks.iter().for_each(|c| s.push_str(&c.text()));
        s
    }
}

impl Course {
    fn text(&self) -> String {
        let mut s = format!("\n{} ({})\n", self.network, self.source);
        let head = ["ranks", "compute ms", "latency ms", "transfer ms", "copies ms", "exposed ms", "step ms"];
        let row = |cells: &[String]| cells.iter().map(|c| format!("{c:>13}")).collect::<String>();
        let _ = writeln!(s, "{}  efficiency    speed-up", row(&head.map(String::from)));
        for r in &self.rows {
            let times = [r.compute_ms, r.latency_ms, r.transfer_ms, r.copies_ms, r.exposed_ms, r.step_ms].map(ms);
            let cells: Vec<String> = std::iter::once(r.ranks.to_string()).chain(times).collect();
            let speed_up = r.efficiency * r.ranks as f64;
            let _ = writeln!(s, "{}  {:>10.3}  {speed_up:>10.2}", row(&cells), r.efficiency);
        }
        let _ = match (self.falls_at, self.rows.last()) {
            (Some(n), _) => {
                let most = self.rows.iter().find(|r| r.ranks >= n).map_or("", Row::most);
                writeln!(s, "efficiency falls below {GOOD} at {n} ranks, most of all by {most}")
            }
            (None, _) => writeln!(s, "efficiency stays at {GOOD} or above"),
        };
        s
    }
}
