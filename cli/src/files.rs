//! What all commands do with folders and tensors in files: one writer a folder, and a word on files without a digest.
//!
//! Invariant: at most one process writes into a folder that a command was given to write to. For all commands.

use crate::fail::{Run, bad, io};
use arenagrad::train::trainer::CURSOR;
use arenagrad::train::{Digest, Loaded};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

/// Name of the file in a folder whose lock says that a process writes there.
const LOCK: &str = ".lock";

/// The right to write into a folder. The system takes it back when the process ends, however it does.
pub struct Lock {
    _file: File,
}

/// Claims `dir`, or says that another process has it.
pub fn lock(dir: &Path) -> Run<Lock> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(io(&path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(bad(format!("{}: another process writes into this folder", dir.display())));
        }
        Err(TryLockError::Error(e)) if e.kind() == ErrorKind::Unsupported => {
            warn(format!("{}: this file system has no locks; see that one process only writes there", dir.display()));
        }
        Err(TryLockError::Error(e)) => return Err(io(&path)(e)),
    }
    Ok(Lock { _file: file })
}

/// A line on standard error that stops nothing.
pub fn warn(text: String) {
    eprintln!("arenagrad: warning: {text}");
}

/// Reads a file of tensors. Checkpoints have digests; the weights of other programs need none.
pub fn open(path: &Path, limit: u64) -> Run<Loaded> {
    let file = Loaded::open(path, limit)?;
    if file.find(CURSOR).is_some() {
        note(path, file.digest());
    }
    Ok(file)
}

/// Says that a checkpoint holds no digest, if it does not.
pub fn note(path: &Path, digest: Digest) {
    if digest == Digest::Absent {
        warn(format!("{}: a checkpoint without a digest: damage to it cannot be seen", path.display()));
    }
}
