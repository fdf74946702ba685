//! The source files of the repository.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// The folder of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below `dir`, with their text.
pub fn sources(dir: &str) -> Vec<(String, String)> {
    fn walk(dir: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => walk(&path, into),
                false if path.extension().is_some_and(|e| e == "rs") => into.push(path),
                false => {}
            }
        }
    }
    let mut paths = Vec::new();
    walk(&root().join(dir), &mut paths);
    paths.sort();
    let name = |p: &Path| p.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
    paths.iter().map(|p| (name(p), std::fs::read_to_string(p).unwrap())).collect()
}

/// The name that a path has for the module in file `name`: that of the file, or of its folder.
pub fn module_name(name: &str) -> &str {
    let path = Path::new(name);
    let own = path.file_stem().unwrap().to_str().unwrap();
    let folder = || path.parent().and_then(Path::file_name).unwrap().to_str().unwrap();
    if ["mod", "lib"].contains(&own) { folder() } else { own }
}
