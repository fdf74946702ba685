//! Kernels of the family `signal`: Fourier transforms.

pub mod fft;
mod half_spectrum;
