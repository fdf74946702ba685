//! Times of graphs, and the numbers of threads that follow.

use super::*;
use crate::nodes::{Builder, DType, GraphBuf};
use crate::sched::schedule;
use crate::sched::share::share_tapes;

const THREADS: [usize; 13] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128];

/// Two layers and the gradient-like product back, of width `n`.
fn layers(n: usize) -> GraphBuf {
    let g = Builder::new("g");
    let (x, w) = (g.input("x", [n, n], DType::F32), g.input("w", [n, n], DType::F32));
    let y = x.matmul(w).tanh();
    g.finish([(y.matmul(w) + x).named("y")]).unwrap()
}

/// The number of threads that is chosen, and picoseconds of a step.
fn chosen(graph: &GraphBuf, threads: usize) -> (usize, u64) {
    let s = schedule(graph.view(), threads).unwrap();
    let tapes = share_tapes(&s.plan);
    (tapes.threads(), modelled_step(&s.plan, &tapes))
}

#[test]
fn small_programs_get_one_thread_and_large_ones_all() {
    assert!([2, 4, 64].map(|threads| chosen(&layers(8), threads).0) == [1; 3]);
    assert!([2, 3, 8].map(|threads| chosen(&layers(512), threads).0) == [2, 3, 8]);
    // In between, a few threads are best.
    let (few, most) = (chosen(&layers(96), 64), chosen(&layers(1024), 64));
    assert!(few.0 < most.0, "{few:?} {most:?}");
}

#[test]
fn more_threads_are_never_slower_and_more_work_never_faster() {
    let sizes = [4, 16, 48, 96, 200, 400];
    let times = sizes.map(|n| THREADS.map(|threads| chosen(&layers(n), threads).1));
    for t in &times {
        assert!(t.windows(2).all(|w| w[1] <= w[0]), "{t:?}");
    }
    for k in 0..THREADS.len() {
        assert!(times.windows(2).all(|w| w[0][k] < w[1][k]), "{k}");
    }
    let (one, two) = (times[5][0], times[5][1]);
    assert!(2 * two > one && 3 * two < 2 * one, "two threads of large products: {two} of {one}");
}
