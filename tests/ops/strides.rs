//! Steps beyond the end of an axis: what is taken, what it costs and its gradient are those of the least step that
//! takes as much.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{How, PLAIN, Tensor, TensorDraws, run};
use arenagrad::graph::Builder;
use arenagrad::graph::DType;
use arenagrad::graph::GraphBuf;
use arenagrad::graph::Var;
use arenagrad::graph::window::Conv;
use arenagrad::graph::window::ConvTranspose;
use arenagrad::graph::window::Pool;
use arenagrad::graph::window::Unfold;
use arenagrad::graph::{GradOptions, grad};
use arenagrad::op::Op;
use arenagrad::session::Session;
use arenagrad::tools::ops::layout::attrs::SliceAttrs;
use arenagrad::tools::passes::ad::prepare;

const F64: DType = DType::F64;
const HUGE: usize = i64::MAX as usize;

/// The graph of `y` and the gradient of Σ y² in `x`, and in `w` if there is one.
fn both(f: impl Fn(&Builder) -> Var<'_>) -> GraphBuf {
    let g = Builder::new("g");
    let y = f(&g);
    let f = g.finish([(y * y).sum(..).named("loss"), y.named("y")]).unwrap();
    let names: Vec<String> = f.view().leaves().map(|l| l.name.to_string()).collect();
    let wrt: Vec<&str> = names.iter().map(String::as_str).collect();
    grad(&f, "loss", &GradOptions::wrt(&wrt)).unwrap()
}

fn results(g: &GraphBuf, how: How) -> Vec<Tensor> {
    use arenagrad::tools::arena::ids::Id;
    let mut draw = TensorDraws(16);
    let v = g.view();
    let inputs: Vec<Tensor> = v
        .leaves()
        .map(|l| draw.tensor(v.dtype[l.value.at()], &v.dims(l.value), arenagrad::tools::ir::opdef::Domain::Real))
        .collect();
    run(g, &inputs, how)
}

/// Both graphs compute the same, as they are and in plain ops, and the first takes no more memory.
fn alike(what: &str, far: &GraphBuf, near: &GraphBuf) {
    let bytes = |g: &GraphBuf| Session::new().plan(g).unwrap().arena_bytes;
    assert!(bytes(far) <= bytes(near), "{what}: {} bytes, not {}", bytes(far), bytes(near));
    assert_eq!(results(far, PLAIN), results(near, PLAIN), "{what}");
    let plain = |g: &GraphBuf| prepare::decompose_fully(g.view()).unwrap();
    let raw = How { optimise: false, ..PLAIN };
    assert!(bytes(&plain(far)) <= bytes(&plain(near)), "{what} in plain ops");
    assert_eq!(results(&plain(far), raw), results(&plain(near), raw), "{what} in plain ops");
}

#[test]
fn a_slice_of_one_element_costs_one_element_whatever_its_step() {
    for step in [3, 100_000_000, HUGE] {
        let builder = |step: usize| both(|g| g.input("x", [4, 3], F64).slice(&[1, 0], &[4, 3], &[step, 2]));
        alike("slice", &builder(step), &builder(3));
        // As a file may have it.
        let text = |step: usize| {
            both(|g| {
                let cut = SliceAttrs { starts: vec![1, 0], limits: vec![4, 3], steps: vec![step as i64, 2] };
                g.emit1(Op::SLICE, &[g.input("x", [4, 3], F64)], &cut.list())
            })
        };
        alike("slice of a file", &text(step), &text(3));
    }
    let g = Builder::new("g");
    let x = g.input("x", [4], F64).slice(&[1], &[4], &[HUGE]);
    assert_eq!(x.dims()[..], [1]);
    let bad = x.slice(&[0], &[2], &[HUGE]);
    assert!(!bad.is_some() && g.error().is_some(), "an end beyond the axis is an error, whatever the step");
}

#[test]
fn a_slice_of_several_elements_is_as_wide_as_its_axis() {
    for (size, start, step) in [(10, 0, 9), (10, 1, 8), (11, 3, 4), (12, 0, 5), (3, 1, 1), (9, 2, 3)] {
        let f = both(|g| g.input("x", [size], F64).slice(&[start], &[size], &[step]));
        let all = results(&f, PLAIN);
        let (y, dx) = (&all[1].data, &all[2].data);
        let mut want = vec![0.0; size];
        y.iter().enumerate().for_each(|(k, y)| want[start + k * step] = 2.0 * y);
        assert_eq!(*dx, want, "{size} from {start} in steps of {step}");
    }
}

