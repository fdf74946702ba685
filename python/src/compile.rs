//! Compiling: a session's choices as keyword arguments.
//!
//! A thread compiles while the caller's looks for signals. After an interrupt the work is left behind: it goes on until
//! it is done, and its result is dropped.

use crate::error::{call, misuse, refuse};
use crate::graph::Graph;
use crate::latency::{cores_of, spin_time};
use crate::program::Program;
use arenagrad::Precision;
use arenagrad::error::Kind;
use arenagrad::graph::GraphBuf;
use arenagrad::session::{Convolutions, Keep, Session};
use pyo3::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often signals are looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The choice called `word` of `key`, which has these.
fn choice_of<T: Copy>(key: &str, word: &str, all: &[(T, &str)]) -> PyResult<T> {
    let known = || all.iter().map(|c| c.1).collect::<Vec<_>>().join(", ");
    let found = all.iter().find(|c| c.1 == word).map(|c| c.0);
    found.ok_or_else(|| refuse(Kind::Syntax, format!("{key} is {word:?}; it may be {}", known())))
}

/// The choices of a session.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Choices<'py> {
    threads: usize,
    pin: Option<Bound<'py, PyAny>>,
    spin: Option<f64>,
    max_memory: Option<usize>,
    precision: String,
    precisions: Vec<(String, String)>,
    convolutions: String,
    keep: Option<String>,
    find_nan: bool,
    optimise: bool,
    poison: bool,
    trace: bool,
    pub casting: Option<String>,
}

impl Choices<'_> {
    pub fn session(&self) -> PyResult<Session> {
        let mut session = Session::new().threads(self.threads).optimise(self.optimise).find_nan(self.find_nan);
        session = session.poison(self.poison).precision(choice_of("precision", &self.precision, Precision::ALL)?);
        for (pattern, word) in &self.precisions {
            session = session.precision_of(pattern, choice_of("precision", word, Precision::ALL)?);
        }
        session = session.convolutions(choice_of("convolutions", &self.convolutions, Convolutions::ALL)?);
        if let Some(word) = &self.keep {
            session = session.keep(choice_of("keep", word, Keep::ALL)?);
        }
        if let Some(cores) = &self.pin {
            session = session.pin(cores_of(cores)?);
        }
        if let Some(seconds) = self.spin {
            session = session.spin(spin_time(seconds)?);
        }
        Ok(match self.max_memory {
            Some(bytes) => session.memory_budget(bytes),
            None => session,
        })
    }
}

/// What `work` gives, on a thread of its own. Looks for signals meanwhile.
fn interruptible<R: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> PyResult<R> + Send + 'static,
) -> PyResult<R> {
    let (give, take) = channel();
    let worker = thread::Builder::new().name("arenagrad compile".to_string()).spawn(move || give.send(work()));
    worker.map_err(|e| crate::error::raise(&e.into()))?;
    // The receiver belongs to one thread.
    let take = parking_lot::Mutex::new(take);
    loop {
        let got = py.detach(|| take.lock().recv_timeout(LOOK));
        match got {
            Ok(done) => return done,
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(misuse("the compiling thread ended early")),
        }
    }
}

/// Compiles graphs, by the names of their methods.
#[pyfunction]
pub fn _compile(py: Python<'_>, graphs: Vec<(String, Py<Graph>)>, choices: Choices<'_>) -> PyResult<Program> {
    let session = choices.session()?;
    let graphs: Vec<(String, GraphBuf)> = graphs.into_iter().map(|(n, g)| (n, g.get().buf().clone())).collect();
    let trace = choices.trace;
    let core = interruptible(py, move || {
        call(|| {
            if let ([(_, graph)], true) = (&graphs[..], trace) {
                return session.compile_traced(graph);
            }
            let graphs: Vec<(&str, &GraphBuf)> = graphs.iter().map(|(n, g)| (n.as_str(), g)).collect();
            match graphs[..] {
                [("step", graph)] => session.compile(graph),
                _ => session.compile_all(&graphs),
            }
        })
    })?;
    Program::new(py, core, choices.casting)
}
