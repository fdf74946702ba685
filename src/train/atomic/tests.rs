//! Replacing files on a real disk, and on a model of one that fails at each call.

use super::disk_model::{DiskFault, ModelDisk};
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
    assert_eq!(e, format!("{}: is a directory", dir.display()));
    assert!(dir.is_dir());
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn strays_of_killed_processes_are_written_over() {
    let dir = scratch("stray");
    fs::write(dir.join(".w.tmp"), b"a longer file that a killed process has left").unwrap();
    write_atomically(dir.join("w"), b"new").unwrap();
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
    let circle = dir.join("circle");
    symlink("circle", &circle).unwrap();
    assert!(write_atomically(&circle, b"x").unwrap_err().to_string().contains("circle"));
    assert!(fs::symlink_metadata(&circle).unwrap().is_symlink(), "what cannot be looked at is not replaced");
    write_atomically(Path::new("/dev/null"), b"x").unwrap();
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    fs::remove_dir_all(&dir).unwrap();
}

/// What the model takes for granted.
#[test]
fn the_systems_disk_does_what_the_model_of_one_does() {
    let dir = scratch("system");
    let (disk, path, other) = (SystemDisk, dir.join("w"), dir.join("other"));
    let mut file = disk.open(&path).unwrap();
    disk.write_all(&mut file, b"some bytes").unwrap();
    let again = disk.open(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"some bytes", "a file that is opened again keeps its bytes");
    disk.lock(&file).unwrap();
    assert!(again.try_lock().is_err(), "there is one holder at a time");
    drop(file);
    disk.lock(&again).unwrap();
    disk.empty(&again).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    assert!(disk.is_at(&again, &path).unwrap());
    disk.rename(&path, &other).unwrap();
    assert_eq!([&path, &other].map(|p| disk.is_at(&again, p).unwrap()), [false, true]);
    if cfg!(unix) {
        assert!(disk.is_at(&again, &other.join("below a file")).is_err());
        assert!(disk.sync_folder(&dir.join("absent")).is_err());
    }
    if cfg!(target_os = "linux") {
        assert!(disk.sync(&disk.open(Path::new("/dev/null")).unwrap()).is_err(), "a device cannot be synced");
    }
    disk.remove(&other).unwrap();
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    fs::remove_dir_all(&dir).unwrap();
}

const OLD: &[u8] = b"the old bytes";
const NEW: &[u8] = b"new bytes, and more of them";

/// A way to replace a file.
type Replace = fn(&ModelDisk, &Path, &[u8]) -> io::Result<()>;

fn replace(disk: &ModelDisk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_atomically(disk, path, None, &[bytes])
}

/// The first promise that is broken when `disk` is used with its fault.
fn broken_promise(disk: &ModelDisk, path: &Path, old: Option<&[u8]>, replace: Replace) -> Result<(), String> {
    let done = replace(disk, path, NEW);
    let (old, new) = (old.map(<[u8]>::to_vec), Some(NEW.to_vec()));
    let there = disk.read(path);
    let told = format!("{:?}, {done:?}", disk.fault);
    if there != old && there != new {
        return Err(format!("{told}: a reader finds {there:?}"));
    }
    if let Some(torn) = disk.after_power_loss(path).into_iter().find(|b| *b != old && *b != new) {
        return Err(format!("{told}: a loss of power leaves {torn:?}"));
    }
    if done.is_ok() && disk.after_power_loss(path) != [new.clone()].into() {
        return Err(format!("{told}: a loss of power undoes what was done"));
    }
    let removed = disk.fault.is_none_or(|f| disk.calls() > f.0 + 1);
    if done.is_err() && !disk.ended() && removed && disk.names().iter().any(|name| name != path) {
        return Err(format!("{told}: a temporary file stays: {:?}", disk.names()));
    }
    let next = disk.restart();
    replace(&next, path, b"the third").map_err(|e| format!("{told}: the next write fails: {e}"))?;
    match next.read(path).as_deref() == Some(b"the third") && next.names() == [path] {
        true => Ok(()),
        false => Err(format!("{told}: after the next write: {:?} of {:?}", next.read(path), next.names())),
    }
}

