//! A net at many sizes.
//!
//! Invariant: nothing outside holds a view of its arena, because other sizes move it. Arrays go in and out by copies.

use crate::compile::Choices;
use crate::error::{call, misuse, raise, refuse};
use crate::graph::Graph;
use crate::plan::Plan;
use crate::values::numpy_name;
use crate::views::Form;
use arenagrad::error::{Error, Kind};
use arenagrad::graph::Builder;
use arenagrad::session::{Program as Core, Role, SizedProgram as Plans};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::path::PathBuf;
use std::sync::Arc;

/// The programs, and the sizes of the last step.
struct Inner {
    core: Plans,
    sizes: Vec<(String, usize)>,
}

/// A net at sizes that vary, as `ag.compile_sized` makes it of a function: one set of params, and a plan for each size
/// in use.
///
/// >>> import arenagrad as ag, numpy as np
/// >>> def net(batch):
/// ...     with ag.build("net") as b:
/// ...         b.output("y", b.input("x", (batch, 2)).sum(1))
/// ...     return b.graph
/// >>> p = ag.compile_sized(net)
/// >>> [p.step({"batch": n}, x=np.ones((n, 2), np.float32))["y"].shape for n in (3, 5)]
/// [(3,), (5,)]
#[pyclass(frozen, weakref, module = "arenagrad")]
pub struct SizedProgram {
    inner: Mutex<Inner>,
    raised: Arc<Mutex<Option<PyErr>>>,
    casting: Option<String>,
}

/// Calls a recipe with the sizes of `g`.
fn run_recipe(recipe: &Py<PyAny>, g: &Builder) -> PyResult<Graph> {
    Python::attach(|py| {
        let sizes = PyDict::new(py);
        g.sizes().iter().try_for_each(|(name, size)| sizes.set_item(name, size))?;
        let made = recipe.bind(py).call((), Some(&sizes))?;
        let graph = made.cast::<Graph>().map_err(|_| misuse("the function gives no Graph: return builder.graph"))?;
        Ok(Graph::new(graph.get().buf().clone()))
    })
}

/// Compiles a function of sizes.
#[pyfunction]
pub fn _compile_sized(recipe: Py<PyAny>, choices: Choices<'_>) -> PyResult<SizedProgram> {
    let raised: Arc<Mutex<Option<PyErr>>> = Arc::default();
    let keep = raised.clone();
    let session = choices.session()?;
    let core = session.compile_sized("net", move |g| match run_recipe(&recipe, g) {
        Ok(graph) => Ok(graph.buf().clone()),
        Err(e) => {
            let text = e.to_string();
            *keep.lock() = Some(e);
            Err(Error::new(Kind::Verify, text))
        }
    });
    Ok(SizedProgram { inner: Mutex::new(Inner { core, sizes: Vec::new() }), raised, casting: choices.casting })
}

/// The bytes that a Python value puts into the input, or `any` leaf, called `name`.
fn fitted<'py>(
    p: &Core,
    name: &str,
    value: &Bound<'py, PyAny>,
    casting: Option<&str>,
    any: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let py = value.py();
    let wanted =
        |b: &&arenagrad::session::Binding| b.name == name && (any && b.role != Role::Output || b.role == Role::Input);
    let Some(b) = p.bindings().iter().find(wanted) else {
        let known: Vec<&str> =
            p.bindings().iter().filter(|b| b.role == Role::Input).map(|b| b.name.as_str()).take(8).collect();
        return Err(refuse(Kind::Name, format!("there is no input {name:?}; there are {}", known.join(", "))));
    };
    let form = Form::new(py, numpy_name(b.dtype), &b.dims)?;
    let what = format!("{} {:?}", b.role.name(), b.name);
    let fit = py.import("arenagrad._conversions")?.getattr("fit")?;
    let array = fit.call1((value, form.descr.bind(py), b.dims.to_vec(), b.dtype.name(), what, casting))?;
    Ok(array.call_method0("tobytes")?.cast_into::<PyBytes>()?)
}

/// A copy of a tensor.
fn copied<'py>(py: Python<'py>, p: &Core, b: &arenagrad::session::Binding) -> PyResult<Bound<'py, PyAny>> {
    let numpy = py.import("numpy")?;
    let bytes = PyBytes::new(py, p.bytes_of(b));
    let flat = numpy.getattr("frombuffer")?.call1((bytes, numpy_name(b.dtype)));
    // NumPy has no view of no bytes.
    let flat = if b.bytes == 0 { numpy.getattr("zeros")?.call1((0, numpy_name(b.dtype))) } else { flat };
    flat?.call_method1("reshape", (b.dims.to_vec(),))?.call_method0("copy")
}

