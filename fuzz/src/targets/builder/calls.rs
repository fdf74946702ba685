//! The values that calls draw from, and calls of the builder itself: leaves, names, updates, loops, regions, scopes.

use super::dtype;
use crate::script::Script;
use arenagrad::graph::{Builder, DType, Init, Loop, Var};
use arenagrad::nn;

/// The values so far and the decisions to come.
pub struct Calls<'g> {
    /// The builder.
    pub g: &'g Builder,
    /// Another one, whose values are wrong here.
    other: &'g Builder,
    /// The decisions.
    pub script: Script<'g>,
    vars: Vec<Var<'g>>,
    leaves: Vec<Var<'g>>,
}

/// One call.
pub type Call = for<'g> fn(&mut Calls<'g>);

impl<'g> Calls<'g> {
    /// No value is there yet.
    pub fn new<'d: 'g>(g: &'g Builder, other: &'g Builder, script: Script<'d>) -> Calls<'g> {
        Calls { g, other, script, vars: Vec::new(), leaves: Vec::new() }
    }

    /// A value: a late one more often than an early one.
    pub fn var(&mut self) -> Var<'g> {
        match self.vars.len() {
            0 => self.g.input("first", [2, 3], DType::F32),
            n => self.vars[n - 1 - self.script.below(n.min(6) as u32) as usize],
        }
    }

    /// Keeps a value.
    pub fn put(&mut self, v: Var<'g>) {
        self.vars.push(v);
    }

    /// Keeps values.
    pub fn put_all(&mut self, all: impl IntoIterator<Item = Var<'g>>) {
        self.vars.extend(all.into_iter().take(4));
    }

    /// A small size.
    pub fn size(&mut self) -> usize {
        self.script.pick(&[1, 2, 3, 4, 2, 3, 5, 0, 6, 7, 8, 9])
    }

    /// A size, now and then one that no memory holds.
    pub fn any_size(&mut self) -> usize {
        match self.script.byte() {
            0 => self.script.pick(&[1 << 31, 1 << 40, usize::MAX, usize::MAX / 2 + 1, 70_001]),
            _ => self.size(),
        }
    }

    /// Sizes of up to four axes, or too many.
    pub fn dims(&mut self) -> Vec<usize> {
        let rank = self.script.pick(&[2, 1, 2, 3, 4, 0, 5, 9]);
        (0..rank).map(|_| self.any_size()).collect()
    }

    /// As many sizes as `v` has axes, mostly.
    pub fn sizes_for(&mut self, v: Var<'g>) -> Vec<usize> {
        let rank = if self.script.byte() < 16 { self.script.below(6) as usize } else { v.rank() };
        (0..rank).map(|_| self.any_size()).collect()
    }

    /// An axis, now and then one that is not there.
    pub fn axis(&mut self) -> i64 {
        match self.script.byte() {
            0 => self.script.pick(&[i64::MIN, i64::MAX, 9, -9]),
            n => i64::from(n % 7) - 3,
        }
    }

    /// Some axes.
    pub fn axes(&mut self) -> Vec<i64> {
        (0..self.script.below(4)).map(|_| self.axis()).collect()
    }

    /// A small whole number.
    pub fn int(&mut self) -> i64 {
        match self.script.byte() {
            0 => self.script.pick(&[i64::MIN, i64::MAX, 1 << 32, -1000]),
            n => i64::from(n % 9) - 4,
        }
    }

