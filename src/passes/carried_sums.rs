//! Takes sums of products out of loops: `c ← c + a·b` in each iteration becomes one product over the stacks of a and b,
//! behind the loop. The gradient of a recurrent weight is such a sum. That of its bias is `c ← c + Σa`, which becomes
//! one sum over the stack of a, if the loop has that stack anyway.
//!
//! In the loop, each iteration reads and writes all of c for a product of few terms. Behind it, c is visited once for
//! many terms. The loop stacks a and b, unless they are slices of its operands or stacked already.
//!
//! A sum leaves the loop only if
//!
//! * nothing but the sum reads c and the product in the loop, and no iteration is left out;
//! * an iteration adds no more elements to the stacks than c has, so the loop writes less than before;
//! * the new stacks take no more bytes than those that the loop reads, so memory at most doubles where it was kept for
//!   a derivative anyway.
//!
//! Invariant: the bits of products stay. Each element is one chain, in the order of the iterations, as in the loop (see
//! the pattern `matmul-sum`). A product whose elements are sums of partial sums stays in the loop. A sum over a stack
//! adds in another order than the loop.

use super::rebuild::{RebuildVisit, rebuild};
use super::simplify::Hits;
use crate::arena::dims::MAX_RANK;
use crate::arena::{Node, Value, Window, ids::Id};
use crate::error::Result;
use crate::kernels::gemm::Gemm;
use crate::nodes::ir::leaf::ArgAttrs;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ops::control::scan::Scan;
use crate::nodes::ops::matmul::attrs::MatmulAttrs;
use crate::nodes::ops::matmul::lower::product_of_dims;
use crate::nodes::ops::matmul::stacked::MatmulAddStackAttrs;
use crate::nodes::ops::reduce::attrs::ReduceAttrs;
use crate::nodes::{Graph, Op, Ty, Var};
use bumpalo::Bump;

/// Takes sums of products out of the loops of `g`. Counts the sums in `hits`.
pub fn move_sums_out<'b>(g: Graph<'_>, bump: &'b Bump, hits: &mut Hits) -> Result<Graph<'b>> {
    rebuild(g, bump, &mut |v| {
        if !matches!(v.def.lower, Lower::Loop) {
            return None;
        }
        let scan = Scan::of(&g.attrs(v.node));
        if scan.exit.is_some() || scan.length < 2 {
            return None;
        }
        let body = SummingLoop::new(g, v.node, scan);
        if body.sums.is_empty() {
            return None;
        }
        *hits.entry("carried-sum").or_default() += body.sums.len();
        Some(body.write(v))
    })
}

/// A sum of products or of sums that leaves a loop.
struct CarriedSum {
    /// Its place among the carries.
    carry: usize,
    /// The addition in the loop.
    add: Node,
    /// The product, or the sum, that is added.
    term: Node,
}

/// A loop, and the sums that leave it.
struct SummingLoop<'x> {
    g: Graph<'x>,
    scan: Scan,
    sums: Vec<CarriedSum>,
    /// Values that the loop stacks for the products, in order.
    stacked: Vec<Value>,
}

