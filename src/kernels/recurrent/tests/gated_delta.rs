//! The gated delta rule and its adjoint against the formulas, one number after another.

use crate::abi::Split;
use crate::float::Float;
use crate::harness::{In, Out, close, noise, run_in_ranges, written_elements};
use crate::recurrent::gated_delta::{GatedDelta, gated_delta_kernel};
use crate::recurrent::gated_delta_backward::gated_delta_backward_kernel;

/// Operands in order, the gradient of o, and that of the last state.
struct Numbers {
    operands: [Vec<f64>; 6],
    grads: [Vec<f64>; 2],
}

/// Elements of the operands.
fn lens(p: &GatedDelta) -> [usize; 6] {
    let rows = p.batch * p.steps * p.heads;
    [rows * p.keys, rows * p.keys, rows * p.values, rows, rows, p.batch * p.heads * p.state_len()]
}

impl Numbers {
    fn draw(p: &GatedDelta) -> Numbers {
        let [n, _, v, rows, _, states] = lens(p);
        let all = |n: usize, seed: u64| -> Vec<f64> { noise(n, seed).iter().map(|x| f64::from(*x as f32)).collect() };
        let some = |there: bool, n: usize, seed: u64| if there { all(n, seed) } else { vec![0.0; n] };
        let g = all(rows, 4).iter().map(|g| -g.abs()).collect();
        let operands = [all(n, 1), all(n, 2), all(v, 3), g, all(rows, 5), some(p.state, states, 6)];
        Numbers { operands, grads: [all(v, 7), some(p.last, states, 8)] }
    }

    fn reads<T: Float>(&self, p: &GatedDelta) -> Vec<In> {
        let of = |x: &Vec<f64>| In::of(&x.iter().map(|x| T::from_f64(*x)).collect::<Vec<T>>());
        self.operands.iter().take(5 + usize::from(p.state)).map(of).collect()
    }

    fn backward_reads<T: Float>(&self, p: &GatedDelta) -> Vec<In> {
        let of = |x: &Vec<f64>| In::of(&x.iter().map(|x| T::from_f64(*x)).collect::<Vec<T>>());
        self.grads.iter().take(1 + usize::from(p.last)).map(of).chain(self.reads::<T>(p)).collect()
    }
}

/// The state of one head before each step, and after the last.
fn states(p: &GatedDelta, x: &Numbers, [b, h]: [usize; 2]) -> Vec<Vec<f64>> {
    let [_, k, v, g, beta, first] = &x.operands;
    let (n, m) = (p.keys, p.values);
    let mut all = vec![first[(b * p.heads + h) * n * m..][..n * m].to_vec()];
    for t in 0..p.steps {
        let at = (b * p.steps + t) * p.heads + h;
        let faded: Vec<f64> = all[t].iter().map(|s| s * g[at].exp()).collect();
        let d: Vec<f64> = (0..m)
            .map(|j| beta[at] * (v[at * m + j] - (0..n).map(|i| k[at * n + i] * faded[i * m + j]).sum::<f64>()))
            .collect();
        all.push((0..n * m).map(|e| faded[e] + k[at * n + e / m] * d[e % m]).collect());
    }
    all
}

/// o and the last states.
fn forward(p: &GatedDelta, x: &Numbers) -> [Vec<f64>; 2] {
    let (n, m) = (p.keys, p.values);
    let (mut o, mut last) = (vec![0.0; lens(p)[2]], Vec::new());
    for (b, h) in (0..p.batch).flat_map(|b| (0..p.heads).map(move |h| (b, h))) {
        let all = states(p, x, [b, h]);
        for t in 0..p.steps {
            let at = (b * p.steps + t) * p.heads + h;
            for j in 0..m {
                let sum: f64 = (0..n).map(|i| x.operands[0][at * n + i] * all[t + 1][i * m + j]).sum();
                o[at * m + j] = sum / (n as f64).sqrt();
            }
        }
        last.extend(&all[p.steps]);
    }
    [o, last]
}

