//! A network that solves Burgers' equation, u_t + u·u_x = ν·u_xx for −1 ≤ x ≤ 1 and 0 ≤ t ≤ 1, with u = −sin(πx) at
//! t = 0 and u = 0 at both ends. It sees no solution: its loss is the square of the equation's residual, whose
//! derivatives with respect to x and t, the second one too, are gradients of the network (Raissi, Perdikaris and
//! Karniadakis, "Physics-informed neural networks", 2019).
//!
//! Run it with `cargo run --release --example burgers`. It prints u at t = 1 beside the exact solution, which Cole and
//! Hopf's transform gives as a quotient of two integrals, and the error over the whole domain.

use arenagrad::prelude::*;
use std::f64::consts::PI;

/// ν.
const VISCOSITY: f64 = 0.05;

/// Points where the residual is made small.
const POINTS: usize = 512;

/// Points of a row in x, and rows in t, where the solution is compared.
const GRID: [usize; 2] = [41, 21];

/// x, t and u(x, t), each `[points, 1]`. Start and ends hold whatever the network says.
fn solution(g: &Builder, points: usize) -> [Var<'_>; 3] {
    let [x, t] = ["x", "t"].map(|name| g.input(name, [points, 1], DType::F64));
    let mut h = x.concat(&[t], 1);
    for layer in ["first", "second", "third"] {
        h = nn::linear(g, layer, h, 20).tanh();
    }
    [x, t, t * (1.0 - x * x) * nn::linear(g, "last", h, 1) - (x * PI).sin()]
}

/// A training step on the residual.
fn learn() -> Result<GraphBuf> {
    let g = Builder::new("learn");
    let [_, _, u] = solution(&g, POINTS);
    let graph = g.finish([u.named("u"), u.sum(..).named("sum")])?;
    // Each u depends on its own x and t alone, so the gradient of the sum holds u_x and u_t of each point.
    let graph = graph.grad("sum", &GradOptions::wrt(&["x", "t"]))?.rename("grad.x", "u_x")?;
    let graph = graph.extend(|_, value| vec![value("u_x").sum(..).named("slopes")])?;
    let graph = graph.grad("slopes", &GradOptions::wrt(&["x"]))?;
    let graph = graph.extend(|_, value| {
        let [u, u_x, u_t, u_xx] = ["u", "u_x", "grad.t", "grad.x"].map(value);
        vec![(u_t + u * u_x - u_xx * VISCOSITY).square().mean(..).named("loss")]
    })?;
    train(&graph, "loss", optim::Adam::new(5e-3))
}

/// The program of this example.
pub fn program() -> Result<Program> {
    let g = Builder::new("show");
    let [_, _, u] = solution(&g, GRID[0] * GRID[1]);
    Session::new().compile_all(&[("learn", &learn()?), ("show", &g.finish([u.named("u")])?)])
}

/// u(x, t) by Cole and Hopf: the mean of −sin(π(x − η)) under a weight that falls with η².
pub fn exact(x: f64, t: f64) -> f64 {
    let [mut above, mut below] = [0.0; 2];
    for k in -160..=160 {
        let z = f64::from(k) / 20.0;
        let from = PI * (x - 2.0 * (VISCOSITY * t).sqrt() * z);
        let weight = (-from.cos() / (2.0 * PI * VISCOSITY) - z * z).exp();
        above -= from.sin() * weight;
        below += weight;
    }
    above / below
}

/// x and t of point `i` of the grid.
fn grid_point(i: usize) -> [f64; 2] {
    [(i % GRID[0]) as f64 / 20.0 - 1.0, (i / GRID[0]) as f64 / 20.0]
}

/// The solution on the grid, and its error: the norm of the difference over that of the exact solution.
fn compare(p: &mut Program) -> Result<(Vec<f64>, f64)> {
    let show = p.method("show")?;
    for (k, name) in ["x", "t"].into_iter().enumerate() {
        let at = p.input_of::<f64>(show, name)?;
        p[at].iter_mut().enumerate().for_each(|(i, x)| *x = grid_point(i)[k]);
    }
    p.run(show)?;
    let u = p[p.output_of::<f64>(show, "u")?].to_vec();
    let (mut off, mut size) = (0.0, 0.0);
    for (i, u) in u.iter().enumerate() {
        let [x, t] = grid_point(i);
        off += (u - exact(x, t)).powi(2);
        size += exact(x, t).powi(2);
    }
    Ok((u, (off / size).sqrt()))
}

/// Trains for some steps. Returns the error before, and the solution on the grid and its error after.
pub fn solve(steps: usize) -> Result<(f64, Vec<f64>, f64)> {
    let mut p = program()?;
    p.init(0)?;
    let (_, before) = compare(&mut p)?;
    let learn = p.method("learn")?;
    // Multiples of two irrational numbers fill the domain evenly.
    for (name, step, [low, high]) in
        [("x", 0.754_877_666_246_692_7, [-1.0, 1.0]), ("t", 0.569_840_290_998_053_2, [0.0, 1.0])]
    {
        let at = p.input_of::<f64>(learn, name)?;
        p[at].iter_mut().enumerate().for_each(|(i, x)| *x = low + (high - low) * (i as f64 * step).fract());
    }
    let lr = p.input_of::<f64>(learn, optim::LR)?;
    for step in 0..steps {
        p[lr][0] = 5e-3 * (0.02 + 0.49 * (1.0 + (PI * step as f64 / steps as f64).cos()));
        p.run(learn)?;
    }
    let (u, after) = compare(&mut p)?;
    Ok((before, u, after))
}

#[allow(dead_code, reason = "a test includes this file")]
fn main() -> Result<()> {
    let (before, u, after) = solve(2000)?;
    println!("{:>6} {:>10} {:>10}", "x", "u(x, 1)", "exact");
    for i in (0..GRID[0]).step_by(4) {
        let at = (GRID[1] - 1) * GRID[0] + i;
        println!("{:>6.1} {:>10.5} {:>10.5}", grid_point(at)[0], u[at], exact(grid_point(at)[0], 1.0));
    }
    println!("error over the domain: {before:.3} before training, {after:.5} after it");
    Ok(())
}
