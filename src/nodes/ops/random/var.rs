//! Random tensors as methods of [`Builder`] and [`Var`].
//!
//! Each call draws from a stream of its own. The numbers follow from the seed, the step and the stream alone. Draws
//! with parameters are functions of the parameters and of noise that does not depend on them, so they are
//! differentiable in the parameters. Parameters are numbers or tensors that broadcast to `dims`.

use crate::arena::Value;
use crate::error::Kind;
use crate::kernels::random::sample::Sampling;
use crate::kernels::vmath;
use crate::nodes::arguments::operand::Operand;
use crate::nodes::arguments::size_attrs::size_attr_to_i64;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::emit::Emit;
use crate::nodes::ir::leaf::{InitKind, StateAttrs};
use crate::nodes::ir::opdef::Op;
use crate::nodes::ops::random::attrs::{DrawAttrs, DropoutAttrs, RandomIntAttrs, SampleAttrs};
use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

impl<'g> Var<'g> {
    /// Zeroes each element with probability `p` and scales the others by 1/(1 − p), of `f32` or `f64`. The mask follows
    /// from the seed, the step and this call alone. The identity for `p = 0`, and while the builder builds for
    /// evaluation ([`Builder::training`]). `p` outside of [0, 1] is an error either way.
    #[track_caller]
    pub fn dropout(self, p: f64) -> Var<'g> {
        let p = self.g.dropout_now(p);
        if p == 0.0 {
            return self;
        }
        let (key, stream) = (self.g.rng(), self.g.fresh_stream());
        self.g.emit1(Op::DROPOUT, &[self, key], &DropoutAttrs { p, stream }.list())
    }

    /// Bools that are true with the probability that each element is, of `f32` or `f64`: never for 0, always for 1. A
    /// number below 0 counts as 0, one above 1 as 1, NaN as 0.
    #[track_caller]
    pub fn bernoulli(self) -> Var<'g> {
        self.g.uniform(self.dims(), DType::F64).less(self.cast(DType::F64))
    }

    /// One position along `axis` at random, where this tensor holds the logarithms of the probabilities, up to a
    /// constant for each row, as `dtype`: `i32` or `i64`. The axis disappears. It is [`Var::sample`] of any axis: a
    /// position of probability 0 (−∞) is never drawn, and a row with a NaN or +∞, or with −∞ alone, ends the step with
    /// an error that names it.
    #[track_caller]
    pub fn categorical(self, axis: i64, dtype: DType) -> Var<'g> {
        let Some(axis) = self.axis_at("categorical", axis) else { return self.none() };
        if !matches!(dtype, DType::I32 | DType::I64) {
            return self.refuse("categorical", format!("positions are i32 or i64, not {dtype}"));
        }
        let others = (0..self.rank()).filter(|&a| a != axis);
        let rows_last: Vec<usize> = others.chain([axis]).collect();
        self.g.with_caller(|| self.permute(&rows_last).sample(Sampling::default()).cast(dtype))
    }

    /// One token (`i32`) at random for each row of these logits `[.., tokens]`, of shape `[..]`: the draw of
    /// [`Sampler`](crate::train::Sampler), as part of the graph. The numbers follow from the seed, the step and this
    /// call, and in a loop from the iteration. A row with a NaN or +∞, or with −∞ alone, ends the step with an error
    /// that names it.
    ///
    /// ```
    /// use arenagrad::prelude::*;
    /// use arenagrad::train::Sampling;
    /// # fn main() -> Result<()> {
    /// let g = Builder::new("draw");
    /// let logits = g.input("logits", [2, 3], DType::F32);
    /// let token = logits.sample(Sampling::default().top_k(2));
    /// let mut p = Session::new().compile(&g.finish([token.named("token")])?)?;
    /// p.init(7)?; // the seed
    /// p.values_mut::<f32>("logits")?.copy_from_slice(&[0.0, 9.0, -9.0, 5.0, -90.0, -90.0]);
    /// p.step()?;
    /// let tokens = p.values::<i32>("token")?;
    /// assert!(tokens[0] < 2 && tokens[1] == 0);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn sample(self, how: Sampling) -> Var<'g> {
        let (key, stream) = (self.g.rng(), self.g.fresh_stream());
        self.sample_with_key(how, key, stream)
    }

    /// As [`Var::sample`], with a key `u32[4]` and a stream of your own: the numbers follow from these two alone.
    #[track_caller]
    pub fn sample_with_key(self, how: Sampling, key: Var<'g>, stream: i64) -> Var<'g> {
        let Sampling { temperature, top_k, top_p, .. } = how;
        let attrs = SampleAttrs { stream, temperature, top_k: size_attr_to_i64(top_k), top_p };
        self.g.emit1(Op::SAMPLE, &[self, key], &attrs.list())
    }
}

/// The name of the state that is the key of all random ops.
pub const RNG_STATE: &str = "rng";

