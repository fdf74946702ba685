//! Kernels at odd sizes: products, windows, reductions, moves and look-ups along axes whose lengths are near the widths
//! of vectors, tiles and units, against the oracle. Some runs divide the units among threads.

use super::pipeline::{any_way, assert_agrees};
use super::{GRAPHS, Target, scripts};
use crate::script::Script;
use arenagrad::error::{Kind, Result};
use arenagrad::graph::window::{Conv2d, Pool2d};
use arenagrad::graph::{Attention, Builder, DType, GraphBuf, Init, Layout, Scatter, Var};
use arenagrad::optim::{self, train};

pub const TARGET: Target = Target {
    name: "kernels",
    about: "kernels at sizes beside those of vectors, tiles and units compute what the oracle computes",
    run,
    seeds: scripts,
    words: &[],
    max_len: 64,
    memory: GRAPHS,
};

/// Sizes beside powers of two.
const SIZES: &[usize] =
    &[1, 2, 3, 4, 5, 7, 8, 9, 6, 15, 16, 17, 12, 31, 32, 33, 24, 63, 64, 65, 40, 127, 128, 129, 100];

/// A size of at most `most`.
fn size(s: &mut Script<'_>, most: usize) -> usize {
    let n = SIZES.iter().filter(|&&n| n <= most).count();
    SIZES.iter().copied().filter(|&n| n <= most).nth(s.below(n as u32) as usize).unwrap_or(1)
}

/// A leaf of these dimensions.
fn leaf<'g>(g: &'g Builder, name: &str, dims: &[usize], dtype: DType) -> Var<'g> {
    g.input(name, dims, dtype)
}

/// A value that is not a leaf but a view or a copy of one: a part of a longer one, or a transposed one.
fn view_or_copy<'g>(g: &'g Builder, s: &mut Script<'_>, name: &str, dims: &[usize], dtype: DType) -> Var<'g> {
    let mut more = dims.to_vec();
    match (s.below(4), dims.len()) {
        (0, 1..) => {
            more[0] += 3;
            leaf(g, name, &more, dtype).narrow(0, 1 + s.below(2) as usize, dims[0])
        }
        (1, 2..) => {
            let n = dims.len();
            more.swap(n - 1, n - 2);
            let mut perm: Vec<i64> = (0..n as i64).collect();
            perm.swap(n - 1, n - 2);
            leaf(g, name, &more, dtype).transpose(&perm)
        }
        (2, 1..) if dtype.is_float() => leaf(g, name, dims, dtype).tanh(),
        _ => leaf(g, name, dims, dtype),
    }
}

/// What a function adds to the graph.
type Kernel = for<'g> fn(&'g Builder, &mut Script<'_>, DType) -> Var<'g>;

fn product<'g>(g: &'g Builder, s: &mut Script<'_>, dtype: DType) -> Var<'g> {
    let (m, k, n) = (size(s, 65), size(s, 65), size(s, 65));
    let (ta, tb) = (s.flag(), s.flag());
    let batch: &[usize] = if s.below(4) == 0 { &[3] } else { &[] };
    let dims = |a: usize, b: usize, t: bool| [batch, &if t { [b, a] } else { [a, b] }].concat();
    let (a, b) = (view_or_copy(g, s, "a", &dims(m, k, ta), dtype), view_or_copy(g, s, "b", &dims(k, n, tb), dtype));
    let y = a.matmul_t(b, ta, tb);
    match s.below(4) {
        0 => (y + leaf(g, "bias", &[n], dtype)).gelu(),
        1 => (y + leaf(g, "bias", &[n], dtype)).relu(),
        _ => y,
    }
}

fn integers<'g>(g: &'g Builder, s: &mut Script<'_>, _: DType) -> Var<'g> {
    let (m, k, n) = (size(s, 33), size(s, 129), size(s, 33));
    let dtype = s.pick(&[DType::I8, DType::U8, DType::I32]);
    leaf(g, "a", &[m, k], dtype).matmul(leaf(g, "b", &[k, n], dtype))
}

fn convolution<'g>(g: &'g Builder, s: &mut Script<'_>, dtype: DType) -> Var<'g> {
    let (groups, h, w) = (s.pick(&[1, 1, 2, 17]), size(s, 15), 3 + size(s, 17));
    let (c, o) = if groups == 17 { (17, 17) } else { (groups * size(s, 5), groups * size(s, 9)) };
    let k = 1 + s.below(3) as usize;
    let n = 1 + s.below(2) as usize;
    let x = view_or_copy(g, s, "x", &[n, c, h, w], dtype);
    let options = Conv2d::default().stride(1 + s.below(4) as usize).padding(s.below(3) as usize).groups(groups);
    let options = if s.below(4) == 0 { options.dilation([1, 2]) } else { options };
    convolved(g, s, x, [o, c / groups, k, k], options)
}

