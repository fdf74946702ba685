//! ONNX models as graphs.

use crate::args::SizeArgs;
use crate::fail::{Fail, Run, fail_bad_input};
use crate::stdout_stderr::note_stderr;
use arenagrad::train::data::read_npy;
use arenagrad_onnx::{Error, Import, Options, Tensor, read_file};
use std::path::Path;

/// Whether `path` names an ONNX model.
pub fn is_onnx(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("onnx"))
}

/// Reads a model whose symbols have these sizes. Values of inputs that shapes depend on come from the files `given`.
/// The model's notes go to standard error.
pub fn read_onnx(path: &Path, sizes: &SizeArgs, given: &[(&str, &Path)]) -> Run<Import> {
    let sizes = sizes.bound.iter().map(|b| (b.symbol.clone(), b.size)).collect();
    let mut options = Options { sizes, ..Options::default() };
    loop {
        match read_file(path, &options) {
            Ok(import) => {
                import.notes.iter().for_each(|note| note_stderr(format!("{}: {note}", path.display())));
                return Ok(import);
            }
            Err(Error::Values { inputs, what }) => {
                let (before, asked) = (options.values.len(), |name: &str| inputs.iter().any(|i| i == name));
                for (name, file) in given.iter().filter(|(name, _)| asked(name)) {
                    let array = read_npy(file)?;
                    let value = Tensor::new(array.dtype, array.dims, array.bytes).map_err(onnx_failure(file))?;
                    options.values.push((name.to_string(), value));
                }
                if options.values.len() == before {
                    return Err(onnx_failure(path)(Error::Values { inputs, what }));
                }
            }
            Err(e) => return Err(onnx_failure(path)(e)),
        }
    }
}

/// Turns an error of a model into a failure that names the file.
pub fn onnx_failure(path: &Path) -> impl Fn(Error) -> Fail {
    move |e| fail_bad_input(format!("{}: {e}", path.display()))
}
