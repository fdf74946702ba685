//! A small interpreter of lowered graphs. Every value has its own bytes. Each call runs in several ranges of units, and
//! again with each of its in-place pairs; the bits must be the same.

use crate::arena::{Value, ids::Id};
use crate::kernels::abi::Split;
use crate::kernels::harness::{In, Out, Outcome, run_prepared};
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::call::{Buf, Call, View};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Lower, Op};
use crate::nodes::ir::site::Site;
use crate::nodes::ops::constant::attrs::ConstantAttrs;
use crate::nodes::ops::lower_any_op;
use crate::nodes::{Emit, Graph, GraphBuf};
use std::collections::HashMap;

/// Bytes of leaves, by name.
pub type Leaves = HashMap<String, Vec<u8>>;

fn input(bytes: &[u8], size: usize) -> In {
    match size {
        1 => In::of(bytes),
        2 => In::of(&bytemuck::pod_collect_to_vec::<u8, u16>(bytes)),
        4 => In::of(&bytemuck::pod_collect_to_vec::<u8, u32>(bytes)),
        8 => In::of(&bytemuck::pod_collect_to_vec::<u8, u64>(bytes)),
        _ => In::of(&bytemuck::pod_collect_to_vec::<u8, u128>(bytes)),
    }
}

struct Node<'x> {
    cx: LowerCx<'x>,
    args: Vec<&'x [u8]>,
    outs: Vec<Vec<u8>>,
    temps: Vec<Vec<u8>>,
}

impl Node<'_> {
    /// Bytes, size of an element, elements.
    fn get(&self, b: Buf) -> (&[u8], usize) {
        match b {
            Buf::Arg(i) => (self.args[i], self.cx.dtype(i).size()),
            Buf::Out(i) => (&self.outs[i], self.cx.out(i).dtype.size()),
            Buf::Temp(i) => (&self.temps[i], self.cx.temps[i].size),
        }
    }

    fn once(&self, c: &Call, pairs: &[(usize, usize)]) -> Outcome {
        let read = |(i, b): (usize, &Buf)| {
            let (bytes, size) = self.get(*b);
            let x = input(bytes, size);
            pairs.iter().find(|p| p.0 == i).map_or(input(bytes, size), |p| x.over(p.1 as u8))
        };
        let reads: Vec<In> = c.reads.iter().enumerate().map(read).collect();
        let write = |&(b, split): &(Buf, Split)| {
            let (bytes, size) = self.get(b);
            Out(bytes.len() / size, size, split)
        };
        let writes: Vec<Out> = c.writes.iter().map(write).collect();
        run_prepared(c.kernel, (&c.params, c.prepared.as_ref()), &reads, &writes, c.units)
    }

    fn call(&mut self, c: &Call) -> Result<(), usize> {
        if c.units == 0 {
            return Ok(());
        }
        let plain = self.once(c, &[])?;
        for pair in &c.inplace {
            assert_eq!(self.once(c, &[*pair]).as_ref(), Ok(&plain), "in place: {pair:?}");
        }
        for (&(b, split), bytes) in c.writes.iter().zip(plain) {
            match b {
                Buf::Out(i) => self.outs[i] = bytes,
                Buf::Temp(i) if !matches!(split, Split::PerThread(_)) => self.temps[i] = bytes,
                Buf::Temp(_) => {}
                Buf::Arg(i) => panic!("operand {i} is written"),
            }
        }
        Ok(())
    }
}

/// The results of node `n`, or the element at fault.
fn node(g: Graph<'_>, n: crate::arena::Node, values: &[Vec<u8>], used: &[bool]) -> Result<Vec<Vec<u8>>, usize> {
    let mut cx = LowerCx::new(g, n, used);
    lower_any_op(&mut cx).unwrap_or_else(|e| panic!("{}: {e}", g.def_of(n).name));
    let (calls, views) = (cx.calls.clone(), cx.views.clone());
    let args = g.args_of(n).iter().map(|v| &values[v.at()][..]).collect();
    let outs = g.outs_of(n).map(|v| vec![0xA5; g.bytes(v)]).collect();
    let temps = cx.temps.iter().map(|t| vec![0xA5; t.size * t.len]).collect();
    let mut node = Node { cx, args, outs, temps };
    for View { out, arg, offset } in views {
        let from = offset * node.cx.dtype(arg).size();
        let len = node.outs[out].len();
        node.outs[out] = node.args[arg][from..from + len].to_vec();
    }
    for c in &calls {
        node.call(c)?;
    }
    Ok(node.outs)
}

