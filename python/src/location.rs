//! The line of Python that calls: the location of nodes.

use crate::error;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static GET_FRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
/// The folder of this package, whose frames are skipped.
static FOLDER: PyOnceLock<String> = PyOnceLock::new();

fn folder(py: Python<'_>) -> PyResult<String> {
    let file: String = py.import("arenagrad._errors")?.getattr("__file__")?.extract()?;
    Ok(file.rsplit_once(['/', '\\']).map_or(String::new(), |(folder, _)| folder.to_string()))
}

/// File and line of the innermost frame that is not of this package.
pub fn caller(py: Python<'_>) -> PyResult<(String, u32)> {
    error::calm(|| {
        let get = GET_FRAME
            .get_or_try_init(py, || PyResult::Ok(py.import("sys")?.getattr(intern!(py, "_getframe"))?.unbind()))?;
        let own = FOLDER.get_or_try_init(py, || folder(py))?;
        let mut frame = get.bind(py).call0()?;
        loop {
            let file: String = frame.getattr(intern!(py, "f_code"))?.getattr(intern!(py, "co_filename"))?.extract()?;
            let back = frame.getattr(intern!(py, "f_back"))?;
            let inside = file.strip_prefix(own.as_str()).is_some_and(|rest| rest.starts_with(['/', '\\']));
            if back.is_none() || own.is_empty() || !inside {
                return Ok((file, frame.getattr(intern!(py, "f_lineno"))?.extract()?));
            }
            frame = back;
        }
    })
}
