//! IDX files, the format of MNIST: a magic, big-endian sizes, elements. Plain or gzipped.
//!
//! Invariant: a file is hostile until proven good; nothing is allocated by a number that stands in it. Errors name the
//! file and the byte (of the unpacked file, if it is gzipped).

use super::{Images, Split};
use crate::fail::{Fail, Run, bad};
use crate::sys;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest file, packed or not.
const LIMIT: u64 = 4 << 30;
const CLASS_LIMIT: u8 = 200;

/// The four files of a folder, under their usual names.
pub fn load(dir: &Path) -> Run<Split> {
    let half = |prefix: &str| -> Run<Images> {
        let (image_path, pixels, size, n) = images(&find(dir, &format!("{prefix}-images"), "idx3-ubyte")?)?;
        let (label_path, labels) = labels(&find(dir, &format!("{prefix}-labels"), "idx1-ubyte")?)?;
        if n != labels.len() {
            let (i, l) = (image_path.display(), label_path.display());
            return Err(bad(format!("{i} has {n} images, {l} has {} labels", labels.len())));
        }
        Ok(Images { size, pixels, labels })
    };
    Split::new(half("train")?, half("t10k")?)
}

fn find(dir: &Path, stem: &str, kind: &str) -> Run<PathBuf> {
    let names = ["-", "."].into_iter().flat_map(|dot| ["", ".gz"].map(|gz| format!("{stem}{dot}{kind}{gz}")));
    let mut paths = names.map(|n| dir.join(n));
    let missing = || bad(format!("{}: there is no {stem}-{kind} or {stem}-{kind}.gz", dir.display()));
    paths.find(|p| p.is_file()).ok_or_else(missing)
}

struct Idx {
    path: PathBuf,
    kind: u8,
    dims: Vec<usize>,
    data_at: usize,
    bytes: Vec<u8>,
}

impl Idx {
    fn fail(&self, at: usize, what: impl std::fmt::Display) -> Fail {
        bad(format!("{}: byte {at}: {what}", self.path.display()))
    }

    fn read(path: &Path, rank: u8) -> Run<Idx> {
        let mut bytes = sys::read_file(path, LIMIT)?;
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            let mut unpack = flate2::read::GzDecoder::new(bytes.as_slice()).take(LIMIT + 1);
            let done = unpack.read_to_end(&mut plain);
            done.map_err(|e| bad(format!("{}: byte {} unpacked: {e}", path.display(), plain.len())))?;
            bytes = plain;
        }
        let mut idx = Idx { path: path.to_path_buf(), kind: 0, dims: Vec::new(), data_at: 0, bytes };
        let end = idx.bytes.len();
        match idx.bytes.get(..4) {
            Some(&[0, 0, kind @ (0x08 | 0x0d), r]) if r == rank => idx.kind = kind,
            Some(magic) => {
                let text = format!("magic {magic:02x?}, where [00, 00, 08, {rank:02x}] is expected (or 0d: floats)");
                return Err(idx.fail(0, text));
            }
            None => return Err(idx.fail(end, "the file ends inside the magic")),
        }
        for i in 0..usize::from(rank) {
            let at = 4 + 4 * i;
            match idx.bytes.get(at..at + 4) {
                Some(&[a, b, c, d]) => idx.dims.push(u32::from_be_bytes([a, b, c, d]) as usize),
                _ => return Err(idx.fail(end, "the file ends inside the sizes")),
            }
        }
        idx.data_at = 4 + 4 * usize::from(rank);
        let size = if idx.kind == 0x08 { 1 } else { 4 };
        let want = idx.dims.iter().try_fold(size, |n: usize, &d| n.checked_mul(d));
        let want = want.and_then(|w| w.checked_add(idx.data_at));
        if want != Some(end) {
            let dims = &idx.dims;
            let what = if want.is_none_or(|w| w > end) { "the file is truncated" } else { "bytes follow the elements" };
            return Err(idx.fail(end.min(want.unwrap_or(end)), format!("{what}: its sizes are {dims:?}")));
        }
        Ok(idx)
    }

    fn data(&self) -> &[u8] {
        &self.bytes[self.data_at..]
    }
}

fn images(path: &Path) -> Run<(PathBuf, Vec<f32>, [usize; 2], usize)> {
    let idx = Idx::read(path, 3)?;
    let pixels = match idx.kind {
        0x08 => idx.data().iter().map(|&b| f32::from(b) / 255.0).collect(),
        _ => {
            let mut pixels = Vec::with_capacity(idx.data().len() / 4);
            for (i, b) in idx.data().as_chunks::<4>().0.iter().enumerate() {
                let x = f32::from_be_bytes(*b);
                if !(0.0..=1.0).contains(&x) {
                    return Err(idx.fail(idx.data_at + 4 * i, format!("pixel {x} is outside 0 to 1")));
                }
                pixels.push(x);
            }
            pixels
        }
    };
    let size = [idx.dims[1], idx.dims[2]];
    Ok((idx.path, pixels, size, idx.dims[0]))
}

fn labels(path: &Path) -> Run<(PathBuf, Vec<i32>)> {
    let idx = Idx::read(path, 1)?;
    if idx.kind != 0x08 {
        return Err(idx.fail(2, "labels are bytes"));
    }
    if let Some(i) = idx.data().iter().position(|&l| l >= CLASS_LIMIT) {
        return Err(idx.fail(idx.data_at + i, format!("label {} is not below {CLASS_LIMIT}", idx.data()[i])));
    }
    let labels = idx.data().iter().map(|&l| i32::from(l)).collect();
    Ok((idx.path, labels))
}
