//! What a session chooses, as all take it that compile and run programs.

use super::MAX_THREADS;
use crate::error::{Error, Kind, Result};
use crate::kernels::conv::Convolutions;
use crate::passes::keep_half::Keep;
use crate::passes::pipeline;
use crate::passes::product_precision::Precisions;
use crate::sched::affinity;
use crate::sched::checker::Checked;
use crate::sched::share;
use crate::sched::tape::Tapes;
use crate::sched::team::Team;
use crate::session::runner::Runner;
use std::time::Duration;

/// Plans that are kept unless [`Session::plans_kept`] says otherwise.
const PLANS_KEPT: usize = 64;

/// The choices of a [`Session`](super::Session), whose methods say what each is.
#[derive(Clone, Debug)]
pub struct Choices {
    pub threads: usize,
    pub optimise: bool,
    pub poison: bool,
    pub find_nan: bool,
    pub share: bool,
    pub budget: Option<usize>,
    pub precision: Precisions,
    pub convolutions: Convolutions,
    pub keep: Keep,
    pub plans_kept: usize,
    /// The cores of threads, the caller's first.
    pub cores: Option<Vec<usize>>,
    pub spin: Option<Duration>,
}

impl Default for Choices {
    fn default() -> Choices {
        Choices {
            threads: 1,
            optimise: true,
            poison: false,
            find_nan: false,
            share: false,
            budget: None,
            precision: Precisions::default(),
            convolutions: Convolutions::default(),
            keep: Keep::F32,
            plans_kept: PLANS_KEPT,
            cores: None,
            spin: None,
        }
    }
}

impl Choices {
    /// Whether programs go through all passes. Those that look for NaN do not: after fusion, an error could not name
    /// the op that the user wrote.
    pub fn runs_all_passes(&self) -> bool {
        self.optimise && !self.find_nan
    }

    /// The passes that programs go through. A precision that is chosen for products is not for sums that only a pass
    /// writes as products.
    pub fn passes(&self) -> Vec<&'static str> {
        match self.runs_all_passes() {
            false => pipeline::MINIMAL.to_vec(),
            true if self.precision == Precisions::default() => pipeline::pipeline_passes(),
            true => pipeline::with_sums_as_written(&pipeline::pipeline_passes()),
        }
    }

    /// Threads that programs are planned for.
    pub fn planned_threads(&self) -> Result<usize> {
        match self.threads {
            1..=MAX_THREADS if self.poison || self.find_nan => Ok(1),
            n @ 1..=MAX_THREADS => Ok(n),
            n => Err(Error::new(Kind::Plan, format!("threads is {n}; it goes from 1 to {MAX_THREADS}"))),
        }
    }

    /// Puts the threads of `runner` on the chosen cores.
    pub fn settle(&self, runner: &mut Runner) -> Result<()> {
        if let Some(cores) = &self.cores {
            affinity::check_cores(cores, self.planned_threads()?)?;
            runner.pin(cores)?;
        }
        self.spin.into_iter().for_each(|time| runner.spin(time));
        Ok(())
    }

    /// As [`Choices::settle`], for a team that a runner will be lent.
    pub fn settle_team(&self, team: &Team) -> Result<()> {
        self.spin.into_iter().for_each(|time| team.spin(time));
        self.cores.as_ref().map_or(Ok(()), |cores| team.pin(cores))
    }

    /// The tapes of a plan: for as many threads as are worth it, or for all.
    pub fn tapes(&self, plan: &Checked) -> Tapes {
        if self.share { share::share_tapes_above(plan, 0) } else { share::share_tapes(plan) }
    }
}
