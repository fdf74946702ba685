//! Safetensors files, and weights of other formats, that commands read.
//!
//! Invariant: a checkpoint whose digest does not fit is refused. One without a digest is read with a warning, as damage
//! to it cannot be detected.

use crate::args::ReadArgs;
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

/// Opens weights, and warns of what was chosen.
pub fn open_weights(path: &Path, prefix: &str) -> Run<Weights> {
    let file = Weights::open_part(path, prefix)?;
    file.notes().iter().for_each(warn_stderr);
    Ok(file)
}

/// Gives all params and buffers of `p` the values that the file holds. Its other tensors are left out: a checkpoint
/// holds the states of the optimiser too.
pub fn load_params(p: &mut Program, path: &Path, read: &ReadArgs) -> Run {
    let file = open_weights(path, &read.prefix)?;
    if file.find(CURSOR).is_some() {
        warn_of_safetensors_without_digest(path, file.digest());
    }
    let own = p.bindings().iter().filter(|b| b.is_weight()).map(|b| b.name.clone());
    let own: HashSet<String> = own.collect();
    let of_a_weight = |name: &str| own.contains(name).then(|| name.to_string());
    let transpose: Vec<&str> = read.transpose.iter().map(String::as_str).collect();
    let _all = p.load_weights(&file, Load::default().rename(&of_a_weight).transpose(&transpose))?;
    Ok(())
}
