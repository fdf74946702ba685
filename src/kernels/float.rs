//! The floating-point types that kernels compute in, behind one trait.

use crate::kernels::num::Scalar;
use crate::kernels::vmath;

/// `f32` or `f64`: arithmetic and elementary functions, and the reductions of [`Scalar`].
pub trait Float: vmath::Real + Scalar {}

impl Float for f32 {}
impl Float for f64 {}
