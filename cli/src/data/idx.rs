//! IDX files, the format of MNIST: magic number, big-endian sizes, elements. Plain or gzipped.
//!
//! Invariant: a file is hostile until proven good. No allocation takes its size from a number in the file, and no more
//! is unpacked than the header announces. Errors name the file and the byte (of the unpacked file, if it is gzipped).

use super::{LabelledImages, LabelledSplit};
use crate::fail::{Fail, Run, fail_bad_input, fail_io};
use flate2::bufread::GzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Largest file, in unpacked bytes.
const LIMIT: u64 = 4 << 30;
/// Bytes of one read: a whole number of elements.
const PART: usize = 1 << 16;
/// Labels must be below this.
const CLASS_LIMIT: u8 = 200;

/// Reads the four files of a folder, under MNIST's names: images and labels, `train` and `t10k`.
pub fn load_idx(dir: &Path) -> Run<LabelledSplit> {
    let half = |prefix: &str| -> Run<LabelledImages> {
        let images = Idx::open(&find_idx_file(dir, &format!("{prefix}-images"), "idx3-ubyte")?, 3)?;
        let labels = Idx::open(&find_idx_file(dir, &format!("{prefix}-labels"), "idx1-ubyte")?, 1)?;
        let (n, m) = (images.dims[0], labels.dims[0]);
        if n != m {
            let (i, l) = (images.path.display(), labels.path.display());
            return Err(fail_bad_input(format!("{i} has {n} images, {l} has {m} labels")));
        }
        let labels = idx_classes(labels)?;
        Ok(LabelledImages { size: [images.dims[1], images.dims[2]], pixels: idx_pixels(images)?, labels })
    };
    LabelledSplit::new(half("train")?, half("t10k")?)
}

/// The path of a file under one of its usual names: with `-` or `.` before the kind, gzipped or not.
fn find_idx_file(dir: &Path, stem: &str, kind: &str) -> Run<PathBuf> {
    let names = ["-", "."].into_iter().flat_map(|dot| ["", ".gz"].map(|gz| format!("{stem}{dot}{kind}{gz}")));
    let mut paths = names.map(|n| dir.join(n));
    let missing = || fail_bad_input(format!("{}: there is no {stem}-{kind} or {stem}-{kind}.gz", dir.display()));
    paths.find(|p| p.is_file()).ok_or_else(missing)
}

/// A file whose magic number and sizes have been read.
struct Idx {
    path: PathBuf,
    /// Type of the elements: 0x08 for bytes, 0x0d for floats.
    kind: u8,
    dims: Vec<usize>,
    /// The rest of the file, unpacked.
    rest: Box<dyn Read>,
    /// Bytes read so far.
    at: usize,
    /// Bytes of elements that the sizes announce.
    data: u64,
}

impl Idx {
    /// An error at byte `at`.
    fn fail(&self, at: impl std::fmt::Display, what: impl std::fmt::Display) -> Fail {
        fail_bad_input(format!("{}: byte {at}: {what}", self.path.display()))
    }

    /// The error of a file that ends too early, at byte `at`.
    fn truncated(&self, at: u64) -> Fail {
        self.fail(at, format!("the file is truncated: its sizes are {:?}", self.dims))
    }

    /// The error of a file that goes on after its elements, from byte `at`.
    fn surplus(&self, at: u64) -> Fail {
        self.fail(at, format!("bytes follow the elements: its sizes are {:?}", self.dims))
    }

