//! Graphs: texts, transforms, training steps.

use crate::build::Build;
use crate::error::{call, refuse};
use crate::location;
use crate::optim::PyOptimiser;
use arenagrad::error::Kind;
use arenagrad::graph::{DType, GradOptions, GraphBuf, LeafKind, Missing, Randomness, Sizes, Vmap, vmap};
use arenagrad::optim::train_at;
use arenagrad::tools::ir::text;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Element type and dimensions of a named tensor.
///
/// >>> import arenagrad as ag
/// >>> with ag.build("g") as b:
/// ...     b.output("y", b.input("x", (4, 2)))
/// >>> spec = b.graph.inputs["x"]
/// >>> spec, spec.dtype, spec.shape
/// (f32[4,2], 'f32', (4, 2))
#[pyclass(frozen, module = "arenagrad", eq, hash)]
#[derive(PartialEq, Hash)]
pub struct Spec {
    dtype: DType,
    dims: Vec<usize>,
}

impl Spec {
    pub fn new(dtype: DType, dims: &[usize]) -> Spec {
        Spec { dtype, dims: dims.to_vec() }
    }
}

#[pymethods]
impl Spec {
    /// The element type, as `"f32"`.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    /// The dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.dims)
    }

    fn __repr__(&self) -> String {
        let dims: Vec<String> = self.dims.iter().map(usize::to_string).collect();
        format!("{}[{}]", self.dtype.name(), dims.join(","))
    }
}

/// A finished graph.
///
/// >>> import arenagrad as ag
/// >>> g = ag.parse('''
/// ... graph @square {
/// ...   %x = input : f32[4]
/// ...   %y = mul %x, %x
/// ...   return y=%y
/// ... }''')
/// >>> g.inputs, g.outputs
/// ({'x': f32[4]}, {'y': f32[4]})
#[pyclass(frozen, module = "arenagrad", eq)]
#[derive(PartialEq)]
pub struct Graph {
    graph: GraphBuf,
}

impl Graph {
    pub fn new(graph: GraphBuf) -> Graph {
        Graph { graph }
    }

    pub fn buf(&self) -> &GraphBuf {
        &self.graph
    }

    fn leaves<'py>(&self, py: Python<'py>, kind: LeafKind) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        let g = self.graph.view();
        for leaf in g.leaves().filter(|l| l.kind == kind) {
            let ty = g.ty(leaf.value);
            all.set_item(leaf.name, Spec::new(ty.dtype, &g.dims(leaf.value)))?;
        }
        Ok(all)
    }

    fn made(f: impl FnOnce() -> arenagrad::Result<GraphBuf>) -> PyResult<Graph> {
        call(f).map(Graph::new)
    }
}