/// A convolution of the shapes that may be computed at points: 3 × 3 taps, 16 channels or more, 24 tiles or more.
fn wide_convolution<'g>(g: &'g Builder, s: &mut Script<'_>, dtype: DType) -> Var<'g> {
    let (c, o) = (15 + size(s, 3), s.pick(&[16, 20]));
    let (h, w) = (17 + size(s, 4), 20 + size(s, 8));
    let x = view_or_copy(g, s, "x", &[1, c, h, w], dtype);
    let options = Conv2d::default().padding(s.below(3) as usize);
    convolved(g, s, x, [o, c, 3, 3], options)
}

fn convolved<'g>(g: &'g Builder, s: &mut Script<'_>, x: Var<'g>, w: [usize; 4], options: Conv2d) -> Var<'g> {
    let y = x.conv2d(leaf(g, "w", &w, x.dtype()), options);
    if s.flag() { y.relu() } else { y }
}

fn pool<'g>(g: &'g Builder, s: &mut Script<'_>, dtype: DType) -> Var<'g> {
    let (h, w, k) = (3 + size(s, 17), 3 + size(s, 33), 1 + s.below(3) as usize);
    let c = size(s, 9);
    let x = view_or_copy(g, s, "x", &[2, c, h, w], dtype);
    let options = Pool2d::new(k).stride(1 + s.below(3) as usize).padding(s.below(1 + k as u32 / 2) as usize);
    let options = options.ceil_mode(s.flag()).count_include_pad(s.flag());
    match s.below(4) {
        0 => x.avg_pool2d(options),
        1 => x.sum_pool2d(Pool2d::new(k)),
        2 => x.adaptive_avg_pool2d([1 + s.below(4) as usize, 2]),
        _ => x.max_pool2d(options),
    }
}

/// A tensor of rank 3 and one of its axes.
fn cube<'g>(g: &'g Builder, s: &mut Script<'_>, dtype: DType) -> (Var<'g>, i64) {
    let dims = [size(s, 9), size(s, 17), size(s, 129)];
    (view_or_copy(g, s, "x", &dims, dtype), i64::from(s.below(3)))
}

fn reduction<'g>(g: &'g Builder, s: &mut Script<'_>, dtype: DType) -> Var<'g> {
    let (x, axis) = cube(g, s, dtype);
    let second = [axis, (axis + 1) % 3];
    let axes = if s.flag() { &second[..] } else { &second[..1] };
    match s.below(10) {
        0 => x.amax(axes),
        1 => x.amin(axes),
        2 => x.mean(axes),
        3 => x.logsumexp(axes),
        4 => x.var(axes, 1, s.flag()),
        5 => x.arg_max(axis, DType::I32),
        6 => x.cumsum(axis, s.flag(), s.flag()),
        7 => x.norm(2.0, axes),
        8 => x.prod(axes),
        _ => x.sum(axes),
    }
}

fn norm<'g>(g: &'g Builder, s: &mut Script<'_>, dtype: DType) -> Var<'g> {
    let (x, axis) = cube(g, s, dtype);
    let n = x.dims()[2];
    let (gamma, beta) = (leaf(g, "gamma", &[n], dtype), leaf(g, "beta", &[n], dtype));
    match s.below(5) {
        0 => x.layer_norm(gamma, beta, 1e-5),
        1 => x.rms_norm(gamma, beta, 1e-5),
        2 => x.log_softmax(axis),
        3 => x.softmax(-1),
        _ => x.softmax(axis),
    }
}

fn moves<'g>(g: &'g Builder, s: &mut Script<'_>, dtype: DType) -> Var<'g> {
    let dtype = if s.flag() { dtype } else { s.pick(&[DType::I32, DType::U8, DType::F16, DType::I64, DType::Bool]) };
    let (x, axis) = cube(g, s, dtype);
    let dims = x.dims();
    let n = dims[axis as usize];
    match s.below(8) {
        0 => x.transpose(&[2, 0, 1]),
        1 => x.transpose(&[1, 0, 2]).reshape([n, dims.numel() / n]),
        2 => x.flip(axis),
        3 => x.roll(3, axis),
        4 => x.concat(&[x], axis),
        5 => x.pad(&[1, 0, 2], &[0, 3, 1], 0.0),
        6 => x.slice(&[0, 0, 0], &dims, &[1, 2, 3]),
        _ => {
            let y = x.sum_as([axis], DType::I32);
            y.broadcast([&[3], &y.dims()[..]].concat()).cast(DType::F32)
        }
    }
}

