//! The command `scale`: how long a training step would take on some numbers of ranks.
//!
//! A step on n ranks takes its time in one process, on the share of the batch that a rank has, and what is exposed of
//! the exchange of gradients. The efficiency is the part of n processes' work that is done in this time.
//! Invariant: nothing is measured here. Times are from the plan or from `--step-ms`, and from the files of networks.

mod chart;
mod exchange;
mod network;
mod table;

use crate::args::{ScaleArgs, SizeArg, SizeArgs};
use crate::bench;
use crate::fail::{Run, fail_bad_input};
use crate::ir::{ir_failure, load_ir};
use crate::stdout_stderr::emit_stdout;
use arenagrad::graph::{GraphBuf, LeafKind};
use arenagrad::optim::{KEPT_GRAD, Layout};
use arenagrad::session::{PlanReport, Session};
use arenagrad::train::write_atomically;
use exchange::{Buckets, exchange};
use network::Network;
use std::path::Path;
use table::{Course, Row, Table};

/// Efficiency below which [`Course::falls_at`] tells a number of ranks.
const GOOD: f64 = 0.9;

/// Runs the command.
pub fn scale_command(a: &ScaleArgs) -> Run {
    if let Some(ms) = a.step_ms.filter(|ms| !(ms.is_finite() && *ms > 0.0)) {
        return Err(fail_bad_input(format!("--step-ms is {ms}; it is above 0")));
    }
    let networks = a.network.iter().map(|path| Network::read(path)).collect::<Run<Vec<_>>>()?;
    let step = Step::open(a)?;
    let shares = step.shares(a)?;
    let courses = networks.iter().map(|n| course(a, &step, &shares, n)).collect();
    let table = Table {
        target: a.target.clone(),
        threads: step.plan.threads,
        flops: step.plan.flops,
        params: step.params,
        gradient_bytes: step.buckets.bytes(),
        buckets: step.buckets.len(),
        measured: a.step_ms.is_some(),
        divided: a.divide.clone(),
        overlaps: step.buckets.len() > 1 && !a.no_overlap,
        one_process_ms: 1e3 * step.seconds,
        networks: courses,
    };
    if let Some(path) = &a.svg {
        write_atomically(path, chart::draw(&table).as_bytes())?;
    }
    emit_stdout(if a.json { serde_json::to_string(&table).map_err(fail_bad_input)? } else { table.text() })
}

/// The step of one process with the batch of the graph.
struct Step {
    plan: PlanReport,
    params: usize,
    buckets: Buckets,
    /// Its time, modelled or measured.
    seconds: f64,
}

/// A number of ranks, and the seconds in which one of them computes its share.
type Share = (usize, f64);

impl Step {
    fn open(a: &ScaleArgs) -> Run<Step> {
        let graph = graph_of(a, 1)?;
        let plan = plan_of(a, &graph)?;
        let layout = layout_of(&graph).map_err(ir_failure(Path::new(&a.target)))?;
        let Some(layout) = layout else {
            let text = "no param is updated: scale takes a training step, such as `train` of a graph with a loss makes";
            return Err(fail_bad_input(format!("{}: {text}", a.target)));
        };
        let seconds = a.step_ms.map_or(plan.modelled.as_secs_f64(), |ms| ms / 1e3);
        let params = layout.params.iter().map(|p| p.range.len()).sum();
        let left = left_of(a, &plan)?;
        let buckets = Buckets::of(&layout, |name| left.iter().find(|u| u.0 == name).map_or(0.0, |u| u.1));
        Ok(Step { plan, params, buckets, seconds })
    }

    /// The numbers of ranks of the table, with a rank's time.
    fn shares(&self, a: &ScaleArgs) -> Run<Vec<Share>> {
        let shown = a.ranks.shown();
        let Some(symbol) = &a.divide else { return Ok(shown.iter().map(|&n| (n, self.seconds)).collect()) };
        let whole = whole_size(a, symbol)?;
        let (fit, rest): (Vec<usize>, Vec<usize>) = shown.iter().partition(|n| whole.is_multiple_of(**n));
        if let (Some(n), false) = (rest.first(), a.ranks.bounds().is_some()) {
            return Err(fail_bad_input(format!("{n} ranks have no equal shares of {symbol}={whole}")));
        }
        if fit.is_empty() {
            return Err(fail_bad_input(format!("none of the numbers of ranks {rest:?} divides {symbol}={whole}")));
        }
        let ratio = self.seconds / self.plan.modelled.as_secs_f64().max(f64::MIN_POSITIVE);
        let share = |n: usize| Ok((n, ratio * plan_of(a, &graph_of(a, n)?)?.modelled.as_secs_f64()));
        fit.into_iter().map(share).collect()
    }
}

