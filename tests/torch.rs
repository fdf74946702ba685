//! Against torch: what it printed for given weights and batches, kept under `tests/torch/` with the scripts that made it.

#![allow(clippy::unwrap_used, clippy::panic)]

use arenagrad::nodes::{Builder, DType, GraphBuf, Init};
use arenagrad::passes::optimiser::{Optimiser, Rule, train};
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

/// The optimisers of `tests/torch/optimisers.py`, by the names that it uses.
fn variants() -> Vec<(&'static str, Optimiser)> {
    let sgd = |momentum, dampening, nesterov, weight_decay| Optimiser {
        rule: Rule::Sgd { momentum, dampening, nesterov, weight_decay },
        ..Optimiser::sgd(LR)
    };
    let adam = |betas, eps, weight_decay, decoupled| Optimiser {
        rule: Rule::Adam { betas, eps, weight_decay, decoupled },
        ..Optimiser::sgd(LR)
    };
    vec![
        ("sgd", Optimiser::sgd(LR)),
        ("sgd_decay", sgd(0.0, 0.0, false, 0.1)),
        ("sgd_momentum", Optimiser::momentum(LR, 0.9)),
        ("sgd_dampening", sgd(0.8, 0.3, false, 0.05)),
        ("sgd_nesterov", sgd(0.9, 0.0, true, 0.01)),
        ("adam", Optimiser::adam(LR)),
        ("adam_decay", adam((0.8, 0.95), 1e-6, 0.1, false)),
        ("adamw", Optimiser::adamw(LR)),
        ("adamw_decay", adam((0.7, 0.9), 1e-5, 0.3, true)),
        ("sgd_clipped", Optimiser::momentum(LR, 0.9).clip_norm(0.5)),
        ("adamw_clipped", Optimiser::adamw(LR).clip_norm(0.5)),
    ]
}

/// A loss whose gradient is what the caller writes.
fn given_gradients(dtype: DType) -> GraphBuf {
    let g = Builder::new("given");
    let mut terms = SHAPES.iter().map(|&(name, dims)| {
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
    let graph = train(given_gradients(T::DTYPE).view(), "loss", optimiser).unwrap();
    let mut p: Program = Session::new().compile(&graph).unwrap();
    p.init(0).unwrap();
    p.input_mut::<T>("lr").unwrap()[0] = T::of(LR);
    for (k, _) in SHAPES {
        let start: Vec<T> =
            f32::read(tensor(&format!("start.{k}")).data()).into_iter().map(|x| T::of(x.into())).collect();
        p.param_mut::<T>(k).unwrap().copy_from_slice(&start);
    }
    let steps = tensor("grad.a").shape()[0];
    let mut far = 0.0f64;
    for step in 0..steps {
        for (k, dims) in SHAPES {
            let n: usize = dims.iter().product();
            let all = f32::read(tensor(&format!("grad.{k}")).data());
            let now: Vec<T> = all[step * n..(step + 1) * n].iter().map(|&x| T::of(x.into())).collect();
            p.input_mut::<T>(&format!("grad.{k}")).unwrap().copy_from_slice(&now);
        }
        p.step().unwrap();
        for (k, dims) in SHAPES {
            let n: usize = dims.iter().product();
            let theirs = T::read(tensor(&format!("{name}.{}.{k}", T::TAG)).data());
            for (x, y) in p.param::<T>(k).unwrap().iter().zip(&theirs[step * n..]) {
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
    for (name, optimiser) in variants() {
        let (single, double) =
            (distance::<f32>(&fixture, name, &optimiser), distance::<f64>(&fixture, name, &optimiser));
        println!("{name:>14}: f32 {single:.1e}, f64 {double:.1e}");
        assert!(single <= f32::NEAR && double <= f64::NEAR, "{name}: f32 {single:e}, f64 {double:e}");
    }
}
