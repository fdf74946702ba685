//! Moves that keep all elements: ops of [`Flags::SAME_BYTES`], and transposes. Traces a value back through such ops,
//! and finds which axis of the operand an axis of the result is.

use crate::arena::{Node, Value, ids::Id};
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::flags::Flags;
use crate::nodes::ops::layout::attrs::TransposeAttrs;
use crate::nodes::{Graph, Op};

/// True if the result of node `n` has every element of its only operand, once.
pub fn move_keeps_elements(g: Graph<'_>, n: Node) -> bool {
    g.op[n.at()] == Op::TRANSPOSE || g.def_of(n).flags.has(Flags::SAME_BYTES)
}

/// The order of axes of the result of the move `n`, as axes of its operand; `None` if they have other lengths.
fn axes_of_move(g: Graph<'_>, n: Node) -> Option<Vec<usize>> {
    if g.op[n.at()] == Op::TRANSPOSE {
        return Some(to_size_attrs(&TransposeAttrs::of(&g.attrs(n)).perm));
    }
    let dims = g.dims(g.out(n));
    (dims == g.dims(g.args_of(n)[0])).then(|| (0..dims.len()).collect())
}

/// The axis of the result of the move `n` that is `axis` of its operand, if there is one.
pub fn axis_after_move(g: Graph<'_>, n: Node, axis: usize) -> Option<usize> {
    axes_of_move(g, n)?.iter().position(|&from| from == axis)
}

/// What a value is made of by moves, and where one of its axes is there.
pub struct MovedFrom {
    pub value: Value,
    /// `None` if a move gave axes other lengths.
    pub axis: Option<usize>,
}

/// The value that `v` is made of by moves, and where axis `axis` of `v` is there.
pub fn moved_from(g: Graph<'_>, v: Value, axis: Option<usize>) -> MovedFrom {
    let mut at = MovedFrom { value: v, axis };
    loop {
        let n = g.def[at.value.at()];
        if !move_keeps_elements(g, n) {
            return at;
        }
        let axis = at.axis.and_then(|axis| axes_of_move(g, n)?.get(axis).copied());
        at = MovedFrom { value: g.args_of(n)[0], axis };
    }
}
