//! Tensors as numbers, and draws from domains. A complex number is two numbers.

pub use super::conform_run::{How, PLAIN, try_run};
use crate::arena::Value;
use crate::arena::ids::Id;
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::Domain;
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

/// A stream of random numbers (SplitMix64), the same for the same seed. It shares no code with the streams that
/// programs draw from.
pub struct Draw(pub u64);

impl Draw {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A tensor of this type whose numbers come from `domain`.
    pub fn tensor(&mut self, dtype: DType, dims: &[usize], domain: Domain) -> Tensor {
        let n = dims.iter().product::<usize>() * conform_numbers_of_element(dtype);
        let mut data: Vec<f64> = (0..n).map(|i| self.number(domain, i)).collect();
        if domain == Domain::Distinct {
            // A shuffled ladder.
            for i in (1..n).rev() {
                data.swap(i, (self.bits() % (i as u64 + 1)) as usize);
            }
        }
        if let (Domain::Dominant, &[.., rows, cols]) = (domain, dims) {
            let on_diagonal = |i: &usize| i / cols % rows == i % cols;
            (0..n).filter(on_diagonal).for_each(|i| data[i] = 3.25 + 2.5 * data[i]);
        }
        if domain == Domain::Code && dtype == DType::I8 {
            data.iter_mut().for_each(|x| *x -= 128.0);
        }
        if dtype.part() == DType::F32 {
            data.iter_mut().for_each(|x| *x = *x as f32 as f64);
        }
        Tensor { dtype, dims: dims.to_vec(), data }
    }

    fn number(&mut self, domain: Domain, i: usize) -> f64 {
        match domain {
            Domain::Real => {
                let x = self.unit() * 3.0 - 1.5;
                if x.abs() < 0.1 { x + 0.1f64.copysign(x) } else { x }
            }
            Domain::Positive => 0.5 + 1.5 * self.unit(),
            Domain::Beyond => 2.5 + 1.5 * self.unit(),
            Domain::Chance => 0.05 + 0.9 * self.unit(),
            Domain::Unit => 0.9 * (2.0 * self.unit() - 1.0),
            Domain::Distinct => 0.05 * i as f64 - 1.0 + 0.01 * self.unit(),
            Domain::Dominant => 0.3 * (2.0 * self.unit() - 1.0),
            Domain::Index(n) => (self.bits() % n.max(1) as u64) as f64,
            Domain::Count(n) => 1.0 + (self.bits() % n.max(1) as u64) as f64,
            Domain::Bit => (self.bits() & 1) as f64,
            Domain::Bits => (self.bits() as u32) as f64,
            Domain::Code => (self.bits() & 255) as f64,
        }
    }
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
pub(super) fn is_conform_tensor_type(dtype: DType) -> bool {
    let all = [DType::F32, DType::F64, DType::I32, DType::I64, DType::U32, DType::U8, DType::Bool, DType::I8];
    all.contains(&dtype.part())
}

pub(super) fn write_conform_tensor(p: &mut Program, name: &str, t: &Tensor) -> Result<()> {
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
pub(super) fn read_conform_tensor(p: &Program, name: &str, dtype: DType) -> Result<Vec<f64>> {
    match dtype {
        DType::C64 => Ok(p.values::<[f32; 2]>(name)?.as_flattened().iter().map(|&x| f64::from(x)).collect()),
        DType::C128 => Ok(p.values::<[f64; 2]>(name)?.as_flattened().to_vec()),
        _ => by_dtype!(dtype, T => Ok(p.values::<T>(name)?.iter().map(|&x| x as f64).collect())),
    }
}

/// Type of a value as (dtype, dims).
pub fn ty(g: Graph<'_>, v: Value) -> (DType, Vec<usize>) {
    (g.dtype[v.at()], g.dims(v).to_vec())
}

/// Largest |a − b| / max(1, |a|, |b|); NaN against NaN and equal infinities count as equal. Infinite if the lengths
/// differ.
pub fn distance(a: &[f64], b: &[f64]) -> f64 {
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
pub fn same_bits(a: &Tensor, b: &Tensor) -> bool {
    let bit = |(x, y): (&f64, &f64)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    a.dims == b.dims && a.data.iter().zip(&b.data).all(bit)
}
