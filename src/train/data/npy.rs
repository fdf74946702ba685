//! `.npy` files: versions 1 to 3, plain dtypes, row-major or column-major.
//!
//! Invariant: a file is hostile until proven good. The header is a dictionary of three keys; a scanner without
//! recursion and with a size limit reads it; general parsers of Python literals recurse and have no limit. No
//! allocation takes its size from a number in the file. Errors name the byte.

use super::{Array, bad_data, open_data, read_within_limit};
use crate::error::Result;
use crate::nodes::DType;
use crate::train::file_kinds::other_format;
use crate::train::write_atomically;
use std::path::Path;

/// Largest header, in bytes.
const HEADER_LIMIT: usize = 64 << 10;
/// The first bytes of a file.
const MAGIC: &[u8] = b"\x93NUMPY";
/// Largest number of dimensions.
const RANK_LIMIT: usize = 8;

/// NumPy's names of the dtypes.
const NAMES: [(&str, DType); 14] = [
    ("<f4", DType::F32),
    ("<f8", DType::F64),
    ("<f2", DType::F16),
    ("|i1", DType::I8),
    ("|u1", DType::U8),
    ("<i4", DType::I32),
    ("<i8", DType::I64),
    ("<u4", DType::U32),
    ("<i2", DType::I16),
    ("<u2", DType::U16),
    ("<u8", DType::U64),
    ("|b1", DType::Bool),
    ("<c8", DType::C64),
    ("<c16", DType::C128),
];

/// Reads the file `path`, whose length bounds the memory that it takes.
///
/// Errors, of kind [`Kind::Data`](crate::error::Kind::Data), name the file and the byte: it is no `.npy` file, its
/// dtype is a record, an object, big-endian or unknown here, a dimension is no valid size, the elements are more or
/// fewer than the shape has, a bool is neither 0 nor 1. A pipe or a device is refused; read what it gives into memory
/// and use [`parse_npy`].
pub fn read_npy(path: impl AsRef<Path>) -> Result<Array> {
    let path = path.as_ref();
    read_npy_within(path, open_data(path)?.1)
}

/// As [`read_npy`]; also fails if the file holds more than `limit` bytes of elements.
pub fn read_npy_within(path: impl AsRef<Path>, limit: u64) -> Result<Array> {
    let path = path.as_ref();
    let bytes = read_within_limit(path, limit.saturating_add(HEADER_LIMIT as u64))?;
    let array = parse_npy(&bytes).map_err(|e| e.context(path.display()))?;
    match array.bytes.len() as u64 > limit {
        true => Err(bad_data(format!(
            "{}: {} bytes of elements, where at most {limit} are expected",
            path.display(),
            array.bytes.len()
        ))),
        false => Ok(array),
    }
}

/// Writes `array` to the file `path`, as a whole or not at all. Errors: those of [`encode_npy`]; the file cannot be
/// written.
pub fn write_npy(path: impl AsRef<Path>, array: &Array) -> Result<()> {
    let path = path.as_ref();
    let bytes = encode_npy(array.dtype, &array.dims, &array.bytes).map_err(|e| e.context(path.display()))?;
    write_atomically(path, &bytes)
}

/// A result, or an error at a byte of the file.
type Parsed<T> = std::result::Result<T, (usize, String)>;

/// The array in `bytes`, a whole file. Errors as for [`read_npy`].
///
/// ```
/// use arenagrad::train::data::{encode_npy, parse_npy};
/// # fn main() -> arenagrad::error::Result<()> {
/// let file = encode_npy(arenagrad::graph::DType::F32, &[2], bytemuck::cast_slice(&[1.0f32, 2.0]))?;
/// assert_eq!(parse_npy(&file)?.values::<f32>()?, [1.0, 2.0]);
/// # Ok(())
/// # }
/// ```
pub fn parse_npy(bytes: &[u8]) -> Result<Array> {
    parse_whole_file(bytes).map_err(|(at, what)| bad_data(format!("byte {at}: {what}")))
}

