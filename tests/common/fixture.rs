//! What other libraries compute, from files of safetensors that the scripts beside them wrote, in f64.

use super::{How, PLAIN, Tensor, run};
use arenagrad::graph::{Builder, DType, GradOptions, Var, grad};
use safetensors::SafeTensors;
use std::path::Path;

/// Asserts that the numbers differ by at most `tolerance` times the largest of `theirs`, or 1.
pub fn near(what: &str, ours: &[f64], theirs: &[f64], tolerance: f64) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let size = theirs.iter().fold(1.0f64, |m, x| m.max(x.abs()));
    for (i, (a, b)) in ours.iter().zip(theirs).enumerate() {
        // Written so that a NaN fails.
        assert!((a - b).abs() <= tolerance * size, "{what}, element {i}: {a}, not {b}\n{ours:?}\n{theirs:?}");
    }
}

/// The file of a name in `tests/torch`.
pub struct Fixture(Vec<u8>);

impl Fixture {
    /// Reads `tests/torch/NAME.safetensors`.
    pub fn read(name: &str) -> Fixture {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/torch/{name}.safetensors"));
        Fixture(std::fs::read(path).unwrap())
    }

    /// The tensor of this key.
    pub fn get(&self, key: &str) -> Option<Tensor> {
        let fixture = SafeTensors::deserialize(&self.0).unwrap();
        let t = fixture.tensor(key).ok()?;
        let data: Vec<f64> = t.data().as_chunks().0.iter().map(|&b| f64::from_le_bytes(b)).collect();
        Some(Tensor { dtype: DType::F64, dims: t.shape().to_vec(), data })
    }

    /// Checks one case: the result of `f` on the operands `CASE.a` and `CASE.b`, and the gradients of the sum of its
    /// elements times 1, 2, 3 ….
    pub fn agrees(&self, case: &str, tolerance: f64, f: impl for<'g> Fn(&[Var<'g>]) -> Var<'g>) {
        let key = |k: &str| format!("{case}.{k}");
        let given: Vec<(&str, Tensor)> = ["a", "b"].into_iter().filter_map(|k| Some((k, self.get(&key(k))?))).collect();
        let g = Builder::new(case);
        let x: Vec<Var> = given.iter().map(|(k, t)| g.input(k, &t.dims, DType::F64)).collect();
        let y = f(&x);
        let loss = (y * (g.iota(0, [y.numel()], DType::F64) + 1.0).reshape(y.dims())).sum(..);
        let all = g.finish([y.named("y"), loss.named("loss")]).unwrap();
        let wrt: Vec<&str> = given.iter().map(|g| g.0).collect();
        let step = grad(&all, "loss", &GradOptions::wrt(&wrt)).unwrap();
        let inputs: Vec<Tensor> = given.iter().map(|g| g.1.clone()).collect();
        for how in [PLAIN, How { threads: 3, share: true, ..PLAIN }] {
            let (outs, v) = (run(&step, &inputs, how), step.view());
            for (t, &name) in outs.iter().zip(v.output_names).filter(|(_, n)| v.str(**n) != "loss") {
                let key = key(v.str(name));
                let want = self.get(&key).unwrap();
                assert_eq!(t.dims, want.dims, "{key}");
                near(&key, &t.data, &want.data, tolerance);
            }
        }
    }
}
