//! Steps of one rank among several: what `arenagrad.mpi` is made of.
//!
//! Invariant: each function is called on all ranks, and its error is raised on all of them, but for `_train_split` and
//! those of a rank's own communicator.

use crate::comm::{PyComm, Raised};
use crate::error::{call, misuse, refuse};
use crate::graph::Graph;
use crate::kept::{KEPT, kept_entry, kept_number};
use crate::optim::PyOptimiser;
use crate::program::Program;
use arenagrad::error::{Error, Kind};
use arenagrad::graph::DType;
use arenagrad::optim::{LR, Split};
use arenagrad::session::Program as Core;
use arenagrad::train::parallel::{GRADS, UPDATE, fingerprint};
use arenagrad::train::{Parallel, Reduce, SyncStates};
use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

/// A training step as two graphs: gradients, and the update that reads them.
#[pyclass(frozen, module = "arenagrad._arenagrad", name = "_Split")]
pub struct PySplit(Split);

#[pymethods]
impl PySplit {
    /// The graphs by the names of their methods.
    fn graphs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        self.0.methods().into_iter().try_for_each(|(name, g)| all.set_item(name, Graph::new(g.clone())))?;
        Ok(all)
    }
}

/// `graph` as a step of rank `shard[0]` of `shard[1]`, whose states are shared out, or of any rank.
#[pyfunction]
#[pyo3(signature = (graph, loss, optimiser, shard = None))]
pub fn _train_split(
    py: Python<'_>,
    graph: &Graph,
    loss: &str,
    optimiser: &PyOptimiser,
    shard: Option<(usize, usize)>,
) -> PyResult<PySplit> {
    let made = py.detach(|| {
        call(|| {
            let split = arenagrad::optim::train_split(graph.buf(), loss, optimiser.optimiser())?;
            shard.map_or(Ok(split.clone()), |(rank, ranks)| split.shard(rank, ranks))
        })
    });
    made.map(PySplit)
}

/// The steps of a program on one rank.
#[pyclass(frozen, module = "arenagrad._arenagrad", name = "_Parallel")]
pub struct PyParallel {
    core: Mutex<Parallel>,
    raised: Raised,
}

impl PyParallel {
    fn lock(&self) -> PyResult<MutexGuard<'_, Parallel>> {
        self.core.try_lock().ok_or_else(|| misuse("the ranks are in use by another thread"))
    }

    /// What `f` gives; an exception of the communicator as it was raised.
    fn on_ranks<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut Parallel) -> arenagrad::Result<R> + Send,
    ) -> PyResult<R> {
        let mut core = self.lock()?;
        let core: &mut Parallel = &mut core;
        let done = py.detach(|| call(|| f(core)));
        done.map_err(|e| self.raised.lock().take().unwrap_or(e))
    }

    /// As [`PyParallel::on_ranks`], with the program.
    fn with_program<R: Send>(
        &self,
        py: Python<'_>,
        program: &Program,
        f: impl FnOnce(&mut Parallel, &mut Core) -> arenagrad::Result<R> + Send,
    ) -> PyResult<R> {
        let mut core = self.lock()?;
        let core: &mut Parallel = &mut core;
        program.detached(py, |p| f(core, p)).map_err(|e| self.raised.lock().take().unwrap_or(e))
    }
}

/// An error that this rank tells the others.
fn told(text: Option<String>) -> arenagrad::Result<()> {
    text.map_or(Ok(()), |text| Err(Error::new(Kind::Data, text)))
}

#[pymethods]
impl PyParallel {
    /// The rank of `comm` that runs `program`, compiled from `split`.
    #[new]
    fn create(
        py: Python<'_>,
        program: &Program,
        comm: &Bound<'_, PyAny>,
        split: &PySplit,
        reduce: &str,
    ) -> PyResult<Self> {
        let comm = PyComm::new(comm)?;
        let raised = comm.raised();
        let how = match reduce {
            "mean" => Reduce::Mean,
            "sum" => Reduce::Sum,
            _ => return Err(refuse(Kind::Syntax, format!("reduce is {reduce:?}; it may be mean, sum"))),
        };
        let made = program.detached(py, |p| Parallel::new(p, comm, &split.0));
        let core = made.map_err(|e| raised.lock().take().unwrap_or(e))?.reduce(how);
        Ok(PyParallel { core: Mutex::new(core), raised })
    }