/// Parses a whole file.
fn parse_whole_file(bytes: &[u8]) -> Parsed<Array> {
    if !bytes.starts_with(MAGIC) {
        let what = other_format(bytes).map_or("(wrong magic)".into(), |other| format!("but {other}"));
        return Err((0, format!("not an npy file {what}")));
    }
    let wide = match bytes.get(6..8) {
        Some(&[1, 0]) => false,
        Some(&[2 | 3, 0]) => true,
        Some(v) => return Err((6, format!("npy version {}.{} is unknown", v[0], v[1]))),
        None => return Err((bytes.len(), "the file ends inside the header".into())),
    };
    let start = if wide { 12 } else { 10 };
    let len = match (bytes.get(8..start), wide) {
        (Some(&[a, b]), false) => usize::from(u16::from_le_bytes([a, b])),
        (Some(&[a, b, c, d]), true) => u32::from_le_bytes([a, b, c, d]) as usize,
        _ => return Err((bytes.len(), "the file ends inside the header".into())),
    };
    if len > HEADER_LIMIT {
        return Err((8, format!("a header of {len} bytes; at most {HEADER_LIMIT} are allowed")));
    }
    let header = bytes.get(start..start + len).ok_or((bytes.len(), "the file ends inside the header".to_string()))?;
    let header = std::str::from_utf8(header).map_err(|e| (start + e.valid_up_to(), "not text".to_string()))?;
    let Header { dtype, fortran, dims } = NpyScan { text: header, at: 0, base: start }.header()?;
    let data = &bytes[start + len..];
    let want = dims.iter().try_fold(dtype.size(), |n, &d| n.checked_mul(d));
    if want != Some(data.len()) {
        let have = data.len();
        let want = want.map_or("more than memory holds".to_string(), |w| format!("{w} bytes"));
        return Err((start + len, format!("{have} bytes of elements where {dtype}{dims:?} takes {want}")));
    }
    if let Some(i) = dtype.misfit(data) {
        return Err((start + len + i, format!("{} is no truth value", data[i])));
    }
    let bytes = if fortran { reorder_row_major(data, &dims, dtype.size()) } else { data.to_vec() };
    Ok(Array { dtype, dims, bytes })
}

/// Reorders elements of `size` bytes from column-major to row-major order.
fn reorder_row_major(data: &[u8], dims: &[usize], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    let mut index = vec![0; dims.len()];
    for _ in 0..data.len() / size {
        let at = dims.iter().zip(&index).rev().fold(0, |at, (d, i)| at * d + i);
        out.extend_from_slice(&data[at * size..][..size]);
        for (i, d) in index.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < *d {
                break;
            }
            *i = 0;
        }
    }
    out
}

/// The content of a header.
struct Header {
    dtype: DType,
    /// True for column-major order.
    fortran: bool,
    dims: Vec<usize>,
}

/// A scanner over the text of a header.
struct NpyScan<'a> {
    text: &'a str,
    /// Bytes of `text` read so far.
    at: usize,
    /// First byte of `text` in the file.
    base: usize,
}

impl<'a> NpyScan<'a> {
    /// An error at the current byte.
    fn fail<T>(&self, what: impl Into<String>) -> Parsed<T> {
        Err((self.base + self.at, what.into()))
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips white space.
    fn blank(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\n', '\t', '\r']).len();
    }

    /// Skips white space and `c`, and returns true, if `c` comes next.
    fn eat(&mut self, c: char) -> bool {
        self.blank();
        let there = self.rest().starts_with(c);
        self.at += if there { c.len_utf8() } else { 0 };
        there
    }

    /// Skips white space and `c`, which must come next.
    fn want(&mut self, c: char) -> Parsed<()> {
        if self.eat(c) { Ok(()) } else { self.fail(format!("{c:?} is missing in the header")) }
    }

    /// A string in quotes, without escapes, behind the white space.
    fn string(&mut self) -> Parsed<&'a str> {
        let quote = match self.rest().chars().next() {
            Some(q @ ('\'' | '"')) => q,
            _ => return self.fail("a plain dtype and string keys are supported; records and objects are not"),
        };
        let inner = &self.rest()[1..];
        match inner.find(quote) {
            Some(end) => {
                self.at += end + 2;
                Ok(&inner[..end])
            }
            None => self.fail("a string does not end"),
        }
    }

