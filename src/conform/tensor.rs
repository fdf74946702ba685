//! Tensors as numbers. A complex number is two numbers.

pub use super::conform_run::{How, PLAIN, try_run_once};
pub use super::tensor_draws::TensorDraws;
use crate::arena::Value;
use crate::arena::ids::Id;
use crate::error::{Error, Kind, Result};
use crate::nodes::{DType, Graph};
use crate::session::Program;

/// A tensor as numbers; every element type of the cases fits an `f64` exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub dims: Vec<usize>,
    /// Elements, in row-major order. A complex element is its real part and then its imaginary part.
    pub data: Vec<f64>,
}

/// How many numbers an element is.
pub(super) fn conform_numbers_of_element(dtype: DType) -> usize {
    if dtype.is_complex() { 2 } else { 1 }
}

macro_rules! by_dtype {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $t = f32;
                $body
            }
            DType::F64 => {
                type $t = f64;
                $body
            }
            DType::I32 => {
                type $t = i32;
                $body
            }
            DType::I64 => {
                type $t = i64;
                $body
            }
            DType::U32 => {
                type $t = u32;
                $body
            }
            DType::U8 | DType::Bool => {
                type $t = u8;
                $body
            }
            DType::I8 => {
                type $t = i8;
                $body
            }
            other => Err(Error::new(Kind::Data, format!("there are no numbers to test {other} with"))),
        }
    };
}

/// True if there are numbers to test `dtype` with.
pub(super) fn is_testable_dtype(dtype: DType) -> bool {
    let all = [DType::F32, DType::F64, DType::I32, DType::I64, DType::U32, DType::U8, DType::Bool, DType::I8];
    all.contains(&dtype.part())
}

pub(super) fn write_named_numbers(p: &mut Program, name: &str, t: &Tensor) -> Result<()> {
    match t.dtype {
        DType::C64 => {
            return write_conform_numbers(p.values_mut::<[f32; 2]>(name)?.as_flattened_mut(), t, |x| x as f32);
        }
        DType::C128 => return write_conform_numbers(p.values_mut::<[f64; 2]>(name)?.as_flattened_mut(), t, |x| x),
        _ => {}
    }
    by_dtype!(t.dtype, T => {
        let to = p.values_mut::<T>(name)?;
        write_conform_numbers(to, t, |x| x as T)
    })
}

fn write_conform_numbers<T>(to: &mut [T], t: &Tensor, round: impl Fn(f64) -> T) -> Result<()> {
    if to.len() != t.data.len() {
        let text = format!("the leaf has {} numbers, and {} are given", to.len(), t.data.len());
        return Err(Error::new(Kind::Data, text));
    }
    to.iter_mut().zip(&t.data).for_each(|(to, x)| *to = round(*x));
    Ok(())
}

// One arm of the macro casts f64 to itself.
#[allow(clippy::unnecessary_cast)]
pub(super) fn read_named_numbers(p: &Program, name: &str, dtype: DType) -> Result<Vec<f64>> {
    match dtype {
        DType::C64 => Ok(p.values::<[f32; 2]>(name)?.as_flattened().iter().map(|&x| f64::from(x)).collect()),
        DType::C128 => Ok(p.values::<[f64; 2]>(name)?.as_flattened().to_vec()),
        _ => by_dtype!(dtype, T => Ok(p.values::<T>(name)?.iter().map(|&x| x as f64).collect())),
    }
}

/// Type of a value as (dtype, dims).
pub fn conform_value_type(g: Graph<'_>, v: Value) -> (DType, Vec<usize>) {
    (g.dtype[v.at()], g.dims(v).to_vec())
}

/// Largest |a − b| / max(1, |a|, |b|); NaN against NaN and equal infinities count as equal. Infinite if the lengths
/// differ.
pub fn conform_distance(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        return f64::INFINITY;
    }
    let one = |(&x, &y): (&f64, &f64)| {
        if x == y || (x.is_nan() && y.is_nan()) {
            0.0
        } else {
            let d = (x - y).abs() / x.abs().max(y.abs()).max(1.0);
            if d.is_nan() { f64::INFINITY } else { d }
        }
    };
    a.iter().zip(b).map(one).fold(0.0, f64::max)
}

/// Equal to the bit (NaN payloads aside).
pub fn same_conform_bits(a: &Tensor, b: &Tensor) -> bool {
    let bit = |(x, y): (&f64, &f64)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    a.dims == b.dims && a.data.iter().zip(&b.data).all(bit)
}
