//! Which ops are optimiser steps, what their operands are, and which fused weight updates belong to them.

use crate::nodes::ir::opdef::Op;

/// The number of operands of each param and of scalars after them; `None` where `op` is no step.
pub fn optim_step_layout(op: Op) -> Option<(usize, usize)> {
    match op {
        Op::SGD => Some((2, 1)),
        Op::SGD_MOMENTUM => Some((3, 2)),
        Op::ADAM => Some((4, 2)),
        _ => None,
    }
}

/// Steps and their fused weight updates.
const BEHIND: [(Op, Op); 3] =
    [(Op::SGD, Op::MATMUL_SGD), (Op::SGD_MOMENTUM, Op::MATMUL_SGD_MOMENTUM), (Op::ADAM, Op::MATMUL_ADAM)];

/// The fused weight update of step `op`.
pub fn fused_update_of_step(op: Op) -> Option<Op> {
    BEHIND.iter().find(|b| b.0 == op).map(|b| b.1)
}

/// The step of the fused weight update `op`.
pub fn step_of_fused_update(op: Op) -> Option<Op> {
    BEHIND.iter().find(|b| b.1 == op).map(|b| b.0)
}
