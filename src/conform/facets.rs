//! The facets: checks of one sample each. Those about derivatives are in `derivative_facets`.
//!
//! Invariant: a facet reads the definition alone, so it holds for any op.

use super::answer::{Answer, facet_holds, facet_tolerance};
use super::batch_facet;
use super::conform_run::{How, PLAIN, try_run_once};
use super::derivative_facets;
use super::sample::{Sample, build_node_graph};
use super::tensor::{Tensor, conform_distance, same_conform_bits};
use crate::nodes::ir::opdef::has_generic_types;
use crate::nodes::ir::text;
use crate::nodes::{DType, GraphBuf};
use crate::passes::ad::prepare;

/// A question about a sample.
pub(super) type Facet = fn(&Sample) -> Answer;

/// The facets of a sample. That of its variants, which asks these in turn, is in `refusals`.
pub(super) const FACETS: [(&str, Facet); 10] = [
    ("text", text_facet),
    ("kernel", kernel_facet),
    ("f32=f64", f32_facet),
    ("threads", threads_and_poison_facet),
    ("in place", in_place_facet),
    ("vjp", derivative_facets::reverse_derivative_facet),
    ("jvp", derivative_facets::adjoint_derivative_facet),
    ("2nd order", derivative_facets::second_derivative_facet),
    ("zero", derivative_facets::zero_derivative_facet),
    ("vmap", batch_facet::batch_facet),
];

fn text_facet(s: &Sample) -> Answer {
    let printed = text::print(s.graph.view());
    let parsed = text::parse_with(&printed, &[s.def])?;
    facet_holds(parsed == s.graph, || format!("the text is of another graph:\n{printed}"))
}

pub(super) fn kernel_facet(s: &Sample) -> Answer {
    if s.def.decompose.is_none() {
        return Err("simplest".into());
    }
    let slow = prepare::decompose_fully(s.graph.view())?;
    let raw = How { optimise: false, ..PLAIN };
    let (a, b) = (s.results()?, try_run_once(&slow, &s.operands, raw)?);
    a.iter().zip(&b).try_for_each(|(a, b)| {
        let d = conform_distance(&a.data, &b.data);
        facet_holds(d <= facet_tolerance(a), || format!("{d:e} apart\n{:?}\n{:?}", a.data, b.data))
    })
}

fn f32_facet(s: &Sample) -> Answer {
    if !has_generic_types(&s.given.args) {
        return Err("one type".into());
    }
    if s.def.name.starts_with("rng") || s.def.name == "dropout" {
        return Err("other draws".into());
    }
    if s.float == DType::F64 {
        return Err("f32 only".into());
    }
    // The same numbers: those of f32.
    let y = s.results()?;
    let wider = |dtype: DType| match dtype {
        DType::F32 => DType::F64,
        DType::C64 => DType::C128,
        other => other,
    };
    let wide = |t: &Tensor| Tensor { dtype: wider(t.dtype), ..t.clone() };
    let twin = build_node_graph(s.def, &s.given, DType::F64, false)?;
    let z = try_run_once(&twin, &s.operands.iter().map(wide).collect::<Vec<_>>(), PLAIN)?;
    y.iter().zip(&z).filter(|(y, _)| y.dtype.part().is_float()).try_for_each(|(y, z)| {
        let d = conform_distance(&y.data, &z.data);
        facet_holds(d <= 3e-5, || format!("{d:e} apart\n{:?}\n{:?}", y.data, z.data))
    })
}

fn threads_and_poison_facet(s: &Sample) -> Answer {
    let one = s.results()?;
    let shared = [2, 3, 7].map(|threads| How { threads, share: true, ..PLAIN });
    for how in shared.into_iter().chain([How { threads: 3, ..PLAIN }, How { poison: true, ..PLAIN }]) {
        let many = try_run_once(&s.graph, &s.operands, how)?;
        let same = one.iter().zip(&many).all(|(a, b)| same_conform_bits(a, b));
        facet_holds(same, || format!("other bits with {how:?}"))?;
    }
    Ok(())
}

fn in_place_facet(s: &Sample) -> Answer {
    let raw = How { optimise: false, ..PLAIN };
    let ready = |behind| -> crate::Result<GraphBuf> {
        prepare::lowerable_form(build_node_graph(s.def, &s.given, s.float, behind)?.view())
    };
    let (a, b) = (try_run_once(&ready(false)?, &s.operands, raw)?, try_run_once(&ready(true)?, &s.operands, raw)?);
    facet_holds(a.iter().zip(&b).all(|(a, b)| same_conform_bits(a, b)), || "other bits in place".into())
}
