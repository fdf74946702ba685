//! `map`: a pointwise region as one op. The fusion pass builds it and un-fusing inlines it. The body has exactly the
//! nodes that it replaces, so inlining is its decomposition.
//!
//! A broadcast, and the reshape that merges its axes, are inside the region and cost nothing: the kernel reads the
//! operand with stride 0 along repeated axes. So a `map` can also read an operand that the slices of a batch share, or
//! one whose elements a resize repeats, without a copy. A slice inside the region is a strided read, too.
//!
//! A region may end in a reduction of its pointwise result, which is then computed part by part and never stored.

use crate::arena::dims::Dims;
use crate::arena::{DType, Node, Region, Value, Window, ids::Id};
use crate::ensure;
use crate::kernels::tile::{Access, Input, TileOp, TileProgram, TileStep};
use crate::nodes::arguments::size_attrs::to_size_attrs;
use crate::nodes::ir::call::Buf;
use crate::nodes::ir::graph::Graph;
use crate::nodes::ir::leaf::ArgAttrs;
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::{Arity, Batch, Case, Deriv, Domain, Flags, Lower, Op, OpDef};
use crate::nodes::ops::common::cost::cost_free;
use crate::nodes::ops::common::lowering::{kernel_dtype, push_tile_program, reduce_tile_program};
use crate::nodes::ops::constant::attrs::FullAttrs;
use crate::nodes::ops::layout::attrs::SliceAttrs;
use crate::nodes::ops::pointwise::attrs::MapAttrs;
use crate::nodes::ops::pointwise::peephole::shorten_steps;
use crate::nodes::ops::pointwise::slot::Slot;
use crate::nodes::ops::reduce::attrs::ReduceAttrs;
use crate::nodes::ops::reduce::lower::emit_terms;

/// The reductions that a region may end in.
pub const ENDS: [Op; 4] = [Op::REDUCE_SUM, Op::REDUCE_MEAN, Op::REDUCE_MAX, Op::REDUCE_MIN];

/// How a kernel reads a tensor of shape `from` as its broadcast to `to`.
pub fn broadcast_access(from: &Dims, to: &Dims) -> Access {
    if from == to {
        return Access::Full;
    }
    if from.numel() == 1 {
        return Access::Scalar;
    }
    let lead = to.len() - from.len();
    let first = from.iter().position(|&d| d != 1).unwrap_or(from.len());
    if from[first..] == to[lead + first..] {
        return Access::Suffix(from[first..].iter().product());
    }
    let last = from.len() - from.iter().rev().position(|&d| d != 1).unwrap_or(from.len());
    if lead == 0 && from[..last] == to[..last] {
        return Access::Prefix(to[last..].iter().product());
    }
    let plain = from.strides();
    let stride = |i: usize| match i.checked_sub(lead) {
        Some(k) if from[k] != 1 => plain[k] as isize,
        _ => 0,
    };
    Access::Strided { dims: to.to_vec(), strides: (0..to.len()).map(stride).collect(), base: 0 }
}

/// How a kernel reads the slice `s` of a tensor of shape `from`, which has the shape `to`.
fn slice_access(from: &Dims, to: &Dims, s: &SliceAttrs) -> Access {
    let plain = from.strides();
    let base = plain.iter().zip(&s.starts).map(|(&stride, &start)| stride * start as usize).sum();
    let strides = plain.iter().zip(&s.steps).map(|(&stride, &step)| stride as isize * step as isize).collect();
    Access::Strided { dims: to.to_vec(), strides, base }
}

/// A tile program under construction, with the operand that each of its inputs reads.
#[derive(Default)]
pub struct MapProgram {
    pub(in crate::nodes) program: TileProgram,
    reads: Vec<usize>,
}

impl MapProgram {
    /// A whole program whose inputs read operands `reads`.
    pub fn new(program: TileProgram, reads: Vec<usize>) -> MapProgram {
        MapProgram { program, reads }
    }

