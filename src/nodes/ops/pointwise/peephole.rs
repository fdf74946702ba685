//! Peephole optimisation of tile programs: several steps become one. A tile is swept less often, with the same bits.
//! Most of the groups that it replaces come from derivatives.

use crate::kernels::tile::{TileOp, TileStep, supports_operand_type};
use crate::nodes::ops::pointwise::slot::Slot;

/// A step and the sources of its operands.
type Sourced = (TileStep, Vec<Slot>);

/// Replaces several steps by one where a pattern fits. A step that no other step reads is not executed.
pub(in crate::nodes) fn shorten_steps(steps: &mut [Sourced]) {
    let find = |i| Some((i, match_gate(steps, i).or_else(|| match_slope(steps, i))?));
    let found: Vec<(usize, Sourced)> = (0..steps.len()).filter_map(find).collect();
    for (i, step) in found {
        steps[i] = step;
    }
}

/// The step at `slot` and its operands, if it is an `op`.
fn find_step(steps: &[Sourced], slot: Slot, op: TileOp) -> Option<(&TileStep, &[Slot])> {
    match slot {
        Slot::TileStep(i) => steps.get(i).filter(|(s, _)| s.op == op).map(|(s, of)| (s, &of[..])),
        Slot::Input(_) => None,
    }
}

/// The number that `slot` is filled with.
fn filled_number(steps: &[Sourced], slot: Slot) -> Option<f64> {
    find_step(steps, slot, TileOp::Fill).map(|(s, _)| s.imm[0] + s.imm[1])
}

/// A select between a value and +0 by a comparison with 0.
fn match_gate(steps: &[Sourced], i: usize) -> Option<Sourced> {
    let (choice, operands) = find_step(steps, Slot::TileStep(i), TileOp::Select)?;
    let &[by, value, other] = operands else { return None };
    let (compare, of) = find_step(steps, by, TileOp::Gt)?;
    let zeros = filled_number(steps, of[1])? == 0.0 && filled_number(steps, other)?.to_bits() == 0;
    let fits = zeros && compare.elem == choice.elem && supports_operand_type(TileOp::Gate, choice.elem);
    fits.then(|| (TileStep::new(TileOp::Gate, choice.elem, &[], [0.0; 2]), vec![of[0], value]))
}

/// A value times the derivative of an activation, computed from the activation's result y: 1 − y² or y·(1 − y).
fn match_slope(steps: &[Sourced], i: usize) -> Option<Sourced> {
    let (step, operands) = find_step(steps, Slot::TileStep(i), TileOp::Mul)?;
    let &[a, b] = operands else { return None };
    let (op, y, value) = [(a, b), (b, a)].into_iter().find_map(|(slope, value)| {
        let tanh = || Some((TileOp::TanhGrad, match_square(steps, match_one_minus(steps, slope)?)?, value));
        let sigmoid = || {
            let (_, &[p, q]) = find_step(steps, slope, TileOp::Mul)? else { return None };
            let (y, _) = [(p, q), (q, p)].into_iter().find(|&(y, rest)| match_one_minus(steps, rest) == Some(y))?;
            Some((TileOp::SigmoidGrad, y, value))
        };
        tanh().or_else(sigmoid)
    })?;
    supports_operand_type(op, step.elem).then(|| (TileStep::new(op, step.elem, &[], [0.0; 2]), vec![y, value]))
}

/// x, if `slot` is 1 − x.
fn match_one_minus(steps: &[Sourced], slot: Slot) -> Option<Slot> {
    let (_, &[one, x]) = find_step(steps, slot, TileOp::Sub)? else { return None };
    (filled_number(steps, one)? == 1.0).then_some(x)
}

/// x, if `slot` is x · x.
fn match_square(steps: &[Sourced], slot: Slot) -> Option<Slot> {
    let (_, &[x, same]) = find_step(steps, slot, TileOp::Mul)? else { return None };
    (x == same).then_some(x)
}
