//! Conformance cases as graphs with numbers.

use super::machine::{Leaves, bytes};
use crate::arena::dims::Dims;
use crate::kernels::harness::noise;
use crate::nodes::Emit;
use crate::nodes::ir::builder::{Builder, Var};
use crate::nodes::ir::dtype::DType;
use crate::nodes::ir::opdef::{Case, Domain, Op, OpDef};
use crate::nodes::ir::text;

/// The types that `f` means in a case: both floats, or one if no operand is `f`.
pub fn floats(case: &Case) -> &'static [DType] {
    case.floats(&[DType::F32])
}

/// Operand types of a case, with `f` as `float`.
pub fn types(case: &Case, float: DType) -> Vec<(DType, Dims)> {
    let mut e = Emit::new("types");
    let types = text::parse_types(case.args, float, &mut e).unwrap();
    types.into_iter().map(|ty| (ty.dtype, e.shapes.dims(ty.shape))).collect()
}

/// `n` numbers of a domain.
pub fn draw(domain: Domain, n: usize, seed: u64) -> Vec<f64> {
    let u = noise(n, seed);
    let below = |u: f64, k: usize| ((u * 0.5 + 0.5) * k as f64).floor().min(k as f64 - 1.0);
    let one = |(i, u): (usize, &f64)| match domain {
        Domain::Real => u.signum() * (0.1 + 1.4 * u.abs()),
        Domain::Positive => 1.25 + 0.75 * u,
        Domain::Beyond => 3.25 + 0.75 * u,
        Domain::Chance => 0.5 + 0.45 * u,
        Domain::Unit => 0.9 * u,
        Domain::Distinct => ((i * 7919 + seed as usize) % n.max(1)) as f64 * 0.06 - n as f64 * 0.03 + 0.013,
        Domain::Dominant => 0.3 * u,
        Domain::Index(k) => below(*u, k),
        Domain::Count(k) => 1.0 + below(*u, k),
        Domain::Bit => below(*u, 2),
        Domain::Bits => below(*u, 1 << 32),
        Domain::Code => below(*u, 256) - 64.0,
    };
    u.iter().enumerate().map(one).collect()
}

/// The numbers of operand `i` of a case.
pub fn data(case: &Case, i: usize, n: usize) -> Vec<f64> {
    let domain = case.domains.get(i).or(case.domains.last()).copied().unwrap_or(Domain::Real);
    let mut all = draw(domain, n, 11 + i as u64);
    if let (Domain::Dominant, [.., rows, cols]) = (domain, &types(case, DType::F64)[i].1[..]) {
        (0..n).filter(|e| e / cols % rows == e % cols).for_each(|e| all[e] += 3.0);
    }
    all
}

/// Inputs `x0`, `x1` … of a case.
pub fn inputs<'g>(g: &'g Builder, case: &Case, float: DType) -> Vec<Var<'g>> {
    let one = |(i, (dtype, dims)): (usize, (DType, Dims))| g.input(&format!("x{i}"), dims, dtype);
    types(case, float).into_iter().enumerate().map(one).collect()
}

/// The numbers of the inputs.
pub fn leaves(case: &Case, float: DType) -> Leaves {
    let one = |(i, (dtype, dims)): (usize, (DType, Dims))| {
        let numbers = dims.iter().product::<usize>() * (1 + usize::from(dtype.is_complex()));
        (format!("x{i}"), bytes(&data(case, i, numbers), dtype))
    };
    types(case, float).into_iter().enumerate().map(one).collect()
}

