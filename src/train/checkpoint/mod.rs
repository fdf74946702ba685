//! Checkpoints: named tensors in one safetensors file.
//!
//! Invariants of saving: the target is replaced as a whole or not at all ([`super::atomic`]), and equal tensors give
//! equal bytes. Invariants of loading: the file is hostile until proven good (size, then header, then [`digest`], then
//! each tensor against what is expected), and a failed load changes nothing. NaN and infinities are valid elements; a
//! bool is 0 or 1. [`Weights`] reads large files tensor by tensor, and those of `torch.save`; [`Loaded`] holds
//! a whole file. Files have
//! `format=pt` and weights have torch's names, so `safetensors.torch.load_file` reads them.

pub mod adapter;
mod adapter_config;
pub mod digest;
mod entry;
pub(super) mod floats;
mod folder;
mod header;
mod loaded;
pub mod lora;
pub mod program_load;
mod skipped_tensors;
mod stored;
mod strided;
pub mod tensor;
mod torch_file;
pub mod weights;

use super::atomic::write_atomically;
use crate::error::Result;
use crate::nodes::DType;
use crate::session::{Binding, Program};
pub use adapter::Adapter;
pub use digest::Digest;
use entry::check_bool_elements;
pub use entry::{Entry, check_values, entries};
pub use header::HEADER_LIMIT;
use header::bad_checkpoint;
pub use loaded::Loaded;
pub use lora::{merge, peft_name};
pub(super) use program_load::is_batch_count;
pub use program_load::{Load, LoadReport, Unmatched, is_state_of_training};
use safetensors::tensor::{Dtype, TensorView};
pub use skipped_tensors::Unusable;
use std::path::Path;
pub use stored::Stored;
pub use tensor::Tensor;
pub use weights::Weights;

/// The dtypes and their names in files.
const DTYPES: [(DType, Dtype); 14] = [
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::I8, Dtype::I8),
    (DType::U8, Dtype::U8),
    (DType::I32, Dtype::I32),
    (DType::I64, Dtype::I64),
    (DType::U32, Dtype::U32),
    (DType::I16, Dtype::I16),
    (DType::U16, Dtype::U16),
    (DType::U64, Dtype::U64),
    (DType::Bool, Dtype::BOOL),
    (DType::C64, Dtype::C64),
];

/// The bytes of a safetensors file with these entries and a [`digest`]. Fails with
/// [`Kind::Data`](crate::error::Kind::Data) if a name occurs twice or a bool is neither 0 nor 1.
pub fn encode(entries: &[Entry<'_>]) -> Result<Vec<u8>> {
    let mut names: Vec<&str> = entries.iter().map(|e| e.name).collect();
    names.sort_unstable();
    if let Some(w) = names.windows(2).find(|w| w[0] == w[1]) {
        return Err(bad_checkpoint(format!("two tensors are called {:?}", w[0])));
    }
    let views = entries.iter().map(|e| {
        let e = check_bool_elements(*e)?;
        let dtype = DTYPES.iter().find(|d| d.0 == e.dtype).map(|d| d.1);
        let dtype = dtype
            .ok_or_else(|| bad_checkpoint(format!("{:?}: safetensors files have no type for {}", e.name, e.dtype)))?;
        let view = TensorView::new(dtype, e.dims.to_vec(), e.bytes);
        Ok((e.name, view.map_err(|err| bad_checkpoint(format!("{:?}: {err}", e.name)))?))
    });
    let views = views.collect::<Result<Vec<_>>>()?;
    // One key only: a map of several keys has no fixed order, and equal tensors must give equal bytes.
    let meta = [("format".to_string(), "pt".to_string())].into();
    let mut file = safetensors::serialize(views, Some(meta)).map_err(|e| bad_checkpoint(e.to_string()))?;
    digest::seal(&mut file)?;
    Ok(file)
}

/// Ends of names that promise another form of file than safetensors.
const OTHER_FORMS: [&str; 6] = ["pt", "pth", "gguf", "onnx", "npy", "npz"];

/// Writes the entries to the safetensors file `path`, as a whole or not at all. Fails with
/// [`Kind::Data`](crate::error::Kind::Data) if its name is that of another form, as `w.pt`.
pub fn save(path: impl AsRef<Path>, entries: &[Entry<'_>]) -> Result<()> {
    let path = path.as_ref();
    let end = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    if end.is_some_and(|e| OTHER_FORMS.contains(&&*e)) {
        let other = path.with_extension("safetensors");
        let text = format!("{}: tensors are written as safetensors: call the file {}", path.display(), other.display());
        return Err(bad_checkpoint(text));
    }
    write_atomically(path, &encode(entries)?)
}

impl Program {
    /// Writes all params and states to the safetensors file `path`, as a whole or not at all, with a digest. Fails if
    /// the name is that of another form of file, such as `w.pt`, or if a param or state was neither initialised nor
    /// loaded.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        check_values(self, |_| true).map_err(|e| e.context(path.as_ref().display()))?;
        save(path, &entries(self, |_| true))
    }

    /// As [`Program::save`], but only the params and the buffers of layers, such as batch norm's running statistics:
    /// what other programs and libraries read, torch's strict `load_state_dict` among them.
    pub fn save_weights(&self, path: impl AsRef<Path>) -> Result<()> {
        check_values(self, Binding::is_weight).map_err(|e| e.context(path.as_ref().display()))?;
        save(path, &entries(self, Binding::is_weight))
    }
}

#[cfg(test)]
mod tests;
