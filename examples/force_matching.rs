//! A pair potential learnt from energies and forces of small clusters, as interatomic potentials are fitted. A force is
//! a gradient of the energy, so the gradient of the loss with respect to the params needs second derivatives of the
//! network.
//!
//! The data come from a known potential (Morse), so the learnt one can be compared: run
//! `cargo run --release --example force_matching`. It prints the error of forces and energies of clusters that training
//! never saw, and both potentials at some distances.

use arenagrad::prelude::*;

/// Clusters of a batch.
const BATCH: usize = 48;

/// Atoms of a cluster: the corners of a cube, moved.
const ATOMS: usize = 8;

const PAIRS: usize = ATOMS * (ATOMS - 1) / 2;

/// The potential of a pair at distance `r`, and its derivative.
pub fn morse(r: f64) -> [f64; 2] {
    let (steep, rest) = (2.0, 1.2);
    let e = (-steep * (r - rest)).exp();
    [(1.0 - e) * (1.0 - e) - 1.0, 2.0 * steep * (1.0 - e) * e]
}

/// The learnt potential of pairs at distances `r`, `[n, 1]`.
fn learnt<'g>(g: &'g Builder, r: Var<'g>) -> Var<'g> {
    let h = nn::linear(g, "first", r * 2.0 - 3.6, 24).tanh();
    let h = nn::linear(g, "second", h, 24).tanh();
    nn::linear(g, "last", h, 1)
}

/// The energies of a batch of clusters, and the gradient of their sum with respect to the positions.
fn energies() -> Result<GraphBuf> {
    let g = Builder::new("energies");
    let at = g.input("positions", [BATCH, ATOMS, 3], DType::F64);
    let between = |i: usize| at.narrow(1, i + 1, ATOMS - 1 - i) - at.narrow(1, i, 1);
    let rest: Vec<Var> = (1..ATOMS - 1).map(between).collect();
    let r = between(0).concat(&rest, 1).square().sum([2]).sqrt();
    let energy = learnt(&g, r.reshape([BATCH * PAIRS, 1])).reshape([BATCH, PAIRS]).sum([1]);
    let graph = g.finish([energy.named("energy"), energy.sum(..).named("sum")])?;
    graph.grad("sum", &GradOptions::wrt(&["positions"]))
}

/// The program of this example.
pub fn program() -> Result<Program> {
    let show = energies()?;
    let graph = show.extend(|g, value| {
        let energy = g.input("true_energy", [BATCH], DType::F64);
        let force = g.input("true_force", [BATCH, ATOMS, 3], DType::F64);
        let (of_energy, of_force) = ((value("energy") - energy) / ATOMS as f64, -value("grad.positions") - force);
        vec![(of_energy.square().mean(..) + of_force.square().mean(..)).named("loss")]
    })?;
    let learn = train(&graph, "loss", optim::Adam::new(1e-2))?;
    let g = Builder::new("pair");
    let pair = learnt(&g, g.input("r", [1, 1], DType::F64));
    let pair = g.finish([pair.named("potential")])?;
    Session::new().compile_all(&[("learn", &learn), ("show", &show), ("pair", &pair)])
}

/// Positions of clusters, and their energies and forces under the known potential.
struct Clusters {
    positions: Vec<f64>,
    energies: Vec<f64>,
    forces: Vec<f64>,
}

/// Draws clusters; `seed` is the state of the generator of numbers.
fn draw_clusters(seed: &mut u32) -> Clusters {
    let mut next = || {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(*seed >> 8) / f64::from(1 << 24)
    };
    let corner = |i: usize, axis: usize| 1.2 * (((i % ATOMS) >> axis) & 1) as f64;
    let moved = (0..BATCH * ATOMS * 3).map(|k| corner(k / 3, k % 3) + 0.4 * (next() - 0.5));
    let positions: Vec<f64> = moved.collect();
    let (mut energies, mut forces) = (vec![0.0; BATCH], vec![0.0; positions.len()]);
    for (b, energy) in energies.iter_mut().enumerate() {
        for (i, j) in (0..ATOMS).flat_map(|i| (i + 1..ATOMS).map(move |j| (i, j))) {
            let [i, j] = [i, j].map(|k| 3 * (b * ATOMS + k));
            let d = [0, 1, 2].map(|axis| positions[j + axis] - positions[i + axis]);
            let r = d.iter().map(|d| d * d).sum::<f64>().sqrt();
            let [potential, slope] = morse(r);
            *energy += potential;
            for (axis, d) in d.iter().enumerate() {
                forces[i + axis] += slope * d / r;
                forces[j + axis] -= slope * d / r;
            }
        }
    }
    Clusters { positions, energies, forces }
}

