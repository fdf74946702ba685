//! Options that make the times of steps shorter and more alike: `--pin`, `--spin`, `--prefault`, `--lock-memory`.
//!
//! Invariant: this module only parses.

use clap::Args;
use std::time::Duration;

/// Where threads run, how long they wait, and how memory is kept.
#[derive(Args, Clone, Debug, Default)]
pub struct LatencyArgs {
    /// Cores, separated by commas: the thread that runs steps stays on the first, the others on the next ones; as many
    /// as threads at least. On Linux [default: the system chooses].
    #[arg(long, value_name = "CORE", value_delimiter = ',', num_args = 1)]
    pub pin: Option<Vec<usize>>,
    /// Seconds for which threads look for the next step before they sleep; inf: they never sleep [default: one or two
    /// tenths of a millisecond, then some hundred times as the system lets them].
    #[arg(long, value_name = "S", value_parser = spin_arg)]
    pub spin: Option<Duration>,
    /// Bring all memory of the step in before the first one.
    #[arg(long)]
    pub prefault: bool,
    /// Keep all memory of the step from the swap area. The system may refuse: see `ulimit -l`.
    #[arg(long)]
    pub lock_memory: bool,
}

/// Parses the seconds of `--spin`.
fn spin_arg(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(f64::INFINITY) => Ok(Duration::MAX),
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| "it is a number of seconds, 0 or more".into()),
        Err(_) => Err("it is a number of seconds, or inf".into()),
    }
}
