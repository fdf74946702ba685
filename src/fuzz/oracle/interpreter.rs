//! Walks the nodes of a graph in order. An op that the oracle has no loop for is replaced by its decomposition, which
//! is interpreted in turn.
//!
//! Invariant: no pass, plan or kernel of the engine takes part; the builder alone writes decompositions.

use super::account::InterpreterAccount;
use super::array::{Array, Numbers, count_elements};
use super::binary_fns::{compare_oracle_binary_fn, map_oracle_binary_fn, select_oracle_binary_fn};
use super::complex_ops::oracle_complex_parts;
use super::families::run_oracle_family;
use super::index_ops::oracle_index_elements;
use super::layout_ops::{apply_oracle_layout_op, oracle_constant_layout};
use super::leaf_values::LeafValues;
use super::order_ops::{
    oracle_order_extreme, oracle_order_positions, oracle_order_row_len, oracle_order_running_extreme,
};
use super::product_ops::oracle_product;
use super::quant_ops::oracle_quant_scales;
use super::random_ops::apply_oracle_random_op;
use super::reduce_ops::{
    apply_oracle_reduce_op, oracle_reduce_cumsum, oracle_reduce_root_sum_squares, oracle_reduce_softmax,
};
use super::rounding::Rounding;
use super::sample_ops::oracle_sample_tokens;
use super::stop::Stop;
use super::unary_fns::map_unary_fn;
use super::whole_ops::{cast_to_whole_or_real, map_whole};
use crate::arena::{Node, Region, Value, ids::Id};
use crate::nodes::ir::attrs::{Attr, Owned};
use crate::nodes::ir::leaf::ArgAttrs;
use crate::nodes::ir::opdef::Lower;
use crate::nodes::ir::site::Site;
use crate::nodes::ops::pointwise::attrs::CastAttrs;
use crate::nodes::{Attrs, Builder, Emit, Graph, GraphBuf, Op, Var};
use std::rc::Rc;

/// An output, or the next value of a param or a state.
#[derive(Clone, Debug)]
pub struct Named {
    /// The name of the output, or of the leaf.
    pub name: String,
    /// Its elements.
    pub array: Rc<Array>,
}

/// What one step of a graph computes.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The outputs, in order.
    pub outputs: Vec<Named>,
    /// The values that params and states have after the step, for those that it changes.
    pub updates: Vec<Named>,
    /// Whether the step may fail for an index or a divisor that the oracle does not know.
    pub may_fault: bool,
}

/// What a step of `graph` computes from these values of its leaves.
///
/// # Errors
/// [`Stop`] says why there is no reference.
///
/// ```
/// use arenagrad::prelude::*;
/// use arenagrad::tools::fuzz::{LeafValues, interpret};
/// # fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// let g = Builder::new("net");
/// let x = g.input("x", [2, 3], DType::F32);
/// let graph = g.finish([x.exp().sum(..).named("y")])?;
/// let reference = interpret(graph.view(), &LeafValues::draw(graph.view(), 7)?)?;
/// let y = &reference.outputs[0].array;
/// assert!(y.number(0) > 0.0 && y.bounds()[0] < 1e-4);
/// # Ok(())
/// # }
/// ```
pub fn interpret(graph: Graph<'_>, leaves: &LeafValues) -> Result<Reference, Stop> {
    let given = leaves.arrays(graph)?;
    let mut account = InterpreterAccount::new();
    account.hold(given.iter().map(|x| x.len() as u64).sum())?;
    let next = graph.updates.iter().map(|u| u.1);
    let wanted: Vec<Value> = graph.outputs().iter().copied().chain(next).collect();
    let mut all = Interpreter::new(graph, &mut account).region(graph.entry(), &given, &wanted)?.into_iter();
    let outputs = graph.output_names.iter().zip(all.by_ref());
    let outputs = outputs.map(|(&name, array)| Named { name: graph.str(name).to_string(), array }).collect();
    let leaf = |v: Value| graph.leaf(v).map_or(String::new(), |l| l.1.to_string());
    let updates = graph.updates.iter().zip(all).map(|(&(v, _), array)| Named { name: leaf(v), array }).collect();
    Ok(Reference { outputs, updates, may_fault: account.may_fault })
}

