//! The parts of a program: a graph with kernels for all ops, its plan, and its tapes.

use super::{Recomputed, Session};
use crate::error::{Error, Kind, Result};
use crate::kernels::gemm::{Precision, bf16_engine};
use crate::kernels::simd::instruction_choice;
use crate::nodes::{Graph, GraphBuf};
use crate::passes::keep_half::KeptHalf;
use crate::passes::pipeline;
use crate::passes::product_precision::{Precisions, product_precisions};
use crate::sched::{Scheduled, plan_with_precision, tape};
use std::time::Duration;

/// A graph that is scheduled and divided among threads.
pub struct CompiledGraph {
    pub graph: GraphBuf,
    pub scheduled: Scheduled,
    pub tapes: tape::Tapes,
    pub recomputed: Recomputed,
    /// What is kept in half precision.
    pub kept: KeptHalf,
    /// The product precision of each node; empty if the session chose none.
    pub precision: Vec<Precision>,
    /// How long passes and planning took.
    pub took: Duration,
}

impl CompiledGraph {
    /// Schedules `graph`, whose ops must all have kernels. Uses the number of threads with the least modelled time.
    pub fn new(graph: GraphBuf, s: &Session) -> Result<CompiledGraph> {
        let (mut threads, precision) = (s.planned_threads()?, choose_precisions(graph.view(), &s.precision)?);
        let mut scheduled = plan_with_precision(graph.view(), threads, &precision)?;
        let mut tapes = s.tapes(&scheduled.plan);
        while tapes.threads() < threads {
            // Not worth that many threads: no scratch for the others either.
            threads = tapes.threads();
            scheduled = plan_with_precision(graph.view(), threads, &precision)?;
            tapes = s.tapes(&scheduled.plan);
        }
        Ok(CompiledGraph {
            graph,
            scheduled,
            tapes,
            recomputed: Recomputed::default(),
            kept: KeptHalf::default(),
            precision,
            took: Duration::ZERO,
        })
    }
}

/// The graph of `g` in which every op has a kernel, and what it keeps in half precision.
pub fn run_compile_passes(g: Graph<'_>, s: &Session) -> Result<(GraphBuf, KeptHalf)> {
    let passes = if s.runs_all_passes() { pipeline::pipeline_passes() } else { pipeline::MINIMAL.to_vec() };
    pipeline::run_and_keep_half(g, &passes, s.keep)
}

/// The precision of each node of `g`; empty if all are the default.
fn choose_precisions(g: Graph<'_>, choice: &Precisions) -> Result<Vec<Precision>> {
    instruction_choice().map_err(|why| Error::new(Kind::Plan, why))?;
    if *choice == Precisions::default() {
        return Ok(Vec::new());
    }
    bf16_engine().map_err(|why| Error::new(Kind::Plan, why))?;
    Ok(product_precisions(g, choice)?.into_iter().map(Precision::here).collect())
}
