//! The facet about batches. For each choice of operands that differ between members, the batched graph must compute
//! what the graph computes for each member alone.

use super::answer::{Answer, FacetError, facet_holds, facet_tolerance};
use super::conform_run::{ConformRun, PLAIN, try_run_once};
use super::derivative_facets::derivative_facet_names;
use super::sample::{Sample, draw_operands};
use super::tensor::{Tensor, conform_distance, conform_numbers_of_element, same_conform_bits};
use super::tensor_draws::TensorDraws;
use crate::arena::ids::Id;
use crate::error::Result;
use crate::nodes::GraphBuf;
use crate::nodes::ir::opdef::{Batch, Domain};
use crate::passes::{Missing, Randomness, Vmap, vjp, vmap};

/// Members of a batch.
const MEMBERS: usize = 3;
/// Up to this number of operands, all choices of them are tried; beyond, single operands and all together.
const FEW: usize = 3;

/// The choices of operands that differ between members, as bits.
fn operand_choices(operands: usize) -> Vec<u32> {
    let all = (1u32 << operands) - 1;
    match operands {
        0 => Vec::new(),
        _ if operands <= FEW => (1..=all).collect(),
        _ => (0..operands).map(|i| 1 << i).chain([all]).collect(),
    }
}

/// `parts`, one for each member, as one tensor with the batch's axis at `axis`.
fn stack_batch_members(parts: &[&Tensor], axis: usize) -> Tensor {
    let first = parts[0];
    let mut dims = first.dims.clone();
    let inner = dims[axis..].iter().product::<usize>() * conform_numbers_of_element(first.dtype);
    let outer: usize = dims[..axis].iter().product();
    dims.insert(axis, parts.len());
    let row = |o: usize| parts.iter().flat_map(move |p| p.data[o * inner..(o + 1) * inner].iter().copied());
    Tensor { dtype: first.dtype, dims, data: (0..outer).flat_map(row).collect() }
}

/// The graph of a sample, or of its gradient, and operands of each member.
struct BatchFacetRun<'s> {
    graph: &'s GraphBuf,
    /// The graph, compiled once for all members.
    alone: ConformRun<'s>,
    /// For each member, its operands, in the order of the leaves.
    members: Vec<Vec<Tensor>>,
    exact: bool,
}

