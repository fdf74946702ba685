//! The exchange of gradients: which bytes are summed at once, when they are ready, and on which thread.
//!
//! Invariant: all ranks sum the same buckets in the same order, whatever happens on one of them.

use super::comm::{Comm, Turn};
use super::rank_sum::{RankSum, Reduce};
use super::refused;
use crate::clock::Instant;
use crate::error::Result;
use crate::nodes::DType;
use crate::passes::optimiser::{KEPT_GRAD, KeptGrad, Layout, is_kept_grad};
use crate::sched::lend::{Lender, LentPart, Taker};
use crate::session::{Binding, Method, Program};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Gradients that are exchanged at once.
struct Bucket {
    dtype: DType,
    /// Their bytes in the arena.
    bytes: Range<usize>,
}

/// The exchange of a step.
pub(super) struct Exchange {
    buckets: Vec<Bucket>,
    /// Most bytes of a bucket that were asked for, and whether buckets shall be exchanged beside the gradients.
    pub asked: (usize, bool),
    plan: ExchangePlan,
    pub sum: RankSum,
    pub how: Reduce,
    /// What takes buckets while gradients are computed.
    lender: Option<Lender>,
    /// How long the last step waited for it.
    pub waited: Duration,
}

/// The buckets of an exchange, in order. It prints as text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExchangePlan {
    /// The buckets.
    pub buckets: Vec<BucketPlan>,
    /// Number of instructions that compute gradients.
    pub instructions: usize,
    /// Whether a bucket is exchanged while the gradients behind it are computed.
    pub overlaps: bool,
}

/// A bucket of gradients.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BucketPlan {
    /// Type of the gradients.
    pub dtype: DType,
    /// Size in bytes.
    pub bytes: usize,
    /// The instruction that writes the last of them.
    pub ready_after: usize,
    /// The part of the gradients' modelled time that is left behind it: what may hide the exchange.
    pub left: f64,
}

impl Exchange {
    /// The exchange of the gradients that method `grads` computes, in buckets of at most `bytes` bytes; beside it if
    /// `overlap` and there are several buckets.
    pub fn new(
        program: &Program,
        grads: Method,
        layout: &Layout,
        (ranks, bytes): (usize, usize),
        overlap: bool,
    ) -> Result<Exchange> {
        let mut buckets = Vec::new();
        for dtype in layout.dtypes() {
            let (start, cut) = (gradients_start(program, layout, dtype)?, layout.buckets(dtype, bytes, ranks));
            let at = |element: usize| start + element * dtype.size();
            buckets.extend(cut.into_iter().map(|r| Bucket { dtype, bytes: at(r.start)..at(r.end) }));
        }
        let most = buckets.iter().map(|b| b.bytes.len()).max().unwrap_or(0);
        let ranges: Vec<Range<usize>> = buckets.iter().map(|b| b.bytes.clone()).collect();
        let parts = program.lent_parts(grads, &ranges)?;
        let lender = match overlap && ranks > 1 && buckets.len() > 1 {
            true => program.lender(grads, &ranges)?,
            false => None,
        };
        let instructions = program.plan_of(grads)?.instructions;
        let plan = ExchangePlan {
            buckets: buckets.iter().zip(&parts).map(|(b, part)| BucketPlan::new(b, part)).collect(),
            instructions,
            overlaps: lender.is_some(),
        };
        let (sum, how, waited) = (RankSum::new(most, ranks), Reduce::default(), Duration::ZERO);
        Ok(Exchange { buckets, asked: (bytes, overlap), plan, sum, how, lender, waited })
    }

    pub fn plan(&self) -> &ExchangePlan {
        &self.plan
    }

    /// Whether buckets are exchanged while gradients are computed.
    pub fn overlaps(&self) -> bool {
        self.lender.is_some()
    }

