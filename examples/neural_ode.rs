//! A neural ordinary differential equation: a network is the speed y' = f(y) of a point in the plane, and a solver
//! that chooses its own steps moves the point. The solver is a `while_loop` inside a scan over the times of
//! observation; gradients go back through the steps that were taken (Chen et al., "Neural Ordinary Differential
//! Equations", 2018).
//!
//! The points that it learns from move on spirals, whose positions are known at any time. Run
//! `cargo run --release --example neural_ode`. It prints the path of a point that training never saw beside the exact
//! one, and the error of the solver alone, at two tolerances.

use arenagrad::prelude::*;

/// Points of a batch.
const BATCH: usize = 16;

/// Times of observation, and the time between two of them.
const TIMES: usize = 10;
const INTERVAL: f64 = 0.3;

/// The most steps between two times.
const BOUND: usize = 200;

/// The point that starts at `from`, at time `t`. It turns by 2 radians in a unit of time, and its distance from the
/// centre falls as e^(−t/2).
pub fn exact(from: [f64; 2], t: f64) -> [f64; 2] {
    let ((sin, cos), size) = ((2.0 * t).sin_cos(), (-0.5 * t).exp());
    [size * (cos * from[0] - sin * from[1]), size * (sin * from[0] + cos * from[1])]
}

/// The speed on the spirals: the derivative of [`exact`].
fn exact_speed<'g>(y: Var<'g>) -> Var<'g> {
    y.matmul(y.builder().constant_f64(&[-0.5, 2.0, -2.0, -0.5], [2, 2]))
}

/// A network of two layers as the speed.
fn learnt_speed<'g>(g: &'g Builder) -> impl Fn(Var<'g>) -> Var<'g> {
    let param = |name: &str, dims: &[usize], scale: f64| g.param(name, dims, DType::F64, Init::Normal(scale));
    let (to_hidden, from_hidden) = (param("to_hidden", &[2, 32], 0.7), param("from_hidden", &[32, 2], 0.1));
    let (shift, bias) = (param("shift", &[32], 0.3), param("bias", &[2], 0.0));
    move |y| (y.matmul(to_hidden) + shift).tanh().matmul(from_hidden) + bias
}

/// One step of length `h` by three stages of order 3 (Bogacki and Shampine, 1989), and an estimate of its error.
fn step<'g>(speed: &impl Fn(Var<'g>) -> Var<'g>, y: Var<'g>, h: Var<'g>) -> [Var<'g>; 2] {
    let k1 = speed(y);
    let k2 = speed(y + k1 * h * 0.5);
    let k3 = speed(y + k2 * h * 0.75);
    let next = y + (k1 * 2.0 + k2 * 3.0 + k3 * 4.0) * h / 9.0;
    let off = (k1 * -5.0 + k2 * 6.0 + k3 * 8.0 - speed(next) * 9.0) * h / 72.0;
    [next, off.square().mean(..).sqrt()]
}

