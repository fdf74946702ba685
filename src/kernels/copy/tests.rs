//! Tests of the kernels in `copy`: against naive loops in f64, at the edges of shapes and values, in 1, 2, 3 and 7
//! unit ranges (see `harness`).

use super::*;
use crate::harness::{In, Out, run_in_ranges, written_elements};

/// Row-major strides.
fn dense(dims: &[usize]) -> Vec<i64> {
    (0..dims.len()).map(|k| dims[k + 1..].iter().product::<usize>() as i64).collect()
}

/// The indices of element `e` of a dense tensor.
fn indices(e: usize, dims: &[usize]) -> Vec<usize> {
    dense(dims).iter().zip(dims).map(|(s, d)| e / *s as usize % d).collect()
}

fn check<T: CopyBits + PartialEq + std::fmt::Debug>(dims: &[usize], strides: &[i64], base: usize, len: usize) {
    let x: Vec<T> = (0..len).map(|i| T::from_word(i as u64 * 7 + 1)).collect();
    let p = StridedCopy::new(dims, strides, base).unwrap();
    assert_eq!(StridedCopy::from_words(&p.to_words()), p);
    let n: usize = dims.iter().product();
    assert_eq!(p.out_len(), n);
    let got: Vec<T> = written_elements(
        &run_in_ranges(
            strided_copy_kernel::<T>,
            &p.to_words(),
            &[In::of(&x)],
            &[Out::of::<T>(n, p.per_unit())],
            p.units(),
        ),
        0,
    );
    for (e, got) in got.iter().enumerate() {
        let at: i64 = indices(e, dims).iter().zip(strides).map(|(i, s)| *i as i64 * s).sum();
        assert_eq!(*got, x[(base as i64 + at) as usize], "element {e} of {dims:?} by {strides:?}");
    }
}

/// A permutation of the axes of a dense source.
fn check_permuted<T: CopyBits + PartialEq + std::fmt::Debug>(src: &[usize], perm: &[usize]) {
    let strides = dense(src);
    let (dims, strides): (Vec<_>, Vec<_>) = perm.iter().map(|p| (src[*p], strides[*p])).unzip();
    check::<T>(&dims, &strides, 0, src.iter().product());
}

#[test]
fn permutations() {
    for [a, b] in [[0, 4], [1, 9], [9, 1], [3, 5], [16, 16], [17, 33], [5000, 3], [3, 5000], [130, 257], [64, 1]] {
        check_permuted::<u8>(&[a, b], &[1, 0]);
        check_permuted::<u16>(&[a, b], &[1, 0]);
        check_permuted::<u32>(&[a, b], &[1, 0]);
        check_permuted::<u64>(&[a, b], &[1, 0]);
        check_permuted::<u32>(&[a, b], &[0, 1]);
    }
    for perm in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        check_permuted::<u32>(&[7, 20, 33], &perm);
        check_permuted::<u16>(&[40, 1, 50], &perm);
    }
    check_permuted::<u32>(&[2, 3, 4, 5, 6], &[4, 0, 3, 1, 2]);
    check_permuted::<u32>(&[4, 6, 8, 10], &[0, 2, 1, 3]);
    check_permuted::<u32>(&[2, 1, 2, 1, 2, 1, 2, 2], &[7, 6, 5, 4, 3, 2, 1, 0]);
}

#[test]
fn broadcasts_slices_and_flips() {
    check::<u32>(&[], &[], 3, 4);
    check::<u32>(&[1, 1], &[9, 9], 0, 1);
    check::<u32>(&[50, 100], &[0, 1], 0, 100);
    check::<u32>(&[50, 100], &[1, 0], 0, 50);
    check::<u32>(&[3, 4, 5, 6], &[0, 6, 0, 1], 0, 24);
    check::<u32>(&[5000, 3], &[0, 0], 2, 3);
    check::<u32>(&[10, 7], &[20, 2], 3, 300);
    check::<u32>(&[9000], &[3], 1, 27000);
    check::<u64>(&[100], &[-1], 99, 100);
    check::<u8>(&[6, 100], &[-100, -1], 599, 600);
    check::<u16>(&[30, 33], &[100, -3], 99, 3000);
    check::<u32>(&[20, 70], &[1, -20], 69 * 20, 1400);
    check::<u32>(&[2, 40, 40], &[1600, -1, 40], 39, 3200);
}

