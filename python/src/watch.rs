//! Whether dictionaries still hold the objects that they held: what a step looks at before it runs, in one call.

use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What a dictionary held under a key.
type Entry = (Py<PyDict>, Py<PyAny>, Py<PyAny>);

/// Dictionaries, keys, and the objects that are to be there; dictionaries that are to have as many as they had; and
/// keys that others are not to have.
#[pyclass(frozen, module = "arenagrad")]
pub struct _Watch {
    entries: Vec<Entry>,
    whole: Vec<(Py<PyDict>, usize)>,
    without: Vec<(Py<PyDict>, Py<PyAny>)>,
}

#[pymethods]
impl _Watch {
    #[new]
    #[pyo3(signature = (entries, whole = Vec::new(), without = Vec::new()))]
    fn new(entries: Vec<Entry>, whole: Vec<Bound<'_, PyDict>>, without: Vec<(Py<PyDict>, Py<PyAny>)>) -> _Watch {
        let whole = whole.into_iter().map(|d| (d.clone().unbind(), d.len())).collect();
        _Watch { entries, whole, without }
    }

    /// Whether each object is still there. An equal one is another one.
    fn same(&self, py: Python<'_>) -> PyResult<bool> {
        if self.whole.iter().any(|(d, n)| d.bind(py).len() != *n) {
            return Ok(false);
        }
        for (owner, key, was) in &self.entries {
            match owner.bind(py).get_item(key.bind(py))? {
                Some(now) if now.is(was) => (),
                _ => return Ok(false),
            }
        }
        for (owner, key) in &self.without {
            if owner.bind(py).contains(key.bind(py))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.whole.iter().try_for_each(|(d, _)| visit.call(d))?;
        self.without.iter().try_for_each(|(owner, key)| visit.call(owner).and_then(|()| visit.call(key)))?;
        self.entries.iter().try_for_each(|(owner, key, was)| {
            visit.call(owner)?;
            visit.call(key)?;
            visit.call(was)
        })
    }
}
