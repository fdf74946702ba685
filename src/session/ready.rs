//! What a program is made of: a graph with kernels for all ops, its plan, and its tapes.

use super::{Recomputed, Session, precision};
use crate::error::Result;
use crate::kernels::gemm::Precision;
use crate::nodes::{Graph, GraphBuf};
use crate::passes::pipeline;
use crate::sched::check::Checked;
use crate::sched::{Scheduled, schedule_in, share, tape};
use std::time::Duration;

/// A graph that is scheduled and divided among threads.
pub struct Ready {
    pub graph: GraphBuf,
    pub scheduled: Scheduled,
    pub tapes: tape::Tapes,
    pub recomputed: Recomputed,
    /// The product precision of each node; empty if the session chose none.
    pub precision: Vec<Precision>,
    /// How long passes and planning took.
    pub took: Duration,
}

impl Ready {
    /// Schedules `graph`, whose ops must all have kernels. Uses the number of threads with the least modelled time.
    pub fn new(graph: GraphBuf, s: &Session) -> Result<Ready> {
        let (mut threads, precision) = (s.planned_threads()?, precision::assign(graph.view(), &s.precision)?);
        let mut scheduled = schedule_in(graph.view(), threads, &precision)?;
        let mut tapes = s.tapes(&scheduled.plan);
        while tapes.threads() < threads {
            // Not worth that many threads: no scratch for the others either.
            threads = tapes.threads();
            scheduled = schedule_in(graph.view(), threads, &precision)?;
            tapes = s.tapes(&scheduled.plan);
        }
        Ok(Ready { graph, scheduled, tapes, recomputed: Recomputed::default(), precision, took: Duration::ZERO })
    }
}

impl Session {
    /// The tapes of a plan: for as many threads as are worth it, or for all.
    pub(super) fn tapes(&self, plan: &Checked) -> tape::Tapes {
        if self.share { share::tapes_sharing(plan, 0) } else { share::tapes(plan) }
    }
}

/// The graph of `g` in which every op has a kernel.
pub fn prepare(g: Graph<'_>, optimise: bool) -> Result<GraphBuf> {
    if optimise {
        return pipeline::optimise(g);
    }
    Ok(pipeline::run(g, pipeline::MINIMAL, false)?.0)
}
