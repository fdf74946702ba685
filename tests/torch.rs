//! Against torch: what it printed for given weights and batches, kept under `tests/torch/` with the scripts that made
//! it.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::graph::{Builder, DType, GraphBuf, Init};
use arenagrad::optim::{self, EMA, Group, MuonScale, Optimiser, Rule, train};
use arenagrad::session::{Elem, Program, Session};
use safetensors::SafeTensors;
use std::path::Path;

const LR: f64 = 0.05;
const SHAPES: [(&str, &[usize]); 2] = [("a", &[23]), ("b", &[5, 3])];

/// A number type of the comparison, and how far ours may be from torch's, relative to 1.
trait Num: Elem {
    const DTYPE: DType;
    const TAG: &'static str;
    const NEAR: f64;
    fn of(x: f64) -> Self;
    fn wide(self) -> f64;
    fn read(bytes: &[u8]) -> Vec<Self>;
}

impl Num for f32 {
    const DTYPE: DType = DType::F32;
    const TAG: &'static str = "f32";
    // Two ulp.
    const NEAR: f64 = 2.4e-7;
    fn of(x: f64) -> f32 {
        x as f32
    }
    fn wide(self) -> f64 {
        self.into()
    }
    fn read(bytes: &[u8]) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect()
    }
}

impl Num for f64 {
    const DTYPE: DType = DType::F64;
    const TAG: &'static str = "f64";
    const NEAR: f64 = 1e-15;
    fn of(x: f64) -> f64 {
        x
    }
    fn wide(self) -> f64 {
        self
    }
    fn read(bytes: &[u8]) -> Vec<f64> {
        bytes.as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect()
    }
}

/// SGD and Adam, by the names that `tests/torch/optimisers.py` uses.
fn first_rules() -> Vec<(&'static str, Optimiser)> {
    let sgd = |momentum, dampening, nesterov, weight_decay| {
        Optimiser::new(Rule::Sgd { momentum, dampening, nesterov, weight_decay }, LR)
    };
    let adam =
        |betas, eps, weight_decay, decoupled| Optimiser::new(Rule::Adam { betas, eps, weight_decay, decoupled }, LR);
    vec![
        ("sgd", optim::Sgd::new(LR)),
        ("sgd_decay", sgd(0.0, 0.0, false, 0.1)),
        ("sgd_momentum", optim::Sgd::new(LR).momentum(0.9)),
        ("sgd_dampening", sgd(0.8, 0.3, false, 0.05)),
        ("sgd_nesterov", sgd(0.9, 0.0, true, 0.01)),
        ("adam", optim::Adam::new(LR)),
        ("adam_decay", adam((0.8, 0.95), 1e-6, 0.1, false)),
        ("adamw", optim::AdamW::new(LR)),
        ("adamw_decay", adam((0.7, 0.9), 1e-5, 0.3, true)),
        ("sgd_clipped", optim::Sgd::new(LR).momentum(0.9).clip_norm(0.5)),
        ("adamw_clipped", optim::AdamW::new(LR).clip_norm(0.5)),
    ]
}

/// The other element-wise rules.
fn element_wise() -> Vec<(&'static str, Rule)> {
    let rmsprop =
        |alpha, eps, momentum, centered, weight_decay| Rule::RmsProp { alpha, eps, momentum, centered, weight_decay };
    let nadam = |betas, momentum_decay, weight_decay, decoupled| Rule::NAdam {
        betas,
        eps: 1e-8,
        momentum_decay,
        weight_decay,
        decoupled,
    };
    let adagrad = Rule::Adagrad { lr_decay: 0.1, initial_accumulator_value: 0.2, eps: 1e-6, weight_decay: 0.1 };
    vec![
        ("rmsprop", Rule::RMSPROP),
        ("rmsprop_momentum", rmsprop(0.9, 1e-6, 0.8, false, 0.1)),
        ("rmsprop_centered", rmsprop(0.95, 1e-3, 0.0, true, 0.0)),
        ("rmsprop_all", rmsprop(0.4, 1e-3, 0.5, true, 0.0)),
        ("adagrad", Rule::ADAGRAD),
        ("adagrad_all", adagrad),
        ("adadelta", Rule::ADADELTA),
        ("adadelta_all", Rule::Adadelta { rho: 0.7, eps: 1e-3, weight_decay: 0.1 }),
        ("nadam", Rule::NADAM),
        ("nadam_decay", nadam((0.8, 0.95), 0.02, 0.1, false)),
        ("nadamw", nadam((0.9, 0.999), 4e-3, 0.2, true)),
        ("lion", Rule::LION),
        ("lion_decay", Rule::Lion { betas: (0.8, 0.95), weight_decay: 0.3 }),
    ]
}

/// The rules that look at a param as a whole.
fn whole() -> Vec<(&'static str, Optimiser)> {
    let adafactor = Rule::Adafactor { beta2_decay: -0.5, eps: (Some(1e-4), 1e-2), d: 2.0, weight_decay: 0.1 };
    let muon = Rule::Muon {
        momentum: 0.4,
        nesterov: false,
        ns_coefficients: (3.4445, -4.7750, 2.0315),
        ns_steps: 3,
        eps: 1e-7,
        weight_decay: 0.3,
        scale: MuonScale::MatchRmsAdamw,
    };
    let adamw = Group { rule: Some(optim::AdamW::new(LR).rule), ..Group::default() };
    let mixed = |rule| Optimiser::new(rule, LR).group("a", adamw);
    vec![
        ("lamb", Optimiser::new(Rule::LAMB, LR)),
        ("lamb_plain", Optimiser::new(Rule::Lamb { betas: (0.8, 0.95), eps: 1e-3, weight_decay: 0.0 }, LR)),
        ("adafactor", Optimiser::new(Rule::ADAFACTOR, LR)),
        ("adafactor_all", Optimiser::new(adafactor, LR)),
        ("adafactor_rank3", Optimiser::new(Rule::ADAFACTOR.with_weight_decay(0.2), LR)),
        ("muon", mixed(Rule::MUON)),
        ("muon_all", mixed(muon)),
        ("muon_bf16", mixed(Rule::MUON)),
    ]
}

