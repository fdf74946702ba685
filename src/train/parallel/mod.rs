//! Data parallel steps: each rank computes the gradients of its share of a batch, their mean is taken over the ranks,
//! and all ranks make the same update.
//!
//! Invariants: what updates read (params, states of the optimiser) has the same bits on all ranks, which the first step
//! checks; what only gradients read (statistics of layers, the random key) is each rank's own. A step that fails on one
//! rank fails on all of them, with an error that names the rank, before anything is updated. All ranks make the same
//! calls in the same order, also when one fails. A step allocates nothing.
//! There is no MPI here: a [`Comm`] is given.

mod agreement;
mod comm;
pub(in crate::train) mod files;
mod gradients;
mod rank_sum;
mod threads;
mod weights_hash;

use crate::clock::Instant;
use crate::error::{Error, Kind, Result};
use crate::nodes::DType;
use crate::nodes::ir::text;
use crate::nodes::ops::random::var::RNG_STATE;
use crate::passes::optimiser::{Layout, OwnedState, Shard, Split, is_kept_grad};
use crate::session::{Binding, Method, Program, Role};
use crate::train::checkpoint::Tensor;
use crate::train::trainer::step_io::Scalar;
use agreement::Reports;
use gradients::Exchange;
use std::time::Duration;

pub use agreement::{RECORD as REPORT_BYTES, fingerprint};
pub use comm::{Comm, Turn, block_bytes, check_gathered_bytes, check_root};
pub use gradients::{BucketPlan, ExchangePlan};
pub use rank_sum::Reduce;
pub use threads::LocalComm;
pub use weights_hash::weights_hash;

/// Bytes of a bucket unless [`Parallel::bucket_bytes`] says otherwise.
pub const BUCKET: usize = 4 << 20;
/// The name of the method that computes gradients.
pub const GRADS: &str = "grads";
/// The name of the method that updates.
pub const UPDATE: &str = "update";

/// What becomes of the states of layers that each rank moves on its own: the statistics of batch norm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncStates {
    /// Numbers of float types become their mean over the ranks; others become rank 0's.
    #[default]
    Mean,
    /// They become rank 0's.
    Rank0,
}

/// Steps of one rank among several. The program has two methods, those of a [`Split`]: [`GRADS`] and [`UPDATE`].
///
/// With losses that are means over the batch, and batches of one size on all ranks, the mean gradient is that of the
/// global batch. For losses that are sums see [`Reduce::Sum`]. Where a loss is a mean over the labels that are not
/// ignored, the mean of the ranks' means is not the mean over the global batch.
///
/// ```
/// use arenagrad::prelude::*;
/// use arenagrad::train::{Comm, LocalComm, Parallel};
/// # fn main() -> Result<()> {
/// let g = Builder::new("mean");
/// let (x, w) = (g.input("x", [4], DType::F32), g.param("w", [], DType::F32, Init::Zeros));
/// let loss = (x - w).square().mean(..).named("loss");
/// let split = &optim::train_split(&g.finish([loss])?, "loss", optim::Sgd::new(0.25))?;
///
/// // Two ranks learn the mean of eight numbers, four each.
/// std::thread::scope(|threads| {
///     for comm in LocalComm::group(2) {
///         threads.spawn(move || -> Result<()> {
///             let rank = comm.rank();
///             let mut p = Session::new().compile_all(&split.methods())?;
///             p.init(0)?;
///             let mut parallel = Parallel::new(&p, comm, split)?;
///             for _ in 0..50 {
///                 let own = if rank == 0 { [1.0, 2.0, 3.0, 6.0] } else { [5.0, 6.0, 7.0, 10.0] };
///                 p.values_mut::<f32>("x")?.copy_from_slice(&own);
///                 parallel.step(&mut p)?;
///             }
///             assert_eq!(p.values::<f32>("w")?, [5.0]);
///             Ok(())
///         });
///     }
/// });
/// # Ok(())
/// # }
/// ```
pub struct Parallel {
    comm: Box<dyn Comm>,
    grads: Method,
    update: Method,
    loss: Scalar,
    layout: Layout,
    /// What this rank owns, if the optimiser's states are shared out.
    shard: Option<Shard>,
    exchange: Exchange,
    reports: Reports,
    /// Whether the ranks are known to agree on what updates read.
    started: bool,
    /// The seed of this rank's random key, once it has one of its own.
    own_seed: Option<[u32; 2]>,
}

