//! Small ops with kernels for these tests, and the same ops on plain vectors.

use crate::arena::{Node, Value, ids::Id};
use crate::kernels::abi::{Args, Kernel, Split};
use crate::kernels::cost_model::CostClass;
use crate::nodes::ir::call::{Buf, Call};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, Deriv, Flags, Lower, OpDef};
use crate::nodes::ops::constant::attrs::ConstantAttrs;
use crate::nodes::{Builder, Graph, Op, Var};

/// Elements of a unit: small, so that small tensors have several.
pub const UNIT: usize = 4;

/// An op definition to start from.
pub const DEF: OpDef = def("t_row", |_| Ok(()));

const fn def(name: &'static str, lower: fn(&mut LowerCx<'_>) -> Result<(), String>) -> OpDef {
    OpDef {
        name,
        doc: "a test op",
        arity: Arity::AtLeast(1),
        attrs: &[],
        flags: Flags::PURE,
        infer: |cx| cx.same_as(0),
        deriv: Deriv::Zero,
        batch: Batch::Members,
        lower: Lower::Kernel(lower),
        cost: |_| 0,
        cases: &[],
        ..OpDef::BLANK
    }
}

fn units(n: usize) -> usize {
    n.div_ceil(UNIT)
}

/// A call whose writes are all split by units of `UNIT` elements.
fn call(cx: &mut LowerCx<'_>, kernel: Kernel, reads: &[Buf], writes: &[Buf], inplace: &[(usize, usize)]) {
    let n = cx.arg_dims(0).numel();
    cx.call(Call {
        kernel,
        prepared: None,
        params: Vec::new(),
        units: units(n),
        reads: reads.to_vec(),
        writes: writes.iter().map(|&b| (b, Split::PerUnit(UNIT))).collect(),
        inplace: inplace.to_vec(),
        // Large enough to be shared among threads.
        flops: 1 << 20,
        whole: 0,
        work: CostClass::SORT,
        ops: 1 << 20,
        looks: None,
    });
}

fn add_kernel(args: &mut Args<'_>) {
    let lo = args.units().start * UNIT;
    let y = args.write::<f32>(0);
    for i in 0..2 {
        if args.inplace(i).is_some() {
            let other = &args.read::<f32>(1 - i)[lo..lo + y.len()];
            y.iter_mut().zip(other).for_each(|(y, x)| *y += x);
            return;
        }
    }
    let (a, b) = (&args.read::<f32>(0)[lo..], &args.read::<f32>(1)[lo..]);
    y.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (a, b))| *y = a + b);
}

/// a + b, in place on either.
pub static ADD: OpDef = def("t_add", |cx| {
    call(cx, add_kernel, &[Buf::Arg(0), Buf::Arg(1)], &[Buf::Out(0)], &[(0, 0), (1, 0)]);
    Ok(())
});

fn scale_kernel(args: &mut Args<'_>) {
    let lo = args.units().start * UNIT;
    let y = args.write::<f32>(0);
    if args.inplace(0).is_none() {
        let n = y.len();
        y.copy_from_slice(&args.read::<f32>(0)[lo..lo + n]);
    }
    y.iter_mut().for_each(|y| *y *= 0.5);
}

/// x / 2, in place.
pub static SCALE: OpDef = def("t_scale", |cx| {
    call(cx, scale_kernel, &[Buf::Arg(0)], &[Buf::Out(0)], &[(0, 0)]);
    Ok(())
});

/// x / 2 + 0, never in place.
pub static FRESH: OpDef = def("t_fresh", |cx| {
    call(cx, scale_kernel, &[Buf::Arg(0)], &[Buf::Out(0)], &[]);
    Ok(())
});

/// Columns of a unit of [`COLUMNS`].
const WIDTH: usize = 3;

fn columns_kernel(args: &mut Args<'_>) {
    let (row, from) = (args.params()[0] as usize, args.units().start * WIDTH);
    let mut y = args.panel::<f32>(0);
    for i in 0..y.rows() {
        let y = y.row(i);
        if args.inplace(0).is_none() {
            y.copy_from_slice(&args.read::<f32>(0)[i * row + from..][..y.len()]);
        }
        y.iter_mut().for_each(|y| *y *= 0.5);
    }
}