    /// A dimension, behind the white space.
    fn number(&mut self) -> Parsed<usize> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let parsed = self.rest()[..digits].parse();
        match parsed {
            Ok(n) => {
                // Python 2 writes long integers as 2L.
                self.at += digits + usize::from(self.rest()[digits..].starts_with('L'));
                Ok(n)
            }
            Err(_) => self.fail("a dimension is no valid size"),
        }
    }

    /// A tuple of dimensions.
    fn dims(&mut self) -> Parsed<Vec<usize>> {
        self.want('(')?;
        let mut dims = Vec::new();
        while !self.eat(')') {
            if dims.len() == RANK_LIMIT {
                return self.fail(format!("rank above {RANK_LIMIT}"));
            }
            dims.push(self.number()?);
            if !self.eat(',') {
                self.want(')')?;
                break;
            }
        }
        Ok(dims)
    }

    /// The whole header.
    fn header(&mut self) -> Parsed<Header> {
        let (mut dtype, mut fortran, mut dims) = (None, None, None);
        self.want('{')?;
        while !self.eat('}') {
            let key = self.string()?;
            self.want(':')?;
            self.blank();
            match key {
                "descr" if dtype.is_none() => {
                    let name = self.string()?;
                    let known = NAMES.iter().find(|(n, _)| n[1..] == *name.trim_start_matches(['<', '|', '=']));
                    match known {
                        Some(&(_, d)) => dtype = Some(d),
                        None => return self.fail(format!("dtype {name:?} is not supported")),
                    }
                }
                "fortran_order" if fortran.is_none() => {
                    let word = ["True", "False"].into_iter().find(|w| self.rest().starts_with(w));
                    let Some(word) = word else { return self.fail("fortran_order is neither True nor False") };
                    self.at += word.len();
                    fortran = Some(word == "True");
                }
                "shape" if dims.is_none() => dims = Some(self.dims()?),
                _ => return self.fail(format!("key {key:?} is unknown or stands twice")),
            }
            if !self.eat(',') {
                self.want('}')?;
                break;
            }
        }
        self.blank();
        match (dtype, fortran, dims) {
            (Some(dtype), Some(fortran), Some(dims)) if self.rest().is_empty() => Ok(Header { dtype, fortran, dims }),
            (Some(_), Some(_), Some(_)) => self.fail("something follows the header"),
            _ => self.fail("one of descr, fortran_order, shape is missing in the header"),
        }
    }
}

