//! Ops on quantised numbers that no decomposition explains.

use super::array::Array;
use super::stop::Stop;

/// The scales `x`, which must be above 0 and finite. A scale that may be neither sets `may_fault`.
pub(super) fn positive_scales(x: &Array, may_fault: &mut bool) -> Result<Array, Stop> {
    for (i, (s, bound)) in x.each_real().enumerate() {
        let fine = |s: f64| s > 0.0 && s.is_finite();
        if !fine(s) && (bound == 0.0 || s + bound <= 0.0) {
            return Err(Stop::fault(format!("scale {i} is not above 0 and finite")));
        }
        *may_fault |= !fine(s - bound) || !fine(s + bound);
    }
    Ok(x.clone())
}