#[test]
fn neighbouring_axes_join() {
    let p = StridedCopy::new(&[2, 1, 3, 4, 5], &[60, 7, 20, 5, 1], 0).unwrap();
    assert_eq!((p.rank, p.dims[0], p.strides[0]), (1, 120, 1));
    let p = StridedCopy::new(&[4, 5, 6, 7], &[0, 0, 7, 1], 0).unwrap();
    assert_eq!((p.rank, p.dims[0], p.dims[1]), (2, 20, 42));
    assert_eq!(StridedCopy::new(&[2; 9], &[3; 9], 0), None);
}

#[test]
fn pads() {
    let cases: [(&[usize], &[usize], &[usize]); 9] = [
        (&[], &[], &[]),
        (&[3], &[2], &[1]),
        (&[0], &[2], &[1]),
        (&[5, 0], &[1, 0], &[0, 0]),
        (&[4, 5], &[0, 0], &[0, 0]),
        (&[4, 5], &[1, 0], &[2, 0]),
        (&[2, 3, 28, 28], &[0, 0, 1, 2], &[0, 0, 1, 0]),
        (&[2, 3, 4], &[1, 0, 0], &[0, 2, 0]),
        (&[1, 9000], &[3, 5], &[0, 6]),
    ];
    for (src, low, high) in cases {
        let x: Vec<u32> = (0..src.iter().product::<usize>() as u32).collect();
        let p = Pad::new(src, low, high, 777_777).unwrap();
        assert_eq!(Pad::from_words(&p.to_words()), p);
        let dims: Vec<usize> = (0..src.len()).map(|k| low[k] + src[k] + high[k]).collect();
        let n = dims.iter().product();
        assert_eq!(p.out_len(), n);
        let got: Vec<u32> = written_elements(
            &run_in_ranges(
                pad_kernel::<u32>,
                &p.to_words(),
                &[In::of(&x)],
                &[Out::of::<u32>(n, p.per_unit())],
                p.units(),
            ),
            0,
        );
        for (e, got) in got.iter().enumerate() {
            let at = indices(e, &dims);
            let inside = (0..src.len()).all(|k| at[k] >= low[k] && at[k] < low[k] + src[k]);
            let from: i64 = dense(src).iter().zip(&at).zip(low).map(|((s, i), l)| s * (*i as i64 - *l as i64)).sum();
            assert_eq!(*got, if inside { x[from as usize] } else { 777_777 }, "{src:?} element {e}");
        }
    }
}

#[test]
fn concats() {
    for (outer, widths) in
        [(1, vec![3]), (1, vec![5000, 0, 9000]), (7, vec![1, 2, 3]), (300, vec![64, 32]), (0, vec![4]), (2, vec![0, 0])]
    {
        let p = Concat { outer, widths };
        let sources: Vec<Vec<u16>> = (0..p.widths.len())
            .map(|i| (0..outer * p.widths[i]).map(|k| (k * 3 + i * 1000) as u16).collect())
            .collect();
        let mut want = Vec::new();
        for r in 0..outer {
            for (x, w) in sources.iter().zip(&p.widths) {
                want.extend_from_slice(&x[r * w..][..*w]);
            }
        }
        let reads: Vec<In> = sources.iter().map(|x| In::of(x)).collect();
        let out = [Out::of::<u16>(p.out_len(), p.per_unit())];
        assert_eq!(
            written_elements::<u16>(&run_in_ranges(concat_kernel::<u16>, &p.to_words(), &reads, &out, p.units()), 0),
            want
        );
    }
}

#[test]
fn iotas_and_fills() {
    for [outer, n, inner] in [[1, 1, 1], [1, 10000, 1], [3, 5, 7], [900, 9, 1], [2, 3, 5000], [0, 3, 1], [2, 0, 3]] {
        let p = Iota { outer, n, inner };
        let len = outer * n * inner;
        let want: Vec<usize> = (0..len).map(|e| e / inner % n).collect();
        let of = |out: Out, k: crate::abi::Kernel| run_in_ranges(k, &p.to_words(), &[], &[out], p.units());
        let got = written_elements::<f32>(&of(Out::of::<f32>(len, p.per_unit()), iota_kernel::<f32>), 0);
        assert!(got.iter().zip(&want).all(|(a, b)| *a == *b as f32));
        let got = written_elements::<i64>(&of(Out::of::<i64>(len, p.per_unit()), iota_kernel::<i64>), 0);
        assert!(got.iter().zip(&want).all(|(a, b)| *a == *b as i64));
    }
    let p = Fill { len: 9000, value: u64::from(1.5f32.to_bits()) };
    let out = [Out::of::<u32>(p.len, p.per_unit())];
    assert_eq!(
        written_elements::<f32>(&run_in_ranges(fill_kernel::<u32>, &p.to_words(), &[], &out, p.units()), 0),
        [1.5; 9000]
    );
}
