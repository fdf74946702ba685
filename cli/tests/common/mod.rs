//! Runs the program as a user does, in a folder of its own.
//!
//! Invariant: a scratch folder is empty at first and gone after the test. For the tests of this package.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes when it is dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// An empty folder.
    pub fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("arenagrad-cli-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }

    /// A file with these bytes.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program, not started yet.
pub fn program(args: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_arenagrad"));
    c.args(args);
    c
}

/// Runs the program.
pub fn run(args: &[&str]) -> Output {
    program(args).output().unwrap()
}

/// Runs the program, which succeeds, and returns what it prints.
pub fn good(args: &[&str]) -> String {
    let out = run(args);
    let (text, errors) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    assert_eq!(out.status.code(), Some(0), "{args:?}: {errors}");
    text
}

/// Runs the program, which fails with `code`, one line on standard error, and all of `parts` in it.
pub fn fails(code: i32, args: &[&str], parts: &[&str]) {
    let out = run(args);
    let errors = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(code), "{args:?}: {errors}");
    assert_eq!(errors.lines().count(), 1, "{args:?}: {errors}");
    assert!(errors.starts_with("arenagrad: ") && !errors.contains("panicked"), "{errors}");
    for part in parts {
        assert!(errors.contains(part), "{args:?}: {errors:?} should mention {part:?}");
    }
}

/// `summary.json` of a run.
pub fn summary(dir: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(dir.join("summary.json")).unwrap()).unwrap()
}

/// A small IDX pair for training and one for testing: `n` images of 9 by 7.
pub fn idx(s: &Scratch, dir: &str, n: u32) -> String {
    for (prefix, n) in [("train", n), ("t10k", n / 2)] {
        s.file(&format!("{dir}/{prefix}-images-idx3-ubyte"), images(n));
        s.file(&format!("{dir}/{prefix}-labels-idx1-ubyte"), labels(n));
    }
    s.path(dir)
}

/// An IDX file of images.
pub fn images(n: u32) -> Vec<u8> {
    let mut out = vec![0, 0, 8, 3];
    [n, 9, 7].iter().for_each(|d| out.extend(d.to_be_bytes()));
    out.extend((0..n * 63).map(|i| (i * i % 251) as u8));
    out
}

/// An IDX file of labels.
pub fn labels(n: u32) -> Vec<u8> {
    let mut out = vec![0, 0, 8, 1];
    out.extend(n.to_be_bytes());
    out.extend((0..n).map(|i| (i % 3) as u8));
    out
}
