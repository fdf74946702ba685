//! Values for the leaves of a graph: a function of the seed, the leaf's name, its type and its readers.

use super::account::MOST_ELEMENTS;
use super::array::{Array, count_elements};
use super::leaf_domains::{LeafRange, leaf_domains};
use super::rounding::{Rounding, nearest_element};
use super::stop::Stop;
use super::whole_ops::whole_range;
use crate::arena::ids::Id;
use crate::arena::rng::SplitMix64;
use crate::nodes::{DType, Graph};
use std::rc::Rc;

/// Numbers nearer to 0 than this are left out where functions may have kinks.
const OFF_ZERO: f64 = 0.1;

/// What the diagonal of a matrix has more than its other elements, where a reader factors it.
const DOMINANT: f64 = 3.25;

/// The value of a leaf.
#[derive(Clone, Debug)]
pub struct LeafValue {
    /// The leaf's name.
    pub name: String,
    /// Its elements, all exact.
    pub array: Rc<Array>,
}

/// The values of all leaves of a graph.
#[derive(Clone, Debug, Default)]
pub struct LeafValues {
    /// One value for each leaf, in order.
    pub leaves: Vec<LeafValue>,
}

/// A leaf to draw: its name, its type, and what its readers ask for.
struct Asked {
    name: String,
    dtype: DType,
    dims: Vec<usize>,
    range: Option<LeafRange>,
}

impl LeafValues {
    /// Values for the leaves of `graph`, in the domains that its readers can use: indices are in range, arguments of
    /// logarithms are positive.
    ///
    /// # Errors
    /// [`Stop::TooLarge`]: the leaves have more than 2²⁵ elements.
    pub fn draw(graph: Graph<'_>, seed: u64) -> Result<LeafValues, Stop> {
        LeafValues::draw_for(&[graph], seed)
    }

    /// Values for the leaves of several graphs, which all readers can use. Leaves of one name have one value, of the
    /// type that the first graph gives it.
    ///
    /// # Errors
    /// Those of [`LeafValues::draw`].
    pub fn draw_for(graphs: &[Graph<'_>], seed: u64) -> Result<LeafValues, Stop> {
        let mut all: Vec<Asked> = Vec::new();
        for &g in graphs {
            for (leaf, range) in g.leaves().zip(leaf_domains(g)) {
                match all.iter_mut().find(|a| a.name == leaf.name) {
                    Some(a) => a.range = a.range.zip(range).map(|(a, b)| a.and(b)).or(a.range).or(range),
                    None => {
                        let (dtype, dims) = (g.dtype[leaf.value.at()], g.dims(leaf.value).to_vec());
                        all.push(Asked { name: leaf.name.to_string(), dtype, dims, range });
                    }
                }
            }
        }
        let elements = all.iter().map(|a| count_elements(&a.dims) as u64).fold(0, u64::saturating_add);
        if elements > MOST_ELEMENTS {
            return Err(Stop::TooLarge);
        }
        let drawn = all.into_iter().map(|a| LeafValue { array: Rc::new(draw_numbers(&a, seed)), name: a.name });
        Ok(LeafValues { leaves: drawn.collect() })
    }

    /// These values, in which about one float of `every` is a special value: 0 of either sign, NaN, an infinity, the
    /// least normal number or the least number of the type.
    pub fn with_special_values(mut self, seed: u64, every: u64) -> LeafValues {
        for leaf in self.leaves.iter_mut().filter(|l| l.array.is_real()) {
            let mut stream = leaf_value_stream(!seed, &leaf.name);
            let dtype = leaf.array.dtype;
            let Rounding { unit, least, .. } = Rounding::of(dtype);
            let special = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, least, 2.0 * least * unit];
            let one = |(x, b): (f64, f64)| match stream.below(every.max(1)) {
                0 => (nearest_element(dtype, special[stream.below(special.len() as u64) as usize]), 0.0),
                _ => (x, b),
            };
            leaf.array = Rc::new(Array::reals(dtype, &leaf.array.dims, leaf.array.each_real().map(one)));
        }
        self
    }

    /// The value of the leaf called `name`.
    pub fn find(&self, name: &str) -> Option<&Rc<Array>> {
        self.leaves.iter().find(|l| l.name == name).map(|l| &l.array)
    }