impl Parallel {
    /// The steps of `program` on this rank of `comm`. `split` is what the program was compiled from, with
    /// [`Split::methods`].
    ///
    /// # Errors
    /// On all ranks: a rank has another graph; the error names it. On this rank: the program is of another split; the
    /// optimiser weighs micro-batches and there are several ranks.
    pub fn new(program: &Program, comm: impl Comm + 'static, split: &Split) -> Result<Parallel> {
        let text = |g| fingerprint(text::print(g).as_bytes());
        let update = split.shard.as_ref().map_or(&split.update, |s| &s.whole);
        agreement::agree(
            &comm,
            &[
                ("number of ranks", comm.size() as u64),
                ("number of params", split.layout.params.len() as u64),
                ("graph of gradients", text(split.grads.view())),
                ("graph of updates", text(update.view())),
                ("setting of sharded states", u64::from(split.shard.is_some())),
            ],
        )?;
        if let Some(s) = split.shard.as_ref().filter(|s| (s.rank, s.ranks) != (comm.rank(), comm.size())) {
            let (rank, ranks) = (comm.rank(), comm.size());
            return Err(refused(&format!("the shard is of rank {} of {}, this is {rank} of {ranks}", s.rank, s.ranks)));
        }
        if split.weighted && comm.size() > 1 {
            return Err(refused("micro-batches are weighed on each rank by its own weights: accumulate_by is refused"));
        }
        let (grads, update) = (program.method(GRADS)?, program.method(UPDATE)?);
        let loss = Scalar::output(program, grads, &split.loss)?;
        let ranks = comm.size();
        let exchange = Exchange::new(program, grads, &split.layout, (ranks, BUCKET), comm.works_beside())?;
        Ok(Parallel {
            comm: Box::new(comm),
            grads,
            update,
            loss,
            layout: split.layout.clone(),
            shard: split.shard.clone(),
            exchange,
            reports: Reports::new(ranks),
            started: false,
            own_seed: None,
        })
    }

    /// The same steps, whose gradients are summed in buckets of at most `bytes` bytes, but at least a line of 64
    /// bytes for each rank. It changes no bit.
    ///
    /// # Errors
    /// The program is another one.
    pub fn bucket_bytes(self, program: &Program, bytes: usize) -> Result<Parallel> {
        let (_, overlap) = self.exchange.asked;
        self.with_exchange(program, bytes, overlap)
    }

    /// Whether ranks exchange the gradients that are ready while they compute the others, on a thread of their own. By
    /// default they do if the communicator [allows](Comm::works_beside) it and there are several buckets. All ranks
    /// choose the same. It changes no bit.
    ///
    /// # Errors
    /// The program is another one; the thread cannot be started.
    pub fn overlap(self, program: &Program, on: bool) -> Result<Parallel> {
        let (bytes, _) = self.exchange.asked;
        self.with_exchange(program, bytes, on)
    }

    fn with_exchange(self, program: &Program, bytes: usize, overlap: bool) -> Result<Parallel> {
        let (ranks, how) = (self.comm.size(), self.exchange.how);
        let overlap = overlap && self.comm.works_beside();
        let mut exchange = Exchange::new(program, self.grads, &self.layout, (ranks, bytes), overlap)?;
        exchange.how = how;
        Ok(Parallel { exchange, ..self })
    }

    /// What becomes of the gradients of all ranks; by default their mean.
    pub fn reduce(mut self, how: Reduce) -> Parallel {
        self.exchange.how = how;
        self
    }

    /// The buckets, and what of the gradients' time is left when each of them is ready.
    pub fn plan(&self) -> &ExchangePlan {
        self.exchange.plan()
    }

    /// How long the last step waited for its exchange: what did not run beside the gradients.
    pub fn waited(&self) -> Duration {
        self.exchange.waited
    }

    /// The ranks.
    pub fn comm(&self) -> &dyn Comm {
        &*self.comm
    }

