//! A model of a disk: a call fails or ends the process at a chosen place, and a loss of power keeps what was synced.

use super::disk::Disk;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DiskFault {
    /// The call fails and does nothing.
    Fails(ErrorKind),
    /// The call fails. A write has written half of its bytes.
    FailsHalfway(ErrorKind),
    /// The process ends before the call.
    EndsBefore,
    /// The process ends in the call. A write has written half of its bytes.
    EndsHalfway,
    /// The process ends after the call.
    EndsAfter,
}

impl DiskFault {
    pub const ALL: [DiskFault; 7] = [
        DiskFault::Fails(ErrorKind::StorageFull),
        DiskFault::Fails(ErrorKind::PermissionDenied),
        DiskFault::FailsHalfway(ErrorKind::StorageFull),
        DiskFault::FailsHalfway(ErrorKind::Other),
        DiskFault::EndsBefore,
        DiskFault::EndsHalfway,
        DiskFault::EndsAfter,
    ];
}

/// A file: the bytes that a reader sees, and those that survive a loss of power.
#[derive(Clone, Default)]
struct ModelFile {
    bytes: Vec<u8>,
    synced: Vec<u8>,
}

/// A change of the folder: the name, and the file that it has from then on.
type NameChange = (PathBuf, Option<usize>);

#[derive(Clone, Default)]
struct DiskModelState {
    files: Vec<ModelFile>,
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    /// Changes of names since the folder was synced.
    changes: Vec<NameChange>,
    calls: usize,
    ended: bool,
}

/// A disk with one folder. The process may be ended by a fault; [`restart`](ModelDisk::restart) begins a new one.
#[derive(Clone, Default)]
pub struct ModelDisk {
    state: RefCell<DiskModelState>,
    /// The call that is hit, counted from 0, and how.
    pub fault: Option<(usize, DiskFault)>,
}

impl ModelDisk {
    /// A disk whose file `path` survives a loss of power with these bytes.
    pub fn holding(path: &Path, bytes: &[u8]) -> ModelDisk {
        let disk = ModelDisk::default();
        {
            let mut s = disk.state.borrow_mut();
            s.files.push(ModelFile { bytes: bytes.to_vec(), synced: bytes.to_vec() });
            s.names.insert(path.to_path_buf(), 0);
            s.synced_names = s.names.clone();
        }
        disk
    }

    /// This disk, hit by `fault`.
    pub fn hit_by(self, fault: Option<(usize, DiskFault)>) -> ModelDisk {
        ModelDisk { fault, ..self }
    }

    /// Calls so far.
    pub fn calls(&self) -> usize {
        self.state.borrow().calls
    }

    /// True if a fault has ended the process.
    pub fn ended(&self) -> bool {
        self.state.borrow().ended
    }

    /// A new process on this disk, without faults.
    pub fn restart(&self) -> ModelDisk {
        let disk = ModelDisk { state: self.state.clone(), fault: None };
        disk.state.borrow_mut().ended = false;
        disk
    }

    /// The bytes of the file at `path`.
    pub fn read(&self, path: &Path) -> Option<Vec<u8>> {
        let s = self.state.borrow();
        s.names.get(path).map(|&f| s.files[f].bytes.clone())
    }

    /// All names in the folder.
    pub fn names(&self) -> Vec<PathBuf> {
        self.state.borrow().names.keys().cloned().collect()
    }

    /// What the file at `path` may hold after a loss of power now. Of the changes of names that were not synced, any
    /// may be lost; the bytes of a file that was not synced may be the old ones, none, half or all of the new ones.
    pub fn after_power_loss(&self, path: &Path) -> BTreeSet<Option<Vec<u8>>> {
        let s = self.state.borrow();
        let mut outcomes = BTreeSet::new();
        for kept in 0..1u32 << s.changes.len() {
            let mut names = s.synced_names.clone();
            for (_, (name, file)) in s.changes.iter().enumerate().filter(|(i, _)| kept >> i & 1 == 1) {
                match file {
                    Some(file) => names.insert(name.clone(), *file),
                    None => names.remove(name),
                };
            }
            let Some(&file) = names.get(path) else {
                outcomes.insert(None);
                continue;
            };
            let ModelFile { bytes, synced } = &s.files[file];
            outcomes.insert(Some(synced.clone()));
            if bytes != synced {
                outcomes.extend([&bytes[..0], &bytes[..bytes.len() / 2], &bytes[..]].map(|b| Some(b.to_vec())));
            }
        }
        outcomes
    }

