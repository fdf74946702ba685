//! Start values of params and states: as users give them, and as the attributes of a leaf hold them.

use crate::arena::dims::Dims;
use crate::ensure;
use crate::nodes::ir::attr_types::{Choice, choice};
use crate::nodes::ir::builder_start_values::init_digest;
use crate::nodes::ir::dtype::DType;
use std::fmt;
use std::sync::Arc;

choice! {
    /// The rule of a leaf's start values. The attributes `scale` and `start` are its numbers. See [`Init`].
    pub enum InitKind {
        /// All 0.
        Zeros = "zeros",
        /// All 1.
        Ones = "ones",
        /// Uniform in ±scale.
        Uniform = "uniform",
        /// Normal with mean 0; the scale is the standard deviation.
        Normal = "normal",
        /// All `start[0]`.
        Constant = "constant",
        /// Uniform from `start[0]` to `start[1]`.
        Between = "between",
        /// Normal with mean `start[0]`; the scale is the standard deviation.
        Around = "around",
        /// As `Around`, from `start[1]` to `start[2]` alone.
        TruncNormal = "trunc_normal",
        /// Orthonormal rows or columns, times the scale.
        Orthogonal = "orthogonal",
        /// The identity matrix.
        Eye = "eye",
        /// The identity of a convolution with `start[0]` groups.
        Dirac = "dirac",
        /// The elements are `start`.
        Values = "values",
    }
}

/// Start values of a param or a state. [`nn::init`](crate::nn::init) has them by their names in `torch.nn.init`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Init {
    /// All 0.
    Zeros,
    /// All 1.
    Ones,
    /// Uniform in ±bound.
    Uniform(f64),
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// All elements are this number, which the dtype must hold.
    Constant(f64),
    /// Uniform from `low` to `high`.
    Between {
        /// The least number.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// Normal with this mean and standard deviation.
    Around {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        deviation: f64,
    },
    /// Normal with this mean and standard deviation, without what lies outside of `low` to `high`. `low` is at most 37
    /// deviations above the mean, and `high` at most 37 below it.
    TruncNormal {
        /// The mean before the tails are cut off.
        mean: f64,
        /// The standard deviation before the tails are cut off, above 0.
        deviation: f64,
        /// The least number; −∞ cuts nothing off.
        low: f64,
        /// The largest number; ∞ cuts nothing off.
        high: f64,
    },
    /// This number times a matrix with orthonormal rows, if it is wider than high, or else orthonormal columns. The
    /// axes after the first count as one. A matrix of normal draws is made orthogonal row by row (Gram–Schmidt).
    /// Source: Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks".
    Orthogonal(f64),
    /// The identity matrix: 1 where row and column are the same. Rank 2.
    Eye,
    /// The identity of a convolution, `[outputs, inputs / groups, kernel…]`: each group of outputs copies its first
    /// inputs.
    Dirac {
        /// Groups of outputs.
        groups: usize,
    },
    /// A list of numbers, one for each element: see [`Builder::start_values`](crate::graph::Builder::start_values).
    Values(StartValues),
}

/// A list of start values that a builder keeps. Other builders refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartValues {
    /// Its number in the builder.
    pub(super) index: usize,
    /// Of its numbers, so that a list of another builder is not taken for it.
    pub(super) digest: u64,
}

/// Start values as the attributes `init`, `scale` and `start` of a leaf hold them.
#[derive(Clone, Debug)]
pub struct LeafInit {
    /// The rule.
    pub kind: InitKind,
    /// The width of the distribution.
    pub scale: f64,
    /// The other numbers of the rule, or the elements.
    pub start: Arc<[f64]>,
}

impl Init {
    /// These start values as attributes. Those of [`Init::Values`] are `list`.
    pub fn attrs(self, list: &[f64]) -> LeafInit {
        let (kind, scale, numbers) = match self {
            Init::Zeros => (InitKind::Zeros, 0.0, vec![]),
            Init::Ones => (InitKind::Ones, 0.0, vec![]),
            Init::Uniform(bound) => (InitKind::Uniform, bound, vec![]),
            Init::Normal(deviation) => (InitKind::Normal, deviation, vec![]),
            Init::Constant(x) => (InitKind::Constant, 0.0, vec![x]),
            Init::Between { low, high } => (InitKind::Between, 0.0, vec![low, high]),
            Init::Around { mean, deviation } => (InitKind::Around, deviation, vec![mean]),
            Init::TruncNormal { mean, deviation, low, high } => {
                (InitKind::TruncNormal, deviation, vec![mean, low, high])
            }
            Init::Orthogonal(gain) => (InitKind::Orthogonal, gain, vec![]),
            Init::Eye => (InitKind::Eye, 0.0, vec![]),
            Init::Dirac { groups } => (InitKind::Dirac, 0.0, vec![groups as f64]),
            Init::Values(_) => (InitKind::Values, 0.0, list.to_vec()),
        };
        LeafInit { kind, scale, start: numbers.into() }
    }
}

