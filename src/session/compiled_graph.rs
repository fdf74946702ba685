//! The parts of a program: a graph with kernels for all ops, its plan, and its tapes.

use super::choices::Choices;
use super::plan_report::{PlanReport, Recomputed, describe_plan};
use crate::clock::Instant;
use crate::error::{Error, Kind, Result};
use crate::kernels::gemm::{Precision, bf16_engine};
use crate::kernels::simd::instruction_choice;
use crate::nodes::ops::conv::convolution;
use crate::nodes::{Graph, GraphBuf};
use crate::passes::keep_half::KeptHalf;
use crate::passes::product_precision::{self, Precisions, product_precisions};
use crate::sched::arithmetic::Arithmetic;
use crate::sched::exec::Exec;
use crate::sched::placement::Placement;
use crate::sched::{Scheduled, modelled_time, plan_again, plan_with_arithmetic, plan_with_red_zones, tape};
use std::time::Duration;

/// What was chosen for a graph: all that its plan and its tapes need to be made again.
#[derive(Clone, Default)]
pub struct Decisions {
    /// The threads that the plan has scratch for.
    pub threads: usize,
    pub placements: Vec<Placement>,
    pub tapes: tape::Tapes,
    pub arithmetic: Arithmetic,
    pub recomputed: Recomputed,
    pub kept: KeptHalf,
}

/// A graph that is scheduled and divided among threads.
pub struct CompiledGraph {
    pub graph: GraphBuf,
    pub scheduled: Scheduled,
    pub tapes: tape::Tapes,
    pub recomputed: Recomputed,
    /// What is kept in half precision.
    pub kept: KeptHalf,
    /// How its nodes are computed.
    pub arithmetic: Arithmetic,
    /// How long passes and planning took.
    pub took: Duration,
}

impl CompiledGraph {
    /// Schedules `graph`, whose ops must all have kernels. Uses the number of threads with the least modelled time.
    pub fn new(graph: GraphBuf, s: &Choices) -> Result<CompiledGraph> {
        let (mut threads, products) = (s.planned_threads()?, choose_precisions(graph.view(), &s.precision)?);
        let arithmetic = Arithmetic { products, convolutions: s.convolutions };
        let mut scheduled = plan_with_arithmetic(graph.view(), threads, &arithmetic)?;
        let mut tapes = s.tapes(&scheduled.plan);
        while tapes.threads() < threads {
            // Not worth that many threads: no scratch for the others either.
            threads = tapes.threads();
            scheduled = plan_with_arithmetic(graph.view(), threads, &arithmetic)?;
            tapes = s.tapes(&scheduled.plan);
        }
        Ok(CompiledGraph {
            graph,
            scheduled,
            tapes,
            recomputed: Recomputed::default(),
            kept: KeptHalf::default(),
            arithmetic,
            took: Duration::ZERO,
        })
    }

    /// The compiled form of `graph` that `d` tells: no pass runs, and nothing is searched. Errors (kind `Plan`): `d` is
    /// of another graph or of other kernels; the proof of the plan fails.
    pub fn again(graph: GraphBuf, d: Decisions) -> Result<CompiledGraph> {
        let start = Instant::now();
        instruction_choice().and_then(|_| bf16_engine()).map_err(|why| Error::new(Kind::Plan, why))?;
        let Decisions { threads, placements, tapes, arithmetic, recomputed, kept } = d;
        if let Some(p) = arithmetic.products.iter().find(|p| p.here() != **p) {
            let text = format!("its products are computed in {}, which this CPU has no instructions for", p.name());
            return Err(Error::new(Kind::Plan, text));
        }
        let scheduled = plan_again(graph.view(), threads, &arithmetic, placements)?;
        Ok(CompiledGraph { graph, scheduled, tapes, recomputed, kept, arithmetic, took: start.elapsed() })
    }

    /// What [`CompiledGraph::again`] needs beside the graph.
    pub fn decisions(&self) -> Decisions {
        Decisions {
            threads: self.scheduled.plan.threads,
            placements: self.scheduled.placements.clone(),
            tapes: self.tapes.clone(),
            arithmetic: self.arithmetic.clone(),
            recomputed: self.recomputed.clone(),
            kept: self.kept,
        }
    }

    /// Plans it again, with red zones, if its steps are poisoned.
    pub fn with_red_zones(&mut self, choices: &Choices) -> Result<()> {
        if choices.poison {
            self.scheduled = plan_with_red_zones(self.graph.view(), 1, &self.arithmetic)?;
            self.tapes = choices.tapes(&self.scheduled.plan);
        }
        Ok(())
    }

    /// What runs it.
    pub fn exec(&self, choices: &Choices) -> Result<Exec> {
        let plan = &self.scheduled.plan;
        let exec = Exec::new(plan, self.tapes.clone())?;
        Ok(if choices.poison { exec.with_red_zones(plan) } else { exec })
    }

    /// What its plan is, without warnings of the graph.
    pub fn report(&self) -> PlanReport {
        let mut report = describe_plan(&self.graph.view(), &self.scheduled);
        report.recomputed = self.recomputed.clone();
        report.kept = self.kept;
        report.threads = self.tapes.threads();
        report.modelled = Duration::from_nanos(modelled_time::modelled_step(&self.scheduled.plan, &self.tapes) / 1000);
        report.products = product_precision::count_product_precisions(self.graph.view(), &self.arithmetic.products);
        report.winograd = convolution::count_winograd(self.graph.view(), self.arithmetic.convolutions);
        let planned = report.phases.iter().map(|p| p.1).sum();
        report.phases.insert(0, ("passes", self.took.saturating_sub(planned)));
        report
    }
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
