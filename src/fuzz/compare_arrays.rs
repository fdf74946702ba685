//! Compares two results element by element: within the bounds of both, with rules for NaN and infinities. It counts the
//! elements that were compared and those that rounding leaves open.

use super::oracle::{Array, Named, Reference, largest_of_float_type};
use crate::nodes::DType;
use std::fmt;

/// Two elements that differ.
#[derive(Clone, Debug, PartialEq)]
pub struct ElementDifference {
    /// The output, or the param or state after the step.
    pub name: String,
    /// The position of the element, in row-major order.
    pub element: usize,
    /// The element on the left; in a check of a run, the engine's.
    pub left: f64,
    /// The element on the right; in a check of a run, the oracle's.
    pub right: f64,
    /// The most that rounding explains.
    pub bound: f64,
}

impl fmt::Display for ElementDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ElementDifference { name, element, left, right, bound } = self;
        write!(f, "element {element} of {name:?} is {left:e} against {right:e}, and rounding explains {bound:e}")
    }
}

/// How many elements two results agree in, and how close they come to their bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agreement {
    /// Elements that were compared.
    pub compared: usize,
    /// Elements that rounding leaves open: they are not compared.
    pub unknown: usize,
    /// Runs without a reference: none of their elements is compared.
    pub without_reference: usize,
    /// Bounds relative to their elements, one for each float that was compared and is not 0.
    pub relative: Vec<f64>,
}

impl Agreement {
    /// Adds the counts of another comparison.
    pub fn join(&mut self, other: Agreement) {
        self.compared += other.compared;
        self.unknown += other.unknown;
        self.without_reference += other.without_reference;
        self.relative.extend(other.relative);
    }

    /// The median of the relative bounds; 0 without any.
    pub fn median_bound(&self) -> f64 {
        let mut all = self.relative.clone();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(0.0)
    }
}

/// Whether two numbers are equal within `bound`: NaN is NaN, an infinity is itself, and an infinity may stand for a
/// number that the type cannot hold.
fn compare_all_arrays(dtype: DType, left: f64, right: f64, bound: f64) -> bool {
    if left.is_nan() || right.is_nan() {
        return left.is_nan() && right.is_nan();
    }
    let over = |inf: f64, x: f64| inf.is_infinite() && x.abs() + bound > largest_of_float_type(dtype) && x * inf > 0.0;
    left == right || (left - right).abs() <= bound || over(left, right) || over(right, left)
}

/// What a comparison of two elements says.
pub(super) enum Verdict {
    /// Rounding leaves them open.
    Unknown,
    /// They are equal within this bound.
    Equal(f64),
    /// They differ by more than this bound.
    Different(f64),
}

/// Compares element `i` of two arrays of one type. The bound is that of both sides together.
pub(super) fn compare_array_elements(left: &Array, right: &Array, i: usize) -> Verdict {
    let bound = match (left.bounds().get(i), right.bounds().get(i)) {
        (Some(a), Some(b)) => a + b,
        _ => return Verdict::Different(0.0),
    };
    if bound == f64::INFINITY {
        return Verdict::Unknown;
    }
    let parts = left.pair(i).zip(right.pair(i));
    let same = match (left.whole(i), right.whole(i)) {
        (Some(a), Some(b)) => a == b,
        _ if let Some((a, b)) = parts => (0..2).all(|k| compare_all_arrays(left.dtype().part(), a[k], b[k], bound)),
        _ => compare_all_arrays(left.dtype(), left.number(i), right.number(i), bound),
    };
    if same { Verdict::Equal(bound) } else { Verdict::Different(bound) }
}

/// Compares two arrays of one type. An element whose bound is infinite on either side is not compared.
///
/// # Errors
/// The first difference.
pub fn compare_arrays(name: &str, left: &Array, right: &Array) -> Result<Agreement, ElementDifference> {
    let mut seen = Agreement::default();
    for element in 0..left.len().max(right.len()) {
        match compare_array_elements(left, right, element) {
            Verdict::Unknown => seen.unknown += 1,
            Verdict::Equal(bound) => {
                seen.compared += 1;
                let size = right.number(element).abs();
                if left.dtype().is_real_float() && size > 0.0 && size.is_finite() {
                    seen.relative.push(bound / size);
                }
            }
            Verdict::Different(bound) => {
                let at = |x: &Array| if element < x.len() { x.number(element) } else { f64::NAN };
                return Err(ElementDifference {
                    name: name.to_string(),
                    element,
                    left: at(left),
                    right: at(right),
                    bound,
                });
            }
        }
    }
    Ok(seen)
}

/// Compares outputs with outputs and next values with next values, by name, as a pass may reorder them. A tensor that
/// only one reference has is not compared: [`compare_graph_signatures`](super::compare_graph_signatures) tells of it.
///
/// # Errors
/// The first difference.
pub fn compare_references(left: &Reference, right: &Reference) -> Result<Agreement, ElementDifference> {
    let mut seen = Agreement::default();
    let lists: [(&[Named], &[Named]); 2] = [(&left.outputs, &right.outputs), (&left.updates, &right.updates)];
    for (left, right) in lists {
        for x in left {
            if let Some(y) = right.iter().find(|y| y.name == x.name) {
                seen.join(compare_arrays(&x.name, &x.array, &y.array)?);
            }
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_of_numbers_that_are_not_finite_is_plain() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        for (a, b, bound, same) in [
            (nan, nan, 0.0, true),
            (nan, 1.0, 5.0, false),
            (inf, inf, 0.0, true),
            (inf, -inf, 9.0, false),
            (inf, 3.4e38, 1e37, true),
            (-inf, 3.4e38, 1e37, false),
            (inf, 1e38, 1e37, false),
            (1.0, 1.5, 0.5, true),
            (1.0, 1.5, 0.4, false),
        ] {
            assert_eq!(compare_all_arrays(DType::F32, a, b, bound), same, "{a} {b} {bound}");
        }
    }
}