    fn map_input(&mut self, operand: usize, elem: DType, access: Access) -> Slot {
        let input = Input { elem, access };
        let known = (0..self.reads.len()).find(|&i| self.reads[i] == operand && self.program.inputs[i] == input);
        Slot::Input(known.unwrap_or_else(|| {
            self.reads.push(operand);
            self.program.inputs.push(input);
            self.reads.len() - 1
        }))
    }
}

/// The node of region `r` that reduces its pointwise result, if it ends in one.
pub fn reduction_of(g: Graph<'_>, r: Region) -> Option<Node> {
    let &[y] = g.region_yields(r) else { return None };
    let n = g.def[y.at()];
    ENDS.contains(&g.op[n.at()]).then_some(n)
}

/// The tile program that computes `yields` of region `r`, read by the node's operands.
fn region_program(g: Graph<'_>, r: Region, yields: &[Value]) -> Result<MapProgram, String> {
    let to = g.dims(yields[0]);
    let mut b = MapProgram::default();
    b.program.len = to.numel();
    let mut slots = Window::<Value, Option<Slot>>::filled(g.region_values(r), None);
    let mut arg_of = Window::<Value, Option<usize>>::filled(g.region_values(r), None);
    let mut steps: Vec<(TileStep, Vec<Slot>)> = Vec::new();
    for n in g.region_nodes(r).filter(|n| !ENDS.contains(&g.op[n.at()])) {
        let (op, v, args) = (g.op[n.at()], g.out(n), g.args_of(n));
        let e = kernel_dtype(g.dtype[v.at()])?;
        match (op, g.def_of(n).lower) {
            (Op::ARG, _) => {
                let arg = ArgAttrs::of(&g.attrs(n)).index as usize;
                arg_of[v] = Some(arg);
                if g.dims(v) == to {
                    slots[v] = Some(b.map_input(arg, e, Access::Full));
                }
            }
            (Op::BROADCAST, _) => {
                let arg = arg_of[args[0]].ok_or("a broadcast inside a fused region reads an argument only")?;
                slots[v] = Some(b.map_input(arg, e, broadcast_access(&g.dims(args[0]), &g.dims(v))));
            }
            (Op::SLICE, _) => {
                let arg = arg_of[args[0]].ok_or("a slice inside a fused region reads an argument only")?;
                let access = slice_access(&g.dims(args[0]), &g.dims(v), &SliceAttrs::of(&g.attrs(n)));
                slots[v] = Some(b.map_input(arg, e, access));
            }
            (Op::RESHAPE, _) => {
                // Elements keep their order, so this is the same read.
                slots[v] = Some(slots[args[0]].ok_or("a reshape inside a fused region reads a broadcast only")?);
            }
            (Op::FULL, _) => {
                steps.push((TileStep::fill(e, FullAttrs::of(&g.attrs(n)).value), vec![]));
                slots[v] = Some(Slot::TileStep(steps.len() - 1));
            }
            (_, Lower::Tile(tile_op, imm)) => {
                steps.push(point_step(g, n, tile_op, imm, e, &slots)?);
                slots[v] = Some(Slot::TileStep(steps.len() - 1));
            }
            _ => return Err(format!("{} is not point-wise", g.def_of(n).name)),
        }
    }
    shorten_steps(&mut steps);
    close_program(
        b,
        steps,
        yields.iter().map(|&y| slots[y]).collect::<Option<Vec<_>>>().ok_or("a yield of another shape")?,
    )
}