/// The points at each time, `[TIMES, BATCH, 2]`, and the steps that were tried before each. A step whose error is above
/// `tolerance` is tried again with a smaller length.
fn paths<'g>(speed: impl Fn(Var<'g>) -> Var<'g>, start: Var<'g>, tolerance: f64) -> [Var<'g>; 2] {
    let (zero, first) = (start.builder().full(0.0, [], DType::F64), start.builder().full(INTERVAL, [], DType::F64));
    let none = start.builder().full(0.0, [TIMES], DType::F64);
    let (_, seen) = start.builder().scan(&[start, first], &[none], |carry, _| {
        let go_on = |c: &[Var<'g>]| c[1].less(INTERVAL * (1.0 - 1e-12));
        let (last, tries) = start.builder().while_loop(&[carry[0], zero, carry[1]], BOUND, go_on, |c| {
            let (y, t, planned) = (c[0], c[1], c[2]);
            let h = planned.minimum(INTERVAL - t);
            let [next, error] = step(&speed, y, h);
            // The lengths of steps are a choice of the solver: no gradient goes through them.
            let size = error.stop_gradient() / tolerance;
            let good = size.less_equal(1.0);
            let better = h * (size.maximum(1e-6).pow(-1.0 / 3.0) * 0.9).clamp(0.2, 5.0);
            // A step that was cut at the end says nothing against the length that was planned.
            let planned = good.bitwise_and(h.less(planned)).select(better.maximum(planned), better);
            vec![good.select(next, y), good.select(t + h, t), planned]
        });
        (vec![last[0], last[2]], vec![last[0], tries])
    });
    [seen[0], seen[1]]
}

/// A graph of paths with this speed, and their mean squared distance from the input `seen`.
fn graph(name: &str, learnt: bool, tolerance: f64) -> Result<GraphBuf> {
    let g = Builder::new(name);
    let start = g.input("start", [BATCH, 2], DType::F64);
    let [path, tries] = match learnt {
        true => paths(learnt_speed(&g), start, tolerance),
        false => paths(exact_speed, start, tolerance),
    };
    let loss = (path - g.input("seen", [TIMES, BATCH, 2], DType::F64)).square().mean(..);
    g.finish([path.named("path"), tries.sum(..).named("tries"), loss.named("loss")])
}

const METHODS: [(&str, bool, f64); 3] = [("show", true, 1e-5), ("coarse", false, 1e-3), ("fine", false, 1e-7)];

/// The program of this example.
pub fn program() -> Result<Program> {
    let learn = train(&graph("learn", true, 1e-3)?, "loss", optim::Adam::new(1e-2))?;
    let rest = METHODS.map(|(name, learnt, tolerance)| graph(name, learnt, tolerance));
    let [show, coarse, fine] = rest;
    Session::new().compile_all(&[("learn", &learn), ("show", &show?), ("coarse", &coarse?), ("fine", &fine?)])
}

/// Starts that training sees, on a grid, or others.
fn starts(seen: bool) -> impl Iterator<Item = [f64; 2]> {
    let by = if seen { 0.0 } else { 0.3 };
    (0..BATCH).map(move |i| [(i % 4) as f64 - 1.5 + by, (i / 4) as f64 - 1.5 - by].map(|x| 0.9 * x))
}

/// What a method computes from starts of [`starts`].
#[derive(Debug)]
pub struct Paths {
    /// The root of the mean square of the distances from the exact paths.
    pub error: f64,
    /// The steps tried.
    pub tries: i64,
    /// The path of the first point.
    pub first: Vec<[f64; 2]>,
}

/// Runs a method, which may be a training step.
fn run(p: &mut Program, name: &str, seen: bool) -> Result<Paths> {
    let method = p.method(name)?;
    let (start, all) = (p.input_of::<f64>(method, "start")?, p.input_of::<f64>(method, "seen")?);
    for (to, from) in p[start].chunks_mut(2).zip(starts(seen)) {
        to.copy_from_slice(&from);
    }
    for (t, row) in p[all].chunks_mut(2 * BATCH).enumerate() {
        for (to, from) in row.chunks_mut(2).zip(starts(seen)) {
            to.copy_from_slice(&exact(from, (t + 1) as f64 * INTERVAL));
        }
    }
    p.run(method)?;
    let path = &p[p.output_of::<f64>(method, "path")?];
    let first = path.chunks(2 * BATCH).map(|row| [row[0], row[1]]).collect();
    let (loss, tries) = (p.output_of::<f64>(method, "loss")?, p.output_of::<i64>(method, "tries")?);
    Ok(Paths { error: p[loss][0].sqrt(), tries: p[tries][0], first })
}

/// Trains for some steps. Returns the paths of unseen points before and after, and those of the exact speed, coarse and
/// fine.
pub fn learn(steps: usize) -> Result<[Paths; 4]> {
    let mut p = program()?;
    p.init(0)?;
    let before = run(&mut p, "show", false)?;
    let lr = p.input_of::<f64>(p.method("learn")?, optim::LR)?;
    for step in 0..steps {
        p[lr][0] = 1e-2 * (1.0 - 0.95 * step as f64 / steps as f64);
        run(&mut p, "learn", true)?;
    }
    let [after, coarse, fine] = ["show", "coarse", "fine"].map(|name| run(&mut p, name, false));
    Ok([before, after?, coarse?, fine?])
}

#[allow(dead_code, reason = "a test includes this file")]
fn main() -> Result<()> {
    let [before, after, coarse, fine] = learn(400)?;
    let from = starts(false).next().unwrap_or_default();
    println!("{:>5} {:>20} {:>20}", "t", "learnt", "exact");
    for (i, y) in after.first.iter().enumerate() {
        let t = (i + 1) as f64 * INTERVAL;
        let [y, exact] = [*y, exact(from, t)].map(|[a, b]| format!("({a:.4}, {b:.4})"));
        println!("{t:>5.1} {y:>20} {exact:>20}");
    }
    println!("error of points that training never saw: {:.4} before, {:.4} after it", before.error, after.error);
    for (tolerance, paths) in [(METHODS[1].2, coarse), (METHODS[2].2, fine)] {
        println!("the exact speed at tolerance {tolerance:.0e}: error {:.1e}, {} steps", paths.error, paths.tries);
    }
    Ok(())
}