    /// Computes the gradients and sums them over the ranks, also if this rank could not compute them.
    pub fn run(&mut self, program: &mut Program, grads: Method, comm: &mut Box<dyn Comm>) -> Result<()> {
        let (buckets, sum, how) = (&self.buckets[..], &mut self.sum, self.how);
        let mut summing = Summing { comm: &mut **comm, buckets, sum, how, next: 0, done: Ok(()) };
        let (mut own, mut beside) = (None, Duration::ZERO);
        if let Some(lender) = &mut self.lender {
            own = Some(program.run_lending(grads, lender, &mut summing));
            beside = lender.waited;
            summing.comm.turn(Turn::Late);
        }
        let own = own.unwrap_or_else(|| program.run(grads));
        let start = Instant::now();
        let (overlaps, first) = (self.lender.is_some(), summing.next);
        for (k, b) in buckets.iter().enumerate().skip(first) {
            summing.sum(k, program.leaf_bytes_mut(b.bytes.clone())?);
        }
        if overlaps {
            summing.comm.turn(Turn::Own);
        }
        self.waited = if first > 0 { beside } else { Duration::ZERO } + start.elapsed();
        summing.done.and(own)
    }
}

/// Sums buckets over the ranks, one after another.
struct Summing<'a> {
    comm: &'a mut dyn Comm,
    buckets: &'a [Bucket],
    sum: &'a mut RankSum,
    how: Reduce,
    /// The first bucket that is not summed.
    next: usize,
    done: Result<()>,
}

impl Summing<'_> {
    fn sum(&mut self, k: usize, bytes: &mut [u8]) {
        if self.done.is_ok() {
            self.done = self.sum.reduce_bytes(self.comm, self.buckets[k].dtype, bytes, self.how);
        }
        self.next = k + 1;
    }
}

impl Taker for Summing<'_> {
    fn take(&mut self, part: usize, bytes: &mut [u8], computes: bool) {
        self.comm.turn(if computes { Turn::Beside } else { Turn::Late });
        self.sum(part, bytes);
    }
}

/// The first byte of the gradients of `dtype` in the arena of `program`. An error if they do not lie as `layout` says.
fn gradients_start(program: &Program, layout: &Layout, dtype: DType) -> Result<usize> {
    let kept = || program.persistent().map(|(b, _)| b).filter(|b| is_kept_grad(&b.name) && b.dtype == dtype);
    let start = kept().next().map_or(0, |b| b.offset);
    let fits = |(p, b): (&KeptGrad, &Binding)| {
        b.name.strip_prefix(KEPT_GRAD) == Some(&p.name) && b.offset == start + p.range.start * dtype.size()
    };
    if kept().count() == layout.of(dtype).count() && layout.of(dtype).zip(kept()).all(fits) {
        return Ok(start);
    }
    Err(refused("the program is of another split: its gradients lie elsewhere"))
}

impl BucketPlan {
    fn new(b: &Bucket, part: &LentPart) -> BucketPlan {
        let (dtype, bytes) = (b.dtype, b.bytes.len());
        BucketPlan { dtype, bytes, ready_after: part.last.unwrap_or(0), left: part.left }
    }
}

impl fmt::Display for ExchangePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, bytes) = (self.buckets.len(), self.buckets.iter().map(|b| b.bytes).sum::<usize>());
        let how = if self.overlaps { "beside the gradients" } else { "behind the gradients" };
        let plural = if n == 1 { "" } else { "s" };
        write!(f, "exchange: {bytes} bytes in {n} bucket{plural}, {how} ({} instructions)", self.instructions)?;
        let mut first = 0;
        for ready in self.buckets.chunk_by(|a, b| (a.dtype, a.ready_after) == (b.dtype, b.ready_after)) {
            let (b, last) = (&ready[0], first + ready.len() - 1);
            let (bytes, at, left) = (ready.iter().map(|b| b.bytes).sum::<usize>(), b.ready_after, 100.0 * b.left);
            let which = if first == last { first.to_string() } else { format!("{first} to {last}") };
            let when = format!("ready after instruction {at}, {left:.0} % of the time left");
            write!(f, "\n  {which}: {}, {bytes} bytes, {when}", b.dtype)?;
            first = last + 1;
        }
        Ok(())
    }
}
