//! What the lowering of one node writes, for the tests of lowerings.

use crate::arena::ids::Id;
use crate::kernels::abi::Split;
use crate::nodes::ir::attrs::Attr;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::call::{Buf, Call, Temp};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::lower_any_op;

/// The calls and the temporaries of a node.
pub struct LoweredInTests {
    /// Its calls, in order.
    pub calls: Vec<Call>,
    /// Its temporaries.
    pub temps: Vec<Temp>,
}

impl LoweredInTests {
    /// The node of `op` on inputs of these shapes and types. `used` says which of its results have a reader.
    pub fn of(op: Op, args: &[(&[usize], DType)], attrs: &[Attr<'_>], used: &[bool]) -> LoweredInTests {
        let g = Builder::new("lowered");
        let input = |(i, &(dims, dtype)): (usize, &(&[usize], DType))| g.input(&format!("x{i}"), dims, dtype);
        let inputs: Vec<Var<'_>> = args.iter().enumerate().map(input).collect();
        let outs = g.emit(op, &inputs, attrs);
        let graph = g.finish([outs[0]]).unwrap();
        let view = graph.view();
        let node = view.region_nodes(view.entry()).find(|n| view.op[n.at()] == op).unwrap();
        let mut cx = LowerCx::new(view, node, used);
        lower_any_op(&mut cx).unwrap();
        LoweredInTests { calls: cx.calls, temps: cx.temps }
    }

    /// The same of inputs that all have one type.
    pub fn of_one_type(dtype: DType, op: Op, args: &[&[usize]], attrs: &[Attr<'_>], used: &[bool]) -> LoweredInTests {
        let args: Vec<(&[usize], DType)> = args.iter().map(|&dims| (dims, dtype)).collect();
        LoweredInTests::of(op, &args, attrs, used)
    }

    /// What each call reads and writes.
    pub fn operands(&self) -> Vec<(&[Buf], &[(Buf, Split)])> {
        self.calls.iter().map(|c| (&c.reads[..], &c.writes[..])).collect()
    }

    /// Bytes of an element, elements, and whether each thread has its own, of each temporary.
    pub fn sizes(&self) -> Vec<(usize, usize, bool)> {
        self.temps.iter().map(|t| (t.size, t.len, t.per_thread)).collect()
    }
}
