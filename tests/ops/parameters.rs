//! Numbers that say how an op computes: what is no number, or out of range, is refused by name.

use arenagrad::graph::{Builder, DType, Reduction, Var};
use arenagrad::nn;
use arenagrad::op::{Attr, Case, Kind, OpDef};
use arenagrad::tools::ir::text;
use arenagrad::tools::ops::table::OPS;
use arenagrad::tools::testing::add_case_region;

/// The error of the first case of `def` with attribute `i` as `x`; `None` if the op takes it.
fn refusal(def: &'static OpDef, case: &Case, i: usize, x: f64) -> Option<String> {
    let g = Builder::new("case");
    let types = g.with(|e| text::parse_types(case.args, DType::F32, e)).unwrap();
    let inputs: Vec<Var<'_>> = types
        .iter()
        .enumerate()
        .map(|(i, ty)| {
            let dims = g.with(|e| e.shapes.dims(ty.shape));
            g.input(&format!("x{i}"), dims, ty.dtype)
        })
        .collect();
    g.with(|e| add_case_region(e, case, &types));
    let owned = g.with(|e| text::parse_attrs(def.attrs, case.attrs, e)).unwrap();
    let mut attrs: Vec<Attr<'_>> = owned.iter().map(|a| a.as_attr()).collect();
    attrs[i] = Attr::F64(x);
    g.custom(def, &inputs, &attrs);
    g.error().map(|e| e.to_string())
}

/// Attributes that may be any number, NaN among them, as torch takes them.
const ANY: &[(&str, &[&str])] = &[
    ("full", &["value"]),
    ("pad", &["value"]),
    ("leaky_relu", &["slope"]),
    ("elu", &["alpha"]),
    ("fft", &["scale"]),
    ("rfft", &["scale"]),
    ("irfft", &["scale"]),
    // The optimiser has checked these.
    ("sgd_momentum", &["dampening"]),
    ("matmul_sgd_momentum", &["dampening"]),
    ("adam", &["eps"]),
    ("matmul_adam", &["eps"]),
    // Passes compute these.
    ("cross_entropy_gradient", &["weight"]),
    ("squared_error_gradient", &["weight"]),
];

#[test]
fn an_attribute_that_is_no_number_is_refused_by_name() {
    let mut taken = Vec::new();
    for def in OPS {
        let Some(case) = def.cases.first() else { continue };
        for (i, f) in def.attrs.iter().enumerate().filter(|(_, f)| f.kind == Kind::F64) {
            match refusal(def, case, i, f64::NAN) {
                Some(e) => {
                    assert!(e.starts_with(&format!("{}(", def.name)) && e.contains(f.name), "{e}")
                }
                None => taken.push((def.name, f.name)),
            }
        }
    }
    let there = |op: &str| cfg!(feature = "signal") || !op.ends_with("fft");
    let any: Vec<_> =
        ANY.iter().filter(|(op, _)| there(op)).flat_map(|(op, all)| all.iter().map(move |name| (*op, *name))).collect();
    let strange: Vec<_> = taken.iter().filter(|t| !any.contains(t)).collect();
    assert!(strange.is_empty() && taken.len() == any.len(), "{strange:?} {taken:?}");
}

#[test]
fn what_torch_refuses_is_refused() {
    type Use = for<'g> fn(&'g Builder, Var<'g>) -> Var<'g>;
    let all: &[(&str, Use)] = &[
        ("celu", |_, x| x.celu(0.0)),
        ("celu", |_, x| x.celu(f64::NAN)),
        ("softshrink", |_, x| x.softshrink(-0.5)),
        ("softshrink", |_, x| x.softshrink(f64::NAN)),
        ("hardshrink", |_, x| x.hardshrink(f64::NAN)),
        ("clamp", |_, x| x.clamp(f64::NAN, 1.0)),
        ("dropout", |_, x| nn::dropout(x, -0.1)),
        ("dropout", |_, x| nn::dropout(x, 1.1)),
        ("dropout", |_, x| nn::dropout(x, f64::NAN)),
        ("bernoulli", |g, _| g.bernoulli([3], -0.1)),
        ("bernoulli", |g, _| g.bernoulli([3], f64::NAN)),
        ("truncated_normal", |g, _| g.truncated_normal([3], DType::F32, 1.0, -1.0)),
        ("truncated_normal", |g, _| g.truncated_normal([3], DType::F32, f64::NAN, 1.0)),
        ("norm", |_, x| x.norm(f64::NAN, ..)),
        ("huber_loss", |_, x| nn::huber_loss(x, x * 2.0, 0.0, Reduction::Mean)),
        ("huber_loss", |_, x| nn::huber_loss(x, x * 2.0, -1.0, Reduction::Mean)),
        ("huber_loss", |_, x| nn::huber_loss(x, x * 2.0, f64::NAN, Reduction::Mean)),
        ("smooth_l1_loss", |_, x| nn::smooth_l1_loss(x, x * 2.0, -1.0, Reduction::Mean)),
        ("smooth_l1_loss", |_, x| nn::smooth_l1_loss(x, x * 2.0, f64::NAN, Reduction::Mean)),
        ("local_response_norm", |_, x| x.reshape([1, 4, 1]).local_response_norm(0, 1e-4, 0.75, 1.0)),
        ("histogram", |_, x| x.histogram(4, 1.0, -1.0)),
        ("histogram", |_, x| x.histogram(4, f64::NAN, 1.0)),
        ("histogram", |_, x| x.histogram(0, 0.0, 1.0)),
        ("layer_norm", |g, x| nn::layer_norm(g, "n", x, -1e-5)),
        ("rms_norm", |g, x| nn::rms_norm(g, "n", x, f64::NAN)),
        ("group_norm", |g, x| nn::group_norm(g, "n", x.reshape([1, 4, 1]), 3, 1e-5)),
        ("group_norm", |g, x| nn::group_norm(g, "n", x.reshape([1, 4, 1]), 0, 1e-5)),
        ("uniform", |g, _| g.param("w", [2], DType::F32, nn::init::uniform(1.0, -1.0))),
        ("uniform", |g, _| g.param("w", [2], DType::F32, nn::init::uniform(f64::NAN, 1.0))),
        ("param", |g, _| g.param("w", [2], DType::F32, nn::init::normal(0.0, -1.0))),
        ("param", |g, _| g.param("w", [2], DType::F32, nn::init::normal(0.0, f64::NAN))),
        ("trunc_normal", |g, _| g.param("w", [2], DType::F32, nn::init::trunc_normal(0.0, 1.0, 2.0, -2.0))),
    ];
    let mut taken = Vec::new();
    for (i, (what, f)) in all.iter().enumerate() {
        let g = Builder::new("bad");
        f(&g, g.input("x", [4], DType::F32));
        match g.error() {
            Some(e) => assert!(e.to_string().contains(what) || e.to_string().contains("start values"), "{what}: {e}"),
            None => taken.push((i, what)),
        }
    }
    assert!(taken.is_empty(), "{taken:?}");
}
