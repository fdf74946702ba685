//! Event files of TensorBoard.

use crate::error::call;
use arenagrad::train::EventFile;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::fs::File;
use std::path::PathBuf;

/// An event file of TensorBoard, in a folder.
#[pyclass(frozen, name = "_EventFile", module = "arenagrad")]
pub struct PyEventFile {
    dir: PathBuf,
    file: Mutex<EventFile<File>>,
}

#[pymethods]
impl PyEventFile {
    /// A new file in folder `dir` for the steps after step `done`.
    #[new]
    fn new(dir: PathBuf, done: u64) -> PyResult<PyEventFile> {
        let named = |e| arenagrad::Error::from(e).context(dir.display());
        let file = call(|| EventFile::create(&dir, done).map_err(named))?;
        Ok(PyEventFile { dir, file: Mutex::new(file) })
    }

    /// Writes numbers of step `step`, by name.
    fn write(&self, step: u64, numbers: Vec<(String, f64)>) -> PyResult<()> {
        let numbers: Vec<(&str, f64)> = numbers.iter().map(|(name, x)| (name.as_str(), *x)).collect();
        let named = |e| arenagrad::Error::from(e).context(self.dir.display());
        call(|| self.file.lock().write(step, &numbers).map_err(named))
    }
}
