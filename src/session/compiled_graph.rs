//! What a program is made of: a graph with kernels for all ops, its plan, and its tapes.

use super::{Recomputed, Session, precision};
use crate::error::Result;
use crate::kernels::gemm::Precision;
use crate::nodes::{Graph, GraphBuf};
use crate::passes::pipeline;
use crate::sched::{Scheduled, schedule_in, tape};
use std::time::Duration;

/// A graph that is scheduled and divided among threads.
pub struct CompiledGraph {
    pub graph: GraphBuf,
    pub scheduled: Scheduled,
    pub tapes: tape::Tapes,
    pub recomputed: Recomputed,
    /// The product precision of each node; empty if the session chose none.
    pub precision: Vec<Precision>,
    /// How long passes and planning took.
    pub took: Duration,
}

impl CompiledGraph {
    /// Schedules `graph`, whose ops must all have kernels. Uses the number of threads with the least modelled time.
    pub fn new(graph: GraphBuf, s: &Session) -> Result<CompiledGraph> {
        let (mut threads, precision) =
            (s.planned_threads()?, precision::session_precisions(graph.view(), &s.precision)?);
        let mut scheduled = schedule_in(graph.view(), threads, &precision)?;
        let mut tapes = s.tapes(&scheduled.plan);
        while tapes.threads() < threads {
            // Not worth that many threads: no scratch for the others either.
            threads = tapes.threads();
            scheduled = schedule_in(graph.view(), threads, &precision)?;
            tapes = s.tapes(&scheduled.plan);
        }
        Ok(CompiledGraph {
            graph,
            scheduled,
            tapes,
            recomputed: Recomputed::default(),
            precision,
            took: Duration::ZERO,
        })
    }
}

/// The graph of `g` in which every op has a kernel.
pub fn compilable_graph(g: Graph<'_>, optimise: bool) -> Result<GraphBuf> {
    if optimise {
        return pipeline::run_whole_pipeline(g);
    }
    Ok(pipeline::run_pipeline(g, pipeline::MINIMAL, false)?.0)
}