/// The step of one pointwise node.
fn point_step(
    g: Graph<'_>,
    n: Node,
    op: TileOp,
    imm: fn(&crate::nodes::Attrs<'_>) -> [f64; 2],
    out: DType,
    slots: &Window<Value, Option<Slot>>,
) -> Result<(TileStep, Vec<Slot>), String> {
    let args = g.args_of(n);
    // The type of a select is that of its values, not of its condition.
    let typed = args.last().ok_or("a point-wise op without operands")?;
    let from = kernel_dtype(g.dtype[typed.at()])?;
    let operands = args.iter().map(|&a| slots[a]).collect::<Option<Vec<_>>>();
    let operands = operands.ok_or("an operand of another shape than the region; a reduction is the only yield")?;
    let step = match op {
        TileOp::Cast => TileStep::cast(from, out, 0),
        _ => TileStep::new(op, from, &[], imm(&g.attrs(n))),
    };
    Ok((step, operands))
}

/// The finished program: operands have numbers, inputs first, then steps.
fn close_program(mut b: MapProgram, steps: Vec<(TileStep, Vec<Slot>)>, outs: Vec<Slot>) -> Result<MapProgram, String> {
    let inputs = b.program.inputs.len();
    let code = |s: Slot| match s {
        Slot::Input(i) => i as u16,
        Slot::TileStep(i) => (inputs + i) as u16,
    };
    for (mut step, operands) in steps {
        for (to, from) in step.args.iter_mut().zip(operands) {
            *to = code(from);
        }
        b.program.steps.push(step);
    }
    b.program.outputs = outs.into_iter().map(code).collect();
    b.program.check().map_err(str::to_string)?;
    Ok(b)
}

/// The kernel call of a tile program, whose results are the node's.
pub fn emit_program(cx: &mut LowerCx<'_>, b: MapProgram) {
    let reads: Vec<Buf> = b.reads.iter().map(|&r| Buf::Arg(r)).collect();
    let outs: Vec<Buf> = (0..b.program.outputs.len()).map(Buf::Out).collect();
    let flops = (b.program.len * b.program.steps.len()) as u64;
    push_tile_program(cx, &b.program, &reads, &outs, flops);
}

/// The kernel call of a region, or, if it ends in a reduction, the calls of that.
fn emit_map(cx: &mut LowerCx<'_>) -> Result<(), String> {
    let (g, region) = (cx.graph, MapAttrs::of(&cx.attrs()).body);
    let Some(end) = reduction_of(g, region) else {
        emit_program(cx, region_program(g, region, g.region_yields(region))?);
        return Ok(());
    };
    let terms = g.args_of(end)[0];
    let (dims, axes) = (g.dims(terms), to_size_attrs(&ReduceAttrs::of(&g.attrs(end)).axes));
    let b = region_program(g, region, &[terms])?;
    let reads: Vec<Buf> = b.reads.iter().map(|&r| Buf::Arg(r)).collect();
    emit_terms(cx, (g.op[end.at()], &dims, &axes), |cx, call, p| {
        reduce_tile_program(cx, call, &b.program, &reads, p.scratch_len())
    })
}

/// A region of pointwise ops, computed in one sweep.
pub const MAP: OpDef = OpDef {
    name: "map",
    doc: "the yields of the pointwise region `body` on the operands, in one sweep; broadcasts and slices \
        inside it are strided reads; a sum, mean, maximum or minimum may end it",
    arity: Arity::AtLeast(0),
    attrs: MapAttrs::FIELDS,
    flags: Flags::PURE.and(Flags::FUSED),
    infer: |cx| {
        let sig = cx.signature(MapAttrs::of(&cx.attrs).body)?;
        ensure!(sig.args == cx.args, "operand types are not those of the region's {} arguments", sig.args.len());
        let first = sig.yields.first().ok_or("the region yields nothing")?;
        ensure!(sig.yields.iter().all(|y| y.shape == first.shape), "the yields differ in shape");
        cx.out.extend(sig.yields);
        Ok(())
    },
    deriv: Deriv::Error("fused regions are inlined before differentiation"),
    batch: Batch::ViaDecompose,
    lower: Lower::Kernel(emit_map),
    cost: cost_free,
    cases: &[Case { args: "f[3] f[3]", attrs: "body=@case_body", domains: &[Domain::Real] }],
    ..OpDef::BLANK
};
