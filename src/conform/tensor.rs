//! Tensors as numbers, draws from domains, and running a graph on them. A complex number is two numbers.

use crate::arena::ids::Id;
use crate::arena::{Sym, Value};
use crate::error::{Error, Kind, Result};
use crate::nodes::ir::opdef::Domain;
use crate::nodes::{DType, Graph, GraphBuf};
use crate::session::{Program, Session};

/// A tensor as numbers; every element type of the cases fits an `f64` exactly.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub dims: Vec<usize>,
    /// Elements, in row-major order. A complex element is its real part and then its imaginary part.
    pub data: Vec<f64>,
}

/// A stream of random numbers (SplitMix64), the same for the same seed. It shares no code with the streams that
/// programs draw from.
pub struct Draw(pub u64);

impl Draw {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A tensor of this type whose numbers come from `domain`.
    pub fn tensor(&mut self, dtype: DType, dims: &[usize], domain: Domain) -> Tensor {
        let n = dims.iter().product::<usize>() * tensor_numbers_of_element(dtype);
        let mut data: Vec<f64> = (0..n).map(|i| self.number(domain, i)).collect();
        if domain == Domain::Distinct {
            // A shuffled ladder.
            for i in (1..n).rev() {
                data.swap(i, (self.bits() % (i as u64 + 1)) as usize);
            }
        }
        if let (Domain::Dominant, &[.., rows, cols]) = (domain, dims) {
            let on_diagonal = |i: &usize| i / cols % rows == i % cols;
            (0..n).filter(on_diagonal).for_each(|i| data[i] = 3.25 + 2.5 * data[i]);
        }
        if domain == Domain::Code && dtype == DType::I8 {
            data.iter_mut().for_each(|x| *x -= 128.0);
        }
        if dtype.part() == DType::F32 {
            data.iter_mut().for_each(|x| *x = *x as f32 as f64);
        }
        Tensor { dtype, dims: dims.to_vec(), data }
    }

    fn number(&mut self, domain: Domain, i: usize) -> f64 {
        match domain {
            Domain::Real => {
                let x = self.unit() * 3.0 - 1.5;
                if x.abs() < 0.1 { x + 0.1f64.copysign(x) } else { x }
            }
            Domain::Positive => 0.5 + 1.5 * self.unit(),
            Domain::Beyond => 2.5 + 1.5 * self.unit(),
            Domain::Chance => 0.05 + 0.9 * self.unit(),
            Domain::Unit => 0.9 * (2.0 * self.unit() - 1.0),
            Domain::Distinct => 0.05 * i as f64 - 1.0 + 0.01 * self.unit(),
            Domain::Dominant => 0.3 * (2.0 * self.unit() - 1.0),
            Domain::Index(n) => (self.bits() % n.max(1) as u64) as f64,
            Domain::Count(n) => 1.0 + (self.bits() % n.max(1) as u64) as f64,
            Domain::Bit => (self.bits() & 1) as f64,
            Domain::Bits => (self.bits() as u32) as f64,
            Domain::Code => (self.bits() & 255) as f64,
        }
    }
}

/// How many numbers an element is.
pub(super) fn tensor_numbers_of_element(dtype: DType) -> usize {
    if dtype.is_complex() { 2 } else { 1 }
}

/// How to run a graph.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Number of threads.
    pub threads: usize,
    /// Whether all passes run, or only those that lowering needs.
    pub optimise: bool,
    /// Whether dead bytes are filled with NaN.
    pub poison: bool,
    /// Whether threads share all that has two units, whatever it is worth.
    pub share: bool,
}

/// One thread, through all passes.
pub const PLAIN: How = How { threads: 1, optimise: true, poison: false, share: false };

/// A compiled graph, to run on several inputs.
pub(super) struct Compiled<'g> {
    graph: &'g GraphBuf,
    program: Program,
}

impl Compiled<'_> {
    pub(super) fn new(graph: &GraphBuf, how: How) -> Result<Compiled<'_>> {
        let session = Session::new().threads(how.threads).optimise(how.optimise).poison(how.poison).share(how.share);
        Ok(Compiled { graph, program: session.compile(graph)? })
    }

    /// The outputs on `inputs`, in the order of the leaves.
    pub(super) fn run(&mut self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        let (v, p) = (self.graph.view(), &mut self.program);
        for (l, t) in v.leaves().zip(inputs) {
            write_tensor(p, l.name, t)?;
        }
        p.step()?;
        let outs = v.outputs().iter().zip(v.output_names);
        let tensor = |(&o, &name): (&Value, &Sym)| {
            let data = read_tensor(p, v.str(name), v.dtype[o.at()])?;
            Ok(Tensor { dtype: v.dtype[o.at()], dims: v.dims(o).to_vec(), data })
        };
        outs.map(tensor).collect()
    }
}

