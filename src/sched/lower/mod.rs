//! Lowering: from a graph to [`Instructions`], every needed node of the entry region in program order.
//!
//! A view becomes a root buffer and an offset; no instruction runs. A leaf that is an output, and an update whose next
//! value is a leaf, become copies here. So later phases may rely on two invariants: no output is a leaf, and no next
//! value is one.

mod loops_and_choices;
mod partial_stacks;

use super::arithmetic::Arithmetic;
use super::faults::{FaultCheck, UNSEEN};
use super::instructions::{BufKind, Instr, Instructions, NO_LOOP, Operand, Update};
use super::modelled_time::InstrTime;
use super::placement::Placements;
use crate::arena::{Node, Region, Value, ids::Id};
use crate::error::{Error, Kind, Result};
use crate::kernels::abi::{DEPTH, Split};
use crate::nodes::ir::call::{Buf, Call, Temp, View};
use crate::nodes::ir::lower_cx::LowerCx;
use crate::nodes::ir::opdef::planned_regions;
use crate::nodes::ir::opdef::{Flags, Lower};
use crate::nodes::ops::index::index_bounds::index_bound;
use crate::nodes::ops::lower_any_op;
use crate::nodes::{Graph, LeafKind, Op};
use partial_stacks::PartialStacks;

/// The bytes of a value: a root buffer and an offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSlice {
    /// The root buffer; `u32::MAX` for none.
    pub buf: u32,
    /// Byte offset in the buffer.
    pub off: usize,
}

impl BufferSlice {
    /// No bytes.
    pub const NONE: BufferSlice = BufferSlice { buf: u32::MAX, off: 0 };
}

/// A lowered region.
pub struct Lowered {
    /// The instructions.
    pub code: Instructions,
    /// The bytes of each value; [`BufferSlice::NONE`] for values that no instruction needs.
    pub slices: Vec<BufferSlice>,
}

/// Lowers the entry region of `g`, with scratch for `threads` threads, computed as by default.
///
/// Errors: an op without a kernel (kind `Stage`), a lowering that breaks the rules for calls, loops that are nested
/// deeper than [`DEPTH`] (kind `Plan`).
pub fn lower(g: Graph<'_>, threads: usize) -> Result<Lowered> {
    emit_with_arithmetic(g, threads, Arithmetic::DEFAULT)
}

/// As [`lower`], with nodes that are computed as `how` says.
pub fn emit_with_arithmetic<'g>(g: Graph<'g>, threads: usize, how: &'g Arithmetic) -> Result<Lowered> {
    emit_placed(g, threads, how, &Placements::search())
}

/// As [`emit_with_arithmetic`]; the bodies of loops are planned by `places`.
pub(super) fn emit_placed<'g>(
    g: Graph<'g>,
    threads: usize,
    how: &'g Arithmetic,
    places: &'g Placements,
) -> Result<Lowered> {
    check_lowering_depth(g)?;
    let partials = PartialStacks::of(g);
    let mut l = Lowerer::new(g, g.entry(), LoweringChoices { threads, arithmetic: how, places, partials: &partials });
    for n in g.region_nodes(g.entry()) {
        l.node(n).map_err(|e| e.at(g.location(n)))?;
    }
    l.outputs()?;
    l.updates()?;
    Ok(Lowered { code: l.code, slices: l.slices })
}

/// Refuses loops that are nested too deep, before any is lowered.
fn check_lowering_depth(g: Graph<'_>) -> Result<()> {
    let mut inside = vec![0; g.regions()];
    for r in (0..g.regions()).map(Region::new) {
        for n in g.region_nodes(r) {
            let def = g.def_of(n);
            for body in planned_regions(g, n) {
                inside[r.at()] = inside[r.at()].max(1 + inside[body.at()]);
            }
            if inside[r.at()] > DEPTH {
                let why = format!(
                    "{}: loops and branches stand more than {DEPTH} deep in one another (a switch of n branches is \
                     log₂ n deep)",
                    def.name
                );
                return Err(lowerer_error(why).at(g.location(n)));
            }
        }
    }
    Ok(())
}