    pub(in crate::train) fn grads(&self) -> Method {
        self.grads
    }

    pub(in crate::train) fn update(&self) -> Method {
        self.update
    }

    pub(in crate::train) fn loss(&self) -> Scalar {
        self.loss
    }

    /// Whether this is rank 0, which writes files.
    pub fn is_first(&self) -> bool {
        self.comm.rank() == 0
    }

    /// Runs one step: gradients of this rank's batch, their mean over all ranks, the update. Returns the mean of the
    /// ranks' losses.
    ///
    /// # Errors
    /// On all ranks: the gradients of a rank fail; the error names it, and no param is updated, but the other ranks
    /// have moved their statistics of layers and their random keys. The first step also fails if a rank has other
    /// params than rank 0.
    pub fn step(&mut self, program: &mut Program) -> Result<f64> {
        self.step_after(program, Ok(()))
    }

    /// As [`Parallel::step`], after something on this rank that may have failed, such as reading its batch.
    ///
    /// # Errors
    /// As for [`Parallel::step`]; on all ranks, `ready` of the first rank where it is an error: then nothing has
    /// changed.
    pub fn step_after(&mut self, program: &mut Program, ready: Result<()>) -> Result<f64> {
        if !self.started {
            self.check_start(program)?;
        }
        // Before gradients, which move statistics of layers and the random key.
        self.reports.exchange(&*self.comm, ready.map(|()| 0.0))?;
        let own = self.exchange.run(program, self.grads, &mut self.comm);
        let start = Instant::now();
        let own = own.and_then(|()| self.loss.read(program));
        let loss = self.reports.exchange(&*self.comm, own)?;
        self.exchange.waited += start.elapsed();
        program.run(self.update)?;
        self.gather_params(program)?;
        Ok(loss)
    }

    /// Gives this rank the params that others have updated.
    fn gather_params(&self, program: &mut Program) -> Result<()> {
        let Some(shard) = &self.shard else { return Ok(()) };
        for (param, &owner) in self.layout.params.iter().zip(&shard.owners) {
            self.comm.broadcast(owner, program.persistent_mut(&param.name)?.1)?;
        }
        Ok(())
    }

    /// The states that only their owner has, for the checkpoint that rank 0 writes; none on the other ranks.
    pub(in crate::train) fn gather_states(&self, program: &Program) -> Result<Vec<Tensor>> {
        let gathered = |s: &OwnedState| {
            let own = program.persistent().find(|(b, _)| b.name == s.name).map(|(_, bytes)| bytes.to_vec());
            let mut bytes = own.unwrap_or_else(|| vec![0; s.dims.iter().product::<usize>() * s.dtype.size()]);
            self.comm.broadcast(s.owner, &mut bytes)?;
            let first = self.is_first();
            Ok(first.then(|| Tensor { name: s.name.clone(), dtype: s.dtype, dims: s.dims.clone(), bytes }))
        };
        self.owned_states().iter().filter_map(|s| gathered(s).transpose()).collect()
    }

    /// The states that only their owner has.
    pub(in crate::train) fn owned_states(&self) -> &[OwnedState] {
        self.shard.as_ref().map_or(&[], |s| &s.states)
    }

    /// Whether only one rank has the state called `name`.
    fn is_owned(&self, name: &str) -> bool {
        self.owned_states().iter().any(|s| s.name == name)
    }

    /// Tells all ranks how this rank fared: an error of one becomes an error of all, which names it.
    ///
    /// # Errors
    /// The first rank's error.
    pub fn share_result(&self, own: Result<()>) -> Result<()> {
        Reports::new(self.comm.size()).exchange(&*self.comm, own.map(|()| 0.0)).map(drop)
    }

    /// Whether `flag` is set on any rank: a signal to stop, which not all ranks see before the same step.
    ///
    /// # Errors
    /// A rank has ended.
    pub fn any(&mut self, flag: bool) -> Result<bool> {
        Ok(self.reports.exchange(&*self.comm, Ok(f64::from(u8::from(flag))))? > 0.0)
    }

