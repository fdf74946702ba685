//! A training in Rust, which a test compares with the same one in Python.

use crate::error::call;
use arenagrad::prelude::*;
use pyo3::prelude::*;

/// Trains the network of `tests/conftest.py` for some steps. The bytes of its params, by name.
#[pyfunction]
pub fn _twin(steps: usize) -> PyResult<Vec<(String, Vec<u8>)>> {
    call(|| {
        let g = Builder::new("mlp");
        let (x, y) = (g.input("x", [8, 4], DType::F32), g.input("y", [8], DType::I32));
        let h = nn::linear(&g, "fc1", x, 16).tanh();
        let loss = nn::linear(&g, "fc2", h, 3).cross_entropy(y).named("loss");
        let step = train(&g.finish([loss])?, "loss", optim::AdamW::new(1e-2).clip_norm(1.0))?;
        let mut p = Session::new().compile(&step)?;
        p.init(0)?;
        for i in 0..steps {
            for (k, x) in p.values_mut::<f32>("x")?.iter_mut().enumerate() {
                *x = ((i * 37 + k * 11) % 100) as f32 / 50.0 - 1.0;
            }
            p.values_mut::<i32>("y")?.iter_mut().enumerate().for_each(|(k, y)| *y = ((i + k) % 3) as i32);
            p.step()?;
        }
        let params = p.persistent().filter(|(b, _)| b.is_weight());
        Ok(params.map(|(b, bytes)| (b.name.clone(), bytes.to_vec())).collect())
    })
}
