//! Atomic replacement of files: a file is replaced as a whole or not at all, whichever call fails and whenever the
//! process is killed or the power fails.
//!
//! Invariant: a reader of the target finds the old bytes or the new ones. The new bytes go to a temporary file in the
//! same folder, which is synced and renamed; then the folder is synced. The temporary file's name follows from the
//! target, so killed processes leave at most one. It is locked while it is written, so two processes cannot mix their
//! bytes in it.

mod disk;
#[cfg(test)]
mod disk_model;
#[cfg(test)]
mod tests;

use crate::error::{Error, Result};
use disk::{Disk, SystemDisk};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Replaces the file at `path` by one with these bytes. If it cannot, the file is unchanged, and the error, of kind
/// [`Full`](crate::error::Kind::Full) or [`Io`](crate::error::Kind::Io), names the path.
///
/// The permissions of an old file are kept. If `path` is a symbolic link, the file that it points to is replaced. A
/// pipe or a device is written to, without atomicity.
pub fn write_atomically(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    write_parts_atomically(path, &[bytes])
}

/// As [`write_atomically`], for bytes in several parts, one behind the other.
pub fn write_parts_atomically(path: impl AsRef<Path>, parts: &[&[u8]]) -> Result<()> {
    let path = path.as_ref();
    write_or_replace(path, parts).map_err(|e| Error::from(e).context(path.display()))
}

fn write_or_replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(old) if old.is_file() => {
            replace_atomically(&SystemDisk, &fs::canonicalize(path)?, Some(old.permissions()), parts)
        }
        Ok(old) if old.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(_) => {
            let mut file = OpenOptions::new().write(true).open(path)?;
            parts.iter().try_for_each(|part| file.write_all(part))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => replace_atomically(&SystemDisk, path, None, parts),
        Err(e) => Err(e),
    }
}

/// Replaces the regular file `path`, or creates it.
fn replace_atomically<D: Disk>(
    disk: &D,
    path: &Path,
    permissions: Option<Permissions>,
    parts: &[&[u8]],
) -> io::Result<()> {
    let temp = temporary_path(path)?;
    let mut file = lock_temporary(disk, &temp)?;
    let filled = fill_temporary(disk, &mut file, permissions, parts);
    let done = filled.and_then(|_| disk.rename(&temp, path));
    if done.is_err() {
        // The first error is returned. A temporary file that cannot be removed is overwritten by the next write.
        let _ = disk.remove(&temp);
    }
    drop(file);
    done?;
    // The rename is durable once the folder is synced.
    disk.sync_folder(path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")))
}

/// The path of the temporary file for `path`: `.NAME.tmp` in the same folder.
fn temporary_path(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::Error::new(ErrorKind::InvalidInput, "the path names no file"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".tmp");
    Ok(path.with_file_name(hidden))
}

/// Opens the temporary file, empty and locked. No other process writes to it until it is closed.
fn lock_temporary<D: Disk>(disk: &D, temp: &Path) -> io::Result<D::File> {
    loop {
        let file = disk.open(temp)?;
        match disk.lock(&file) {
            // Without locks, concurrent writes to one target are not prevented.
            Err(e) if e.kind() != ErrorKind::Unsupported => return Err(e),
            _ => {}
        }
        // The previous holder of the lock may have renamed the file. Then it is the target, and a new one is opened.
        if disk.is_at(&file, temp)? {
            disk.empty(&file)?;
            return Ok(file);
        }
    }
}

/// Sets the permissions, writes the bytes and syncs the file.
fn fill_temporary<D: Disk>(
    disk: &D,
    file: &mut D::File,
    permissions: Option<Permissions>,
    parts: &[&[u8]],
) -> io::Result<()> {
    // Before the write: bytes that only the owner may read are never readable by others.
    if let Some(permissions) = permissions {
        disk.permit(file, permissions)?;
    }
    parts.iter().try_for_each(|part| disk.write_all(file, part))?;
    disk.sync(file)
}
