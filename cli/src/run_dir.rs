//! The folder that a run writes to: the names of its files, the lock that admits one writer, and atomic replacement.
//!
//! Invariants: at most one process writes to a folder. Each file is replaced as a whole or not at all, except
//! [`METRICS`], which grows by whole lines. This module knows names and bytes, not what the files mean.

use crate::fail::{Run, fail_bad_input, fail_io};
use crate::stdout_stderr::warn_stderr;
use arenagrad::train::write_atomically;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The configuration, as TOML.
pub const CONFIG: &str = "run.toml";
/// Params, states and the trainer's cursor, for `--resume`.
pub const CHECKPOINT: &str = "checkpoint.safetensors";
/// One line of JSON for each step and for each evaluation.
pub const METRICS: &str = "metrics.jsonl";
/// The characters of a character model. Without it its weights mean nothing.
pub const VOCABULARY: &str = "vocabulary.json";
/// The trained params.
pub const WEIGHTS: &str = "weights.safetensors";
/// The moving averages of the params, if the optimiser keeps any.
pub const AVERAGES: &str = "weights_ema.safetensors";
/// Loss curve and memory map.
pub const REPORT: &str = "run.html";
/// The results of a finished run. Written last.
pub const SUMMARY: &str = "summary.json";
/// The file whose lock says that a process writes to the folder.
const LOCK: &str = ".lock";

/// A folder that a command writes to.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
}

/// The right to write to a folder. The operating system ends it with the process, however that ends.
pub struct Lock {
    _file: File,
}

impl RunDir {
    /// The folder at `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> RunDir {
        RunDir { path: path.into() }
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True if the folder exists.
    pub fn exists(&self) -> bool {
        self.path.is_dir()
    }

    /// Makes the folder and its parents.
    pub fn create(&self) -> Run {
        std::fs::create_dir_all(&self.path).map_err(fail_io(&self.path))
    }

    /// The path of the file `name`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Replaces the file `name` by `bytes`, as a whole or not at all.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Run {
        Ok(write_atomically(self.file(name), bytes)?)
    }

    /// Locks the folder, or fails because another process holds the lock.
    pub fn lock(&self) -> Run<Lock> {
        let path = self.file(LOCK);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(fail_io(&path))?;
        let dir = self.path.display();
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(fail_bad_input(format!("{dir}: another process writes into this folder")));
            }
            Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => {
                warn_stderr(format!(
                    "{dir}: this file system has no locks; let only one process write into this folder"
                ));
            }
            Err(TryLockError::Error(e)) => return Err(fail_io(&path)(e)),
        }
        Ok(Lock { _file: file })
    }
}

/// The file that `--resume PATH` means: the checkpoint in a folder, or a checkpoint itself.
pub fn checkpoint_in_run_dir(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(CHECKPOINT) } else { path.to_path_buf() }
}
