//! Each access against its definition, for each element size.

use super::*;

/// The element that an access names.
pub(super) fn named(access: &Access, i: usize) -> usize {
    match access {
        Access::Full => i,
        Access::Scalar => 0,
        Access::Suffix(n) => i % n,
        Access::Prefix(n) => i / n,
        Access::Strided { dims, strides, base } => {
            let (mut at, mut rest) = (*base as isize, i);
            for (dim, stride) in dims.iter().zip(strides).rev() {
                at += (rest % dim) as isize * stride;
                rest /= dim;
            }
            at as usize
        }
    }
}

fn check(len: usize, access: Access) {
    let need = (0..len).map(|i| named(&access, i) + 1).max().unwrap_or(1);
    let values: Vec<u64> = (0..need as u64).map(|v| v.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    for elem in [DType::U8, DType::F16, DType::U32, DType::F64] {
        let size = elem.size();
        let source: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes().into_iter().take(size)).collect();
        let p = TileProgram {
            inputs: vec![Input { elem, access: access.clone() }],
            steps: vec![TileStep::new(TileOp::Copy, elem, &[0], [0.0; 2])],
            outputs: vec![1],
            len,
        };
        let (got, _) = run_in(&p, &[Buffer::of(&source)], &[], 2);
        for (i, cell) in got[0].bytes().chunks_exact(size).enumerate() {
            let at = named(&access, i);
            assert_eq!(cell, &source[at * size..(at + 1) * size], "{access:?} {elem:?} at {i} of {len}");
        }
    }
}

fn strided(dims: &[usize], strides: &[isize], base: usize) -> Access {
    Access::Strided { dims: dims.to_vec(), strides: strides.to_vec(), base }
}

#[test]
fn simple_accesses() {
    for len in [0, 1, 30, TILE - 1, TILE, TILE + 1, 3 * UNIT] {
        check(len, Access::Full);
        check(len, Access::Scalar);
    }
    for n in [1, 2, 3, 4, 5, 6, 7, 8, 9, 64, 100, TILE - 1, TILE, TILE + 1, 3 * TILE, UNIT, UNIT + 5] {
        check(n, Access::Suffix(n));
        check(3 * n, Access::Suffix(n));
        check(3 * UNIT / n * n, Access::Suffix(n));
        check(3 * n, Access::Prefix(n));
        check(3 * UNIT / n * n, Access::Prefix(n));
    }
}

#[test]
fn strided_accesses() {
    // A transpose, a permutation, broadcasts in front, in the middle and at the end, reversals and slices.
    check(70 * 130, strided(&[130, 70], &[1, 130], 0));
    check(24 * 35 * 10, strided(&[35, 10, 24], &[10, 1, 350], 0));
    check(16 * 600, strided(&[16, 600], &[0, 1], 0));
    check(16 * 600, strided(&[16, 600], &[1, 0], 3));
    check(8 * 9 * 100, strided(&[8, 9, 100], &[100, 0, 1], 0));
    check(8 * 9 * 100, strided(&[8, 9, 100], &[9, 1, 0], 0));
    check(5000, strided(&[5000], &[-1], 4999));
    check(5000, strided(&[50, 100], &[-300, 2], 300 * 49));
    check(60 * 90, strided(&[60, 90], &[200, 1], 17));
    check(3 * 2000, strided(&[3, 2000], &[4096, 1], 5));
    check(5000, strided(&[5000], &[0], 3));
    check(1, strided(&[], &[], 2));
    check(1, strided(&[1, 1], &[7, 7], 2));
    check(0, strided(&[4, 0], &[1, 1], 0));
    // Short runs, forwards, backwards, repeated and apart.
    for n in 2..=9 {
        for stride in [0, 1, -1, 5] {
            for step in [0, 11, -11] {
                check(7 * 90 * n, strided(&[7, 90, n], &[2, step, stride], 1200));
            }
        }
    }
    let eight = [2, 3, 2, 3, 2, 3, 2, 5];
    check(6 * 6 * 6 * 10, strided(&eight, &[1, 2, 6, 12, 36, 72, 216, 432], 0));
}

#[test]
fn what_does_not_fit_is_refused() {
    let p = |access| TileProgram { inputs: vec![Input { elem: DType::F32, access }], len: 6, ..TileProgram::default() };
    assert!(p(strided(&[2, 2], &[2, 1], 0)).check().is_err());
    assert!(p(strided(&[2, 3], &[2], 0)).check().is_err());
    assert!(p(Access::Suffix(0)).check().is_err());
    assert!(p(strided(&[2, 3], &[0, 0], 0)).check().is_ok());
}
