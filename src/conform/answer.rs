//! The answer of a facet: it holds, it does not apply, or it is wrong.

use super::tensor::Tensor;
use crate::error::Error;
use crate::nodes::DType;

/// Why a facet does not hold.
pub(super) enum FacetError {
    /// The question does not apply, with the reason.
    NotAsked(&'static str),
    /// The answer is wrong.
    Fails(String),
}

impl From<&'static str> for FacetError {
    fn from(reason: &'static str) -> FacetError {
        FacetError::NotAsked(reason)
    }
}

impl From<String> for FacetError {
    fn from(why: String) -> FacetError {
        FacetError::Fails(why)
    }
}

impl From<Error> for FacetError {
    fn from(e: Error) -> FacetError {
        FacetError::Fails(e.to_string())
    }
}

/// The answer to a facet.
pub(super) type Answer = Result<(), FacetError>;

/// `Ok` if `holds`, else a wrong answer.
pub(super) fn facet_holds(holds: bool, why: impl FnOnce() -> String) -> Answer {
    if holds { Ok(()) } else { Err(FacetError::Fails(why())) }
}

/// How far apart two computations of the same numbers may be.
pub(super) fn facet_tolerance(t: &Tensor) -> f64 {
    if t.dtype.part() == DType::F32 { 2e-5 } else { 1e-12 }
}