/// The promises broken by a way to replace a file, over each call and each fault.
fn broken_promises(replace: Replace) -> (usize, Vec<String>) {
    let path = Path::new("folder/w");
    let (mut scenes, mut broken) = (0, Vec::new());
    for old in [None, Some(OLD)] {
        let fresh = || old.map_or(ModelDisk::default(), |bytes| ModelDisk::holding(path, bytes));
        let quiet = fresh();
        replace(&quiet, path, NEW).unwrap();
        let faults = (0..quiet.calls()).flat_map(|at| DiskFault::ALL.map(|f| Some((at, f))));
        for fault in faults.chain([None]) {
            scenes += 1;
            broken.extend(broken_promise(&fresh().hit_by(fault), path, old, replace).err());
        }
    }
    (scenes, broken)
}

/// At each call: errors, half a write, the end of the process, a loss of power. The file holds the old bytes or the new
/// ones, and the next write goes well.
#[test]
fn no_fault_of_the_disk_tears_a_file() {
    let (scenes, broken) = broken_promises(replace);
    assert!(broken.is_empty(), "{} of {scenes}: {broken:#?}", broken.len());
    assert!(scenes > 100, "{scenes}");
}

/// A path without a folder is one of the present folder.
#[test]
fn the_folder_of_the_file_is_synced() {
    for path in ["w", "folder/w", "/folder/w"] {
        let (disk, path) = (ModelDisk::default(), Path::new(path));
        replace(&disk, path, NEW).unwrap();
        assert_eq!(disk.after_power_loss(path), [Some(NEW.to_vec())].into(), "{path:?}");
    }
}

/// Once the temporary file is the writer's own, it goes if the write fails.
#[test]
fn a_write_that_fails_leaves_no_temporary_file() {
    let path = Path::new("folder/w");
    let disk = || ModelDisk::holding(path, OLD);
    let quiet = disk();
    replace(&quiet, path, NEW).unwrap();
    // The file is opened, locked, looked for and emptied before bytes are written to it.
    for call in 4..quiet.calls() {
        for fault in [DiskFault::Fails(ErrorKind::StorageFull), DiskFault::FailsHalfway(ErrorKind::Other)] {
            let disk = disk().hit_by(Some((call, fault)));
            assert!(replace(&disk, path, NEW).is_err(), "{call}, {fault:?}");
            assert_eq!(disk.names(), [path], "{call}, {fault:?}");
        }
    }
}

#[test]
fn a_lock_that_fails_ends_the_write_unless_the_disk_has_no_locks() {
    let path = Path::new("folder/w");
    let write = |lock: ErrorKind| {
        let disk = ModelDisk::holding(path, OLD).hit_by(Some((1, DiskFault::Fails(lock))));
        let done = replace(&disk, path, NEW).map_err(|e| e.kind());
        (done, disk.read(path))
    };
    assert_eq!(write(ErrorKind::Unsupported), (Ok(()), Some(NEW.to_vec())));
    assert_eq!(write(ErrorKind::PermissionDenied), (Err(ErrorKind::PermissionDenied), Some(OLD.to_vec())));
}

/// The model sees each shortcut that a writer could take.
#[test]
fn the_model_of_a_disk_finds_careless_writers() {
    fn in_place(disk: &ModelDisk, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = disk.open(path)?;
        disk.empty(&file)?;
        disk.write_all(&mut file, bytes)?;
        disk.sync(&file)?;
        disk.sync_folder(Path::new("folder"))
    }
    fn without_sync(disk: &ModelDisk, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temp = temporary_path(path)?;
        let mut file = lock_temporary(disk, &temp)?;
        disk.write_all(&mut file, bytes)?;
        disk.rename(&temp, path)?;
        disk.sync_folder(Path::new("folder"))
    }
    fn without_folder_sync(disk: &ModelDisk, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temp = temporary_path(path)?;
        let mut file = lock_temporary(disk, &temp)?;
        fill_temporary(disk, &mut file, None, &[bytes])?;
        disk.rename(&temp, path)
    }
    fn with_leftovers(disk: &ModelDisk, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temp = temporary_path(path)?;
        let mut file = disk.open(&temp)?;
        fill_temporary(disk, &mut file, None, &[bytes])?;
        disk.rename(&temp, path)?;
        disk.sync_folder(Path::new("folder"))
    }
    let sees = |replace: Replace, words: &str| {
        let (_, broken) = broken_promises(replace);
        assert!(broken.iter().any(|b| b.contains(words)), "{words}: {broken:#?}");
    };
    sees(in_place, "a reader finds");
    sees(without_sync, "a loss of power leaves");
    sees(without_folder_sync, "a loss of power undoes");
    sees(with_leftovers, "after the next write");
}
