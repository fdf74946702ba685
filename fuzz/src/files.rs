//! The folder of this package, and paths of the temporary files that targets read and write.

use std::path::{Path, PathBuf};

/// The folder of this package.
pub fn package_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A path for this process and thread, in memory where there are such files: a save waits for the disk.
pub fn file_path(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let dir = if memory.is_dir() { memory } else { std::env::temp_dir() };
    dir.join(format!("arenagrad-fuzz-{}-{:?}-{name}", std::process::id(), std::thread::current().id()))
}