/// What `network` makes of `shares`.
fn course(a: &ScaleArgs, step: &Step, shares: &[Share], network: &Network) -> Course {
    let strong = a.divide.is_some();
    let row = |&(ranks, compute): &Share| {
        Row::new(ranks, compute, exchange(&step.buckets, network, ranks, compute, !a.no_overlap))
    };
    let efficiency = |r: &Row| {
        let work = if strong { step.seconds / r.ranks as f64 } else { step.seconds };
        1e3 * work / r.step_ms
    };
    let rows: Vec<Row> = shares.iter().map(row).map(|r| Row { efficiency: efficiency(&r), ..r }).collect();
    // With whole batches every number of ranks of a range is looked at, without plans.
    let between = match a.ranks.bounds() {
        Some((first, last)) if !strong => (first..=last).find(|&n| efficiency(&row(&(n, step.seconds))) < GOOD),
        _ => rows.iter().filter(|r| r.efficiency < GOOD).map(|r| r.ranks).min(),
    };
    Course { network: network.name.clone(), source: network.source.clone(), falls_at: between, rows }
}

/// The step that one of `ranks` ranks computes.
fn graph_of(a: &ScaleArgs, ranks: usize) -> Run<GraphBuf> {
    match bench::find_workload(&a.target) {
        Ok(_) if a.divide.is_some() || !a.sizes.bound.is_empty() => {
            let text = format!("--size and --divide are for graphs; {} is a workload", a.target);
            Err(fail_bad_input(text))
        }
        Ok(w) => Ok(w.step()?),
        Err(unknown) => {
            let path = Path::new(&a.target);
            if !path.exists() && path.extension().is_none() {
                return Err(fail_bad_input(format!("{}; a file is not called so either", unknown.message)));
            }
            load_ir(path, &sizes_of(a, ranks)?)
        }
    }
}

/// The sizes of the text's symbols on one of `ranks` ranks.
fn sizes_of(a: &ScaleArgs, ranks: usize) -> Run<SizeArgs> {
    let Some(symbol) = &a.divide else { return Ok(SizeArgs { bound: a.sizes.bound.clone() }) };
    let own = whole_size(a, symbol)? / ranks;
    let bound = |b: &SizeArg| SizeArg { size: if b.symbol == *symbol { own } else { b.size }, ..b.clone() };
    Ok(SizeArgs { bound: a.sizes.bound.iter().map(bound).collect() })
}

/// The size of `symbol` on all ranks together.
fn whole_size(a: &ScaleArgs, symbol: &str) -> Run<usize> {
    let given = a.sizes.bound.iter().find(|b| b.symbol == symbol);
    let missing = || fail_bad_input(format!("--divide {symbol}: give its size on all ranks, as --size {symbol}=256"));
    given.map(|b| b.size).ok_or_else(missing)
}

fn plan_of(a: &ScaleArgs, graph: &GraphBuf) -> Run<PlanReport> {
    let session = Session::new().threads(a.threads).precision(a.precision).convolutions(a.convolutions).keep(a.keep);
    session.plan(graph).map_err(ir_failure(Path::new(&a.target)))
}

/// For each param, the part of the step that is left when its gradient is there: in the program of gradients of a
/// workload, or else when the step of one process has written the param.
fn left_of(a: &ScaleArgs, plan: &PlanReport) -> Run<Vec<(String, f64)>> {
    let Ok(workload) = bench::find_workload(&a.target) else {
        return Ok(plan.updates.iter().map(|u| (u.name.clone(), u.left)).collect());
    };
    let split = workload.split()?;
    let grads = plan_of(a, &split.grads)?;
    let part = (grads.modelled.as_secs_f64() / plan.modelled.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0);
    let kept = grads.updates.iter().filter_map(|u| Some((u.name.strip_prefix(KEPT_GRAD)?.to_string(), u.left * part)));
    Ok(kept.collect())
}

/// Where the gradients of a step would lie if it were split: those of the params that it updates, the last one first.
/// None if it updates none.
fn layout_of(graph: &GraphBuf) -> arenagrad::Result<Option<Layout>> {
    let g = graph.view();
    let trained = g.leaves().filter(|l| l.kind == LeafKind::Param && g.updates.iter().any(|u| u.0 == l.value));
    let mut params: Vec<_> = trained.collect();
    params.reverse();
    let mut layout = Layout::default();
    for p in &params {
        let ty = g.ty(p.value);
        layout.push(p.name, ty.dtype, g.dims(p.value).numel())?;
    }
    Ok((!params.is_empty()).then_some(layout))
}
