//! Opening files that are read: regular files only; files of other formats, named by their first bytes.

use crate::error::{Error, Kind, Result};
use std::fs::File;
use std::path::Path;

/// Opens the regular file `path`, and gives its length in bytes.
///
/// Errors: it cannot be opened; it is a folder, a pipe or a device. Opening a pipe would wait for its writer, and none
/// of them has a length that could bound what is read.
pub fn open_regular(path: &Path) -> Result<(File, u64)> {
    // Asked before opening: opening a pipe waits.
    check_is_regular(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    let found = file.metadata()?;
    check_is_regular(&found)?;
    Ok((file, found.len()))
}

fn check_is_regular(found: &std::fs::Metadata) -> Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let why = if found.is_dir() { "a directory, not a file" } else { "no regular file, so its length is unknown" };
    Err(Error::new(Kind::Data, why))
}

/// The bytes that [`other_format`] looks at.
pub(super) const FIRST_BYTES: u64 = 64;

/// First bytes, and what a file with them is.
const FORMATS: [(&[u8], &str); 11] = [
    (
        b"version https://git-lfs.github.com/spec/",
        "a Git LFS pointer, which stands for the file: fetch the file with `git lfs pull`",
    ),
    (b"PK\x03\x04", "a zip archive, as torch.save and numpy.savez write: `Weights::open` reads those of torch.save"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"\x1f\x8b", "a gzip file: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd file: unpack it first"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes: load it in Python and save its tensors with safetensors"),
    (b"\x93NUMPY", "an npy file: read it with `read_npy`"),
    (b"\x89AGP\r\n\x1a\n", "an exported program: open it with `Program::open`"),
    (b"GGUF", "a GGUF file: open it with `Gguf::open`"),
    (b"lmgg", "a GGML file, older than GGUF: convert it with llama.cpp's scripts"),
    (b"tjgg", "a GGJT file, older than GGUF: convert it with llama.cpp's scripts"),
];

/// What a file is that begins with `first` and is not what was expected, and what to do; `None` if that is not known.
///
/// A safetensors file begins with any eight bytes, so its reader asks only when these are no length that fits.
pub(super) fn other_format(first: &[u8]) -> Option<&'static str> {
    if let Some(known) = FORMATS.iter().find(|f| first.starts_with(f.0)) {
        return Some(known.1);
    }
    // Protocols 2 to 5 begin with their number.
    if matches!(first, [0x80, 2..=5, ..]) {
        return Some("a pickle, as of torch.save before torch 1.6: torch.save(torch.load(path), path) writes it anew");
    }
    let text = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first).trim_ascii_start();
    let begins = |word: &str| text.get(..word.len()).is_some_and(|t| t.eq_ignore_ascii_case(word.as_bytes()));
    match ["<!doctype html", "<html", "<?xml"].into_iter().any(begins) {
        true => Some("a page of HTML or XML, as a server sends when it refuses a download: download the file again"),
        false => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_their_first_bytes() {
        for (first, part) in [
            (&b"version https://git-lfs.github.com/spec/v1\noid sha256:"[..], "`git lfs pull`"),
            (b"PK\x03\x04\x00", "zip archive"),
            (b"\x80\x02\x8a\x0a", "pickle"),
            (b"\x80\x04\x95", "pickle"),
            (b"<!DOCTYPE html>\n", "HTML"),
            (b"\xef\xbb\xbf\n <HTML>", "HTML"),
            (b"<?xml version=\"1.0\"?><Error>", "XML"),
            (b"GGUF\x03", "GGUF"),
        ] {
            assert!(other_format(first).is_some_and(|text| text.contains(part)), "{part}");
        }
        for first in [&b""[..], b"P", b"\x80", b"\x80\x01", b"<", b"\x10\0\0\0\0\0\0\0{\"", b"version 1"] {
            assert_eq!(other_format(first), None, "{first:?}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let path = std::env::temp_dir().join(format!("arenagrad-pipe-{}.index.json", std::process::id()));
        // A list of shards, by its name.
        let _ = std::fs::remove_file(&path);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let texts = [
            open_regular(&path).map(|_| ()),
            crate::train::Weights::open(&path).map(|_| ()),
            crate::train::Loaded::open(&path).map(|_| ()),
            #[cfg(feature = "gguf")]
            crate::train::gguf::Gguf::open(&path).map(|_| ()),
            crate::train::data::read_npy(&path).map(|_| ()),
            crate::train::data::read_npy_within(&path, 8).map(|_| ()),
            crate::train::data::read_idx(&path).map(|_| ()),
        ];
        for (i, e) in texts.into_iter().enumerate() {
            let e = e.unwrap_err();
            assert!(e.kind == Kind::Data && e.message.contains("no regular file"), "{i}: {e}");
        }
        #[cfg(feature = "csv")]
        assert!(crate::train::data::read_csv(&path, true).unwrap_err().message.contains("no regular file"));
        std::fs::remove_file(&path).unwrap();
        assert!(open_regular(&std::env::temp_dir()).is_err());
    }
}