    /// A step on `batch`, or the error `failed` of this rank. Gives the mean of the ranks' losses.
    #[pyo3(signature = (program, batch, lr = None, failed = None))]
    fn step(
        &self,
        py: Python<'_>,
        program: &Program,
        batch: &Bound<'_, PyDict>,
        lr: Option<f64>,
        failed: Option<String>,
    ) -> PyResult<f64> {
        let mut own = None;
        if failed.is_none() {
            let fed = program.feed_method(GRADS, batch).and_then(|()| match lr {
                Some(lr) => {
                    let rate = PyDict::new(py);
                    rate.set_item(LR, lr)?;
                    program.feed_method(UPDATE, &rate)
                }
                None => Ok(()),
            });
            own = fed.err();
        }
        let failed = failed.or_else(|| own.as_ref().map(|e| e.value(py).to_string()));
        let done = self.with_program(py, program, |ranks, p| ranks.step_after(p, told(failed)));
        done.inspect_err(|e| {
            if own.is_some() {
                e.set_cause(py, own.take());
            }
        })
    }

    /// The mean of a number over the ranks, or the error `failed` of one.
    #[pyo3(signature = (number, failed = None))]
    fn mean(&self, py: Python<'_>, number: f64, failed: Option<String>) -> PyResult<f64> {
        self.on_ranks(py, |ranks| ranks.mean(told(failed).map(|()| number)))
    }

    /// Fails unless `bytes` are equal on all ranks; `what` says what they are of.
    fn agree(&self, py: Python<'_>, what: &str, bytes: &[u8]) -> PyResult<()> {
        self.on_ranks(py, |ranks| ranks.agree(what, fingerprint(bytes)))
    }

    /// Gives statistics of layers one value on all ranks: their mean.
    fn sync_states(&self, py: Python<'_>, program: &Program) -> PyResult<()> {
        self.with_program(py, program, |ranks, p| ranks.sync_states(p, SyncStates::Mean))
    }

    /// Rank 0 writes params and states of all ranks, and numbers, to a file.
    #[pyo3(signature = (program, path, **numbers))]
    fn checkpoint(
        &self,
        py: Python<'_>,
        program: &Program,
        path: PathBuf,
        numbers: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let mut kept: Vec<(String, [u8; 8])> = Vec::new();
        for (name, x) in numbers.into_iter().flatten() {
            kept.push(kept_number(&name, &x)?);
        }
        self.with_program(py, program, |ranks, p| {
            let more: Vec<_> = kept.iter().map(|(name, bytes)| kept_entry(name, bytes)).collect();
            ranks.save(p, path, &more)
        })
    }

    /// Reads back what `checkpoint` wrote, at `ranks` ranks if that is a number. Gives its numbers.
    #[pyo3(signature = (program, path, ranks = None))]
    fn resume<'py>(
        &self,
        py: Python<'py>,
        program: &Program,
        path: PathBuf,
        ranks: Option<f64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut numbers: Vec<(String, f64)> = Vec::new();
        self.with_program(py, program, |parallel, p| {
            parallel.load(p, &path, |file| {
                for e in file.entries().filter(|e| e.dtype == DType::F64) {
                    if let (Some(name), Some(x)) = (e.name.strip_prefix(KEPT), e.bytes.first_chunk()) {
                        numbers.push((name.to_string(), f64::from_le_bytes(*x)));
                    }
                }
                let theirs = numbers.iter().find(|n| n.0 == "ranks").map_or(1.0, |n| n.1);
                match ranks {
                    Some(own) if own != theirs => {
                        let text = format!("the checkpoint has number of ranks {theirs}, this run has {own}");
                        Err(Error::new(Kind::Data, text))
                    }
                    _ => Ok(()),
                }
            })
        })?;
        let dict = PyDict::new(py);
        numbers.into_iter().try_for_each(|(name, x)| dict.set_item(name, x))?;
        Ok(dict)
    }
}
