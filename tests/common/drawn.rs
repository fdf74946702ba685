//! Weights and inputs that the scripts under `tests/torch` draw, too, and summaries to compare tensors by.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::DType;
use arenagrad::session::{Program, Role};
use safetensors::SafeTensors;
use std::path::Path;

const SAMPLES: usize = 12;

/// Number `i` in [0, 1) of the stream called `name`: SplitMix64's finaliser over FNV-1a, as in the scripts.
pub fn unit(name: &str, i: usize) -> f64 {
    let h = name.bytes().fold(0xCBF2_9CE4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
    let mut z = h.wrapping_add((i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 * (-53f64).exp2()
}

/// A number of f32 in [−1, 1).
pub fn number(name: &str, i: usize) -> f32 {
    (2.0 * unit(name, i) - 1.0) as f32
}

/// How a param starts.
pub fn start(name: &str, dims: &[usize]) -> Vec<f32> {
    let n = dims.iter().product();
    let draw = |i| f64::from(number(name, i));
    let matrix = f64::from((3.0 * dims[0] as f64 / n as f64).sqrt() as f32);
    let mean = if name.ends_with("weight") { 1.0 } else { 0.0 };
    (0..n).map(|i| if dims.len() > 1 { draw(i) * matrix } else { draw(i) * 0.125 + mean }).map(|x| x as f32).collect()
}

/// Three sums of a tensor's elements with drawn weights, its norm, and elements at even distances.
pub fn summary(name: &str, t: &[f64]) -> Vec<f64> {
    let sum = |k: usize| t.iter().enumerate().map(|(i, x)| x * f64::from(number(&format!("{name}.{k}"), i))).sum();
    let norm = t.iter().map(|x| x * x).sum::<f64>().sqrt();
    let at = (0..SAMPLES).map(|i| t[i * t.len() / SAMPLES]);
    [sum(0), sum(1), sum(2), norm].into_iter().chain(at).collect()
}

/// The largest of some differences; infinite if one is NaN.
pub fn worst(differences: impl Iterator<Item = f64>) -> f64 {
    differences.map(|d| if d.is_nan() { f64::INFINITY } else { d }).fold(0.0, f64::max)
}

/// Largest difference of two summaries, relative to the tensor's norm.
pub fn apart(ours: &[f64], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let size = theirs[3].max(1e-3);
    worst(ours.iter().zip(theirs).map(|(a, b)| (a - b).abs() / size))
}

/// The numbers of one key of a fixture under `tests/torch`.
pub struct Fixture(Vec<u8>);

impl Fixture {
    pub fn open(name: &str) -> Fixture {
        let file = format!("tests/torch/{name}.safetensors");
        Fixture(std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap())
    }

    pub fn get(&self, key: &str) -> Vec<f64> {
        let file = SafeTensors::deserialize(&self.0).unwrap();
        let t = file.tensor(key).unwrap_or_else(|e| panic!("{key}: {e}"));
        numbers(t.data(), DType::F64)
    }
}

/// Bytes of f32 or f64 as numbers.
pub fn numbers(bytes: &[u8], dtype: DType) -> Vec<f64> {
    match dtype {
        DType::F32 => bytes.as_chunks().0.iter().map(|&b| f64::from(f32::from_le_bytes(b))).collect(),
        _ => bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect(),
    }
}

/// An output of either type.
pub fn output(p: &Program, name: &str, dtype: DType) -> Vec<f64> {
    match dtype {
        DType::F32 => p.values::<f32>(name).unwrap().iter().map(|&x| f64::from(x)).collect(),
        _ => p.values::<f64>(name).unwrap().to_vec(),
    }
}

/// Writes an input or a param of either type.
pub fn write(p: &mut Program, name: &str, data: &[f32], dtype: DType) {
    let param = p.bindings().iter().any(|b| b.name == name && b.role == Role::Param);
    match (dtype, param) {
        (DType::F32, true) => p.values_mut::<f32>(name).unwrap().copy_from_slice(data),
        (DType::F32, false) => p.values_mut::<f32>(name).unwrap().copy_from_slice(data),
        (_, true) => widen(p.values_mut::<f64>(name).unwrap(), data),
        (_, false) => widen(p.values_mut::<f64>(name).unwrap(), data),
    }
}

fn widen(to: &mut [f64], from: &[f32]) {
    assert_eq!(to.len(), from.len());
    to.iter_mut().zip(from).for_each(|(a, &b)| *a = f64::from(b));
}

/// Gives all params their start.
pub fn fill(p: &mut Program, dtype: DType) {
    p.init(0).unwrap();
    let params: Vec<_> = p.bindings().iter().filter(|b| b.role == Role::Param).cloned().collect();
    params.iter().for_each(|b| write(p, &b.name, &start(&b.name, &b.dims), dtype));
}
