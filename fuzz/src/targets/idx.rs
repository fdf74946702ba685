//! Any bytes either parse as an IDX array, as a whole and in parts of any size, or give an error that names the byte.

use super::{READERS, Target};
use crate::engine::reader_error;
use arenagrad::train::data::Idx;
use std::io::Read;

pub const TARGET: Target = Target {
    name: "idx",
    about: "any bytes are an IDX array, the same whole and in parts, or an error that names the byte",
    run,
    seeds,
    words: &[],
    max_len: 512,
    memory: READERS,
};

/// Gives a few bytes at a time, as a pipe does.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = into.len().min(self.1).min(self.0.len());
        into[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

/// Runs the target. The first byte chooses how many bytes a read gives.
pub fn run(data: &[u8]) {
    let (slow, file) = data.split_first().map_or((1, data), |(n, file)| (usize::from(*n) + 1, file));
    let known = Idx::new("file", file, Some(file.len() as u64)).and_then(Idx::read_all);
    let unknown = Idx::new("file", Slow(file, slow), None).and_then(Idx::read_all);
    match (&known, &unknown) {
        (Ok(a), Ok(b)) => assert_eq!(a, b, "whole and in parts"),
        (Err(e), Err(f)) => [e, f].into_iter().for_each(|e| reader_error(e, "file: byte ")),
        // Bytes after the last element are seen only if the length is known.
        (Err(e), Ok(b)) => {
            reader_error(e, "file: byte ");
            assert!(b.bytes.len() < file.len(), "{e}");
        }
        (Ok(_), Err(e)) => panic!("in parts: {e}"),
    }
    for array in [known, unknown].into_iter().flatten() {
        assert_eq!(array.dims.iter().product::<usize>() * array.dtype.size(), array.bytes.len());
    }
    let mut total = 0;
    if let Ok(mut idx) = Idx::new("file", file, None) {
        let left = idx.left();
        let done = idx.each_part(|at, part| {
            assert_eq!(at - 4 - 4 * (u64::from(file[3])), total, "a part says where it begins");
            total += part.len() as u64;
            Ok(())
        });
        assert!(done.is_err() || total == left, "all parts are read");
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (code, size) in [(8, 1), (9, 1), (12, 4), (13, 4), (14, 8), (11, 2)] {
        for dims in [&[][..], &[5], &[2, 3], &[0, 2, 2]] {
            let mut file = vec![7, 0, 0, code, dims.len() as u8];
            dims.iter().for_each(|&d: &u32| file.extend(d.to_be_bytes()));
            file.extend((0..dims.iter().product::<u32>() as usize * size).map(|i| i as u8));
            all.push(file);
        }
    }
    all
}
