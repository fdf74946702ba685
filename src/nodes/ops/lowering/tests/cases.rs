//! Conformance cases of rows as graphs with numbers.

use super::machine::{Leaves, bytes};
use crate::kernels::harness::noise;
use crate::nodes::attrs::{Kind, Owned};
use crate::nodes::builder::{Builder, Var};
use crate::nodes::dtype::DType;
use crate::nodes::opdef::{Case, Domain, Op, OpDef};

/// The types that `f` stands for in a case: both, or one where no operand is `f`.
pub fn floats(case: &Case) -> &'static [DType] {
    if case.args.split_whitespace().any(|a| a.starts_with("f[")) { &[DType::F32, DType::F64] } else { &[DType::F32] }
}

fn list<T: std::str::FromStr>(text: &str) -> Vec<T> {
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    inner.split(',').filter(|s| !s.is_empty()).map(|s| s.parse().ok().unwrap()).collect()
}

/// Operand types of a case, with `f` as `float`.
pub fn types(case: &Case, float: DType) -> Vec<(DType, Vec<usize>)> {
    let one = |a: &str| {
        let (name, dims) = a.split_at(a.find('[').unwrap());
        (if name == "f" { float } else { DType::parse(name).unwrap() }, list(dims))
    };
    case.args.split_whitespace().map(one).collect()
}

/// Attributes of a case.
pub fn attrs(g: &Builder, def: &OpDef, case: &Case) -> Vec<Owned> {
    let words: Vec<&str> = case.attrs.split_whitespace().collect();
    assert_eq!(words.len(), def.attrs.len(), "{}: {}", def.name, case.attrs);
    let one = |(field, word): (&crate::nodes::attrs::Field, &&str)| {
        let (name, text) = word.split_once('=').unwrap();
        assert_eq!(name, field.name, "{}", def.name);
        match field.kind {
            Kind::Bool => Owned::Bool(text == "true"),
            Kind::Int => Owned::Int(text.parse().unwrap()),
            Kind::F64 => Owned::F64(text.parse().unwrap()),
            Kind::DType => Owned::DType(DType::parse(text).unwrap()),
            Kind::Shape => Owned::Shape(g.shape(&list::<usize>(text)).unwrap()),
            Kind::Ints => Owned::Ints(list(text)),
            Kind::Choice(names) => Owned::Choice(names.iter().position(|n| *n == text).unwrap() as u32),
            Kind::Bytes => {
                let hex = text.trim_start_matches("0x").as_bytes();
                let byte = |c: &[u8]| u8::from_str_radix(std::str::from_utf8(c).unwrap(), 16).unwrap();
                Owned::Bytes(hex.chunks(2).map(byte).collect())
            }
            Kind::Sym | Kind::Region => panic!("no case has one"),
        }
    };
    def.attrs.iter().zip(&words).map(one).collect()
}

/// `n` numbers of a domain.
pub fn draw(domain: Domain, n: usize, seed: u64) -> Vec<f64> {
    let u = noise(n, seed);
    let below = |u: f64, k: usize| ((u * 0.5 + 0.5) * k as f64).floor().min(k as f64 - 1.0);
    let one = |(i, u): (usize, &f64)| match domain {
        Domain::Real => u.signum() * (0.1 + 1.4 * u.abs()),
        Domain::Positive => 1.25 + 0.75 * u,
        Domain::Unit => 0.9 * u,
        Domain::Distinct => ((i * 7919 + seed as usize) % n.max(1)) as f64 * 0.06 - n as f64 * 0.03 + 0.013,
        Domain::Index(k) => below(*u, k),
        Domain::Count(k) => 1.0 + below(*u, k),
        Domain::Bit => below(*u, 2),
        Domain::Bits => below(*u, 1 << 32),
    };
    u.iter().enumerate().map(one).collect()
}

/// The numbers of operand `i` of a case.
pub fn data(case: &Case, i: usize, n: usize) -> Vec<f64> {
    let domain = case.domains.get(i).or(case.domains.last()).copied().unwrap_or(Domain::Real);
    draw(domain, n, 11 + i as u64)
}

/// Inputs `x0`, `x1` … of a case.
pub fn inputs<'g>(g: &'g Builder, case: &Case, float: DType) -> Vec<Var<'g>> {
    let one = |(i, (dtype, dims)): (usize, (DType, Vec<usize>))| g.input(&format!("x{i}"), dims, dtype);
    types(case, float).into_iter().enumerate().map(one).collect()
}

/// What the inputs hold.
pub fn leaves(case: &Case, float: DType) -> Leaves {
    let one = |(i, (dtype, dims)): (usize, (DType, Vec<usize>))| {
        (format!("x{i}"), bytes(&data(case, i, dims.iter().product()), dtype))
    };
    types(case, float).into_iter().enumerate().map(one).collect()
}

/// The node of a case: all results.
pub fn node<'g>(g: &'g Builder, op: Op, def: &OpDef, case: &Case, args: &[Var<'g>]) -> Vec<Var<'g>> {
    let owned = attrs(g, def, case);
    let borrowed: Vec<_> = owned.iter().map(Owned::borrow).collect();
    let outs = g.emit(op, args, &borrowed);
    assert!(!outs.is_empty(), "{} {} {}: {:?}", def.name, case.args, case.attrs, g.error());
    outs
}