fn borrowed(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn missing_of(word: &str) -> PyResult<Missing> {
    match word {
        "error" => Ok(Missing::Error),
        "zero" => Ok(Missing::Zero),
        _ => Err(refuse(Kind::Syntax, format!("missing is {word:?}; it may be error, zero"))),
    }
}

/// The graph of a text, or of the file at a path. `sizes` are those of its symbols.
#[pyfunction]
#[pyo3(signature = (text, /, *, sizes = None))]
pub fn _parse(py: Python<'_>, text: String, sizes: Option<Vec<(String, usize)>>) -> PyResult<Graph> {
    let sizes = sizes.unwrap_or_default();
    let bound: Vec<(&str, usize)> = sizes.iter().map(|(n, s)| (n.as_str(), *s)).collect();
    py.detach(|| Graph::made(|| text::parse_with_sizes(&text, &[], &Sizes::new(&bound)?)))
}

/// A graph of one training step: `graph` and its backward pass, and the update of its params by `optimiser`, so that
/// the output `loss` falls. It has a new input `lr`.
#[pyfunction]
#[pyo3(signature = (graph, loss, optimiser))]
pub fn train(py: Python<'_>, graph: &Graph, loss: &str, optimiser: &PyOptimiser) -> PyResult<Graph> {
    let (file, line) = location::caller(py)?;
    py.detach(|| Graph::made(|| train_at((&file, line), &graph.graph, loss, optimiser.optimiser())))
}

#[pymethods]
impl Graph {
    fn __str__(&self) -> String {
        self.graph.to_string()
    }

    fn __repr__(&self) -> String {
        let g = self.graph.view();
        format!("<Graph {:?}: {} nodes, {} outputs>", g.str(g.name), g.nodes(), g.outputs().len())
    }

    fn _repr_html_(&self) -> String {
        format!("<pre>{}</pre>", arenagrad::tools::report::escape(&self.graph.to_string()))
    }

    /// A builder that holds all of this graph, for more nodes: `value` gives its outputs and leaves.
    ///
    /// >>> import arenagrad as ag
    /// >>> with ag.build("line") as b:
    /// ...     b.output("y", ag.nn.linear("fc", b.input("x", (4, 3)), 2))
    /// >>> with b.graph.extend() as more:
    /// ...     more.output("loss", more.value("y").mse(more.input("target", (4, 2))))
    /// >>> list(more.graph.outputs)
    /// ['y', 'loss']
    fn extend(&self) -> PyResult<Build> {
        call(|| Build::extending(self.graph.view()))
    }

    /// The name.
    #[getter]
    fn name(&self) -> String {
        let g = self.graph.view();
        g.str(g.name).to_string()
    }

    /// The inputs: name and type.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.leaves(py, LeafKind::Input)
    }

    /// The params: name and type.
    #[getter]
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.leaves(py, LeafKind::Param)
    }

    /// The states: name and type.
    #[getter]
    fn states<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.leaves(py, LeafKind::State)
    }

    /// The outputs: name and type.
    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        let g = self.graph.view();
        for (&v, &name) in g.outputs().iter().zip(g.output_names) {
            all.set_item(g.str(name), Spec::new(g.ty(v).dtype, &g.dims(v)))?;
        }
        Ok(all)
    }

    /// What is most likely a mistake in the graph.
    #[getter]
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        py.detach(|| call(|| Ok(self.graph.warnings().iter().map(ToString::to_string).collect())))
    }

    /// The graph with its output, input or state `old` called `new`: the first of two derivatives by one leaf makes
    /// place for the second, and one of two optimisers in a program gets a count of steps of its own.
    ///
    /// >>> import arenagrad as ag
    /// >>> with ag.build("cubes") as b:
    /// ...     x = b.input("x", (2,), "f64")
    /// ...     b.output("u", (x * x * x).sum())
    /// >>> with b.graph.grad("u", ["x"]).rename("grad.x", "u_x").extend() as more:
    /// ...     more.output("slope", more.value("u_x").sum())
    /// >>> p = ag.compile(more.graph.grad("slope", ["x"]))
    /// >>> p.step(x=[1.0, 2.0])["grad.x"].tolist()  # 6x
    /// [6.0, 12.0]
    fn rename(&self, py: Python<'_>, old: &str, new: &str) -> PyResult<Graph> {
        py.detach(|| Graph::made(|| self.graph.rename(old, new)))
    }

    /// The graph with an output `grad.NAME` for each of `wrt`: leaves, or all params if there are none given.
    #[pyo3(signature = (loss, wrt = None, *, frozen = None, missing = "error"))]
    fn grad(
        &self,
        py: Python<'_>,
        loss: &str,
        wrt: Option<Vec<String>>,
        frozen: Option<Vec<String>>,
        missing: &str,
    ) -> PyResult<Graph> {
        let missing = missing_of(missing)?;
        let options = GradOptions::wrt(&wrt.unwrap_or_default()).frozen(&frozen.unwrap_or_default()).missing(missing);
        py.detach(|| Graph::made(|| self.graph.grad(loss, &options)))
    }

    /// The graph with inputs `cotangent.OUTPUT` and outputs `grad.LEAF`.
    #[pyo3(signature = (outputs, wrt, *, missing = "error"))]
    fn vjp(&self, py: Python<'_>, outputs: Vec<String>, wrt: Vec<String>, missing: &str) -> PyResult<Graph> {
        let missing = missing_of(missing)?;
        py.detach(|| Graph::made(|| self.graph.vjp(&borrowed(&outputs), &borrowed(&wrt), missing)))
    }

    /// The graph with inputs `tangent.LEAF` and outputs `tangent.OUTPUT`.
    fn jvp(&self, py: Python<'_>, outputs: Vec<String>, wrt: Vec<String>) -> PyResult<Graph> {
        py.detach(|| Graph::made(|| self.graph.jvp(&borrowed(&outputs), &borrowed(&wrt))))
    }

    /// The graph with the product of the loss's Hessian and a vector of inputs.
    fn hvp(&self, py: Python<'_>, loss: &str, wrt: Vec<String>) -> PyResult<Graph> {
        py.detach(|| Graph::made(|| self.graph.hvp(loss, &borrowed(&wrt))))
    }

    /// The graph with the Jacobian of an output by a leaf.
    fn jacobian(&self, py: Python<'_>, output: &str, wrt: &str) -> PyResult<Graph> {
        py.detach(|| Graph::made(|| self.graph.jacobian(output, wrt)))
    }

    /// The graph for a batch of `size` members. `leaves` get the batch's axis in front, or at the axis that a dict
    /// gives them; other leaves are shared. `outputs` says another axis of outputs.
    #[pyo3(signature = (size, leaves, *, outputs = None, randomness = "error"))]
    fn vmap(
        &self,
        py: Python<'_>,
        size: usize,
        leaves: &Bound<'_, PyAny>,
        outputs: Option<Vec<(String, i64)>>,
        randomness: &str,
    ) -> PyResult<Graph> {
        let leaves: Vec<(String, i64)> = match leaves.cast::<PyDict>() {
            Ok(dict) => dict.iter().map(|(n, a)| Ok((n.extract()?, a.extract()?))).collect::<PyResult<_>>()?,
            Err(_) => leaves.extract::<Vec<String>>()?.into_iter().map(|n| (n, 0)).collect(),
        };
        let outputs = outputs.unwrap_or_default();
        let randomness = match randomness {
            "error" => Randomness::Error,
            "same" => Randomness::Same,
            "different" => Randomness::Different,
            word => {
                let text = format!("randomness is {word:?}; it may be error, same, different");
                return Err(refuse(Kind::Syntax, text));
            }
        };
        let map = leaves.iter().fold(Vmap::new(size).randomness(randomness), |map, (n, axis)| map.leaf(n, *axis));
        let map = outputs.iter().fold(map, |map, (n, axis)| map.output(n, *axis));
        py.detach(|| Graph::made(|| vmap(&self.graph, &map)))
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(pyo3::exceptions::PyTypeError::new_err("a Graph is not pickled: send str(graph), and ag.parse it there"))
    }
}