/// Runs `g` once on its inputs, in the order of the leaves; the outputs in order.
///
/// # Errors
/// Those of compiling and of the step; a tensor of another length than its leaf, or of a dtype without numbers here.
pub fn try_run(g: &GraphBuf, inputs: &[Tensor], how: How) -> Result<Vec<Tensor>> {
    Compiled::new(g, how)?.run(inputs)
}

macro_rules! by_dtype {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $t = f32;
                $body
            }
            DType::F64 => {
                type $t = f64;
                $body
            }
            DType::I32 => {
                type $t = i32;
                $body
            }
            DType::I64 => {
                type $t = i64;
                $body
            }
            DType::U32 => {
                type $t = u32;
                $body
            }
            DType::U8 | DType::Bool => {
                type $t = u8;
                $body
            }
            DType::I8 => {
                type $t = i8;
                $body
            }
            other => Err(Error::new(Kind::Data, format!("there are no numbers to test {other} with"))),
        }
    };
}

/// True if there are numbers to test `dtype` with.
pub(super) fn is_tested_tensor_type(dtype: DType) -> bool {
    let all = [DType::F32, DType::F64, DType::I32, DType::I64, DType::U32, DType::U8, DType::Bool, DType::I8];
    all.contains(&dtype.part())
}

fn write_tensor(p: &mut Program, name: &str, t: &Tensor) -> Result<()> {
    match t.dtype {
        DType::C64 => return write_tensor_numbers(p.values_mut::<[f32; 2]>(name)?.as_flattened_mut(), t, |x| x as f32),
        DType::C128 => return write_tensor_numbers(p.values_mut::<[f64; 2]>(name)?.as_flattened_mut(), t, |x| x),
        _ => {}
    }
    by_dtype!(t.dtype, T => {
        let to = p.values_mut::<T>(name)?;
        write_tensor_numbers(to, t, |x| x as T)
    })
}

fn write_tensor_numbers<T>(to: &mut [T], t: &Tensor, round: impl Fn(f64) -> T) -> Result<()> {
    if to.len() != t.data.len() {
        let text = format!("the leaf has {} numbers, and {} are given", to.len(), t.data.len());
        return Err(Error::new(Kind::Data, text));
    }
    to.iter_mut().zip(&t.data).for_each(|(to, x)| *to = round(*x));
    Ok(())
}

// One arm of the macro casts f64 to itself.
#[allow(clippy::unnecessary_cast)]
fn read_tensor(p: &Program, name: &str, dtype: DType) -> Result<Vec<f64>> {
    match dtype {
        DType::C64 => Ok(p.values::<[f32; 2]>(name)?.as_flattened().iter().map(|&x| f64::from(x)).collect()),
        DType::C128 => Ok(p.values::<[f64; 2]>(name)?.as_flattened().to_vec()),
        _ => by_dtype!(dtype, T => Ok(p.values::<T>(name)?.iter().map(|&x| x as f64).collect())),
    }
}

/// Type of a value as (dtype, dims).
pub fn ty(g: Graph<'_>, v: Value) -> (DType, Vec<usize>) {
    (g.dtype[v.at()], g.dims(v).to_vec())
}

/// Largest |a − b| / max(1, |a|, |b|); NaN against NaN and equal infinities count as equal. Infinite if the lengths
/// differ.
pub fn distance(a: &[f64], b: &[f64]) -> f64 {
    if a.len() != b.len() {
        return f64::INFINITY;
    }
    let one = |(&x, &y): (&f64, &f64)| {
        if x == y || (x.is_nan() && y.is_nan()) {
            0.0
        } else {
            let d = (x - y).abs() / x.abs().max(y.abs()).max(1.0);
            if d.is_nan() { f64::INFINITY } else { d }
        }
    };
    a.iter().zip(b).map(one).fold(0.0, f64::max)
}

/// Equal to the bit (NaN payloads aside).
pub fn same_bits(a: &Tensor, b: &Tensor) -> bool {
    let bit = |(x, y): (&f64, &f64)| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
    a.dims == b.dims && a.data.iter().zip(&b.data).all(bit)
}