    /// The values of the leaves of `graph`, in order.
    pub(super) fn arrays(&self, graph: Graph<'_>) -> Result<Vec<Rc<Array>>, Stop> {
        let one = |leaf: crate::nodes::Leaf<'_>| {
            let array =
                self.find(leaf.name).ok_or_else(|| Stop::broken(format!("leaf {:?} has no value", leaf.name)))?;
            let fits = array.dtype == graph.dtype[leaf.value.at()] && array.dims[..] == graph.dims(leaf.value)[..];
            let (want, dims) = (graph.ty_text(leaf.value), &array.dims);
            let why = || format!("leaf {:?} is {want}, and its value is {}{dims:?}", leaf.name, array.dtype);
            if fits { Ok(array.clone()) } else { Err(Stop::broken(why())) }
        };
        graph.leaves().map(one).collect()
    }
}

/// The seed of a leaf's draws (FNV-1a of its name): other leaves do not change it.
fn leaf_value_stream(seed: u64, name: &str) -> SplitMix64 {
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3));
    SplitMix64(hash ^ crate::arena::rng::mix(seed))
}

fn draw_numbers(a: &Asked, seed: u64) -> Array {
    let mut stream = leaf_value_stream(seed, &a.name);
    let n = count_elements(&a.dims);
    if a.dtype.is_complex() {
        let mut part = || nearest_element(a.dtype.part(), crate::arena::rng::unit(stream.bits()) * 3.0 - 1.5);
        let all: Vec<_> = (0..n).map(|_| ([part(), part()], 0.0)).collect();
        return Array::pairs(a.dtype, &a.dims, all.into_iter());
    }
    let range = a.range.unwrap_or_else(|| unrestricted_range(a.dtype, seed));
    if !a.dtype.is_real_float() {
        let (least, most) = whole_range(a.dtype);
        let (low, high) = ((range.low as i128).max(least), (range.high as i128).min(most));
        let span = (high - low + 1).max(1) as u64;
        let all: Vec<_> = (0..n).map(|_| Some(low + i128::from(stream.below(span)))).collect();
        return Array::wholes(a.dtype, &a.dims, all.into_iter());
    }
    let places = draw_leaf_value_places(n, range.distinct, &mut stream);
    let matrix = if let [.., rows, cols] = a.dims[..] { Some((rows, cols)) } else { None };
    let raised = |i: usize| range.dominant && matrix.is_some_and(|(rows, cols)| i / cols % rows == i % cols);
    let one = |(i, place): (usize, f64)| {
        let x = range.low + (range.high - range.low) * place + if raised(i) { DOMINANT } else { 0.0 };
        let moved = if x < 0.0 { -OFF_ZERO } else { OFF_ZERO };
        let x = if range.off_zero && x.abs() < OFF_ZERO { moved.clamp(range.low, range.high) } else { x };
        (nearest_element(a.dtype, x), 0.0)
    };
    Array::reals(a.dtype, &a.dims, places.into_iter().enumerate().map(one))
}

/// Numbers that no reader restricts.
fn unrestricted_range(dtype: DType, seed: u64) -> LeafRange {
    let range = |low, high| LeafRange { low, high, off_zero: dtype.is_real_float(), distinct: false, dominant: false };
    match dtype {
        DType::Bool => range(0.0, 1.0),
        _ if dtype.is_real_float() => range(-1.5, 1.5),
        // Numbers that may become indices by arithmetic, or negative ones.
        _ if seed.is_multiple_of(2) => range(0.0, 3.0),
        _ => range(-6.0, 9.0),
    }
}

/// Places in [0, 1): independent ones, or one in each of `n` equal parts, in any order.
fn draw_leaf_value_places(n: usize, distinct: bool, stream: &mut SplitMix64) -> Vec<f64> {
    let mut unit = || crate::arena::rng::unit(stream.bits());
    if !distinct {
        return (0..n).map(|_| unit()).collect();
    }
    let mut places: Vec<f64> = (0..n).map(|i| (i as f64 + 0.25 + 0.5 * unit()) / n as f64).collect();
    for i in (1..n).rev() {
        places.swap(i, stream.below(i as u64 + 1) as usize);
    }
    places
}
