//! Kernels of the family `signal`: Fourier transforms.

pub mod fft;
