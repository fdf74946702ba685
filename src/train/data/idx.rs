//! IDX files, the format of MNIST: magic number, big-endian sizes, elements.
//!
//! Invariant: a file is hostile until proven good. No allocation takes its size from a number in the file, and no more
//! is read than the header announces. Errors name the input and the byte.

use super::{Array, bad_data, open_data};
use crate::error::{Error, Result};
use crate::nodes::DType;
use std::fmt::Display;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

/// Bytes of one read: a whole number of elements.
const PART: usize = 1 << 16;
/// Largest number of dimensions.
const RANK_LIMIT: u8 = 8;

/// The types of elements and their codes. 16-bit integers, code 0b, have no dtype here.
const CODES: [(u8, DType); 5] =
    [(0x08, DType::U8), (0x09, DType::I8), (0x0c, DType::I32), (0x0d, DType::F32), (0x0e, DType::F64)];

/// Reads the file `path`.
///
/// Errors, of kind [`Kind::Data`](crate::error::Kind::Data), name the file and the byte: it is no IDX file, its
/// elements have 16 bits, it has more than 8 dimensions, or it ends before or goes on after its last element. A gzipped
/// file is read by [`Idx::new`] from a decoder, a pipe by [`Idx::new`], too.
pub fn read_idx(path: impl AsRef<Path>) -> Result<Array> {
    let path = path.as_ref();
    let (file, len) = open_data(path)?;
    Idx::new(path.display(), BufReader::new(file), Some(len))?.read_all()
}

/// An input whose magic number and sizes have been read. Its elements can be read in parts, so they need not fit in
/// memory.
///
/// ```
/// use arenagrad::train::data::Idx;
/// # fn main() -> arenagrad::error::Result<()> {
/// let bytes = [0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6];
/// let mut sum = 0;
/// let mut idx = Idx::new("pixels", &bytes[..], Some(bytes.len() as u64))?;
/// assert_eq!(idx.dims(), [2, 3]);
/// idx.each_part(|_, part| Ok(sum += part.iter().map(|&b| u32::from(b)).sum::<u32>()))?;
/// assert_eq!(sum, 21);
/// # Ok(())
/// # }
/// ```
pub struct Idx<R> {
    name: String,
    magic: [u8; 4],
    dtype: DType,
    dims: Vec<usize>,
    rest: R,
    /// Bytes read so far.
    at: u64,
    /// Bytes of elements that are still to be read.
    left: u64,
}

impl<R: Read> Idx<R> {
    /// Reads the magic number and the sizes of `input`, which errors call `name`. `length` is the length of the whole
    /// input, if it is known: that of a gzipped file is not. Errors as for [`read_idx`].
    pub fn new(name: impl Display, input: R, length: Option<u64>) -> Result<Idx<R>> {
        let (name, magic) = (name.to_string(), [0; 4]);
        let mut idx = Idx { name, magic, dtype: DType::U8, dims: Vec::new(), rest: input, at: 0, left: 0 };
        let mut magic = [0; 4];
        if idx.fill(&mut magic)? < 4 {
            return Err(idx.error(idx.at, "the file ends inside the magic"));
        }
        idx.magic = magic;
        let [0, 0, code, rank] = magic else {
            return Err(idx.error(0, format!("magic {magic:02x?}: not an IDX file, which begins with 00, 00")));
        };
        match CODES.iter().find(|c| c.0 == code) {
            Some(&(_, dtype)) => idx.dtype = dtype,
            None => return Err(idx.error(2, format!("magic {magic:02x?}: elements of type {code:02x} are unknown"))),
        }
        if rank > RANK_LIMIT {
            return Err(idx.error(3, format!("magic {magic:02x?}: rank {rank} is above {RANK_LIMIT}")));
        }
        for _ in 0..rank {
            let mut size = [0; 4];
            match idx.fill(&mut size)? {
                4 => idx.dims.push(u32::from_be_bytes(size) as usize),
                _ => return Err(idx.error(idx.at, "the file ends inside the sizes")),
            }
        }
        // An overflow is more than any file holds.
        let size = idx.dtype.size() as u64;
        idx.left = idx.dims.iter().try_fold(size, |n: u64, &d| n.checked_mul(d as u64)).unwrap_or(u64::MAX);
        let want = idx.left.saturating_add(idx.at);
        match length {
            Some(n) if n < want => Err(idx.truncated(n)),
            Some(n) if n > want => Err(idx.surplus(want)),
            _ => Ok(idx),
        }
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The first four bytes: 0, 0, the code of the element type, the number of dimensions.
    pub fn magic(&self) -> [u8; 4] {
        self.magic
    }

    /// Bytes of elements that are still to be read.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// An error at byte `at` of this input.
    pub fn error(&self, at: u64, what: impl Display) -> Error {
        bad_data(format!("{}: byte {at}: {what}", self.name))
    }

    /// The error of a file that ends too early, at byte `at`.
    fn truncated(&self, at: u64) -> Error {
        self.error(at, format!("the file is truncated: its sizes are {:?}", self.dims))
    }

    /// The error of a file that goes on after its elements, from byte `at`.
    fn surplus(&self, at: u64) -> Error {
        self.error(at, format!("bytes follow the elements: its sizes are {:?}", self.dims))
    }

    /// Reads until `part` is full or the input ends, and returns the number of bytes read.
    fn fill(&mut self, part: &mut [u8]) -> Result<usize> {
        let mut n = 0;
        while n < part.len() {
            match self.rest.read(&mut part[n..]) {
                Ok(0) => break,
                Ok(more) => n += more,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error(self.at + n as u64, e)),
            }
        }
        self.at += n as u64;
        Ok(n)
    }

