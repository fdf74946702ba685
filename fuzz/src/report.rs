//! The findings of a run, as text or as a line of JSON.

use crate::args::Options;
use std::time::Duration;

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Inputs that ran.
    pub runs: u64,
    /// Wall time.
    pub time: Duration,
    /// Seconds of all threads.
    pub cpu: f64,
    /// Edges that were reached, of `counters`.
    pub edges: usize,
    /// Edges of the program; 0 without instrumentation.
    pub counters: usize,
    /// Inputs that mutations start from.
    pub corpus: usize,
    /// Inputs with a finding.
    pub findings: u64,
    /// Different findings.
    pub kinds: usize,
}

impl Report {
    /// The report in the form that `o` asks for.
    pub fn line(&self, target: &str, o: &Options) -> String {
        let Report { runs, time, cpu, edges, counters, corpus, findings, kinds } = self;
        let seconds = time.as_secs_f64();
        let rate = *runs as f64 / seconds.max(1e-9);
        if o.json {
            return format!(
                "{{\"target\":\"{target}\",\"seed\":{},\"runs\":{runs},\"seconds\":{seconds:.1},\"cpu\":{cpu:.1},\
                 \"per_second\":{rate:.0},\"edges\":{edges},\"counters\":{counters},\"corpus\":{corpus},\
                 \"findings\":{findings},\"kinds\":{kinds}}}",
                o.seed
            );
        }
        let reached = match counters {
            0 => "no coverage in this build".to_string(),
            _ => format!("{edges} edges"),
        };
        let found = match findings {
            0 => "no findings".to_string(),
            _ => format!("{findings} inputs with findings, {kinds} different"),
        };
        format!("{target}: {runs} runs in {seconds:.1} s, {rate:.0} a second, {reached}, {corpus} inputs kept, {found}")
    }
}

/// Seconds of processor time that this process has used; 0 where the system does not tell.
pub fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may hold spaces. Times are in hundredths of a second.
    let rest = text.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / 100.0
}