/// x / 2, in place. Units are columns of a matrix of four rows, or of one row if 4 does not divide the size.
pub static COLUMNS: OpDef = def("t_columns", |cx| {
    let n = cx.arg_dims(0).numel();
    let row = if n.is_multiple_of(4) { n / 4 } else { n };
    let call = Call::new(columns_kernel, [row as u64], row.div_ceil(WIDTH)).reads_args(1).inplace(&[(0, 0)]);
    let call = call.divided(Buf::Out(0), Split::Columns { row, width: WIDTH });
    cx.call(Call { work: CostClass::SORT, ops: 1 << 20, ..call });
    Ok(())
});

fn two_kernel(args: &mut Args<'_>) {
    let lo = args.units().start * UNIT;
    let (y, z) = (args.write::<f32>(0), args.write::<f32>(1));
    if args.inplace(0).is_none() {
        y.copy_from_slice(&args.read::<f32>(0)[lo..lo + z.len()]);
    }
    z.iter_mut().zip(&*y).for_each(|(z, y)| *z = 0.25 * y);
    y.iter_mut().for_each(|y| *y += 1.0);
}

/// (x + 1, x / 4), the first in place.
pub static TWO: OpDef = OpDef {
    infer: |cx| {
        cx.same_as(0)?;
        cx.same_as(0)
    },
    ..def("t_two", |cx| {
        call(cx, two_kernel, &[Buf::Arg(0)], &[Buf::Out(0), Buf::Out(1)], &[(0, 0)]);
        Ok(())
    })
};

fn reverse_kernel(args: &mut Args<'_>) {
    let range = args.units();
    let x = args.read::<f32>(0);
    let (y, scratch) = (args.write::<f32>(0), args.write::<f32>(1));
    for (u, out) in range.zip(y.chunks_mut(UNIT)) {
        let s = &mut scratch[..out.len()];
        s.copy_from_slice(&x[u * UNIT..u * UNIT + s.len()]);
        s.reverse();
        out.copy_from_slice(s);
    }
}

/// Each unit reversed, with per-thread scratch.
pub static REVERSE: OpDef = def("t_reverse", |cx| {
    let (scratch, split) = cx.scratch(4, UNIT);
    cx.call(Call {
        kernel: reverse_kernel,
        prepared: None,
        params: Vec::new(),
        units: units(cx.arg_dims(0).numel()),
        reads: vec![Buf::Arg(0)],
        writes: vec![(Buf::Out(0), Split::PerUnit(UNIT)), (scratch, split)],
        inplace: Vec::new(),
        flops: 1 << 20,
        whole: 0,
        work: CostClass::SORT,
        ops: 1 << 20,
        looks: None,
    });
    Ok(())
});

fn partial_kernel(args: &mut Args<'_>) {
    let range = args.units();
    let x = args.read::<f32>(0);
    let y = args.write::<f32>(0);
    for (u, y) in range.zip(y) {
        *y = x[u * UNIT..x.len().min((u + 1) * UNIT)].iter().sum();
    }
}

fn total_kernel(args: &mut Args<'_>) {
    let x = args.read::<f32>(0);
    args.write::<f32>(0)[0] = x.iter().sum::<f32>() / x.len() as f32;
}

/// The mean, over partial sums of units.
pub static SUM: OpDef = OpDef {
    infer: |cx| {
        let d = cx.dtype(0);
        cx.result(d, &[1])
    },
    ..def("t_sum", |cx| {
        let n = cx.arg_dims(0).numel();
        let parts = cx.temp(4, units(n));
        cx.call(Call {
            kernel: partial_kernel,
            prepared: None,
            params: Vec::new(),
            units: units(n),
            reads: vec![Buf::Arg(0)],
            writes: vec![(parts, Split::PerUnit(1))],
            inplace: Vec::new(),
            flops: 1 << 20,
            whole: 0,
            work: CostClass::SORT,
            ops: 1 << 20,
            looks: None,
        });
        cx.call(Call {
            kernel: total_kernel,
            prepared: None,
            params: Vec::new(),
            units: 1,
            reads: vec![parts],
            writes: vec![(Buf::Out(0), Split::Whole)],
            inplace: Vec::new(),
            flops: 0,
            whole: 0,
            work: CostClass::COPY,
            ops: 0,
            looks: None,
        });
        Ok(())
    })
};

/// x + b, in two calls: the second changes what the first wrote.
pub static TWICE: OpDef = def("t_twice", |cx| {
    call(cx, scale_kernel, &[Buf::Arg(0)], &[Buf::Out(0)], &[(0, 0)]);
    call(cx, add_kernel, &[Buf::Out(0), Buf::Arg(1)], &[Buf::Out(0)], &[(0, 0)]);
    Ok(())
});

