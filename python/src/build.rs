//! Graphs under construction.
//!
//! Invariant: a builder is used by one thread at a time. An error leaves as an exception at the line that made it, and
//! the builder goes on without the node.

use crate::error::{call, calm, raise, refuse};
use crate::forward::{self, Args};
use crate::graph::Graph;
use crate::location;
use crate::values::{dtype_of, given_attrs};
use crate::var::Var;
use arenagrad::error::Kind;
use arenagrad::graph::{Builder, Given, GraphBuf, VarId};
use arenagrad::tools::passes::copier::Copier;
use arenagrad::tools::passes::{continued, splice};
use parking_lot::{Mutex, ReentrantMutex};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// A graph under construction, as ``ag.build`` gives it.
///
/// >>> import arenagrad as ag
/// >>> with ag.build("line") as b:
/// ...     x = b.input("x", (4,))
/// ...     b.output("y", x * 2.0 + 1.0)
/// >>> print(b.graph.outputs)
/// {'y': f32[4]}
#[pyclass(frozen, module = "arenagrad")]
pub struct Build {
    builder: ReentrantMutex<Builder>,
    graph: Mutex<Option<GraphBuf>>,
    /// The outputs and leaves of the graph that this one extends.
    values: Vec<(String, VarId)>,
    /// The line of later nodes, if it is not the caller's.
    place: Mutex<Option<(String, u32)>>,
}

impl Build {
    pub fn new(builder: Builder) -> Build {
        Build {
            builder: ReentrantMutex::new(builder),
            graph: Mutex::new(None),
            values: Vec::new(),
            place: Mutex::new(None),
        }
    }

    /// A builder that holds all of `g`.
    pub fn extending(g: arenagrad::graph::Graph<'_>) -> arenagrad::Result<Build> {
        let builder = continued(g)?;
        let mut copy = Copier::new(g, &builder);
        copy.run(&mut |_| None);
        copy.signature();
        let outputs = g.outputs().iter().zip(g.output_names).map(|(&v, &name)| (g.str(name), v));
        let leaves = g.leaves().map(|leaf| (leaf.name, leaf.value));
        let values = outputs.chain(leaves).map(|(name, v)| (name.to_string(), copy.map[v].id())).collect();
        drop(copy);
        Ok(Build { values, ..Build::new(builder) })
    }

    /// Calls `f` with the builder; nodes get the line of the Python caller. An error of the graph is an exception.
    pub fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&Builder) -> PyResult<R>) -> PyResult<R> {
        let Some(g) = self.builder.try_lock() else {
            return Err(refuse(Kind::Data, "another thread is building this graph; a graph is built by one thread"));
        };
        let place = self.place.lock().clone();
        let (file, line) = place.map_or_else(|| location::caller(py), Ok)?;
        let done = calm(|| g.at_source(&file, line, || f(&g)));
        match (g.with(|emit| emit.take_error()), done) {
            (_, Err(e)) => Err(e),
            (Some(e), Ok(_)) => Err(raise(&e)),
            (None, Ok(done)) => Ok(done),
        }
    }
}

/// Calls `f`, which makes one value.
pub fn make(this: &Bound<'_, Build>, f: impl FnOnce(&Builder) -> PyResult<VarId>) -> PyResult<Var> {
    let id = this.get().with(this.py(), f)?;
    Ok(Var::new(this.clone().unbind(), id))
}

#[pymethods]
impl Build {
    #[new]
    #[pyo3(signature = (name = "graph", *, sizes = None))]
    fn create(name: &str, sizes: Option<Vec<(String, usize)>>) -> PyResult<Build> {
        let sizes = sizes.unwrap_or_default();
        let sizes: Vec<(&str, usize)> = sizes.iter().map(|(n, s)| (n.as_str(), *s)).collect();
        calm(|| Ok(Build::new(Builder::with_sizes(name, &sizes))))
    }

    /// Adds a node of the op called `name`, with attributes by name. Gives its result, or a tuple of its results.
    #[pyo3(signature = (name, /, *operands, **attributes))]
    fn op<'py>(
        this: &Bound<'py, Self>,
        name: &str,
        operands: &Bound<'py, PyTuple>,
        attributes: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = this.py();
        let attrs = given_attrs(attributes)?;
        let outs = this.get().with(py, |g| {
            let args = Args::new(this, g, operands.iter().collect());
            let operands = args.operands()?;
            let borrowed: Vec<(&str, Given<'_>)> = attrs.iter().map(|(n, a)| (n.as_str(), a.as_given())).collect();
            Ok(g.op(name, &operands, &borrowed).iter().map(|x| x.id()).collect::<Vec<VarId>>())
        })?;
        forward::results(this, &outs, outs.len() == 1)
    }

