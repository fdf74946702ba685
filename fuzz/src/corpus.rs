//! The inputs that mutations start from: the seeds of a target, files of a folder, and inputs that reached new code.

use crate::targets::Target;
use std::path::{Path, PathBuf};

/// A name for an input: a hash of its bytes (FNV-1a).
pub fn input_name(data: &[u8]) -> String {
    let hash = data.iter().fold(0xCBF2_9CE4_8422_2325, |h: u64, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01B3));
    format!("{hash:016x}")
}

/// The files of `dir`, shortest first, with their bytes. None if there is no such folder.
pub fn read_corpus(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let files = entries.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.is_file());
    let mut all: Vec<(PathBuf, Vec<u8>)> = files.filter_map(|p| Some((p.clone(), std::fs::read(&p).ok()?))).collect();
    all.sort_by(|a, b| (a.1.len(), &a.0).cmp(&(b.1.len(), &b.0)));
    all
}

/// Writes `data` into `dir` under its hash and `suffix`, and gives the path.
///
/// # Errors
/// Those of writing.
pub fn write_input(dir: &Path, data: &[u8], suffix: &str) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join(format!("{}{suffix}", input_name(data)));
    std::fs::write(&path, data)?;
    Ok(path)
}

/// Words as a dictionary of libFuzzer: a line for each, in quotes.
pub fn dictionary(words: &[&str]) -> String {
    let quoted = |byte: u8| match byte {
        b'"' | b'\\' => format!("\\{}", byte as char),
        b' '..=b'~' => (byte as char).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    words.iter().map(|word| format!("\"{}\"\n", word.bytes().map(quoted).collect::<String>())).collect()
}

/// Writes the seeds of `targets` to `dir/TARGET/HASH`, and their words to `dir/TARGET.dict`; gives the number and the
/// bytes of the seeds.
///
/// # Errors
/// Those of writing.
pub fn write_seeds(dir: &Path, targets: &[Target]) -> std::io::Result<(usize, usize)> {
    let mut all = (0, 0);
    for t in targets {
        for seed in (t.seeds)() {
            write_input(&dir.join(t.name), &seed, "")?;
            all = (all.0 + 1, all.1 + seed.len());
        }
        if !t.words.is_empty() {
            std::fs::write(dir.join(t.name).with_extension("dict"), dictionary(t.words))?;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_lines_of_a_dictionary() {
        assert_eq!(
            dictionary(&["axis=", "a\"\\b", "}\n", "é"]),
            "\"axis=\"\n\"a\\\"\\\\b\"\n\"}\\x0a\"\n\"\\xc3\\xa9\"\n"
        );
    }
}
