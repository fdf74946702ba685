//! A communicator of Python as a `Comm` of the library: any object with mpi4py's functions of buffers.
//!
//! Invariants: no object of Python sees memory of Rust: bytes are copied into arrays and out of them. An exception of
//! the communicator is kept, and raised again by the call that it ends.

use crate::error::misuse;
use arenagrad::error::{Error, Kind};
use arenagrad::train::Comm;
use arenagrad::train::parallel::{block_bytes, check_gathered_bytes, check_root};
use numpy::{PyArray1, PyArrayMethods};
use parking_lot::Mutex;
use pyo3::intern;
use pyo3::prelude::*;
use std::sync::Arc;

/// Most lengths whose arrays are kept: those of a step are few.
const KEPT_LENGTHS: usize = 8;
/// Most bytes of one call: communicators count in 32 bits.
const MOST: usize = 1 << 30;

/// The exception that the communicator has raised.
pub type Raised = Arc<Mutex<Option<PyErr>>>;

/// A communicator of Python.
pub struct PyComm {
    comm: Py<PyAny>,
    rank: usize,
    size: usize,
    raised: Raised,
    /// Arrays by their lengths, of what is sent and what is received.
    sent: Mutex<Vec<Py<PyArray1<u8>>>>,
    received: Mutex<Vec<Py<PyArray1<u8>>>>,
}

/// An array of `bytes` bytes among those that are kept.
fn array(py: Python<'_>, kept: &Mutex<Vec<Py<PyArray1<u8>>>>, bytes: usize) -> PyResult<Py<PyArray1<u8>>> {
    let mut kept = kept.lock();
    for one in kept.iter() {
        if one.bind(py).try_readonly()?.len()? == bytes {
            return Ok(one.clone_ref(py));
        }
    }
    if kept.len() == KEPT_LENGTHS {
        kept.remove(0);
    }
    let made = PyArray1::<u8>::zeros(py, bytes, false).unbind();
    kept.push(made.clone_ref(py));
    Ok(made)
}

impl PyComm {
    /// The rank that `comm` is.
    pub fn new(comm: &Bound<'_, PyAny>) -> PyResult<PyComm> {
        let (rank, size): (usize, usize) =
            (comm.call_method0("Get_rank")?.extract()?, comm.call_method0("Get_size")?.extract()?);
        if rank >= size {
            return Err(misuse(&format!("the communicator has rank {rank} of {size}")));
        }
        let comm = comm.clone().unbind();
        Ok(PyComm { comm, rank, size, raised: Raised::default(), sent: Mutex::default(), received: Mutex::default() })
    }

    /// Where an exception of the communicator is kept.
    pub fn raised(&self) -> Raised {
        self.raised.clone()
    }

    /// What `f` gives. An exception is kept.
    fn called(&self, f: impl FnOnce(Python<'_>) -> PyResult<()>) -> arenagrad::Result<()> {
        Python::attach(|py| {
            f(py).map_err(|e| {
                let error = Error::new(Kind::Io, format!("the communicator failed: {e}"));
                *self.raised.lock() = Some(e);
                error
            })
        })
    }

    /// Sends `send` by the function `name`, which fills `receive`.
    fn exchange(&self, name: &str, send: &[u8], receive: &mut [u8]) -> arenagrad::Result<()> {
        if receive.len() > MOST {
            return Err(Error::new(
                Kind::Data,
                format!("{name}: {} bytes are more than one call moves", receive.len()),
            ));
        }
        self.called(|py| {
            let (from, to) = (array(py, &self.sent, send.len())?, array(py, &self.received, receive.len())?);
            from.bind(py).try_readwrite()?.as_slice_mut()?.copy_from_slice(send);
            self.comm.bind(py).call_method1(name, (from, &to))?;
            receive.copy_from_slice(to.bind(py).try_readonly()?.as_slice()?);
            Ok(())
        })
    }
}

impl Comm for PyComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_to_all(&self, send: &[u8], receive: &mut [u8]) -> arenagrad::Result<()> {
        block_bytes(self.size, send.len(), receive.len())?;
        self.exchange("Alltoall", send, receive)
    }

    fn all_gather(&self, send: &[u8], receive: &mut [u8]) -> arenagrad::Result<()> {
        check_gathered_bytes(self.size, send.len(), receive.len())?;
        self.exchange("Allgather", send, receive)
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> arenagrad::Result<()> {
        check_root(self.size, root)?;
        bytes.chunks_mut(MOST).try_for_each(|part| {
            self.called(|py| {
                let array = array(py, &self.sent, part.len())?;
                array.bind(py).try_readwrite()?.as_slice_mut()?.copy_from_slice(part);
                self.comm.bind(py).call_method1("Bcast", (&array, root))?;
                part.copy_from_slice(array.bind(py).try_readonly()?.as_slice()?);
                Ok(())
            })
        })
    }

    fn barrier(&self) -> arenagrad::Result<()> {
        self.called(|py| self.comm.bind(py).call_method0(intern!(py, "Barrier")).map(drop))
    }

    fn abort(&self, why: &str) -> ! {
        eprintln!("arenagrad: rank {} of {} ended: {why}", self.rank, self.size);
        let _ = Python::attach(|py| self.comm.bind(py).call_method1("Abort", (1,)).map(drop));
        std::process::exit(1)
    }
}