/// The root of the mean square of the differences.
fn distance(a: &[f64], b: impl Iterator<Item = f64>) -> f64 {
    (a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / a.len() as f64).sqrt()
}

/// What training reached.
pub struct Fit {
    /// Root mean squares of the error of a force's component: before training and after it, and of the component.
    pub force: [f64; 3],
    /// The same for the energy of an atom.
    pub energy: [f64; 2],
    /// Distances and the learnt potential.
    pub potential: Vec<[f64; 2]>,
}

/// Errors of forces and of energies.
fn errors(p: &mut Program, clusters: &Clusters) -> Result<[f64; 2]> {
    let show = p.method("show")?;
    let at = p.input_of::<f64>(show, "positions")?;
    p[at].copy_from_slice(&clusters.positions);
    p.run(show)?;
    let slopes = &p[p.output_of::<f64>(show, "grad.positions")?];
    let energies = &p[p.output_of::<f64>(show, "energy")?];
    let of_energy = distance(&clusters.energies, energies.iter().copied()) / ATOMS as f64;
    Ok([distance(&clusters.forces, slopes.iter().map(|x| -x)), of_energy])
}

/// Trains for some steps.
pub fn fit(steps: usize) -> Result<Fit> {
    let (mut p, mut seed) = (program()?, 1);
    p.init(0)?;
    let unseen = draw_clusters(&mut seed);
    let before = errors(&mut p, &unseen)?;
    let learn = p.method("learn")?;
    let [positions, energy, force] = ["positions", "true_energy", "true_force"].map(|n| p.input_of::<f64>(learn, n));
    let (positions, energy, force, lr) = (positions?, energy?, force?, p.input_of::<f64>(learn, optim::LR)?);
    for step in 0..steps {
        let clusters = draw_clusters(&mut seed);
        p[positions].copy_from_slice(&clusters.positions);
        p[energy].copy_from_slice(&clusters.energies);
        p[force].copy_from_slice(&clusters.forces);
        p[lr][0] = 1e-2 * (1.0 - 0.98 * step as f64 / steps as f64);
        p.run(learn)?;
    }
    let after = errors(&mut p, &unseen)?;
    let pair = p.method("pair")?;
    let (r, potential) = (p.input_of::<f64>(pair, "r")?, p.output_of::<f64>(pair, "potential")?);
    let mut learnt = Vec::new();
    for at in [0.9, 1.0, 1.2, 1.5, 1.8, 2.2] {
        p[r][0] = at;
        p.run(pair)?;
        learnt.push([at, p[potential][0]]);
    }
    let size = distance(&unseen.forces, std::iter::repeat(0.0));
    Ok(Fit { force: [before[0], after[0], size], energy: [before[1], after[1]], potential: learnt })
}

#[allow(dead_code, reason = "a test includes this file")]
fn main() -> Result<()> {
    let fit = fit(1000)?;
    println!("{:>6} {:>10} {:>10}", "r", "learnt", "known");
    for [r, learnt] in fit.potential {
        println!("{r:>6.2} {learnt:>10.4} {:>10.4}", morse(r)[0]);
    }
    let ([before, after, size], [energy_before, energy_after]) = (fit.force, fit.energy);
    println!("clusters that training never saw, root mean squares:");
    println!("force: error {before:.4} before training, {after:.4} after it; the forces are {size:.4}");
    println!("energy of an atom: error {energy_before:.4} before training, {energy_after:.4} after it");
    Ok(())
}