fn lookups<'g>(g: &'g Builder, s: &mut Script<'_>, dtype: DType) -> Var<'g> {
    let (rows, width, n) = (size(s, 17), size(s, 65), size(s, 33));
    let table = view_or_copy(g, s, "table", &[rows, width], dtype);
    let at = leaf(g, "at", &[n], DType::I32);
    match s.below(5) {
        0 => table.scatter_slices(at, leaf(g, "u", &[n, width], dtype), 0, Scatter::Add),
        1 => leaf(g, "u", &[n, width], dtype).scatter_add(at, 0, rows),
        2 => table.sort(1, s.flag()).0,
        3 => table.top_k(1 + s.below(width as u32) as usize, 1).0,
        _ => table.gather(at, 0),
    }
}

fn attention<'g>(g: &'g Builder, s: &mut Script<'_>, dtype: DType) -> Var<'g> {
    let (heads, queries, keys, d) = (1 + s.below(3) as usize, size(s, 33), size(s, 33), size(s, 17));
    let q = view_or_copy(g, s, "q", &[2, heads, queries, d], dtype);
    let (k, v) = (leaf(g, "k", &[2, heads, keys, d], dtype), leaf(g, "v", &[2, heads, keys, d], dtype));
    let options = Attention::default().layout(Layout::Bhsd).causal(s.flag());
    q.attention(k, v, if s.below(4) == 0 { options.window(1 + s.below(4) as usize) } else { options })
}

fn pointwise<'g>(g: &'g Builder, s: &mut Script<'_>, dtype: DType) -> Var<'g> {
    let (x, axis) = cube(g, s, dtype);
    let mut dims = x.dims().to_vec();
    dims[axis as usize] = 1;
    let b = view_or_copy(g, s, "b", &dims, dtype);
    let mut y = x;
    for _ in 0..=s.below(4) {
        y = match s.below(10) {
            0 => y + b,
            1 => y * b,
            2 => y - x * 0.5,
            3 => y.tanh(),
            4 => y.exp(),
            5 => y.silu(),
            6 => y.maximum(b),
            7 => y.abs().sqrt(),
            8 => y.gelu(),
            _ => y.greater(0.0).select(y, b),
        };
    }
    y
}

const KERNELS: &[Kernel] = &[
    product,
    product,
    integers,
    convolution,
    pool,
    wide_convolution,
    reduction,
    reduction,
    norm,
    moves,
    lookups,
    attention,
    pointwise,
];

/// Those of `KERNELS` whose windows may be larger than their images.
const WINDOWS: [usize; 2] = [3, 4];

/// Runs the target.
pub fn run(data: &[u8]) {
    let mut s = Script::new(data);
    let (seed, how, dtype) = (s.seed(), any_way(&mut s), s.pick(&[DType::F32, DType::F32, DType::F64]));
    let trained = s.below(6) == 0;
    let g = Builder::new("kernels");
    let kernel = s.below(KERNELS.len() as u32) as usize;
    let y = KERNELS[kernel](&g, &mut s, dtype);
    let graph = match trained && y.dtype().is_float() {
        true => stepped(&g, &mut s, y),
        false => g.finish([y.named("y")]),
    };
    match graph {
        Ok(graph) => assert_agrees(&graph, seed, &how),
        Err(e) => assert!(WINDOWS.contains(&kernel) && e.kind == Kind::Shape, "kernel {kernel}: {e}"),
    }
}

/// A training step through `y`, with a scale for it to train.
fn stepped<'g>(g: &'g Builder, s: &mut Script<'_>, y: Var<'g>) -> Result<GraphBuf> {
    let n = y.dims().last().copied().unwrap_or(1);
    let scale = g.param("scale", [n], y.dtype(), Init::Ones);
    let graph = g.finish([(y * scale).mean(..).named("loss")])?;
    match s.below(3) {
        0 => train(&graph, "loss", optim::Adam::new(0.01)),
        1 => train(&graph, "loss", optim::Sgd::new(0.1).momentum(0.9)),
        _ => train(&graph, "loss", optim::Lion::new(0.01)),
    }
}
