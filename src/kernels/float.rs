//! The floating-point types that kernels compute in, behind one trait.

use crate::num::Num;
use crate::vmath;

/// `f32` or `f64`: arithmetic and elementary functions, and the reductions of [`Num`].
pub trait Float: vmath::Real + Num {}

impl Float for f32 {}
impl Float for f64 {}
