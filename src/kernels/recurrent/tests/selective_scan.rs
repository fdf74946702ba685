//! The selective scan and its adjoint against the formulas, one number after another.

use crate::abi::Split;
use crate::float::Float;
use crate::gemm::GemmFloat;
use crate::harness::{In, Out, close, fewer_under_miri, noise, run_in_ranges, written_elements};
use crate::recurrent::selective_scan::selective_scan_kernel;
use crate::recurrent::selective_scan_backward::selective_scan_backward_kernel;
use crate::recurrent::selective_scan_params::SelectiveScan;

/// The operands of one scan, and the gradients of its results.
struct Numbers {
    x: Vec<f64>,
    delta: Vec<f64>,
    a: Vec<f64>,
    b: Vec<f64>,
    c: Vec<f64>,
    d: Vec<f64>,
    h0: Vec<f64>,
    dy: Vec<f64>,
    last: Vec<f64>,
}

impl Numbers {
    fn draw(p: &SelectiveScan) -> Numbers {
        let (rows, states) = (p.batch * p.steps, p.batch * p.channels * p.states);
        let all = |n: usize, seed: u64| -> Vec<f64> { noise(n, seed).iter().map(|x| f64::from(*x as f32)).collect() };
        let positive = |x: Vec<f64>| -> Vec<f64> { x.iter().map(|x| x.abs() + 0.125).collect() };
        Numbers {
            x: all(rows * p.channels, 1),
            delta: positive(all(rows * p.channels, 2)),
            a: positive(all(p.channels * p.states, 3)).iter().map(|a| -a).collect(),
            b: all(rows * p.states, 4),
            c: all(rows * p.states, 5),
            d: if p.d { all(p.channels, 6) } else { vec![0.0; p.channels] },
            h0: if p.h0 { all(states, 7) } else { vec![0.0; states] },
            dy: all(rows * p.channels, 8),
            last: if p.last { all(states, 9) } else { vec![0.0; states] },
        }
    }

    /// The reads of the forward kernel.
    fn reads<T: Float>(&self, p: &SelectiveScan) -> Vec<In> {
        let of = |x: &[f64]| In::of(&x.iter().map(|x| T::from_f64(*x)).collect::<Vec<T>>());
        let mut all: Vec<In> = [&self.x, &self.delta, &self.a, &self.b, &self.c].map(|x| of(x)).into();
        all.extend(p.d.then(|| of(&self.d)));
        all.extend(p.h0.then(|| of(&self.h0)));
        all
    }

    fn backward_reads<T: Float>(&self, p: &SelectiveScan) -> Vec<In> {
        let of = |x: &[f64]| In::of(&x.iter().map(|x| T::from_f64(*x)).collect::<Vec<T>>());
        let mut all = vec![of(&self.dy)];
        all.extend(p.last.then(|| of(&self.last)));
        all.extend(self.reads::<T>(p));
        all.extend((p.keep > 0).then(|| of(&kept_states(p, self))));
        all
    }
}

/// The positions of one number of a state.
fn states(p: &SelectiveScan) -> impl Iterator<Item = [usize; 3]> {
    let SelectiveScan { batch, channels, states, .. } = *p;
    (0..batch).flat_map(move |b| (0..channels).flat_map(move |h| (0..states).map(move |n| [b, h, n])))
}

/// y, the last states, and the states before each step of each number.
fn forward(p: &SelectiveScan, x: &Numbers) -> (Vec<f64>, Vec<f64>, Vec<Vec<f64>>) {
    let mut y: Vec<f64> = x.x.iter().enumerate().map(|(i, v)| v * x.d[i % p.channels]).collect();
    let (mut last, mut all) = (Vec::new(), Vec::new());
    for [b, h, n] in states(p) {
        let mut state = x.h0[(b * p.channels + h) * p.states + n];
        let mut before = vec![state];
        for t in 0..p.steps {
            let row = b * p.steps + t;
            let (at, of) = (row * p.channels + h, row * p.states + n);
            state = (x.delta[at] * x.a[h * p.states + n]).exp() * state + x.delta[at] * x.x[at] * x.b[of];
            y[at] += x.c[of] * state;
            before.push(state);
        }
        last.push(state);
        all.push(before);
    }
    (y, last, all)
}