/// For each value, true if it has a reader: yields of `r`, next values, and operands of nodes that these need or that
/// have effects.
fn values_with_readers(g: &Graph<'_>, r: Region) -> Vec<bool> {
    let mut used = vec![false; g.values()];
    g.region_yields(r).iter().for_each(|v| used[v.at()] = true);
    g.updates.iter().for_each(|(_, next)| used[next.at()] = true);
    // One reverse scan suffices: operands come before their users.
    for n in g.region_nodes(r).rev() {
        if g.def_of(n).flags.has(Flags::EFFECT) || g.outs_of(n).any(|v| used[v.at()]) {
            g.args_of(n).iter().for_each(|v| used[v.at()] = true);
        }
    }
    used
}

fn lowerer_error(message: impl Into<String>) -> Error {
    Error::new(Kind::Plan, message)
}

/// The operands of one call.
#[derive(Default)]
struct Operands {
    reads: Vec<Operand>,
    writes: Vec<Operand>,
    pairs: Vec<(u8, u8)>,
}

/// What the lowering of all regions of a graph reads.
#[derive(Clone, Copy)]
struct LoweringChoices<'g> {
    threads: usize,
    arithmetic: &'g Arithmetic,
    places: &'g Placements,
    partials: &'g PartialStacks,
}

/// The lowering of one region: the entry, or the body of a loop.
struct Lowerer<'g> {
    g: Graph<'g>,
    how: LoweringChoices<'g>,
    code: Instructions,
    slices: Vec<BufferSlice>,
    used: Vec<bool>,
}