    /// Reads the next elements, at most `part.len()` bytes of them, little-endian, and returns how many bytes these
    /// are: 0 at the end, where the input must end, too. Fails if `part` has no room for an element.
    pub fn read_part(&mut self, part: &mut [u8]) -> Result<usize> {
        let size = self.dtype.size();
        if part.len() < size {
            return Err(self.error(self.at, format!("{} bytes are no room for an element of {size}", part.len())));
        }
        let want = self.left.min((part.len() / size * size) as u64) as usize;
        if self.left == 0 {
            return match self.fill(&mut [0])? {
                0 => Ok(0),
                _ => Err(self.surplus(self.at - 1)),
            };
        }
        if self.fill(&mut part[..want])? < want {
            return Err(self.truncated(self.at));
        }
        self.left -= want as u64;
        if size > 1 {
            part[..want].chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        Ok(want)
    }

    /// Reads all elements that are left in parts of at most 64 KiB, and calls `consume` with the position of each
    /// part's first byte and its bytes, little-endian. Fails unless the input ends with its last element.
    pub fn each_part(&mut self, mut consume: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let mut part = vec![0; PART];
        loop {
            let at = self.at;
            match self.read_part(&mut part)? {
                0 => return Ok(()),
                n => consume(at, &part[..n])?,
            }
        }
    }

    /// All elements. Fails if some were read before.
    pub fn read_all(mut self) -> Result<Array> {
        let head = 4 + 4 * self.dims.len() as u64;
        if self.at != head {
            return Err(self.error(self.at, format!("{} bytes of elements were read before", self.at - head)));
        }
        let mut bytes = Vec::new();
        self.each_part(|_, part| {
            bytes.extend_from_slice(part);
            Ok(())
        })?;
        Ok(Array { dtype: self.dtype, dims: self.dims, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(code: u8, dims: &[u32], data: &[u8]) -> Vec<u8> {
        let mut out = vec![0, 0, code, dims.len() as u8];
        dims.iter().for_each(|d| out.extend(d.to_be_bytes()));
        out.extend(data);
        out
    }

    fn parsed(bytes: &[u8], length: bool) -> Result<Array> {
        Idx::new("f", bytes, length.then_some(bytes.len() as u64))?.read_all()
    }

    #[test]
    fn every_type_comes_back() {
        let floats: Vec<u8> = [1.5f32, -2.0, 0.25].iter().flat_map(|x| x.to_be_bytes()).collect();
        assert_eq!(parsed(&file(13, &[3], &floats), true).unwrap().values::<f32>().unwrap(), [1.5, -2.0, 0.25]);
        let doubles: Vec<u8> = [1.5f64, -2.0].iter().flat_map(|x| x.to_be_bytes()).collect();
        assert_eq!(parsed(&file(14, &[2], &doubles), true).unwrap().values::<f64>().unwrap(), [1.5, -2.0]);
        let whole: Vec<u8> = [7i32, -9].iter().flat_map(|x| x.to_be_bytes()).collect();
        assert_eq!(parsed(&file(12, &[1, 2], &whole), false).unwrap().values::<i32>().unwrap(), [7, -9]);
        assert_eq!(parsed(&file(9, &[2], &[255, 1]), true).unwrap().values::<i8>().unwrap(), [-1, 1]);
        let long = vec![3; 3 * PART + 1];
        let array = parsed(&file(8, &[long.len() as u32], &long), true).unwrap();
        assert_eq!((array.dims, array.bytes), (vec![long.len()], long));
        assert_eq!(parsed(&file(8, &[0, u32::MAX, u32::MAX], &[]), true).unwrap().bytes.len(), 0);
        assert_eq!(parsed(&file(8, &[1; 8], &[5]), true).unwrap().dims, [1; 8]);
    }

    #[test]
    fn elements_are_read_in_parts_of_any_size() {
        let bytes = file(12, &[3], &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);
        let mut idx = Idx::new("f", &bytes[..], None).unwrap();
        assert_eq!((idx.magic(), idx.dtype(), idx.dims(), idx.left()), ([0, 0, 12, 1], DType::I32, &[3][..], 12));
        let mut part = [9; 4];
        assert_eq!((idx.read_part(&mut part).unwrap(), part, idx.left()), (4, [1, 0, 0, 0], 8));
        let mut part = [9; 11];
        assert_eq!((idx.read_part(&mut part).unwrap(), idx.left()), (8, 0));
        assert_eq!(part, [2, 0, 0, 0, 3, 0, 0, 0, 9, 9, 9]);
        assert_eq!(idx.read_part(&mut part).unwrap(), 0);
    }

    /// A known length is compared before elements are read.
    #[test]
    fn a_length_that_does_not_fit_the_sizes_is_refused_at_once() {
        let bytes = file(12, &[2], &[0; 8]);
        let opened = |length| Idx::new("f", &bytes[..], length).map(|idx| idx.left()).map_err(|e| e.to_string());
        assert_eq!((opened(None), opened(Some(16))), (Ok(8), Ok(8)));
        assert_eq!(opened(Some(15)), Err("f: byte 15: the file is truncated: its sizes are [2]".into()));
        assert_eq!(opened(Some(17)), Err("f: byte 16: bytes follow the elements: its sizes are [2]".into()));
    }

    #[test]
    fn malformed_files_are_refused_at_their_byte() {
        let good = file(12, &[2, 1], &[0; 8]);
        for n in 0..good.len() {
            assert!(parsed(&good[..n], true).is_err() && parsed(&good[..n], false).is_err(), "{n}");
        }
        for (bytes, part) in [
            (file(12, &[2], &[0; 9]), "f: byte 16: bytes follow the elements: its sizes are [2]"),
            (file(12, &[2], &[0; 7]), "f: byte 15: the file is truncated: its sizes are [2]"),
            (file(8, &[u32::MAX; 3], &[]), "truncated"),
            (file(11, &[1], &[0, 0]), "f: byte 2: magic [00, 00, 0b, 01]: elements of type 0b are unknown"),
            (file(8, &[1; 9], &[0]), "f: byte 3: magic [00, 00, 08, 09]: rank 9 is above 8"),
            (b"\x1f\x8b\x08\x00....".to_vec(), "f: byte 0: magic [1f, 8b, 08, 00]: not an IDX file"),
        ] {
            for length in [true, false] {
                let e = parsed(&bytes, length).unwrap_err().to_string();
                assert!(e.contains(part), "{e:?} should mention {part:?}");
            }
        }
    }
}