#[test]
fn strides_and_dilations_beyond_the_end_cost_nothing() {
    for far in [1 << 20, 1 << 40] {
        let conv2 = |s: usize, d: usize| {
            both(|g| {
                let (x, w) = (g.input("x", [2, 2, 5, 6], F64), g.input("w", [3, 2, 1, 3], F64));
                x.conv2d(w, Conv::default().stride([2, s]).pad([1, 0, 0, 0]).dilation([d, 1]).groups(1))
            })
        };
        alike("conv2d", &conv2(far, far), &conv2(4, 1));
        let conv1 = |s: usize, d: usize| {
            both(|g| {
                let (x, w) = (g.input("x", [2, 2, 5], F64), g.input("w", [2, 2, 1], F64));
                x.conv1d(w, Conv::default().stride([s]).pad([1, 0]).dilation([d]).groups(1))
            })
        };
        alike("conv1d", &conv1(far, far), &conv1(6, 1));
        let conv3 = |s: usize, d: usize| {
            both(|g| {
                let (x, w) = (g.input("x", [1, 2, 4, 3, 3], F64), g.input("w", [2, 2, 2, 1, 2], F64));
                x.conv3d(w, Conv::default().stride([s, 1, s]).pad([0; 6]).dilation([1, d, 1]).groups(1))
            })
        };
        alike("conv3d", &conv3(far, far), &conv3(3, 1));
        let pools = |s: usize, d: usize| {
            both(|g| {
                let x = g.input("x", [2, 2, 5, 6], F64);
                let opt = Pool::new([3, 1]).stride([s, 2]);
                let max = x.max_pool2d(opt.dilation([1, d]));
                max + x.avg_pool2d(opt) + x.sum_pool2d(opt) + x.min_pool2d(opt.dilation([1, d]))
            })
        };
        alike("pools", &pools(far, far), &pools(3, 1));
        let volume = |s: usize| {
            both(|g| {
                let x = g.input("x", [1, 2, 4, 3, 3], F64);
                let opt = Pool::new([2, 2, 2]).stride([s, 1, s]);
                x.max_pool3d(opt) + x.avg_pool3d(opt) + x.sum_pool3d(opt)
            })
        };
        alike("3-D pools", &volume(far), &volume(3));
        let line = |s: usize| {
            both(|g| {
                let opt = Pool::new([4]).stride([s]).padding([2]).ceil_mode(true);
                let x = g.input("x", [2, 2, 5], F64);
                x.max_pool1d(opt) + x.avg_pool1d(opt)
            })
        };
        alike("1-D pools", &line(far), &line(8));
        let columns = |s: usize, d: usize| {
            both(|g| {
                let opt = Unfold::new([2, 1]).stride([s, 1]).dilation([1, d]);
                g.input("x", [2, 2, 5, 4], F64).im2col(opt)
            })
        };
        alike("im2col", &columns(far, far), &columns(4, 1));
        let turned = |s: usize, d: usize| {
            both(|g| {
                let (x, w) = (g.input("x", [2, 2, 1, 1], F64), g.input("w", [2, 2, 3, 1], F64));
                x.conv_transpose2d(w, ConvTranspose::default().stride([s, s]).dilation([1, d]))
            })
        };
        alike("conv_transpose2d", &turned(far, far), &turned(1, 1));
        let deep = |s: usize| {
            both(|g| {
                let (x, w) = (g.input("x", [1, 2, 1, 2, 2], F64), g.input("w", [2, 2, 2, 2, 2], F64));
                x.conv_transpose3d(w, ConvTranspose::default().stride([s, 1, 1]))
            })
        };
        alike("conv_transpose3d", &deep(far), &deep(1));
    }
    // A lone tap has no distance to step over.
    let padded = both(|g| {
        let opt = Pool::new([3, 1]).dilation([1, HUGE]).pad([1, 1, 0, 0]);
        g.input("x", [1, 1, 5, 4], F64).max_pool2d(opt)
    });
    assert_eq!(results(&padded, PLAIN)[1].dims, [1, 1, 2, 4]);
}
