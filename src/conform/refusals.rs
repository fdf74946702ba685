//! The facet about variants of a case: shape inference refuses each, or the op computes what its definition says.
//!
//! An accepted variant is judged by the definition alone. Its decomposition, if there is one, must have the same types
//! and numbers. Forward and reverse mode must be adjoint, which also shows that cotangents have the types of the
//! operands. If the variant differs only in the value of an attribute, and that value is not an extreme one, every
//! other facet is checked, too.

use super::answer::{Answer, FacetError, facet_holds};
use super::conform_run::{How, PLAIN, try_run_once};
use super::derivative_facets::adjoint_derivative_facet;
use super::facets::{FACETS, kernel_facet};
use super::op_name_seed;
use super::sample::{F64_ONLY, Sample, Tally};
use super::tensor;
use super::tensor_draws::TensorDraws;
use super::variants::{self, Differs, Variant};
use crate::arena::Value;
use crate::error::{Error, Kind};
use crate::location::Location;
use crate::nodes::DType;
use crate::nodes::ir::opdef::Lower;

/// The most elements of all operands of a sample whose variants are tried.
const TRIED: usize = 600;

/// The most elements of a value of a variant that is run.
const RUN: usize = 4096;

/// The most accepted values of one attribute of a case that are asked every other facet.
const ASKED: usize = 2;

/// The name of the facet of this file.
pub(super) const VARIANTS: &str = "variants";

pub(super) fn judge_sample(s: &Sample) -> Answer {
    if s.operands.iter().map(|t| t.data.len()).sum::<usize>() > TRIED {
        return Err("large".into());
    }
    // Shape inference asks for the kind of a float, and seldom for its size.
    if s.float == DType::F32 {
        return Err(F64_ONLY.into());
    }
    // Other draws for each case, so that cases ask about different values.
    let mut draw = TensorDraws(op_name_seed(&s.name));
    let mut asked = vec![0; s.def.attrs.len()];
    let mut wrong = Vec::new();
    for v in variants::vary_case(s, &mut draw) {
        if let Err(FacetError::Fails(why)) = judge_refusal(s, &v, &mut asked, &mut draw) {
            wrong.push(format!("({}) {}: {why}", v.given.args, v.given.attrs));
        }
    }
    facet_holds(wrong.is_empty(), || wrong.join("\n    "))
}

/// Whether a variant is refused by name, or right. `asked` counts, for each attribute, the values that were asked every
/// facet.
fn judge_refusal(s: &Sample, v: &Variant, asked: &mut [usize], draw: &mut TensorDraws) -> Answer {
    let built = Sample::build(s.name.clone(), s.def, v.given.clone(), s.float, &mut TensorDraws(draw.bits()));
    if v.differs != Differs::Number {
        let mut tally: Tally = s.tally.get();
        *if built.is_ok() { &mut tally.accepted } else { &mut tally.refused } += 1;
        s.tally.set(tally);
    }
    let variant = match built {
        Err(e) => return is_named_in_refusal(s, &e),
        Ok(variant) => variant,
    };
    let number = v.given.args.split_whitespace().count();
    facet_holds(s.def.arity.allows(number), || format!("{number} operands are accepted"))?;
    if !has_refusable_numbers(&variant) || runs_long_for_refusal(&variant) {
        return Ok(());
    }
    if let Err(e) = try_run_once(&variant.graph, &variant.operands, How { poison: true, ..PLAIN }) {
        // An index that is in range for the case, and not for the variant.
        return facet_holds(e.kind == Kind::Data && e.message.contains(s.def.name), || format!("it does not run: {e}"));
    }
    // 0·∞ is NaN in one form of an op, and does not occur in another.
    let infinite = |attrs: &str| attrs.contains("=inf") || attrs.contains("=-inf");
    if infinite(&v.given.attrs) && !infinite(s.given.case.attrs) {
        return Ok(());
    }
    // The mean of nothing is NaN: its derivatives are those of no number.
    let differs = match variant.operands.iter().any(|t| t.data.is_empty()) {
        true => Differs::Extreme,
        false => v.differs,
    };
    match differs {
        Differs::Attribute(k) if asked[k] < ASKED => {
            asked[k] += 1;
            refusal_facets_hold(&variant)
        }
        Differs::Operand | Differs::Attribute(_) => {
            refusal_answered(kernel_facet(&variant))?;
            refusal_answered(adjoint_derivative_facet(&variant))
        }
        _ => refusal_answered(kernel_facet(&variant)),
    }
}

/// An error names the op and a place.
fn is_named_in_refusal(s: &Sample, e: &Error) -> Answer {
    facet_holds(e.message.contains(s.def.name), || format!("the error names no op: {e}"))?;
    facet_holds(e.location != Location::Nowhere, || format!("the error names no place: {e}"))
}

/// Whether the values of a sample are few, and of types that tests have numbers of.
fn has_refusable_numbers(s: &Sample) -> bool {
    let v = s.graph.view();
    let few = (0..v.dtype.len()).all(|k| v.dims(Value(k as u32)).numel() <= RUN);
    few && v.dtype.iter().all(|&dtype| tensor::is_testable_dtype(dtype))
}

/// Whether a loop runs more often than a test waits for.
fn runs_long_for_refusal(s: &Sample) -> bool {
    let numbers = s.given.attrs.split(['=', ' ', ',', '[', ']']).filter_map(|word| word.parse::<i64>().ok());
    matches!(s.def.lower, Lower::Loop) && numbers.max().is_some_and(|n| n > RUN as i64)
}

/// An answer, or none to a question that does not apply.
fn refusal_answered(answer: Answer) -> Answer {
    match answer {
        Err(FacetError::NotAsked(_)) => Ok(()),
        other => other,
    }
}

fn refusal_facets_hold(s: &Sample) -> Answer {
    FACETS.iter().try_for_each(|(name, facet)| match facet(s) {
        Err(FacetError::Fails(why)) => Err(FacetError::Fails(format!("{name}: {why}"))),
        other => refusal_answered(other),
    })
}