impl<'s> BatchFacetRun<'s> {
    fn new(graph: &'s GraphBuf, members: Vec<Vec<Tensor>>, exact: bool) -> Result<BatchFacetRun<'s>> {
        Ok(BatchFacetRun { graph, alone: ConformRun::new(graph, PLAIN)?, members, exact })
    }

    /// The batched graph against runs of single members. Operands `chosen` differ. The batch's axis is the last one
    /// of leaves and outputs if `last`, else the first.
    fn agrees(&mut self, chosen: u32, last: bool) -> Answer {
        let v = self.graph.view();
        let differs = |i: usize| chosen & (1 << i) != 0;
        let mut map = Vmap::new(self.members.len()).randomness(Randomness::Same);
        for (_, l) in v.leaves().enumerate().filter(|(i, _)| differs(*i)) {
            map = map.leaf(l.name, if last { -1 } else { 0 });
        }
        for &name in v.output_names {
            map = map.output(v.str(name), if last { -1 } else { 0 });
        }
        let axis = |t: &Tensor| if last { t.dims.len() } else { 0 };
        let operand = |i: usize, t: &Tensor| match differs(i) {
            true => stack_batch_members(&self.members.iter().map(|m| &m[i]).collect::<Vec<_>>(), axis(t)),
            false => t.clone(),
        };
        let inputs: Vec<Tensor> = self.members[0].iter().enumerate().map(|(i, t)| operand(i, t)).collect();
        let have = try_run_once(&vmap(self.graph, &map)?, &inputs, PLAIN);
        let mut want = Vec::new();
        for member in &self.members {
            let pick = |(i, t): (usize, &Tensor)| if differs(i) { t.clone() } else { self.members[0][i].clone() };
            match self.alone.run(&member.iter().enumerate().map(pick).collect::<Vec<_>>()) {
                Ok(results) => want.push(results),
                // An index out of range stops a member, and so the batch.
                Err(e) => {
                    return facet_holds(have.is_err(), || format!("a member fails alone ({e}), and not in the batch"));
                }
            }
        }
        let have = have?;
        for (i, have) in have.iter().enumerate() {
            let parts: Vec<&Tensor> = want.iter().map(|w| &w[i]).collect();
            let want = stack_batch_members(&parts, axis(parts[0]));
            let why = |what: &str| format!("{what}; operands {chosen:b} batched\n{:?}\n{:?}", have.data, want.data);
            facet_holds(have.dims == want.dims, || {
                why(&format!("result {i} is {:?}, not {:?}", have.dims, want.dims))
            })?;
            let off = conform_distance(&have.data, &want.data);
            let near = if self.exact { same_conform_bits(have, &want) } else { off <= facet_tolerance(have) };
            facet_holds(near, || why(&format!("result {i} is {off:e} apart")))?;
        }
        Ok(())
    }
}

pub(super) fn batch_facet(s: &Sample) -> Answer {
    let count = s.operands.len();
    if count == 0 {
        return Err("no operand".into());
    }
    let mut draw = TensorDraws(31);
    let mut members = vec![s.operands.clone()];
    members.extend((1..MEMBERS).map(|_| draw_operands(&s.graph, s.given.case, &mut draw)));
    // What one step of the tile interpreter computes does not depend on the shape.
    let exact = s.def.is_pointwise() && matches!(s.def.batch, Batch::Leading);
    let all = (1u32 << count) - 1;
    let mut batched = BatchFacetRun::new(&s.graph, members, exact)?;
    batched.agrees(all, true)?;
    operand_choices(count).into_iter().try_for_each(|chosen| batched.agrees(chosen, false))?;
    for size in [1, 0] {
        let mut map = Vmap::new(size).randomness(Randomness::Same);
        for l in s.graph.view().leaves() {
            map = map.leaf(l.name, 0);
        }
        let one: Vec<Tensor> = s.operands.iter().map(|t| stack_batch_members(&vec![t; size.max(1)], 0)).collect();
        let none = |t: &Tensor| Tensor { dims: [&[0], &t.dims[1..]].concat(), data: Vec::new(), ..t.clone() };
        let inputs: Vec<Tensor> = if size == 0 { one.iter().map(none).collect() } else { one };
        try_run_once(&vmap(&s.graph, &map)?, &inputs, PLAIN)
            .map_err(|e| FacetError::Fails(format!("{size} members: {e}")))?;
    }
    compare_gradients(s, &batched.members)
}

/// The gradients of all members at once against those of single members.
fn compare_gradients(s: &Sample, members: &[Vec<Tensor>]) -> Answer {
    let Ok((wrt, outs)) = s.differentiable() else { return Ok(()) };
    let g = vjp(s.graph.view(), &derivative_facet_names(&outs), &derivative_facet_names(&wrt), Missing::Zero)?;
    let v = g.view();
    let mut draw = TensorDraws(43);
    let full = |member: &Vec<Tensor>, draw: &mut TensorDraws| {
        let seeds = v.leaves().skip(member.len());
        let more = seeds.map(|l| draw.tensor(v.dtype[l.value.at()], &v.dims(l.value), Domain::Real));
        member.iter().cloned().chain(more).collect::<Vec<_>>()
    };
    let members: Vec<Vec<Tensor>> = members.iter().map(|m| full(m, &mut draw)).collect();
    let count = members[0].len();
    let mut batched = BatchFacetRun::new(&g, members, false)?;
    let all = (1u32 << count) - 1;
    let own = (1u32 << s.operands.len()) - 1;
    // Single operands differ, or all of them, or all of them and the seeds.
    (0..s.operands.len()).map(|i| 1 << i).chain([own, all]).try_for_each(|chosen| batched.agrees(chosen, false))
}
