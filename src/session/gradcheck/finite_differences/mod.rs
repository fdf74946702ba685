//! Finite differences: reduces a graph in f64 to one number, and estimates its derivatives by evaluating it.
//!
//! Invariant: every evaluation starts from the same values of all leaves, states and random key included, except for
//! the one element that is perturbed.

use crate::arena::rng::{self, SplitMix64};
use crate::arena::{Value, ids::Id};
use crate::differences::try_slope;
use crate::error::{Error, Kind, Result};
use crate::names;
use crate::nodes::ir::leaf::{InitKind, LeafInit, ParamAttrs};
use crate::nodes::{Builder, DType, Emit, Graph, GraphBuf, LeafKind, Var};
use crate::passes::copier::Copier;
use crate::passes::rebuild::finish_rebuild;
use crate::passes::signature::unused_name;
use crate::session::{Binding, Program, Role};
use hashbrown::{HashMap, HashSet};

/// Step widths, in the unit of the element. A wide step is exact where the function is smooth; a narrow step does not
/// reach a nearby kink.
const WIDTHS: [f64; 3] = [1e-3, 1e-4, 1e-5];

/// The f64 graph `g` with one more output, and that output's name: the sum of all elements of all float outputs, each
/// multiplied by a fixed weight. Without weights, the sum of a softmax would be constant. `None` if no output is a
/// float.
pub fn sum_weighted_outputs(g: Graph<'_>) -> Result<Option<(GraphBuf, String)>> {
    let name = unused_name(g, "check.sum");
    if !g.outputs().iter().any(|&v| g.ty(v).dtype == DType::F64) {
        return Ok(None);
    }
    let buf = GraphBuf::make(|bump| {
        let b = Builder::rewriting(Emit::like(&g));
        let mut c = Copier::new(g, &b);
        c.run(&mut |_| None);
        c.signature();
        let mut total: Option<Var<'_>> = None;
        for (i, &v) in g.outputs().iter().enumerate().filter(|(_, v)| g.ty(**v).dtype == DType::F64) {
            let y = c.map[v];
            let weights: Vec<f64> = (0..y.numel()).map(|e| finite_difference_draw(i as u64 + 1, e) + 1.5).collect();
            let part = (y * b.constant_f64(&weights, y.dims())).sum(..);
            total = Some(total.map_or(part, |t| t + part));
        }
        if let Some(t) = total {
            b.output(&name, t);
        }
        drop(c);
        finish_rebuild(b, bump)
    })?;
    Ok(Some((buf, name)))
}

/// Number `i` of the stream `seed`: in (−1, 1), never 0.
fn finite_difference_draw(seed: u64, i: usize) -> f64 {
    2.0 * rng::unit(SplitMix64::nth(seed, i as u64)) - 1.0 + f64::EPSILON / 2.0
}

/// An element of a leaf.
#[derive(Clone, Copy)]
pub struct Element {
    /// Index of the leaf among a point's leaves.
    pub leaf: usize,
    /// Index of the element in the leaf.
    pub index: usize,
}

/// The values of all leaves of a program.
pub struct FinitePoint {
    leaves: Vec<(Binding, Vec<u8>)>,
    /// Leaves that a step changes.
    changed: Vec<usize>,
}

impl FinitePoint {
    /// A point for the initialised program `p`. Floats are in ±1, or in 0.1 to 1.1 if `positive`; params with a start
    /// value keep it unless `positive`. Integer inputs are 0, a valid index of any axis. Booleans are mixed. Integer
    /// states have their start values.
    pub fn new(p: &Program, g: Graph<'_>, seed: u64, positive: bool) -> FinitePoint {
        let value = |leaf: u64, i: usize| {
            let x = finite_difference_draw(seed ^ (leaf << 32), i);
            if positive { 0.6 + x / 2.0 } else { x }
        };
        let starts = finite_starts(g);
        let random = |b: &Binding| match b.role {
            Role::Param => starts.get(b.name.as_str()).is_none_or(|i| i.kind == InitKind::Zeros),
            _ => true,
        };
        let updated: HashSet<&str> = g.updates.iter().filter_map(|u| g.leaf(u.0)).map(|l| l.1).collect();
        let leaves = p.bindings().iter().filter(|b| b.role != Role::Output).enumerate().map(|(leaf, b)| {
            let mut bytes = p.bytes_of(b).to_vec();
            let n = b.dims.numel();
            match (b.dtype, b.role) {
                (DType::F64, _) if positive || random(b) => {
                    bytes = (0..n).flat_map(|i| value(leaf as u64 + 1, i).to_le_bytes()).collect();
                }
                (DType::C128, _) if random(b) => {
                    bytes = (0..2 * n).flat_map(|i| value(leaf as u64 + 1, i).to_le_bytes()).collect();
                }
                (DType::Bool, _) => bytes = (0..n).map(|i| u8::from(finite_difference_draw(seed, i) > 0.0)).collect(),
                (_, Role::Input) => bytes.fill(0),
                _ => {}
            }
            (b.clone(), bytes)
        });
        let leaves: Vec<(Binding, Vec<u8>)> = leaves.collect();
        let changed = (0..leaves.len()).filter(|&i| updated.contains(leaves[i].0.name.as_str())).collect();
        FinitePoint { leaves, changed }
    }

