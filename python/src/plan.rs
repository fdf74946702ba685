//! Plans and recorded steps, as text, HTML and dictionaries.

use crate::error::call;
use arenagrad::session::{PlanReport, Trace as Recorded};
use arenagrad::tools::report::escape;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::path::PathBuf;

/// A memory plan.
///
/// >>> import arenagrad as ag
/// >>> with ag.build("g") as b:
/// ...     b.output("y", b.input("x", (4,)).exp())
/// >>> ag.compile(b.graph).plan.to_dict()["instructions"]
/// 1
#[pyclass(frozen, module = "arenagrad")]
pub struct Plan {
    plan: PlanReport,
}

impl Plan {
    pub fn new(plan: PlanReport) -> Plan {
        Plan { plan }
    }

    fn buffers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let all = PyList::empty(py);
        for b in &self.plan.buffers {
            let one = PyDict::new(py);
            one.set_item("name", &b.name)?;
            one.set_item("op", b.op)?;
            one.set_item("kind", format!("{:?}", b.kind).to_lowercase())?;
            one.set_item("gradient", b.gradient)?;
            one.set_item("offset", b.offset)?;
            one.set_item("size", b.size)?;
            one.set_item("first", b.first)?;
            one.set_item("last", b.last)?;
            one.set_item("root", b.root)?;
            one.set_item("location", b.location.origin())?;
            all.append(one)?;
        }
        Ok(all)
    }
}

#[pymethods]
impl Plan {
    /// Bytes of the arena.
    #[getter]
    fn arena_bytes(&self) -> usize {
        self.plan.arena_bytes
    }

    /// Floating-point operations of a step.
    #[getter]
    fn flops(&self) -> u64 {
        self.plan.flops
    }

    /// What is most likely a mistake in the graph.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.plan.warnings.iter().map(ToString::to_string).collect()
    }

    /// All figures and buffers.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (p, d) = (&self.plan, PyDict::new(py));
        d.set_item("arena_bytes", p.arena_bytes)?;
        d.set_item("lower_bound_bytes", p.lower_bound_bytes)?;
        d.set_item("order_bound_bytes", p.order_bound_bytes)?;
        d.set_item("pinned_bytes", p.pinned_bytes)?;
        d.set_item("moved_bytes", p.moved_bytes)?;
        d.set_item("instructions", p.instructions)?;
        d.set_item("order", p.order)?;
        d.set_item("flops", p.flops)?;
        d.set_item("threads", p.threads)?;
        d.set_item("modelled_seconds", p.modelled.as_secs_f64())?;
        d.set_item("recomputed", &p.recomputed.what)?;
        d.set_item("warnings", self.warnings())?;
        let phases = PyDict::new(py);
        p.phases.iter().try_for_each(|(name, time)| phases.set_item(name, time.as_secs_f64()))?;
        d.set_item("phases", phases)?;
        d.set_item("buffers", self.buffers(py)?)?;
        Ok(d)
    }

    /// The memory map as SVG.
    fn svg(&self) -> String {
        self.plan.svg()
    }

    /// A page with the figures, the memory map and the largest buffers.
    #[pyo3(signature = (title = "arenagrad"))]
    fn html(&self, title: &str) -> String {
        self.plan.html(title)
    }

    fn _repr_html_(&self) -> String {
        format!("{}<pre>{}</pre>", self.plan.svg(), escape(&self.plan.to_string()))
    }

    fn __str__(&self) -> String {
        self.plan.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Plan: {} bytes, {} instructions>", self.plan.arena_bytes, self.plan.instructions)
    }
}

/// A recorded step.
///
/// >>> import arenagrad as ag
/// >>> with ag.build("g") as b:
/// ...     b.output("y", b.input("x", (4,)).exp())
/// >>> p = ag.compile(b.graph, trace=True)
/// >>> p.trace(x=[0.0, 1.0, 2.0, 3.0], casting="same_kind").to_dict()["calls"][0]["op"]
/// 'exp'
#[pyclass(frozen, module = "arenagrad")]
pub struct Trace {
    trace: Recorded,
}

impl Trace {
    pub fn new(trace: Recorded) -> Trace {
        Trace { trace }
    }
}

#[pymethods]
impl Trace {
    /// Seconds of the whole step.
    #[getter]
    fn seconds(&self) -> f64 {
        self.trace.nanos as f64 * 1e-9
    }

    /// Writes the step for chrome://tracing or ui.perfetto.dev.
    #[pyo3(signature = (path, title = "step"))]
    fn save_chrome(&self, py: Python<'_>, path: PathBuf, title: &str) -> PyResult<()> {
        py.detach(|| {
            call(|| {
                let mut bytes = Vec::new();
                self.trace.write_chrome(&mut bytes, title)?;
                arenagrad::train::write_atomically(path, &bytes)
            })
        })
    }

    /// The instructions: op, name, types, FLOP, bytes, line.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (d, calls) = (PyDict::new(py), PyList::empty(py));
        for c in self.trace.calls.iter() {
            let one = PyDict::new(py);
            one.set_item("op", c.op)?;
            one.set_item("name", &c.name)?;
            one.set_item("types", &c.types)?;
            one.set_item("flops", c.flops)?;
            one.set_item("bytes", c.bytes)?;
            one.set_item("location", c.location.origin())?;
            calls.append(one)?;
        }
        d.set_item("calls", calls)?;
        d.set_item("seconds", self.seconds())?;
        d.set_item("dropped", self.trace.dropped)?;
        Ok(d)
    }

    fn _repr_html_(&self) -> String {
        format!("<pre>{}</pre>", escape(&self.trace.to_string()))
    }

    fn __str__(&self) -> String {
        self.trace.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Trace: {} instructions, {:.6} s>", self.trace.calls.len(), self.seconds())
    }
}