/// The bytes of a file of version 1.0 with these elements, little-endian and row-major. Errors: NumPy has no such
/// dtype; the bytes are more or fewer than the shape has; there are more than 8 dimensions.
pub fn encode_npy(dtype: DType, dims: &[usize], bytes: &[u8]) -> Result<Vec<u8>> {
    let name = NAMES.iter().find(|(_, d)| *d == dtype).map(|n| n.0);
    let name = name.ok_or_else(|| bad_data(format!("{dtype} is a dtype that .npy files cannot hold")))?;
    let want = dims.iter().try_fold(dtype.size(), |n, &d| n.checked_mul(d));
    if want != Some(bytes.len()) || dims.len() > RANK_LIMIT {
        return Err(bad_data(format!("{} bytes are no elements of {dtype}{dims:?}", bytes.len())));
    }
    let shape: String = dims.iter().map(|d| format!("{d}, ")).collect();
    let mut header = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': ({}), }}", shape.trim_end());
    // NumPy aligns the elements at 64 bytes and ends the header with a newline.
    let pad = (64 - (10 + header.len() + 1) % 64) % 64;
    header.extend(std::iter::repeat_n(' ', pad));
    header.push('\n');
    let mut out = MAGIC.to_vec();
    out.extend([1, 0]);
    // At most eight dimensions of twenty digits fit in 16 bits.
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.as_bytes());
    out.extend(bytes);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(data);
        out
    }

    #[test]
    fn files_come_back_as_they_were_written() {
        for (dims, n) in [(vec![], 1), (vec![3], 3), (vec![2, 0], 0), (vec![2, 3], 6), (vec![1; 8], 1)] {
            for (_, dtype) in NAMES {
                let bytes: Vec<u8> = (0..n * dtype.size()).map(|i| (i % 2) as u8).collect();
                let whole = encode_npy(dtype, &dims, &bytes).unwrap();
                let data_at = whole.len() - bytes.len();
                assert_eq!(data_at % 64, 0);
                assert_eq!(parse_npy(&whole).unwrap(), Array { dtype, dims: dims.clone(), bytes });
            }
        }
        for (dtype, dims, bytes) in [(DType::BF16, vec![], 2), (DType::F32, vec![2], 4), (DType::U8, vec![1; 9], 1)] {
            assert!(encode_npy(dtype, &dims, &vec![0; bytes]).is_err(), "{dtype}{dims:?}");
        }
    }

    /// Headers of all lengths: one that ends where elements may start has no padding.
    #[test]
    fn headers_are_padded_with_less_than_64_bytes() {
        let mut least = usize::MAX;
        for more in 1..=5 {
            for digits in 1..=19 {
                let mut dims = vec![10usize.pow(digits - 1); more];
                dims[0] = 0;
                let header = encode_npy(DType::U8, &dims, &[]).unwrap();
                let padding = header.iter().rev().skip(1).take_while(|b| **b == b' ').count();
                assert!(header.len().is_multiple_of(64) && padding < 64, "{dims:?}: {padding}");
                least = least.min(padding);
            }
        }
        assert_eq!(least, 0);
    }

    #[test]
    fn column_major_files_become_row_major() {
        let header = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}";
        assert_eq!(parse_npy(&file(header, &[0, 3, 1, 4, 2, 5])).unwrap().bytes, [0, 1, 2, 3, 4, 5]);
        // Element (i, j, k) of this one is 6·i + 3·j + k; the first index is that of adjacent elements.
        let header = "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 2, 3)}";
        let data: Vec<u8> = (0..12u16).flat_map(|n| (6 * (n % 2) + 3 * (n / 2 % 2) + n / 4).to_le_bytes()).collect();
        let array = parse_npy(&file(header, &data)).unwrap();
        assert_eq!((array.values::<u16>().unwrap(), array.dims), ((0..12).collect(), vec![2, 2, 3]));
    }

    #[test]
    fn files_of_python_2_are_read() {
        let array = parse_npy(&file("{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 1L), }", &[7, 8])).unwrap();
        assert_eq!((array.dims, array.bytes), (vec![2, 1], vec![7, 8]));
        for shape in ["(2LL,)", "(L,)", "(2 L,)"] {
            let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}");
            assert!(parse_npy(&file(&header, &[7, 8])).is_err(), "{shape}");
        }
    }

    #[test]
    fn malformed_files_are_refused_at_their_byte() {
        let good = file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", &[0; 8]);
        assert!(parse_npy(&good).is_ok());
        for n in 0..good.len() {
            assert!(parse_npy(&good[..n]).is_err(), "{n}");
        }
        for (header, part) in [
            ("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", "'>f4'".replace('\'', "\"")),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", "not supported".into()),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", "records".into()),
            ("{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}", "neither".into()),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", "size".into()),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905, 4)}", "memory".into()),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2)}", "rank".into()),
            ("{'descr': '<f4', 'descr': '<f4', 'shape': (2,)}", "twice".into()),
            ("{'descr': '<f4', 'fortran_order': False}", "missing".into()),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", "follows".into()),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "takes 12 bytes".into()),
        ] {
            let (at, e) = parse_whole_file(&file(header, &[0; 8])).unwrap_err();
            assert!(e.contains(&part) && at <= good.len() + 40, "{at}: {e}");
        }
        let e = parse_npy(b"PK......").unwrap_err();
        assert_eq!((e.kind, e.to_string()), (crate::error::Kind::Data, "byte 0: not an npy file (wrong magic)".into()));
        let e = parse_npy(b"PK\x03\x04....").unwrap_err().to_string();
        assert!(e.starts_with("byte 0: not an npy file but a zip archive"), "{e}");
    }

    #[test]
    fn files_are_read_within_their_own_length() {
        let path = std::env::temp_dir().join(format!("arenagrad-npy-{}.npy", std::process::id()));
        let array = Array { dtype: DType::I32, dims: vec![2, 1], bytes: vec![1, 0, 0, 0, 255, 255, 255, 255] };
        write_npy(&path, &array).unwrap();
        assert_eq!(read_npy(&path).unwrap().values::<i32>().unwrap(), [1, -1]);
        assert!(read_npy(&path).unwrap().values::<f32>().unwrap_err().to_string().contains("i32[2, 1]"));
        assert!(read_npy_within(&path, 8).is_ok());
        // A header that announces more than the file holds takes no memory for it.
        std::fs::write(&path, file("{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,)}", &[]))
            .unwrap();
        assert!(read_npy(&path).unwrap_err().to_string().contains("takes 1099511627776 bytes"));
        std::fs::write(&path, vec![0; HEADER_LIMIT + 9]).unwrap();
        assert!(read_npy_within(&path, 8).unwrap_err().to_string().contains("more than 65544 bytes"));
        std::fs::remove_file(&path).unwrap();
        assert!(read_npy(&path).unwrap_err().to_string().contains("arenagrad-npy"));
        if cfg!(unix) {
            let e = read_npy("/dev/zero").unwrap_err().to_string();
            assert!(e.contains("/dev/zero") && e.contains("no regular file"), "{e}");
        }
    }
}
