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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{Region, ids::Id};
    use crate::nodes::ir::text::parse;
    use crate::nodes::ops::pointwise::map::region_program;

    /// The last step of the program of a region of these lines on a and b.
    fn last(lines: &str) -> TileOp {
        let text = format!(
            "region @r(%a: f32[9], %b: f32[9]) {{\n{lines}\n  yield %y\n}}\ngraph @g {{\n  %x = input : f32[9]\n  %z \
            = map %x, %x body=@r\n  return z=%z\n}}\n"
        );
        let g = parse(&text).unwrap();
        let r = (0..g.view().regions()).map(Region::new).find(|&r| r != g.view().entry()).unwrap();
        let p = region_program(g.view(), r).unwrap().program;
        p.steps.last().unwrap().op
    }

    #[test]
    fn a_choice_of_zero_by_a_sign_is_one_step() {
        let form = |limit: &str, other: &str, than: &str| {
            last(&format!(
                "  %l = full value={limit} : f32[9]\n  %o = full value={other} : f32[9]\n  %c = {than} %a, %l\n  %y = \
                select %c, %b, %o"
            ))
        };
        assert_eq!(form("0", "0", "gt"), TileOp::Gate);
        assert_eq!(form("1", "0", "gt"), TileOp::Select);
        assert_eq!(form("0", "1", "gt"), TileOp::Select);
        assert_eq!(form("0", "-0.0", "gt"), TileOp::Select);
        assert_eq!(form("0", "0", "ge"), TileOp::Select);
    }

    #[test]
    fn a_choice_by_the_sign_of_another_type_stays() {
        let lines = "  %i = cast %a to=i32\n  %l = full value=0 : i32[9]\n  %o = full value=0 : f32[9]\n";
        assert_eq!(last(&format!("{lines}  %c = gt %i, %l\n  %y = select %c, %b, %o")), TileOp::Select);
    }

    #[test]
    fn a_value_times_the_slope_of_an_activation_is_one_step() {
        let tanh = |one: &str, square: &str, y: &str| {
            last(&format!("  %l = full value={one} : f32[9]\n  %q = mul {square}\n  %s = sub %l, %q\n  %y = mul {y}"))
        };
        assert_eq!(tanh("1", "%a, %a", "%s, %b"), TileOp::TanhGrad);
        assert_eq!(tanh("1", "%a, %a", "%b, %s"), TileOp::TanhGrad);
        assert_eq!(tanh("2", "%a, %a", "%b, %s"), TileOp::Mul);
        assert_eq!(tanh("1", "%a, %b", "%b, %s"), TileOp::Mul);
        let sigmoid = |of: &str, slope: &str, y: &str| {
            last(&format!("  %l = full value=1 : f32[9]\n  %r = sub {of}\n  %s = mul {slope}\n  %y = mul {y}"))
        };
        assert_eq!(sigmoid("%l, %a", "%a, %r", "%s, %b"), TileOp::SigmoidGrad);
        assert_eq!(sigmoid("%l, %a", "%r, %a", "%b, %s"), TileOp::SigmoidGrad);
        assert_eq!(sigmoid("%l, %b", "%a, %r", "%b, %s"), TileOp::Mul);
        assert_eq!(sigmoid("%a, %l", "%a, %r", "%b, %s"), TileOp::Mul);
    }
}
