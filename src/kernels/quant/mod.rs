//! Scales of quantised numbers: their check, and the gradients of learned ones. Products of codes are in
//! [`dequant`](crate::dequant) and [`int_gemm`](crate::int_gemm).

pub mod lsq;
pub mod positive_scale;