impl LeafInit {
    /// From attributes of a leaf.
    pub fn new(kind: InitKind, scale: f64, start: Option<Vec<f64>>) -> LeafInit {
        LeafInit { kind, scale, start: start.unwrap_or_default().into() }
    }

    /// The attribute `start`.
    pub fn start_attr(&self) -> Option<Vec<f64>> {
        let needed = !self.start.is_empty() || self.kind == InitKind::Values;
        needed.then(|| self.start.to_vec())
    }

    /// Whether the values depend on the seed.
    pub fn is_random(&self) -> bool {
        use InitKind::{Around, Between, Normal, Orthogonal, TruncNormal, Uniform};
        matches!(self.kind, Uniform | Normal | Between | Around | TruncNormal | Orthogonal)
    }

    /// An error unless these are start values of `dtype` and `dims`. The scale is checked elsewhere.
    pub fn check(&self, dtype: DType, dims: &Dims) -> Result<(), String> {
        let (start, kind, name) = (&self.start[..], self.kind, InitKind::NAMES[self.kind.choice_index() as usize]);
        let count = match kind {
            InitKind::Values => dims.numel(),
            InitKind::Constant | InitKind::Around | InitKind::Dirac => 1,
            InitKind::Between => 2,
            InitKind::TruncNormal => 3,
            _ => 0,
        };
        match kind {
            InitKind::Values => ensure!(start.len() == count, "{} start values for {count} elements", start.len()),
            _ => ensure!(start.len() == count, "start values {name} have {count} numbers, not {}", start.len()),
        }
        if matches!(kind, InitKind::Constant | InitKind::Values) {
            let bad = start.iter().find(|x| !dtype.can_hold(**x));
            return bad.map_or(Ok(()), |x| Err(format!("{x:?} is no start value of {dtype}")));
        }
        let (added, rank) = (!matches!(kind, InitKind::Uniform | InitKind::Normal), dims.len());
        let float = dtype.is_real_float();
        ensure!(float || !added || !self.is_random(), "no random start values of {dtype}");
        ensure!(kind != InitKind::Eye || rank == 2, "start values eye need rank 2, not {dims}");
        ensure!(kind != InitKind::Orthogonal || rank >= 2, "start values orthogonal need rank 2 or more, not {dims}");
        match kind {
            InitKind::Dirac => {
                ensure!((3..=5).contains(&rank), "start values dirac need rank 3 to 5, not {dims}");
                let (groups, outputs) = (start[0], dims[0]);
                let divide = groups >= 1.0 && groups.fract() == 0.0 && outputs as f64 % groups == 0.0;
                ensure!(divide, "start values dirac: {groups} groups do not divide {outputs} outputs");
            }
            InitKind::Between => {
                let (low, high) = (start[0], start[1]);
                ensure!(low <= high, "start values between: low {low:?} is above high {high:?}");
                self.check_finite(dtype, &start[..2])?;
            }
            InitKind::Around => self.check_finite(dtype, start)?,
            InitKind::TruncNormal => {
                let (low, high) = (start[1], start[2]);
                ensure!(low < high, "start values trunc_normal: low {low:?} is not below high {high:?}");
                ensure!(self.scale > 0.0, "start values trunc_normal: the deviation is 0");
                self.check_finite(dtype, &start[..1])?;
                // Further out, the share of the distribution that is left has lost its digits in f64.
                let far = ((low - start[0]) / self.scale).max((start[0] - high) / self.scale);
                let (mean, name) = (start[0], "start values trunc_normal");
                ensure!(far <= 37.0, "{name}: {low:?} to {high:?} is more than 37 deviations from the mean {mean:?}");
            }
            _ => {}
        }
        Ok(())
    }

    /// The first numbers, and a digest of all where there are more.
    pub fn numbers_text(&self) -> String {
        const SHOWN: usize = 4;
        let first: Vec<String> = self.start.iter().take(SHOWN).map(|x| format!("{x:?}")).collect();
        match self.start.len() > SHOWN {
            true => format!("[{}, …] (digest {:016x})", first.join(", "), init_digest(&self.start)),
            false => format!("[{}]", first.join(", ")),
        }
    }

    fn check_finite(&self, dtype: DType, numbers: &[f64]) -> Result<(), String> {
        let bad = numbers.iter().find(|x| !x.is_finite() || !dtype.can_hold(**x));
        let name = InitKind::NAMES[self.kind.choice_index() as usize];
        bad.map_or(Ok(()), |x| Err(format!("start values {name}: {x:?} is no finite {dtype}")))
    }
}

impl PartialEq for LeafInit {
    fn eq(&self, other: &LeafInit) -> bool {
        let bits = |init: &LeafInit| init.start.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        (self.kind, self.scale) == (other.kind, other.scale) && bits(self) == bits(other)
    }
}