    /// Calls a method of the library's builder, by name.
    fn _call<'py>(this: &Bound<'py, Self>, name: &str, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        forward::call(this, forward::Of::Builder, name, arguments.iter().collect())
    }

    /// Gives later nodes this line instead of the caller's, until it is called again.
    #[pyo3(signature = (file = None, line = 0))]
    fn _place(&self, file: Option<String>, line: u32) {
        *self.place.lock() = file.map(|file| (file, line));
    }

    /// The size that this graph is built for under the name `name`.
    fn symbol(&self, py: Python<'_>, name: &str) -> PyResult<usize> {
        self.with(py, |g| Ok(g.symbol(name)))
    }

    /// The output or leaf of this name, of the graph that this one extends.
    fn value(this: &Bound<'_, Self>, name: &str) -> PyResult<Var> {
        let values = &this.get().values;
        match values.iter().find(|(own, _)| own == name) {
            Some((_, id)) => Ok(Var::new(this.clone().unbind(), *id)),
            None => {
                let known: Vec<String> = values.iter().take(8).map(|(own, _)| format!("{own:?}")).collect();
                Err(refuse(Kind::Name, format!("there is no value {name:?}; there are {}", known.join(", "))))
            }
        }
    }

    /// Writes the nodes of a graph whose inputs are `operands`, by name; gives its outputs `wanted`.
    fn _splice<'py>(
        this: &Bound<'py, Self>,
        graph: &Graph,
        operands: Vec<(String, Bound<'py, Var>)>,
        wanted: Vec<String>,
    ) -> PyResult<Vec<Var>> {
        let me = this.get();
        let ids = me.with(this.py(), |g| {
            let mut given = Vec::new();
            for (name, x) in &operands {
                x.get().check(me)?;
                given.push((name.as_str(), g.var_of(x.get().id())));
            }
            let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
            let outs = call(|| splice(graph.buf().view(), g, &given, &wanted))?;
            Ok(outs.iter().map(|x| x.id()).collect::<Vec<VarId>>())
        })?;
        Ok(ids.into_iter().map(|id| Var::new(this.clone().unbind(), id)).collect())
    }

    /// Adds an output.
    fn output(&self, py: Python<'_>, name: &str, value: &Var) -> PyResult<()> {
        self.with(py, |g| {
            value.check(self)?;
            g.output(name, g.var_of(value.id()));
            Ok(())
        })
    }

    /// Adds an update: after a step, `leaf` has the value `next`.
    fn update(&self, py: Python<'_>, leaf: &Var, next: &Var) -> PyResult<()> {
        self.with(py, |g| {
            leaf.check(self)?;
            next.check(self)?;
            g.update(g.var_of(leaf.id()), g.var_of(next.id()));
            Ok(())
        })
    }

    /// Whether later layers are built for training (the default) or for evaluation.
    fn training(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        self.with(py, |g| {
            g.training(on);
            Ok(())
        })
    }

    /// A constant of the elements of an array, a number or a nested list.
    #[pyo3(signature = (value, dtype = None))]
    fn constant(this: &Bound<'_, Self>, value: &Bound<'_, PyAny>, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<Var> {
        let py = this.py();
        let fitted = py.import("arenagrad._conversions")?.getattr("constant")?.call1((value, dtype))?;
        let (bytes, dims, dtype): (Vec<u8>, Vec<usize>, Bound<'_, PyAny>) = fitted.extract()?;
        let dtype = dtype_of(&dtype)?;
        make(this, |g| Ok(g.constant_bytes(&bytes, &dims, dtype).id()))
    }

    /// Finishes the graph. `outputs` are added to those of `output`, under the names of the keywords.
    #[pyo3(signature = (*values, **named))]
    fn finish(
        this: &Bound<'_, Self>,
        values: &Bound<'_, PyTuple>,
        named: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Graph> {
        let py = this.py();
        let me = this.get();
        if let Some(graph) = me.graph.lock().as_ref() {
            return match values.is_empty() && named.is_none_or(|named| named.is_empty()) {
                true => Ok(Graph::new(graph.clone())),
                false => Err(refuse(Kind::Stage, "the graph is finished: it takes no further outputs")),
            };
        }
        let graph = me.with(py, |g| {
            let mut outs = Vec::new();
            for value in values.iter() {
                let value = value.cast::<Var>()?.get();
                value.check(me)?;
                outs.push(g.var_of(value.id()));
            }
            for (name, value) in named.into_iter().flatten() {
                let value = value.cast::<Var>()?.get();
                value.check(me)?;
                outs.push(g.var_of(value.id()).named(&name.extract::<String>()?));
            }
            call(|| g.finish(outs))
        })?;
        *me.graph.lock() = Some(graph.clone());
        Ok(Graph::new(graph))
    }

    /// The finished graph.
    #[getter]
    fn graph(&self) -> PyResult<Graph> {
        match self.graph.lock().as_ref() {
            Some(graph) => Ok(Graph::new(graph.clone())),
            None => Err(refuse(Kind::Stage, "the graph is not finished: leave its `with` block, or call finish()")),
        }
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (kind, value, traceback, /))]
    fn __exit__(
        this: &Bound<'_, Self>,
        kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        traceback: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let _ = (value, traceback);
        if kind.is_none() {
            Build::finish(this, &PyTuple::empty(this.py()), None)?;
        }
        Ok(false)
    }
}
