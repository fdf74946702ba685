//! Elements that are not row-major in the file: a tensor with its axes in another order, or with gaps.

use super::header::bad_checkpoint;
use super::stored::Stored;
use crate::error::{Error, Kind, Result};

/// Strides, in elements, of a row-major tensor.
fn row_major(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        // Of a tensor without elements the product may overflow; its strides are not used.
        strides[axis - 1] = usize::saturating_mul(strides[axis], dims[axis].max(1));
    }
    strides
}

/// The tensor with its last two axes exchanged; its elements stay where they are.
pub(super) fn transposed(t: &Stored) -> Result<Stored> {
    let rank = t.dims.len();
    if rank < 2 {
        let text = format!("{:?} is {}{:?}: `transpose` exchanges the last two axes", t.name, t.dtype, t.dims);
        return Err(Error::new(Kind::Shape, text));
    }
    let (mut t, mut strides) = (t.clone(), t.strides.clone().unwrap_or_else(|| row_major(&t.dims)));
    t.dims.swap(rank - 2, rank - 1);
    strides.swap(rank - 2, rank - 1);
    t.strides = Some(strides);
    Ok(t)
}

/// All elements of `t`, row-major. `read` reads the bytes of the file from the first element on.
pub(super) fn gather(t: &Stored, strides: &[usize], read: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Vec<u8>> {
    let memory = |n: usize| {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(n).map_err(|e| bad_checkpoint(format!("{:?}: {e}", t.name)))?;
        bytes.resize(n, 0u8);
        Ok::<_, Error>(bytes)
    };
    let last: usize = t.dims.iter().zip(strides).map(|(&d, &stride)| (d.max(1) - 1) * stride).sum();
    let (mut span, mut out) = (memory((last + 1) * t.dtype.size())?, memory(t.bytes)?);
    if out.is_empty() {
        return Ok(out);
    }
    read(&mut span)?;
    match t.dtype.size() {
        1 => copy::<1>(&span, &t.dims, strides, &mut out),
        2 => copy::<2>(&span, &t.dims, strides, &mut out),
        4 => copy::<4>(&span, &t.dims, strides, &mut out),
        8 => copy::<8>(&span, &t.dims, strides, &mut out),
        _ => copy::<16>(&span, &t.dims, strides, &mut out),
    }
    Ok(out)
}

/// Copies the elements of `N` bytes at `strides` in `span`.
fn copy<const N: usize>(span: &[u8], dims: &[usize], strides: &[usize], out: &mut [u8]) {
    let (span, out) = (span.as_chunks::<N>().0, out.as_chunks_mut::<N>().0);
    let (Some(&cols), Some(&step)) = (dims.last(), strides.last()) else { return out.copy_from_slice(&span[..1]) };
    let mut index = vec![0; dims.len() - 1];
    let mut at = 0;
    for row in out.chunks_exact_mut(cols) {
        for (j, x) in row.iter_mut().enumerate() {
            *x = span[at + j * step];
        }
        for axis in (0..index.len()).rev() {
            (index[axis], at) = (index[axis] + 1, at + strides[axis]);
            if index[axis] < dims[axis] {
                break;
            }
            at -= dims[axis] * strides[axis];
            index[axis] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::DType;

    fn tensor(dims: &[usize], strides: Option<&[usize]>) -> Stored {
        let bytes = dims.iter().product::<usize>() * 2;
        let (name, dims, strides) = ("t".into(), dims.to_vec(), strides.map(<[usize]>::to_vec));
        Stored { name, dtype: DType::I16, dims, bytes, file: 0, at: 0, strides }
    }

    /// The elements of a file that counts from 0.
    fn elements(t: &Stored) -> Vec<usize> {
        let count = |span: &mut [u8]| {
            span.as_chunks_mut::<2>().0.iter_mut().enumerate().for_each(|(i, x)| *x = (i as u16).to_le_bytes());
            Ok(())
        };
        let bytes = gather(t, t.strides.as_deref().unwrap(), count).unwrap();
        bytes.as_chunks::<2>().0.iter().map(|x| u16::from_le_bytes(*x).into()).collect()
    }

    #[test]
    fn elements_are_gathered_in_the_order_of_the_shape() {
        assert_eq!(elements(&tensor(&[2, 3], Some(&[1, 2]))), [0, 2, 4, 1, 3, 5]);
        assert_eq!(elements(&tensor(&[2, 2, 2], Some(&[10, 0, 3]))), [0, 3, 0, 3, 10, 13, 10, 13]);
        assert_eq!(elements(&tensor(&[3], Some(&[4]))), [0, 4, 8]);
        assert_eq!(elements(&tensor(&[], Some(&[]))), [0]);
        assert!(elements(&tensor(&[2, 0], Some(&[1, 1]))).is_empty());
    }

    #[test]
    fn the_last_two_axes_are_exchanged() {
        let t = transposed(&tensor(&[2, 2, 3], None)).unwrap();
        assert_eq!((&t.dims[..], &elements(&t)[..]), (&[2, 3, 2][..], &[0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11][..]));
        assert_eq!(elements(&transposed(&t).unwrap()), (0..12).collect::<Vec<_>>());
        let e = transposed(&tensor(&[3], None)).unwrap_err();
        assert!(e.message.contains("\"t\" is i16[3]"), "{e}");
    }
}