/// x̄, Δ̄, Ā, B̄, C̄, D̄, and the gradient of h_0.
fn backward(p: &SelectiveScan, x: &Numbers) -> [Vec<f64>; 7] {
    let zeros = |n: usize| vec![0.0; n];
    let (rows, channels) = (p.batch * p.steps, p.batch * p.channels);
    let mut dx: Vec<f64> = x.dy.iter().enumerate().map(|(i, dy)| dy * x.d[i % p.channels]).collect();
    let [mut ddelta, mut da, mut db, mut dc] =
        [rows * p.channels, channels * p.states, rows * p.states, rows * p.states].map(zeros);
    let (mut dd, mut dh0) = (zeros(channels), zeros(channels * p.states));
    for (i, (x, dy)) in x.x.iter().zip(&x.dy).enumerate() {
        dd[i / p.channels / p.steps * p.channels + i % p.channels] += x * dy;
    }
    let (_, _, all) = forward(p, x);
    for ([b, h, n], before) in states(p).zip(all) {
        let number = (b * p.channels + h) * p.states + n;
        let mut carry = x.last[number];
        for t in (0..p.steps).rev() {
            let row = b * p.steps + t;
            let (at, of, a) = (row * p.channels + h, row * p.states + n, x.a[h * p.states + n]);
            let lambda = x.c[of] * x.dy[at] + carry;
            carry = lambda * (x.delta[at] * a).exp();
            dc[of] += x.dy[at] * before[t + 1];
            db[of] += lambda * x.delta[at] * x.x[at];
            dx[at] += lambda * x.delta[at] * x.b[of];
            ddelta[at] += lambda * x.b[of] * x.x[at] + carry * a * before[t];
            da[number] += carry * x.delta[at] * before[t];
        }
        dh0[number] = carry;
    }
    [dx, ddelta, da, db, dc, dd, dh0]
}

/// The states before each stretch, `[batch, stretches, channels, states]`.
fn kept_states(p: &SelectiveScan, x: &Numbers) -> Vec<f64> {
    let (_, _, all) = forward(p, x);
    let stretches = (0..p.batch).flat_map(|b| (0..p.stretches()).map(move |k| (b, k)));
    let (row, all) = (p.channels * p.states, &all);
    stretches.flat_map(|(b, k)| (0..row).map(move |i| all[b * row + i][k * p.stretch()])).collect()
}

/// Shapes: units by members and by channels, of one group or more, vectors that are full or not, stretches of equal
/// length or not. Each keeps no states, and states before stretches that are shorter and longer than a block.
fn shapes() -> Vec<SelectiveScan> {
    let all = [
        [1, 0, 3, 2],
        [1, 1, 1, 1],
        [2, 2, 16, 3],
        [3, 5, 7, 4],
        [2, 17, 40, 3],
        [1, 9, 33, 16],
        [5, 16, 20, 2],
        [1, 3, 600, 1],
        [1, 41, 5, 2],
        [4, 18, 50, 2],
    ];
    let of = |(i, [batch, steps, channels, states]): (usize, [usize; 4])| {
        let (d, h0, last) = (i % 2 == 1, i % 4 < 2, i % 3 < 2);
        [0, 1, 3, 20].map(|keep| SelectiveScan { batch, steps, channels, states, d, h0, last, keep })
    };
    all.into_iter().take(fewer_under_miri(10, 5)).enumerate().flat_map(of).collect()
}

fn forward_agrees<T: GemmFloat>(tolerance: f64) {
    for p in shapes() {
        assert_eq!(SelectiveScan::from_words(&p.to_words()), p);
        scan_agrees::<T>(&p, &Numbers::draw(&p), tolerance);
    }
}