    /// One call: `act` does all of it, or, if told so, the half that a fault leaves.
    fn call<R>(&self, act: impl FnOnce(&mut DiskModelState, bool) -> io::Result<R>) -> io::Result<R> {
        let s = &mut *self.state.borrow_mut();
        let ended = || io::Error::new(ErrorKind::Interrupted, "the process has ended");
        if s.ended {
            return Err(ended());
        }
        let fault = self.fault.filter(|f| f.0 == s.calls).map(|f| f.1);
        s.calls += 1;
        s.ended = matches!(fault, Some(DiskFault::EndsBefore | DiskFault::EndsHalfway | DiskFault::EndsAfter));
        match fault {
            None => act(s, false),
            Some(DiskFault::Fails(kind)) => Err(kind.into()),
            Some(DiskFault::FailsHalfway(kind)) => act(s, true).and(Err(kind.into())),
            Some(DiskFault::EndsBefore) => Err(ended()),
            Some(DiskFault::EndsHalfway) => act(s, true).and(Err(ended())),
            Some(DiskFault::EndsAfter) => act(s, false).and(Err(ended())),
        }
    }

    /// A call that does nothing if a fault leaves half of it.
    fn whole_call<R: Default>(&self, act: impl FnOnce(&mut DiskModelState) -> io::Result<R>) -> io::Result<R> {
        self.call(|s, half| if half { Ok(R::default()) } else { act(s) })
    }
}

impl DiskModelState {
    fn change_name(&mut self, name: &Path, file: Option<usize>) {
        match file {
            Some(file) => self.names.insert(name.to_path_buf(), file),
            None => self.names.remove(name),
        };
        self.changes.push((name.to_path_buf(), file));
    }
}

/// The folder that `name` is in: `.` if it has none of its own.
fn folder_of_name(name: &Path) -> &Path {
    match name.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

impl Disk for ModelDisk {
    /// Its position among the files.
    type File = usize;

    fn open(&self, path: &Path) -> io::Result<usize> {
        self.whole_call(|s| {
            if let Some(&file) = s.names.get(path) {
                return Ok(file);
            }
            s.files.push(ModelFile::default());
            let file = s.files.len() - 1;
            s.change_name(path, Some(file));
            Ok(file)
        })
    }

    fn lock(&self, _: &usize) -> io::Result<()> {
        self.whole_call(|_| Ok(()))
    }

    fn is_at(&self, file: &usize, path: &Path) -> io::Result<bool> {
        self.whole_call(|s| Ok(s.names.get(path) == Some(file)))
    }

    fn empty(&self, file: &usize) -> io::Result<()> {
        self.whole_call(|s| {
            s.files[*file].bytes.clear();
            Ok(())
        })
    }

    fn permit(&self, _: &usize, _: Permissions) -> io::Result<()> {
        self.whole_call(|_| Ok(()))
    }

    fn write_all(&self, file: &mut usize, bytes: &[u8]) -> io::Result<()> {
        self.call(|s, half| {
            let written = if half { bytes.len() / 2 } else { bytes.len() };
            s.files[*file].bytes.extend(&bytes[..written]);
            Ok(())
        })
    }

    fn sync(&self, file: &usize) -> io::Result<()> {
        self.whole_call(|s| {
            s.files[*file].synced = s.files[*file].bytes.clone();
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.whole_call(|s| {
            let file = *s.names.get(from).ok_or(io::Error::from(ErrorKind::NotFound))?;
            // One change of the folder: both names or none.
            s.names.remove(from);
            s.change_name(to, Some(file));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.whole_call(|s| {
            s.change_name(path, None);
            Ok(())
        })
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.whole_call(|s| {
            if s.names.keys().any(|name| folder_of_name(name) != folder) {
                return Err(ErrorKind::NotFound.into());
            }
            s.synced_names = s.names.clone();
            s.changes.clear();
            Ok(())
        })
    }
}