/// The gradient of operand `i` by central differences of Σ o·ō + Σ S·S̄.
fn slopes(p: &GatedDelta, x: &Numbers, i: usize) -> Vec<f64> {
    let value = |step: f64, e: usize| {
        let mut moved = Numbers { operands: x.operands.clone(), grads: x.grads.clone() };
        moved.operands[i][e] += step;
        let of = forward(p, &moved);
        let terms = of.iter().zip(&x.grads).flat_map(|(y, g)| y.iter().zip(g).map(|(y, g)| y * g));
        terms.sum::<f64>()
    };
    let h = 1e-4;
    let slope = |e: usize| (8.0 * (value(h, e) - value(-h, e)) - (value(2.0 * h, e) - value(-2.0 * h, e))) / (12.0 * h);
    (0..x.operands[i].len()).map(slope).collect()
}

/// Shapes: units by members and by heads, states that are square or not, no step and one step.
fn shapes() -> Vec<GatedDelta> {
    let all = [[1, 0, 2, 3, 2], [1, 1, 1, 1, 1], [2, 3, 1, 2, 4], [1, 5, 3, 4, 2], [2, 2, 2, 3, 18], [1, 7, 1, 17, 1]];
    let of = |(i, [batch, steps, heads, keys, values]): (usize, [usize; 5])| GatedDelta {
        batch,
        steps,
        heads,
        keys,
        values,
        state: i % 3 != 1,
        last: i % 4 < 2,
    };
    all.into_iter().enumerate().map(of).collect()
}

fn forward_agrees<T: Float>(tolerance: f64) {
    for p in shapes() {
        assert_eq!(GatedDelta::from_words(&p.to_words()), p);
        let (x, units, size) = (Numbers::draw(&p), p.units(), size_of::<T>());
        let [o, last] = forward(&p, &x);
        let writes = [
            Out(o.len(), size, units.split(p.steps, p.values)),
            Out(last.len(), size, units.split(1, p.state_len())),
            Out(p.scratch(), size, Split::PerThread(p.scratch())),
        ];
        let got = run_in_ranges(gated_delta_kernel::<T>, &p.to_words(), &x.reads::<T>(&p), &writes, units.count());
        for (j, want) in [o, last].iter().enumerate() {
            close(&written_elements::<T>(&got, j).iter().map(|x| x.to_f64()).collect::<Vec<_>>(), want, tolerance);
        }
    }
}

fn backward_agrees<T: Float>(tolerance: f64) {
    for p in shapes() {
        let (x, units, size) = (Numbers::draw(&p), p.units(), size_of::<T>());
        let (lens, rows) = (lens(&p), [p.keys, p.keys, p.values, 1, 1]);
        let mut writes: Vec<Out> =
            rows.iter().zip(lens).map(|(n, len)| Out(len, size, units.split(p.steps, *n))).collect();
        writes.extend(p.state.then(|| Out(lens[5], size, units.split(1, p.state_len()))));
        writes.push(Out(p.backward_scratch(), size, Split::PerThread(p.backward_scratch())));
        let reads = x.backward_reads::<T>(&p);
        let got = run_in_ranges(gated_delta_backward_kernel::<T>, &p.to_words(), &reads, &writes, units.count());
        for i in 0..5 + usize::from(p.state) {
            let ours: Vec<f64> = written_elements::<T>(&got, i).iter().map(|x| x.to_f64()).collect();
            close(&ours, &slopes(&p, &x, i), tolerance);
        }
    }
}

#[test]
fn the_rule_is_the_naive_loop() {
    forward_agrees::<f64>(1e-13);
    forward_agrees::<f32>(2e-5);
}

#[test]
fn all_gradients_are_those_of_differences() {
    backward_agrees::<f64>(1e-8);
    backward_agrees::<f32>(1e-4);
}