    /// A number.
    pub fn number(&mut self) -> f64 {
        match self.script.byte() {
            0..16 => self.script.pick(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -0.0, 5e-324, -1.0]),
            n => f64::from(n % 8) * 0.25,
        }
    }

    /// A name, which another leaf may have.
    pub fn name(&mut self) -> String {
        let names = ["a", "b", "fc", "fc.weight", "odd name", "", "é", "step", "lr", "y"];
        match self.script.below(3) {
            0 => self.script.pick(&names).to_string(),
            _ => format!("n{}", self.vars.len()),
        }
    }

    /// Start values.
    pub fn init(&mut self) -> Init {
        match self.script.below(14) {
            0 => Init::Ones,
            1 => Init::Normal(self.number()),
            2 => Init::Uniform(self.number()),
            3 => nn::init::constant(self.number()),
            4 => nn::init::uniform(self.number(), self.number()),
            5 => nn::init::trunc_normal(self.number(), self.number(), self.number(), self.number()),
            6 => nn::init::orthogonal(self.number()),
            7 => nn::init::eye(),
            8 => nn::init::dirac(self.size()),
            9 => {
                let values: Vec<f64> = (0..self.size()).map(|_| self.number()).collect();
                let of = if self.script.byte() == 0 { self.other } else { self.g };
                of.start_values(&values)
            }
            10 => nn::init::kaiming_uniform(&self.dims(), self.number()),
            11 => nn::init::xavier_normal(&self.dims(), self.number()),
            _ => Init::Zeros,
        }
    }

    fn leaf(&mut self, v: Var<'g>) {
        self.leaves.push(v);
        self.put(v);
    }
}

