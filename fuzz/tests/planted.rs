//! The planted miscompiles still fit the sources that they change.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs::{read_dir, read_to_string};
use std::path::Path;

/// The lines of each hunk of a patch before it is applied, with the file that they stand in.
fn old_lines(patch: &str) -> Vec<(String, String)> {
    let mut hunks: Vec<(String, String)> = Vec::new();
    let mut file = "";
    for line in patch.lines() {
        if let Some(name) = line.strip_prefix("--- a/") {
            file = name;
        } else if line.starts_with("@@ ") {
            hunks.push((file.to_string(), String::new()));
        } else if let (Some((_, hunk)), Some(old)) = (hunks.last_mut(), line.strip_prefix([' ', '-'])) {
            hunk.push_str(old);
            hunk.push('\n');
        }
    }
    hunks
}

#[test]
fn each_patch_fits_its_file_and_names_a_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut patches = 0;
    for entry in read_dir(root.join("fuzz/planted")).unwrap() {
        let path = entry.unwrap().path();
        let patch = read_to_string(&path).unwrap();
        let target = patch.lines().find_map(|l| l.strip_prefix("Target: "));
        assert!(target.is_some_and(|t| arenagrad_fuzz::targets::TARGETS.iter().any(|o| o.name == t)), "{path:?}");
        let hunks = old_lines(&patch);
        assert!(!hunks.is_empty(), "{path:?}");
        for (file, old) in hunks {
            let text = read_to_string(root.join(&file)).unwrap();
            assert_eq!(text.matches(&old).count(), 1, "{path:?}: these lines of {file} have changed:\n{old}");
        }
        patches += 1;
    }
    assert!(patches > 0);
}
