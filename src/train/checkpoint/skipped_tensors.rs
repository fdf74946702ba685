//! Tensors that a file lists and that cannot be used. They do not keep the others from being read.

use super::bad_checkpoint;
use super::header::HeaderTensor;
use crate::error::Error;
use std::path::PathBuf;

/// A tensor that a file lists and that cannot be used.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Unusable {
    /// The name.
    pub name: String,
    /// The name of its type in the file, such as `F8_E4M3`.
    pub kind: String,
    /// The shape.
    pub dims: Vec<usize>,
    /// Size in bytes.
    pub bytes: u64,
    /// Why it cannot be used.
    pub why: &'static str,
    /// The file that holds it; empty for a file that was parsed in memory.
    pub path: PathBuf,
}

impl Unusable {
    pub(super) fn of_no_type(t: HeaderTensor, path: PathBuf) -> Unusable {
        let (bytes, why) = (t.at.end - t.at.start, "there is no such type here");
        Unusable { name: t.name, kind: t.kind, dims: t.dims, bytes, why, path }
    }

    /// The error of using it, which names the tensor, its type and its shape.
    pub fn error(&self) -> Error {
        // A type is any text.
        let kind: String = self.kind.chars().take(40).collect();
        bad_checkpoint(format!("{:?} is {kind}{:?}: {}", self.name, self.dims, self.why))
    }
}