/// Params with settings of their own, and averages of params.
fn surroundings() -> Vec<(&'static str, Optimiser)> {
    let adamw = Rule::Adam { betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.1, decoupled: true };
    let slow = Group { lr_scale: 0.5, weight_decay: Some(0.0), ..Group::default() };
    let nadam = |betas| Rule::NAdam { betas, eps: 1e-8, momentum_decay: 4e-3, weight_decay: 0.0, decoupled: false };
    let own = Group { rule: Some(nadam((0.8, 0.9))), ..Group::default() };
    let fast = Group { lr_scale: 2.0, weight_decay: Some(0.1), ..Group::default() };
    vec![
        // Only the first group that matches counts.
        ("groups", Optimiser::new(adamw, LR).group("a*", slow).group("*", Group::default())),
        ("groups_nadam", Optimiser::new(Rule::NADAM, LR).group("a", own).group("b", fast)),
        ("ema", optim::AdamW::new(LR).ema(0.9)),
    ]
}

/// How far f32 may be from torch's, where it is not [`Num::NEAR`], and f64: with the reason.
const LOOSER: &[(&str, f64, f64)] = &[
    // torch rounds the matrix to bf16 (8 bits), ours does not; the step is 0.05 and there are 8.
    ("muon_bf16", 8e-3, 8e-3),
    // v − ḡ² cancels: what its halves lost by rounding weighs more under the root.
    ("rmsprop_all", 3e-7, 1e-15),
];

/// The optimisers of `tests/torch/optimisers.py`, by the names that it uses.
fn variants() -> Vec<(&'static str, Optimiser)> {
    let plain = element_wise().into_iter().map(|(name, rule)| (name, Optimiser::new(rule, LR)));
    first_rules().into_iter().chain(plain).chain(whole()).chain(surroundings()).collect()
}

/// The shapes of a variant's params.
fn shapes(variant: &str) -> [(&'static str, &'static [usize]); 2] {
    match variant {
        "adafactor_rank3" => [SHAPES[0], ("b", &[5, 3, 1])],
        _ => SHAPES,
    }
}

/// A loss whose gradient is what the caller writes.
fn given_gradients(variant: &str, dtype: DType) -> GraphBuf {
    let g = Builder::new("given");
    let mut terms = shapes(variant).into_iter().map(|(name, dims)| {
        let p = g.param(name, dims, dtype, Init::Zeros);
        (p * g.input(&format!("grad.{name}"), dims, dtype)).sum(..)
    });
    let loss = terms.next().unwrap() + terms.next().unwrap();
    drop(terms);
    g.finish([loss.named("loss")]).unwrap()
}

/// The largest distance of one variant's path from torch's, relative to the larger of 1 and the value.
fn distance<T: Num>(fixture: &SafeTensors<'_>, name: &str, optimiser: &Optimiser) -> f64 {
    let tensor = |key: &str| fixture.tensor(key).unwrap();
    let graph = train(given_gradients(name, T::DTYPE).view(), "loss", optimiser).unwrap();
    let mut p: Program = Session::new().compile(&graph).unwrap();
    p.init(0).unwrap();
    p.values_mut::<T>("lr").unwrap()[0] = T::of(LR);
    for (k, _) in SHAPES {
        let start: Vec<T> =
            f32::read(tensor(&format!("start.{k}")).data()).into_iter().map(|x| T::of(x.into())).collect();
        p.values_mut::<T>(k).unwrap().copy_from_slice(&start);
    }
    let steps = tensor("grad.a").shape()[0];
    let mut far = 0.0f64;
    for step in 0..steps {
        for (k, dims) in SHAPES {
            let n: usize = dims.iter().product();
            let all = f32::read(tensor(&format!("grad.{k}")).data());
            let now: Vec<T> = all[step * n..(step + 1) * n].iter().map(|&x| T::of(x.into())).collect();
            p.values_mut::<T>(&format!("grad.{k}")).unwrap().copy_from_slice(&now);
        }
        p.step().unwrap();
        for (k, dims) in SHAPES {
            let n: usize = dims.iter().product();
            let theirs = T::read(tensor(&format!("{name}.{}.{k}", T::TAG)).data());
            let ours = match optimiser.ema {
                Some(_) => p.values::<T>(&format!("{EMA}{k}")),
                None => p.values::<T>(k),
            };
            for (x, y) in ours.unwrap().iter().zip(&theirs[step * n..]) {
                far = far.max((x.wide() - y.wide()).abs() / y.wide().abs().max(1.0));
            }
        }
    }
    far
}

#[test]
fn optimisers_step_as_torch_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/optimisers.safetensors");
    let bytes = std::fs::read(path).unwrap();
    let fixture = SafeTensors::deserialize(&bytes).unwrap();
    let mut bad = Vec::new();
    for (name, optimiser) in variants() {
        let (single, double) =
            (distance::<f32>(&fixture, name, &optimiser), distance::<f64>(&fixture, name, &optimiser));
        println!("{name:>16}: f32 {single:.1e}, f64 {double:.1e}");
        let known = LOOSER.iter().find(|l| l.0 == name);
        let (near, close) = known.map_or((f32::NEAR, f64::NEAR), |l| (l.1, l.2));
        // Written so that a NaN fails.
        if !(single <= near && double <= close) {
            bad.push(format!("{name}: f32 {single:e}, f64 {double:e}"));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