/// The outputs of `g`, or the first fault.
pub fn outputs(g: Graph<'_>, leaves: &Leaves) -> Result<Vec<Vec<u8>>, usize> {
    let mut values: Vec<Vec<u8>> = Vec::new();
    for n in g.region_nodes(g.entry()) {
        let v = g.out(n);
        if let Some((_, name)) = g.leaf(v) {
            values.push(leaves[name].clone());
        } else if g.op[n.at()] == Op::CONSTANT {
            values.push(ConstantAttrs::of(&g.attrs(n)).data);
        } else {
            let count = g.outs_of(n).len();
            let outs = node(g, n, &values, &vec![true; count])?;
            if count > 1 {
                // A result that has no reader may be left out; the others keep their bits.
                let mut first = vec![false; count];
                first[0] = true;
                assert_eq!(node(g, n, &values, &first)?[0], outs[0]);
            }
            values.extend(outs);
        }
    }
    Ok(g.outputs().iter().map(|v| values[v.at()].clone()).collect())
}

/// `g` with each node of op `also`, and each node without a kernel, replaced by its decomposition.
pub fn expanded(g: GraphBuf, also: Option<Op>) -> GraphBuf {
    let view = g.view();
    let expands =
        |n: &crate::arena::Node| Some(view.op[n.at()]) == also || matches!(view.def_of(*n).lower, Lower::Expand);
    if !view.region_nodes(view.entry()).any(|n| expands(&n)) {
        return g;
    }
    let b = Builder::rewriting(Emit::like(&view));
    let mut map: Vec<Value> = Vec::new();
    for n in view.region_nodes(view.entry()) {
        let args: Vec<Value> = view.args_of(n).iter().map(|v| map[v.at()]).collect();
        if expands(&n) {
            let args: Vec<Var<'_>> = args.iter().map(|&v| b.var(v)).collect();
            let site = Site { g: &b, op: view.op[n.at()], attrs: view.attrs(n), args: &args, outs: &[] };
            let outs = (view.def_of(n).decompose.unwrap())(&site);
            assert_eq!(outs.len(), view.outs_of(n).len(), "results of {}'s decomposition", view.def_of(n).name);
            for (o, v) in outs.iter().zip(view.outs_of(n)) {
                assert!(o.is_some(), "{}: {:?}", view.def_of(n).name, b.error());
                assert_eq!((o.dtype(), o.dims()), (view.dtype[v.at()], view.dims(v)), "{}", view.def_of(n).name);
            }
            map.extend(outs.iter().map(|o| o.v));
        } else {
            map.extend(b.with(|e| e.copy(&view, n, &args, &[])).iter());
        }
    }
    for (&v, &name) in view.outputs().iter().zip(view.output_names) {
        b.output(view.str(name), b.var(map[v.at()]));
    }
    expanded(b.finish([]).unwrap(), None)
}

/// Elements as `f64`; a complex one is two.
pub fn numbers(bytes: &[u8], dtype: DType) -> Vec<f64> {
    fn each<T: bytemuck::Pod>(bytes: &[u8], f: impl Fn(T) -> f64) -> Vec<f64> {
        bytemuck::pod_collect_to_vec::<u8, T>(bytes).into_iter().map(f).collect()
    }
    match dtype.part() {
        DType::F32 => each(bytes, |x: f32| f64::from(x)),
        DType::F64 => each(bytes, |x: f64| x),
        DType::I32 => each(bytes, |x: i32| f64::from(x)),
        DType::I64 => each(bytes, |x: i64| x as f64),
        DType::U32 => each(bytes, |x: u32| f64::from(x)),
        _ => each(bytes, |x: u8| f64::from(x)),
    }
}

/// Numbers as elements; two are a complex one.
pub fn bytes(x: &[f64], dtype: DType) -> Vec<u8> {
    let part = dtype.part();
    x.iter()
        .flat_map(|&x| crate::nodes::ops::common::lowering::element_bits(x, part).to_le_bytes()[..part.size()].to_vec())
        .collect()
}