/// Interprets one graph.
pub(super) struct Interpreter<'g, 'a> {
    pub(super) g: Graph<'g>,
    /// The decomposition of each node that has been met.
    expansions: Vec<Option<Rc<GraphBuf>>>,
    pub(super) account: &'a mut InterpreterAccount,
}

/// The results of a node that are read.
pub(super) type Results = Vec<Option<Rc<Array>>>;

/// Values of a region's nodes by their position in it.
type Values = Vec<Option<Rc<Array>>>;

impl<'g, 'a> Interpreter<'g, 'a> {
    pub(super) fn new(g: Graph<'g>, account: &'a mut InterpreterAccount) -> Interpreter<'g, 'a> {
        Interpreter { g, expansions: vec![None; g.nodes()], account }
    }

    /// The values `wanted` of region `r`, whose arguments (of the entry: leaves) have these values, in order.
    pub(super) fn region(&mut self, r: Region, given: &[Rc<Array>], wanted: &[Value]) -> Result<Vec<Rc<Array>>, Stop> {
        let (first, held) = (self.g.region_values(r).start as usize, self.account.held);
        let mut values: Values = vec![None; self.g.region_values(r).len()];
        let (mut readers, mut leaves) = (self.readers(r, wanted), 0);
        for n in self.g.region_nodes(r) {
            let op = self.g.op[n.at()];
            if op.is_named_leaf() || op == Op::ARG {
                let at = if op == Op::ARG { ArgAttrs::of(&self.g.attrs(n)).index as usize } else { leaves };
                leaves += 1;
                values[self.g.out(n).at() - first] = given.get(at).cloned();
                continue;
            }
            let pure = self.g.def_of(n).is_pure() || self.g.def_of(n).is_leaf();
            if pure && self.g.outs_of(n).all(|v| readers[v.at() - first] == 0) {
                continue;
            }
            let operands = self.g.args_of(n);
            let args = operands.iter().map(|a| interpreted_value(&values, *a, first)).collect::<Result<Vec<_>, _>>()?;
            let read: Vec<bool> = self.g.outs_of(n).map(|v| readers[v.at() - first] > 0).collect();
            let outs = self.node(n, &args, &read).map_err(|stop| stop.located(self.g, n))?;
            for (v, y) in self.g.outs_of(n).zip(outs) {
                values[v.at() - first] = y;
            }
            for a in operands {
                readers[a.at() - first] -= 1;
                let last = readers[a.at() - first] == 0;
                if let Some(x) = if last { values[a.at() - first].take() } else { None } {
                    self.account.held = self.account.held.saturating_sub(x.len() as u64).max(held);
                }
            }
        }
        self.account.held = held;
        wanted.iter().map(|&v| interpreted_value(&values, v, first)).collect()
    }

    /// How often each value of region `r`, by position, is read on the way to the values `wanted`.
    fn readers(&self, r: Region, wanted: &[Value]) -> Vec<u32> {
        let first = self.g.region_values(r).start as usize;
        let mut readers = vec![0; self.g.region_values(r).len()];
        wanted.iter().for_each(|v| readers[v.at() - first] += 1);
        for n in self.g.region_nodes(r).rev() {
            let def = self.g.def_of(n);
            if !(def.is_pure() || def.is_leaf()) || self.g.outs_of(n).any(|v| readers[v.at() - first] > 0) {
                self.g.args_of(n).iter().for_each(|a| readers[a.at() - first] += 1);
            }
        }
        readers
    }

