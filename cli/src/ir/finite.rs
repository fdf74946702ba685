//! Finite differences: a graph in f64, reduced to one number, and its derivative by evaluation alone.
//!
//! Invariant: every evaluation starts from the same leaves, states and random key included, but for the one element
//! that is moved. For `check`.

use super::eval::write_leaf;
use arenagrad::error::Result;
use arenagrad::graph::{Builder, DType, Emit, Graph, GraphBuf, Init, LeafKind, Var};
use arenagrad::session::{Binding, Program, Role};
use arenagrad::tools::arena::Value;
use arenagrad::tools::ir::leaf::ParamAttrs;
use arenagrad::tools::passes::ad::grad::unused_name;
use arenagrad::tools::passes::rebuild::{Copier, finish};
use std::collections::{HashMap, HashSet};

/// Step widths that are tried: a wide one is exact where the function is smooth, a narrow one misses a nearby kink.
const WIDTHS: [f64; 3] = [1e-3, 1e-4, 1e-5];

/// `g`, an f64 graph, with one more output: the sum of all elements of all float outputs, each times a fixed number of
/// its own (a plain sum would hide what a softmax does). The output's name is returned too; `None` if there is no
/// float.
pub fn summed(g: Graph<'_>) -> Result<Option<(GraphBuf, String)>> {
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
            let weights: Vec<f64> = (0..y.numel()).map(|e| uniform(i as u64 + 1, e) + 1.5).collect();
            let part = (y * b.constant_f64(&weights, y.dims())).sum(..);
            total = Some(total.map_or(part, |t| t + part));
        }
        if let Some(t) = total {
            b.output(&name, t);
        }
        drop(c);
        finish(b, bump)
    })?;
    Ok(Some((buf, name)))
}

/// A number in (−1, 1), never 0, that (`seed`, `i`) name.
fn uniform(seed: u64, i: usize) -> f64 {
    // SplitMix64.
    let mut z = seed.wrapping_add((i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let unit = ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
    2.0 * unit - 1.0 + f64::EPSILON
}

/// Values of all leaves.
pub struct Point {
    leaves: Vec<(Binding, Vec<u8>)>,
    /// Leaves that a step changes.
    changed: Vec<usize>,
}

impl Point {
    /// Values for the leaves of `p`, which was initialised: floats in ±1 (or 0.1 to 1.1 if `positive`), integers 0,
    /// which are an index of anything, truth values mixed, and integer states as they start.
    pub fn new(p: &Program, g: Graph<'_>, seed: u64, positive: bool) -> Point {
        let value = |leaf: u64, i: usize| {
            let x = uniform(seed ^ (leaf << 32), i);
            if positive { 0.6 + x / 2.0 } else { x }
        };
        let starts = starts(g);
        let random = |b: &Binding| match b.role {
            Role::Param => starts.get(b.name.as_str()).is_none_or(|i| matches!(i, Init::Zeros)),
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
                (DType::Bool, _) => bytes = (0..n).map(|i| u8::from(uniform(seed, i) > 0.0)).collect(),
                (_, Role::Input) => bytes.fill(0),
                _ => {}
            }
            (b.clone(), bytes)
        });
        let leaves: Vec<(Binding, Vec<u8>)> = leaves.collect();
        let changed = (0..leaves.len()).filter(|&i| updated.contains(leaves[i].0.name.as_str())).collect();
        Point { leaves, changed }
    }

    /// The float leaves, by place.
    pub fn floats(&self) -> impl Iterator<Item = (usize, &Binding)> {
        self.leaves.iter().enumerate().map(|(i, l)| (i, &l.0)).filter(|(_, b)| b.dtype == DType::F64)
    }

    /// Steps `p` from this point and reads `output`.
    pub fn eval(&self, p: &mut Program, output: &str) -> Result<f64> {
        (0..self.leaves.len()).try_for_each(|i| self.write(p, i))?;
        self.step(p, output)
    }

    fn write(&self, p: &mut Program, leaf: usize) -> Result<()> {
        let (b, bytes) = &self.leaves[leaf];
        write_leaf(p, b, bytes)
    }

    fn step(&self, p: &mut Program, output: &str) -> Result<f64> {
        p.step()?;
        Ok(p.values::<f64>(output)?.first().copied().unwrap_or(f64::NAN))
    }

    /// As [`Point::eval`], with one element moved. `p` was at this point before: only what the step changes is written.
    fn moved(&mut self, p: &mut Program, output: &str, at: (usize, usize), by: f64) -> Result<f64> {
        let range = 8 * at.1..8 * at.1 + 8;
        let mut old = [0; 8];
        old.copy_from_slice(&self.leaves[at.0].1[range.clone()]);
        let x = f64::from_le_bytes(old);
        self.leaves[at.0].1[range.clone()].copy_from_slice(&(x + by).to_le_bytes());
        let written = self.write(p, at.0);
        self.leaves[at.0].1[range].copy_from_slice(&old);
        written?;
        let y = self.step(p, output)?;
        self.write(p, at.0)?;
        self.restore(p)?;
        Ok(y)
    }

    /// Writes what a step of `p` from this point changed.
    pub fn restore(&self, p: &mut Program) -> Result<()> {
        self.changed.iter().try_for_each(|&i| self.write(p, i))
    }

    /// The derivative by element `at` = (leaf, element): of the widths, the one that agrees best with `claim`. A wrong
    /// claim agrees with none.
    pub fn derivative(&mut self, p: &mut Program, output: &str, at: (usize, usize), claim: f64) -> Result<f64> {
        let mut best = f64::NAN;
        for h in WIDTHS {
            let near = self.moved(p, output, at, h)? - self.moved(p, output, at, -h)?;
            let far = self.moved(p, output, at, 2.0 * h)? - self.moved(p, output, at, -2.0 * h)?;
            // Fourth order: the error is h⁴ times the fifth derivative.
            let d = (8.0 * near - far) / (12.0 * h);
            if best.is_nan() || (d - claim).abs() < (best - claim).abs() {
                best = d;
            }
        }
        Ok(best)
    }
}

/// How each param starts.
fn starts(g: Graph<'_>) -> HashMap<&str, Init> {
    use arenagrad::tools::arena::ids::Id;
    let params = g.leaves().filter(|l| l.1 == LeafKind::Param);
    let start = |v: Value| ParamAttrs::of(&g.attrs(g.def[v.at()])).start();
    params.map(|(v, _, name)| (name, start(v))).collect()
}