/// Calls of the builder.
pub const CALLS: &[Call] = &[
    |c| {
        let (name, dims, dtype) = (c.name(), c.dims(), dtype(&mut c.script));
        c.leaf(c.g.input(&name, dims, dtype));
    },
    |c| {
        let (name, dims, dtype, x) = (c.name(), c.dims(), dtype(&mut c.script), c.number());
        c.leaf(c.g.input_or(&name, dims, dtype, x));
    },
    |c| {
        let (name, dims, dtype, init) = (c.name(), c.dims(), dtype(&mut c.script), c.init());
        c.leaf(c.g.param(&name, dims, dtype, init));
    },
    |c| {
        let (name, dims, dtype, init) = (c.name(), c.dims(), dtype(&mut c.script), c.init());
        c.leaf(c.g.state(&name, dims, dtype, init));
    },
    |c| {
        let (name, dims, init) = (c.name(), c.dims(), c.init());
        c.leaf(c.g.frozen_param(&name, dims, DType::F32, init));
    },
    |c| {
        let (name, param, dims) = (c.name(), c.name(), c.dims());
        c.leaf(c.g.average(&name, &param, dims, DType::F32));
    },
    |c| {
        let (x, dims, dtype) = (c.number(), c.dims(), dtype(&mut c.script));
        c.put(c.g.full(x, dims, dtype));
    },
    |c| {
        let (axis, dims, dtype) = (c.axis(), c.dims(), dtype(&mut c.script));
        c.put(c.g.iota(axis, dims, dtype));
    },
    |c| {
        let n = c.size();
        let data: Vec<f32> = (0..n).map(|_| c.number() as f32).collect();
        let dims = if c.script.flag() { vec![n] } else { c.dims() };
        c.put(c.g.constant(&data, dims));
    },
    |c| {
        let n = c.size();
        let bytes: Vec<u8> = (0..n).map(|_| c.script.byte()).collect();
        let (dims, dtype) = (c.dims(), dtype(&mut c.script));
        c.put(c.g.constant_bytes(&bytes, dims, dtype));
    },
    |c| {
        let name = c.name();
        let v = c.var().named(&name);
        c.put(v);
    },
    |c| {
        let name = c.name();
        let v = c.var().tap(&name);
        c.put(v);
    },
    |c| {
        let name = c.name();
        let v = c.var();
        c.g.output(&name, v);
    },
    |c| {
        let at = c.script.below(c.leaves.len() as u32) as usize;
        let leaf = c.leaves.get(at).copied().unwrap_or(c.var());
        let next = c.var();
        c.g.update(leaf, next);
    },
    |c| {
        let at = c.script.below(c.leaves.len() as u32) as usize;
        let Some(&leaf) = c.leaves.get(at) else { return };
        c.g.update_with(leaf, |old| old * 0.5);
        c.put(c.g.updated(leaf));
    },
    |c| {
        let (start, x) = (c.var(), c.var());
        let length = c.script.flag().then(|| c.size());
        let (reverse, keep_every) = (c.script.flag(), c.script.flag().then(|| c.size()));
        let how =
            Loop::default().length(length).reverse(reverse).keep_every(keep_every).at_once(c.script.below(8) == 0);
        let kind = c.script.below(4);
        let (last, stacked) = c.g.scan_with(how, &[start], &[x], |s, x| match kind {
            0 => (vec![s[0] + x[0]], vec![s[0]]),
            1 => (vec![s[0] * start], vec![x[0].tanh()]),
            2 => (vec![x[0]], vec![]),
            _ => (vec![], vec![s[0], x[0]]),
        });
        c.put_all(last);
        c.put_all(stacked);
    },
    |c| {
        let (a, b, outer) = (c.var(), c.var(), c.var());
        let kind = c.script.below(4);
        let args = if c.script.flag() { vec![a, b] } else { vec![a] };
        let all = c.g.vmap(&args, |x| match kind {
            0 => vec![x[0].tanh()],
            1 => vec![x[0] * outer, outer],
            2 => vec![x[0].softmax(-1)],
            _ => vec![],
        });
        c.put_all(all);
    },
    |c| {
        let (a, b) = (c.var(), c.var());
        let kind = c.script.below(3);
        let routine = c.g.region("body", &[a.ty(), b.ty()], |x| match kind {
            0 => vec![x[0] * x[1]],
            1 => vec![x[0] + a],
            _ => vec![],
        });
        let args = if c.script.flag() { vec![a, b] } else { vec![b] };
        let results = c.g.call(routine, &args);
        if !results.is_empty() {
            c.put(results[0]);
        }
    },
    |c| {
        let (x, kind) = (c.var(), c.script.below(4));
        let mut f = c.g.custom_fn("custom", &[x], |x| vec![x[0].tanh()]);
        if kind & 1 == 1 {
            f = f.vjp(|_, _, y, dy| vec![Some(dy[0] * (1.0 - y[0] * y[0]))]);
        }
        if kind & 2 == 2 {
            f = f.jvp(|_, _, y, dx| vec![Some(dx[0] * (1.0 - y[0] * y[0]))]);
        }
        c.put_all(f.call());
    },
    |c| c.put(c.other.full(1.0, [2], DType::F32)),
    |c| {
        let (name, x, n) = (c.name(), c.var(), c.size());
        let y = c.g.layer(&name, || nn::linear(c.g, &name, x, n));
        c.put(y);
    },
    |c| {
        let (name, x, n) = (c.name(), c.var(), c.size());
        let y = c.g.reuse(|| nn::linear(c.g, &name, x, n));
        c.put(y);
    },
    |c| c.g.training(c.script.flag()),
    |c| c.put(c.g.rng()),
    |c| {
        let (dims, dtype) = (c.dims(), dtype(&mut c.script));
        c.put(c.g.uniform(dims, dtype));
    },
    |c| {
        let (dims, p) = (c.dims(), c.number());
        c.put(c.g.bernoulli(dims, p));
    },
    |c| {
        let (dims, dtype, low, high) = (c.dims(), dtype(&mut c.script), c.int(), c.int());
        c.put(c.g.randint(dims, dtype, low, high));
    },
    |c| {
        let (dims, rate) = (c.dims(), c.var());
        c.put(c.g.exponential(dims, DType::F32, rate));
    },
    |c| {
        let (dims, lo, hi) = (c.dims(), c.number(), c.number());
        c.put(c.g.truncated_normal(dims, DType::F32, lo, hi));
    },
    |c| {
        let n = c.any_size();
        c.put(c.g.permutation(n));
    },
];
