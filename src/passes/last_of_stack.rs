//! The last element of a stack that a loop makes is the last value of a carry, if the loop stacks that carry.
//!
//! The last step of a recurrent layer is often all that is read of it. Read from the carry, it takes no stack, and its
//! gradient is that of the carry: no stack of zeros with one element is made, turned, and read in each iteration.

use super::rebuild::{RebuildVisit, rebuild_buf};
use crate::arena::{Node, Value, ids::Id};
use crate::error::Result;
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::ops::layout::attrs::{SliceAttrs, TransposeAttrs};
use crate::nodes::{Graph, GraphBuf, Op, Var};

/// `g`, with last elements of stacks read from carries. `None` if there are none.
pub fn read_last_from_carries(g: Graph<'_>) -> Result<Option<GraphBuf>> {
    let any = (0..g.nodes()).map(Node::new).any(|n| g.op[n.at()] == Op::SLICE && last_carry(g, n).is_some());
    any.then(|| rebuild_buf(g, &mut |v| Some(vec![last_of_stack(v)?]))).transpose()
}

/// A slice of the last element of a stack, as a slice of the carry that the loop stacks.
pub fn last_of_stack<'g>(v: &RebuildVisit<'_, 'g>) -> Option<Var<'g>> {
    let Last { carry, order, axis } = last_carry(v.src, v.node)?;
    let last = v.map[carry];
    let dims = [&[1], &last.dims()[..]].concat();
    let SliceAttrs { mut starts, mut limits, steps } = SliceAttrs::of(&v.src.attrs(v.node));
    (starts[axis], limits[axis]) = (0, 1);
    let attrs = SliceAttrs { starts, limits, steps };
    Some(v.g.emit1(Op::SLICE, &[last.reshape(dims).permute(&order)], &attrs.list()))
}

/// Where the last element of a stack stands.
struct Last {
    /// The last value of the carry.
    carry: Value,
    /// The axes of the slice's operand, as axes of the stack.
    order: Vec<usize>,
    /// The axis of the slice's operand along which the stack is sliced.
    axis: usize,
}

/// The carry that slice `n` reads the last value of, if it does: from its stack, which may be transposed before.
fn last_carry(g: Graph<'_>, n: Node) -> Option<Last> {
    if g.op[n.at()] != Op::SLICE {
        return None;
    }
    let SliceAttrs { starts, limits, .. } = SliceAttrs::of(&g.attrs(n));
    let mut stack = g.args_of(n)[0];
    let mut order: Vec<usize> = (0..starts.len()).collect();
    loop {
        let made = g.def[stack.at()];
        match g.op[made.at()] {
            Op::TRANSPOSE => {
                let perm = to_size_attrs(&TransposeAttrs::of(&g.attrs(made)).perm);
                order.iter_mut().for_each(|axis| *axis = perm[*axis]);
            }
            // A recurrent layer joins its directions, also where there is one.
            Op::CONCAT if g.args_of(made).len() == 1 => {}
            _ => break,
        }
        stack = g.args_of(made)[0];
    }
    let made = g.def[stack.at()];
    if g.op[made.at()] != Op::SCAN {
        return None;
    }
    let scan = Scan::of(&g.attrs(made));
    let result = g.outs_of(made).position(|v| v == stack).filter(|&i| i >= scan.carries)?;
    let yields = g.region_yields(scan.body);
    let carry = yields[..scan.carries].iter().position(|y| *y == yields[result])?;
    let axis = order.iter().position(|&axis| axis == 0)?;
    let end = scan.length.checked_sub(1)? as i64;
    let last = if scan.reverse { 0 } else { end };
    // A loop that may end early may not reach it.
    let reads_last = scan.exit.is_none() && (starts[axis], limits[axis]) == (last, last + 1);
    Some(Last { carry: g.outs_of(made).nth(carry)?, order, axis }).filter(|_| reads_last)
}