    /// The results of a node: those that are `read`, and perhaps others.
    fn node(&mut self, n: Node, args: &[Rc<Array>], read: &[bool]) -> Result<Results, Stop> {
        let outs: u64 = self.g.outs_of(n).map(|v| self.g.numel(v) as u64).sum();
        let operands: u64 = args.iter().map(|a| a.len() as u64).sum();
        self.account.spend(outs + operands + 16)?;
        self.account.hold(outs)?;
        if let Some(all) = self.run_region_op(n, args, read)? {
            return Ok(all);
        }
        if let Some(all) = run_oracle_family(self.g, n, args, self.account)? {
            return Ok(all.into_iter().map(|y| Some(Rc::new(y))).collect());
        }
        match self.primitive(n, args)? {
            Some(y) => Ok(vec![Some(Rc::new(y))]),
            None => Ok(self.expanded(n, args)?.into_iter().map(Some).collect()),
        }
    }

    /// The result of an op that the oracle has a loop for.
    fn primitive(&mut self, n: Node, args: &[Rc<Array>]) -> Result<Option<Array>, Stop> {
        let (g, v, op, attrs) = (self.g, self.g.out(n), self.g.op[n.at()], self.g.attrs(n));
        let (dtype, dims) = (g.dtype[v.at()], g.dims(v).to_vec());
        let all: Vec<&Array> = args.iter().map(Rc::as_ref).collect();
        if let Some(y) = oracle_constant_layout(op, &attrs, dtype, &dims) {
            return Ok(Some(y));
        }
        if let Some(y) = apply_oracle_random_op(op, &attrs, &all, dtype, &dims) {
            return Ok(Some(y));
        }
        if let Some(y) = oracle_sample_tokens(op, &attrs, &all, &dims, &mut self.account.may_fault)? {
            return Ok(Some(y));
        }
        if let Some(y) = apply_oracle_layout_op(op, &attrs, &all, &dims) {
            return Ok(Some(y));
        }
        if let Some(y) = oracle_complex_parts(op, &all, dtype) {
            return Ok(Some(y));
        }
        if let Some(y) = oracle_index_elements(op, &attrs, &all, &dims, &mut self.account.may_fault)? {
            return Ok(Some(y));
        }
        if let Some(work) = count_products(op, &all, &dims) {
            self.account.spend(work)?;
            return Ok(Some(oracle_product(&attrs, all[0], all[1], dtype, &dims)));
        }
        self.elementwise(op, &attrs, &all, &dims)
    }

    fn elementwise(&mut self, op: Op, attrs: &Attrs<'_>, all: &[&Array], to: &[usize]) -> Result<Option<Array>, Stop> {
        let y = match (op, all) {
            (Op::CAST, &[x]) => Some(cast_to_whole_or_real(x, CastAttrs::of(attrs).to)),
            (Op::POSITIVE_SCALE, &[x]) => {
                oracle_quant_scales(x, &mut self.account.may_fault)?;
                Some(x.clone())
            }
            (Op::SELECT, &[c, a, b]) => Some(select_oracle_binary_fn(c, a, b)),
            (Op::ARG_MAX | Op::ARG_MIN, &[x]) => Some(oracle_order_extreme(op, attrs, x, to)),
            (Op::ARG_SORT | Op::CUM_ARG_MAX | Op::CUMSUM, &[x]) => {
                // Every element is compared with every other of its row, or added to it.
                self.account.spend((oracle_order_row_len(op, attrs, x) as u64).saturating_mul(x.len() as u64))?;
                Some(match op {
                    Op::ARG_SORT => oracle_order_positions(attrs, x),
                    Op::CUM_ARG_MAX => oracle_order_running_extreme(attrs, x),
                    _ => oracle_reduce_cumsum(attrs, x),
                })
            }
            (Op::ROOT_SUM_SQUARES, all) => oracle_reduce_root_sum_squares(all),
            (Op::SOFTMAX | Op::LOG_SOFTMAX, &[x]) => Some(oracle_reduce_softmax(op, attrs, x)),
            (_, &[x]) => match apply_oracle_reduce_op(op, attrs, x, to) {
                Some(y) => Some(y),
                None if x.is_real() => map_unary_fn(op, attrs, x),
                None => map_whole(op, attrs, all, &mut self.account.may_fault)?,
            },
            (_, &[a, b]) => match compare_oracle_binary_fn(op, a, b) {
                Some(y) => Some(y),
                None if a.is_real() && b.is_real() => map_oracle_binary_fn(op, a, b),
                None if a.is_real() || b.is_real() => None,
                None => map_whole(op, attrs, all, &mut self.account.may_fault)?,
            },
            _ => None,
        };
        Ok(y)
    }

