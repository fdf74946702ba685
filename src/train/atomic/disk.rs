//! The calls on the file system that replacing a file makes. Tests make each of them fail, and stop between any two.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::Path;

/// A file system.
pub trait Disk {
    /// An open file. Dropping it closes the file and releases its lock.
    type File;

    /// Opens a file for writing, and creates it if it is not there. Its bytes stay.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// Waits for the file's lock and takes it.
    fn lock(&self, file: &Self::File) -> io::Result<()>;

    /// True if `path` names this open file.
    fn is_at(&self, file: &Self::File, path: &Path) -> io::Result<bool>;

    /// Removes all bytes of the file.
    fn empty(&self, file: &Self::File) -> io::Result<()>;

    /// Gives the file these permissions.
    fn permit(&self, file: &Self::File, permissions: Permissions) -> io::Result<()>;

    /// Appends the bytes. After an error, some of them may be there.
    fn write_all(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;

    /// Returns once the file's bytes survive a loss of power.
    fn sync(&self, file: &Self::File) -> io::Result<()>;

    /// Gives the file `from` the name `to`. A file of that name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes the file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns once the names in the folder survive a loss of power.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// The file system of this machine.
pub struct SystemDisk;

impl Disk for SystemDisk {
    type File = File;

    fn open(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(false).open(path)
    }

    fn lock(&self, file: &File) -> io::Result<()> {
        file.lock()
    }

    #[cfg(unix)]
    fn is_at(&self, file: &File, path: &Path) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt;
        let own = file.metadata()?;
        match fs::metadata(path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// True if `path` exists. Without inode numbers, no more can be said about the open file.
    #[cfg(not(unix))]
    fn is_at(&self, _: &File, path: &Path) -> io::Result<bool> {
        fs::exists(path)
    }

    fn empty(&self, file: &File) -> io::Result<()> {
        file.set_len(0)
    }

    fn permit(&self, file: &File, permissions: Permissions) -> io::Result<()> {
        match file.metadata()?.permissions() == permissions {
            true => Ok(()),
            false => file.set_permissions(permissions),
        }
    }

    fn write_all(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// Only Unix can open and sync a folder.
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        match cfg!(unix) {
            true => File::open(folder)?.sync_all(),
            false => Ok(()),
        }
    }
}