impl fmt::Display for LeafInit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(InitKind::NAMES[self.kind.choice_index() as usize])?;
        if self.scale != 0.0 {
            write!(f, "({})", self.scale)?;
        }
        if !self.start.is_empty() { write!(f, " {}", self.numbers_text()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const F32: DType = DType::F32;

    fn check(init: Init, dtype: DType, dims: &[usize]) -> Result<(), String> {
        init.attrs(&[]).check(dtype, &Dims::new(dims).unwrap())
    }

    #[test]
    fn rules_are_told_with_their_numbers() {
        let told = [
            (Init::Zeros, "zeros"),
            (Init::Ones, "ones"),
            (Init::Uniform(0.5), "uniform(0.5)"),
            (Init::Normal(0.25), "normal(0.25)"),
            (Init::Constant(2.0), "constant [2.0]"),
            (Init::Between { low: 1.0, high: 3.0 }, "between [1.0, 3.0]"),
            (Init::Around { mean: 1.0, deviation: 2.0 }, "around(2) [1.0]"),
            (Init::TruncNormal { mean: 1.0, deviation: 2.0, low: -1.0, high: 3.0 }, "trunc_normal(2) [1.0, -1.0, 3.0]"),
            (Init::Orthogonal(1.5), "orthogonal(1.5)"),
            (Init::Eye, "eye"),
            (Init::Dirac { groups: 2 }, "dirac [2.0]"),
        ];
        for (init, text) in told {
            assert_eq!(init.attrs(&[]).to_string(), text);
        }
        let list = Init::Values(StartValues { index: 0, digest: 0 });
        assert_eq!(list.attrs(&[1.0, 2.0]).to_string(), "values [1.0, 2.0]");
        // A list without numbers is one, and other rules have none.
        assert_eq!((list.attrs(&[]).start_attr(), Init::Ones.attrs(&[]).start_attr()), (Some(vec![]), None));
        assert_eq!(Init::Constant(2.0).attrs(&[]).start_attr(), Some(vec![2.0]));
    }

    #[test]
    fn each_rule_has_its_count_of_numbers() {
        use InitKind::{Around, Between, Constant, Dirac, Ones, TruncNormal};
        let dims = Dims::new(&[2]).unwrap();
        for (kind, count) in [(Ones, 0), (Constant, 1), (Between, 2), (Around, 1), (TruncNormal, 3), (Dirac, 1)] {
            let (name, more) = (InitKind::NAMES[kind.choice_index() as usize], count + 1);
            let e = LeafInit::new(kind, 1.0, Some(vec![1.0; more])).check(F32, &dims).unwrap_err();
            assert_eq!(e, format!("start values {name} have {count} numbers, not {more}"));
        }
    }

    #[test]
    fn groups_of_an_identity_divide_its_outputs() {
        let dirac = |groups: f64, dims: &[usize]| {
            LeafInit::new(InitKind::Dirac, 0.0, Some(vec![groups])).check(F32, &Dims::new(dims).unwrap())
        };
        for (groups, dims) in [(2.0, &[4, 3, 2][..]), (1.0, &[3, 2, 2, 2]), (3.0, &[3, 1, 2, 2, 2])] {
            assert_eq!(dirac(groups, dims), Ok(()), "{groups} {dims:?}");
        }
        for (groups, dims) in [(2.0, [3, 4, 2]), (1.5, [3, 2, 2]), (0.0, [2, 2, 2]), (-1.0, [2, 2, 2])] {
            let wanted = format!("start values dirac: {groups} groups do not divide {} outputs", dims[0]);
            assert_eq!(dirac(groups, &dims), Err(wanted));
        }
        let wanted = "start values dirac need rank 3 to 5, not [2,1,1,1,1,1]";
        assert_eq!(dirac(1.0, &[2, 1, 1, 1, 1, 1]), Err(wanted.to_string()));
    }

    #[test]
    fn draws_have_bounds_that_they_reach() {
        let name = "start values trunc_normal";
        let cut = |mean: f64, deviation: f64, [low, high]: [f64; 2]| {
            check(Init::TruncNormal { mean, deviation, low, high }, F32, &[1])
        };
        for bounds in [[80.0, 90.0], [-70.0, -60.0], [0.0, 20.0]] {
            assert_eq!(cut(10.0, 2.0, bounds), Ok(()), "{bounds:?}");
        }
        for [low, high] in [[85.0, 90.0], [-80.0, -65.0]] {
            let wanted = format!("{name}: {low:?} to {high:?} is more than 37 deviations from the mean 10.0");
            assert_eq!(cut(10.0, 2.0, [low, high]), Err(wanted));
        }
        assert_eq!(cut(0.0, 0.0, [-1.0, 1.0]), Err(format!("{name}: the deviation is 0")));
        assert_eq!(cut(f64::INFINITY, 1.0, [-1.0, 1.0]), Err(format!("{name}: inf is no finite f32")));
        assert_eq!(check(Init::Between { low: 1.0, high: 1.0 }, F32, &[1]), Ok(()));
        let e = check(Init::Around { mean: 1e39, deviation: 1.0 }, F32, &[1]);
        assert_eq!(e, Err("start values around: 1e39 is no finite f32".to_string()));
    }
}