impl SizedProgram {
    /// Calls `f` with the program at `sizes`, or at the last ones.
    fn at<R>(&self, sizes: Option<Vec<(String, usize)>>, f: impl FnOnce(&mut Core) -> PyResult<R>) -> PyResult<R> {
        let busy = "the program is running a step in another thread: give each thread a program of its own";
        let mut inner = self.inner.try_lock().ok_or_else(|| misuse(busy))?;
        let sizes = sizes.unwrap_or_else(|| inner.sizes.clone());
        let borrowed: Vec<(&str, usize)> = sizes.iter().map(|(n, s)| (n.as_str(), *s)).collect();
        let done = crate::error::calm(|| {
            let program = inner.core.at(&borrowed);
            if let Some(e) = self.raised.lock().take() {
                return Err(e);
            }
            f(program.map_err(|e| raise(&e))?)
        });
        if done.is_ok() {
            inner.sizes = sizes;
        }
        done
    }
}

fn sizes_of(sizes: &Bound<'_, PyDict>) -> PyResult<Vec<(String, usize)>> {
    sizes.iter().map(|(n, s)| Ok((n.extract()?, s.extract()?))).collect()
}

#[pymethods]
impl SizedProgram {
    /// Runs one step at these sizes. Keyword arguments are inputs. Gives copies of the outputs.
    #[pyo3(signature = (sizes, /, **inputs))]
    fn step<'py>(
        &self,
        py: Python<'py>,
        sizes: &Bound<'py, PyDict>,
        inputs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.at(Some(sizes_of(sizes)?), |p| {
            for (name, value) in inputs.into_iter().flatten() {
                let name = name.extract::<String>()?;
                let bytes = fitted(p, &name, &value, self.casting.as_deref(), false)?;
                call(|| p.write_bytes(&name, bytes.as_bytes()))?;
            }
            py.detach(|| call(|| p.step()))?;
            let all = PyDict::new(py);
            for b in p.bindings().iter().filter(|b| b.role == Role::Output) {
                all.set_item(&b.name, copied(py, p, b)?)?;
            }
            Ok(all)
        })
    }

    /// Fills params and states with their start values. `sizes` are any sizes of the net.
    #[pyo3(signature = (sizes, seed = 0))]
    fn init(&self, sizes: &Bound<'_, PyDict>, seed: u64) -> PyResult<()> {
        self.at(Some(sizes_of(sizes)?), |p| call(|| p.init(seed)))
    }

    /// Writes params and buffers of layers to a safetensors file.
    fn save(&self, path: PathBuf) -> PyResult<()> {
        self.at(None, |p| call(|| p.save_weights(path)))
    }

    /// Writes all params and states to a file.
    fn checkpoint(&self, path: PathBuf) -> PyResult<()> {
        self.at(None, |p| call(|| p.save(path)))
    }

    /// Reads back what `checkpoint` wrote. `sizes` are any sizes of the net.
    fn resume(&self, sizes: &Bound<'_, PyDict>, path: PathBuf) -> PyResult<()> {
        self.at(Some(sizes_of(sizes)?), |p| call(|| p.load(path).map(drop)))
    }

    /// Copies of all params and states, by name.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.at(None, |p| {
            let all = PyDict::new(py);
            for (b, _) in p.persistent() {
                all.set_item(&b.name, copied(py, p, b)?)?;
            }
            Ok(all)
        })
    }

    /// Writes params and states by name: all that are given, or where one is refused none. Those that are not given
    /// stay.
    fn load_state_dict(&self, values: &Bound<'_, PyDict>) -> PyResult<()> {
        self.at(None, |p| {
            let mut all = Vec::new();
            for (name, value) in values {
                let name = name.extract::<String>()?;
                let bytes = fitted(p, &name, &value, self.casting.as_deref(), true)?;
                all.push((name, bytes));
            }
            all.iter().try_for_each(|(name, bytes)| call(|| p.write_bytes(name, bytes.as_bytes())))
        })
    }

    /// The memory plan at these sizes.
    fn plan(&self, sizes: &Bound<'_, PyDict>) -> PyResult<Plan> {
        self.at(Some(sizes_of(sizes)?), |p| Ok(Plan::new(p.plan().clone())))
    }

    /// Refused: a program of varying sizes moves its tensors, so views would show other ones.
    #[getter]
    fn params(&self) -> PyResult<()> {
        Err(misuse("a program of varying sizes moves its tensors, so it has no views: state_dict() gives copies"))
    }

    /// Refused, as `params`.
    #[getter]
    fn inputs(&self) -> PyResult<()> {
        Err(misuse("a program of varying sizes moves its tensors, so it has no views: give inputs to step()"))
    }

    /// Refused, as `params`.
    #[getter]
    fn outputs(&self) -> PyResult<()> {
        Err(misuse("a program of varying sizes moves its tensors, so it has no views: step() gives copies"))
    }

    fn __reduce__(&self) -> PyResult<()> {
        let text = "a SizedProgram is not pickled or copied: save() its weights, and load them where they are needed";
        Err(pyo3::exceptions::PyTypeError::new_err(text))
    }
}
