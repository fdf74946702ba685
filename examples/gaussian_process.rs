//! The hyperparameters of a Gaussian process, found by the gradient of the marginal likelihood through a Cholesky
//! factor. The data are drawn from a process whose hyperparameters are known.
//!
//! Run it with `cargo run --release --example gaussian_process`. It prints the gradient at the start beside
//! differences, and for each hyperparameter the known number, the one that was found, and its standard error, which is
//! the root of the diagonal of the inverse of the second derivatives.

use arenagrad::prelude::*;
use std::f64::consts::TAU;

/// Points, at equal distances.
const POINTS: usize = 160;

/// The length scale, the size of the signal and that of the noise.
const NAMES: [&str; 3] = ["length", "signal", "noise"];

/// Their logarithms in the process that the data come from.
pub const KNOWN: [f64; 3] = [-0.4, 0.3, -1.2];

/// The lower Cholesky factor of the covariance: signal²·exp(−(x − x')²/(2·length²)), and noise² on the diagonal. `log`
/// holds the logarithms of the hyperparameters.
fn covariance_factor<'g>(g: &'g Builder, log: Var<'g>) -> Var<'g> {
    let x = g.iota(0, [POINTS], DType::F64) * 0.1;
    let apart = x.unsqueeze(1) - x;
    let [length, signal, noise] = [0, 1, 2].map(|i| (log.narrow(0, i, 1) * 2.0).exp());
    let alike = (apart.square() * -0.5 / length).exp() * signal;
    let noise = (g.full(1.0, [POINTS], DType::F64) * noise).diag_embed(0, -2, -1);
    (alike + noise).cholesky()
}

/// −log p(y) for the param `log`.
fn likelihood() -> Result<GraphBuf> {
    let g = Builder::new("likelihood");
    let y = g.input("y", [POINTS, 1], DType::F64);
    let factor = covariance_factor(&g, g.param("log", [3], DType::F64, Init::Zeros));
    let fit = (factor.cholesky_solve(y) * y).sum(..) * 0.5;
    let volume = factor.diagonal(0, -2, -1).log().sum(..);
    g.finish([(fit + volume + 0.5 * POINTS as f64 * TAU.ln()).named("loss")])
}

/// The program of this example.
pub fn program() -> Result<Program> {
    let loss = likelihood()?;
    let learn = train(&loss, "loss", optim::Adam::new(0.05))?;
    let slope = loss.grad("loss", &GradOptions::wrt(&["log"]))?;
    let errors = slope.jacobian("grad.log", "log")?.extend(|_, value| {
        let variances = value("jacobian.log").reshape([3, 3]).inverse().diagonal(0, -2, -1);
        vec![variances.sqrt().named("errors")]
    })?;
    let g = Builder::new("draw");
    let draw = covariance_factor(&g, g.constant_f64(&KNOWN, [3])).matmul(g.normal([POINTS, 1], DType::F64));
    let draw = g.finish([draw.named("y")])?;
    Session::new().compile_all(&[("draw", &draw), ("learn", &learn), ("slope", &slope), ("errors", &errors)])
}

/// What was found.
pub struct Fit {
    /// The gradient at the start, and differences of the loss.
    pub gradient: [[f64; 3]; 2],
    /// The loss for the known hyperparameters, and for those found.
    pub loss: [f64; 2],
    /// The logarithms of the hyperparameters.
    pub found: [f64; 3],
    /// Their standard errors.
    pub errors: [f64; 3],
}

/// The loss and its gradient for these hyperparameters.
fn loss_at(p: &mut Program, log: [f64; 3], y: &[f64]) -> Result<(f64, [f64; 3])> {
    let slope = p.method("slope")?;
    p.values_mut::<f64>("log")?.copy_from_slice(&log);
    let at = p.input_of::<f64>(slope, "y")?;
    p[at].copy_from_slice(y);
    p.run(slope)?;
    let gradient = &p[p.output_of::<f64>(slope, "grad.log")?];
    Ok((p[p.output_of::<f64>(slope, "loss")?][0], [gradient[0], gradient[1], gradient[2]]))
}

/// Draws data, and steps from length scale, signal and noise of 1.
pub fn fit(steps: usize) -> Result<Fit> {
    let mut p = program()?;
    p.init(4)?;
    let draw = p.method("draw")?;
    p.run(draw)?;
    let y = p[p.output_of::<f64>(draw, "y")?].to_vec();

    let (_, gradient) = loss_at(&mut p, [0.0; 3], &y)?;
    let (mut differences, step) = ([0.0; 3], 1e-5);
    for (i, difference) in differences.iter_mut().enumerate() {
        let mut shifted = |by: f64| loss_at(&mut p, [0, 1, 2].map(|k| if k == i { by } else { 0.0 }), &y);
        *difference = (shifted(step)?.0 - shifted(-step)?.0) / (2.0 * step);
    }
    let (known, _) = loss_at(&mut p, KNOWN, &y)?;

    p.values_mut::<f64>("log")?.fill(0.0);
    let learn = p.method("learn")?;
    let at = p.input_of::<f64>(learn, "y")?;
    p[at].copy_from_slice(&y);
    (0..steps).try_for_each(|_| p.run(learn))?;
    let last = p.method("errors")?;
    let at = p.input_of::<f64>(last, "y")?;
    p[at].copy_from_slice(&y);
    p.run(last)?;
    let log = p.values::<f64>("log")?;
    let found = [log[0], log[1], log[2]];
    let of = &p[p.output_of::<f64>(last, "errors")?];
    let errors = [of[0], of[1], of[2]];
    let best = p[p.output_of::<f64>(last, "loss")?][0];
    Ok(Fit { gradient: [gradient, differences], loss: [known, best], found, errors })
}

#[allow(dead_code, reason = "a test includes this file")]
fn main() -> Result<()> {
    let fit = fit(300)?;
    println!(
        "{:>8} {:>14} {:>14}   {:>8} {:>8} {:>15}",
        "log of", "gradient", "difference", "known", "found", "standard error"
    );
    for (i, name) in NAMES.iter().enumerate() {
        let [gradient, difference] = fit.gradient.map(|g| g[i]);
        let (known, found, error) = (KNOWN[i], fit.found[i], fit.errors[i]);
        println!("{name:>8} {gradient:>14.7} {difference:>14.7}   {known:>8.3} {found:>8.3} {error:>15.3}");
    }
    let [known, found] = fit.loss;
    println!("−log p(y): {known:.4} for the known hyperparameters, {found:.4} for those found");
    Ok(())
}