    /// The results of a node by its decomposition.
    fn expanded(&mut self, n: Node, args: &[Rc<Array>]) -> Result<Vec<Rc<Array>>, Stop> {
        let graph = match &self.expansions[n.at()] {
            Some(graph) => graph.clone(),
            None => self.expansions[n.at()].insert(Rc::new(expand_node(self.g, n)?)).clone(),
        };
        self.account.enter()?;
        let v = graph.view();
        let mut run = |args: &[Rc<Array>]| Interpreter::new(v, self.account).region(v.entry(), args, v.outputs());
        let all = run(args);
        let terms = interpreted_window_terms(self.g.op[n.at()], &self.g.attrs(n)).map(|terms| {
            let sizes: Vec<_> = args.iter().map(|a| Rc::new(interpreted_magnitude(a))).collect();
            (terms, run(&sizes))
        });
        self.account.leave();
        let all = match self.g.def_of(n).lower {
            Lower::Kernel(_) => interpret_as_own_kernel(all?, args, v),
            _ => all?,
        };
        let Some((terms, sizes)) = terms else { return Ok(all) };
        Ok(all.iter().zip(&sizes?).map(|(y, m)| Rc::new(interpreted_in_any_order(y, m, terms))).collect())
    }
}

/// Results of a decomposition, for an op whose kernel may go another way. Where the decomposition rounds nothing (a sum
/// of one term), the kernel may round; and where an operand is infinite, the decomposition may multiply it by a weight
/// of 0, and the kernel may leave out the term. So NaN and infinities are unknown then. If the decomposition pads its
/// products, the kernel may pad a factor with zeros and multiply those by an infinity: all numbers are unknown then.
fn interpret_as_own_kernel(all: Vec<Rc<Array>>, args: &[Rc<Array>], decomposition: Graph<'_>) -> Vec<Rc<Array>> {
    // A number without a bound may be infinite. An integer is finite.
    let known = |a: &Array| a.each_real().all(|(x, b)| x.is_finite() && b.is_finite());
    let finite = args.iter().all(|a| matches!(a.numbers, Numbers::Whole(_)) || known(a));
    let sums = |op: &Op| matches!(*op, Op::ADD | Op::SUB | Op::MUL | Op::DIV | Op::MATMUL | Op::REDUCE_SUM);
    let rounds = decomposition.op.iter().any(sums);
    let pads_products = decomposition.op.contains(&Op::PAD) && decomposition.op.contains(&Op::MATMUL);
    let one = |y: &Array| {
        let r = Rounding::of(y.dtype);
        let loose = |(x, b): (f64, f64)| match x.is_finite() {
            true if pads_products && !finite => (x, f64::INFINITY),
            false => (x, if finite { b } else { f64::INFINITY }),
            true => r.settled(x, if rounds { b + r.ulps(x, 2.0) } else { b }),
        };
        Array::reals(y.dtype, &y.dims, y.each_real().map(loose))
    };
    all.into_iter().map(|y| if y.is_real() { Rc::new(one(&y)) } else { y }).collect()
}

