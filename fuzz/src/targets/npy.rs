//! Any bytes either parse as an array, which is written back to an equal file, or give an error that names the byte.

use super::{READERS, Target};
use crate::engine::reader_error;
use arenagrad::graph::DType;
use arenagrad::train::data::{encode_npy, parse_npy};

pub const TARGET: Target = Target {
    name: "npy",
    about: "any bytes are an npy array that reads back equal, or an error that names the byte",
    run,
    seeds,
    words: WORDS,
    max_len: 1024,
    memory: READERS,
};

/// Runs the target.
pub fn run(data: &[u8]) {
    let array = match parse_npy(data) {
        Ok(array) => array,
        Err(e) => return reader_error(&e, "byte "),
    };
    let size: usize = array.dims.iter().product::<usize>() * array.dtype.size();
    assert_eq!(size, array.bytes.len(), "the elements fill the shape");
    let again = encode_npy(array.dtype, &array.dims, &array.bytes).and_then(|file| parse_npy(&file));
    assert_eq!(again.as_ref(), Ok(&array), "an array is written and read back");
}

fn seeds() -> Vec<Vec<u8>> {
    let dtypes =
        [DType::F32, DType::F64, DType::F16, DType::I8, DType::U8, DType::I64, DType::U16, DType::Bool, DType::C64];
    let shapes: [&[usize]; 4] = [&[], &[3], &[2, 3], &[2, 0, 1]];
    let file = |dtype: DType, dims: &[usize]| {
        let n = dims.iter().product::<usize>() * dtype.size();
        let bytes: Vec<u8> = (0..n).map(|i| (i % 2) as u8).collect();
        encode_npy(dtype, dims, &bytes).ok()
    };
    let mut all: Vec<Vec<u8>> = dtypes.iter().flat_map(|&d| shapes.iter().filter_map(move |s| file(d, s))).collect();
    // Column-major, headers of version 2, and one of Python 2.
    for (head, version) in [
        ("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", 1),
        ("{'shape':(2,),'descr':'|u1','fortran_order':False}\n", 2),
        ("{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 1L), }\n", 2),
    ] {
        let len = head.len() as u32;
        let mut file = b"\x93NUMPY".to_vec();
        file.extend([version, 0]);
        file.extend_from_slice(&len.to_le_bytes()[..if version == 1 { 2 } else { 4 }]);
        file.extend_from_slice(head.as_bytes());
        file.extend(std::iter::repeat_n(1, if version == 1 { 24 } else { 2 }));
        all.push(file);
    }
    all
}

const WORDS: &[&str] = &[
    "'descr': ",
    "'fortran_order': ",
    "'shape': ",
    "'<f4'",
    "'|b1'",
    "'<c8'",
    "'>f4'",
    "'|O'",
    "True",
    "False",
    "(",
    ")",
    ",",
    "{",
    "}",
    "[('a', '<f4')]",
    "()",
    "(1,)",
    "(2, 3)",
    "18446744073709551615",
    "\n",
    " ",
    "\"",
    "\\",
];