impl<'x> SummingLoop<'x> {
    fn new(g: Graph<'x>, n: Node, scan: Scan) -> SummingLoop<'x> {
        let r = scan.body;
        let mut reads = Window::filled(g.region_values(r), 0usize);
        let all = g.region_nodes(r).flat_map(|n| g.args_of(n)).chain(g.region_yields(r));
        all.for_each(|&v| reads[v] += 1);
        let mut this = SummingLoop { g, scan, sums: Vec::new(), stacked: Vec::new() };
        let fixed = this.find_fixed_values();
        let bytes = |v: &Value| g.bytes(*v);
        let read: usize = g.args_of(n)[scan.xs()..].iter().map(bytes).fold(0, usize::saturating_add);
        for carry in 0..scan.carries {
            let Some(sum) = this.sum_of(carry, &reads) else { continue };
            let factors = g.args_of(sum.term);
            let mut new: Vec<Value> = factors.iter().copied().filter(|&f| this.stack_of(f).is_none()).collect();
            new.dedup();
            let elements: usize = new.iter().map(|&f| g.numel(f)).sum();
            let with_new = || this.stacked.iter().chain(&new).map(bytes).fold(0, usize::saturating_add);
            let small = elements <= g.numel(g.out(sum.add)) && with_new().saturating_mul(scan.length) <= read;
            if small && !factors.iter().any(|&f| fixed[f]) {
                this.stacked.extend(new);
                this.sums.push(sum);
            }
        }
        this
    }

    /// The values of the body that no iteration changes.
    fn find_fixed_values(&self) -> Window<Value, bool> {
        let (g, s) = (self.g, &self.scan);
        let mut fixed = Window::filled(g.region_values(s.body), false);
        g.region_args(s.body).take(s.xs()).skip(s.carries).for_each(|a| fixed[a] = true);
        for n in g.region_nodes(s.body).filter(|&n| g.op[n.at()] != Op::ARG) {
            let here = g.def_of(n).is_pure() && g.args_of(n).iter().all(|&a| fixed[a]);
            g.outs_of(n).for_each(|v| fixed[v] = here);
        }
        fixed
    }

    /// The sum that carry `carry` is, if it is one that has the same bits behind the loop.
    fn sum_of(&self, carry: usize, reads: &Window<Value, usize>) -> Option<CarriedSum> {
        let (g, r) = (self.g, self.scan.body);
        let (c, next) = (g.region_args(r).nth(carry)?, g.region_yields(r)[carry]);
        let add = g.def[next.at()];
        let &[a, b] = g.args_of(add) else { return None };
        let p = if a == c { b } else { a };
        let term = g.def[p.at()];
        let sum = g.op[add.at()] == Op::ADD && (a == c || b == c);
        let alone = [c, p, next].iter().all(|&v| reads[v] == 1);
        let leaves = match g.op[term.at()] {
            Op::MATMUL => self.is_chain(term),
            Op::REDUCE_SUM => self.is_stacked(g.args_of(term)[0]),
            _ => false,
        };
        (sum && alone && leaves).then_some(CarriedSum { carry, add, term })
    }

    /// Whether each element of the product `n`, added to a sum, continues the chain of the sum, and its operands may
    /// have one more axis.
    fn is_chain(&self, n: Node) -> bool {
        let g = self.g;
        let (MatmulAttrs { ta, tb }, y) = (MatmulAttrs::of(&g.attrs(n)), g.out(n));
        let [a, b] = [0, 1].map(|i| g.dims(g.args_of(n)[i]));
        let product = product_of_dims([&a, &b, &g.dims(y)], ta, tb).ok();
        let lanes = |p: Gemm| Gemm { accumulate: true, ..p }.sum_lanes_for(g.dtype[y.at()]);
        a.len().max(b.len()) < MAX_RANK && product.is_some_and(|p| lanes(p).is_none())
    }

    /// Whether there is a stack of `v`, and it may have one more axis.
    fn is_stacked(&self, v: Value) -> bool {
        self.g.dims(v).len() < MAX_RANK && self.stack_of(v).is_some()
    }

    /// Where the stack of `v` is: `None` if the loop is to make it.
    fn stack_of(&self, v: Value) -> Option<Stack> {
        let (g, s) = (self.g, &self.scan);
        let base = self.before_reshapes(v);
        let n = g.def[base.at()];
        let arg = (g.op[n.at()] == Op::ARG).then(|| ArgAttrs::of(&g.attrs(n)).index as usize);
        if let Some(i) = arg.filter(|&i| i >= s.xs()) {
            return Some(Stack::Operand(i));
        }
        let ys = g.region_yields(s.body).iter().skip(s.carries).chain(&self.stacked);
        ys.clone().position(|&y| y == base).or_else(|| ys.clone().position(|&y| y == v)).map(Stack::Result)
    }

    /// `v`, or what it is a reshape of.
    fn before_reshapes(&self, mut v: Value) -> Value {
        while let n = self.g.def[v.at()]
            && self.g.op[n.at()] == Op::RESHAPE
        {
            v = self.g.args_of(n)[0];
        }
        v
    }

    /// Writes the loop without the sums, and the products behind it. The results of the loop.
    fn write<'g>(&self, v: &RebuildVisit<'_, 'g>) -> Vec<Var<'g>> {
        let (src, g, s) = (self.g, v.g, &self.scan);
        let leaves = |i: usize| self.sums.iter().any(|sum| sum.carry == i);
        let kept = |i: &usize| !leaves(*i);
        let inner: Vec<Value> = src.region_args(s.body).collect();
        let operands: Vec<usize> = (0..inner.len()).filter(kept).collect();
        let carries = s.carries - self.sums.len();
        let yields = src.region_yields(s.body);
        let own: Vec<Value> =
            (0..yields.len()).filter(kept).map(|i| yields[i]).chain(self.stacked.iter().copied()).collect();
        let mut outs = Vec::new();
        if !own.is_empty() {
            let tys: Vec<Ty> = operands.iter().map(|&i| src.ty(inner[i])).collect();
            let body = g.region(src.str(src.region_names[s.body.at()]), &tys, |args| {
                let mut map = Window::filled(src.region_values(s.body), Value::NONE);
                operands.iter().zip(args).for_each(|(&i, x)| map[inner[i]] = x.v);
                let gone = |n: Node| self.sums.iter().any(|sum| sum.add == n || sum.term == n);
                for n in src.region_nodes(s.body).filter(|&n| src.op[n.at()] != Op::ARG && !gone(n)) {
                    v.copy_into(n, &mut map);
                }
                own.iter().map(|&y| g.var(map[y])).collect()
            });
            g.with(|e| e.set_loc(src.loc[v.node.at()]));
            let args: Vec<Var<'g>> = operands.iter().map(|&i| v.args[i]).collect();
            outs = g.emit(Op::SCAN, &args, &s.over(body.region, carries, s.consts).list()).to_vec();
        }
        let stacks = outs.split_off(carries.min(outs.len()));
        let mut finals = outs.into_iter();
        let results = (0..s.carries).map(|i| match self.sums.iter().find(|sum| sum.carry == i) {
            Some(sum) => self.write_sum(v, sum, &stacks),
            None => finals.next().unwrap_or(g.var(Value::NONE)),
        });
        let results: Vec<Var<'g>> = results.collect();
        results.into_iter().chain(stacks).take(yields.len()).collect()
    }

    /// Writes `sum` over the stacks of what it adds. `stacks` are those that the loop makes.
    fn write_sum<'g>(&self, v: &RebuildVisit<'_, 'g>, sum: &CarriedSum, stacks: &[Var<'g>]) -> Var<'g> {
        let (src, g) = (self.g, v.g);
        g.with(|e| e.set_loc(src.loc[sum.term.at()]));
        let factor = |f: Value| {
            let x = match self.stack_of(f) {
                Some(Stack::Operand(i)) => v.args[i],
                Some(Stack::Result(i)) => stacks.get(i).copied().unwrap_or(g.var(Value::NONE)),
                None => g.var(Value::NONE),
            };
            let dims = [&[self.scan.length], &src.dims(f)[..]].concat();
            if x.is_some() && *x.dims() != *dims { x.reshape(dims) } else { x }
        };
        if src.op[sum.term.at()] == Op::REDUCE_SUM {
            let all = sum_over_stack(factor(src.args_of(sum.term)[0]), &ReduceAttrs::of(&src.attrs(sum.term)).axes);
            return v.args[sum.carry] + all.reshape(src.dims(src.out(sum.term)));
        }
        let &[a, b] = src.args_of(sum.term) else { return g.var(Value::NONE) };
        let MatmulAttrs { ta, tb } = MatmulAttrs::of(&src.attrs(sum.term));
        let attrs = MatmulAddStackAttrs { ta, tb, reverse: self.scan.reverse };
        g.emit1(Op::MATMUL_ADD_STACK, &[factor(a), factor(b), v.args[sum.carry]], &attrs.list())
    }
}

/// The sum over axis 0 of `stack` and over `axes` of its elements. If `axes` lead, they and axis 0 become one axis.
/// Then the gradients of a recurrent layer's two biases, one added in the loop and one before it, are the same node.
fn sum_over_stack<'g>(stack: Var<'g>, axes: &[i64]) -> Var<'g> {
    let dims = stack.dims();
    let leading = axes.iter().enumerate().all(|(i, &axis)| axis == i as i64);
    if leading {
        let (summed, rest) = dims.split_at(axes.len() + 1);
        return stack.reshape([&[summed.iter().product()], rest].concat()).sum([0]);
    }
    let axes: Vec<i64> = std::iter::once(0).chain(axes.iter().map(|axis| axis + 1)).collect();
    stack.sum(&axes[..])
}

/// Where the stack of a value of the body is.
#[derive(Clone, Copy)]
enum Stack {
    /// An operand of the loop.
    Operand(usize),
    /// A stacked result of the loop.
    Result(usize),
}