/// The upper half, as a view.
pub static TAIL: OpDef = OpDef {
    infer: |cx| {
        let (d, n) = (cx.dtype(0), cx.dims(0)[0]);
        cx.result(d, &[n - n / 2])
    },
    ..def("t_tail", |cx| {
        let n = cx.arg_dims(0)[0];
        cx.view(0, 0, n / 2);
        Ok(())
    })
};

fn pick_kernel(args: &mut Args<'_>) {
    let range = args.units();
    let (x, at) = (args.read::<f32>(0), args.read::<i32>(1));
    let y = args.write::<f32>(0);
    for (i, y) in (range.start * UNIT..).zip(y) {
        match x.get(at[i] as usize) {
            Some(x) => *y = *x,
            None => args.fault(i),
        }
    }
}

/// x at the indices of the second operand.
pub static PICK: OpDef = def("t_pick", |cx| {
    call(cx, pick_kernel, &[Buf::Arg(0), Buf::Arg(1)], &[Buf::Out(0)], &[]);
    let n = cx.arg_dims(0).numel();
    cx.calls = std::mem::take(&mut cx.calls).into_iter().map(|c| c.looks(1, n)).collect();
    Ok(())
});

/// Panics where the first element is above 100.
pub static PANICS: OpDef = def("t_panics", |cx| {
    call(cx, |args| assert!(args.read::<f32>(0)[0] < 100.0, "too large"), &[Buf::Arg(0)], &[Buf::Out(0)], &[]);
    Ok(())
});

/// An op without a kernel.
pub static EXPAND: OpDef =
    OpDef { lower: Lower::Expand, decompose: Some(|s| s.args.to_vec()), ..def("t_expand", |_| Ok(())) };

/// The results of a node on plain vectors; `None` for ops that are not defined here.
pub fn eval(g: &Graph<'_>, n: Node, arg: impl Fn(usize) -> Vec<f32>) -> Option<Vec<Vec<f32>>> {
    let half = |x: Vec<f32>| x.iter().map(|x| x * 0.5).collect::<Vec<_>>();
    let plus = |x: Vec<f32>, y: Vec<f32>| x.iter().zip(&y).map(|(x, y)| x + y).collect::<Vec<_>>();
    Some(match g.def_of(n).name {
        "t_add" => vec![plus(arg(0), arg(1))],
        "t_scale" | "t_fresh" | "t_columns" => vec![half(arg(0))],
        "t_two" => vec![arg(0).iter().map(|x| x + 1.0).collect(), arg(0).iter().map(|x| 0.25 * x).collect()],
        "t_reverse" => vec![arg(0).chunks(UNIT).flat_map(|c| c.iter().rev().copied()).collect()],
        "t_sum" => {
            let parts: Vec<f32> = arg(0).chunks(UNIT).map(|c| c.iter().sum()).collect();
            vec![vec![parts.iter().sum::<f32>() / parts.len() as f32]]
        }
        "t_twice" => vec![plus(half(arg(0)), arg(1))],
        "t_tail" => vec![arg(0)[arg(0).len() / 2..].to_vec()],
        "reshape" => vec![arg(0)],
        _ => return None,
    })
}

/// Adds a node of `def`: its results.
#[track_caller]
pub fn node<'g>(g: &'g Builder, def: &'static OpDef, args: &[Var<'g>]) -> Vec<Var<'g>> {
    g.custom(def, args, &[]).into()
}

/// Adds a node of `def`: its first result.
#[track_caller]
pub fn one<'g>(g: &'g Builder, def: &'static OpDef, args: &[Var<'g>]) -> Var<'g> {
    node(g, def, args)[0]
}

/// All values of the entry region, evaluated without a plan from the values of the leaves.
pub fn reference(g: &Graph<'_>, leaf: impl Fn(Value) -> Vec<f32>) -> Vec<Vec<f32>> {
    let mut vals: Vec<Vec<f32>> = vec![Vec::new(); g.values()];
    for n in g.region_nodes(g.entry()) {
        let outs = match g.op[n.at()] {
            Op::CONSTANT => vec![bytemuck::pod_collect_to_vec::<u8, f32>(&ConstantAttrs::of(&g.attrs(n)).data)],
            Op::INPUT | Op::PARAM | Op::STATE => vec![leaf(g.out(n))],
            _ => eval(g, n, |i| vals[g.args_of(n)[i].at()].clone()).unwrap(),
        };
        for (v, x) in g.outs_of(n).zip(outs) {
            vals[v.at()] = x;
        }
    }
    vals
}
