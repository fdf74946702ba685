//! Draws of numbers and tensors from domains.

use super::tensor::{Tensor, conform_numbers_of_element};
use crate::nodes::DType;
use crate::nodes::ir::opdef::Domain;

/// A stream of random numbers (SplitMix64), the same for the same seed. It shares no code with the streams that
/// programs draw from.
pub struct TensorDraws(pub u64);

impl TensorDraws {
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
