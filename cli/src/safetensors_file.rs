//! Safetensors files that commands read.
//!
//! Invariant: a checkpoint whose digest does not fit is refused. One without a digest is read with a warning, as damage
//! to it cannot be detected.

use crate::fail::Run;
use crate::stdout_stderr::warn_stderr;
use arenagrad::session::Program;
use arenagrad::train::trainer::CURSOR;
use arenagrad::train::{Digest, Load, Loaded, Weights};
use std::collections::HashSet;
use std::path::Path;

/// Reads a file of at most `limit` bytes. Checkpoints should hold a digest; weights of other programs need none.
pub fn open_safetensors_file(path: &Path, limit: u64) -> Run<Loaded> {
    let file = Loaded::open_within(path, limit)?;
    if file.find(CURSOR).is_some() {
        warn_of_safetensors_without_digest(path, file.digest());
    }
    Ok(file)
}

/// Warns if the checkpoint `path` holds no digest.
pub fn warn_of_safetensors_without_digest(path: &Path, digest: Digest) {
    if digest == Digest::Absent {
        warn_stderr(format!("{}: this checkpoint has no digest, so damage to it cannot be detected", path.display()));
    }
}

/// Gives all params and buffers of `p` the values that the file holds. Its other tensors are left out: a checkpoint
/// holds the states of the optimiser too.
pub fn load_safetensors_params(p: &mut Program, path: &Path) -> Run {
    let file = Weights::open(path)?;
    if file.find(CURSOR).is_some() {
        warn_of_safetensors_without_digest(path, file.digest());
    }
    let own = p.bindings().iter().filter(|b| b.is_weight()).map(|b| b.name.clone());
    let own: HashSet<String> = own.collect();
    let of_a_weight = |name: &str| own.contains(name).then(|| name.to_string());
    let _all = p.load_weights(&file, Load::default().rename(&of_a_weight))?;
    Ok(())
}