    /// Opens a file of this rank and reads its magic number and sizes.
    fn open(path: &Path, rank: u8) -> Run<Idx> {
        let file = File::open(path).map_err(fail_io(path))?;
        let length = file.metadata().map_err(fail_io(path))?.len();
        let mut file = BufReader::new(file);
        let packed = file.fill_buf().map_err(fail_io(path))?.starts_with(&[0x1f, 0x8b]);
        let rest: Box<dyn Read> = if packed { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
        let mut idx = Idx { path: path.to_path_buf(), kind: 0, dims: Vec::new(), rest, at: 0, data: 0 };
        let mut magic = [0; 4];
        match idx.fill(&mut magic)? {
            4 => {}
            _ => return Err(idx.fail(idx.at, "the file ends inside the magic")),
        }
        match magic {
            [0, 0, kind @ (0x08 | 0x0d), r] if r == rank => idx.kind = kind,
            _ => {
                let text = format!("magic {magic:02x?}, where [00, 00, 08, {rank:02x}] is expected (or 0d: floats)");
                return Err(idx.fail(0, text));
            }
        }
        for _ in 0..rank {
            let mut size = [0; 4];
            match idx.fill(&mut size)? {
                4 => idx.dims.push(u32::from_be_bytes(size) as usize),
                _ => return Err(idx.fail(idx.at, "the file ends inside the sizes")),
            }
        }
        let size = if idx.kind == 0x08 { 1 } else { 4 };
        // An overflow is more than any file holds.
        idx.data = idx.dims.iter().try_fold(size, |n: u64, &d| n.checked_mul(d as u64)).unwrap_or(u64::MAX);
        let want = idx.data.saturating_add(idx.at as u64);
        match packed {
            // The unpacked length is known only at the end.
            true => Ok(idx),
            false if length < want => Err(idx.truncated(length)),
            false if length > want => Err(idx.surplus(want)),
            false => Ok(idx),
        }
    }

    /// Reads until `part` is full or the file ends, and returns the number of bytes read.
    fn fill(&mut self, part: &mut [u8]) -> Run<usize> {
        let mut n = 0;
        while n < part.len() {
            match self.rest.read(&mut part[n..]) {
                Ok(0) => break,
                Ok(more) => n += more,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    return Err(fail_bad_input(format!("{}: byte {} unpacked: {e}", self.path.display(), self.at + n)));
                }
            }
        }
        self.at += n;
        Ok(n)
    }

    /// Reads the elements in parts of at most [`PART`] bytes and calls `consume` with the first byte's position and the
    /// bytes of each. Fails unless the file ends with its last element.
    fn elements(&mut self, mut consume: impl FnMut(&Idx, usize, &[u8]) -> Run) -> Run {
        let mut part = vec![0; PART];
        let mut left = self.data;
        while left > 0 {
            if self.at as u64 > LIMIT {
                return Err(fail_bad_input(format!("{}: more than {LIMIT} bytes", self.path.display())));
            }
            let want = left.min(PART as u64) as usize;
            let at = self.at;
            let have = self.fill(&mut part[..want])?;
            if have < want {
                return Err(self.truncated(self.at as u64));
            }
            consume(self, at, &part[..want])?;
            left -= want as u64;
        }
        match self.fill(&mut part[..1])? {
            0 => Ok(()),
            _ => Err(self.surplus(self.at as u64 - 1)),
        }
    }
}

/// All pixels, in [0, 1].
fn idx_pixels(mut idx: Idx) -> Run<Vec<f32>> {
    let mut pixels: Vec<f32> = Vec::new();
    idx.elements(|idx, at, part| {
        if idx.kind == 0x08 {
            pixels.extend(part.iter().map(|&b| f32::from(b) / 255.0));
            return Ok(());
        }
        for (i, b) in part.as_chunks::<4>().0.iter().enumerate() {
            let x = f32::from_be_bytes(*b);
            if !(0.0..=1.0).contains(&x) {
                return Err(idx.fail(at + 4 * i, format!("pixel {x} is outside 0 to 1")));
            }
            pixels.push(x);
        }
        Ok(())
    })?;
    Ok(pixels)
}

/// All labels.
fn idx_classes(mut idx: Idx) -> Run<Vec<i32>> {
    if idx.kind != 0x08 {
        return Err(idx.fail(2, "labels must be bytes (element type 08)"));
    }
    let mut labels = Vec::new();
    idx.elements(|idx, at, part| {
        if let Some(i) = part.iter().position(|&l| l >= CLASS_LIMIT) {
            return Err(idx.fail(at + i, format!("label {} is not below {CLASS_LIMIT}", part[i])));
        }
        labels.extend(part.iter().map(|&l| i32::from(l)));
        Ok(())
    })?;
    Ok(labels)
}