impl<'g> Lowerer<'g> {
    fn new(g: Graph<'g>, r: Region, how: LoweringChoices<'g>) -> Lowerer<'g> {
        Lowerer {
            g,
            how,
            code: Instructions::new(),
            slices: vec![BufferSlice::NONE; g.values()],
            used: values_with_readers(&g, r),
        }
    }

    fn node(&mut self, n: Node) -> Result<()> {
        let g = self.g;
        let def = g.def_of(n);
        if let Some(kind) = lowered_leaf_kind(&g, n) {
            let v = g.out(n);
            let buf = self.code.buffer(g.bytes(v), kind, v);
            self.slices[v.at()] = BufferSlice { buf, off: 0 };
            return Ok(());
        }
        let effect = def.flags.has(Flags::EFFECT);
        if !effect && !g.outs_of(n).any(|v| self.used[v.at()]) {
            return Ok(());
        }
        match def.lower {
            Lower::Loop => return self.lower_loop(n),
            Lower::Choice => return self.lower_choice(n),
            // Block ops, calls and ops that only decompose belong to earlier stages.
            Lower::Expand | Lower::Control => {
                let what = if def.flags.has(Flags::BLOCK) { "is a block" } else { "has no kernel" };
                let text =
                    format!("{}: the op {what}; a pass writes it in others before a program is planned", def.name);
                return Err(Error::new(Kind::Stage, text));
            }
            _ => {}
        }
        let outs = g.out(n).at()..g.out(n).at() + g.outs_of(n).len();
        let used = self.used[outs.clone()].to_vec();
        let mut cx = LowerCx::new(g, n, &used);
        cx.threads = self.how.threads;
        cx.in_body = self.code.iterated;
        cx.precision = self.how.arithmetic.precision(n);
        cx.convolutions = self.how.arithmetic.convolutions;
        let named = |e: String| lowerer_error(format!("{}: {e}", def.name));
        lower_any_op(&mut cx).map_err(named)?;
        let LowerCx { calls, temps, views, .. } = cx;
        self.views(n, &views).map_err(named)?;
        self.calls(n, &calls, &temps).map_err(named)?;
        self.code.close(effect);
        for i in (0..used.len()).filter(|&i| used[i]) {
            let v = Value::new(outs.start + i);
            if self.slices[v.at()] == BufferSlice::NONE && g.bytes(v) > 0 {
                return Err(named(format!("no call writes result {i}")));
            }
            // A result without bytes needs no call, but it needs a buffer.
            self.result(v);
        }
        Ok(())
    }

    fn views(&mut self, n: Node, views: &[View]) -> Result<(), String> {
        let g = self.g;
        for &View { out, arg, offset } in views {
            let (Some(v), Some(&a)) = (g.outs_of(n).nth(out), g.args_of(n).get(arg)) else {
                return Err(format!("a view of operand {arg} as result {out}, which do not exist"));
            };
            let off = offset.checked_mul(g.dtype[a.at()].size());
            let inside = |off: usize| off.checked_add(g.bytes(v)).is_some_and(|end| end <= g.bytes(a));
            let same = g.dtype[a.at()].size() == g.dtype[v.at()].size();
            match off {
                Some(off) if same && inside(off) => {
                    let root = self.slices[a.at()];
                    self.slices[v.at()] = BufferSlice { buf: root.buf, off: root.off + off };
                }
                _ => return Err(format!("result {out} at element {offset} is no window of operand {arg}")),
            }
        }
        Ok(())
    }

    /// The bytes of result `v`. Its buffer is made on first use.
    fn result(&mut self, v: Value) -> BufferSlice {
        if self.slices[v.at()] == BufferSlice::NONE {
            let buf = self.code.buffer(self.g.bytes(v), BufKind::Activation, v);
            self.slices[v.at()] = BufferSlice { buf, off: 0 };
        }
        self.slices[v.at()]
    }

    fn temp(&mut self, t: &Temp) -> Result<u32, String> {
        let threads = if t.per_thread { self.how.threads } else { 1 };
        let bytes = t.size.max(1).checked_mul(t.len).and_then(|b| b.checked_mul(threads));
        match bytes.filter(|&b| b <= isize::MAX as usize) {
            Some(bytes) => Ok(self.code.buffer(bytes, BufKind::Scratch, Value::NONE)),
            None => Err(format!("scratch of {} elements of {} bytes does not fit in memory", t.len, t.size)),
        }
    }

    fn calls(&mut self, n: Node, calls: &[Call], temps: &[Temp]) -> Result<(), String> {
        let temp_bufs = temps.iter().map(|t| self.temp(t)).collect::<Result<Vec<_>, _>>()?;
        let mut operands = Operands::default();
        for c in calls {
            self.operands(n, c, temps, &temp_bufs, &mut operands)?;
            if c.units == 0 {
                continue;
            }
            let Operands { reads, writes, pairs } = &operands;
            let check = self.check(n, c, reads)?;
            self.code.push(&Instr {
                kernel: c.kernel,
                params: &c.params,
                prepared: c.prepared.as_ref(),
                reads,
                writes,
                pairs,
                units: c.units,
                node: n,
                flops: c.flops,
                time: InstrTime::of(c.work, c.ops, lowered_bytes(reads).saturating_add(lowered_bytes(writes))),
                whole: c.whole,
                copies: false,
                body: NO_LOOP,
                checks: check.as_slice(),
            });
        }
        Ok(())
    }

    /// Resolves the operands of call `c` into `to`, and refuses calls that break the rules for operands.
    fn operands(&mut self, n: Node, c: &Call, temps: &[Temp], bufs: &[u32], to: &mut Operands) -> Result<(), String> {
        let per_thread = |b: Buf| matches!(b, Buf::Temp(t) if temps.get(t).is_some_and(|t| t.per_thread));
        to.reads.clear();
        to.writes.clear();
        to.pairs.clear();
        for &b in &c.reads {
            if per_thread(b) {
                return Err("scratch of threads is read by a later call, which would see how work was split".into());
            }
            to.reads.push(self.operand(n, b, Split::Whole, temps, bufs)?);
        }
        for &(b, split) in &c.writes {
            if per_thread(b) != matches!(split, Split::PerThread(_)) {
                return Err("scratch of threads, and nothing else, is split by threads".into());
            }
            let o = self.operand(n, b, split, temps, bufs)?;
            let own = match b {
                Buf::Arg(_) => false,
                // A view has the buffer of another value.
                Buf::Out(i) => self.g.outs_of(n).nth(i) == Some(self.code.value[o.buf as usize]),
                Buf::Temp(_) => true,
            };
            if !own {
                return Err("a call writes an operand or a view".into());
            }
            to.writes.push(o);
        }
        for &(r, w) in &c.inplace {
            if r >= to.reads.len().min(255) || w >= to.writes.len() {
                return Err(format!("in-place pair ({r}, {w}) names no operands"));
            }
            to.pairs.push((r as u8, w as u8));
        }
        if to.writes.len() > 64 {
            return Err(format!("a call writes {} operands; 64 is the limit", to.writes.len()));
        }
        Ok(())
    }

    /// The check of indices that call `c` of node `n` makes; `None` if its indices are known to be good.
    fn check(&self, n: Node, c: &Call, reads: &[Operand]) -> Result<Option<FaultCheck>, String> {
        let Some(looks) = c.looks else { return Ok(None) };
        if looks.below.is_none() {
            return Ok(Some(FaultCheck { buf: UNSEEN, off: 0, bytes: 0, looks }));
        }
        let Some(o) = reads.get(looks.read) else {
            return Err(format!("a call looks through read {}, which does not exist", looks.read));
        };
        let known = match c.reads[looks.read] {
            Buf::Arg(i) => index_bound(&self.g, self.g.args_of(n)[i]),
            _ => None,
        };
        let sure = known.zip(looks.below).is_some_and(|(known, below)| known <= below);
        Ok((!sure).then_some(FaultCheck { buf: o.buf, off: o.off, bytes: o.bytes(), looks }))
    }

    fn operand(&mut self, n: Node, b: Buf, split: Split, temps: &[Temp], bufs: &[u32]) -> Result<Operand, String> {
        let g = self.g;
        let of = |slice: BufferSlice, v: Value| Operand {
            buf: slice.buf,
            off: slice.off,
            len: g.numel(v),
            size: g.dtype[v.at()].size(),
            split,
        };
        match b {
            Buf::Arg(i) => match g.args_of(n).get(i) {
                Some(&v) => Ok(of(self.slices[v.at()], v)),
                None => Err(format!("a call names operand {i}, which does not exist")),
            },
            Buf::Out(i) => match g.outs_of(n).nth(i) {
                Some(v) => Ok(of(self.result(v), v)),
                None => Err(format!("a call names result {i}, which does not exist")),
            },
            Buf::Temp(i) => match (temps.get(i), bufs.get(i)) {
                (Some(t), Some(&buf)) => {
                    let threads = if t.per_thread { self.how.threads } else { 1 };
                    Ok(Operand { buf, off: 0, len: t.len * threads, size: t.size, split })
                }
                _ => Err(format!("a call names temporary {i}, which does not exist")),
            },
        }
    }

    /// All bytes of value `v`.
    fn whole(&self, v: Value) -> Operand {
        let slice = self.slices[v.at()];
        Operand::of_bytes(slice.buf, slice.off, self.g.bytes(v), Split::Whole)
    }

    fn outputs(&mut self) -> Result<()> {
        let g = self.g;
        let mut copied = vec![u32::MAX; g.values()];
        for &v in g.outputs() {
            let mut o = self.whole(v);
            if self.code.kind[o.buf as usize].is_leaf() {
                if copied[v.at()] == u32::MAX {
                    let to = self.code.buffer(o.bytes(), BufKind::Output, v);
                    self.code.copy(o, to, g.def[v.at()]);
                    copied[v.at()] = to;
                }
                o = Operand { buf: copied[v.at()], off: 0, ..o };
            } else if self.code.kind[o.buf as usize] != BufKind::Constant {
                self.code.kind[o.buf as usize] = BufKind::Output;
            }
            self.code.outputs.push(o);
        }
        Ok(())
    }

    fn updates(&mut self) -> Result<()> {
        let g = self.g;
        for &(leaf, next) in g.updates {
            if g.bytes(leaf) != g.bytes(next) {
                return Err(lowerer_error(format!("{} is updated with another type", g.ty_text(leaf))));
            }
            self.update(self.slices[leaf.at()].buf, next, g.def[leaf.at()]);
        }
        Ok(())
    }

    /// After a step (or an iteration), buffer `leaf` holds value `next`, which has the leaf's size.
    fn update(&mut self, leaf: u32, next: Value, node: Node) {
        let mut from = self.whole(next);
        if from.buf == leaf || from.bytes() == 0 {
            return;
        }
        if self.code.kind[from.buf as usize].is_pinned() {
            let to = self.code.buffer(from.bytes(), BufKind::Activation, next);
            self.code.copy(from, to, node);
            from = Operand { buf: to, off: 0, ..from };
        }
        self.code.updates.push(Update { leaf, from });
    }
}

/// Bytes of these operands, without per-thread scratch.
fn lowered_bytes(operands: &[Operand]) -> u64 {
    let all = operands.iter().filter(|o| !matches!(o.split, Split::PerThread(_)));
    all.fold(0, |sum, o| sum.saturating_add(o.bytes() as u64))
}

fn lowered_leaf_kind(g: &Graph<'_>, n: Node) -> Option<BufKind> {
    if g.op[n.at()] == Op::CONSTANT {
        return Some(BufKind::Constant);
    }
    let v = g.outs_of(n).next()?;
    g.leaf(v).map(|(kind, _)| match kind {
        LeafKind::Input => BufKind::Input,
        LeafKind::Param => BufKind::Param,
        LeafKind::State => BufKind::State,
    })
}
