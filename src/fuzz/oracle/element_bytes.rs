//! Elements as the bytes of a program's tensors, and back.

use super::array::{Array, Numbers};
use super::rounding::{element_bits_of_real, element_real_of_bits};
use crate::nodes::DType;

/// The array of these bytes, all exact. Bytes beyond the last whole element are left out.
pub fn decode_array(dtype: DType, dims: &[usize], bytes: &[u8]) -> Array {
    let part = dtype.part();
    let mut bits = bytes.chunks_exact(part.size()).map(|b| b.iter().rev().fold(0u64, |w, &x| w << 8 | u64::from(x)));
    if dtype.is_complex() {
        let numbers = std::iter::from_fn(|| {
            Some([element_real_of_bits(part, bits.next()?), element_real_of_bits(part, bits.next()?)])
        });
        return Array::pairs(dtype, dims, numbers.map(|z| (z, 0.0)));
    }
    match dtype.is_real_float() {
        true => Array::reals(dtype, dims, bits.map(|b| (element_real_of_bits(dtype, b), 0.0))),
        false => Array::wholes(dtype, dims, bits.map(|b| Some(element_whole_of_bits(dtype, b)))),
    }
}

fn element_whole_of_bits(dtype: DType, bits: u64) -> i128 {
    match dtype {
        DType::I8 => i128::from(bits as u8 as i8),
        DType::I16 => i128::from(bits as u16 as i16),
        DType::I32 => i128::from(bits as u32 as i32),
        DType::I64 => i128::from(bits as i64),
        _ => i128::from(bits),
    }
}

/// The bytes of an array, each float rounded to its type.
pub fn encode_array(a: &Array) -> Vec<u8> {
    let part = a.dtype.part();
    let bits = |i: usize, k: usize| match &a.numbers {
        Numbers::Real(x) => element_bits_of_real(part, x[i]),
        Numbers::Pair(x) => element_bits_of_real(part, x[i][k]),
        Numbers::Whole(x) => x[i] as u64,
    };
    let parts = a.dtype.size() / part.size();
    let all = (0..a.len()).flat_map(|i| (0..parts).map(move |k| (i, k)));
    all.flat_map(|(i, k)| bits(i, k).to_le_bytes().into_iter().take(part.size())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_each_type_come_back() {
        for &dtype in DType::ALL {
            // Patterns whose exponents are small in each float type; the bytes of a bool are 0 and 1.
            let bytes: Vec<u8> = (0..32).map(|i| if dtype == DType::Bool { i % 2 } else { 17 * (i % 4) }).collect();
            let a = decode_array(dtype, &[32 / dtype.size()], &bytes);
            assert_eq!(encode_array(&a), bytes, "{dtype}");
            assert!(a.bounds().iter().all(|&b| b == 0.0));
        }
    }
}
