//! Safetensors files that commands read.
//!
//! Invariant: a checkpoint whose digest does not fit is refused. One without a digest is read with a warning, as damage
//! to it cannot be detected.

use crate::fail::Run;
use crate::out::warn_out;
use arenagrad::session::{Program, Role};
use arenagrad::train::checkpoint::HEADER_LIMIT;
use arenagrad::train::trainer::CURSOR;
use arenagrad::train::{Digest, Loaded};
use std::path::Path;

/// Reads a file of at most `limit` bytes. Checkpoints should hold a digest; weights of other programs need none.
pub fn open_tensors(path: &Path, limit: u64) -> Run<Loaded> {
    let file = Loaded::open_within(path, limit)?;
    if file.find(CURSOR).is_some() {
        warn_of_tensors_without_digest(path, file.digest());
    }
    Ok(file)
}

/// Warns if the checkpoint `path` holds no digest.
pub fn warn_of_tensors_without_digest(path: &Path, digest: Digest) {
    if digest == Digest::Absent {
        warn_out(format!("{}: this checkpoint has no digest, so damage to it cannot be detected", path.display()));
    }
}

/// Gives all params of `p` the values that a file of at most `times` their size holds.
pub fn load_param_tensors(p: &mut Program, path: &Path, times: u64) -> Run {
    let params: Vec<_> = p.bindings().iter().filter(|b| b.role == Role::Param).cloned().collect();
    let bytes: u64 = params.iter().map(|b| b.bytes as u64).sum();
    let file = open_tensors(path, times * bytes + HEADER_LIMIT)?;
    for b in &params {
        let tensor = file.expect(&b.name, b.dtype, &b.dims).map_err(|e| e.context(path.display()))?;
        p.persistent_mut(&b.name)?.1.copy_from_slice(tensor.bytes);
    }
    Ok(())
}