/// How many elements a window of a pool of sums or means has, if `op` is one or the transpose of one.
fn interpreted_window_terms(op: Op, attrs: &Attrs<'_>) -> Option<f64> {
    let pools = [Op::SUM_POOL2D, Op::SUM_POOL2D_BACKWARD, Op::AVG_POOL2D, Op::AVG_POOL2D_BACKWARD];
    let kernel = pools.contains(&op).then(|| attrs.iter().find(|(field, _)| field.name == "kernel"))??;
    let Owned::Ints(kernel) = kernel.1 else { return None };
    Some(kernel.iter().map(|&k| k as f64).product())
}

/// The largest absolute values that the elements of `x` may have.
fn interpreted_magnitude(x: &Array) -> Array {
    Array::reals(x.dtype, &x.dims, x.each_real().map(|(x, bound)| (x.abs() + bound, 0.0)))
}

/// `y`, sums of this many terms that are added in any order and scaled by a rounded reciprocal: the error is at most
/// (terms + 4)·u·Σ|term|. `sizes` holds Σ|term|.
fn interpreted_in_any_order(y: &Array, sizes: &Array, terms: f64) -> Array {
    let r = Rounding::of(y.dtype);
    let loose = |((x, bound), (size, _)): ((f64, f64), (f64, f64))| match x.is_finite() {
        true => r.settled(x, if size.is_finite() { bound + r.ulps(size, terms / 2.0 + 2.0) } else { f64::INFINITY }),
        false => (x, bound),
    };
    Array::reals(y.dtype, &y.dims, y.each_real().zip(sizes.each_real()).map(loose))
}

/// The number of products of a matrix product, if `op` is one.
fn count_products(op: Op, args: &[&Array], to: &[usize]) -> Option<u64> {
    let &[a, _] = args else { return None };
    let rank = a.dims.len();
    let inner = matches!(op, Op::MATMUL | Op::INT_MATMUL).then(|| a.dims[rank - 2].max(a.dims[rank - 1]))?;
    Some((count_elements(to) as u64).saturating_mul(inner as u64))
}

fn interpreted_value(values: &Values, v: Value, first: usize) -> Result<Rc<Array>, Stop> {
    let found = v.at().checked_sub(first).and_then(|i| values.get(i)?.clone());
    found.ok_or_else(|| Stop::broken(format!("{v} has no value")))
}

/// The decomposition of node `n` as a graph: inputs are its operands, outputs its results.
fn expand_node(g: Graph<'_>, n: Node) -> Result<GraphBuf, Stop> {
    let def = g.def_of(n);
    let Some(decompose) = def.decompose else { return Err(Stop::Unsupported(def.name)) };
    let b = Builder::rewriting(Emit::new(def.name));
    let inputs = g.args_of(n).iter().enumerate();
    let args: Vec<Var<'_>> = inputs.map(|(i, &a)| b.input(&format!("x{i}"), g.dims(a), g.dtype[a.at()])).collect();
    let op = b.with(|e| e.register(def));
    let mut words = Vec::new();
    for (field, attr) in g.attrs(n).iter() {
        let attr = match attr {
            Owned::Shape(s) => Owned::Shape(b.shape(&g.shape_dims(s)).unwrap_or(s)),
            Owned::Sym(s) => Owned::Sym(b.sym(g.str(s))),
            // A region of another graph cannot be named here.
            Owned::Region(_) => return Err(Stop::Unsupported(def.name)),
            other => other,
        };
        let attr: Attr<'_> = attr.as_attr();
        attr.encode(field, &mut words).map_err(|e| Stop::broken(format!("{}: {e}", def.name)))?;
    }
    let attrs = Attrs { fields: def.attrs, words: &words };
    let outs = decompose(&Site { g: &b, op, attrs, args: &args, outs: &[] });
    outs.iter().enumerate().for_each(|(i, &y)| b.output(&format!("y{i}"), y));
    let graph = b.finish([])?;
    let count = g.outs_of(n).len();
    match outs.len() == count {
        true => Ok(graph),
        false => Err(Stop::broken(format!("{}: {} results of {count}", def.name, outs.len()))),
    }
}
