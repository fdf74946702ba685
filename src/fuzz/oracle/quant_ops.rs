//! Ops on quantised numbers that have no decomposition.

use super::array::Array;
use super::rounding::Rounding;
use super::stop::Stop;

/// Checks that the scales `x` are normal numbers above 0. A scale that may be none sets `may_fault`.
pub(super) fn oracle_quant_scales(x: &Array, may_fault: &mut bool) -> Result<(), Stop> {
    let least = Rounding::of(x.dtype).least;
    for (i, (s, bound)) in x.each_real().enumerate() {
        let fine = |s: f64| s >= least && s.is_finite();
        if !fine(s) && (bound == 0.0 || s + bound <= 0.0) {
            return Err(Stop::fault(format!("scale {i} is no normal number above 0")));
        }
        *may_fault |= !fine(s - bound) || !fine(s + bound);
    }
    Ok(())
}
