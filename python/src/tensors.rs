//! The named tensors of a program, as a mapping of views.

use crate::error::misuse;
use crate::graph::Spec;
use crate::program::Program;
use arenagrad::session::Role;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyIterator, PyList, PyString, PyTuple};
use std::sync::atomic::Ordering;

/// Which tensors of a program.
#[derive(Clone, Copy)]
pub enum Which {
    /// The inputs of a method.
    Inputs(usize),
    /// The outputs of a method.
    Outputs(usize),
    Params,
    States,
}

/// A mapping from names to arrays that are views of a program's arena. They keep the program alive; outputs are valid
/// until the next step. `tensors[name] = array` copies into the arena.
///
/// >>> import arenagrad as ag
/// >>> with ag.build("double") as b:
/// ...     b.output("y", b.input("x", (3,)) * 2.0)
/// >>> p = ag.compile(b.graph)
/// >>> p.inputs["x"][:] = [1, 2, 3]
/// >>> p.step().copy()["y"].tolist(), p.outputs.specs
/// ([2.0, 4.0, 6.0], {'y': f32[3]})
#[pyclass(frozen, mapping, module = "arenagrad")]
pub struct Tensors {
    program: Py<Program>,
    which: Which,
}

impl Tensors {
    pub fn new(program: Py<Program>, which: Which) -> Tensors {
        Tensors { program, which }
    }

    /// The same mapping.
    pub fn again(&self, py: Python<'_>) -> Tensors {
        Tensors::new(self.program.clone_ref(py), self.which)
    }

    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let program = self.program.get();
        PyList::new(py, program.list(self.which).iter().map(|&i| program.slot(i).key.bind(py)))
    }
}

#[pymethods]
impl Tensors {
    fn __getitem__<'py>(&self, py: Python<'py>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        let program = self.program.get();
        let slot = program.find(self.which, name)?;
        let mut core = program.lock()?;
        program.viewed.store(true, Ordering::Relaxed);
        let owner = || self.program.bind(py).clone().into_any();
        match slot.role {
            Role::Output => slot.view(owner(), &mut core, false),
            Role::Param | Role::State if !core.holds_value(&slot.name) => Err(misuse(&format!(
                "{:?} was neither initialised nor loaded: call init(seed), or set it: params[{:?}] = array",
                slot.name, slot.name
            ))),
            _ => slot.view(owner(), &mut core, true),
        }
    }

    fn __setitem__(&self, name: &Bound<'_, PyString>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let program = self.program.get();
        let slot = program.find(self.which, name)?;
        if slot.role == Role::Output {
            return Err(misuse("an output cannot be written"));
        }
        let mut core = program.lock()?;
        slot.write(&mut core, value, None)
    }

    fn __delitem__(&self, name: &Bound<'_, PyString>) -> PyResult<()> {
        Err(misuse(&format!("{name} belongs to the program and cannot be deleted")))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.cast::<PyString>().is_ok_and(|name| self.program.get().find(self.which, name).is_ok())
    }

    fn __len__(&self) -> usize {
        self.program.get().list(self.which).len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.names(py)?.try_iter()
    }

    /// The names.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.names(py)
    }

    /// The views.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.names(py)?.iter().map(|name| self.__getitem__(py, name.cast::<PyString>()?)).collect()
    }

    /// Names and views.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let item = |name: Bound<'py, PyAny>| {
            let view = self.__getitem__(py, name.cast::<PyString>()?)?;
            PyTuple::new(py, [name, view])
        };
        self.names(py)?.iter().map(item).collect()
    }

    /// The view called `name`, or `default`.
    #[pyo3(signature = (name, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyString>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if self.program.get().find(self.which, name).is_ok() {
            self.__getitem__(py, name).map(Some)
        } else {
            Ok(default)
        }
    }

    /// Copies of all tensors, by name.
    fn copy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for name in self.names(py)?.iter() {
            let view = self.__getitem__(py, name.cast::<PyString>()?)?;
            dict.set_item(name, view.call_method0(intern!(py, "copy"))?)?;
        }
        Ok(dict)
    }

    /// Names and types.
    #[getter]
    fn specs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (dict, program) = (PyDict::new(py), self.program.get());
        for &i in program.list(self.which) {
            let slot = program.slot(i);
            dict.set_item(&slot.key, Spec::new(slot.dtype, &slot.dims))?;
        }
        Ok(dict)
    }

    /// The only element of a scalar, as `tensors.item("loss")`.
    fn item<'py>(&self, py: Python<'py>, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        self.__getitem__(py, name)?.call_method0(intern!(py, "item"))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<Tensors {}>", self.specs(py)?))
    }
}