    /// The mean of a number over the ranks.
    ///
    /// # Errors
    /// On all ranks, the first rank's error.
    pub fn mean(&mut self, own: Result<f64>) -> Result<f64> {
        self.reports.exchange(&*self.comm, own)
    }

    /// Checks that a number, such as a digest of the data ([`fingerprint`]), is equal on all ranks.
    ///
    /// # Errors
    /// On all ranks, if it is not: the error names `what` and the first rank that differs.
    pub fn agree(&self, what: &str, number: u64) -> Result<()> {
        agreement::agree(&*self.comm, &[(what, number)])
    }

    /// Gives all ranks the params and states of rank 0.
    ///
    /// # Errors
    /// A rank has ended.
    pub fn take_from_first(&mut self, program: &mut Program) -> Result<()> {
        for name in names_of(program, |b| !is_kept_grad(&b.name) && !self.is_owned(&b.name)) {
            self.comm.broadcast(0, program.persistent_mut(&name)?.1)?;
        }
        self.restart();
        Ok(())
    }

    /// Makes the next step check the start again: for those who set params or states anew.
    pub fn restart(&mut self) {
        self.started = false;
    }

    /// Gives the states of layers that each rank moves on its own one value on all ranks; before a checkpoint, say.
    ///
    /// # Errors
    /// A rank has ended.
    pub fn sync_states(&mut self, program: &mut Program, how: SyncStates) -> Result<()> {
        for name in names_of(program, |b| b.buffer) {
            let (b, bytes) = program.persistent_mut(&name)?;
            let (dtype, comm) = (b.dtype, &*self.comm);
            match (how, dtype) {
                (SyncStates::Mean, DType::F32 | DType::F64) => {
                    self.exchange.sum.reduce_bytes(comm, dtype, bytes, Reduce::Mean)?;
                }
                _ => comm.broadcast(0, bytes)?,
            }
        }
        Ok(())
    }

    /// A digest of all params and of the states that updates read, but for those that are shared out. It is equal on
    /// all ranks.
    ///
    /// # Errors
    /// The program is another one.
    pub fn hash(&self, program: &Program) -> Result<u64> {
        let shared = |b: &Binding| {
            matches!(b.role, Role::Param | Role::State) && !is_kept_grad(&b.name) && !self.is_owned(&b.name)
        };
        let mut digest = agreement::Fingerprint::new();
        let updated: Vec<&Binding> = program.bindings_of(self.update)?.filter(|b| shared(b)).collect();
        updated.iter().for_each(|b| digest.add(program.bytes_of(b)));
        // Params that are frozen.
        let others = program.bindings_of(self.grads)?.filter(|b| b.role == Role::Param);
        let frozen = others.filter(|b| !updated.iter().any(|u| u.name == b.name));
        frozen.for_each(|b| digest.add(program.bytes_of(b)));
        Ok(digest.finish())
    }

    /// Before the first step: the ranks start alike, and each draws random numbers of its own.
    fn check_start(&mut self, program: &mut Program) -> Result<()> {
        let own = [
            ("value of params and states", self.hash(program)?),
            ("size of buckets", self.exchange.asked.0 as u64),
            ("setting of overlap", u64::from(self.exchange.overlaps())),
        ];
        agreement::agree(&*self.comm, &own)?;
        let rank = self.comm.rank() as u64;
        if let Ok(key) = program.values_mut::<u32>(RNG_STATE)
            && let [low, high, ..] = key
            && self.own_seed != Some([*low, *high])
        {
            let seed = (u64::from(*high) << 32 | u64::from(*low)) ^ rank.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (*low, *high) = (seed as u32, (seed >> 32) as u32);
            self.own_seed = Some([*low, *high]);
        }
        self.started = true;
        Ok(())
    }
}

/// The names of the params and states of `program` that `wanted` picks.
fn names_of(program: &Program, wanted: impl Fn(&Binding) -> bool) -> Vec<String> {
    program.persistent().filter(|(b, _)| wanted(b)).map(|(b, _)| b.name.clone()).collect()
}

/// The error of what a trainer of several ranks does not do.
pub(in crate::train) fn refused(what: &str) -> Error {
    Error::new(Kind::Data, format!("steps of several ranks: {what}"))
}
