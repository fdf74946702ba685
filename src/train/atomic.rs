//! Atomic replacement of files: a file is replaced as a whole or not at all, whichever call fails and whenever the
//! process is killed.
//!
//! Invariant: a reader of the target finds the old bytes or the new ones. The new bytes go to a temporary file in the
//! same folder, which is synced and renamed; then the folder is synced. The temporary file's name follows from the
//! target, so killed processes leave at most one. It is locked while it is written, so two processes cannot mix their
//! bytes in it.

use crate::error::{Error, Result};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Replaces the file at `path` by one with these bytes. If it cannot, the file is unchanged, and the error, of kind
/// [`Full`](crate::error::Kind::Full) or [`Io`](crate::error::Kind::Io), names the path.
///
/// The permissions of an old file are kept. If `path` is a symbolic link, the file that it points to is replaced. A
/// pipe or a device is written to, without atomicity.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomic_file(path, bytes).map_err(|e| Error::from(e).context(path.display()))
}

fn write_atomic_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(old) if old.is_file() => replace_atomically(&fs::canonicalize(path)?, Some(old.permissions()), bytes),
        Ok(old) if old.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(_) => OpenOptions::new().write(true).open(path)?.write_all(bytes),
        Err(e) if e.kind() == ErrorKind::NotFound => replace_atomically(path, None, bytes),
        Err(e) => Err(e),
    }
}

/// Replaces the regular file `path`, or creates it.
fn replace_atomically(path: &Path, permissions: Option<Permissions>, bytes: &[u8]) -> io::Result<()> {
    let temp = atomic_temporary(path)?;
    let mut file = lock_atomic_temporary(&temp)?;
    let done = fill_atomic_temporary(&mut file, permissions, bytes).and_then(|_| fs::rename(&temp, path));
    if done.is_err() {
        // The first error is returned. A temporary file that cannot be removed is overwritten by the next write.
        let _ = fs::remove_file(&temp);
    }
    drop(file);
    done?;
    // The rename is durable once the directory is synced. Only Unix can open and sync a directory.
    if cfg!(unix) {
        let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(dir)?.sync_all()?;
    }
    Ok(())
}

/// The path of the temporary file for `path`: `.NAME.tmp` in the same folder.
fn atomic_temporary(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::Error::new(ErrorKind::InvalidInput, "the path names no file"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(".tmp");
    Ok(path.with_file_name(hidden))
}

/// Opens the temporary file, empty and locked. No other process writes to it until it is closed.
fn lock_atomic_temporary(temp: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(temp)?;
        match file.lock() {
            // Without locks, concurrent writes to one target are not prevented.
            Err(e) if e.kind() != ErrorKind::Unsupported => return Err(e),
            _ => {}
        }
        // The previous holder of the lock may have renamed the file. Then it is the target, and a new one is opened.
        if is_at(&file, temp)? {
            file.set_len(0)?;
            return Ok(file);
        }
    }
}

/// True if `path` names this open file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// True if `path` exists. Without inode numbers, no more can be said about the open file.
#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> io::Result<bool> {
    fs::exists(path)
}

/// Sets the permissions, writes the bytes and syncs the file.
fn fill_atomic_temporary(file: &mut File, permissions: Option<Permissions>, bytes: &[u8]) -> io::Result<()> {
    // Before the write: bytes that only the owner may read are never readable by others.
    if let Some(p) = permissions.filter(|p| file.metadata().is_ok_and(|now| now.permissions() != *p)) {
        file.set_permissions(p)?;
    }
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("arenagrad-atomic-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn files_are_replaced_whole() {
        let dir = scratch("replace");
        let path = dir.join("w");
        write_atomically(&path, b"something old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing is left behind");
        let missing = dir.join("absent").join("w");
        assert!(write_atomically(&missing, b"x").unwrap_err().to_string().contains("absent"));
        let e = write_atomically(&dir, b"x").unwrap_err().to_string();
        assert!(e.contains("directory") && dir.is_dir(), "{e}");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn strays_of_killed_processes_are_written_over() {
        let dir = scratch("stray");
        fs::write(dir.join(".w.tmp"), b"a longer file that a killed process has left").unwrap();
        write_atomically(&dir.join("w"), b"new").unwrap();
        assert_eq!(fs::read(dir.join("w")).unwrap(), b"new");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(&dir).unwrap();
    }

    /// Writers of one target wait for each other: at any time the file holds the bytes of one of them.
    #[test]
    fn writers_of_one_target_do_not_mix() {
        let dir = scratch("mix");
        let path = dir.join("w");
        write_atomically(&path, &[0; 4096]).unwrap();
        std::thread::scope(|s| {
            for k in 0..4u8 {
                let path = &path;
                s.spawn(move || {
                    for n in 0..50 {
                        write_atomically(path, &vec![k; 4096 + n * usize::from(k)]).unwrap();
                        let read = fs::read(path).unwrap();
                        let first = usize::from(read[0]);
                        assert!(read.iter().all(|&b| usize::from(b) == first) && read.len() >= 4096);
                        assert!(first == 0 || (read.len() - 4096).is_multiple_of(first), "{first}: {}", read.len());
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn links_devices_and_permissions_stay() {
        use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
        let dir = scratch("links");
        let (path, link) = (dir.join("w"), dir.join("link"));
        write_atomically(&path, b"old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        symlink("w", &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        write_atomically(Path::new("/dev/null"), b"x").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        fs::remove_dir_all(&dir).unwrap();
    }
}
