//! Labelled images in four IDX files under MNIST's names, plain or gzipped. The library reads the format.
//!
//! Invariant: no more is unpacked than a header announces. Errors name the file and the byte (of the unpacked file, if
//! it is gzipped).

use super::{LabelledImages, LabelledSplit};
use crate::fail::{Run, fail_bad_input, fail_io};
use arenagrad::graph::DType;
use arenagrad::train::data::Idx;
use arenagrad::train::open_regular;
use flate2::bufread::GzDecoder;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Most bytes of elements.
const LIMIT: u64 = 4 << 30;
/// Bytes of one read: a whole number of elements.
const PART: usize = 1 << 16;
/// Labels must be below this.
const CLASS_LIMIT: u8 = 200;

/// Reads the four files of a folder, under MNIST's names: images and labels, `train` and `t10k`.
pub fn load_idx_folder(dir: &Path) -> Run<LabelledSplit> {
    let half = |prefix: &str| -> Run<LabelledImages> {
        let i = find_in_idx_folder(dir, &format!("{prefix}-images"), "idx3-ubyte")?;
        let l = find_in_idx_folder(dir, &format!("{prefix}-labels"), "idx1-ubyte")?;
        let (images, labels) = (open_in_idx_folder(&i, 3)?, open_in_idx_folder(&l, 1)?);
        let (&[n, height, width], &[m]) = (images.dims(), labels.dims()) else {
            return Err(fail_bad_input(format!("{}: another number of sizes", dir.display())));
        };
        if n != m {
            return Err(fail_bad_input(format!("{} has {n} images, {} has {m} labels", i.display(), l.display())));
        }
        let labels = idx_classes(labels)?;
        Ok(LabelledImages { size: [height, width], pixels: idx_pixels(images)?, labels })
    };
    LabelledSplit::new(half("train")?, half("t10k")?)
}

/// The path of a file under one of its usual names: with `-` or `.` before the kind, gzipped or not.
fn find_in_idx_folder(dir: &Path, stem: &str, kind: &str) -> Run<PathBuf> {
    let names = ["-", "."].into_iter().flat_map(|dot| ["", ".gz"].map(|gz| format!("{stem}{dot}{kind}{gz}")));
    let mut paths = names.map(|n| dir.join(n));
    let missing = || fail_bad_input(format!("{}: there is no {stem}-{kind} or {stem}-{kind}.gz", dir.display()));
    paths.find(|p| p.is_file()).ok_or_else(missing)
}

/// A file of labels or images, unpacked while it is read.
type IdxFile = Idx<Box<dyn Read>>;

/// Opens a file of this rank whose elements are bytes or floats.
fn open_in_idx_folder(path: &Path, rank: u8) -> Run<IdxFile> {
    let (file, length) = open_regular(path).map_err(|e| e.context(path.display()))?;
    let mut file = BufReader::new(file);
    let packed = file.fill_buf().map_err(fail_io(path))?.starts_with(&[0x1f, 0x8b]);
    let rest: Box<dyn Read> = if packed { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
    // The unpacked length of a packed file is known only at the end.
    let idx = Idx::new(path.display(), rest, (!packed).then_some(length))?;
    if !matches!(idx.magic(), [0, 0, 0x08 | 0x0d, r] if r == rank) {
        let text = format!("magic {:02x?}, where [00, 00, 08, {rank:02x}] is expected (or 0d: floats)", idx.magic());
        return Err(idx.error(0, text).into());
    }
    if idx.left() > LIMIT {
        return Err(idx.error(4, format!("more than {LIMIT} bytes of elements")).into());
    }
    Ok(idx)
}

/// All pixels, in [0, 1].
fn idx_pixels(mut idx: IdxFile) -> Run<Vec<f32>> {
    let mut pixels: Vec<f32> = Vec::new();
    let (bytes, mut part) = (idx.dtype() == DType::U8, vec![0; PART]);
    loop {
        let n = idx.read_part(&mut part)?;
        match (n, bytes) {
            (0, _) => return Ok(pixels),
            (_, true) => pixels.extend(part[..n].iter().map(|&b| f32::from(b) / 255.0)),
            (_, false) => {
                for b in part[..n].as_chunks::<4>().0 {
                    let x = f32::from_le_bytes(*b);
                    if !(0.0..=1.0).contains(&x) {
                        let at = 16 + 4 * pixels.len() as u64;
                        return Err(idx.error(at, format!("pixel {x} is outside 0 to 1")).into());
                    }
                    pixels.push(x);
                }
            }
        }
    }
}

/// All labels.
fn idx_classes(mut idx: IdxFile) -> Run<Vec<i32>> {
    if idx.dtype() != DType::U8 {
        return Err(idx.error(2, "labels must be bytes (element type 08)").into());
    }
    let (mut labels, mut part) = (Vec::new(), vec![0; PART]);
    loop {
        let n = idx.read_part(&mut part)?;
        if n == 0 {
            return Ok(labels);
        }
        if let Some(i) = part[..n].iter().position(|&l| l >= CLASS_LIMIT) {
            let at = 8 + labels.len() as u64 + i as u64;
            return Err(idx.error(at, format!("label {} is not below {CLASS_LIMIT}", part[i])).into());
        }
        labels.extend(part[..n].iter().map(|&l| i32::from(l)));
    }
}