    /// Gives leaves the values of `inputs`, by name.
    pub fn set(&mut self, inputs: &[(&str, &[f64])]) -> Result<()> {
        for &(name, data) in inputs {
            let Some((b, bytes)) = self.leaves.iter_mut().find(|l| l.0.name == name) else {
                let known = self.leaves.iter().map(|l| l.0.name.as_str());
                let text = format!("no leaf is called {name:?}{}", names::list_names_instead(name, known));
                return Err(Error::new(Kind::Name, text));
            };
            if data.len() != b.dims.numel() {
                let text = format!("{name:?} is {}{}; {} elements are given", b.dtype, b.dims, data.len());
                return Err(Error::new(Kind::Data, text));
            }
            *bytes = finite_difference_leaf_bytes(b.dtype, data)
                .map_err(|e| Error::new(Kind::Data, format!("{name:?}: {e}")))?;
        }
        Ok(())
    }

    /// The float leaves, with their indices.
    pub fn floats(&self) -> impl Iterator<Item = (usize, &Binding)> {
        self.leaves.iter().enumerate().map(|(i, l)| (i, &l.0)).filter(|(_, b)| b.dtype == DType::F64)
    }

    /// Steps `p` from this point and reads `output`.
    pub fn eval(&self, p: &mut Program, output: &str) -> Result<f64> {
        (0..self.leaves.len()).try_for_each(|i| self.write(p, i))?;
        self.step(p, output)
    }

    /// Writes one leaf.
    fn write(&self, p: &mut Program, leaf: usize) -> Result<()> {
        let (b, bytes) = &self.leaves[leaf];
        p.write_bytes(&b.name, bytes)
    }

    /// Steps `p` and reads `output`.
    fn step(&self, p: &mut Program, output: &str) -> Result<f64> {
        p.step()?;
        Ok(p.values::<f64>(output)?.first().copied().unwrap_or(f64::NAN))
    }

    /// As [`FinitePoint::eval`], with element `at` moved by `by`. `p` is at this point before and after, so only that
    /// leaf and those that a step changes are written.
    fn moved(&mut self, p: &mut Program, output: &str, at: Element, by: f64) -> Result<f64> {
        let range = 8 * at.index..8 * at.index + 8;
        let mut old = [0; 8];
        old.copy_from_slice(&self.leaves[at.leaf].1[range.clone()]);
        let x = f64::from_le_bytes(old);
        self.leaves[at.leaf].1[range.clone()].copy_from_slice(&(x + by).to_le_bytes());
        let written = self.write(p, at.leaf);
        self.leaves[at.leaf].1[range].copy_from_slice(&old);
        written?;
        let y = self.step(p, output);
        self.write(p, at.leaf)?;
        self.restore(p)?;
        y
    }

    /// Writes the leaves that a step of `p` changes.
    pub fn restore(&self, p: &mut Program) -> Result<()> {
        self.changed.iter().try_for_each(|&i| self.write(p, i))
    }

    /// The derivative of `output` with respect to element `at`, by differences. Of the widths, the one that agrees best
    /// with `claim` counts; a wrong claim agrees with none.
    ///
    /// # Errors
    /// The fault of a step, if no width has a difference. A wide step may reach where the program has no value.
    pub fn derivative(&mut self, p: &mut Program, output: &str, at: Element, claim: f64) -> Result<f64> {
        let (mut best, mut fault) = (f64::NAN, None);
        for h in WIDTHS {
            match try_slope(h, |by| self.moved(p, output, at, by)) {
                Ok(d) if best.is_nan() || (d - claim).abs() < (best - claim).abs() => best = d,
                Ok(_) => {}
                Err(e) => fault = fault.or(Some(e)),
            }
        }
        fault.filter(|_| best.is_nan()).map_or(Ok(best), Err)
    }
}

/// The start value of each param.
fn finite_starts(g: Graph<'_>) -> HashMap<&str, LeafInit> {
    let params = g.leaves().filter(|l| l.kind == LeafKind::Param);
    let start = |v: Value| ParamAttrs::of(&g.attrs(g.def[v.at()])).leaf_init();
    params.map(|l| (l.name, start(l.value))).collect()
}

/// `data` as elements of a leaf of a graph in f64, or which number does not fit.
fn finite_difference_leaf_bytes(dtype: DType, data: &[f64]) -> Result<Vec<u8>, String> {
    let whole = |low: f64, high: f64| match data.iter().find(|x| x.fract() != 0.0 || !(low..=high).contains(*x)) {
        Some(x) => Err(format!("{x} is no {dtype}")),
        None => Ok(()),
    };
    macro_rules! integers {
        ($($d:ident: $t:ty),*) => {
            match dtype {
                DType::F64 => Ok(data.iter().flat_map(|x| x.to_le_bytes()).collect()),
                DType::Bool => {
                    whole(0.0, 1.0)?;
                    Ok(data.iter().map(|&x| x as u8).collect())
                }
                $(DType::$d => {
                    whole(<$t>::MIN as f64, <$t>::MAX as f64)?;
                    Ok(data.iter().flat_map(|&x| (x as $t).to_le_bytes()).collect())
                })*
                _ => Err(format!("values of {dtype} cannot be given")),
            }
        };
    }
    integers!(I8: i8, U8: u8, I32: i32, I64: i64, U32: u32)
}

#[cfg(test)]
mod tests;