impl Emit {
    /// The state that is the key of all random ops; each step advances it. The entry must be the open region.
    fn random_key_state(&mut self) -> Value {
        let known = self.leaf_called(RNG_STATE).filter(|&v| self.def(v).is_some_and(|d| d.op == Op::STATE));
        if let Some(v) = known {
            return v;
        }
        let Ok(shape) = self.shapes.intern(&[4]) else { return Value::NONE };
        let init = InitKind::Zeros;
        let name = self.strings.intern(RNG_STATE);
        let attrs =
            StateAttrs { name, dtype: DType::U32, shape, init, scale: 0.0, averages: None, owner: None, start: None };
        let key = self.leaf(Op::STATE, RNG_STATE, &attrs.list()[1..]);
        let next = self.emit(Op::RNG_NEXT, &[key], &[]).at(0);
        self.update(key, next);
        key
    }
}

impl Builder {
    /// The random key, `u32[4]`: a state with the seed and the step, which each step advances by one. All random ops of
    /// a graph share it; each call returns the same state. In the body of a loop it is the key of the iteration, made
    /// from the state and the iteration's number.
    #[track_caller]
    pub fn rng(&self) -> Var<'_> {
        self.record_location();
        let key = self.with(|e| {
            let key = e.in_entry_region(Emit::random_key_state);
            e.loop_key_here(key)
        });
        self.var(key)
    }

    /// A number that tells the draws of one random op from those of others: different for each call in this graph.
    pub fn fresh_stream(&self) -> i64 {
        self.first_stream.saturating_add(self.with(|e| e.all_values()) as i64)
    }

    #[track_caller]
    fn draw(&self, op: Op, dims: &[usize], dtype: DType) -> Var<'_> {
        let (key, stream) = (self.rng(), self.fresh_stream());
        match self.shape(dims) {
            Some(shape) => self.emit1(op, &[key], &DrawAttrs { stream, dtype, shape }.list()),
            None => self.var(Value::NONE),
        }
    }

    /// Uniform numbers in [0, 1), multiples of 2⁻²⁴ (`f32`) or 2⁻⁵³ (`f64`).
    ///
    /// ```
    /// use arenagrad::prelude::*;
    ///
    /// let g = Builder::new("noise");
    /// g.uniform([2, 3], DType::F32).tap("u");
    /// let mut p = Session::new().compile(&g.finish([])?)?;
    /// p.init(7)?; // the seed
    /// p.step()?;
    /// assert!(p.values::<f32>("u")?.iter().all(|u| (0.0..1.0).contains(u)));
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn uniform(&self, dims: impl AsRef<[usize]>, dtype: DType) -> Var<'_> {
        self.draw(Op::RNG_UNIFORM, dims.as_ref(), dtype)
    }

    /// Uniform numbers between `lo` and `hi`: lo + (hi − lo)·u with u in [0, 1). Rounding may give `hi` itself.
    #[track_caller]
    pub fn uniform_between<'g>(
        &'g self,
        dims: impl AsRef<[usize]>,
        dtype: DType,
        lo: impl Operand<'g>,
        hi: impl Operand<'g>,
    ) -> Var<'g> {
        let u = self.uniform(dims, dtype);
        let (lo, hi) = (lo.var_like(u, Op::ADD), hi.var_like(u, Op::ADD));
        lo + (hi - lo) * u
    }

    /// Numbers from the standard normal distribution. mean + deviation·z has another mean and deviation, and is
    /// differentiable in both.
    #[track_caller]
    pub fn normal(&self, dims: impl AsRef<[usize]>, dtype: DType) -> Var<'_> {
        self.draw(Op::RNG_NORMAL, dims.as_ref(), dtype)
    }

    /// Bools that are true with probability `p`, to 2⁻⁵³: never for p = 0, always for p = 1. `p` outside of [0, 1] is
    /// an error. [`Var::bernoulli`] takes a tensor of probabilities.
    #[track_caller]
    pub fn bernoulli(&self, dims: impl AsRef<[usize]>, p: f64) -> Var<'_> {
        if !(0.0..=1.0).contains(&p) {
            return self.fail(Kind::Shape, format!("bernoulli: p is {p}; it must lie in [0, 1]"));
        }
        self.uniform(dims, DType::F64).less(p)
    }

    /// Whole numbers from `low` to `high` − 1, all equally likely (to 2⁻⁶⁴), as `dtype`: `i32` or `i64`.
    #[track_caller]
    pub fn randint(&self, dims: impl AsRef<[usize]>, dtype: DType, low: i64, high: i64) -> Var<'_> {
        let (key, stream) = (self.rng(), self.fresh_stream());
        match self.shape(dims.as_ref()) {
            Some(shape) => self.emit1(Op::RNG_INT, &[key], &RandomIntAttrs { stream, low, high, dtype, shape }.list()),
            None => self.var(Value::NONE),
        }
    }

    /// Uniform numbers in (0, 1): a draw of 0 becomes half of the smallest other draw.
    #[track_caller]
    fn random_inside(&self, dims: &[usize], dtype: DType) -> Var<'_> {
        let bits = if dtype == DType::F32 { 24 } else { 53 };
        self.draw(Op::RNG_UNIFORM, dims, dtype).maximum(0.5f64.powi(bits + 1))
    }

    /// Numbers from the exponential distribution of this rate: −ln(1 − u) / rate.
    #[track_caller]
    pub fn exponential<'g>(&'g self, dims: impl AsRef<[usize]>, dtype: DType, rate: impl Operand<'g>) -> Var<'g> {
        let e = -(-self.uniform(dims, dtype)).log1p();
        e / rate.var_like(e, Op::DIV)
    }

    /// Numbers from the Gumbel distribution: loc − scale·ln(−ln u) with u in (0, 1).
    #[track_caller]
    pub fn gumbel<'g>(
        &'g self,
        dims: impl AsRef<[usize]>,
        dtype: DType,
        loc: impl Operand<'g>,
        scale: impl Operand<'g>,
    ) -> Var<'g> {
        // 1 − u has the distribution of u, and the logarithm of it is accurate where u is small.
        let z = -(-(-self.random_inside(dims.as_ref(), dtype)).log1p()).log();
        loc.var_like(z, Op::ADD) + scale.var_like(z, Op::MUL) * z
    }

    /// Numbers from the Laplace distribution: loc − scale·sign(v)·ln(1 − 2|v|) with v in (−½, ½).
    #[track_caller]
    pub fn laplace<'g>(
        &'g self,
        dims: impl AsRef<[usize]>,
        dtype: DType,
        loc: impl Operand<'g>,
        scale: impl Operand<'g>,
    ) -> Var<'g> {
        let v = self.random_inside(dims.as_ref(), dtype) - 0.5;
        let z = (v.abs() * -2.0).log1p() * -v.sign();
        loc.var_like(z, Op::ADD) + scale.var_like(z, Op::MUL) * z
    }

    /// Numbers from the Cauchy distribution: loc + scale·tan(πv) with v in (−½, ½).
    #[track_caller]
    pub fn cauchy<'g>(
        &'g self,
        dims: impl AsRef<[usize]>,
        dtype: DType,
        loc: impl Operand<'g>,
        scale: impl Operand<'g>,
    ) -> Var<'g> {
        let z = ((self.random_inside(dims.as_ref(), dtype) - 0.5) * PI).tan();
        loc.var_like(z, Op::ADD) + scale.var_like(z, Op::MUL) * z
    }

    /// Numbers from the standard normal distribution, between `lo` and `hi` alone. Either may be infinite; `lo` must be
    /// below `hi`. The draw inverts the distribution function, from the side on which no digits are lost. Bounds whose
    /// probability is below the range of `dtype` are an error: from about 12 on in `f32`, from 37 on in `f64`.
    #[track_caller]
    pub fn truncated_normal(&self, dims: impl AsRef<[usize]>, dtype: DType, lo: f64, hi: f64) -> Var<'_> {
        if lo.is_nan() || hi.is_nan() || lo >= hi {
            return self.fail(Kind::Shape, format!("truncated_normal: lo {lo} is not below hi {hi}"));
        }
        let tail = |x: f64| vmath::erfc(x * FRAC_1_SQRT_2);
        let (from, to) = match (lo > 0.0, hi < 0.0) {
            (true, _) => (tail(hi), tail(lo)),
            (_, true) => (tail(-lo), tail(-hi)),
            _ => (vmath::erf(lo * FRAC_1_SQRT_2), vmath::erf(hi * FRAC_1_SQRT_2)),
        };
        // The draws keep all their bits between the two, and above the subnormal numbers.
        let (least, bits) =
            if dtype == DType::F32 { (f64::from(f32::MIN_POSITIVE), 25) } else { (f64::MIN_POSITIVE, 54) };
        if to - from < least * 2f64.powi(bits) {
            let text = format!("truncated_normal: {lo} to {hi} has too little probability for {dtype}");
            return self.fail(Kind::Shape, text);
        }
        let between = self.random_inside(dims.as_ref(), dtype) * (to - from) + from;
        let z = match (lo > 0.0, hi < 0.0) {
            (true, _) => between.erfcinv(),
            (_, true) => -between.erfcinv(),
            _ => between.erfinv(),
        };
        (z * SQRT_2).clamp(lo, hi)
    }

    /// The numbers 0 to n − 1 in random order, as `i32[n]`: the order of n draws of `f64`. A tie of two draws, which
    /// has a probability of n²·2⁻⁵⁴, goes to the smaller number.
    #[track_caller]
    pub fn permutation(&self, n: usize) -> Var<'_> {
        self.uniform([n], DType::F64).arg_sort(0, false)
    }
}