fn scan_agrees<T: GemmFloat>(p: &SelectiveScan, x: &Numbers, tolerance: f64) {
    let (units, size) = (p.units(), size_of::<T>());
    let (y, last, _) = forward(p, x);
    let mut writes = vec![Out(y.len(), size, units.split(p.steps, 1)), Out(last.len(), size, units.split(1, p.states))];
    let kept = kept_states(p, x);
    writes.extend((p.keep > 0).then(|| Out(kept.len(), size, units.split(p.stretches(), p.states))));
    writes.push(Out(p.scratch(), size, Split::PerThread(p.scratch())));
    let got = run_in_ranges(selective_scan_kernel::<T>, &p.to_words(), &x.reads::<T>(p), &writes, units.count());
    let numbers = |j: usize| -> Vec<f64> { written_elements::<T>(&got, j).iter().map(|x| x.to_f64()).collect() };
    close(&numbers(0), &y, tolerance);
    close(&numbers(1), &last, tolerance);
    if p.keep > 0 {
        close(&numbers(2), &kept, tolerance);
    }
}

fn backward_agrees<T: GemmFloat>(tolerance: f64) {
    for p in shapes() {
        let (x, units) = (Numbers::draw(&p), p.units());
        let [dx, ddelta, da, db, dc, dd, dh0] = backward(&p, &x);
        let (size, sums) = (size_of::<T>(), p.sums_per_unit());
        let mut writes = vec![
            Out(dx.len(), size, units.split(p.steps, 1)),
            Out(ddelta.len(), size, units.split(p.steps, 1)),
            Out(da.len(), size, units.split(1, p.states)),
            Out(units.count() * sums, size, Split::PerUnit(sums)),
            Out(units.count() * sums, size, Split::PerUnit(sums)),
        ];
        writes.extend(p.d.then(|| Out(dd.len(), size, units.split(1, 1))));
        writes.extend(p.h0.then(|| Out(dh0.len(), size, units.split(1, p.states))));
        writes.push(Out(p.backward_scratch(), size, Split::PerThread(p.backward_scratch())));
        let reads = x.backward_reads::<T>(&p);
        let got = run_in_ranges(selective_scan_backward_kernel::<T>, &p.to_words(), &reads, &writes, units.count());
        let numbers = |j: usize| -> Vec<f64> { written_elements::<T>(&got, j).iter().map(|x| x.to_f64()).collect() };
        let summed = |j: usize| -> Vec<f64> {
            let all = numbers(j);
            (0..db.len()).map(|i| all.iter().skip(i).step_by(db.len()).sum()).collect()
        };
        for (j, want) in [&dx, &ddelta, &da].into_iter().enumerate() {
            close(&numbers(j), want, tolerance);
        }
        if !db.is_empty() {
            close(&summed(3), &db, tolerance);
            close(&summed(4), &dc, tolerance);
        }
        if p.d {
            close(&numbers(5), &dd, tolerance);
        }
        if p.h0 {
            close(&numbers(5 + usize::from(p.d)), &dh0, tolerance);
        }
    }
}

#[test]
fn the_scan_is_the_naive_loop() {
    forward_agrees::<f64>(1e-13);
    forward_agrees::<f32>(2e-5);
}

/// A finite rate whose product with log₂ e is not finite: over no time, the states stay.
#[test]
fn the_largest_rates_change_nothing_over_no_time() {
    for p in shapes().into_iter().filter(|p| p.h0) {
        let with_rate = |rate: f64| {
            let mut x = Numbers::draw(&p);
            x.a.fill(rate);
            x.delta.fill(0.0);
            x
        };
        scan_agrees::<f64>(&p, &with_rate(f64::MAX), 1e-13);
        scan_agrees::<f32>(&p, &with_rate(f64::from(f32::MAX)), 2e-5);
    }
}

#[test]
fn all_gradients_are_the_naive_ones() {
    backward_agrees::<f64>(1e-12);
    backward_agrees::<f32>(1e-4);
}

#[test]
fn scratch_grows_with_the_root_of_the_steps() {
    let of =
        |steps: usize| SelectiveScan { batch: 1, steps, channels: 1, states: 4, ..SelectiveScan::from_words(&[0; 8]) };
    let [short, long] = [of(1024), of(4096)].map(|p| p.backward_scratch());
    assert!(long < short * 2 && long > short, "{short} {long}");
}
