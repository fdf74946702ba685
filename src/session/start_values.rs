//! Start values of params and states.
//!
//! A draw is a function of the seed, the leaf's name and the element's index, and of nothing else. So a new layer, or
//! another order of the leaves, does not change the draws of the other leaves.

use crate::arena::philox::philox;
use crate::arena::rng;
use crate::nodes::ops::random::var::RNG_STATE;
use crate::nodes::{DType, Init};
use rayon::prelude::*;

/// Fills the bytes of leaf `name`, or says why that cannot be.
pub fn fill_start_values(bytes: &mut [u8], dtype: DType, init: Init, seed: u64, name: &str) -> Result<(), String> {
    if name == RNG_STATE && dtype == DType::U32 && bytes.len() == 16 {
        bytes.copy_from_slice(bytemuck::cast_slice(&[seed as u32, (seed >> 32) as u32, 0, 0]));
        return Ok(());
    }
    let stream = start_value_stream(name);
    let draw = |i: usize| match init {
        Init::Zeros => 0.0,
        Init::Ones => 1.0,
        Init::Uniform(bound) => bound * (2.0 * uniform_start_value(seed, stream, i as u64).0 - 1.0),
        Init::Normal(sigma) => {
            let (u, v) = uniform_start_value(seed, stream, i as u64);
            // Box–Muller; 1 − u is above 0.
            sigma * (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos()
        }
    };
    let random = matches!(init, Init::Uniform(_) | Init::Normal(_));
    if random && (!dtype.is_differentiable() || dtype == DType::C64) {
        return Err(format!("no random start values of {dtype}"));
    }
    draw_start_values(bytes, dtype, draw);
    Ok(())
}

/// Fills `bytes` with `x`, rounded to the type.
pub fn fill_constant_start(bytes: &mut [u8], dtype: DType, x: f64) {
    draw_start_values(bytes, dtype, |_| x);
}

fn draw_start_values(bytes: &mut [u8], dtype: DType, draw: impl Fn(usize) -> f64 + Sync) {
    match dtype {
        DType::F32 => each_start_value(bytes, |i| draw(i) as f32),
        DType::F64 => each_start_value(bytes, draw),
        DType::F16 => each_start_value(bytes, |i| half::f16::from_f64(draw(i))),
        DType::BF16 => each_start_value(bytes, |i| half::bf16::from_f64(draw(i))),
        DType::I8 => each_start_value(bytes, |i| draw(i) as i8),
        DType::U8 | DType::Bool => each_start_value(bytes, |i| draw(i) as u8),
        DType::I32 => each_start_value(bytes, |i| draw(i) as i32),
        DType::U32 => each_start_value(bytes, |i| draw(i) as u32),
        DType::I64 => each_start_value(bytes, |i| draw(i) as i64),
        DType::C64 => each_start_value(bytes, |i| [draw(i) as f32, 0.0]),
    }
}

/// Leaves above this many elements are drawn by all cores; below it, waking them would take longer.
const PARALLEL: usize = 1 << 20;

fn each_start_value<T: bytemuck::Pod + Send>(bytes: &mut [u8], f: impl Fn(usize) -> T + Sync) {
    let items = bytemuck::cast_slice_mut::<u8, T>(bytes);
    match items.len() > PARALLEL {
        true => items.par_iter_mut().with_min_len(PARALLEL / 16).enumerate().for_each(|(i, x)| *x = f(i)),
        false => items.iter_mut().enumerate().for_each(|(i, x)| *x = f(i)),
    }
}

/// FNV-1a.
fn start_value_stream(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// Two numbers in [0, 1), of 53 and 53 bits.
fn uniform_start_value(seed: u64, stream: u64, i: u64) -> (f64, f64) {
    let counter = [i as u32, (i >> 32) as u32, stream as u32, (stream >> 32) as u32];
    let [a, b, c, d] = philox(counter.map(|word| [word]), [seed as u32, (seed >> 32) as u32]).map(|word| word[0]);
    let unit = |hi: u32, lo: u32| rng::unit(u64::from(hi) << 32 | u64::from(lo));
    (unit(a, b), unit(c, d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_draws_have_their_moments() {
        let mut x = vec![0f32; 10_000];
        fill_start_values(bytemuck::cast_slice_mut(&mut x), DType::F32, Init::Normal(2.0), 7, "w").unwrap();
        let mean = x.iter().sum::<f32>() / 1e4;
        let var = x.iter().map(|v| v * v).sum::<f32>() / 1e4;
        assert!(mean.abs() < 0.1 && (var - 4.0).abs() < 0.3, "{mean} {var}");
    }
}