/// The node of a case: all results.
pub fn node<'g>(g: &'g Builder, op: Op, def: &OpDef, case: &Case, args: &[Var<'g>]) -> Vec<Var<'g>> {
    let owned = g.with(|e| text::parse_attrs(def.attrs, case.attrs, e)).unwrap();
    let borrowed: Vec<_> = owned.iter().map(|a| a.as_attr()).collect();
    let outs = Vec::from(g.emit(op, args, &borrowed));
    assert!(!outs.is_empty(), "{} {} {}: {:?}", def.name, case.args, case.attrs, g.error());
    outs
}

const fn case(args: &'static str, attrs: &'static str, domains: &'static [Domain]) -> Case {
    Case { args, attrs, domains }
}

/// Sizes that only kernels care about: long reductions, which run in two steps, and operands without elements.
pub const MORE: &[(&str, Case)] = &[
    ("reduce_sum", case("f[40001]", "axes=[0] keep=false", &[Domain::Unit])),
    ("squared_error_gradient", case("f[40001] f[40001]", "mean=false weight=0.5", &[Domain::Unit])),
    ("reduce_sum", case("f[33,2,1100]", "axes=[0,2] keep=true", &[Domain::Unit])),
    ("reduce_mean", case("f[33,2,1100]", "axes=[0,2] keep=false", &[Domain::Real])),
    ("reduce_mean", case("f[20000,2]", "axes=[0] keep=false", &[Domain::Real])),
    ("reduce_max", case("f[33,2,1100]", "axes=[0,2] keep=false", &[Domain::Distinct])),
    ("reduce_min", case("i32[33,2,1100]", "axes=[0,2] keep=false", &[Domain::Index(1000)])),
    ("reduce_prod", case("f[2,3,2,3,2]", "axes=[0,2,4] keep=false", &[Domain::Positive])),
    ("reduce_sum", case("f[0,3,4]", "axes=[0,2] keep=false", &[Domain::Real])),
    ("reduce_mean", case("f[3,0]", "axes=[1] keep=false", &[Domain::Real])),
    ("reduce_prod", case("f[3,0,2]", "axes=[1] keep=false", &[Domain::Real])),
    ("logsumexp", case("f[4,3,5,2]", "axes=[0,2] keep=false", &[Domain::Real])),
    ("arg_min", case("i32[7,3]", "axis=0 dtype=i64", &[Domain::Distinct])),
    ("gather", case("bool[5,3] i64[4]", "axis=0", &[Domain::Bit, Domain::Index(5)])),
    ("scatter_add", case("i64[0,3] i32[0]", "axis=0 size=4", &[Domain::Index(9)])),
    ("scatter_along_axis", case("f[0,3] i32[0,3]", "axis=0 size=2", &[Domain::Real])),
    ("concat", case("f[0,2] f[3,2] f[0,2]", "axis=0", &[Domain::Real])),
    ("pad", case("f[0,3]", "low=[1,0] high=[1,2] value=2.5", &[Domain::Real])),
    ("pad", case("i32[2,2]", "low=[0,0] high=[1,0] value=-7", &[Domain::Index(9)])),
    ("full", case("", "value=-3 dtype=i64 shape=[5]", &[])),
    ("full", case("", "value=255 dtype=u8 shape=[2]", &[])),
    ("full", case("", "value=1 dtype=bool shape=[3]", &[])),
    ("broadcast", case("f[1,3,1]", "shape=[2,1,3,4]", &[Domain::Real])),
    ("transpose", case("f[1,4,1,3]", "perm=[2,1,0,3]", &[Domain::Real])),
    ("matmul", case("f[3,1,2,4] f[5,4,3]", "ta=false tb=false", &[Domain::Real])),
    ("matmul", case("f[3,4,2] f[3,5,4]", "ta=true tb=true", &[Domain::Real])),
    ("matmul", case("f[2,3,0] f[0,2]", "ta=false tb=false", &[Domain::Real])),
    // Columns are summed by several units of rows, and by units of columns.
    ("matmul_add", case("f[107,64] f[64,96] f[107,96]", "ta=false tb=false", &[Domain::Real])),
    ("matmul_add", case("f[50,400] f[449,50] f[400,449]", "ta=true tb=true", &[Domain::Real])),
    ("matmul_dact", case("f[107,64] f[64,96] f[107,96]", "ta=false tb=false by=relu", &[Domain::Real])),
    ("matmul_dact", case("f[400,50] f[449,400] f[50,449]", "ta=true tb=true by=mul", &[Domain::Real])),
    ("matmul_dact", case("f[64,9,40] f[40,70] f[64,9,70]", "ta=false tb=false by=tanh", &[Domain::Real])),
    ("matmul_dact", case("f[0,4] f[4,5] f[0,5]", "ta=false tb=false by=tanh", &[Domain::Real])),
    ("matmul_dact", case("f[3,0] f[0,5] f[3,5]", "ta=false tb=false by=relu", &[Domain::Real])),
    ("layer_norm_backward", case("f[0,4] f[0,4] f[4] f[0] f[0]", "", &[Domain::Real])),
    ("layer_norm_backward", case("f[700,9] f[700,9] f[9] f[700] f[700]", "", &[Domain::Unit])),
    // Units of whole samples; units of columns.
    ("group_norm_backward", case("f[70,6,9] f[70,6,9] f[6] f[70,3] f[70,3]", "", &[Domain::Unit])),
    ("group_norm_backward", case("f[300,6] f[300,6] f[6] f[300,3] f[300,3]", "", &[Domain::Unit])),
    ("group_norm_backward", case("f[1,5,1,1] f[1,5,1,1] f[5] f[1,5] f[1,5]", "", &[Domain::Unit])),
    ("batch_norm_backward", case("f[70,301] f[70,301] f[301] f[301] f[301]", "", &[Domain::Unit])),
    ("batch_norm_backward", case("f[33,3,67] f[33,3,67] f[3] f[3] f[3]", "", &[Domain::Unit])),
    ("batch_norm_backward", case("f[2,3,0] f[2,3,0] f[3] f[3] f[3]", "", &[Domain::Real])),
    (
        "conv2d_weight_grad",
        case(
            "f[0,2,4,4] f[0,3,3,3]",
            "kernel=[2,2] stride=[1,1] pad=[0,0,0,0] dilation=[1,1] groups=1",
            &[Domain::Real],
        ),
    ),
    (
        "conv2d_weight_grad",
        case(
            "f[40,2,9,9] f[40,3,8,8]",
            "kernel=[2,2] stride=[1,1] pad=[0,0,0,0] dilation=[1,1] groups=1",
            &[Domain::Unit],
        ),
    ),
    ("max_pool2d_backward", case("f[1,1,9,9] i32[1,1,9,9]", "in_hw=[2,30]", &[Domain::Real, Domain::Index(60)])),
    ("max_pool2d_gather", case("f[3,2,2,30] i32[3,2,9,9]", "", &[Domain::Real, Domain::Index(60)])),
];
