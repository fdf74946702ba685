//! Measures an RNN step inside a scan against the same steps unrolled.
use arenagrad::nodes::{Builder, DType, GraphBuf};
use arenagrad::passes::prepare::flatten;
use arenagrad::session::Session;
use std::time::Instant;

fn rnn(steps: usize, batch: usize, n: usize) -> GraphBuf {
    let g = Builder::new("rnn");
    let x = g.input("x", [steps, batch, n], DType::F32);
    let h0 = g.input("h0", [batch, n], DType::F32);
    let (w, u) = (g.input("w", [n, n], DType::F32), g.input("u", [n, n], DType::F32));
    let b = g.input("b", [n], DType::F32);
    let (h, y) = g.scan(&[h0], &[x], |h, x| {
        let h = (x[0].matmul(w) + h[0].matmul(u) + b).tanh();
        (vec![h], vec![h])
    });
    let loss = (y[0] * y[0]).sum(..) + h[0].sum(..);
    g.finish([loss.named("loss")]).unwrap()
}

fn time(g: &GraphBuf, steps: usize, threads: usize) -> (f64, f64, usize, usize) {
    let start = Instant::now();
    let mut p = Session::new().threads(threads).compile(g).unwrap();
    let compile = start.elapsed().as_secs_f64();
    for name in ["x", "h0", "w", "u", "b"] {
        let x = p.input_mut::<f32>(name).unwrap();
        let n = x.len();
        x.iter_mut().enumerate().for_each(|(i, x)| *x = ((i * 7919 % n) as f32 / n as f32 - 0.5) * 0.1);
    }
    let mut best = f64::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        p.step().unwrap();
        best = best.min(start.elapsed().as_secs_f64());
    }
    (best / steps as f64 * 1e6, compile * 1e3, p.plan().instructions, p.plan().arena_bytes)
}

fn main() {
    for (steps, batch, n) in [(128, 1, 16), (128, 8, 64), (64, 32, 256)] {
        let g = rnn(steps, batch, n);
        let flat = flatten(g.view()).unwrap();
        let grad = |g: &GraphBuf| {
            arenagrad::passes::grad(g.view(), "loss", &arenagrad::passes::GradOptions::wrt(&["w", "u", "b", "h0"]))
                .unwrap()
        };
        for threads in [1, 2] {
            for (what, a, b) in [("forward", &g, &flat), ("gradient", &grad(&g), &grad(&flat))] {
                println!(
                    "{steps}x{batch}x{n} threads {threads} {what}: scan {:?} unrolled {:?}  (us/step, compile ms, instr, bytes)",
                    time(a, steps, threads),
                    time(b, steps, threads)
                );
            }
        }
    }
}
